"""What cannot be undone at once: a compensation that fails, or of which nobody knows whether it happened, waits for a
person, and the rollback with it; and an action that another run counts on is not undone without one."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, Harness, NotApplied, NotHappened, Run
from jumar.errors import CannotRollBack, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.rollback_helpers import Outside, declare_tools, done, states
from tests.integration.waits_helpers import both_kinds, clock, in_memory, scripted, sleeping_on

__all__ = ["clock"]

Steps = Generator[Any, Any, Any]


def guest(harness: Harness, outside: Outside, waits: bool, **of_book: Any) -> Any:
    """An agent that books two rooms after a checkpoint."""
    _, book, _ = declare_tools(harness, outside, waits=waits, **of_book)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        yield run.call(book, "2")
        return "stayed"

    return stay


@both_kinds
def test_a_compensation_that_fails_is_tried_again_when_a_person_says_so(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits, not_applied=(ValueError,), retries=0), "x").run_id
    outside.failures = [ValueError("desk is closed")]
    rolled = harness.rollback(run_id, to="start")
    assert (rolled.status, rolled.undone) == ("WAITING", ())
    (wanted,) = rolled.waiting_on
    assert (wanted.call_id, wanted.kind, wanted.attempt, wanted.reason) == (
        "book.2.undo",
        "undo",
        1,
        "ValueError: desk is closed",
    )
    assert [each.asked for each in harness.requests()] == [wanted]
    assert harness.show(run_id).run.rolling_back_to == rolled.target
    assert harness.resume(run_id).waiting_on == (wanted,)
    harness.approve(run_id, "book.2.undo")
    assert done(harness.resume(run_id)) == "stayed"  # who resumes it finishes the rollback, and goes on
    assert outside.booked() == ["1", "2"]
    assert outside.seen[2:4] == [("cancel", "2", "r-2"), ("cancel", "1", "r-1")]
    assert states(harness, run_id)["book.2"] == "COMPENSATED behind"


@both_kinds
def test_what_a_person_leaves_stands_and_answers(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [RuntimeError("no answer")]
    rolled = harness.rollback(run_id, to="start")
    assert [(each.call_id, each.kind) for each in rolled.waiting_on] == [("book.2.undo", "undo")]
    assert harness.show(run_id).calls[-1].state == "UNCERTAIN"  # it may have happened
    harness.reject(run_id, "book.2.undo", by="ada", note="they keep it")
    waiting = harness.resume(run_id)
    assert [(each.call_id, each.kind) for each in waiting.waiting_on] == [("book.3@1", "approval")]  # while one stands
    harness.approve(run_id, "book.3@1")
    assert done(harness.resume(run_id)) == "stayed"
    assert outside.seen == [("book", "1"), ("book", "2"), ("cancel", "1", "r-1"), ("book", "1")]
    assert states(harness, run_id)["book.2.undo"] == "FAILED behind"


@both_kinds
def test_a_person_may_know_that_it_was_undone_after_all(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [RuntimeError("no answer"), RuntimeError("no answer")]
    harness.rollback(run_id, to="start")
    outside.note("cancel", "2", "by telephone")
    harness.resolve(run_id, "book.2.undo", Happened(None))
    (result,) = harness.resume_due()
    assert [each.call_id for each in result.waiting_on] == ["book.1.undo"]
    harness.resolve(run_id, "book.1.undo", NotHappened())
    assert [each.status for each in harness.resume_due()] == ["PAUSED"]
    assert outside.booked() == []
    found = states(harness, run_id)
    assert (found["book.1"], found["book.2"]) == ("COMPENSATED behind", "COMPENSATED behind")


@both_kinds
def test_a_rollback_that_was_left_waiting_is_finished_by_the_next_one(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [RuntimeError("no answer")]
    harness.rollback(run_id, to="start")
    with pytest.raises(
        CannotRollBack, match=r"in the middle of a rollback to version 1, which waits for book\.2\.undo"
    ):
        harness.rollback(run_id, to="start")
    with pytest.raises(CannotRollBack, match="in the middle of a rollback"):
        harness.rollback(run_id, to="start", dry_run=True)
    with pytest.raises(CannotRollBack, match="in the middle of a rollback"):
        harness.fork(run_id, at="start")
    harness.approve(run_id, "book.2.undo")
    again = harness.rollback(run_id, to="start")
    assert (again.status, again.undone) == ("PAUSED", ())
    assert (harness.show(run_id).run.generation, outside.booked()) == (2, [])


@both_kinds
def test_a_worker_finishes_a_rollback_and_leaves_the_run_paused(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [RuntimeError("no answer")]
    harness.rollback(run_id, to="start")
    assert harness.due() == []
    harness.approve(run_id, "book.2.undo")
    assert harness.due() == [run_id]
    (result,) = harness.resume_due()
    assert (result.status, outside.booked()) == ("PAUSED", [])
    assert done(harness.resume(run_id)) == "stayed"


@both_kinds
def test_an_order_waits_until_the_rollback_is_over(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [RuntimeError("no answer")]
    harness.rollback(run_id, to="start")
    assert harness.cancel(run_id).status == "WAITING"
    harness.reject(run_id, "book.2.undo")
    result = harness.resume(run_id)
    assert (result.status, outside.booked()) == ("CANCELLED", ["2"])
    assert harness.show(run_id).run.generation == 1


@both_kinds
def test_what_surely_was_not_applied_is_tried_again_without_anybody(
    harness: Harness, waits: bool, clock: StoppedClock
) -> None:
    sleeping_on(harness, clock)
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [NotApplied("busy"), NotApplied("busy")]
    assert harness.rollback(run_id, to="start").undone == ("book.2", "book.1")
    assert [call.attempt for call in harness.show(run_id).calls if call.kind == "compensation"] == [3, 1]


@both_kinds
def test_a_compensation_that_is_to_be_tried_much_later_leaves_the_run_waiting_until_then(
    harness: Harness, waits: bool, clock: StoppedClock
) -> None:
    sleeping_on(harness, clock)
    outside = Outside()
    run_id = harness.run(guest(harness, outside, waits), "x").run_id
    outside.failures = [NotApplied("busy", retry_after=3600)]
    rolled = harness.rollback(run_id, to="start")
    assert (rolled.status, rolled.waiting_on) == ("WAITING", ())
    wake_at = harness.show(run_id).run.wake_at
    assert wake_at is not None
    clock.move_to_wall(wake_at)
    assert [each.status for each in harness.resume_due()] == ["PAUSED"]
    assert outside.booked() == []


@both_kinds
def test_a_call_whose_result_could_not_be_recorded_is_not_undone(harness: Harness, waits: bool) -> None:
    outside = Outside()

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        outside.note("pay", cents)
        return object()  # type: ignore[return-value]

    @pay.compensate
    def refund(receipt: int, cents: int) -> None:
        outside.note("refund", cents)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(pay, 5)

    run_id = harness.run(agent, "x").run_id
    rolled = harness.rollback(run_id, to="start")
    assert [(each.call_id, each.why) for each in rolled.not_undone] == [("pay.1", "what it returned is not recorded")]
    assert outside.seen == [("pay", 5)]


@both_kinds
def test_a_compensation_may_call_other_tools_which_just_run(harness: Harness, waits: bool) -> None:
    outside = Outside()

    @harness.tool(effect="external")
    def refund(cents: int) -> None:
        outside.note("refund", cents)

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        outside.note("pay", cents)
        return cents

    @pay.compensate
    def undo(receipt: int, cents: int) -> None:
        refund(receipt)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(pay, 5)

    run_id = harness.run(agent, "x").run_id
    assert harness.rollback(run_id, to="start").undone == ("pay.1",)
    assert outside.seen == [("pay", 5), ("refund", 5)]


def test_an_async_compensation_is_awaited_from_within_a_running_loop_too() -> None:
    async def everything() -> None:
        with Harness("memory:") as harness:
            outside = Outside()
            run_id = (await harness.arun(guest(harness, outside, True), "x")).run_id
            assert harness.rollback(run_id, to="start").undone == ("book.2", "book.1")
            assert (await harness.aresume(run_id)).output == "stayed"
            assert (await harness.arollback(run_id, to="start")).status == "PAUSED"
            assert outside.booked() == []

    asyncio.run(everything())


# --- Actions with a name. --------------------------------------------------------------------------------------------


@both_kinds
def test_an_action_that_was_undone_is_free_to_be_done_again_under_another_key(harness: Harness, waits: bool) -> None:
    outside = Outside()
    named = {"identity": lambda room: f"book:{room}", "identity_scope": "store"}
    run_id = harness.run(guest(harness, outside, waits, **named), "x").run_id
    for _ in range(2):
        harness.rollback(run_id, to="start")
        assert outside.booked() == []
        assert done(harness.resume(run_id)) == "stayed"
        assert outside.booked() == ["1", "2"]
    keys = [key for (what, *_), key in zip(outside.seen, outside.keys, strict=True) if what == "book"]
    assert len(set(keys)) == len(keys) == 6


@both_kinds
def test_an_action_whose_result_another_run_was_given_is_not_undone_without_a_person(
    harness: Harness, waits: bool
) -> None:
    outside = Outside()
    named = {"identity": lambda room: f"book:{room}", "identity_scope": "store"}
    stay = guest(harness, outside, waits, **named)
    first, second = harness.run(stay, "x").run_id, harness.run(stay, "x").run_id
    assert outside.seen == [("book", "1"), ("book", "2")]
    rolled = harness.rollback(second, to="start")  # which did nothing itself
    assert (rolled.undone, rolled.not_undone, rolled.status) == ((), (), "PAUSED")
    assert done(harness.resume(second)) == "stayed"
    assert outside.seen == [("book", "1"), ("book", "2")]
    rolled = harness.rollback(first, to="start")
    assert [(each.call_id, each.attempt) for each in rolled.waiting_on] == [("book.2.undo", 0)]
    harness.approve(first, "book.2.undo")
    (result,) = harness.resume_due()
    assert [each.call_id for each in result.waiting_on] == ["book.1.undo"]
    harness.reject(first, "book.1.undo")
    (result,) = harness.resume_due()
    assert (result.status, outside.booked()) == ("PAUSED", ["1"])


# --- Declaring. ------------------------------------------------------------------------------------------------------


@in_memory
def test_only_what_acts_outside_is_compensated(harness: Harness) -> None:
    @harness.tool(effect="read")
    def look(what: str) -> str:
        return what

    @harness.tool(effect="write", paths=["{name}"])
    def write(name: str) -> None: ...

    with pytest.raises(UsageError, match="leaves nothing to be undone"):
        look.compensate(lambda result, what: None)
    with pytest.raises(UsageError, match="a rollback puts back by itself"):
        write.compensate(lambda result, name: None)


@in_memory
def test_a_compensation_that_could_not_take_the_result_and_the_arguments_is_refused(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(invoice: str, cents: int = 5) -> str:
        return invoice

    for function in (lambda: None, lambda receipt, invoice: None, lambda receipt, invoice, cents, more: None):
        with pytest.raises(UsageError, match=r"the compensation of pay takes \(") as caught:
            pay.compensate(function)
        assert "(result, invoice, cents)" in caught.value.hint
    pay.compensate(lambda *everything: None)
    pay.compensate(lambda receipt, invoice, cents, more=1: None)


def test_the_code_of_another_process_that_cannot_undo_a_call_leaves_the_rollback_as_it_is(tmp_path: Path) -> None:
    address, outside = f"sqlite:///{tmp_path / 'runs.db'}", Outside()
    with Harness(address) as harness:
        run_id = harness.run(guest(harness, outside, False), "x").run_id
        outside.failures = [RuntimeError("no answer")]
        harness.rollback(run_id, to="start")
        harness.approve(run_id, "book.2.undo")
    with Harness(address) as other:

        @other.agent
        def stay(run: Run, task: str) -> None: ...

        with pytest.raises(UsageError, match=r"call book\.2 is to be undone, and no tool book is known here"):
            other.resume(run_id)
        assert other.show(run_id).run.status == "QUEUED"
        assert other.show(run_id).run.rolling_back_to is not None
    with Harness(address) as again:
        stay_again = guest(again, outside, False)
        assert stay_again is not None
        assert done(again.resume(run_id)) == "stayed"
    assert outside.booked() == ["1", "2"]
