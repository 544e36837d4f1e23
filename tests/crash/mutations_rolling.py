"""Ways to break what the protocol says of rollbacks, each in one spot."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from jumar.core.restoring import Report
from jumar.core.states import CallState
from jumar.engine import live
from jumar.engine.engine import Engine
from jumar.engine.flows import compensating, planning, rolling_back
from jumar.engine.flows.advance import advance
from jumar.stores.sqlite import names
from tests.crash.mutations import Broken, Mutation, mutated

ROLLING: dict[str, Mutation] = {}
mutation = mutated(ROLLING)


# --- What stands. ---


@mutation
def what_was_left_behind_and_stands_is_forgotten(spot: Broken) -> Any:
    """No leftover answers, and none sends a call to approval."""
    real = live.answering

    def answering(run: Any, calls: Any) -> Any:
        here, left = real(run, calls)
        return here, spot.hit([]) if left else left

    with patch.object(live, "answering", answering):
        yield


@mutation
def a_loop_agents_call_is_not_answered_by_what_stands(spot: Broken) -> Any:
    """A planned call is made although the same one was made before the rollback and stands."""
    with patch.object(planning, "_match_leftover", lambda call: spot.hit()):
        yield


# --- Compensations. ---


@mutation
def a_compensation_that_may_have_happened_is_sent_again_by_itself(spot: Broken) -> Any:
    """Nobody is asked about it."""
    real = compensating._ask

    def ask(call: Any, made: int, state: CallState, failure: Any, *, new: bool) -> Any:
        if state is not CallState.UNCERTAIN:
            return (yield from real(call, made, state, failure, new=new))
        spot.hit()
        yield from compensating._fill(call, call.policy)
        return (yield from compensating._make(call, made + 1, new=new))

    with patch.object(compensating, "_ask", ask):
        yield


@mutation
def a_compensation_is_sent_before_it_is_on_record(spot: Broken) -> Any:
    """STARTED is not committed."""

    def sent(call: Any, attempt: int, *, new: bool) -> Any:
        spot.hit()
        ended = yield from compensating.invoke(call, attempt)
        if new:
            record = replace(compensating._first(call, CallState.STARTED, attempt), boot=call.live.run.boot)
            yield from advance(call.live, calls=(record,))
        return ended

    with patch.object(compensating, "_sent", sent):
        yield


@mutation
def the_original_is_marked_in_an_advance_of_its_own(spot: Broken) -> Any:
    """That the compensation succeeded comes to disk first."""
    real = compensating.advance

    def apart(run: Any, *, changes: Any = (), frees: Any = (), events: Any = (), **rest: Any) -> Any:
        if len(changes) != 2:
            return (yield from real(run, changes=changes, frees=frees, events=events, **rest))
        spot.hit()
        yield from real(run, changes=changes[:1], **rest)
        return (yield from real(run, changes=changes[1:], frees=frees, events=events))

    with patch.object(compensating, "advance", apart):
        yield


@mutation
def an_undone_action_is_not_counted(spot: Broken) -> Any:
    """The name becomes free, and the service is given the same key again."""
    real = names.free

    def free(connection: Any, run_no: int, seq: int, *, undone: bool = False) -> None:
        real(connection, run_no, seq, undone=spot.hit(False) if undone else False)

    with patch.object(names, "free", free):
        yield


# --- Files and the head. ---


@mutation
def the_files_are_taken_for_put_back(spot: Broken) -> Any:
    """The head goes back, and the files do not."""

    def put_files_back(run: Any, intent: Any) -> Any:
        spot.hit()
        return Report(intent.tree, None)
        yield

    with patch.object(rolling_back, "put_files_back", put_files_back):
        yield


@mutation
def whoever_takes_the_run_over_goes_on_without_finishing(spot: Broken) -> Any:
    """The intent is not looked at when the run is resumed."""
    real = Engine.resume_flow

    def resume_flow(self: Any, *args: Any, **rest: Any) -> Any:
        finishing = Engine._recovery

        class Nothing:
            def carried_out(self, run: Any, owner: str, sent_at: int, **rest: Any) -> Any:
                spot.hit()
                return rolling_back.Rolled(replace(run, intent=None), over=True), sent_at
                yield

        with patch.object(Engine, "_recovery", lambda self: Nothing()):
            result = yield from real(self, *args, **rest)
        assert Engine._recovery is finishing
        return result

    with patch.object(Engine, "resume_flow", resume_flow):
        yield


@mutation
def what_is_undone_is_not_looked_at_again(spot: Broken) -> Any:
    """A takeover undoes everything from the start, as if nothing had been."""
    real = compensating.compensate

    def compensate(run: Any, original: Any, record: Any, undoers: Any, *, waits: bool) -> Any:
        if record is not None:
            spot.hit()
        return (yield from real(run, original, None, undoers, waits=waits))

    with patch.object(rolling_back, "compensate", compensate):
        yield
