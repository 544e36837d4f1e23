"""A snapshot as a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.core.trees import find
from jumar.errors import IntegrityError, WorkspaceError
from tests.workspace import files
from tests.workspace.files import File, Folder, Link, Tree
from tests.workspace.scene import Scene

TREE: Tree = {
    b"closed": Folder(0o500),
    b"closed/in": File(b"1", 0o400),
    b"empty": Folder(0o750),
    b"large": File(bytes(range(256)) * 20_000),
    b"link": Link(b"/nowhere"),
    b"run": File(b"x", 0o4755),
    b"\xff": File(b""),
}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_becomes_what_the_snapshot_says(scene: Scene, tmp_path: Path, there: bool) -> None:
    scene.become(TREE)
    scene.root.chmod(0o750)
    snapshot = scene.workspace.capture()
    folder = tmp_path / "copy"
    if there:
        folder.mkdir()
    scene.workspace.materialise(snapshot, folder)
    assert files.read(folder) == TREE
    assert files.look(folder) == Folder(0o750)
    assert scene.read() == TREE


def test_what_is_there_is_never_overwritten(scene: Scene, tmp_path: Path) -> None:
    scene.become(TREE)
    snapshot = scene.workspace.capture()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").write_bytes(b"1")
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = files.read(tmp_path)
    for name in ("full", "file", "link"):
        with pytest.raises(WorkspaceError, match="not empty"):
            scene.workspace.materialise(snapshot, tmp_path / name)
    with pytest.raises(WorkspaceError, match="can't be made"):
        scene.workspace.materialise(snapshot, tmp_path / "no" / "such" / "folder")
    assert {path for path in files.read(tmp_path) if b"objects" not in path} == {
        path for path in before if b"objects" not in path
    }


def test_with_a_damaged_content_there_is_no_folder(scene: Scene, tmp_path: Path) -> None:
    scene.become({b"a": File(b"some content"), b"b": File(b"other")})
    snapshot = scene.workspace.capture()
    entry = find(scene.objects.load, snapshot.root, b"b")
    assert entry is not None
    scene.objects._db.execute("UPDATE blobs SET data = x'00' WHERE digest = ?", (entry.digest,))
    with pytest.raises(IntegrityError):
        scene.workspace.materialise(snapshot, tmp_path / "copy")
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith("objects")] == ["site"]
