"""What a flow may ask of its driver.

A flow is a generator: it yields a request and receives the answer, so one flow serves the plain and the asyncio
driver, and every yield is a point where a test can crash, delay or reorder.  A request's `__iter__` yields itself,
which types the answer: `ack = yield from Commit(advance)`.  Those that every call needs are Structs, which are made
in C.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from jumar.core.changes import Change, Outcome
from jumar.core.records import LeaseTime
from jumar.core.store import Store

T = TypeVar("T")

Flow: TypeAlias = Generator["Request[Any]", Any, T]


class Request(Generic[T]):
    """Base of all requests; `T` is the type of the answer."""

    __slots__ = ()

    def __iter__(self) -> Generator[Request[Any], Any, T]:
        answer: T = yield self
        return answer


class Lane:
    """Where a run's version is counted: each advance is given the next one when it is queued, so that parallel calls
    of one run can share a commit.
    """

    __slots__ = ("version",)

    def __init__(self, version: int) -> None:
        self.version = version


class Commit(Struct, Request[Outcome], frozen=True, eq=False):
    """Write a change and answer once it is on disk (or refused).  A StoreError is thrown into the flow."""

    change: Change
    lane: Lane | None = None


class Load(Request[T]):
    """Read from the store."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[Store], T]) -> None:
        self.read = read


class Now(Request[tuple[int, LeaseTime]]):
    """The wall clock in milliseconds, and the lease clock."""

    __slots__ = ()


class Sleep(Request[None]):
    """Wait so many seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Attempt(Struct, eq=False):
    """How an invoked body ended.

    Times are wall-clock milliseconds, but for `over_at`, which is the lease clock's when the body ended, None while
    it goes on past its timeout.  A late end fills in `value` or `error`, then `over_at`, then calls `late`.
    """

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False
    started_at: int = 0
    ended_at: int = 0
    over_at: int | None = None
    late: Callable[[], None] | None = None
    sent: bool = True  # False where the body never began


class Invoke(Struct, Request[Attempt], frozen=True, eq=False):
    """Run a body of the user's: it answers how that ended and never throws.

    `scope` is what `current_call()` sees meanwhile.  After `timeout` seconds the answer is given as timed out, with
    `ended_at` as the moment it was given up waiting for, and the attempt's `over_at` stays None while the body goes
    on; it is filled in when the body ends after all.
    `threaded` sends a plain body of an async run to a worker thread.
    """

    body: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    scope: Any
    timeout: float | None = None
    threaded: bool = False


class Fan(Request[list[Attempt]]):
    """Run several bodies side by side, each in its own scope, and answer when all have settled."""

    __slots__ = ("bodies",)

    def __init__(self, bodies: Sequence[Invoke]) -> None:
        self.bodies = bodies
