"""How the files of two snapshots differ, as people read it: path by path, and small texts line by line.

The comparison itself is that of trees (see `jumar.core.trees.diff`), which never opens what is equal on both sides.
Here each differing path gets the word for what became of it.  Texts are compared where both sides are short, are UTF-8
and hold no NUL: whatever else a file holds, its size and its digest say that it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff

from msgspec import Struct

from jumar.core.restoring import shown
from jumar.core.scopes import covers
from jumar.core.trees import Change, Entry, EntryKind, Load, Snapshot, diff

MOST_TEXT_BYTES = 64 << 10  # of either side; what it takes to compare grows with the square of it
MOST_TEXT_LINES = 5_000
_NO_NEWLINE = "\\ No newline at end of file\n"
_KINDS = {EntryKind.FILE: "file", EntryKind.DIR: "folder", EntryKind.LINK: "link"}


class FileState(Struct, frozen=True):
    """What stands at a path on one side: `kind` is `file`, `folder` or `link`, `mode` as of chmod, `size` in bytes of a
    file's content and `digest` its sha256 in hex; `target` is what a link says.
    """

    kind: str
    mode: int
    size: int = 0
    digest: str | None = None
    target: str | None = None


class FileChange(Struct, frozen=True):
    """One path, relative and `/`-separated, that two snapshots have differently.

    `what` is `added`, `deleted`, `changed` (its content, perhaps its mode as well), `mode` (that alone) or `replaced`
    (it is of another kind).  `text` is the unified diff of two texts, where that was asked for and can be told.
    """

    path: str
    what: str
    before: FileState | None
    after: FileState | None
    text: str | None = None


class Diff(Struct, frozen=True):
    """How the files of a run differ between two points.

    `a` and `b` are the versions of the points, None for now; `names` are those of their checkpoints (`now` for now).
    `complete` is False where one of the snapshots lacks something, so that a difference there is not told.
    """

    run_id: str
    a: int | None
    b: int | None
    names: tuple[str, str]
    changes: tuple[FileChange, ...]
    complete: bool = True


def changes(load: Load, a: Snapshot, b: Snapshot, paths: Iterable[bytes] = ()) -> Iterator[Change]:
    """What differs between two snapshots at the paths that the globs name (none: anywhere)."""
    covered = covers(tuple(paths))
    return (change for change in diff(load, a.root, b.root) if covered(change.path))


def told(change: Change, text: str | None = None) -> FileChange:
    """A change for people."""
    return FileChange(shown(change.path), _what(change), _state(change.before), _state(change.after), text)


def _what(change: Change) -> str:
    before, after = change.before, change.after
    if before is None:
        return "added"
    if after is None:
        return "deleted"
    if before.kind is not after.kind:
        return "replaced"
    if before.kind is EntryKind.DIR or (before.digest, before.target) == (after.digest, after.target):
        return "mode"
    return "changed"


def _state(entry: Entry | None) -> FileState | None:
    if entry is None:
        return None
    content = entry.digest.hex() if entry.digest is not None and entry.kind is EntryKind.FILE else None
    return FileState(
        _KINDS[entry.kind], entry.mode, entry.size, content, None if entry.target is None else shown(entry.target)
    )


def may_be_text(change: Change) -> bool:
    """Whether the contents are worth reading to compare them line by line: a file's that appears, goes or changes."""
    sides = [side for side in (change.before, change.after) if side is not None]
    if any(side.kind is not EntryKind.FILE or side.size > MOST_TEXT_BYTES for side in sides):
        return False
    return len({side.digest for side in sides}) == 2 or len(sides) == 1


def unified(path: bytes, before: bytes | None, after: bytes | None) -> str | None:
    """The unified diff of two texts (None: no such file on that side); None where a side is no text."""
    old, new = _lines(before), _lines(after)
    if old is None or new is None or len(old) > MOST_TEXT_LINES or len(new) > MOST_TEXT_LINES:
        return None
    name = shown(path)
    names = ("/dev/null" if before is None else f"a/{name}"), ("/dev/null" if after is None else f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in unified_diff(old, new, *names))


def _lines(data: bytes | None) -> list[str] | None:
    """A text's lines with their ends; None where it is none."""
    if data is None:
        return []
    if b"\0" in data:
        return None
    try:
        *lines, last = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    return [f"{line}\n" for line in lines] + ([last] if last else [])
