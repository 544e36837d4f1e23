"""A workspace in a test's own folder, with its objects beside it, and a run that comes and goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from jumar.core.restoring import Report
from jumar.core.trees import Snapshot
from jumar.workspace.calls import FileCalls
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
from tests.workspace import files
from tests.workspace.files import Tree


class Scene:
    """A root with files in it; `workspace` is opened on it."""

    def __init__(self, base: Path, objects: Objects | None = None, *, name: str = "site") -> None:
        self.root = base / name
        self.root.mkdir()
        self.objects = objects or Objects(base / "objects.db")
        self.workspace = Workspace(self.root, self.objects)

    def reopen(self, calls: FileCalls | None = None) -> Workspace:
        """The workspace as another process opens it."""
        return Workspace(self.root, self.objects, calls=calls)

    def become(self, tree: Tree) -> None:
        """Replace everything in the root."""
        for each in self.root.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
        files.write(self.root, tree)

    def put(self, tree: Tree) -> None:
        """Write some files, beside those that are there."""
        files.write(self.root, tree)

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with all that is in it."""
        place = self.root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    def read(self) -> Tree:
        """What is in the root now."""
        return files.read(self.root)

    def restore(self, target: Snapshot, known: Snapshot | None, **how: bool) -> Report:
        """Plan and restore."""
        return self.workspace.restore(self.workspace.plan(target, known), **how)


def leftovers(scene: Scene) -> list[str]:
    """What a restore left behind, in the root or as a journal."""
    hidden = [os.fsdecode(path) for path in scene.read() if path.rpartition(b"/")[2].startswith(b".jumar-")]
    return hidden + [each.name for each in scene.objects.path.parent.glob("[!.]*.restore")]
