"""Failed runs taken up again where they failed: the calls they failed with are made again, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Harness, NotApplied
from jumar.errors import CallFailed, CannotReopen
from tests.integration.reopening_helpers import Declined, Outside, tool
from tests.integration.waits_helpers import asked, both_kinds, every_kind, kinds_in_memory, scripted, side_by_side


@both_kinds
@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_the_call_a_run_failed_with_is_made_again_with_its_attempts_counted_on(
    harness: Harness, waits: bool, effect: str
) -> None:
    outside = Outside(2)
    act = tool(harness, outside, effect)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(act, 1)), (yield run.call(act, 2)), (yield run.call(act, 3))

    result = harness.run(agent, "x")
    assert (result.status, result.error_type, outside.came) == ("FAILED", "Declined", [1, 2])
    assert harness.resume(result.run_id).status == "FAILED"
    assert outside.came == [1, 2, 2]
    assert harness.due() == [] and harness.resume_due() == []
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == [10, 20, 30]
    assert outside.came == [1, 2, 2, 2, 3]
    seen = harness.show("last")
    assert [(call.call_id, call.state, call.attempt) for call in seen.calls] == [
        ("act.1", "SUCCEEDED", 1),
        ("act.2", "SUCCEEDED", 3),
        ("act.3", "SUCCEEDED", 1),
    ]
    assert [line.what for line in harness.trace("last")].count("reopened") == 2
    assert seen.run.error_type is None and harness.doctor().sound


@both_kinds
def test_an_earlier_failure_that_the_agent_dealt_with_answers_as_it_did(harness: Harness, waits: bool) -> None:
    outside = Outside(1, 2)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(act, 1)
        except Declined as error:
            told = str(error)
        return told, (yield run.call(act, 2))

    result = harness.run(agent, "x")
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == ["1 is down", 20]
    assert outside.came == [1, 2, 2]


@kinds_in_memory
@pytest.mark.parametrize("how", ["from", "in", "bare", "group", "twice"])
def test_a_failure_is_found_through_whatever_it_was_wrapped_in(harness: Harness, waits: bool, how: str) -> None:
    outside = Outside(1)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(act, 1))
        except Declined as error:
            if how == "from":
                raise RuntimeError("wrapped") from error
            if how == "in":
                raise RuntimeError("wrapped")  # noqa: B904 - its context is what is tested
            if how == "group":
                raise ExceptionGroup("wrapped", [ValueError("other"), error]) from None
            if how == "bare":
                raise
            try:
                raise RuntimeError("wrapped") from error
            except RuntimeError as again:
                raise LookupError("twice") from again

    result = harness.run(agent, "x")
    assert result.status == "FAILED"
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == 10
    assert outside.came == [1, 1]


@both_kinds
def test_a_failure_that_the_agent_cut_off_from_its_cause_is_its_own(harness: Harness, waits: bool) -> None:
    outside = Outside(1)
    act, mended = tool(harness, outside), False

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(act, 1))
        except Declined:
            if not mended:
                raise RuntimeError("cut off") from None
            return "the failure answered"

    result = harness.run(agent, "x")
    outside.down.clear()
    mended = True
    assert harness.resume(result.run_id).unwrap() == "the failure answered"
    assert outside.came == [1]


@both_kinds
def test_an_error_of_the_agents_own_makes_no_call_again(harness: Harness, waits: bool) -> None:
    outside = Outside()
    act, broken = tool(harness, outside), True

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        found = yield run.call(act, 1)
        if broken:
            raise RuntimeError("a bug")
        return found

    result = harness.run(agent, "x")
    broken = False
    assert harness.resume(result.run_id).unwrap() == 10
    assert outside.came == [1]


@both_kinds
def test_a_decision_that_failed_is_made_again(harness: Harness, waits: bool) -> None:
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            raise ValueError("overloaded")
        return prompt.upper()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.decide(model, "plan", retries=0)), (yield run.decide(model, "act", retries=0))

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "CallFailed")
    assert harness.resume(result.run_id).unwrap() == ["PLAN", "ACT"]
    assert prompts == ["plan", "plan", "act"]


@both_kinds
def test_a_recorded_value_that_failed_is_computed_again(harness: Harness, waits: bool) -> None:
    asked_for: list[int] = []

    def source() -> int:
        asked_for.append(1)
        if len(asked_for) == 1:
            raise OSError("no disk")
        return 5

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.value("a fact", source))

    result = harness.run(agent, "x")
    while result.status == "FAILED":
        result = harness.resume(result.run_id)
    assert (result.unwrap(), asked_for) == (5, [1, 1])


@both_kinds
def test_a_failed_call_that_needs_an_approval_is_asked_for_anew(harness: Harness, waits: bool) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", approval="always", errors=(Declined,))
    def pay(invoice: str) -> str:
        sent.append(invoice)
        if len(sent) == 1:
            raise Declined("no funds")
        return invoice

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, "a"))

    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay.1", args={"invoice": "b"})
    assert harness.resume(run_id).error_type == "Declined"
    assert asked(harness.resume(run_id)) == [("pay.1", "approval", 2)]
    assert sent == ["b"]
    harness.approve(run_id, "pay.1")
    assert harness.resume(run_id).unwrap() == "a"
    assert sent == ["b", "a"]


@both_kinds
def test_a_result_that_could_not_be_kept_is_no_failure_of_the_call_and_is_not_made_again(
    harness: Harness, waits: bool
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> Any:
        sent.append(cents)
        return object()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    for _ in range(2):
        assert (result.status, result.error_type, sent) == ("FAILED", "ResultNotStorable", [5])
        result = harness.resume(result.run_id)


# --- Refused. --------------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("effect", ["external", "idempotent"])
def test_what_was_done_because_of_the_failure_forbids_it(harness: Harness, waits: bool, effect: str) -> None:
    outside, mails = Outside(1), Outside()
    act, mail = tool(harness, outside), tool(harness, mails, effect, "mail")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(act, 1))
        except Declined as error:
            yield run.call(mail, 7)
            raise RuntimeError("told everybody") from error

    result = harness.run(agent, "x")
    outside.down.clear()
    before = harness.show("last")
    for _ in range(2):
        with pytest.raises(CannotReopen, match=r"failed with call act\.1, and mail\.1 \(.*\) was begun after it"):
            harness.resume(result.run_id)
        assert harness.show("last") == before  # FAILED, as it was
    assert (outside.came, mails.came) == ([1], [7])
    assert harness.cancel(result.run_id).status == "CANCELLED"


@both_kinds
def test_what_was_done_side_by_side_because_of_the_failure_forbids_it_too(harness: Harness, waits: bool) -> None:
    outside, mails = Outside(1), Outside()
    act, mail = tool(harness, outside), tool(harness, mails, name="mail")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(act, 1)
        except Declined as error:
            yield run.map(mail, [7, 8])
            raise RuntimeError("told everybody") from error
        return (yield run.call(mail, 7))

    result = harness.run(agent, "x")
    outside.down.clear()
    with pytest.raises(CannotReopen, match=r"map:\d\.mail\.1 .* was begun after it"):
        harness.resume(result.run_id)
    assert (outside.came, sorted(mails.came)) == ([1], [7, 8])


@both_kinds
def test_what_was_only_read_because_of_the_failure_does_not_forbid_it(harness: Harness, waits: bool) -> None:
    outside, looks = Outside(1), Outside()
    act, look = tool(harness, outside), tool(harness, looks, "read", "look")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(act, 1))
        except Declined as error:
            yield run.call(look, 7)
            raise RuntimeError("looked") from error

    result = harness.run(agent, "x")
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == 10


@both_kinds
def test_a_failure_kept_for_later_is_not_made_again_past_what_was_done_meanwhile(harness: Harness, waits: bool) -> None:
    outside = Outside(1)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(act, 1)
        except Declined as error:
            kept = error
        yield run.call(act, 2)
        raise kept

    result = harness.run(agent, "x")
    with pytest.raises(CannotReopen, match=r"act\.2 \(external\) was begun after it"):
        harness.resume(result.run_id)


# --- Twice, and at once. ---------------------------------------------------------------------------------------------


@every_kind
def test_of_two_that_resume_a_failed_run_at_once_one_makes_the_call(harness: Harness, waits: bool) -> None:
    outside = Outside(1)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(act, 1))

    for _ in range(5):
        outside.down, outside.came = {1}, []
        run_id = harness.run(agent, "x").run_id
        outside.down.clear()
        ended = side_by_side(*[lambda run_id=run_id: harness.resume(run_id, wait=False) for _ in range(2)])
        assert [each.unwrap() for each in ended if not isinstance(each, Exception)] == [10]
        assert outside.came == [1, 1]


@both_kinds
def test_a_failed_run_whose_call_was_not_applied_at_all_goes_on_like_any_other(harness: Harness, waits: bool) -> None:
    down = True

    @harness.tool(effect="external", retries=0)
    def pay(cents: int) -> int:
        if down:
            raise NotApplied("busy")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(pay, 5))
        except CallFailed as error:
            raise RuntimeError("gave up") from error

    result = harness.run(agent, "x")
    down = False
    assert harness.resume(result.run_id).unwrap() == 5
