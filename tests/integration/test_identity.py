"""Actions with a name, within one run: done once, and answered alike wherever they are asked for again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jumar import Harness, NotApplied, NotHappened, current_call
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import CallFailed, CallRejected, IdentityConflict, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, ids, states, until
from tests.integration.waits_helpers import (
    asked,
    both_kinds,
    clock,
    every_kind,
    in_memory,
    kinds_in_memory,
    once,
    scripted,
)

__all__ = ["clock"]


class Declined(Exception):
    """Promises that nothing was done."""


def pays(harness: Harness, sent: list[Any], **options: Any) -> Any:
    """A tool `pay` whose calls are named by their invoice."""

    @harness.tool(effect=options.pop("effect", "external"), identity=lambda invoice, cents: f"pay:{invoice}", **options)
    def pay(invoice: str, cents: int) -> str:
        call = current_call()
        assert call is not None
        sent.append((invoice, cents, call.idempotency_key))
        return f"{invoice} paid {len(sent)}"

    return pay


@both_kinds
@pytest.mark.parametrize("effect", ["external", "idempotent"])
def test_the_same_action_is_done_once_and_answers_every_call_with_its_own_record(
    harness: Harness, waits: bool, effect: str
) -> None:
    sent: list[Any] = []
    pay, interrupt = pays(harness, sent, effect=effect), Interruption()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        first = yield run.call(pay, "a", 5)
        second = yield run.call(pay, "a", cents=5)
        interrupt()
        with run.step("later"):
            return first, second, (yield run.call(pay, "a", 5)), (yield run.call(pay, "b", 5))

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    assert harness.resume("last").unwrap() == ["a paid 1"] * 3 + ["b paid 2"]
    assert [each[:2] for each in sent] == [("a", 5), ("b", 5)]
    assert states(harness) == dict.fromkeys(["pay.1", "pay.2", "later.pay.1", "later.pay.2"], "SUCCEEDED")
    assert [call.attempt for call in harness.show("last").calls] == [1, 0, 0, 1]
    assert len({call.idempotency_key for call in harness.show("last").calls}) == 2
    assert harness.doctor().sound


@both_kinds
def test_the_same_action_with_other_arguments_is_a_conflict_now_and_on_replay(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []
    pay, interrupt, told = pays(harness, sent), Interruption(), []

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.call(pay, "a", 5)
        try:
            yield run.call(pay, "a", 6)
        except IdentityConflict as error:
            told.append((error.holder, error.what))
        interrupt()
        return (yield run.call(pay, "a", 5))

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    run_id = harness.find("last")
    assert harness.resume(run_id).unwrap() == "a paid 1"
    assert told[0] == told[1] and told[0][0] == f"{run_id}/pay.1"
    assert len(sent) == 1
    assert states(harness) == {"pay.1": "SUCCEEDED", "pay.2": "FAILED", "pay.3": "SUCCEEDED"}


@both_kinds
def test_a_conflict_that_nobody_catches_fails_the_run_and_stays_one_when_it_is_reopened(
    harness: Harness, waits: bool
) -> None:
    sent: list[Any] = []
    pay = pays(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.call(pay, "a", 5)
        return (yield run.call(pay, "a", 6))

    result = harness.run(agent, "x")
    for _ in range(2):
        assert (result.status, result.error_type, len(sent)) == ("FAILED", "IdentityConflict", 1)
        result = harness.resume(result.run_id)


@every_kind
def test_two_parallel_items_with_one_identity_are_one_effect(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []

    @harness.tool(effect="external", identity=lambda invoice: f"pay:{invoice}")
    def pay(invoice: str) -> str:
        sent.append(invoice)
        until(lambda: "AWAITING" in states(harness).values())  # the other one has found the name taken
        return f"paid {len(sent)}"

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.map(pay, ["a", "a"]))

    assert harness.run(agent, "x").unwrap() == ["paid 1", "paid 1"]
    assert sent == ["a"]
    assert states(harness) == {"map:0.pay.1": "SUCCEEDED", "map:1.pay.1": "SUCCEEDED"}
    assert harness.show("last").run.epoch == 1  # it waited in this very process


@every_kind
def test_many_parallel_items_with_few_identities_are_as_few_effects(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []
    pay = pays(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.map(pay, [(f"i{number % 3}", number % 3) for number in range(12)]))

    found = harness.run(agent, "x").unwrap()
    assert sorted(each[0] for each in sent) == ["i0", "i1", "i2"]
    assert all(found[number] == found[number % 3] for number in range(12))


@every_kind
def test_a_parallel_item_goes_out_itself_where_the_one_before_it_failed(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    going = threading.Event()

    @harness.tool(effect="external", errors=(Declined,), identity=lambda invoice, cents: invoice)
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        if cents == 1:
            going.set()
            until(lambda: "AWAITING" in states(harness).values())
            raise Declined("no funds")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.gather(pay.bind("a", 1), once(going, waits, lambda: run.call(pay, "a", 2)))
        except Declined:
            return "declined"

    assert harness.run(agent, "x").unwrap() == "declined"
    assert sent == [1, 2]
    assert states(harness) == {"gather:0.pay.1": "FAILED", "gather:1.pay.1": "SUCCEEDED"}


# --- When a name is given up. ----------------------------------------------------------------------------------------


@both_kinds
def test_a_failed_external_call_gives_its_name_up(harness: Harness, waits: bool) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", errors=(Declined,), identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        if cents > 10:
            raise Declined("too much")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "a", 50)
        except Declined:
            return (yield run.call(pay, "a", 5))

    assert harness.run(agent, "x").unwrap() == 5
    assert sent == [50, 5]


@both_kinds
def test_a_rejected_call_gives_its_name_up(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []
    pay = pays(harness, sent, approval="always")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "a", 50)
        except CallRejected:
            return (yield run.call(pay, "a", 5))

    result = harness.run(agent, "x")
    harness.reject(result.run_id, "pay.1")
    assert asked(harness.resume(result.run_id)) == [("pay.2", "approval", 1)]
    harness.approve(result.run_id, "pay.2")
    assert harness.resume(result.run_id).unwrap() == "a paid 1"
    assert [each[1] for each in sent] == [5]


@both_kinds
def test_a_call_rejected_after_an_attempt_that_did_not_happen_gives_its_name_up(harness: Harness, waits: bool) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always", settle=0.0, identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        if cents > 10:
            raise ConnectionError("cut")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "a", 50)
        except CallRejected:
            return (yield run.call(pay, "a", 5))

    result = harness.run(agent, "x")
    run_id = result.run_id
    harness.approve(run_id, "pay.1")
    harness.resume(run_id)
    harness.resolve(run_id, "pay.1", NotHappened())
    assert asked(harness.resume(run_id)) == [("pay.1", "approval", 2)]
    harness.reject(run_id, "pay.1")
    assert asked(harness.resume(run_id)) == [("pay.2", "approval", 1)]
    harness.approve(run_id, "pay.2")
    assert harness.resume(run_id).unwrap() == 5
    assert sent == [50, 5]


def fails(harness: Harness, sent: list[Any], error: type[Exception]) -> Any:
    """An idempotent tool of which only the third attempt, over all calls, succeeds."""

    @harness.tool(effect="idempotent", retries=0, identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        call = current_call()
        assert call is not None
        sent.append((cents, call.idempotency_key))
        if len(sent) < 3:
            raise error("down")
        return cents

    return pay


@both_kinds
def test_a_failed_idempotent_call_keeps_its_name_and_the_same_may_go_again_under_the_same_key(
    harness: Harness, waits: bool
) -> None:
    sent: list[Any] = []
    pay = fails(harness, sent, ValueError)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        for _ in range(2):
            try:
                yield run.call(pay, "a", 5)
            except CallFailed:
                continue
        try:
            yield run.call(pay, "a", 6)  # the service may know of 5
        except IdentityConflict as error:
            found = error.holder
        return found, (yield run.call(pay, "a", 5)), (yield run.call(pay, "a", 5))

    result = harness.run(agent, "x")
    assert result.unwrap() == [f"{result.run_id}/pay.2", 5, 5]
    assert [cents for cents, _ in sent] == [5, 5, 5] and len({key for _, key in sent}) == 1


@both_kinds
def test_an_idempotent_call_that_was_not_applied_gives_its_name_up(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []
    pay = fails(harness, sent, NotApplied)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        for cents in (5, 6, 7):
            try:
                return (yield run.call(pay, "a", cents))
            except CallFailed as error:
                assert error.type_name == "NotApplied"

    assert harness.run(agent, "x").unwrap() == 7
    assert len({key for _, key in sent}) == 3


@both_kinds
def test_an_idempotent_call_keeps_its_name_where_any_of_its_attempts_may_have_been_applied(
    harness: Harness, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.engine.flows.effects.backoff", lambda attempt, asked, luck: 0.0)
    sent: list[int] = []

    @harness.tool(effect="idempotent", retries=1, identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        raise NotApplied("busy") if len(sent) > 1 else ConnectionError("cut")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "a", 5)
        except CallFailed:
            try:
                yield run.call(pay, "a", 6)
            except IdentityConflict as error:
                return error.holder

    result = harness.run(agent, "x")
    assert result.unwrap() == f"{result.run_id}/pay.1"
    assert sent == [5, 5]


@both_kinds
def test_an_idempotent_call_rejected_after_an_attempt_that_may_have_happened_keeps_its_name(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    sent: list[int] = []
    interrupt = Interruption()

    @harness.tool(effect="idempotent", approval="always", identity=lambda invoice, cents: f"pay:{invoice}")
    def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        interrupt()
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "a", 5)
        except CallRejected:
            try:
                yield run.call(pay, "a", 6)
            except IdentityConflict as error:
                return error.holder

    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay.1")
    with pytest.raises(KeyboardInterrupt):
        harness.resume(run_id)
    clock.move(DEFAULT_TTL + 0.001)
    assert asked(harness.resume(run_id)) == [("pay.1", "approval", 2)]
    harness.reject(run_id, "pay.1")
    assert asked(harness.resume(run_id)) == [("pay.2", "approval", 1)]
    harness.approve(run_id, "pay.2")
    assert harness.resume(run_id).unwrap() == f"{run_id}/pay.1"
    assert sent == [5]


# --- What an identity may be. ----------------------------------------------------------------------------------------


@kinds_in_memory
@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (lambda cents: 1 / 0, "the identity of pay raised ZeroDivisionError: division by zero"),
        (lambda invoice, cents: "", "the identity of pay raised TypeError"),
        (lambda cents: cents, "the identity of pay is 5"),
        (lambda cents: None, "the identity of pay is None"),
        (lambda cents: "", "the identity of pay is ''"),
        (lambda cents: "x" * 257, "the identity of pay is 'xxx"),
        (lambda cents: "a\x00", "the identity of pay is"),
        (lambda cents: "\ud800", "the identity of pay is"),
        (lambda cents: b"pay", "the identity of pay is"),
    ],
    ids=["raises", "other arguments", "a number", "None", "empty", "long", "a NUL", "half a character", "bytes"],
)
def test_an_identity_that_is_none_is_refused_before_anything_is_sent(
    harness: Harness, waits: bool, identity: Any, words: str
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", identity=identity)
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "UsageError")
    assert words in str(result.error)
    assert (sent, ids(harness)) == ([], [])


async def async_identity(cents: int) -> str:
    """Would have to be awaited."""
    return "pay"


@in_memory
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effect": "read", "identity": lambda cents: "pay"}, "is a read"),
        ({"effect": "external", "identity": "pay"}, "is no plain function"),
        ({"effect": "external", "identity": async_identity}, "is no plain function"),
        ({"effect": "external", "identity_scope": "store"}, "no identity="),
        ({"effect": "external", "identity": lambda cents: "pay", "identity_scope": "world"}, "world"),
        ({"effect": "external", "identity": lambda cents: "pay", "identity_scope": 1}, "1"),
        ({"effect": "external", "approval": "sometimes"}, "sometimes"),
        ({"effect": "external", "approval": True}, "True"),
    ],
    ids=lambda given: given if isinstance(given, str) else "+".join(given),
)
def test_options_that_cannot_work_are_refused_where_the_tool_is_declared(
    harness: Harness, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):

        @harness.tool(**options)
        def pay(cents: int) -> int:
            return cents


def test_an_identity_looks_at_the_arguments_as_the_tool_gets_them(harness: Harness) -> None:
    seen: list[Any] = []

    def name(invoice: str, cents: int = 5, *, note: str = "") -> str:
        seen.append((invoice, cents, note))
        return invoice

    @harness.tool(effect="external", identity=name)
    def pay(invoice: str, cents: int = 5, *, note: str = "") -> str:
        return f"{invoice} {cents} {note}"

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.call(pay, "a"), run.call(pay, "a", 5), run.call(pay, invoice="a", note="")

    assert harness.run(agent, "x").unwrap() == ["a 5 "] * 3
    assert seen == [("a", 5, "")] * 3


def test_different_tools_of_one_identity_are_one_action(harness: Harness) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", identity=lambda invoice: invoice)
    def pay(invoice: str) -> str:
        sent.append("pay")
        return "paid"

    @harness.tool(effect="external", identity=lambda invoice: invoice)
    def transfer(invoice: str) -> int:
        sent.append("transfer")
        return 5

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        first = run.call(pay, "a")
        try:
            run.call(transfer, "a")
        except CallFailed as error:
            return first, error.type_name

    # Same action and arguments, so it is not done again; what it answered is not of the other tool's type.
    assert harness.run(agent, "x").unwrap() == ["paid", "ResultNotStorable"]
    assert sent == ["pay"]
