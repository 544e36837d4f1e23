"""What a store in a folder is opened on, and what its files look like to a person."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.core.changes import Guard
from jumar.core.store import RunFilter
from jumar.errors import IntegrityError, JumarError, SchemaMismatch, StoreUnavailable
from jumar.stores.file import layout
from jumar.stores.file.store import FileStore
from jumar.stores.opening import open_store
from jumar.stores.sqlite.connection import newest_schema
from jumar.testing.conformance_scene import Scene, call
from tests.crash.file_scene import LARGE, made, steps


@pytest.mark.parametrize("name", ["store", "two words", "naïve-攀登", "50%", "a#b?c", "-dash"])
def test_a_folder_of_any_name_becomes_a_store(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        store = open_store(f"file:{tmp_path / name}")
        run_id = Scene(store).queued(run_id="one").run_id if not store.runs(RunFilter()) else "one"
        assert store.run(run_id) is not None
        store.close()


def test_a_relative_path_and_one_with_slashes_before_it_name_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = open_store("file:runs")
    Scene(first).queued(run_id="one")
    for address in (f"file:{tmp_path}/runs", f"file://{tmp_path}/runs"):
        second = open_store(address)
        assert second.run("one") is not None
        second.close()
    monkeypatch.chdir("/")
    Scene(first).queued(run_id="two")
    first.close()
    assert (tmp_path / "runs" / "runs" / "two").is_dir()


def test_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    assert store.migrated == (0, newest_schema())
    store.close()
    again = FileStore(str(tmp_path))
    assert again.migrated == (newest_schema(), newest_schema())
    again.close()


@pytest.mark.parametrize("there", ["notes.txt", "runs/2020/log.json"])
def test_a_folder_that_belongs_to_something_else_is_left_alone(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaMismatch, match="no store of Jumar's"):
        FileStore(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        ({"store": "jumar", "format": 2, "schema": 4}, SchemaMismatch),
        ({"store": "jumar", "format": 1, "schema": 10_000}, SchemaMismatch),
        ({"store": "somebody's"}, SchemaMismatch),
        ({"store": "jumar"}, IntegrityError),
        ("no object", IntegrityError),
    ],
    ids=["format", "schema", "another", "numbers", "text"],
)
def test_the_mark_of_a_store_is_read_before_anything_else(tmp_path: Path, mark: Any, error: type[JumarError]) -> None:
    (tmp_path / layout.MARK).write_text(json.dumps(mark))
    with pytest.raises(error):
        FileStore(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [layout.MARK]


def test_a_store_of_an_older_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "s"))
    Scene(store).queued(run_id="one")
    store.close()
    mark = tmp_path / "s" / layout.MARK
    mark.write_text(json.dumps({"store": "jumar", "format": 1, "schema": newest_schema() - 1}))
    head = tmp_path / "s" / "runs" / "one" / "head.json"
    store = FileStore(str(tmp_path / "s"))
    assert store.migrated == (newest_schema() - 1, newest_schema())
    assert json.loads(mark.read_text())["schema"] == newest_schema()
    assert store.run("one") is not None
    assert head.exists()
    store.close()


def test_a_file_a_missing_folder_and_a_network_filesystem_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="is a file"):
        FileStore(str(tmp_path / "file"))
    with pytest.raises(StoreUnavailable, match="does not exist"):
        FileStore(str(tmp_path / "no" / "such"))
    monkeypatch.setattr(layout, "network_filesystem", lambda _: "nfs4")
    with pytest.raises(StoreUnavailable, match="network filesystem"):
        FileStore(str(tmp_path / "far"))
    assert not (tmp_path / "far").exists()


@pytest.mark.parametrize("run_id", ["a/b", "..", "UPPER", ".new", "x" * 300, "über", "con"])
def test_a_run_may_have_any_id(tmp_path: Path, run_id: str) -> None:
    store = FileStore(str(tmp_path / "s"))
    Scene(store).queued(run_id=run_id)
    store.close()
    store = FileStore(str(tmp_path / "s"))
    assert store.find(run_id[-20:], 5) == [run_id]
    [folder] = (tmp_path / "s" / "runs").iterdir()
    assert (folder.name == run_id) == (run_id == "con")
    store.close()


def test_a_person_can_read_what_is_in_the_files(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "s"))
    scene = Scene(store)
    for step in steps():
        assert made(scene, step(scene))
    store.close()
    home = tmp_path / "s" / "runs" / "run-1"
    head = json.loads((home / "head.json").read_text())["head"]
    assert (head["run"]["status"], head["run"]["phase"], head["run"]["error_message"]) == ("failed", "in-code", "no")
    entry = json.loads((home / "00000002.json").read_text())["entry"]
    [found] = entry["call"]
    assert (found["kind"], found["state"], found["args"]) == ("tool", "succeeded", '{"query":"ERROR 1"}')
    [kept] = (home / "checkpoints").iterdir()
    assert kept.name == "fix_scan_step_20300101T000000Z.v2.json" or kept.name.endswith(".v1.json")
    checkpoint = json.loads(kept.read_text())["checkpoint"]
    assert (checkpoint["name"], checkpoint["tree"]) == ("fix_scan_step_20300101T000000Z", LARGE.digest.hex())
    assert (home / "artifacts" / f"{LARGE.digest.hex()}.json").read_bytes() == LARGE.data


def test_what_an_advance_writes_does_not_grow_with_the_run(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "s"))
    scene = Scene(store)
    run = scene.running(run_id="one")
    sizes = []
    for number in range(1, 200):
        scene.ack(scene.advance(scene.again(run), calls=(call(number),)))
        home = tmp_path / "s" / "runs" / "one"
        entry = home / layout.entry_name(number + 1)
        sizes.append(entry.stat().st_size + (home / "head.json").stat().st_size)
    assert max(sizes) - min(sizes) < 100
    store.close()


def test_renewing_a_lease_leaves_no_file_behind(tmp_path: Path) -> None:
    from jumar.core.changes import Renew

    store = FileStore(str(tmp_path / "s"))
    scene = Scene(store)
    run = scene.running(run_id="one")
    for _ in range(5):
        scene.ack(Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=60_000))
    names = sorted(path.name for path in (tmp_path / "s" / "runs" / "one").iterdir())
    assert names == ["00000001.json", "head.json"]
    store.close()


FORKED = """
import os, sys
from jumar.errors import StoreUnavailable
from jumar.stores.file.store import FileStore
from jumar.testing.conformance_scene import Scene

store = FileStore(sys.argv[1])
run = Scene(store).running(run_id="one")
reads, writes = os.pipe()
if os.fork() == 0:
    told = []
    for use in (lambda: store.run("one"), lambda: store.write([Scene(store).create()])):
        try:
            use()
            told.append("worked")
        except StoreUnavailable as error:
            told.append("refused")
    store.close()
    own = FileStore(sys.argv[1])  # a store of its own is the child's to use
    told.append(type(Scene(own).write(Scene(own).create(run_id="two"))).__name__)
    own.close()
    os.write(writes, " ".join(told).encode())
    os._exit(0)
os.wait()
after = type(Scene(store).write(Scene(store).create(run_id="three"))).__name__
print(os.read(reads, 100).decode(), store.run("two") is not None, after)
"""


def test_a_forked_child_leaves_its_parents_store_alone(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "s")], capture_output=True, text=True, timeout=60
    )
    assert told.stderr == ""
    assert told.stdout.split() == ["refused", "refused", "Ack", "True", "Ack"]


def test_hints_that_were_lost_or_spoilt_only_cost_a_look_at_every_head(tmp_path: Path) -> None:
    ours, theirs = FileStore(str(tmp_path / "s")), FileStore(str(tmp_path / "s"))
    scene, hints = Scene(theirs), tmp_path / "s" / layout.HINTS

    def add(text: bytes) -> None:
        with hints.open("ab") as file:
            file.write(text)

    spoils = (
        hints.unlink,
        lambda: hints.write_bytes(b"\xff\n\nno hint at all"),
        lambda: add(b"own"),
        lambda: add(b"a b c"),
    )
    for number, spoil in enumerate(spoils):
        spoil()
        scene.queued(run_id=f"run-{number}")
        assert ours.run(f"run-{number}") is not None
        assert Scene(ours).queued(run_id=f"own-{number}").run_no == 2 * number + 2
        assert theirs.run(f"own-{number}") is not None
    ours.close()
    theirs.close()


def test_a_commit_that_no_hint_told_of_is_never_written_over(tmp_path: Path) -> None:
    ours, theirs = FileStore(str(tmp_path / "s")), FileStore(str(tmp_path / "s"))
    scene, others = Scene(ours), Scene(theirs)
    run = scene.running(run_id="one")
    theirs.run("one")
    theirs._files._hint = lambda folder, commit: None
    others.ack(others.advance(run, calls=(call(1),)))
    assert scene.again(run).version == 0  # what is read may be late
    assert scene.refusal(scene.advance(run, calls=(call(1),))) is Guard.VERSION
    assert scene.everything(run) == others.everything(run)
    assert scene.again(run).version == 1
    assert ours.inspect().findings == ()
    ours.close()
    theirs.close()


def test_a_long_file_of_hints_is_begun_anew(tmp_path: Path) -> None:
    ours, theirs = FileStore(str(tmp_path / "s")), FileStore(str(tmp_path / "s"))
    scene, hints = Scene(theirs), tmp_path / "s" / layout.HINTS
    run = scene.running(run_id="one")
    with hints.open("ab") as file:
        file.write(b"one 1\n" * 12_000)
    for version in range(1, 4):
        scene.ack(scene.advance(scene.again(run)))
        seen = ours.run("one")
        assert seen is not None
        assert seen.version == version
    assert os.path.getsize(hints) < 1000  # noqa: PTH202
    ours.close()
    theirs.close()


def test_a_harness_keeps_its_runs_and_their_files_there(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page").write_text("old")

    def made_with(harness: Harness) -> Any:
        @harness.tool(effect="write", paths=["page"])
        def write(text: str) -> int:
            return (tmp_path / "site" / "page").write_text(text)

        @harness.agent(tools=[write])
        def agent(run: Any, task: str) -> int:
            return int(run.call(write, task))

        return agent

    with Harness(f"file:{tmp_path / 'store'}", workspace=tmp_path / "site") as harness:
        result = harness.run(made_with(harness), "new")
        assert result.unwrap() == 3
    with Harness(f"file:{tmp_path / 'store'}", workspace=tmp_path / "site") as again:
        made_with(again)
        assert [run.run_id for run in again.runs()] == [result.run_id]
        assert again.doctor().sound
        again.rollback(result.run_id, to=0)
    assert (tmp_path / "site" / "page").read_text() == "old"
