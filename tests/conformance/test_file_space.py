"""No room, and no right to write, for a store in a folder: nothing that was acknowledged is lost, and the store goes on
once there is room again.  As with SQLite, a full disk is a small tmpfs and a read-only one a bind mount.
"""

from __future__ import annotations

from pathlib import Path

from jumar.stores.file.store import FileStore
from jumar.testing.conformance_scene import Scene, call
from tests.conformance.test_sqlite_space import in_a_namespace, read_only, tmpfs


def test_a_full_disk_is_named_what_was_acknowledged_is_kept_and_it_goes_on_with_room(tmp_path: Path) -> None:
    body = """
(folder / "ballast").write_bytes(os.urandom(200_000))
store = open_store(f"file:{folder / 'store'}")
scene, queue, lane = Scene(store), CommitQueue(store), Lane(0)
run = scene.running()
first, error = kept_until_full(queue, scene, run, lane)
assert isinstance(error, errors.StoreFull), error
again, error = kept_until_full(queue, scene, run, lane)
assert (again, type(error)) == (0, errors.StoreFull)
kept = scene.again(run).version
(folder / "ballast").unlink()
second, error = kept_until_full(queue, scene, run, lane)
told = dict(first=first, kept=kept, second=second, error=type(error).__name__, code=error.exit_code,
            numbers=[record.seq for record in store.calls(run.run_no)], findings=len(store.inspect().findings))
store.close()
opened = open_store(f"file:{folder / 'store'}")
told["reopened"] = opened.run(run.run_id).version
opened.close()
print(json.dumps(told))
"""
    told = in_a_namespace(tmpfs(tmp_path / "small", "900k"), body, tmp_path / "small")
    assert (told["error"], told["code"]) == ("StoreFull", 4)
    assert told["first"] == told["kept"] > 2
    assert told["second"] > 2
    assert told["reopened"] == told["first"] + told["second"]
    assert told["numbers"] == list(range(1, told["reopened"] + 1))
    assert told["findings"] == 0


def test_a_disk_too_full_for_a_new_store_is_named(tmp_path: Path) -> None:
    body = """
(folder / "ballast").write_bytes(b"x" * 4096 * 2)
try:
    open_store(f"file:{folder / 'store'}").close()
    told = None
except errors.StoreError as error:
    told = type(error).__name__
print(json.dumps(told))
"""
    assert in_a_namespace(tmpfs(tmp_path / "small", "8k"), body, tmp_path / "small") == "StoreFull"


def test_a_store_on_a_read_only_disk_can_be_read_and_says_that_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    store = FileStore(str(tmp_path / "disk" / "store"))
    scene = Scene(store)
    run = scene.running(run_id="one")
    scene.ack(scene.advance(run, calls=(call(1),)))
    store.close()
    body = """
store = open_store(f"file:{folder / 'store'}")
scene = Scene(store)
run = scene.named("one")
try:
    answer = store.write([scene.advance(run)])[0]
except errors.StoreError as error:
    answer = error
told = [type(answer).__name__, len(store.calls(run.run_no)), len(store.inspect().findings)]
try:
    open_store(f"file:{folder / 'other'}")
except errors.StoreError as error:
    told.append(type(error).__name__)
print(json.dumps(told))
"""
    told = in_a_namespace(read_only(tmp_path / "disk"), body, tmp_path / "disk")
    assert told == ["StoreReadOnly", 1, 0, "StoreReadOnly"]
