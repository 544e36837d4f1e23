"""Random operations on a folder of files, done twice: on the disk, and on a plain dict that says what must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.workspace.files import File, Folder, Link, Tree

NAMES = [
    b"a",
    b"b",
    b"c.txt",
    b"d",
    b"-rf",
    b" spaced ",
    b"new\nline",
    b"\xff\xfe",
    "名前".encode(),
    b"*",
    b"NUL",
    b"a:b",
]
NAMES += [b"x" * 200, b"~", b"trailing.", b"back\\slash", b".hidden", b"#c", b"!n", b"[z]"]
FILE_MODES = [0o600, 0o644, 0o444, 0o755, 0o000, 0o4755, 0o2640]
FOLDER_MODES = [0o755, 0o750, 0o700, 0o555, 0o1777, 0o2775, 0o000]
MOST_PATHS = 60


class Walk:
    """Walks at random through states of `root`; `model` is the state it must be in."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root = root
        self.model: Tree = {}
        self._random = random
        self._numbers = 0

    def go(self, steps: int) -> None:
        """Do so many operations."""
        writing = (self._write, self._write, self._write, self._edit, self._forge)
        for _ in range(steps):
            operation: Callable[[], None] = self._random.choice(
                [*writing, self._chmod, self._mkdir, self._link, self._rename, self._delete, self._repository]
            )
            operation()

    def _place(self, path: bytes) -> Path:
        return self.root / os.fsdecode(path)

    def _some(self, kind: type) -> bytes | None:
        found = [
            path for path, thing in self.model.items() if isinstance(thing, kind) and b".git" not in path.split(b"/")
        ]
        return self._random.choice(sorted(found)) if found else None

    def _free(self) -> bytes | None:
        """A path where nothing is, in a folder that there is."""
        if len(self.model) >= MOST_PATHS:
            return None
        folder = self._some(Folder) if self._random.random() < 0.7 else None
        name = self._random.choice(NAMES)
        path = folder + b"/" + name if folder is not None else name
        return path if path not in self.model and path.count(b"/") < 6 else None

    def _content(self) -> bytes:
        self._numbers += 1
        return self._random.choice(
            [b"", b"%d" % self._numbers, b"%d\n" % self._numbers * self._random.randrange(1, 2000)]
        )

    def _write(self) -> None:
        path = self._free()
        if path is not None:
            self.model[path] = File(self._content(), self._random.choice(FILE_MODES))
            self._write_out(path)

    def _write_out(self, path: bytes) -> None:
        thing = self.model[path]
        assert isinstance(thing, File)
        self._place(path).write_bytes(thing.data)
        self._place(path).chmod(thing.mode)

    def _edit(self) -> None:
        path = self._some(File)
        if path is not None:
            self.model[path] = File(self._content(), self._place(path).stat().st_mode & 0o7777)
            self._write_out(path)

    def _forge(self) -> None:
        """Other bytes, but as many, and the old time put back."""
        path = self._some(File)
        thing = self.model.get(path or b"")
        if path is None or not isinstance(thing, File) or not thing.data:
            return
        before = self._place(path).stat()
        self.model[path] = File(thing.data[:-1] + bytes([thing.data[-1] ^ 1]), thing.mode)
        self._write_out(path)
        os.utime(self._place(path), ns=(before.st_atime_ns, before.st_mtime_ns))

    def _chmod(self) -> None:
        path = self._some(self._random.choice([File, Folder]))
        thing = self.model.get(path or b"")
        if path is None:
            return
        if isinstance(thing, File):
            self.model[path] = File(thing.data, self._random.choice(FILE_MODES))
        else:
            self.model[path] = Folder(self._random.choice(FOLDER_MODES))
        self._place(path).chmod(self.model[path].mode)  # type: ignore[union-attr]

    def _mkdir(self) -> None:
        path = self._free()
        if path is not None:
            mode = self._random.choice(FOLDER_MODES)
            self.model[path] = Folder(mode)
            self._place(path).mkdir()
            self._place(path).chmod(mode)

    def _link(self) -> None:
        path = self._free()
        if path is not None:
            target = self._random.choice([*NAMES, b"..", b"/etc", b"a/b/c"])
            self.model[path] = Link(target)
            self._place(path).symlink_to(os.fsdecode(target))

    def _rename(self) -> None:
        path, to = self._some(object), self._free()
        if path is None or to is None or to.startswith(path + b"/"):
            return
        self._place(path).rename(self._place(to))
        for old in [each for each in self.model if each == path or each.startswith(path + b"/")]:
            self.model[to + old[len(path) :]] = self.model.pop(old)

    def _delete(self) -> None:
        path = self._some(object)
        if path is None:
            return
        if isinstance(self.model[path], Folder):
            shutil.rmtree(self._place(path))
        else:
            self._place(path).unlink()
        for old in [each for each in self.model if each == path or each.startswith(path + b"/")]:
            del self.model[old]

    def _repository(self) -> None:
        """Make a folder a repository, without a commit."""
        path = self._some(Folder)
        if path is None or path + b"/.git" in self.model or len(self.model) >= MOST_PATHS:
            return
        self.model[path + b"/.git"] = Folder(0o755)
        self._place(path + b"/.git").mkdir()
        self._place(path + b"/.git").chmod(0o755)  # a folder may hand its setgid on
        self.model[path + b"/.git/HEAD"] = File(b"ref: refs/heads/main\n", 0o644)
        self._write_out(path + b"/.git/HEAD")


def restored(target: Tree, now: Tree) -> Tree:
    """What a forced restore to `target` makes of `now`: every `.git` stays, and so does a folder around one."""
    repositories = {path for path in now if path.rpartition(b"/")[2] == b".git"}
    holding = {above for path in repositories for above in _above(path)}
    stuck = {path for path in holding if not isinstance(target.get(path, Folder()), Folder)}
    stays = {path for path in now if stuck.intersection((path, *_above(path)))}
    expected = {
        path: thing
        for path, thing in target.items()
        if b".git" not in path.split(b"/") and not stuck.intersection((path, *_above(path)))
    }
    expected |= {path: now[path] for path in stays}
    expected |= {path: now[path] for path in holding if path not in expected}
    expected |= {path: thing for path, thing in now.items() if b".git" in path.split(b"/")}
    return dict(sorted(expected.items()))


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]
