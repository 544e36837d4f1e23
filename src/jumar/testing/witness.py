"""An outside witness: what really happened, told by nobody who could be wrong about it.

A run's own records say what the run believes.  Whether an effect took place twice is for the outside world to tell,
so the tools of a crash test act on this: a log of its own, appended to with one write a line, that outlives every
process.  It is also the service that the tools call: `apply` honours an idempotency key as such a service does, and
`happened` answers a probe.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from jumar.engine.scope import current_call
from jumar.testing.crash import World

_encode = msgspec.json.Encoder().encode


class Line(msgspec.Struct, frozen=True):
    """One thing that happened: what (`read`, `sent`, `applied`, `repeated`, or a word of the test's own), to which
    tool, under which key, in which call and attempt, and by whom."""

    what: str
    tool: str
    key: str = ""
    call_id: str = ""
    attempt: int = 0
    by: str = ""


_decode = msgspec.json.Decoder(Line).decode


class Witness:
    """The log at `path`, written to on behalf of `by`; with a `world`, only while that world goes on."""

    def __init__(self, path: str | Path, *, by: str = "", world: World | None = None) -> None:
        self.path = Path(path)
        self._by = by
        self._world = world

    def note(self, what: str, tool: str, key: str = "") -> None:
        """Something happened."""
        with self._open() as file:
            self._append(file, what, tool, key)

    def send(self, tool: str) -> None:
        """An effect that happens each time it is sent, whatever the key; refuses nothing and forgets nothing."""
        self.note("sent", tool, _key())

    def apply(self, tool: str) -> bool:
        """An effect at a service that honours idempotency keys: whether this key was new to it."""
        key = _key()
        with self._open() as file:
            is_new = not any(line.key == key and line.what == "applied" for line in self.lines())
            self._append(file, "applied" if is_new else "repeated", tool, key)
        return is_new

    def is_first(self) -> bool:
        """Whether this is the first time that the present call comes here: for a service that refuses once."""
        key = _key()
        with self._open() as file:
            is_first = not any(line.key == key and line.what == "refused" for line in self.lines())
            if is_first:
                self._append(file, "refused", "", key)
        return is_first

    def happened(self) -> bool:
        """For a probe: whether the call it asks about took place."""
        return any(line.key == _key() and line.what in ("sent", "applied") for line in self.lines())

    def lines(self) -> list[Line]:
        """All that happened so far, in order."""
        if not self.path.exists():
            return []
        return [_decode(line) for line in self.path.read_bytes().splitlines()]

    def count(self, what: str, tool: str | None = None) -> int:
        """How often something happened."""
        return sum(line.what == what and tool in (None, line.tool) for line in self.lines())

    @contextmanager
    def _open(self) -> Generator[int, None, None]:
        with self._world.alive() if self._world is not None else nullcontext():
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)

    def _append(self, file: int, what: str, tool: str, key: str) -> None:
        call: Any = current_call()
        line = Line(what, tool, key, call.call_id if call else "", call.attempt if call else 0, self._by)
        os.write(file, _encode(line) + b"\n")


def seen(path: Path) -> list[Line] | list[str]:
    """What the file at `path` tells: the lines of a Witness, or of any other text; none where there is no file."""
    try:
        return Witness(path).lines()
    except msgspec.DecodeError:
        return path.read_text(encoding="utf-8", errors="backslashreplace").splitlines()


def _key() -> str:
    call = current_call()
    if call is None:
        raise RuntimeError("the witness was called outside of a tool's body")
    return call.idempotency_key
