"""What `doctor` can tell about a workspace's objects."""

from __future__ import annotations

from jumar.core import trees
from jumar.workspace.inspection import inspect, safety_snapshots
from jumar.workspace.packing import PART_BYTES
from tests.workspace.files import File, Tree
from tests.workspace.scene import Scene

FILES: Tree = {b"a": File(b"1"), b"conf/b": File(b"2" * 999), b"conf/large": File(b"x" * (PART_BYTES + 5))}


def spoil(scene: Scene, statement: str, digest: bytes) -> None:
    with scene.objects.using() as db:
        assert db.execute(statement, (digest,)).rowcount == 1
    scene.objects.load.cache_clear()  # type: ignore[attr-defined]


def entry(scene: Scene, root: bytes, path: bytes) -> bytes:
    found = trees.find(scene.objects.load, root, path)
    assert found is not None and found.digest is not None
    return found.digest


def test_sound_objects_are_counted_and_nothing_is_found(scene: Scene) -> None:
    scene.become(FILES)
    scene.workspace.capture()
    told = inspect(scene.objects)
    assert (told.contents, told.folders, told.snapshots, told.findings) == (2 + 3, 2, 1, ())
    assert told.size >= scene.objects.path.stat().st_size


def test_a_damaged_content_and_the_snapshots_that_lack_something_are_told(scene: Scene) -> None:
    scene.become(FILES)
    snapshot = scene.workspace.capture()
    damaged, lost = (entry(scene, snapshot.root, path) for path in (b"a", b"conf/b"))
    spoil(scene, "UPDATE blobs SET data = x'00' WHERE digest = ?", damaged)
    spoil(scene, "DELETE FROM blobs WHERE digest = ?", lost)
    told = {finding.where: finding.what for finding in inspect(scene.objects).findings}
    assert told == {
        "content": f"{damaged.hex()} does not agree with its checksum",
        "snapshot": f"{trees.snapshot_digest(snapshot).hex()} can't be given back whole: "
        f"the content {lost.hex()} is not there",
    }


def test_a_large_content_without_one_of_its_parts_is_told(scene: Scene) -> None:
    scene.become(FILES)
    large = entry(scene, scene.workspace.capture().root, b"conf/large")
    spoil(scene, "DELETE FROM blobs WHERE digest = ?", trees.digest_of(b"x" * 5))
    assert [each.what for each in inspect(scene.objects).findings] == [f"{large.hex()} lacks a part"]


def test_a_damaged_folder_is_told_and_so_is_the_snapshot_that_names_it(scene: Scene) -> None:
    scene.become(FILES)
    snapshot = scene.workspace.capture()
    spoil(scene, "UPDATE nodes SET data = x'01' WHERE digest = ?", entry(scene, snapshot.root, b"conf"))
    assert [each.where for each in inspect(scene.objects).findings] == ["folder", "snapshot"]


def test_every_restore_leaves_a_safety_snapshot_that_is_listed_the_newest_first(scene: Scene) -> None:
    scene.become({b"a": File(b"1")})
    first = scene.workspace.capture()
    scene.put({b"a": File(b"2")})
    second = scene.workspace.capture()
    back = scene.restore(first, second)
    forth = scene.restore(second, first)
    listed = scene.workspace.safety_snapshots()
    assert {each.digest for each in listed} == {back.safety, forth.safety}
    assert listed == safety_snapshots(scene.objects) == inspect(scene.objects).safety
    assert [each.files for each in listed] == [1, 1] and listed[0].at >= listed[1].at


def test_a_restore_that_did_nothing_leaves_none(scene: Scene) -> None:
    scene.become({b"a": File(b"1")})
    snapshot = scene.workspace.capture()
    scene.restore(snapshot, snapshot)
    assert scene.workspace.safety_snapshots() == ()
