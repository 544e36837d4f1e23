"""A run from its creation or claim to its end.

`start` creates a run and takes its lease in one commit.  `take_over` waits for a lease that somebody else may hold.
`drive` runs the agent over what is recorded, and turns how that ended into the run's next status.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jumar.core.changes import Ack, CallChange, Claim, Claimed, Create, Ending, Guard, Refusal
from jumar.core.codec import TypedCodec, digest
from jumar.core.exceptions import calls_of
from jumar.core.failures import classify, short_message
from jumar.core.leases import seconds_left
from jumar.core.limits import check_size
from jumar.core.phases import CLAIMABLE, FINAL, UNASKED
from jumar.core.records import Artifact, EventRecord, RunRecord
from jumar.core.requests import Attempt, Commit, Flow, Invoke, Load, Now, Sleep
from jumar.core.states import Control, ErrorClass, EventKind, Phase, Status, mask
from jumar.core.triggers import ON_TASK_END, ON_TASK_RECEIVED, ON_TASK_START
from jumar.engine.flows.advance import advance, flushed, leave
from jumar.engine.flows.calls import diverged
from jumar.engine.flows.ended import Ended, reread
from jumar.engine.flows.giving_up import settle_given_up
from jumar.engine.flows.keeping import ready
from jumar.engine.flows.orders import obey
from jumar.engine.flows.outcomes import not_storable
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, log
from jumar.engine.policy import Codec, Settings
from jumar.engine.scope import Scope
from jumar.engine.threads import stops_process
from jumar.errors import (
    AgentExited,
    CallFailed,
    IllegalTransition,
    IntegrityError,
    JumarError,
    LeaseHeld,
    MapFailed,
    NotStorable,
    Refused,
    ReplayDiverged,
    Stopped,
)

if TYPE_CHECKING:
    from jumar.engine.flows.planning import LoopPlan

RESUMABLE = mask(*CLAIMABLE)
BY_ITSELF = mask(*UNASKED)
NOT_FAILED = mask(*(CLAIMABLE - {Status.FAILED}))
_LOOK_SECONDS = 0.25  # how often a waiting resume looks whether the lease was renewed


class AgentPlan(Struct, frozen=True):
    """How an agent is run: its body, and the types of what goes in and comes out.  A loop agent has a plan of its own
    in `loop`.
    """

    name: str
    version: str
    body: Callable[..., Any]
    input_codec: TypedCodec
    output_codec: Codec
    tools: frozenset[str] | None
    waits: bool  # an async agent, whose calls are awaited
    loop: LoopPlan | None = None


def input_artifact(codec: TypedCodec, value: Any) -> tuple[Artifact, Any]:
    """A run's input as it is stored, and as the agent gets it."""
    try:
        data, decoded = codec.round_trip(value)
        check_size(data)
    except NotStorable as error:
        raise NotStorable(f"the input: {error.what}", path=error.path, hint=error.hint) from error
    return Artifact(digest(data), data), decoded


def start(
    agent: AgentPlan, run_id: str, task: str, artifact: Artifact, owner: str | None, settings: Settings
) -> Flow[Ack]:
    """Create a run; with an owner, RUNNING under its lease at once."""
    wall, _ = yield from Now()
    change = Create(
        run_id=run_id,
        agent=agent.name,
        agent_version=agent.version,
        task=task,
        phase=Phase.IN_CODE if agent.loop is None else Phase.READY_TO_DECIDE,
        input=artifact,
        at=wall,
        owner=owner,
        ttl_ms=settings.ttl_ms,
        workspace=settings.workspace,
    )
    outcome = yield from Commit(change)
    if isinstance(outcome, Ack):
        return outcome
    assert isinstance(outcome, Refusal)
    raise outcome.error()


def take_over(
    run_id: str,
    owner: str,
    settings: Settings,
    clock: Callable[[], int],
    *,
    wait: bool,
    waiting: Callable[[float], None] | None,
    statuses: int = RESUMABLE,
    resumes: bool = True,
    epoch: int | None = None,
    version: int | None = None,
    reopens: tuple[CallChange, ...] = (),
    workspace: str | None = None,
) -> Flow[tuple[Claimed, int] | RunRecord]:
    """Claim a run.  One that another process holds is waited for until the lease found has run out; LeaseHeld is
    raised as soon as that lease is seen renewed, or at once without `wait`.  A run that waits for somebody, or for a
    later time, is answered as it is. `waiting` is told the seconds still to wait. With the claim comes the lease-clock
    millisecond when it was sent, from which the lease may be trusted.

    `statuses` are those it may be claimed in, as a mask; `resumes` takes it out of a pause.  `reopens` are the changes
    of the calls that it failed with, made from the run under `epoch`.  `workspace` are the files that it is to work on
    from now on, made from the run as it stood at `version`.
    """
    found: tuple[int, int] | None = None
    while True:
        wall, _ = yield from Now()
        change = Claim(
            run_id=run_id,
            owner=owner,
            ttl_ms=settings.ttl_ms,
            at=wall,
            statuses=statuses,
            resumes=resumes,
            epoch=epoch,
            version=version,
            reopens=reopens,
            workspace=workspace,
        )
        sent_at = clock()
        outcome = yield from Commit(change)
        if isinstance(outcome, Claimed):
            return outcome, sent_at
        assert isinstance(outcome, Refusal)
        if outcome.guard is Guard.NOT_DUE and outcome.run is not None:
            return outcome.run
        if outcome.guard is not Guard.HELD or outcome.run is None:
            raise outcome.error()
        run = outcome.run
        lease = (run.epoch, run.lease_until)
        if not wait or (found is not None and lease != found):
            raise LeaseHeld(outcome.detail)
        found = lease
        yield from until_free(run, waiting)


def until_free(run: RunRecord, waiting: Callable[[float], None] | None) -> Flow[None]:
    """Wait until the lease found has run out, or until it is seen to have moved."""
    run_id = run.run_id
    while True:
        _, now = yield from Now()
        left = seconds_left(run, now)
        if left <= 0:
            return
        if waiting is not None:
            waiting(left)
        yield from Sleep(min(left, _LOOK_SECONDS))
        seen = yield from Load(lambda store: store.run(run_id))
        if seen is None or (seen.epoch, seen.lease_until) != (run.epoch, run.lease_until):
            return


def read_input(agent: AgentPlan, run: RunRecord) -> Flow[Any]:
    """The agent's input as it was stored when the run was created."""
    name, run_no = run.input_digest, run.run_no
    assert name is not None
    data = yield from Load(lambda store: store.artifact(run_no, name))
    if data is None or digest(data) != name:
        raise IntegrityError(f"the input of run {run.run_id} is missing or damaged")
    return agent.input_codec.decode(data)


def drive(live: LiveRun, agent: AgentPlan, face: Any, value: Any) -> Flow[Ended | None]:
    """Run the agent and record how it ended.  None where the run was to wait, and what it waited for arrived
    meanwhile: the caller takes the agent through it again under the same lease.
    """
    ended: Attempt
    if live.run.version == 0:
        yield from ready(live, ON_TASK_START, ON_TASK_RECEIVED)
        _keep_start(live)
    if agent.loop is not None:
        from jumar.engine.flows.loop import run_loop  # which a program without loop agents never loads

        ended = yield from run_loop(live, agent.loop, face, value)
    elif live.phase is not Phase.IN_CODE:
        from jumar.engine.flows.loop import no_function

        live.stop(no_function(live))
        ended = Attempt()
    else:
        ended = yield Invoke(agent.body, (face, value), {}, Scope(live, live.root, waits=agent.waits))
    if live.is_worked and live.halt is None:
        ended.error = _not_exited(ended.error)
    is_stopping = _is_cut_off(live, ended.error)
    if not is_stopping and (live.halt is not None or ended.error is None or isinstance(ended.error, Exception)):
        yield from _in_flight_settled(live)  # but not where the process is being stopped, by Ctrl-C say
    try:
        return (yield from _concluded(live, agent, ended))
    except Stopped as stopped:
        # The run could not even be ended: it was taken over, say.  That signal is for the agent's code, and the agent
        # is done.
        if stopped.error is None:
            raise
        raise stopped.error from None


def _not_exited(error: BaseException | None) -> BaseException | None:
    """What an agent ended with, as a failure where it would end the process: a worker that was ended so, or gave the
    run back, would meet it again and again.
    """
    if error is None or isinstance(error, (Exception, Stopped)):
        return error
    exited = AgentExited(f"the agent left by {type(error).__name__}")
    exited.__cause__ = error
    return exited


def _keep_start(live: LiveRun) -> None:
    """The run as it was received.  That it begins is the same version, so that it is kept only in that one's place."""
    live.ride_checkpoint(ON_TASK_START, "", ())
    live.ride_checkpoint(ON_TASK_RECEIVED, "", ())


def _concluded(live: LiveRun, agent: AgentPlan, ended: Attempt) -> Flow[Ended | None]:
    """The run's next status, by how its agent ended."""
    error = ended.error
    if live.halt is not None:
        if error is None or not stops_process(error):
            return (yield from _halted(live))
        with suppress(Stopped, JumarError):  # what cannot be left now is left to its lease
            yield from _caught_up(live)
            if _is_cut_off(live, error) or (yield from _halted(live)) is None:
                yield from release(live)
        raise error
    if error is None:
        return (yield from _completed(live, agent, ended.value))
    if isinstance(error, Exception):
        return (yield from _failed(live, error))
    yield from release(live)
    raise error


def _is_cut_off(live: LiveRun, error: BaseException | None) -> bool:
    """Whether the process is being stopped while some items of a `gather` or `map` wait and others had not settled: the
    run has more to do than to wait.
    """
    is_waiting = live.is_cut_off and live.halt is not None and live.halt.wait is not None
    return is_waiting and error is not None and stops_process(error)


def _in_flight_settled(live: LiveRun) -> Flow[None]:
    """Wait for calls that other threads or tasks of the agent's still have in flight, bounded by their timeouts."""
    give_up = live.clock() + int(live.settings.stall_timeout * 1000)
    while live.busy() and live.clock() < give_up:
        yield from Sleep(0.02)


def _completed(live: LiveRun, agent: AgentPlan, output: Any) -> Flow[Ended | None]:
    try:
        yield from settle_given_up(live)
    except Stopped:
        return (yield from _halted(live))
    left = live.table.unmatched_effects()
    if left:
        live.stop(diverged(left[0], "the agent's end, without this call"))
        return (yield from _halted(live))
    try:
        data, decoded = agent.output_codec.round_trip(output)
        check_size(data)
    except Exception as raised:
        error = not_storable(raised)  # the agent has ended all the same
        safe = "Every call is recorded; the run is FAILED."
        refusal = NotStorable(f"the output: {error.what}", path=error.path, safe=safe, hint=error.hint)
        return (yield from _failed(live, refusal))
    artifact = Artifact(digest(data), data)
    yield from ready(live, ON_TASK_END)
    live.ride_checkpoint_after(ON_TASK_END, "")
    event = EventRecord(EventKind.COMPLETED, live.wall(), None, live.epoch)
    while True:
        ending = Ending(status=Status.COMPLETED, output_digest=artifact.digest)
        ack = yield from leave(live, Phase.STOPPED, ending, (artifact,), (event,))
        if ack is not None:  # an order that came too late to be obeyed stands in the way of nothing
            log(INFO, live.run_id, None, "the run is completed")
            return Ended((yield from reread(live)), decoded)


def _failed(live: LiveRun, error: Exception) -> Flow[Ended]:
    """A run that failed keeps its phase, so that it can be taken up again, and the numbers of the calls it failed
    with.  One that is to be cancelled is cancelled.
    """
    error_class = _class_of(live, error)
    live.goes_on()
    if live.run.workspace is not None:
        yield from _writes_settled(live)
    event = EventRecord(EventKind.FAILED, live.wall(), None, live.epoch, type(error).__name__[:60])
    while True:
        ending = Ending(
            status=Status.FAILED,
            error_class=error_class,
            error_type=type(error).__name__,
            error_message=short_message(error),
            failed_calls=calls_of(error),
        )
        ack = yield from leave(live, live.phase, ending, (), (event,))
        if ack is None and live.control == Control.CANCEL:
            return (yield from obey(live))
        if ack is not None:
            log(INFO, live.run_id, None, "the run has failed: %s: %s", type(error).__name__, short_message(error))
            return Ended((yield from reread(live)), None, error)


def _writes_settled(live: LiveRun) -> Flow[None]:
    """No write that its agent has given up, or never came back to, leaves files half-done behind a run that failed."""
    from jumar.engine.flows.putting_back import settle_writes  # which a run without files never needs

    if live.has_riders():
        yield from advance(live)  # what rode along must be on disk before it is looked at
    yield from settle_writes(live)


def _class_of(live: LiveRun, error: Exception) -> ErrorClass:
    if isinstance(error, CallFailed):
        return next((kind for kind in ErrorClass if kind.label == error.error_class), ErrorClass.PERMANENT)
    if isinstance(error, MapFailed) and not all(isinstance(each, BaseException) for each in error.results):
        return ErrorClass.PARTIAL
    return classify(error, live.settings.error_classes, live.wall()).error_class


def _halted(live: LiveRun) -> Flow[Ended | None]:
    halt = live.halt
    assert halt is not None
    if halt.error is not None:
        if isinstance(halt.error, ReplayDiverged):
            return (yield from _diverged(live, halt.error))
        log(INFO, live.run_id, None, "the run is no longer driven here: %s", halt.error.what)
        if not isinstance(halt.error, Refused):
            yield from release(live)
        raise halt.error
    if halt.order is not None:
        return (yield from obey(live))
    if halt.leaves:
        return (yield from _left_to_others(live))
    wait = halt.wait
    assert wait is not None
    live.comes_to_rest()
    event = EventRecord(EventKind.WAITING, live.wall(), None, live.epoch)
    ending = Ending(status=Status.WAITING, wake_at=wait.wake_at, waiting_on=wait.waiting_on)
    ack = yield from leave(live, live.phase, ending, (), (event,))
    if ack is None:
        # An order came, or an answer.  In either case what was to be waited for is looked at again.
        if live.control:
            return (yield from obey(live))
        if live.makes():
            raise live.stop(IllegalTransition("a call is still under way, so the run cannot be taken through again"))
        if live.has_riders():
            yield from advance(live)  # what rode along must be on disk before the records are read again
        return None
    log(INFO, live.run_id, None, "the run waits: %s", wait.reason)
    return Ended((yield from reread(live)))


def _left_to_others(live: LiveRun) -> Flow[Ended]:
    """Give the run back in full: all that was in flight has settled and is recorded, and whoever is next goes on."""
    live.comes_to_rest()
    event = EventRecord(EventKind.RELEASED, live.wall(), None, live.epoch)
    while (yield from leave(live, live.phase, Ending(status=Status.QUEUED), (), (event,))) is None:
        if live.control:
            return (yield from obey(live))
        # Else an answer came, which stands for whoever takes the run up.
    log(INFO, live.run_id, None, "the run is left, to be resumed")
    return Ended((yield from reread(live)))


def _diverged(live: LiveRun, error: ReplayDiverged) -> Flow[Ended]:
    """A run whose code has changed under it is FAILED; nothing else of what the changed code did is kept."""
    live.halt = None
    live.take_riders()
    live.comes_to_rest()
    live.ride_event(EventKind.DIVERGED, None, "")
    yield from _failed(live, error)
    raise error


def release(live: LiveRun) -> Flow[None]:
    """Give the lease back where nothing is in flight, else let it run out: the process is being stopped, or cannot
    go on.
    """
    event = EventRecord(EventKind.RELEASED, live.wall(), None, live.epoch)
    live.take_riders()
    live.is_torn_down()
    try:
        yield from _caught_up(live)
        while (yield from leave(live, live.phase, Ending(status=Status.QUEUED), (), (event,))) is None:
            continue  # an order or an answer came, which stands for whoever takes the run up
    except (Stopped, JumarError):
        return  # something is started, the lease is gone, or the store cannot be reached: then it runs out
    log(INFO, live.run_id, None, "the run is left, to be resumed")


def _caught_up(live: LiveRun) -> Flow[None]:
    """Read where the run stands: a change that was interrupted on its way, by Ctrl-C say, has taken a version with it,
    and may have come to disk without this process having heard of it.
    """
    if live.behind is not None:
        yield from flushed(live)
    run = yield from reread(live)
    live.lane.version, live.phase = run.version, run.phase


def stored_end(agent: AgentPlan, run: RunRecord) -> Flow[Ended]:
    """What became of a run that this process does not drive."""
    if run.output_digest is None or run.status not in FINAL:
        return Ended(run)
    name, run_no = run.output_digest, run.run_no
    data = yield from Load(lambda store: store.artifact(run_no, name))
    if data is None or digest(data) != name:
        raise IntegrityError(f"the output of run {run.run_id} is missing or damaged")
    return Ended(run, agent.output_codec.decode(data))
