"""A disk whose power can be cut: it makes the real calls and remembers which of what they did was flushed.

After a cut only that is sure to be there.  Of the rest, each name that came or went since its folder was flushed may
have made it to the disk or not, whatever came before or after it, and of bytes that were not flushed some may be
there: `survivors` makes a folder of such a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from jumar.stores.file.disk import Disk


class Cut(BaseException):
    """The power is gone."""


class _File:
    def __init__(self) -> None:
        self.flushed = b""
        self.now = b""


class _Folder:
    def __init__(self) -> None:
        self.flushed: dict[str, _File | _Folder] = {}
        self.now: dict[str, _File | _Folder] = {}
        self.pending: list[dict[str, _File | _Folder | None]] = []

    def set(self, changed: dict[str, _File | _Folder | None]) -> None:
        self.pending.append(changed)
        _apply(self.now, changed)


def _apply(names: dict[str, _File | _Folder], changed: dict[str, _File | _Folder | None]) -> None:
    for name, node in changed.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class PowerCut(Disk):
    """Raises Cut at call number `at`, before it or with `after` once it is done; from then on every call does.  A write
    is half done then.  `failing` is asked at each call whether it fails, and with what; folders named `unflushed` are
    not flushed, which is a fault that tests have to notice.
    """

    def __init__(
        self,
        root: Path,
        at: int = -1,
        *,
        after: bool = False,
        failing: Callable[[int, str], OSError | None] | None = None,
        unflushed: str | None = None,
    ) -> None:
        self.root = root
        self.made: list[str] = []
        self._at = at
        self._after = after
        self._failing = failing
        self._unflushed = unflushed
        self._top = _Folder()
        self._open: dict[int, _File | _Folder] = {}

    def _step(self, name: str, call: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        number = len(self.made)
        self.made.append(name)
        if 0 <= self._at < number or (number == self._at and not self._after):
            raise Cut
        error = None if self._failing is None else self._failing(number, name)
        if error is not None:
            raise error
        answer = (half or call)() if number == self._at else call()
        if number == self._at:
            raise Cut
        return answer

    def create(self, path: str) -> int:
        def call() -> int:
            file = Disk.create(self, path)
            self._open[file] = self._fresh(path)
            return file

        return int(self._step("create", call))

    def write(self, file: int, data: bytes) -> int:
        def call(part: bytes = data) -> int:
            written = Disk.write(self, file, part)
            node = self._open[file]
            assert isinstance(node, _File)
            node.now += part[:written]
            return written

        return int(self._step("write", call, lambda: call(data[: len(data) // 2])))

    def fsync(self, file: int) -> None:
        def call() -> None:
            node = self._open[file]
            if isinstance(node, _File):
                node.flushed = node.now
            else:
                node.flushed, node.pending = dict(node.now), []

        self._step("fsync", call)

    def rename(self, old: str, new: str) -> None:
        def call() -> None:
            Disk.rename(self, old, new)
            folder, first = self._place(old)
            again, second = self._place(new)
            assert folder is again, "names are given within one folder"
            folder.set({first: None, second: folder.now[first]})

        self._step("rename", call)

    def mkdir(self, path: str) -> None:
        def call() -> None:
            Disk.mkdir(self, path)
            if Path(path) != self.root:
                folder, name = self._place(path)
                folder.set({name: _Folder()})

        self._step("mkdir", call)

    def open_folder(self, path: str) -> int:
        file = Disk.open_folder(self, path)
        self._open[file] = self._node(path) if Path(path).is_relative_to(self.root) else _Folder()
        return file

    def open_end(self, path: str) -> int:
        def call() -> int:
            folder, name = self._place(path)
            file = Disk.open_end(self, path)
            if name not in folder.now:
                folder.set({name: _File()})
            self._open[file] = folder.now[name]
            return file

        return int(self._step("open_end", call))

    def remove(self, path: str) -> None:
        def call() -> None:
            Disk.remove(self, path)
            folder, name = self._place(path)
            folder.set({name: None})

        self._step("remove", call)

    def remove_tree(self, path: str) -> None:
        def call() -> None:
            Disk.remove_tree(self, path)
            folder, name = self._place(path)
            folder.set({name: None})

        self._step("remove_tree", call)

    def flush(self, folder: str) -> None:
        if Path(folder).name != self._unflushed:
            super().flush(folder)

    # --- What is on the disk. ---

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder = self._node(str(Path(path).parent))
        assert isinstance(folder, _Folder)
        return folder, Path(path).name

    def _node(self, path: str) -> _File | _Folder:
        node: _File | _Folder = self._top
        for name in Path(path).relative_to(self.root).parts:
            assert isinstance(node, _Folder)
            node = node.now[name]
        return node

    def _fresh(self, path: str) -> _File:
        folder, name = self._place(path)
        node = folder.now.get(name)
        if isinstance(node, _File):
            node.now = b""  # cut short; what was flushed of it may be gone or not
            return node
        made = _File()
        folder.set({name: made})
        return made

    def survivors(self, place: Path, chance: float, random: Random) -> Path:
        """A folder with what a cut left: all that was flushed, and the rest each with this chance."""
        self._write(self._top, place, chance, random)
        return place

    def _write(self, folder: _Folder, place: Path, chance: float, random: Random) -> None:
        place.mkdir()
        names = dict(folder.flushed)
        for changed in folder.pending:
            if random.random() < chance:
                _apply(names, changed)
        for name, node in names.items():
            if isinstance(node, _Folder):
                self._write(node, place / name, chance, random)
            elif node.now == node.flushed or random.random() < chance:
                (place / name).write_bytes(node.now)
            else:
                some = node.now[: random.randint(0, len(node.now))]
                (place / name).write_bytes(some if random.random() < 0.5 else node.flushed)
