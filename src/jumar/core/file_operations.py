"""The settled steps of a restore as operations on files, in the order in which they can be done and undone.

Nothing is overwritten and nothing is removed for good before all is done.  Each operation that would lose what lies at
a path moves it into a *slot* instead, a hidden name in a folder that stays; and each one that brings something prepares
it in its slot first.  So undoing is moving back: it needs no space, reads no object, and gives back the very files.

    OPEN    a folder that may not be written is made writable, outermost first
    ASIDE   what is there goes into the slot, and so does, by RMDIR, a folder that has become empty; innermost first
    MKDIR   a folder is made, open to its owner alone, outermost first
    SWAP    what is there and what the slot holds change places;  PLACE puts the slot's file where nothing is
    CHMOD   modes last, innermost first, so that no folder is closed while something has yet to be done in it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from jumar.core.restoring import Step, Verdict, parents, same_content
from jumar.core.trees import Entry, EntryKind, join

SLOT_PREFIX = b".jumar-"  # of every name that a restore puts into a workspace; no snapshot ever has one
OWNER_MAY_CHANGE = 0o300  # a folder's owner may list names into it and reach what is in it
OWNER_ONLY = 0o700


Lookup: TypeAlias = Callable[[bytes], Entry | None]


class Act(IntEnum):
    """What an operation does; see the module's head."""

    OPEN = 1
    ASIDE = 2
    RMDIR = 3
    MKDIR = 4
    SWAP = 5
    PLACE = 6
    CHMOD = 7


class Operation(Struct, frozen=True, array_like=True):
    """One operation on one path; `before` and `after` are its entries, `slot` the path of its slot or empty."""

    act: Act
    path: bytes
    before: Entry | None
    after: Entry | None
    slot: bytes = b""


def operations(steps: Iterable[Step], then: Lookup, now: Lookup, name: str) -> list[Operation]:
    """The operations that carry out the WRITE and DELETE steps, in order; `name` makes the slots' names unique.

    `then` answers a folder's entry in the target, `now` what is at a path on the disk.  Folders on the way to a
    declared path are in no step, so both are asked.
    """
    builder = _Builder(then, now, name)
    for step in steps:
        if step.verdict is Verdict.WRITE:
            builder.write(step)
        elif step.verdict is Verdict.DELETE:
            builder.remove(step)
    return list(builder.ordered())


def is_folder(entry: Entry | None) -> bool:
    """Whether there is an entry, and it is a folder's."""
    return entry is not None and entry.kind is EntryKind.DIR


class _Builder:
    def __init__(self, then: Lookup, now: Lookup, name: str) -> None:
        self._then, self._ask, self._name = then, now, name
        self._folders: dict[bytes, Entry | None] = {}
        self._gone: dict[bytes, Operation] = {}  # ASIDE and RMDIR
        self._made: dict[bytes, Operation] = {}
        self._put: dict[bytes, Operation] = {}  # SWAP and PLACE
        self._modes: dict[bytes, Operation] = {}

    def write(self, step: Step) -> None:
        path, before, after = step.path, step.current, step.target
        assert after is not None
        if before is not None and (same_content(before, after) or (is_folder(before) and is_folder(after))):
            self._modes[path] = Operation(Act.CHMOD, path, before, after)
            return
        self._make_parents(path)
        if is_folder(before) or (before is not None and is_folder(after)):
            self.remove(step)
            before = None
        if is_folder(after):
            self._make(path, after)
        else:
            self._put[path] = Operation(Act.PLACE if before is None else Act.SWAP, path, before, after)

    def remove(self, step: Step) -> None:
        act = Act.RMDIR if is_folder(step.current) else Act.ASIDE
        self._gone[step.path] = Operation(act, step.path, step.current, None)

    def _make(self, path: bytes, entry: Entry) -> None:
        self._made[path] = Operation(Act.MKDIR, path, None, entry)
        self._modes[path] = Operation(Act.CHMOD, path, None, entry)

    def _make_parents(self, path: bytes) -> None:
        """Folders on the way to a declared path that are not themselves what the restore is about, and are gone."""
        for folder in reversed(list(parents(path))):
            if folder in self._made or self._now(folder) is not None:
                continue
            self._make(folder, self._then(folder) or Entry(b"", EntryKind.DIR, 0o755))

    def _now(self, folder: bytes) -> Entry | None:
        if folder not in self._folders:
            self._folders[folder] = self._ask(folder)
        return self._folders[folder]

    def ordered(self) -> Iterator[Operation]:
        gone = [self._gone[path] for path in sorted(self._gone, reverse=True)]
        put = [self._put[path] for path in sorted(self._put)]
        slots = (self._slot(operation.path, number) for number, operation in enumerate([*gone, *put]))
        changed = {_above(path) for path in (*self._gone, *self._made, *self._put)}
        moved = [_with_slot(operation, slot) for operation, slot in zip([*gone, *put], slots, strict=True)]
        changed |= {_above(operation.slot) for operation in moved}
        changed |= {path for path, operation in self._gone.items() if operation.act is Act.RMDIR}
        yield from self._opened(changed)
        yield from moved[: len(gone)]
        yield from (self._made[path] for path in sorted(self._made))
        yield from moved[len(gone) :]
        yield from (self._modes[path] for path in sorted(self._modes, reverse=True))

    def _opened(self, folders: set[bytes]) -> Iterator[Operation]:
        """Folders that must be made writable for a while; each gets its mode back with the other modes."""
        for folder in sorted(folders):
            entry = None if folder in self._made else self._now(folder)
            if entry is None or not is_folder(entry) or entry.mode & OWNER_MAY_CHANGE == OWNER_MAY_CHANGE:
                continue
            self._modes.setdefault(folder, Operation(Act.CHMOD, folder, entry, entry))
            yield Operation(Act.OPEN, folder, entry, entry)

    def _slot(self, path: bytes, number: int) -> bytes:
        """A hidden name in the nearest folder above that is there all the time."""
        folder = next((each for each in parents(path) if self._stays(each)), b"")
        return join(folder, SLOT_PREFIX + f"{self._name}-{number}".encode())

    def _stays(self, folder: bytes) -> bool:
        return folder not in self._gone and folder not in self._made and is_folder(self._now(folder))


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _with_slot(operation: Operation, slot: bytes) -> Operation:
    return Operation(operation.act, operation.path, operation.before, operation.after, slot)
