"""Walking a workspace: from a folder on disk to its node, reading only what may have changed.

For each folder the stat cache has one row: the names in it, their stats, the digest of its node and those of its
subfolders.  A folder whose names and stats are the same, byte for byte, costs a listing, a stat for each name and one
comparison; nothing in it is looked at one by one, and if its subfolders have their old digests too, it has its own.
Where the filesystem is known to stamp a folder whenever a name comes or goes, one with its old stamp is not listed.
Otherwise its entries are gone through: a file is read again unless its stat is the one it had when it was read last.

A file whose mtime or ctime is close to the start of the scan, or later, could change once more without either of them
moving.  It is *racy*: whatever its stat says, it is read again the next time.

Folders are opened one from another and links never followed, so that nothing that changes meanwhile can lead the walk
out of the root; nor does it cross into another filesystem.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from hashlib import sha256

import msgspec

from jumar import errors
from jumar.core import trees
from jumar.core.file_operations import SLOT_PREFIX
from jumar.core.ignoring import GIT, IGNORE_FILE, Frozen, Ignoring
from jumar.core.trees import Entry, EntryKind, RuleText, SkipReason, join
from jumar.workspace.collecting import Collector
from jumar.workspace.reading import Stat, read_file, stat_of
from jumar.workspace.rows import Found, Known, Listed, Row, encode, split, unpacked

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEXT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DEEPEST = 120  # each level holds one open folder
_MOST_RULES = 4 << 20  # bytes of an ignore file that are read
_ODD = {stat.S_IFIFO: SkipReason.FIFO, stat.S_IFSOCK: SkipReason.SOCKET}


class Scanner:
    """One walk.  `rows` is what is remembered, packed, by folder; those not met are left in it afterwards.

    Rows that are new or other than before are in `changed`.  `racy_from` is the time, in nanoseconds, from which on a
    stat tells nothing.  With `frozen` the rules are those of a snapshot; else they are read from the ignore files, and
    `given` ones come on top.  `stamped`: folders' times tell of their names (see `probing.stamps_folders`).
    """

    def __init__(
        self,
        collector: Collector,
        rows: dict[bytes, bytes],
        racy_from: int,
        device: int,
        own: frozenset[bytes] = frozenset(),
        given: tuple[RuleText, ...] = (),
        frozen: Frozen | None = None,
        stamped: bool = False,
    ) -> None:
        self.collector = collector
        self.rows = rows
        self.changed: list[tuple[bytes, bytes]] = []
        self._racy_from = racy_from
        self._device = device
        self._own = own
        self._salt = sha256(b"/".join(sorted(own))).digest()[:8] if own else b""
        self._stamped = stamped
        self._depth = 0
        self._frozen = frozen
        self.top = Ignoring((), given if frozen is None else frozen.given)

    # --- Folders. ----------------------------------------------------------------------------------------------------

    def folder(self, here: int, path: bytes, seen: Stat, above: Ignoring | None) -> bytes:
        """Capture the open folder `here`, which was `seen` before it was opened; the digest of its node.

        `above` are the rules that count in its parent (for the root: `top`); None where no rules count at all.
        """
        self.collector.tick()
        raw = self.rows.pop(path, None)
        row = unpacked(raw) if raw is not None else None
        stamp = self._stamp(seen)
        stamped = row is not None and stamp is not None and row.stamp == stamp
        names = split(row.names) if row is not None and stamped else self._names(here, path)
        if names is None:
            return self.keep(path, Found())
        listed = self._looked_at(here, names, stamp)
        if row is not None and self._is_same(row, listed, stamped):
            rules = self._rules(path, above, row.text)
            if rules is not None and self._key(rules) == row.rules:
                return self._same(here, path, row, rules, listed)
        known = self._known(row) if row is not None else None
        return self._looked_through(here, path, above, listed, known)

    def _inside(self, seen: Stat, rules: Ignoring | None) -> Callable[[int, bytes], bytes]:
        """What captures a subfolder that was seen so, once it is open."""
        return lambda inner, path: self.folder(inner, path, seen, rules)

    def _is_same(self, row: Row, listed: Listed, stamped: bool) -> bool:
        """Whether a folder holds what it held, file by file, and that counts as a whole into the snapshot."""
        return (
            not row.racy
            and not listed.unseen
            and row.stats == encode(listed.stats)
            and (stamped or row.names == b"/".join(listed.names))
            and self.collector.has_room(row.files, row.size)
        )

    def _stamp(self, seen: Stat) -> Stat | None:
        """A folder's stat from before it is listed, where the same stat will prove that its names are the same."""
        settled = self._stamped and seen[2] < self._racy_from and seen[3] < self._racy_from
        return seen if settled else None

    def _known(self, row: Row) -> Known | None:
        try:
            return Known(row, self.collector.objects.load(row.digest))
        except errors.IntegrityError:
            return None  # damaged: everything in it is read again, which mends it

    def _rules(self, path: bytes, above: Ignoring | None, text: bytes | None) -> Ignoring | None:
        """The rules for what is in a folder whose ignore file has this text."""
        if above is None:
            return None
        if self._frozen is not None:
            return above.below(self._frozen.texts(path))
        return above.below((RuleText(path, text),)) if text is not None else above

    def _key(self, rules: Ignoring) -> bytes:
        """What tells all that decided in a folder from all that may decide another time."""
        return rules.key + self._salt

    def _note(self, path: bytes, text: bytes | None) -> None:
        """Note an ignore file whose rules count, to be frozen into the snapshot."""
        if text is not None and self._frozen is None:
            self.collector.rules.append(RuleText(path, text))

    def _same(self, here: int, path: bytes, row: Row, rules: Ignoring, listed: Listed) -> bytes:
        """A folder in which nothing changed; of its subfolders that is still to be found out."""
        collector = self.collector
        collector.take(row.files, row.size)
        collector.links += row.links
        self._note(path, row.text)
        for name, reason in row.skipped:
            collector.skip(join(path, name), reason)
        for name in row.unportable:
            collector.unportable.append(join(path, name))
        stamp = listed.stamp
        other: dict[bytes, bytes | None] = {}
        for name, digest, number in row.folders:
            now = self._enter(here, name, join(path, name), self._inside(listed.stats[number], rules))
            if now != digest:
                other[name] = now
        if not other:
            if stamp is not None and stamp != row.stamp:
                self._remember(path, msgspec.structs.replace(row, stamp=stamp))
            return row.digest
        entries = []
        for entry in collector.objects.load(row.digest):
            found = other.get(entry.name, entry.digest)
            if found is not None or entry.kind is not EntryKind.DIR:
                entries.append(msgspec.structs.replace(entry, digest=found))
        digest = collector.keep_node(trees.pack_node(entries))
        if None not in other.values():
            folders = tuple((name, other.get(name) or old, number) for name, old, number in row.folders)
            self._remember(path, msgspec.structs.replace(row, digest=digest, folders=folders, stamp=stamp))
        return digest

    def _looked_through(
        self,
        here: int,
        path: bytes,
        above: Ignoring | None,
        listed: Listed,
        known: Known | None,
    ) -> bytes:
        """A folder in which something may have changed, entry by entry."""
        names, stats = listed.names, listed.stats
        text = self._ignore_text(here) if IGNORE_FILE in names else None
        rules = self._rules(path, above, text)
        if rules is not None:
            self._note(path, text)
        found = Found()
        for number, name in enumerate(names):
            stats[number] = self.entry(here, name, path, stats[number], rules, found, known)
        for name in listed.unseen:
            self.collector.skip(join(path, name), SkipReason.UNREADABLE)
        digest = self.keep(path, found)
        if rules is not None and not self.collector.spent:
            self._remember(path, found.row(self._key(rules), listed, digest, text))
        return digest

    def keep(self, path: bytes, found: Found) -> bytes:
        """Keep the node of what was found in a folder, and tell what of it is worth telling; the node's digest."""
        for name, reason in found.skipped:
            self.collector.skip(join(path, name), reason)
        for name in found.unportable:
            self.collector.unportable.append(join(path, name))
        return self.collector.keep_node(trees.pack_node(found.entries))

    def _remember(self, path: bytes, row: Row) -> None:
        self.changed.append((path, encode(row)))

    def _names(self, here: int, path: bytes) -> list[bytes] | None:
        """The names in an open folder, None where it can't be listed, which is noted."""
        try:
            return split(os.fsencode("/".join(os.listdir(here))))
        except OSError as error:
            self._give_up_on(error)
            self.collector.skip(path, SkipReason.UNREADABLE)
            return None

    def _looked_at(self, here: int, names: list[bytes], stamp: Stat | None) -> Listed:
        """The names with their stats; what is gone meanwhile is left out."""
        look = os.lstat
        try:
            stats = [stat_of(look(name, dir_fd=here)) for name in names]
            return Listed(names, stats, [], stamp)
        except OSError:
            pass  # rare; find out which
        seen: dict[bytes, Stat] = {}
        unseen = []
        for name in names:
            try:
                seen[name] = stat_of(look(name, dir_fd=here))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._give_up_on(error)
                unseen.append(name)
        return Listed(list(seen), list(seen.values()), unseen, None)

    # --- Entries. ----------------------------------------------------------------------------------------------------

    def entry(
        self,
        here: int,
        name: bytes,
        folder: bytes,
        seen: Stat,
        rules: Ignoring | None,
        found: Found,
        known: Known | None = None,
    ) -> Stat:
        """Capture one name of the open folder `here` into `found`; the stat to remember it by."""
        path = join(folder, name)
        kind = stat.S_IFMT(seen[0])
        racy = seen[2] >= self._racy_from or seen[3] >= self._racy_from
        if name == GIT:
            found.skipped.append((name, SkipReason.GIT))
        elif self.is_own(name, path):
            found.skipped.append((name, SkipReason.OWN_FILE))
        elif rules and self._ignored(name, path, seen, rules, known):
            if racy and name == IGNORE_FILE:
                found.racy.append(name)
        elif kind == stat.S_IFREG:
            old = known.entry(name, seen) if known is not None else None
            if old is not None and self.collector.take(1, old.size):
                found.entries.append(old)
                return seen
            return self._file(here, name, path, seen, found)
        elif kind == stat.S_IFDIR:
            self.subfolder(here, name, seen, path, found, self._inside(seen, rules))
        elif kind == stat.S_IFLNK:
            self._link(here, name, path, found)
            if racy:
                found.racy.append(name)
        else:
            found.skipped.append((name, _ODD.get(kind, SkipReason.DEVICE)))
        return seen

    def is_own(self, name: bytes, path: bytes) -> bool:
        """Whether something is Jumar's own, by its path or as a slot of a restore."""
        return name.startswith(SLOT_PREFIX) or path in self._own

    def _ignored(self, name: bytes, path: bytes, seen: Stat, rules: Ignoring, known: Known | None) -> bool:
        told = known.ignored(name, seen, self._key(rules)) if known is not None else None
        return told if told is not None else rules.ignores(path, stat.S_ISDIR(seen[0]))

    def _file(self, here: int, name: bytes, path: bytes, seen: Stat, found: Found) -> Stat:
        collector = self.collector
        if not collector.take(1, seen[1]):
            found.skipped.append((name, SkipReason.BUDGET))
            return seen
        try:
            read = read_file(name, here, collector.keep_blob)
        except OSError as error:
            self.missed(error, name, path, found)
            collector.untake(1, seen[1])
            return seen
        if read is None:
            self.missed(OSError(errno.ENOTDIR, ""), name, path, found)
            collector.untake(1, seen[1])
            return seen
        if read.parts:
            collector.keep_parts(read)
        collector.size += read.size - seen[1]
        found.entries.append(Entry(name, EntryKind.FILE, read.stat[0] & trees.MODE_BITS, read.size, read.digest))
        if read.torn:
            collector.torn.append(path)
        if read.torn or read.stat[2] >= self._racy_from or read.stat[3] >= self._racy_from:
            found.racy.append(name)
        return read.stat

    def _link(self, here: int, name: bytes, path: bytes, found: Found) -> None:
        try:
            target = os.readlink(name, dir_fd=here)
        except OSError as error:
            self.missed(error, name, path, found)
            return
        found.entries.append(Entry(name, EntryKind.LINK, 0, target=target))
        self.collector.links += 1

    def subfolder(
        self, here: int, name: bytes, seen: Stat, path: bytes, found: Found, capture: Callable[[int, bytes], bytes]
    ) -> None:
        """Capture a subfolder into `found`; `capture` answers the node of an open folder and its path."""
        if seen[5] != self._device:
            found.skipped.append((name, SkipReason.OTHER_FILESYSTEM))
            return
        digest = self._enter(here, name, path, capture)
        if digest is None:
            found.racy.append(name)
            return
        found.entries.append(Entry(name, EntryKind.DIR, seen[0] & trees.MODE_BITS, 0, digest))

    def _enter(self, here: int, name: bytes, path: bytes, capture: Callable[[int, bytes], bytes]) -> bytes | None:
        """The node of the subfolder `name`; None where it can't be captured, which is noted, or is gone."""
        if self.collector.spent or self._depth >= _DEEPEST:
            self.collector.skip(path, SkipReason.BUDGET if self.collector.spent else SkipReason.DEEP)
            return None
        try:
            inner = os.open(name, FOLDER, dir_fd=here)
        except OSError as error:
            reason = self._reason(error)
            if reason is not None:
                self.collector.skip(path, reason)
            return None
        self._depth += 1
        try:
            digest = capture(inner, path)
        finally:
            self._depth -= 1
            os.close(inner)
        self.collector.dirs += 1
        return digest

    # --- What can't be read. -----------------------------------------------------------------------------------------

    def missed(self, error: OSError, name: bytes, path: bytes, found: Found) -> None:
        """A name that was listed and can't be captured now; it is looked at again the next time."""
        found.racy.append(name)
        reason = self._reason(error)
        if reason is not None:
            self.collector.skip(path, reason)

    def _reason(self, error: OSError) -> SkipReason | None:
        """Why something was not captured; None where it is simply gone."""
        self._give_up_on(error)
        if error.errno == errno.ENOENT:
            return None
        return (
            SkipReason.VANISHED if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENXIO) else SkipReason.UNREADABLE
        )

    @staticmethod
    def _give_up_on(error: OSError) -> None:
        """Raise what says something about this process and nothing about the file."""
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise errors.WorkspaceError(
                f"the workspace can't be read: {error.strerror}", hint="Close files, or raise the limit of open ones."
            ) from error

    def _ignore_text(self, here: int) -> bytes | None:
        """The text of the ignore file in an open folder; None where there is none that can be read."""
        try:
            file = os.open(IGNORE_FILE, _TEXT, dir_fd=here)
        except OSError as error:
            self._give_up_on(error)
            return None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            text = b""
            while len(text) < _MOST_RULES and (more := os.read(file, _MOST_RULES)):
                text += more
            return text
        except OSError:
            return None
        finally:
            os.close(file)

    def rules_in(self, here: int, path: bytes, above: Ignoring) -> Ignoring:
        """The rules for what is in an open folder that is not captured as a whole."""
        text = self._ignore_text(here)
        self._note(path, text)
        return self._rules(path, above, text) or above

    def names(self, here: int, path: bytes) -> list[bytes]:
        """The names in an open folder; none where it can't be listed, which is noted."""
        return self._names(here, path) or []
