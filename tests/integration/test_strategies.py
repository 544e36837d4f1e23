"""What is done about a failure: chosen by what failed and how, or said by the call, its tool, its step, or whoever
resumes the run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from jumar import Decision, Harness, NotHappened, Run
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Level, Strategy
from jumar.core.strategies import STRATEGIES, level_of, makes_again, of_call, of_run
from jumar.errors import CannotReopen, MapFailed, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.loops_helpers import Script, declare
from tests.integration.rollback_helpers import Outside, declare_tools, done
from tests.integration.waits_helpers import both_kinds, clock, in_memory, scripted, sleeping_on

__all__ = ["clock"]

Steps = Generator[Any, Any, Any]


# --- The tables. -----------------------------------------------------------------------------------------------------


def test_the_table_names_every_effect_and_class_of_error() -> None:
    assert set(STRATEGIES) == set(Effect)
    assert all(set(row) == set(ErrorClass) for row in STRATEGIES.values())
    assert set(STRATEGIES[Effect.WRITE].values()) == {Strategy.ROLLBACK}


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT, Effect.EXTERNAL], ids=lambda effect: effect.label)
def test_only_what_passes_is_made_again_by_itself(effect: Effect) -> None:
    again = {kind for kind in ErrorClass if of_call(effect, kind) is Strategy.RETRY}
    assert again == {ErrorClass.TRANSIENT, ErrorClass.RATE_LIMITED}


def test_of_what_is_said_the_nearest_counts() -> None:
    read, passing = Effect.READ, ErrorClass.TRANSIENT
    assert of_call(read, passing, Strategy.FORWARD, Strategy.ROLLBACK) is Strategy.FORWARD
    assert of_call(read, passing, None, Strategy.ROLLBACK) is Strategy.ROLLBACK
    assert of_call(read, passing, None, None) is Strategy.RETRY


def test_a_failed_run_is_recovered_by_the_class_of_its_error() -> None:
    assert of_run(ErrorClass.POLLUTED) is Strategy.ROLLBACK
    assert of_run(ErrorClass.PARTIAL) is Strategy.FORWARD
    assert {of_run(kind) for kind in set(ErrorClass) - {ErrorClass.POLLUTED, ErrorClass.PARTIAL}} == {Strategy.RETRY}
    assert of_run(None) is Strategy.RETRY
    assert all(of_run(ErrorClass.POLLUTED, said) is said for said in Strategy)


def test_going_forward_makes_only_the_rest_of_a_batch_again() -> None:
    assert makes_again(ErrorClass.PARTIAL, Strategy.FORWARD)
    assert not makes_again(ErrorClass.PERMANENT, Strategy.FORWARD)
    assert makes_again(ErrorClass.PERMANENT, Strategy.RETRY)


def failed(kind: CallKind, effect: Effect, state: CallState = CallState.FAILED) -> CallRecord:
    return CallRecord(1, "c.1", "", "", 1, kind, "c", effect, state, 1, 1, 0, b"")


def test_the_level_follows_what_failed() -> None:
    assert level_of([]) is Level.TASK
    assert level_of([failed(CallKind.DECISION, Effect.READ)]) is Level.TASK
    assert level_of([failed(CallKind.TOOL, Effect.EXTERNAL)]) is Level.STEP
    assert level_of([failed(CallKind.TOOL, Effect.WRITE)]) is Level.STEP
    half_done = failed(CallKind.TOOL, Effect.WRITE, CallState.UNCERTAIN)
    assert level_of([half_done]) is Level.TOOL
    assert level_of([half_done, failed(CallKind.TOOL, Effect.READ)]) is Level.STEP


# --- Of one call. ----------------------------------------------------------------------------------------------------


class Flaky:
    """A tool that fails so often, and notes each attempt."""

    def __init__(self, harness: Harness, error: type[Exception], times: int, **options: Any) -> None:
        self.left = times
        self.attempts = 0

        def fetch() -> str:
            self.attempts += 1
            if self.left:
                self.left -= 1
                raise error("no")
            return "got"

        self.tool: Any = harness.tool(**{"effect": "read", **options})(fetch)


@both_kinds
def test_a_lasting_error_is_tried_again_where_that_is_said(harness: Harness, waits: bool, clock: StoppedClock) -> None:
    sleeping_on(harness, clock)
    flaky = Flaky(harness, ValueError, 2, strategy="retry")

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        got = yield run.call(flaky.tool)
        return got

    assert done(harness.run(agent, "x")) == "got"
    assert flaky.attempts == 3


@both_kinds
def test_a_passing_error_is_told_at_once_where_that_is_said(harness: Harness, waits: bool) -> None:
    flaky = Flaky(harness, ConnectionError, 9)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        if task == "call":
            yield run.call(flaky.tool.using(strategy="forward"))
        with run.step("s", strategy="forward"):
            yield run.call(flaky.tool)

    for task in ("call", "step"):
        assert harness.run(agent, task).status == "FAILED"
    assert flaky.attempts == 2


@both_kinds
def test_a_tools_own_word_is_nearer_than_that_of_its_step(harness: Harness, waits: bool, clock: StoppedClock) -> None:
    sleeping_on(harness, clock)
    flaky = Flaky(harness, ConnectionError, 1, strategy="retry")

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        with run.step("outer", strategy="forward"), run.step("inner"):
            got = yield run.call(flaky.tool)
        return got

    assert done(harness.run(agent, "x")) == "got"


@both_kinds
def test_an_external_call_that_may_have_happened_is_not_made_again_whatever_is_said(
    harness: Harness, waits: bool
) -> None:
    flaky = Flaky(harness, ValueError, 1, effect="external", strategy="retry")

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.call(flaky.tool)

    result = harness.run(agent, "x")
    assert [(each.kind, each.attempt) for each in result.waiting_on] == [("resolve", 1)]
    assert flaky.attempts == 1


@both_kinds
def test_going_forward_an_external_call_that_did_not_happen_is_told(
    harness: Harness, waits: bool, clock: StoppedClock
) -> None:
    sleeping_on(harness, clock)
    flaky = Flaky(harness, ValueError, 1, effect="external", strategy="forward", settle=0)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.call(flaky.tool)

    @flaky.tool.probe
    def did_not() -> NotHappened:
        return NotHappened()

    result = harness.run(agent, "x")
    assert (result.status, result.error_type, flaky.attempts) == ("FAILED", "CallFailed", 1)


@both_kinds
def test_a_call_takes_its_run_back_to_the_start_of_its_step(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, look = declare_tools(harness, outside, waits=waits)
    flaky = Flaky(harness, ValueError, 2, strategy="rollback", retries=2)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        with run.step("before"):
            yield run.call(look, "map")
        with run.step("stay"):
            yield run.call(book, "1")
            got = yield run.call(flaky.tool)
        return got

    assert done(harness.run(agent, "x")) == "got"
    assert outside.seen == [
        ("look", "map"),
        ("book", "1"),
        ("cancel", "1", "r-1"),
        ("book", "1"),
        ("cancel", "1", "r-1"),
        ("book", "1"),
    ]
    assert harness.show("last").run.generation == 2


@both_kinds
def test_a_call_takes_its_run_back_no_more_often_than_it_has_retries(harness: Harness, waits: bool) -> None:
    flaky = Flaky(harness, ValueError, 99, strategy="rollback", retries=2)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        with run.step("s"):
            yield run.call(flaky.tool)

    result = harness.run(agent, "x")
    assert (result.status, flaky.attempts) == ("FAILED", 3)
    assert harness.show("last").run.generation == 2


@both_kinds
def test_a_failure_that_the_agent_deals_with_takes_no_run_back(harness: Harness, waits: bool) -> None:
    flaky = Flaky(harness, ValueError, 1, strategy="rollback")

    @harness.agent
    def agent(run: Run, task: str) -> str:
        try:
            return str(run.call(flaky.tool))
        except Exception:
            return "so be it"

    assert done(harness.run(agent, "x")) == "so be it"
    assert harness.show("last").run.generation == 0


# --- Of a failed run. ------------------------------------------------------------------------------------------------


def stays(harness: Harness, waits: bool, outside: Outside, broken: list[bool]) -> Any:
    """Books a room, then fails to fetch, in one step; what was fetched before it is in another."""
    _, book, look = declare_tools(harness, outside, waits=waits)

    @harness.tool(effect="read", retries=0)
    def fetch() -> str:
        outside.note("fetch", "")
        if broken[0]:
            raise ValueError("down")
        return "got"

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        with run.step("first"):
            yield run.call(look, "map")
        with run.step("second"):
            yield run.call(book, "1")
            got = yield run.call(fetch)
        return got

    return agent


@both_kinds
def test_a_resume_that_rolls_back_makes_the_whole_step_again(harness: Harness, waits: bool) -> None:
    outside, broken = Outside(), [True]
    run_id = harness.run(stays(harness, waits, outside, broken), "x").run_id
    broken[0] = False
    assert done(harness.resume(run_id, strategy="rollback")) == "got"
    assert [each[0] for each in outside.seen] == ["look", "book", "fetch", "cancel", "book", "fetch"]


@both_kinds
def test_a_resume_that_tries_again_makes_the_failed_call_alone(harness: Harness, waits: bool) -> None:
    outside, broken = Outside(), [True]
    run_id = harness.run(stays(harness, waits, outside, broken), "x").run_id
    broken[0] = False
    assert done(harness.resume(run_id, strategy="auto")) == "got"
    assert [each[0] for each in outside.seen] == ["look", "book", "fetch", "fetch"]


@both_kinds
def test_a_resume_that_goes_forward_leaves_the_failure_to_the_agent(harness: Harness, waits: bool) -> None:
    outside, broken = Outside(), [True]
    run_id = harness.run(stays(harness, waits, outside, broken), "x").run_id
    broken[0] = False
    result = harness.resume(run_id, strategy="forward")
    assert (result.status, result.error_message) == ("FAILED", "call second.fetch.1 failed with ValueError: down")
    assert [each[0] for each in outside.seen] == ["look", "book", "fetch"]


@both_kinds
def test_a_run_that_cannot_be_reopened_can_be_rolled_back(harness: Harness, waits: bool) -> None:
    outside, broken = Outside(), [True]
    mail, _, _ = declare_tools(harness, outside)

    @harness.tool(effect="read", retries=0)
    def fetch() -> str:
        if broken[0]:
            raise ValueError("down")
        return "got"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        try:
            return fetch()
        except Exception:
            mail("ada")
            raise

    run_id = harness.run(agent, "x").run_id
    broken[0] = False
    with pytest.raises(CannotReopen):
        harness.resume(run_id)
    assert done(harness.resume(run_id, strategy="rollback")) == "got"
    assert outside.mailed() == ["ada"]


@both_kinds
def test_of_a_batch_that_failed_in_part_the_rest_is_made(harness: Harness, waits: bool) -> None:
    made: list[int] = []
    broken = {2}

    @harness.tool(effect="idempotent", retries=0)
    def item(number: int) -> int:
        made.append(number)
        if number in broken:
            raise ValueError(f"{number} is broken")
        return number * 10

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        results = yield run.map(item, [1, 2, 3])
        return results

    result = harness.run(agent, "x")
    assert isinstance(result.error, MapFailed)
    assert harness.store.run(result.run_id).error_class is ErrorClass.PARTIAL  # type: ignore[union-attr]
    broken.clear()
    assert done(harness.resume(result.run_id)) == [10, 20, 30]
    assert sorted(made) == [1, 2, 2, 3]


@both_kinds
def test_a_loop_whose_output_was_never_accepted_returns_to_its_task(harness: Harness, waits: bool) -> None:
    script = Script(Decision.finish("bad"))
    agent = declare(harness, waits, script, verify=lambda output: output == "good", verify_limit=1)
    run_id = harness.run(agent, "x").run_id
    script.decisions = (Decision.finish("good"),)
    assert done(harness.resume(run_id, strategy="rollback")) == "good"
    assert harness.show(run_id).run.generation == 1


@in_memory
def test_a_strategy_is_one_of_those_there_are(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        with run.step("s", strategy="sideways"):
            pass

    with pytest.raises(UsageError, match="strategy='sideways' is not known"):
        harness.tool(effect="read", strategy="sideways", name="look")(lambda: None)
    assert harness.run(agent, "x").error_type == "UsageError"
