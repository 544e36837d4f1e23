"""Scopes: the declared paths of a snapshot, as globs, and how far a walk from the root may follow them.

A scope is a list of globs of `/`-separated segments: `*`, `?`, `[...]` in a segment, `**` for any number of folders,
a backslash before what is meant literally.  It covers what a glob names and all below that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from jumar.core import globs

_Segment: TypeAlias = re.Pattern[str] | bytes | None  # a glob, a literal name, `**`
_State: TypeAlias = tuple[int, int]  # which glob, and how many of its segments are behind


class Reach:
    """Where a walk from the root stands in the globs of a scope.

    `matched` says that a glob names this very place, so that everything below belongs to the scope.
    """

    __slots__ = ("_globs", "_states", "matched")

    def __init__(self, parsed: Sequence[tuple[_Segment, ...]], states: Iterable[_State]) -> None:
        self._globs = parsed
        self._states = frozenset(self._with_no_folder(states))
        self.matched = any(at == len(parsed[number]) for number, at in self._states)

    @classmethod
    def of(cls, scope: Iterable[bytes]) -> Reach:
        """The reach of a scope at the root; an empty glob or `.` names the root itself."""
        parsed = [_parsed(glob) for glob in scope]
        return cls(parsed, ((number, 0) for number in range(len(parsed))))

    def _with_no_folder(self, states: Iterable[_State]) -> Iterable[_State]:
        """The states, and those reached where a `**` before other segments stands for no folder at all."""
        for number, at in states:
            glob = self._globs[number]
            yield number, at
            while at < len(glob) - 1 and glob[at] is None:
                at += 1
                yield number, at

    def into(self, name: bytes) -> Reach | None:
        """The reach inside `name`; None where no glob leads there.  Not to be asked below what matched."""
        states: list[_State] = []
        for number, at in self._states:
            glob = self._globs[number]
            if at == len(glob):
                continue
            segment = glob[at]
            if segment is None:
                states.append((number, at + 1 if at == len(glob) - 1 else at))
            elif segment == name if isinstance(segment, bytes) else segment.fullmatch(_text(name)):
                states.append((number, at + 1))
        return Reach(self._globs, states) if states else None

    @property
    def names(self) -> frozenset[bytes] | None:
        """The only names that lead on from here; None where a glob has to see what is there."""
        segments = {self._globs[number][at] for number, at in self._states if at < len(self._globs[number])}
        names = frozenset(segment for segment in segments if isinstance(segment, bytes))
        return names if len(names) == len(segments) else None


def covers(scope: tuple[bytes, ...]) -> Callable[[bytes], bool]:
    """Whether a path is named by one of the globs, or lies below what is; an empty scope covers everything."""
    if not scope:
        return lambda path: True
    start = Reach.of(scope)

    def covered(path: bytes) -> bool:
        reach: Reach | None = start
        for name in path.split(b"/") if path else ():
            if reach is None or reach.matched:
                break
            reach = reach.into(name)
        return reach is not None and reach.matched

    return covered


@lru_cache(maxsize=1024)
def _parsed(glob: bytes) -> tuple[_Segment, ...]:
    return tuple(_segment(part) for part in glob.split(b"/") if part not in (b"", b"."))


def _segment(part: bytes) -> _Segment:
    if part == b"**":
        return None
    text = _text(part)
    plain = globs.literal(text)
    if plain is not None:
        return plain.encode("utf-8", "surrogateescape")
    return re.compile(globs.segment(text) or "(?!)", re.DOTALL)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
