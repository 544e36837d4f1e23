"""A loop agent that is rolled back: its head, its transcript and what it asks for next agree, and what it did outside
answers the same call without being done again."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Decision, Harness, LoopView
from jumar.errors import CannotRollBack
from tests.integration.loops_helpers import Script, act, call, declare
from tests.integration.rollback_helpers import Outside, declare_tools, done, states
from tests.integration.waits_helpers import both_kinds


def turns(harness: Harness, run_id: str) -> list[list[str]]:
    """The names of the tools that each turn called, as the agent's function would see them."""
    return [[each.call.name for each in turn.results] for turn in harness.view(run_id).history]


def start_of(harness: Harness, run_id: str, turn: int) -> int:
    """The version of the checkpoint at the start of a turn, the newest of several."""
    path = "turn" if turn == 1 else f"turn-{turn}"
    found = [each for each in harness.show(run_id).checkpoints if not each.left_behind]
    found = [each for each in found if f"_{path}_step_" in each.name or (turn == 1 and each.version == 0)]
    return found[-1].version


class Travel(Script):
    """Looks, books and mails, each in a turn of its own, then finishes."""

    def __init__(self, to: str = "ada") -> None:
        super().__init__(
            act(call("look", what="map")),
            act(call("book", room="12")),
            act(call("mail", to=to)),
            Decision.finish("there"),
        )


@both_kinds
def test_two_turns_rolled_back_are_gone_from_the_head_and_the_transcript(harness: Harness, waits: bool) -> None:
    outside, script = Outside(), Travel()
    tools = declare_tools(harness, outside, waits=waits)
    agent = declare(harness, waits, script, tools=tools)
    run_id = harness.run(agent, "go").run_id
    rolled = harness.rollback(run_id, to=start_of(harness, run_id, 2))
    assert (rolled.undone, [each.call_id for each in rolled.not_undone]) == (("turn#2.book.1",), ["turn#3.mail.1"])
    info = harness.show(run_id).run
    assert (info.phase, info.step, info.generation) == ("RESULTS_RECORDED", 2, 1)
    assert turns(harness, run_id) == [["look"]]
    assert len(harness.view(run_id).messages("openai")) == 3
    script.views.clear()
    assert done(harness.resume(run_id)) == "there"
    assert script.steps == [2, 3, 4]
    assert [len(view.history) for view in script.views] == [1, 2, 3]
    assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])
    assert turns(harness, run_id) == [["look"], ["book"], ["mail"], []]
    found = states(harness, run_id)
    assert (found["turn#3.mail.1"], found["turn#3.mail.1@1"]) == ("SUCCEEDED behind", "SUCCEEDED")
    assert harness.show(run_id).calls[-2].attempt == 0  # it was answered by what stands, and made no attempt


@both_kinds
def test_a_model_that_decides_otherwise_after_a_rollback_needs_a_person_for_more_mail(
    harness: Harness, waits: bool
) -> None:
    outside, script = Outside(), Travel()
    tools = declare_tools(harness, outside)
    agent = declare(harness, waits, script, tools=tools)
    run_id = harness.run(agent, "go").run_id
    harness.rollback(run_id, to=start_of(harness, run_id, 3))
    script.decisions = Travel(to="bob").decisions
    result = harness.resume(run_id)
    assert [(each.call_id, each.kind) for each in result.waiting_on] == [("turn#3.mail.1@1", "approval")]
    assert outside.mailed() == ["ada"]
    harness.approve(run_id, "turn#3.mail.1@1")
    assert done(harness.resume(run_id)) == "there"
    assert outside.mailed() == ["ada", "bob"]


@both_kinds
def test_a_leftover_answers_one_of_two_equal_calls_and_a_person_the_other(harness: Harness, waits: bool) -> None:
    outside, script = Outside(), Travel()
    tools = declare_tools(harness, outside)
    agent = declare(harness, waits, script, tools=tools)
    run_id = harness.run(agent, "go").run_id
    harness.rollback(run_id, to=start_of(harness, run_id, 3))
    mail = call("mail", to="ada")
    script.decisions = (*script.decisions[:2], act(mail, mail), Decision.finish("there"))
    assert done(harness.resume(run_id)) == "there"  # nothing stands unmatched once the first is answered
    assert outside.mailed() == ["ada", "ada"]
    harness.rollback(run_id, to=start_of(harness, run_id, 3))
    assert done(harness.resume(run_id)) == "there"
    assert outside.mailed() == ["ada", "ada"]


@both_kinds
def test_a_version_inside_an_open_decision_is_refused_with_the_nearest_before_it(harness: Harness, waits: bool) -> None:
    outside, script = Outside(), Travel()
    tools = declare_tools(harness, outside)
    agent = declare(harness, waits, script, tools=tools)
    run_id = harness.run(agent, "go").run_id
    inside = [each for each in harness.show(run_id).checkpoints if each.trigger == "before_external_call"]
    nearest = start_of(harness, run_id, 2)
    with pytest.raises(CannotRollBack, match="the calls of a decision were being made") as caught:
        harness.rollback(run_id, to=inside[0].version)
    assert caught.value.hint.startswith(f"The nearest before it is version {nearest} (")


@both_kinds
def test_an_output_that_is_presented_again_is_counted_from_where_the_run_went_back_to(
    harness: Harness, waits: bool
) -> None:
    def accepted(output: str) -> Any:
        return True if output == "good" else "no good"

    script = Script(Decision.finish("bad"), Decision.finish("bad"), Decision.finish("good"))
    agent = declare(harness, waits, script, verify=accepted, verify_limit=3)
    run_id = harness.run(agent, "x").run_id
    harness.rollback(run_id, to=start_of(harness, run_id, 2))
    script.decisions = (script.decisions[0], Decision.finish("bad"), Decision.finish("bad"))
    failed = harness.resume(run_id)
    assert (failed.status, failed.error_type) == ("FAILED", "VerificationFailed")
    harness.rollback(run_id, to=start_of(harness, run_id, 2))
    script.decisions = (script.decisions[0], Decision.finish("bad"), Decision.finish("good"))
    assert done(harness.resume(run_id)) == "good"


@both_kinds
def test_a_run_that_waits_in_a_turn_goes_back_to_before_it(harness: Harness, waits: bool) -> None:
    outside = Outside()

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> str:
        outside.note("pay", cents)
        return "paid"

    script = Script(act(call("pay", cents=5)), Decision.finish("done"))
    agent = declare(harness, waits, script, tools=[pay])
    run_id = harness.run(agent, "x").run_id
    rolled = harness.rollback(run_id, to=0)
    assert rolled.withdrawn == ("turn.pay.1",)
    assert harness.view(run_id).history == ()
    result = harness.resume(run_id)
    assert [each.call_id for each in result.waiting_on] == ["turn.pay.1@1"]
    harness.approve(run_id, "turn.pay.1@1")
    assert done(harness.resume(run_id)) == "done"
    assert outside.seen == [("pay", 5)]


@both_kinds
def test_a_view_of_a_rolled_back_run_shows_its_line_alone(harness: Harness, waits: bool) -> None:
    outside, script = Outside(), Travel()
    tools = declare_tools(harness, outside)
    run_id = harness.run(declare(harness, waits, script, tools=tools), "go").run_id
    assert isinstance(harness.view(run_id), LoopView)
    assert len(turns(harness, run_id)) == 4
    harness.rollback(run_id, to=0)
    assert turns(harness, run_id) == []
    assert harness.view(run_id).step_index == 1
