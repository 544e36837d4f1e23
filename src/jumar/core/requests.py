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

    `is_trusted` says whether the run's lease surely lasts: for so long whoever waits for a change waits behind a hot
    one that the store does not take.
    """

    __slots__ = ("is_trusted", "version")

    def __init__(self, version: int, is_trusted: Callable[[], bool] = bool) -> None:
        self.version = version
        self.is_trusted = is_trusted


class Written(Struct, frozen=True):
    """How long a hot write took: seconds until it was accepted, seconds until it was on disk, and how often it was
    tried again.
    """

    hot: float
    cold: float
    retries: int


Told: TypeAlias = Callable[[Outcome | Exception, Written], None]


class Commit(Struct, Request[Outcome], frozen=True, eq=False):
    """Write a change and answer once it is on disk (or refused).  A StoreError is thrown into the flow.

    With `hot` nobody waits: the answer is an Ack of what is queued, and `hot` is told, in whatever thread, once it is
    on disk, refused, or in error for good.  Where too much is queued already it is waited for after all.
    """

    change: Change
    lane: Lane | None = None
    hot: Told | None = None


class Flush(Request[None]):
    """Wait until the hot changes of a run are on disk, or its lease can no longer be trusted."""

    __slots__ = ("lane",)

    def __init__(self, lane: Lane) -> None:
        self.lane = lane


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
    it goes on past its timeout, or after whoever waited for it was interrupted.  A late end fills in `value` or `error`
    (where there is none yet), then `over_at`, then calls `late`.
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


class Look(Request[Attempt]):
    """Run a plain function of the user's that is no call's body, in a thread of its own and for at most `timeout`
    seconds.  It answers how that ended and never throws; what is cancelled meanwhile counts after it.
    """

    __slots__ = ("body", "scope", "timeout")

    def __init__(self, body: Callable[[], Any], scope: Any, timeout: float) -> None:
        self.body = body
        self.scope = scope
        self.timeout = timeout


class Fan(Request[list[Attempt]]):
    """Run several bodies side by side, each in its own scope, and answer when all have settled."""

    __slots__ = ("bodies",)

    def __init__(self, bodies: Sequence[Invoke]) -> None:
        self.bodies = bodies


# --- Files. ----------------------------------------------------------------------------------------------------------


class Place:
    """Some paths of a workspace (without any, the whole), as one call of this process, or under number 0 a rollback,
    has them to itself.
    """

    __slots__ = ("paths", "run_id", "seq")

    def __init__(self, run_id: str, seq: int, paths: Sequence[bytes] = (b"",)) -> None:
        self.run_id = run_id
        self.seq = seq
        self.paths = tuple(paths)


class Occupy(Request["Place | None"]):
    """Have the paths of `place` to oneself: in this process against other places that overlap, and, by the workspace's
    lock, against other processes.  The answer is None once that is so, else whoever is in the way (without a run's id
    where it is another process).  With a `snapshot` the paths are those that it covers.
    """

    __slots__ = ("place", "root", "snapshot")

    def __init__(self, root: str, place: Place, snapshot: bytes | None = None) -> None:
        self.root = root
        self.place = place
        self.snapshot = snapshot


class Captured(Struct, frozen=True):
    """A snapshot that is on disk, and what it is called."""

    digest: bytes
    snapshot: Any  # a core.trees.Snapshot, which a program without a workspace never loads
    links: tuple[tuple[bytes, bytes], ...] = ()  # where a glob names a symbolic link: its path and target


class Known:
    """What a run knows of its workspace: the newest snapshot of the whole (None where there is none), how many changes
    have been made that no snapshot tells, and how many of these the newest one has seen.
    """

    __slots__ = ("changes", "seen", "tree")

    def __init__(self, tree: bytes | None = None) -> None:
        self.tree = tree
        self.changes = 0
        self.seen = 0


class Capture(Request[Captured]):
    """Take a snapshot: of the whole workspace, or of what the globs of `scope` name.  A whole one is noted in `known`.
    `tell` is called with how far it is, from whatever thread, once it has taken a while.  WorkspaceError and its kin
    are thrown into the flow.
    """

    __slots__ = ("known", "root", "scope", "tell")

    def __init__(
        self,
        root: str,
        known: Known,
        scope: Sequence[bytes] = (),
        tell: Callable[[Any], None] | None = None,
    ) -> None:
        self.root = root
        self.known = known
        self.scope = tuple(scope)
        self.tell = tell


class Restore(Request[Any]):
    """Put files back to the snapshot `target`; answers a core.restoring.Report.  `known` is the snapshot of how they
    were last known, `paths` are globs that narrow it; `dry` touches nothing and tells what would be done.
    WorkspaceError and its kin are thrown into the flow.
    """

    __slots__ = ("dry", "force", "known", "paths", "root", "skip", "target")

    def __init__(
        self,
        root: str,
        target: bytes,
        *,
        known: bytes | None = None,
        paths: Sequence[bytes] = (),
        force: bool = False,
        skip: bool = False,
        dry: bool = False,
    ) -> None:
        self.root = root
        self.target = target
        self.dry = dry
        self.known = known
        self.paths = tuple(paths)
        self.force = force
        self.skip = skip


class Materialise(Request[str]):
    """Make a folder of this host's own of what a run's files were on another: the whole snapshot `tree` with `parts`,
    snapshots of declared paths, in their place; it is named after `run_id` and `move`, the claim it is made for.
    Answers where it is, as a run's row says it.

    WorkspaceElsewhere where the snapshots lack something; IntegrityError, StoreError and WorkspaceError as they come.
    """

    __slots__ = ("move", "parts", "run_id", "tree")

    def __init__(self, run_id: str, move: int, tree: bytes, parts: Sequence[bytes] = ()) -> None:
        self.run_id = run_id
        self.move = move
        self.tree = tree
        self.parts = tuple(parts)


class Graft(Request[None]):
    """Bring the whole snapshot in `known`, where there is one, up to date by `part`, one of declared paths, without
    looking at the disk; where that cannot be done there is none any more.
    """

    __slots__ = ("known", "part", "root")

    def __init__(self, root: str, known: Known, part: bytes) -> None:
        self.root = root
        self.known = known
        self.part = part
