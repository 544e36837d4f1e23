"""What a sweep and the processes it starts say to each other: one JSON object a line.

The sweep says once what is to be done, and later what a person would answer.  A process tells every point as it
passes it, how far it moved its clock, what its run waits for, and how it ended.  What it told before it was killed is
in the pipe, and can be read after its death.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from jumar.harness.results import WaitingOn


class Kill(Struct, frozen=True):
    """Where a process dies: at the `nth` point of this name, or at its `nth` point at all."""

    name: str | None
    nth: int

    def __str__(self) -> str:
        if self.name is None:
            return f"point {self.nth}"
        return self.name if self.nth == 1 else f"{self.name} (number {self.nth} of this name)"


class Aim:
    """Counts the points that go by, up to the one where a process dies."""

    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill
        self._seen = 0

    def hits(self, name: str) -> bool:
        """Whether the point passed now is the one."""
        kill = self._kill
        if kill is None or kill.name not in (None, name):
            return False
        self._seen += 1
        return self._seen == kill.nth


class Orders(Struct, frozen=True):
    """What a process is to do: drive this run of this app's agent on this store, with its clock so far ahead, and die
    by its own hand at `kill`.  `line` is the file descriptor it tells everything to."""

    app: str
    input: msgspec.Raw
    store: str
    run_id: str
    ahead_ms: int
    kill: Kill | None
    line: int


class Answer(Struct, frozen=True):
    """What a person says about a call: `happened`, `not-happened`, `approve`, `reject` or `value`."""

    call_id: str
    verdict: str
    value: Any = None


class Answers(Struct, frozen=True):
    """What is answered of what was asked; nothing of it, perhaps."""

    answers: tuple[Answer, ...]


class Passed(Struct, frozen=True, tag="passed"):
    """A point was passed."""

    name: str


class Moved(Struct, frozen=True, tag="moved"):
    """The process's clock is so many milliseconds ahead from now on."""

    ahead_ms: int


class Waits(Struct, frozen=True, tag="waits"):
    """The run waits for answers."""

    asked: tuple[WaitingOn, ...]


class Done(Struct, frozen=True, tag="done"):
    """The process has done what it could: the run has ended, or waits for what nobody gives."""


class Broke(Struct, frozen=True, tag="broke"):
    """The run could not be driven: the error's type, and what it says."""

    name: str
    what: str
    safe: str = ""
    hint: str = ""


Told: TypeAlias = Passed | Moved | Waits | Done | Broke

encode = msgspec.json.Encoder().encode
decode_told: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)
decode_orders = msgspec.json.Decoder(Orders)
decode_answers = msgspec.json.Decoder(Answers)
