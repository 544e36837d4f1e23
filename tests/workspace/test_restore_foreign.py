"""Other programs writing while files are put back: never a byte of theirs is lost."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar.core.restoring import Outcome, Report
from jumar.core.trees import EntryKind, Snapshot, walk
from jumar.errors import WorkspaceConflict
from tests.workspace.crashing import Counting, Crash, Crashing, Meddling
from tests.workspace.files import File, Folder, Link, Tree
from tests.workspace.scene import Scene, leftovers

THEIRS = File(b"theirs")


def first(name: str) -> Callable[[str, int], bool]:
    return lambda called, before: called == name and before == 0


class Meddled:
    """A restore from `after` to `before`, into which somebody meddles at the first call of one name."""

    def __init__(self, scene: Scene, before: Tree, after: Tree) -> None:
        self.scene = scene
        scene.become(before)
        self.target = scene.workspace.capture()
        scene.become(after)
        self.known = scene.workspace.capture()

    def restore(self, call: str, act: Callable[[], None], *, late: bool = False, **how: bool) -> Report:
        calls = Meddling(first(call), act, after=late)
        workspace = self.scene.reopen(calls)
        try:
            return workspace.restore(workspace.plan(self.target, self.known), **how)
        finally:
            assert calls.acted


def edit(scene: Scene) -> None:
    scene.put({b"a": THEIRS})


def save(scene: Scene) -> None:
    """As editors do: a new file takes the name."""
    scene.put({b"a.new": THEIRS})
    (scene.root / "a.new").rename(scene.root / "a")


def turn_into_a_folder(scene: Scene) -> None:
    scene.remove("a")
    scene.put({b"a/b": THEIRS})


MEDDLING = [
    (edit, {b"a": THEIRS}),
    (save, {b"a": THEIRS}),
    (turn_into_a_folder, {b"a": Folder(), b"a/b": THEIRS}),
    (lambda scene: scene.remove("a"), {}),
]


@pytest.mark.parametrize(("meddle", "theirs"), MEDDLING)
@pytest.mark.parametrize("force", [False, True])
def test_a_change_in_the_last_moment_takes_the_whole_restore_back(
    scene: Scene, meddle: Callable[[Scene], None], theirs: Tree, force: bool
) -> None:
    meddled = Meddled(scene, {b"a": File(b"1"), b"b": File(b"1")}, {b"a": File(b"2"), b"b": File(b"2")})
    with pytest.raises(WorkspaceConflict) as refused:
        meddled.restore("exchange", lambda: meddle(scene), force=force)
    assert refused.value.paths == ("a",)
    assert scene.read() == {**theirs, b"b": File(b"2")}
    assert leftovers(scene) == []


@pytest.mark.parametrize(("meddle", "theirs"), MEDDLING)
def test_a_change_in_the_last_moment_stays_where_conflicts_are_skipped(
    scene: Scene, meddle: Callable[[Scene], None], theirs: Tree
) -> None:
    meddled = Meddled(scene, {b"a": File(b"1"), b"b": File(b"1")}, {b"a": File(b"2"), b"b": File(b"2")})
    report = meddled.restore("exchange", lambda: meddle(scene), skip=True)
    assert scene.read() == {**theirs, b"b": File(b"1")}
    assert (report.of(Outcome.CONFLICT), report.of(Outcome.RESTORED)) == (("a",), ("b",))
    assert leftovers(scene) == []


def test_a_file_about_to_be_deleted_that_is_changed_stays(scene: Scene) -> None:
    meddled = Meddled(scene, {}, {b"a": File(b"2"), b"b": File(b"2")})
    with pytest.raises(WorkspaceConflict) as refused:
        meddled.restore("rename_new", lambda: scene.put({b"b": THEIRS}))
    assert refused.value.paths == ("b",)
    assert scene.read() == {b"a": File(b"2"), b"b": THEIRS}
    assert leftovers(scene) == []


def test_a_file_made_where_one_is_to_be_put_stays(scene: Scene) -> None:
    meddled = Meddled(scene, {b"a": File(b"1")}, {})
    with pytest.raises(WorkspaceConflict):
        meddled.restore("rename_new", lambda: edit(scene), force=True)
    assert scene.read() == {b"a": THEIRS}
    assert leftovers(scene) == []


def test_a_file_made_in_a_folder_that_goes_keeps_the_folder(scene: Scene) -> None:
    meddled = Meddled(scene, {}, {b"d": Folder(), b"d/a": File(b"2")})
    report = meddled.restore("rename_new", lambda: scene.put({b"d/new": THEIRS}))
    assert scene.read() == {b"d": Folder(), b"d/new": THEIRS}
    assert (report.of(Outcome.DELETED), report.of(Outcome.UNCAPTURED)) == (("d/a",), ("d",))


def test_who_has_a_file_open_for_writing_writes_on_into_the_same_file(scene: Scene) -> None:
    meddled = Meddled(scene, {b"a": File(b"1")}, {b"a": File(b"2")})
    with (scene.root / "a").open("ab", buffering=0) as open_for_writing:
        with pytest.raises(WorkspaceConflict) as refused:
            meddled.restore("exchange", lambda: None, force=True)
        open_for_writing.write(b" and theirs")
    assert refused.value.paths == ("a",)
    assert scene.read() == {b"a": File(b"2 and theirs")}


def test_a_change_after_a_file_was_put_back_stays_and_is_told(scene: Scene) -> None:
    meddled = Meddled(scene, {b"a": File(b"1"), b"b": File(b"1")}, {b"a": File(b"2"), b"b": File(b"2")})
    calls = Meddling(lambda name, before: name == "exchange" and before == 1, lambda: edit(scene), after=True)
    workspace = scene.reopen(calls)
    report = workspace.restore(workspace.plan(meddled.target, meddled.known))
    assert scene.read() == {b"a": THEIRS, b"b": File(b"1")}
    assert (report.of(Outcome.CONFLICT), report.of(Outcome.RESTORED)) == (("a",), ("b",))
    assert not report.complete


class Insisting(Counting):
    """Somebody who writes anew, each time other bytes, whatever stands at `a` whenever that is about to be moved."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene
        self.written: list[bytes] = []

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        if name == "exchange" and args[2] == b"a":
            self.written.append(b"theirs, %d" % len(self.written))
            self._scene.put({b"a": File(self.written[-1])})
        return call(*args, **rest)


@pytest.mark.parametrize("how", [{}, {"force": True}, {"skip": True}])
def test_who_changes_a_file_again_and_again_loses_none_of_it(scene: Scene, how: dict[str, bool]) -> None:
    before: Tree = {b"a": File(b"1"), b"b": File(b"1"), b"c": File(b"1")}
    meddled = Meddled(scene, before, {b"a": File(b"2"), b"b": File(b"2"), b"c": File(b"2")})
    calls = Insisting(scene)
    workspace = scene.reopen(calls)
    try:
        workspace.restore(workspace.plan(meddled.target, meddled.known), **how)
    except WorkspaceConflict as conflict:
        assert conflict.paths == ("a",)
    else:
        assert how == {"skip": True}
    there = [thing.data for thing in scene.read().values() if isinstance(thing, File)]
    assert len(calls.written) == 2
    assert set(calls.written) <= set(there)


def test_who_changes_a_file_while_it_is_taken_back_loses_none_of_it(scene: Scene) -> None:
    meddled = Meddled(scene, {b"a": File(b"1"), b"b": File(b"1")}, {b"a": File(b"2"), b"b": File(b"2")})
    cut_off_after(scene, meddled, "exchange", 2)
    calls = Insisting(scene)
    scene.reopen(calls)
    there = [thing.data for thing in scene.read().values() if isinstance(thing, File)]
    assert len(calls.written) == 2
    assert set(calls.written) <= set(there)


def cut_off_after(scene: Scene, meddled: Meddled, name: str, times: int) -> None:
    """A restore whose process dies right after the n-th call of this name."""
    counting = Meddling(lambda called, before: False, lambda: None)
    trial = Scene(scene.root.parent, scene.objects, name="trial")
    trial.become(scene.read())
    workspace = trial.reopen(counting)
    workspace.restore(workspace.plan(meddled.target, meddled.known))
    at = [number for number, called in enumerate(counting.made) if called == name][times - 1]
    workspace = scene.reopen(Crashing(at, after=True))
    with pytest.raises(Crash):
        workspace.restore(workspace.plan(meddled.target, meddled.known))


@pytest.mark.parametrize("meddle", [edit, save])
def test_what_a_person_changes_after_a_crash_is_not_taken_back(scene: Scene, meddle: Callable[[Scene], None]) -> None:
    meddled = Meddled(scene, {b"a": File(b"1"), b"b": File(b"1")}, {b"a": File(b"2"), b"b": File(b"2")})
    cut_off_after(scene, meddled, "exchange", 2)
    assert {b"a": File(b"1"), b"b": File(b"1")}.items() < scene.read().items()
    meddle(scene)
    recovered = scene.workspace.recover()
    assert recovered is not None
    assert not recovered.finished
    assert [each.text for each in recovered.left] == ["a"]
    assert scene.read() == {b"a": THEIRS, b"b": File(b"2")}
    assert leftovers(scene) == []


def test_what_a_person_removes_after_a_crash_is_the_old_file_again(scene: Scene) -> None:
    meddled = Meddled(scene, {b"a": File(b"1")}, {b"a": File(b"2")})
    cut_off_after(scene, meddled, "exchange", 1)
    scene.remove("a")
    scene.workspace.recover()
    assert scene.read() == {b"a": File(b"2")}


def test_what_a_person_makes_after_a_crash_in_place_of_a_deleted_file_stays(scene: Scene) -> None:
    meddled = Meddled(scene, {b"d": Folder()}, {b"a": File(b"2"), b"d": Folder(), b"l": Link(b"a")})
    cut_off_after(scene, meddled, "rename_new", 2)
    scene.put({b"a": THEIRS})
    recovered = scene.workspace.recover()
    assert recovered is not None
    assert [each.text for each in recovered.left] == ["a"]
    assert scene.read() == {b"a": THEIRS, b"d": Folder(), b"l": Link(b"a")}
    assert leftovers(scene) == []


WRITER = """
import os, random, sys
root, seed = sys.argv[1], int(sys.argv[2])
drawn = random.Random(seed)
os.chdir(root)
for number in range(100_000_000):
    token = f"<{number}>"
    name = f"shared{drawn.randrange(3)}"
    how = drawn.randrange(5)
    if how == 0:
        with open(name, "a") as file:
            file.write(token)
    elif how == 1:
        with open(f"own{number}", "w") as file:
            file.write(token)
    elif how == 2:
        folder = f"folder{drawn.randrange(4)}"
        try:
            os.makedirs(f"{folder}/inner", exist_ok=True)
            with open(f"{folder}/inner/own{number}", "x") as file:
                file.write(token)
        except OSError:
            continue  # the folder was taken away in between
    elif how == 3:
        try:
            os.chmod(name, drawn.choice([0o600, 0o644]))
            with open(name, "r+") as file:
                file.seek(0, 2)
                file.write(token)
        except FileNotFoundError:
            continue
    else:
        try:
            with open(name) as file:
                text = file.read()
        except FileNotFoundError:
            continue
        with open("draft", "w") as file:
            file.write(token)
        os.rename("draft", f"saved{drawn.randrange(20)}-{number}")
    print(token, flush=True)
"""


def read_lines(stream: Iterable[str], lines: list[str], allowed: threading.Semaphore, ended: threading.Event) -> None:
    """Read lines as they come, as many as are allowed; in the end all there are."""
    for line in stream:
        lines.append(line)
        if not ended.is_set():
            allowed.acquire()


def check_that_nothing_is_lost(scene: Scene, seed: int, rounds: int) -> None:
    print(f"seed {seed}")
    scene.become({b"shared0": File(b"0"), b"shared1": File(b"1"), b"shared2": File(b"2")})
    target = scene.workspace.capture()
    command = [sys.executable, "-c", WRITER, str(scene.root), str(seed)]
    refusals = restores = 0
    written: list[str] = []
    allowed, ended = threading.Semaphore(0), threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        fcntl.fcntl(writer.stdout, fcntl.F_SETPIPE_SZ, 4096)  # it is ahead by a few hundred files at most
        written.append(writer.stdout.readline())
        reader = threading.Thread(target=read_lines, args=(writer.stdout, written, allowed, ended))
        reader.start()
        try:
            while restores + refusals < rounds:
                current = scene.workspace.capture()
                allowed.release(100)  # ... so that it writes while files are put back
                try:
                    scene.restore(target, current, force=True, skip=(restores + refusals) % 3 > 0)
                    restores += 1
                except WorkspaceConflict:
                    refusals += 1
        finally:
            writer.kill()
            ended.set()
            allowed.release()
            reader.join()
    print(f"{restores} restores, {refusals} refusals")
    assert restores > 0
    text = everything_there_is(scene)
    lost = [token for token in map(str.strip, written) if token.endswith(">") and token not in text]
    assert (len(written) > rounds, lost) == (True, [])


def test_a_program_that_writes_all_the_time_loses_nothing(quick_path: Path) -> None:
    scene = Scene(quick_path)
    check_that_nothing_is_lost(scene, random.randrange(1 << 32), 15)
    scene.objects.close()


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(6))
def test_programs_that_write_all_the_time_lose_nothing_in_many_restores(quick_path: Path, number: int) -> None:
    scene = Scene(quick_path)
    check_that_nothing_is_lost(scene, random.randrange(1 << 32), 200)
    scene.objects.close()


def everything_there_is(scene: Scene) -> str:
    """All contents in the root, and in every safety snapshot."""
    texts = [thing.data.decode() for thing in scene.read().values() if isinstance(thing, File)]
    for digest, _ in scene.objects.pins():
        texts += contents(scene, scene.objects.get_snapshot(digest))
    return "\n".join(texts)


def contents(scene: Scene, snapshot: Snapshot) -> Iterator[str]:
    for _, entry in walk(scene.objects.load, snapshot.root):
        if entry.kind is EntryKind.FILE and entry.digest is not None:
            yield scene.objects.get_blob(entry.digest).decode()


def test_a_hard_link_to_a_file_that_is_put_back_keeps_the_old_content(scene: Scene, tmp_path: Path) -> None:
    meddled = Meddled(scene, {b"a": File(b"1")}, {b"a": File(b"2")})
    os.link(scene.root / "a", tmp_path / "elsewhere")
    scene.restore(meddled.target, meddled.known)
    assert scene.read() == {b"a": File(b"1")}
    assert (tmp_path / "elsewhere").read_bytes() == b"2"
