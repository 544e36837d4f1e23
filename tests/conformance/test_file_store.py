"""The store in a folder passes the suite of every store, also as two processes see it: what one object of it has
acknowledged, another one of the same folder reads.

Nothing is flushed here, which is most of what these tests would take; that all is flushed, and in which order, is
looked at where stores crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jumar.core.changes import Change, Outcome
from jumar.core.store import Store
from jumar.stores.file.disk import Disk
from jumar.stores.file.store import FileStore
from jumar.testing import StoreConformance


class Unflushed(Disk):
    """A disk that is never waited for."""

    def fsync(self, file: int) -> None:
        pass


class TestFolder(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return FileStore(str(folder / "store"), Unflushed())


class Relay(FileStore):
    """Reads what another store of the same folder has written: every change has to pass through the files."""

    def __init__(self, path: str) -> None:
        self.other: FileStore | None = None
        super().__init__(path, Unflushed())
        self.other = FileStore(path, Unflushed())

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        assert self.other is not None
        answers = self.other.write(changes, wait=wait)
        self._watching.tell(changes, answers)
        return answers

    def close(self) -> None:
        super().close()
        if self.other is not None:
            self.other.close()


@pytest.mark.sweep
class TestThroughTheFiles(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return Relay(str(folder / "store"))
