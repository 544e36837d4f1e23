"""What people and models give that cannot be used, and tools that change while a call of theirs is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness, ToolCall, current_call
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import CallRejected
from jumar.testing import StoppedClock
from tests.integration.agents_helpers import interrupted, states
from tests.integration.loops_helpers import Script, act, call, declare
from tests.integration.waits_helpers import asked, both_kinds, clock, scripted

__all__ = ["clock"]


# --- Approved with arguments that nobody could check. ----------------------------------------------------------------


def stranger(harness: Harness) -> Harness:
    """The same store, seen by somebody who does not know its tools."""
    harness._tools.clear()
    return harness


@both_kinds
@pytest.mark.parametrize("args", [{"nope": 1}, {"cents": "many"}, {}, {"cents": 1, "extra": None}])
def test_approved_arguments_that_the_tool_cannot_take_are_no_approval_and_it_is_asked_again(
    harness: Harness, waits: bool, args: dict[str, Any]
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> str:
        sent.append(cents)
        return "paid"

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    run_id = harness.run(agent, "x").run_id
    stranger(harness).approve(run_id, "pay.1", args=args)
    again = harness.resume(run_id)
    assert (again.status, asked(again), sent) == ("WAITING", [("pay.1", "approval", 2)], [])
    harness.approve(run_id, "pay.1", args={"cents": 3})
    assert harness.resume(run_id).unwrap() == "paid"
    assert sent == [3]


@both_kinds
def test_a_call_that_was_approved_so_can_still_be_rejected(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="idempotent", approval="always", identity=lambda cents: f"pay:{cents}")
    def pay(cents: int) -> str:
        raise AssertionError("sent")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, 5)
        except CallRejected as error:
            return error.note

    run_id = harness.run(agent, "x").run_id
    stranger(harness).approve(run_id, "pay.1", args={"nope": 1})
    harness.resume(run_id)
    harness.reject(run_id, "pay.1", note="never mind")
    assert harness.resume(run_id).unwrap() == "never mind"


@both_kinds
def test_a_loop_agents_call_that_was_approved_so_is_asked_about_again_and_holds_no_other_back(
    harness: Harness, waits: bool
) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", approval="always")
    def pay(item: str) -> str:
        sent.append(item)
        return f"{item} paid"

    agent = declare(
        harness,
        waits,
        Script(act(call("pay", item="ink"), call("pay", item="paper")), Decision.finish("done")),
        tools=[pay],
    )
    run_id = harness.run(agent, "x").run_id
    stranger(harness).approve(run_id, "turn.pay.1", args={"nope": 1})
    harness.approve(run_id, "turn.pay.2")
    assert asked(harness.resume(run_id)) == [("turn.pay.1", "approval", 2)]
    assert sent == ["paper"]
    harness.approve(run_id, "turn.pay.1")
    assert harness.resume(run_id).unwrap() == "done"
    assert sent == ["paper", "ink"]


@both_kinds
def test_approved_arguments_that_name_no_action_are_no_approval(harness: Harness, waits: bool) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", approval="always", identity=lambda item: item)
    def pay(item: str) -> str:
        sent.append(item)
        return "paid"

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, "ink"))

    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay.1", args={"item": ""})
    assert asked(harness.resume(run_id)) == [("pay.1", "approval", 2)]
    harness.approve(run_id, "pay.1")
    assert harness.resume(run_id).unwrap() == "paid"
    assert sent == ["ink"]


# --- A model's arguments that name no action. ------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("others", [0, 1])
def test_arguments_of_a_model_that_name_no_action_are_told_to_it_and_the_run_goes_on(
    harness: Harness, waits: bool, others: int
) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", identity=lambda item: f"pay:{item}")
    def pay(item: str) -> str:
        sent.append(item)
        return "paid"

    def finish(view: Any) -> Decision:
        return Decision.finish([result.error for result in view.history[-1].results])

    first = [ToolCall("pay", {"item": "x" * 300}), *(ToolCall("pay", {"item": f"{n}"}) for n in range(others))]
    told = harness.run(declare(harness, waits, Script(act(*first), finish), tools=[pay]), "x").unwrap()
    assert "the identity of pay is 'pay:xxx" in told[0]
    assert (told[1:], sent) == ([None] * others, [f"{n}" for n in range(others)])


# --- A tool that changes while a call of it is in doubt. -------------------------------------------------------------

NAMED: dict[str, Any] = {"identity": lambda item: f"pay:{item}"}
STORE: dict[str, Any] = {**NAMED, "identity_scope": "store"}
RENAMED: dict[str, Any] = {"identity": lambda item: f"order:{item}"}


@pytest.mark.parametrize("loop", [False, True], ids=["function", "loop"])
@pytest.mark.parametrize(
    ("before", "after"),
    [({}, NAMED), ({}, STORE), (NAMED, {}), (NAMED, STORE), (STORE, NAMED), (STORE, {}), (STORE, RENAMED)],
)
def test_what_may_have_been_done_is_repeated_under_the_key_it_was_sent_with_whatever_its_tool_has_become(
    tmp_path: Path, clock: StoppedClock, before: dict[str, Any], after: dict[str, Any], loop: bool
) -> None:
    keys: list[str] = []

    def life(options: dict[str, Any], end: Callable[[], None]) -> Harness:
        harness = Harness(f"sqlite:///{tmp_path / 'run.db'}")

        @harness.tool(effect="idempotent", **options)
        def pay(item: str) -> str:
            current = current_call()
            assert current is not None
            keys.append(current.idempotency_key)
            end()
            return "paid"

        if loop:
            declare(harness, False, Script(act(call("pay", item="ink")), Decision.finish("paid")), tools=[pay])
        else:

            @harness.agent
            def operator(run: Any, task: str) -> Any:
                return run.call(pay, "ink")

        return harness

    def interrupt() -> None:
        raise KeyboardInterrupt

    with life(before, interrupt) as first:
        run_id = interrupted(first, "operator")
    clock.move(DEFAULT_TTL + 1)
    with life(after, lambda: None) as second:
        assert second.resume(run_id).unwrap() == "paid"
        assert set(states(second, run_id).values()) == {"SUCCEEDED"}
        assert second.doctor().sound
    assert len(keys) == 2
    assert keys[0] == keys[1]
