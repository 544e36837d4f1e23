"""Arguments that the person who approves a call has changed: they are what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Happened, Harness, NotHappened, Unknown, current_call
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import IdentityConflict, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, states
from tests.integration.waits_helpers import asked, both_kinds, clock, kinds_in_memory, scripted

__all__ = ["clock"]


def key_now() -> str:
    """The idempotency key of the call whose body is running."""
    call = current_call()
    assert call is not None
    return call.idempotency_key


@both_kinds
def test_what_is_approved_is_what_is_sent_and_the_call_is_matched_by_what_was_asked_for(
    harness: Harness, waits: bool
) -> None:
    sent: list[tuple[str, int]] = []
    interrupt = Interruption()

    @harness.tool(effect="external", approval="always")
    def pay(invoice: str, cents: int = 5) -> str:
        sent.append((invoice, cents))
        return f"{invoice}: {cents}"

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        first = yield run.call(pay, "a")
        interrupt()
        return first, (yield run.call(pay, "a"))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1", args={"cents": 3, "invoice": "b"})
    with pytest.raises(KeyboardInterrupt):
        harness.resume(result.run_id)
    second = harness.resume(result.run_id)  # the first is answered from its record, under the arguments asked for
    assert (asked(second), sent) == ([("pay.2", "approval", 1)], [("b", 3)])
    harness.approve(result.run_id, "pay.2", args={"invoice": "c"})
    assert harness.resume(result.run_id).unwrap() == ["b: 3", "c: 5"]
    assert sent == [("b", 3), ("c", 5)]
    seen = harness.show("last")
    assert [call.args for call in seen.calls] == [{"invoice": "a", "cents": 5}] * 2
    assert [answer.value for answer in seen.answers] == [{"invoice": "b", "cents": 3}, {"invoice": "c", "cents": 5}]


@kinds_in_memory
@pytest.mark.parametrize(
    "args",
    [
        {"invoice": "a", "cents": "five"},
        {"invoice": "a"},
        {"invoice": "a", "cents": 5, "tip": 1},
        {"invoice": 5, "cents": 5},
        {},
        {1: 2},
        ["a", 5],
        "a",
        {"invoice": "a", "cents": 1j},
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused_and_the_request_stays_open(
    harness: Harness, waits: bool, args: Any
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, "a", 5))

    result = harness.run(agent, "x")
    with pytest.raises(UsageError):
        harness.approve(result.run_id, "pay.1", args=args)
    assert asked(harness.resume(result.run_id)) == [("pay.1", "approval", 1)]
    harness.approve(result.run_id, "pay.1", args={"invoice": "a", "cents": 6})
    assert harness.resume(result.run_id).unwrap() == 6
    assert sent == [6]


@both_kinds
@pytest.mark.parametrize("interrupts", [False, True])
def test_identity_probe_and_idempotency_key_see_what_is_sent(
    harness: Harness, clock: StoppedClock, waits: bool, interrupts: bool
) -> None:
    keys: list[str] = []
    probed: list[tuple[str, int, str]] = []
    interrupt = Interruption()

    @harness.tool(
        effect="external",
        approval="always",
        settle=0.0,
        identity=lambda invoice, cents: f"pay:{invoice}",
    )
    def pay(invoice: str, cents: int) -> int:
        keys.append(key_now())
        if interrupts:
            interrupt()
        raise ConnectionError("cut")

    @pay.probe
    def _(invoice: str, cents: int) -> Any:
        probed.append((invoice, cents, key_now()))
        return Happened(cents) if len(probed) > 1 else Unknown()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        first = yield run.call(pay, "a", 5)
        return first, (yield run.call(pay, "b", 3))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1", args={"invoice": "b", "cents": 3})
    if interrupts:
        with pytest.raises(KeyboardInterrupt):
            harness.resume(result.run_id)
        clock.move(DEFAULT_TTL + 0.001)
    doubtful = harness.resume(result.run_id)
    assert asked(doubtful) == [("pay.1", "resolve", 1)]
    (waiting,) = doubtful.waiting_on
    assert (waiting.args, waiting.idempotency_key) == ({"invoice": "b", "cents": 3}, keys[0])
    # The second call asks for what the first was changed into: that is one action, and its result answers both.
    harness.pause(result.run_id)  # and resumed, it asks the probe again
    after = harness.resume(result.run_id)
    assert asked(after) == [("pay.2", "approval", 1)]
    harness.approve(result.run_id, "pay.2")
    assert harness.resume(result.run_id).unwrap() == [3, 3]
    assert probed == [("b", 3, keys[0])] * 2 and len(keys) == 1
    assert harness.show("last").calls[0].idempotency_key == keys[0]


@both_kinds
def test_an_approval_of_the_arguments_asked_for_takes_their_name_after_others_were_tried(
    harness: Harness, waits: bool
) -> None:
    sent: list[str] = []
    keys: list[str] = []

    @harness.tool(effect="external", approval="always", settle=0.0, identity=lambda invoice: f"pay:{invoice}")
    def pay(invoice: str) -> str:
        sent.append(invoice)
        keys.append(key_now())
        if len(sent) == 1:
            raise ConnectionError("cut")
        return invoice

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        first = yield run.call(pay, "a")
        return first, (yield run.call(pay.using(key="again"), "a")), (yield run.call(pay, "b"))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1", args={"invoice": "b"})
    assert asked(harness.resume(result.run_id)) == [("pay.1", "resolve", 1)]
    harness.resolve(result.run_id, "pay.1", NotHappened())
    assert asked(harness.resume(result.run_id)) == [("pay.1", "approval", 2)]
    harness.approve(result.run_id, "pay.1")
    result = harness.resume(result.run_id)
    assert sent == ["b", "a"]
    while result.status == "WAITING":
        harness.approve(result.run_id, result.waiting_on[0].call_id)
        result = harness.resume(result.run_id)
    assert result.unwrap() == ["a", "a", "b"]
    assert sent == ["b", "a", "b"]  # "a" was done, so asking again sends nothing; "b" was not
    assert keys[0] == keys[2] != keys[1]


@both_kinds
def test_an_edit_into_an_action_that_was_done_otherwise_is_a_conflict(harness: Harness, waits: bool) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always", identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        first = yield run.call(pay, "a", 5)
        try:
            return first, (yield run.call(pay, "b", 3))
        except IdentityConflict as error:
            return error.holder

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    harness.resume(result.run_id)
    harness.approve(result.run_id, "pay.2", args={"invoice": "a", "cents": 6})
    assert harness.resume(result.run_id).unwrap() == f"{result.run_id}/pay.1"
    assert sent == [5]
    assert states(harness) == {"pay.1": "SUCCEEDED", "pay.2": "FAILED"}
