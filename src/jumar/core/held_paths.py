"""Which paths a write holds: what it declares, told as paths without wildcards.

A hold covers a path and all below it, so a glob is held by the folder in which its first wildcard stands.  That may be
more than the glob can ever name; two writes that are kept apart without need do no harm, two that meet do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jumar.core.globs import literal
from jumar.core.scopes import Reach
from jumar.core.trees import EntryKind, Load, Snapshot, join

WHOLE = b""  # the root, and with it everything


def held_path(glob: bytes) -> bytes:
    """The path that covers all that a glob of a scope can name."""
    segments = []
    for part in glob.split(b"/"):
        if part in (b"", b"."):
            continue
        name = literal(part.decode("utf-8", "surrogateescape"))
        if name is None:
            break
        segments.append(name.encode("utf-8", "surrogateescape"))
    return b"/".join(segments)


def held_paths(scope: Iterable[bytes]) -> tuple[bytes, ...]:
    """The paths that cover a scope (an empty one is the whole workspace), none of them below another, sorted."""
    found: list[bytes] = []
    for path in sorted({held_path(glob) for glob in scope}):
        if not any(overlap(above, path) for above in found):  # which are sorted before what is below them
            found.append(path)
    return tuple(found) or (WHOLE,)


def overlap(a: bytes, b: bytes) -> bool:
    """Whether one of two paths is the other, or a folder above it."""
    if len(a) > len(b):
        a, b = b, a
    return not a or a == b or b.startswith(a + b"/")


def overlapping(some: Iterable[bytes], others: Iterable[bytes]) -> bool:
    """Whether any of some paths is in the way of any of others."""
    rest = tuple(others)
    return any(overlap(a, b) for a in some for b in rest)


def named_links(load: Load, snapshot: Snapshot) -> Iterator[tuple[bytes, bytes]]:
    """Where a glob of a snapshot's scope names a symbolic link: its path, and what is written in it.  Links in a folder
    that a glob names are not told: the folder is what is meant.
    """
    waiting: list[tuple[bytes, bytes, Reach]] = [(b"", snapshot.root, Reach.of(snapshot.scope))]
    while waiting:
        folder, node, reach = waiting.pop()
        if reach.matched:
            continue
        for entry in load(node):
            inner = reach.into(entry.name)
            if inner is None:
                continue
            path = join(folder, entry.name)
            if entry.kind is EntryKind.LINK and entry.target is not None and inner.matched:
                yield path, entry.target
            elif entry.kind is EntryKind.DIR and entry.digest is not None:
                waiting.append((path, entry.digest, inner))


def led_to(root: bytes, path: bytes, target: bytes) -> bytes | None:
    """The path that a link at `path` leads to, told from the text of the two alone; None where that is not inside the
    root (whose own path is `root`), or the root itself.
    """
    if target.startswith(b"/"):
        if not target.startswith(root + b"/"):
            return None
        segments: list[bytes] = []
        target = target[len(root) + 1 :]
    else:
        segments = path.split(b"/")[:-1]
    for segment in target.split(b"/"):
        if segment in (b"", b"."):
            continue
        if segment != b"..":
            segments.append(segment)
        elif segments:
            segments.pop()
        else:
            return None
    return b"/".join(segments) or None
