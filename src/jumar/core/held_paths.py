"""Which paths a write holds: what it declares, told as paths without wildcards.

A hold covers a path and all below it, so a glob is held by the folder in which its first wildcard stands.  That may be
more than the glob can ever name; two writes that are kept apart without need do no harm, two that meet do.
"""

from __future__ import annotations

from collections.abc import Iterable

from jumar.core.globs import literal

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
