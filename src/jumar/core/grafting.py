"""A whole snapshot brought up to date by one of declared paths, without looking at the disk again.

A tool that declares its paths changes nothing else, so the workspace after its call is the last whole snapshot with
what the partial one says about its scope put in its place.  The result is what capturing the whole by the *base's*
frozen rules would give, as long as nothing outside the scope changed: a declared path that these rules ignore is not
in it, and what the part lacks is gone, unless the part's own rules hid it (then nothing was said about it, and the
base's word stands).  Folders on the way to what the scope names are the part's to tell, since it went through them;
their other content is not.

Only nodes on the way are made anew, so the cost is that of the scope and of the folders above it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from jumar.core import portable
from jumar.core.ignoring import Boundary, Frozen
from jumar.core.scopes import Reach, covers
from jumar.core.trees import (
    LACKING,
    Entry,
    EntryKind,
    Load,
    Node,
    Skipped,
    SkipReason,
    Snapshot,
    diff,
    digest_of,
    join,
    pack_node,
)

Packed: TypeAlias = tuple[bytes, bytes]  # a node's digest and its bytes

_NEVER_FOLDERS = frozenset({SkipReason.FIFO, SkipReason.SOCKET, SkipReason.DEVICE, SkipReason.LINKED})
_BEFORE_RULES = frozenset({SkipReason.GIT, SkipReason.OWN_FILE})  # skipped whether they are ignored or not


def graft(load: Load, base: Snapshot, part: Snapshot) -> tuple[Snapshot, list[Packed]]:
    """`base`, a snapshot of the whole, with `part` in its place; and the nodes that are new, to be kept before it.

    A part of the whole root is the answer itself.  Best is a part captured by `base.rules`.  The answer is complete
    where nothing is lacking any more: what the base lacked in the scope and the part has, it has.  ValueError where
    the base is itself one of declared paths.
    """
    if base.scope:
        raise ValueError("only a snapshot of the whole workspace can be grafted on")
    if not part.scope:
        return part, []
    return _Graft(load, base, part).done()


class _Graft:
    def __init__(self, load: Load, base: Snapshot, part: Snapshot) -> None:
        self._load_stored = load
        self._base, self._part = base, part
        self._reach = Reach.of(part.scope)
        self._named = covers(part.scope)
        self._rules = Frozen(base.rules)
        self._same_rules = base.rules == part.rules
        self._boundary = Boundary(structs.replace(part, skipped=()))
        self._skips = {each.path: each.reason for each in part.skipped}
        self._fresh: dict[bytes, tuple[bytes, Node]] = {}
        self._remade: set[bytes] = set()  # folders whose node was put together here
        self._gone: set[bytes] = set()  # what the base said about these and what is below them is no longer so
        self._stale: set[bytes] = set()  # nor is what the part says about these of use
        self._unportable: list[bytes] = []

    def done(self) -> tuple[Snapshot, list[Packed]]:
        base, part = self._base, self._part
        root = self._folder(b"", base.root, part.root, self._reach)
        skipped = self._skipped()
        torn = {path for path in base.torn if self._stands(path)}
        torn |= {path for path in part.torn if not _lies_in(path, self._stale)}
        snapshot = structs.replace(
            base,
            root=root,
            mode=part.mode,
            at=max(base.at, part.at),
            complete=not torn and not any(each.reason in LACKING for each in skipped),
            skipped=tuple(skipped),
            torn=tuple(sorted(torn)),
            unportable=tuple(sorted(self._all_unportable())),
        )
        return self._counted(snapshot), [(digest, packed) for digest, (packed, _) in self._fresh.items()]

    # --- The tree. ---------------------------------------------------------------------------------------------------

    def _load(self, digest: bytes) -> Node:
        found = self._fresh.get(digest)
        return found[1] if found is not None else self._load_stored(digest)

    def _folder(self, path: bytes, old: bytes | None, new: bytes, reach: Reach | None) -> bytes:
        """The node of a folder that the part has; `reach` None where all that is in it is in the scope."""
        within = reach is None or reach.matched
        if old == new or (within and self._same_rules):
            return new
        made = {} if old is None else {entry.name: entry for entry in self._load(old)}
        there = {entry.name: entry for entry in self._load(new)}
        literal = None if reach is None or within else reach.names
        for name in made.keys() | there.keys() if literal is None else literal:
            inner = None if reach is None or within else reach.into(name)
            if not within and inner is None:
                continue  # of no concern to the part
            entry = self._one(join(path, name), made.get(name), there.get(name), inner)
            if entry is not None:
                made[name] = entry
            else:
                made.pop(name, None)
        return self._keep(path, list(made.values()), old, new)

    def _keep(self, path: bytes, made: list[Entry], *known: bytes | None) -> bytes:
        packed = pack_node(made)
        digest = digest_of(packed)
        if digest not in known:
            self._fresh[digest] = (packed, tuple(sorted(made, key=lambda entry: entry.name)))
        self._remade.add(path)
        self._unportable += (join(path, name) for name in portable.unportable(sorted(entry.name for entry in made)))
        return digest

    def _one(self, path: bytes, old: Entry | None, new: Entry | None, reach: Reach | None) -> Entry | None:
        """One name that is in the scope (`reach` None or matched), or on the way to what is."""
        within = reach is None or reach.matched
        entry = self._missing(path, old, within) if new is None else self._present(path, old, new, reach)
        if old is not None and entry is not old and (entry is None or not _are_folders(old, entry)):
            self._gone.add(path)
        return entry

    def _present(self, path: bytes, old: Entry | None, new: Entry, reach: Reach | None) -> Entry | None:
        if self._ignored(path, new.kind is EntryKind.DIR):
            self._stale.add(path)
            return None
        if new.kind is not EntryKind.DIR or new.digest is None:
            return new
        return structs.replace(new, digest=self._folder(path, _subtree(old), new.digest, reach))

    def _missing(self, path: bytes, old: Entry | None, within: bool) -> Entry | None:
        """What the part lacks: gone, or no longer a folder, or not captured, or none of its business."""
        if old is None:
            return None
        reason = self._skips.get(path)
        if reason is SkipReason.LINKED and old.kind is EntryKind.LINK:
            self._stale.add(path)  # the way is barred by a link that the whole has as such
            return old
        if reason is not None:
            return None
        if not within:
            return old if old.kind is not EntryKind.DIR else None
        return None if self._boundary.would_capture(path, old.kind is EntryKind.DIR) else old

    def _ignored(self, path: bytes, is_dir: bool) -> bool:
        """Whether the base's rules leave out what lies in a folder that they do not leave out."""
        return self._rules.at(path.rpartition(b"/")[0]).ignores(path, is_dir)

    # --- What is told beside the tree. -------------------------------------------------------------------------------

    def _stands(self, path: bytes, is_dir: bool = False) -> bool:
        """Whether what the base said about a path still holds."""
        if _lies_in(path, self._gone):
            return False
        return not self._named(path) or not self._boundary.would_capture(path, is_dir)

    def _skipped(self) -> list[Skipped]:
        found = {each.path: each for each in self._base.skipped if self._skip_stands(each)}
        found |= {each.path: each for each in self._part.skipped if self._skip_counts(each)}
        return [found[path] for path in sorted(found)]

    def _skip_stands(self, skip: Skipped) -> bool:
        if skip.reason in _BEFORE_RULES:
            folder = skip.path.rpartition(b"/")[0]
            return not _lies_in(folder, self._gone) and not (
                self._leads_to(skip.path) and self._boundary.would_capture(folder, True)
            )
        if skip.path in self._remade and skip.reason not in LACKING:
            return False  # a folder has come in its place
        folders = (False,) if skip.reason in _NEVER_FOLDERS else (True, False)
        return any(self._stands(skip.path, is_dir) for is_dir in folders)

    def _leads_to(self, path: bytes) -> bool:
        """Whether the part looked at a path, be it on the way."""
        reach: Reach | None = self._reach
        for name in path.split(b"/"):
            if reach is None or reach.matched:
                break
            reach = reach.into(name)
        return reach is not None

    def _skip_counts(self, skip: Skipped) -> bool:
        if _lies_in(skip.path, self._stale):
            return False
        if skip.reason in _BEFORE_RULES:
            folder = skip.path.rpartition(b"/")[0]
            return not folder or not self._rules.ignores(folder, True)
        folders = (False,) if skip.reason in _NEVER_FOLDERS else (True, False)
        return not skip.path or not all(self._rules.ignores(skip.path, is_dir) for is_dir in folders)

    def _all_unportable(self) -> set[bytes]:
        found = set(self._unportable)
        found |= {path for path in self._base.unportable if self._not_remade(path) and self._stands(path)}
        found |= {path for path in self._part.unportable if self._not_remade(path) and not _lies_in(path, self._stale)}
        return found

    def _not_remade(self, path: bytes) -> bool:
        return path.rpartition(b"/")[0] not in self._remade

    def _counted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its counts, from those of the base and what differs."""
        counts = dict.fromkeys(EntryKind, 0)
        size = 0
        for change in diff(self._load, self._base.root, snapshot.root):
            for entry, sign in ((change.before, -1), (change.after, 1)):
                if entry is not None:
                    counts[entry.kind] += sign
                    size += sign * entry.size
        return structs.replace(
            snapshot,
            files=snapshot.files + counts[EntryKind.FILE],
            dirs=snapshot.dirs + counts[EntryKind.DIR],
            links=snapshot.links + counts[EntryKind.LINK],
            size=snapshot.size + size,
        )


def _subtree(entry: Entry | None) -> bytes | None:
    return entry.digest if entry is not None and entry.kind is EntryKind.DIR else None


def _are_folders(*entries: Entry) -> bool:
    return all(entry.kind is EntryKind.DIR for entry in entries)


def _lies_in(path: bytes, folders: set[bytes]) -> bool:
    """Whether a path is one of these, or lies below one."""
    while path:
        if path in folders:
            return True
        path = path.rpartition(b"/")[0]
    return False
