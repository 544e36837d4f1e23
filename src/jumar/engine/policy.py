"""What a harness decides once, and what a tool decides for its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from jumar.core.limits import DEFAULT_STALL, DEFAULT_TTL, SnapshotLimits
from jumar.core.path_templates import Template
from jumar.core.references import KINDS
from jumar.core.states import CallKind, Effect, ErrorClass, IdentityScope, Strategy
from jumar.core.triggers import DEFAULTS, Triggers
from jumar.core.uncertain import sure_of_not_happened_at
from jumar.core.working import DEFAULT_MAX_CRASHES


class Fingerprint(Struct, frozen=True):
    """What reads the state of something outside: a plain function without arguments, given so many seconds."""

    read: Callable[[], Any]
    timeout: float


class Settings(Struct, frozen=True):
    """A harness's settings.  Times are seconds."""

    lease_ttl: float = DEFAULT_TTL
    stall_timeout: float = DEFAULT_STALL
    reference_kinds: frozenset[str] = KINDS
    error_classes: Mapping[type[BaseException], ErrorClass] = MappingProxyType({})
    strict: bool = False
    workspace: str | None = None  # the root of the files that new runs work on
    triggers: Triggers = MappingProxyType(DEFAULTS)
    snapshot_limits: SnapshotLimits = SnapshotLimits()
    fingerprints: Mapping[str, Fingerprint] = MappingProxyType({})
    refuses_drift: bool = False
    max_crashes: int = DEFAULT_MAX_CRASHES  # at which a run that nobody asked for is given up
    hot: bool = False  # whether reads are recorded without waiting for it

    @property
    def ttl_ms(self) -> int:
        """How long a lease lasts."""
        return int(self.lease_ttl * 1000)

    @property
    def margin_ms(self) -> int:
        """How much before its end a lease is no longer trusted for sending something new."""
        return self.ttl_ms // 10

    @property
    def dispatch_ms(self) -> int:
        """How long after STARTED was committed a call may still be sent."""
        return self.ttl_ms * 2 // 3


class Codec(Protocol):
    """What a call's result goes through: see `core.codec.TypedCodec`."""

    def round_trip(self, value: Any) -> tuple[bytes, Any]:
        """What is recorded of a value, and what the agent gets."""
        ...

    def decode(self, data: bytes) -> Any:
        """The value that was recorded."""
        ...


class ToolPolicy(Struct, frozen=True):
    """How the calls of one tool, decision or value are made.  `settle` of None means two lease ttls."""

    kind: CallKind
    name: str
    effect: Effect
    codec: Codec
    retries: int | None = 0  # None: as the triggers say
    timeout: float | None = None
    not_applied: tuple[type[BaseException], ...] = ()
    errors: tuple[type[BaseException], ...] = ()
    settle: float | None = None
    probe: Callable[..., Any] | None = None
    usage: Any = None  # a Usage, or what reads one from the result
    approval: bool = False  # whether a person is asked before an attempt is sent
    identity: Callable[..., Any] | None = None  # what names the action, from the tool's own arguments
    identity_scope: IdentityScope = IdentityScope.RUN
    # Typed arguments out of JSON: positional, by name, and as canonical JSON again.
    arguments: Callable[[bytes], tuple[Sequence[Any], dict[str, Any], bytes]] | None = None
    # Of a `write`: the files it declares, what says of the result (first) and the arguments whether they are sound.
    paths: tuple[Template, ...] = ()
    bind: Callable[..., dict[str, Any]] | None = None  # positional and named arguments by the parameters' names
    verify: Callable[..., Any] | None = None
    compensate: Callable[..., Any] | None = None  # undoes a call, from its result (first) and its arguments
    strategy: Strategy | None = None  # instead of the one that `core.strategies` chooses
    hot: bool | None = None  # of a read: whether its end is recorded without waiting for it; None: as the harness says
    threaded: bool = False  # a plain body that an async run sends to a worker thread, as gather and map do

    def sure_at(self, settings: Settings, ended_at: int | None, dispatch_by: int) -> int:
        """The lease-clock millisecond from which it is believed of an attempt that it did not happen; `ended_at` is
        when it was over, None where that is not known.
        """
        return sure_of_not_happened_at(
            ended_at=ended_at,
            dispatch_by=dispatch_by,
            timeout_ms=None if self.timeout is None else int(self.timeout * 1000),
            stall_ms=int(settings.stall_timeout * 1000),
            settle_ms=self.settle_ms(settings),
        )

    def settle_ms(self, settings: Settings) -> int:
        """How long after an attempt's end a late effect is still reckoned with."""
        return int((2 * settings.lease_ttl if self.settle is None else self.settle) * 1000)
