"""A call: matched with what is recorded, or made and recorded.

Everything an agent does that must not be done twice comes through here: tool calls, model decisions, recorded values,
checkpoints.  `prepare` matches a call in the moment the agent asks for it, so that awaitables gathered in an async
agent are matched in the order in which they were written down; `perform` is the flow that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jumar.core.approvals import needs_a_yes
from jumar.core.call_states import needs_started
from jumar.core.checksums import call_checksum, failure_bytes
from jumar.core.codec import digest
from jumar.core.identities import did_nothing
from jumar.core.limits import check_size
from jumar.core.naming import call_id as call_id_of
from jumar.core.naming import check_key
from jumar.core.records import CallRecord, Failure
from jumar.core.requests import Flow, Invoke
from jumar.core.states import CallKind, CallState, Effect, EventKind, IdentityScope, Phase, Storage, Strategy
from jumar.core.uncertain import RESOLUTION, Resolution
from jumar.engine.flows.actions import named
from jumar.engine.flows.advance import advance
from jumar.engine.flows.approving import ask_approval, may_go_out, remember_edits
from jumar.engine.flows.effects import make_effect, make_read
from jumar.engine.flows.keeping import ready
from jumar.engine.flows.outcomes import forever, load_artifact, new_record, raised, record_end, replayed
from jumar.engine.flows.settling import settle_external
from jumar.engine.live import LiveRun
from jumar.engine.policy import ToolPolicy
from jumar.engine.scope import Branch, CurrentCall, Scope
from jumar.errors import IntegrityError, ReplayDiverged, UsageError

_NOTHING = b"null"
# Looking an enum member up by its class costs a tenth of a microsecond in Python 3.11.
_DECISION = CallKind.DECISION
_ANSWERS = (CallState.SUCCEEDED, CallState.FAILED, CallState.COMPENSATED, CallState.REJECTED)


class Call:
    """One logical call on its way: what is asked for, how it is made, and the record that answers it, if any."""

    __slots__ = (
        "approved",
        "args",
        "args_digest",
        "args_json",
        "body",
        "branch",
        "call_id",
        "effective",
        "identity",
        "instead_of",
        "key",
        "kwargs",
        "leftover",
        "live",
        "ordinal",
        "phase_after",
        "policy",
        "record",
        "seq",
        "step",
        "undone",
    )

    def __init__(
        self,
        live: LiveRun,
        policy: ToolPolicy,
        body: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        args_json: bytes,
        key: str | None,
    ) -> None:
        self.live = live
        self.policy = policy
        self.body = body
        self.args = args
        self.kwargs = kwargs
        self.args_json = args_json
        if policy.kind is not _DECISION:  # of a prompt only the digest is kept
            check_size(args_json, f"the arguments of {policy.name} have")
        self.args_digest = digest(args_json)
        self.key = key
        self.branch: Branch | None = None
        self.record: CallRecord | None = None
        self.step = ""
        self.ordinal = 0
        self.call_id = ""
        self.seq = 0
        self.effective = self.args_digest  # of the arguments it is sent with; a person may have changed them
        self.approved = False  # whether a person has said yes to the next attempt
        self.identity: str | None = None  # the name of the action
        self.instead_of: tuple[int, int] | None = None  # a holder of the name whose place may be taken
        self.undone = 0  # how often the action of that name was undone, as last seen
        self.phase_after: Phase | None = None  # where the advance that ends the call takes a loop agent's run
        self.leftover: CallRecord | None = None  # of a loop agent's call: what a rollback left behind, and answers it

    @property
    def identity_scope(self) -> IdentityScope:
        """How far the name reaches: as it did when it was first used, whatever the tool says since."""
        record = self.record
        if record is None or record.identity_scope is None or record.identity != self.identity:
            return self.policy.identity_scope
        return record.identity_scope

    @property
    def strategy(self) -> Strategy | None:
        """What is done about a failure, where the call, its tool or its step says so."""
        said = self.policy.strategy
        return self.branch.strategy if said is None and self.branch is not None else said

    @property
    def needs_yes(self) -> bool:
        """Whether a person is asked before an attempt is sent: the tool says so, or the call may be one in other words
        that a rollback left behind.
        """
        if self.policy.approval:
            return self.leftover is None
        return needs_started(self.policy.effect) and self.leftover is None and self._has_leftovers()

    def _has_leftovers(self) -> bool:
        return self.live.table.leftover(self.policy.name) is not None

    def sent_with(self, data: bytes) -> None:
        """A person has changed the arguments; what is recorded is still matched by those that were asked for."""
        assert self.policy.arguments is not None
        self.args, self.kwargs, canonical = self.policy.arguments(data)
        self.effective = digest(canonical)

    def invocation(self, attempt: int) -> Invoke:
        """The request that runs the body once."""
        policy = self.policy
        return Invoke(self.body, self.args, self.kwargs, self.scope(attempt), policy.timeout, threaded=policy.threaded)

    def checksum(self, state: CallState, result: bytes | None = None, failure: Failure | None = None) -> int:
        """The checksum of the call's row in this state; see `core.checksums`."""
        policy = self.policy
        failed = None if failure is None else failure_bytes(failure)
        return call_checksum(self.call_id, self.args_digest, policy.kind, policy.effect, state, result, failed)

    def scope(self, attempt: int) -> Scope:
        """What the body sees of the call it makes."""
        live, policy = self.live, self.policy
        current = CurrentCall(
            live.run_id,
            self.call_id,
            self.effective,
            policy.kind,
            policy.name,
            policy.effect,
            attempt,
            self.identity,
            self.identity_scope,
            live.run.origin,
            self.undone,
            live.run.workspace,
        )
        return Scope(live, self.branch or live.root, current)


def prepare(call: Call, branch: Branch | None) -> Call:
    """Match a call with the records of its branch (None: of no branch, by key alone), or give it an id of its own."""
    live, policy = call.live, call.policy
    if branch is not None and branch.wait is not None:
        live.check_branch(branch)
    if live.aside is not None and live.halt is None:
        live.goes_on()
    call.branch = branch
    if call.key is not None:
        check_key(call.key)
        with live.lock:
            call.record = live.table.match_key(policy.kind, call.key, policy.name)
    elif branch is not None:
        call.record = branch.table.match(policy.kind, policy.name, call.args_digest)
    else:
        raise UsageError(
            f"{policy.name} was called from a thread or task that belongs to no branch of the run",
            hint="Use run.gather or run.map, open a step there, or give the call a key: tool.using(key='...').",
        )
    if call.record is not None:
        call.call_id, call.seq, call.step = call.record.call_id, call.record.seq, call.record.step
        call.ordinal = call.record.ordinal
        return call
    call.step = branch.step if branch is not None else ""
    call.seq, call.ordinal = live.next_numbers(call.step, policy.name)
    call.call_id = call_id_of(call.step, policy.name, call.ordinal, live.generation)
    return call


def perform(call: Call) -> Flow[Any]:
    """Answer a prepared call: from its record, or by making it and recording how it ended."""
    live = call.live
    if live.halt is not None:
        _only_asks(call)
    if call.leftover is not None:
        return (yield from _from_leftover(call, call.leftover))
    if call.record is not None:
        return (yield from _answered(call, call.record))
    acts = needs_started(call.policy.effect)
    if acts:
        _refuse_divergence(call)
    if (acts or call.policy.approval) and call.needs_yes:
        raise (yield from ask_approval(call, 0, new=True))
    if not acts:
        return (yield from make_read(call, 1, new=True))
    call.identity = named(call)
    with live.making(call.seq):
        return (yield from _make(call, 1, new=True))


def _from_leftover(call: Call, leftover: CallRecord) -> Flow[Any]:
    """Answer a loop agent's call with what an earlier one did before the run was rolled back.  It is recorded as one
    that made no attempt of its own.
    """
    failure, data, value = leftover.failure, leftover.result, None
    if data is None and leftover.result_artifact is not None:
        data = yield from load_artifact(call, leftover.result_artifact)
    if failure is None:
        value = yield from replayed(call, leftover)
    at = call.live.wall()
    made = 0 if call.record is None else call.record.attempt
    yield from record_end(call, CallState.SUCCEEDED, made, data, failure, None, 0, at, new=False)
    if failure is not None:
        raise raised(call, failure)
    return value


def _only_asks(call: Call) -> None:
    """Raise the latched signal for anything but a call that has yet to ask for its approval."""
    record = call.record
    if call.needs_yes and (record is None or (record.state is CallState.PLANNED and record.attempt == 0)):
        call.live.check_asking()
    else:
        call.live.check()


def _answered(call: Call, record: CallRecord) -> Flow[Any]:
    if record.key is not None and not _is_the_same(call, record):
        raise call.live.stop(diverged(record, f"{call.policy.name}({shown(call.args_json)}) under the same key"))
    if record.kind is _DECISION and record.args_digest != call.args_digest:
        _prompt_changed(call, record)
    if record.state in _ANSWERS:
        return (yield from replayed(call, record))
    if record.failure is not None and record.failure.cancelled:
        yield from remember_edits(call)
        call.identity, call.undone = record.identity, record.undone
        call.live.given_up.append(call)
        yield from forever()
    if record.effect is not call.policy.effect:
        raise call.live.stop(_other_effect(call, record))
    if record.state is CallState.AWAITING or (
        record.state is CallState.PLANNED and needs_a_yes(record) and call.needs_yes
    ):
        yield from may_go_out(call, record)
    elif record.attempt and needs_started(record.effect):
        yield from remember_edits(call)
    if needs_started(record.effect):
        call.identity = _name_of(call, record)
        call.undone = record.undone if call.identity == record.identity else 0
    with call.live.making(call.seq):
        return (yield from _taken_up(call, record))


def _name_of(call: Call, record: CallRecord) -> str | None:
    """The name of the action of a call that has a record: the one it was sent under, because the key that the service
    knows it by is made of that, even where its tool has got, or lost, a name since.
    """
    is_edited = record.identity is not None or call.effective != record.args_digest
    if call.approved and call.policy.identity is not None and is_edited:
        return named(call)  # what is approved now may be another action than the one that was sent before
    if record.identity is None and did_nothing(record.effect, record.attempt, record.failure):
        return named(call)
    return record.identity


def _is_the_same(call: Call, record: CallRecord) -> bool:
    """Whether a call and the record under its key are of one tool and, where it may go out again, of one argument set:
    what was sent under the key may have happened, and another call must not take its place.
    """
    if record.kind is _DECISION:
        return True
    return record.tool == call.policy.name and (record.state in _ANSWERS or record.args_digest == call.args_digest)


def _taken_up(call: Call, record: CallRecord) -> Flow[Any]:
    """A call whose record says that it has not ended."""
    if record.state in (CallState.PLANNED, CallState.AWAITING):
        return (yield from _make(call, record.attempt + 1, new=False))
    if record.state is CallState.UNCERTAIN:
        return (yield from _uncertain(call, record))
    raise call.live.stop(
        IntegrityError(f"call {record.call_id} is {record.state.label}, which no run that is taken up again can hold")
    )


def _uncertain(call: Call, record: CallRecord) -> Flow[Any]:
    resolution = RESOLUTION[record.effect]
    if resolution is Resolution.AGAIN and not call.needs_yes:
        return (yield from make_read(call, record.attempt + 1, new=False))
    if resolution is Resolution.ASK:
        settled = yield from settle_external(call, record.attempt, record, record.dispatch_by)
        if settled.known:
            return settled.value
    if resolution is Resolution.PUT_BACK:
        yield from _put_back(call, record)
    if call.needs_yes:
        raise (yield from ask_approval(call, record.attempt, new=False))
    return (yield from _make(call, record.attempt + 1, new=False))


def _put_back(call: Call, record: CallRecord) -> Flow[None]:
    """Do what the strategy says about a write that was cut off; where a person is asked now, nobody is kept from its
    files meanwhile.
    """
    from jumar.engine.flows.putting_back import after_cut_off  # which a run without files never needs

    yield from after_cut_off(call, record)
    if call.needs_yes:
        with call.live.lock:
            call.live.ride().drops.append(call.seq)


def _make(call: Call, attempt: int, *, new: bool) -> Flow[Any]:
    """Make a call in the way of its effect."""
    effect = call.policy.effect
    if effect is Effect.WRITE:
        from jumar.engine.flows.writing import make_write  # which a run without files never needs

        return make_write(call, attempt, new=new)
    return (make_effect if needs_started(effect) else make_read)(call, attempt, new=new)


def _prompt_changed(call: Call, record: CallRecord) -> None:
    live = call.live
    if live.settings.strict:
        raise live.stop(
            ReplayDiverged(
                f"the prompt of decision {record.call_id} is not the one that was recorded",
                recorded=f"{record.call_id} with arguments {record.args_digest.hex()[:12]}",
                asked=f"{call.policy.name} with arguments {call.args_digest.hex()[:12]}",
            )
        )
    live.ride_event(EventKind.PROMPT_CHANGED, record.seq, call.args_digest.hex()[:12])


def _refuse_divergence(call: Call) -> None:
    """A call that is not a read goes out only if nothing of its kind is left unmatched around it; see `replay`."""
    left = None
    branch = call.branch
    while branch is not None and left is None:
        left, branch = branch.table.first_effect(), branch.parent
    if left is None and call.key is not None:
        left = call.live.table.keyed_twin(call.policy.name, call.args_digest)
    if left is not None:
        raise call.live.stop(diverged(left, f"{call.call_id}({shown(call.args_json)})"))


def _other_effect(call: Call, record: CallRecord) -> ReplayDiverged:
    happened = "sent; what became of it is not known" if record.attempt else "asked for"
    return ReplayDiverged(
        f"{call.policy.name} is declared {call.policy.effect.label} now and was {record.effect.label} when call "
        f"{record.call_id} was {happened}",
        recorded=f"{record.call_id}, {record.effect.label}",
        asked=f"{call.policy.name}, {call.policy.effect.label}",
        hint="Give the tool its old effect back until this run has ended.",
    )


def diverged(record: CallRecord, asked: str) -> ReplayDiverged:
    """The error for code that does something else than what is recorded, with both sides."""
    recorded = f"{record.call_id}({shown(record.args or b'')})"
    return ReplayDiverged(
        "the agent's code does not do what is recorded"
        f"\n  Recorded: {recorded}, {record.state.label}\n  Asked:    {asked}",
        recorded=recorded,
        asked=asked,
    )


def shown(data: bytes, most: int = 120) -> str:
    """Arguments as a person can read them, cut where they are long."""
    text = data.decode("utf-8", "replace")
    text = text[1:-1] if text.startswith("{") else text
    return text if len(text) <= most else text[: most - 1] + "…"


def mark(call: Call, event: str, refs: tuple[str, ...] = ()) -> Flow[None]:
    """Record a call that does nothing but mark where the run stands, and keep a checkpoint there."""
    live = call.live
    live.check()
    if call.record is not None:
        yield from replayed(call, call.record)
        return
    live.before_dispatch()
    yield from ready(live, event)
    context = live.kept_context()
    at = live.wall()
    checksum = call.checksum(CallState.SUCCEEDED, _NOTHING)
    record, artifacts = new_record(
        call, CallState.SUCCEEDED, 1, result=_NOTHING, started_at=at, ended_at=at, checksum=checksum
    )
    trigger = live.settings.triggers.get(event)
    checkpoint = None if trigger is None else live.checkpoint_record(trigger, call.step, context, refs)
    kept = artifacts + context + live.kept_environment()
    hot = checkpoint is not None and checkpoint.storage is Storage.HOT
    yield from advance(live, calls=(record,), artifacts=kept, after=checkpoint, hot=hot)
