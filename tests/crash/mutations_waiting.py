"""Ways to break what the protocol says of people, names, orders, reopened runs and loop agents, each in one spot."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from jumar.core import reopening
from jumar.core.states import Verdict
from jumar.engine.flows import approving, calls, effects, planning, sleeping
from jumar.engine.flows.advance import advance
from jumar.engine.live import LiveRun
from jumar.harness import face
from jumar.stores.sqlite import writes
from tests.crash.mutations import Broken, Mutation, mutated, sql
from tests.crash.statements import rewritten

WAITING: dict[str, Mutation] = {}
mutation = mutated(WAITING)


# --- Approval. ---


@mutation
def an_approval_covers_an_attempt_after_one_that_may_have_happened(spot: Broken) -> Any:
    """A call that may have happened, and did not, goes out again without anybody being asked again."""
    real = calls._uncertain

    def uncertain(call: Any, record: Any) -> Any:
        if call.policy.approval:
            spot.hit()
            call.policy = replace(call.policy, approval=False)
        return real(call, record)

    with patch.object(calls, "_uncertain", uncertain):
        yield


@mutation
def a_rejected_call_is_sent_all_the_same(spot: Broken) -> Any:
    """A no is taken for a yes."""
    real = approving.load

    def load(*args: Any) -> Any:
        asked = yield from real(*args)
        yes = Verdict.APPROVE
        return [spot.hit(replace(each, verdict=yes)) if each.verdict is Verdict.REJECT else each for each in asked]

    with patch.object(approving, "load", load):
        yield


# --- Names. ---


@mutation
def a_name_is_not_taken_when_its_call_is_sent(spot: Broken) -> Any:
    """STARTED is committed without taking the name of the action."""
    with patch.object(effects, "take_of", lambda call: spot.hit(())):
        yield


@mutation
def a_name_is_given_up_when_nobody_knows(spot: Broken) -> Any:
    """A claim that makes a call uncertain gives its name up."""

    def rewrite(connection: Any, statement: str, values: Any) -> Any:
        answer = connection.execute(statement, *values)
        if "SET state = 5 WHERE" in " ".join(statement.split()):
            spot.hit()
            doubted = "SELECT seq FROM call WHERE run_no = :run_no AND state = 5"
            given_up = f"DELETE FROM identity WHERE run_no = :run_no AND call_seq IN ({doubted})"
            rows = answer.fetchall()
            connection.execute(given_up, {"run_no": values[0]["run_no"]})
            return _Fetched(rows)
        return answer

    with rewritten(rewrite):
        yield


class _Fetched:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchall(self) -> list[Any]:
        return self._rows


# --- Orders and answers. ---


@mutation
def an_operator_marks_nothing(spot: Broken) -> Any:
    """An operator who takes a run out of RUNNING himself leaves what was sent as it stands, and nothing minds."""
    real_claim, real_mark = writes._claim, writes._mark
    early: list[bool] = []

    def claim(connection: Any, change: Any) -> Any:
        early.append(change.early)
        return real_claim(connection, change)

    def mark(*args: Any) -> Any:
        return spot.hit([]) if early[-1] else real_mark(*args)

    with (
        patch.object(writes, "_claim", claim),
        patch.object(writes, "_mark", mark),
        patch.object(writes, "_nothing_open", lambda *args: None),
    ):
        yield


@mutation
def a_run_waits_without_looking_for_news(spot: Broken) -> Any:
    """WAITING is committed although an answer, or an order, has come meanwhile."""
    with sql(
        spot,
        ("status = :status", "wake_at = :wake_at"),
        "AND control = :control AND answers = :answers",
        "AND :control IS NOT NULL AND :answers IS NOT NULL",
    ):
        yield


@mutation
def an_order_is_seen_and_the_run_goes_on(spot: Broken) -> Any:
    """A driver that is told of an order goes on sending."""

    def order(live: LiveRun, control: int) -> None:
        live.control = spot.hit(max(control, live.control))

    with patch.object(LiveRun, "order", order):
        yield


# --- Sleep. ---


@mutation
def a_sleep_begins_anew_when_it_is_taken_up(spot: Broken) -> Any:
    """When a sleep ends is worked out anew by each process."""
    fresh: dict[str, int] = {}

    def sleep(call: Any, wake_at: int) -> Any:
        fresh[call.call_id] = wake_at
        return sleeping.sleep(call, wake_at)

    def recorded(live: LiveRun, record: Any) -> tuple[int, bytes]:
        return spot.hit(fresh[record.call_id]), record.result

    with patch.object(face, "sleep", sleep), patch.object(sleeping, "_recorded", recorded):
        yield


# --- Reopening. ---


@mutation
def a_failed_run_is_reopened_although_something_was_done_about_it(spot: Broken) -> Any:
    """A failed call is made again although an effect was begun after it."""
    with patch.object(reopening, "_was_begun_after", lambda *args: spot.hit(False)):
        yield


# --- Loop agents. ---


@mutation
def a_decision_plans_its_calls_in_an_advance_of_their_own(spot: Broken) -> Any:
    """A decision is on disk before the calls that it plans."""
    real = planning.record_end

    def record_end(call: Any, *args: Any, planned: Any = (), kept: Any = (), **options: Any) -> Any:
        ack = yield from real(call, *args, **options)
        if planned:
            spot.hit()
            ack = yield from advance(call.live, calls=planned, artifacts=kept)
        return ack

    with patch.object(planning, "record_end", record_end):
        yield


@mutation
def a_claim_does_not_count_the_reads_of_an_open_decision(spot: Broken) -> Any:
    """A read that a decision had planned is left as if it had surely not been made."""
    with sql(spot, ("attempt = attempt + 1",), "state = 0 AND", "state = 0 AND 0 AND"):
        yield
