"""No room, and no right to write: nothing that was acknowledged is lost, and the store goes on once there is room
again.

These tests run as root, whom file modes do not stop.  So a full disk is a small tmpfs, and a read-only one a read-
only bind mount, both in a mount namespace of a child process; the other way to run out of room is SQLite's own limit
on pages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.core.requests import Lane
from jumar.errors import StoreFull
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, named

PRELUDE = """
import json, os, sys
from pathlib import Path
from jumar import errors
from jumar.core.changes import Ack
from jumar.core.requests import Lane
from jumar.core.store import RunFilter
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, named

folder = Path(sys.argv[1])

def kept_until_full(queue, scene, run, lane):
    acknowledged, error = 0, None
    while error is None and acknowledged < 100_000:
        artifact = named(os.urandom(20_000))
        change = scene.advance(run, calls=(call(lane.version + 1),), artifacts=(artifact,))
        try:
            assert isinstance(queue.submit(change, lane), Ack)
            acknowledged += 1
        except errors.JumarError as raised:
            error = raised
    lane.version -= 1
    return acknowledged, error
"""


def in_a_namespace(mount: str, body: str, folder: Path) -> Any:
    """Run a program with `folder` mounted as the shell command `mount` says; what it told as JSON."""
    folder.mkdir(exist_ok=True)
    shell = f'set -e; {mount}; exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", shell, "sh", sys.executable, "-c", PRELUDE + body, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def tmpfs(folder: Path, size: str) -> str:
    return f"mount -t tmpfs -o size={size} none '{folder}'"


def read_only(folder: Path) -> str:
    return f"mount --bind '{folder}' '{folder}'; mount -o remount,ro,bind '{folder}'"


class TestFullDisk:
    """A tmpfs of a few hundred kilobytes."""

    def test_a_full_disk_is_named_and_what_was_acknowledged_is_kept(self, tmp_path: Path) -> None:
        body = """
store = open_store(f"sqlite:///{folder / 'runs.db'}")
scene, queue, lane = Scene(store), CommitQueue(store), Lane(0)
run = scene.running()
acknowledged, error = kept_until_full(queue, scene, run, lane)
seen = scene.again(run)
told = dict(acknowledged=acknowledged, error=type(error).__name__, code=error.exit_code, hint=error.hint,
            version=seen.version, calls=len(store.calls(run.run_no)), findings=len(store.inspect().findings))
store.close()
again = open_store(f"sqlite:///{folder / 'runs.db'}")
told["reopened"] = again.run(run.run_id).version
again.close()
print(json.dumps(told))
"""
        told = in_a_namespace(tmpfs(tmp_path / "small", "600k"), body, tmp_path / "small")
        assert told["error"] == "StoreFull"
        assert told["code"] == 4
        assert "space" in told["hint"]
        assert told["acknowledged"] > 2
        assert told["version"] == told["calls"] == told["reopened"] == told["acknowledged"]
        assert told["findings"] == 0

    def test_the_store_goes_on_once_there_is_room_again(self, tmp_path: Path) -> None:
        body = """
(folder / "ballast").write_bytes(os.urandom(300_000))
store = open_store(f"sqlite:///{folder / 'runs.db'}")
scene, queue, lane = Scene(store), CommitQueue(store), Lane(0)
run = scene.running()
first, error = kept_until_full(queue, scene, run, lane)
assert isinstance(error, errors.StoreFull), error
again, error = kept_until_full(queue, scene, run, lane)
assert (again, type(error)) == (0, errors.StoreFull)
(folder / "ballast").unlink()
second, error = kept_until_full(queue, scene, run, lane)
assert isinstance(error, errors.StoreFull), error
numbers = [record.seq for record in store.calls(run.run_no)]
told = dict(first=first, second=second, numbers=numbers, version=scene.again(run).version,
            findings=len(store.inspect().findings))
store.close()
print(json.dumps(told))
"""
        told = in_a_namespace(tmpfs(tmp_path / "small", "900k"), body, tmp_path / "small")
        assert told["first"] > 2
        assert told["second"] > 2
        assert told["version"] == told["first"] + told["second"]
        assert told["numbers"] == list(range(1, told["version"] + 1))
        assert told["findings"] == 0

    @pytest.mark.parametrize("size", ["8k", "40k", "80k"])
    def test_a_disk_too_full_for_a_new_store_is_named(self, tmp_path: Path, size: str) -> None:
        body = """
try:
    open_store(f"sqlite:///{folder / 'runs.db'}").close()
    told = None
except errors.StoreError as error:
    told = type(error).__name__
left = folder.stat()
print(json.dumps(told))
"""
        assert in_a_namespace(tmpfs(tmp_path / "small", size), body, tmp_path / "small") == "StoreFull"

    def test_a_new_store_that_met_a_full_disk_is_opened_once_there_is_room(self, tmp_path: Path) -> None:
        body = """
(folder / "ballast").write_bytes(os.urandom(500_000))
address = f"sqlite:///{folder / 'runs.db'}"
try:
    open_store(address)
    told = ["opened"]
except errors.StoreFull:
    told = ["full"]
(folder / "ballast").unlink()
store = open_store(address)
Scene(store).running()
told.append(len(store.runs(RunFilter())))
store.close()
print(json.dumps(told))
"""
        assert in_a_namespace(tmpfs(tmp_path / "small", "520k"), body, tmp_path / "small") == ["full", 1]


class TestPageLimit:
    """SQLite's own limit, set on the store's writing connection."""

    def test_a_full_database_is_named_nothing_is_lost_and_it_goes_on(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
        scene, queue, lane = Scene(store), CommitQueue(store), Lane(0)
        run = scene.running()
        writer = store._writer  # type: ignore[attr-defined]  # the limit is the connection's
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 20}")

        def advance() -> Any:
            seq = lane.version + 1
            artifact = named(bytes([seq % 256]) * 3 + bytes(range(256)) * 16)
            return queue.submit(scene.advance(run, calls=(call(seq, result=artifact.data),)), lane)

        acknowledged = 0
        with pytest.raises(StoreFull) as caught:
            while acknowledged < 1000:
                assert isinstance(advance(), Ack)
                acknowledged += 1
        assert "no room" in caught.value.what
        assert acknowledged > 3
        assert scene.again(run).version == len(store.calls(run.run_no)) == acknowledged
        lane.version = acknowledged
        writer.execute(f"PRAGMA max_page_count = {pages + 2000}")
        assert advance() == Ack(run.run_no, acknowledged + 1, 1)
        assert store.inspect().findings == ()
        store.close()

    def test_in_a_batch_that_does_not_fit_what_fits_is_kept_and_the_rest_is_told(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
        scene = Scene(store)
        runs = [scene.running() for _ in range(3)]
        writer = store._writer  # type: ignore[attr-defined]
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 10}")
        large = named(b"".join(bytes([a, b]) for a in range(256) for b in range(256)) * 2)
        batch = [
            scene.advance(runs[0]),
            scene.advance(runs[1], calls=(call(1, result=large.data),)),
            scene.advance(runs[2]),
        ]
        answers = store.write(batch)
        assert [type(answer) for answer in answers] == [Ack, StoreFull, Ack]
        assert [scene.again(run).version for run in runs] == [1, 0, 1]
        store.close()


class TestReadOnly:
    """A read-only bind mount."""

    def test_a_store_on_a_read_only_disk_is_named_and_left_as_it_is(self, tmp_path: Path) -> None:
        folder = tmp_path / "fixed"
        folder.mkdir()
        store = open_store(f"sqlite:///{folder / 'runs.db'}")
        Scene(store).running()
        store.close()
        before = {entry.name: entry.read_bytes() for entry in folder.iterdir()}
        body = """
try:
    store = open_store(f"sqlite:///{folder / 'runs.db'}")
    told = "opened"
except errors.StoreError as error:
    told = [type(error).__name__, error.exit_code, error.what, error.hint]
print(json.dumps(told))
"""
        name, code, what, hint = in_a_namespace(read_only(folder), body, folder)
        assert (name, code) == ("StoreReadOnly", 4)
        assert "runs.db" in what
        assert "write" in hint
        assert {entry.name: entry.read_bytes() for entry in folder.iterdir()} == before

    def test_a_store_left_open_on_a_read_only_disk_can_be_looked_at_and_not_written(self, tmp_path: Path) -> None:
        """With the log of a killed process beside it the file can still be read, without a change."""
        folder = tmp_path / "fixed"
        killed = """
store = open_store(f"sqlite:///{folder / 'runs.db'}")
run = Scene(store).running()
print(json.dumps(run.run_id), flush=True)
os._exit(0)
"""
        run_id = in_a_namespace("true", killed, folder)
        before = {entry.name: entry.read_bytes() for entry in folder.iterdir()}
        assert "runs.db-wal" in before
        body = """
store = open_store(f"sqlite:///{folder / 'runs.db'}")
scene, queue = Scene(store), CommitQueue(store)
run = store.runs(RunFilter())[0]
told = [run.run_id]
for change in (scene.create(), scene.advance(run)):
    try:
        told.append(str(queue.submit(change)))
    except errors.StoreError as error:
        told.append(type(error).__name__)
store.close()
print(json.dumps(told))
"""
        assert in_a_namespace(read_only(folder), body, folder) == [run_id, "StoreReadOnly", "StoreReadOnly"]
        assert {entry.name: entry.read_bytes() for entry in folder.iterdir()} == before

    def test_a_new_store_on_a_read_only_disk_is_named_and_not_made(self, tmp_path: Path) -> None:
        folder = tmp_path / "fixed"
        body = """
try:
    open_store(f"sqlite:///{folder / 'runs.db'}")
    told = "opened"
except errors.StoreError as error:
    told = [type(error).__name__, error.exit_code]
print(json.dumps(told))
"""
        assert in_a_namespace(f"mkdir -p '{folder}'; {read_only(folder)}", body, folder) == ["StoreReadOnly", 4]
        assert list(folder.iterdir()) == []
