"""Actions with a name that reaches over all runs of a store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, Harness, NotHappened, current_call
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import IdentityConflict
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, states, until
from tests.integration.waits_helpers import PATIENCE, asked, both_kinds, clock, scripted

__all__ = ["clock"]

TTL_MS = int(DEFAULT_TTL * 1000)


class Declined(Exception):
    """Promises that nothing was done."""


class Service:
    """What `pay` calls: it does what it is told for each call in turn, and remembers what came with which key."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.sent: list[tuple[int, str]] = []

    def __call__(self, cents: int) -> int:
        call = current_call()
        assert call is not None
        self.sent.append((cents, call.idempotency_key))
        end = self.ends.pop(0) if self.ends else None
        if isinstance(end, BaseException):
            raise end
        if end is not None:
            end()
        return cents

    @property
    def sums(self) -> list[int]:
        """The sums that came."""
        return [cents for cents, _ in self.sent]


def payer(harness: Harness, service: Service, waits: bool, *, scope: str | None = "store", **options: Any) -> Any:
    """An agent that pays one invoice, whatever it gets for a task in cents."""
    named = {} if scope is None else {"identity_scope": scope}

    @harness.tool(
        effect=options.pop("effect", "external"),
        identity=lambda invoice, cents: f"pay:{invoice}",
        settle=0.0,
        errors=(Declined,),
        **named,
        **options,
    )
    def pay(invoice: str, cents: int) -> int:
        return service(cents)

    @scripted(harness, waits)
    def agent(run: Any, cents: Any) -> Any:
        try:
            return (yield run.call(pay, "a", cents))
        except IdentityConflict as error:
            return error.holder

    return agent


# --- How far a name reaches. -----------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("scope", ["run", None])
def test_a_name_of_a_run_is_another_action_in_another_run(harness: Harness, waits: bool, scope: str | None) -> None:
    service = Service()
    agent = payer(harness, service, waits, scope=scope)
    assert [harness.run(agent, cents).unwrap() for cents in (5, 5, 6)] == [5, 5, 6]
    assert service.sums == [5, 5, 6] and len({key for _, key in service.sent}) == 3


@both_kinds
def test_a_name_of_the_store_is_one_action_in_all_runs(harness: Harness, waits: bool) -> None:
    service = Service()
    agent = payer(harness, service, waits)
    first = harness.run(agent, 5)
    assert (first.unwrap(), harness.run(agent, 5).unwrap()) == (5, 5)
    assert harness.run(agent, 6).unwrap() == f"{first.run_id}/pay.1"
    assert service.sums == [5]
    assert harness.resume(harness.start(agent, 5)).unwrap() == 5
    assert service.sums == [5] and harness.doctor().sound


def test_what_another_run_did_answers_after_that_run_is_long_over_and_in_another_process(tmp_path: Path) -> None:
    address, service, found = f"sqlite:///{tmp_path / 'runs.db'}", Service(), []
    for _ in range(2):
        with Harness(address) as harness:
            found.append(harness.run(payer(harness, service, False), 5).unwrap())
    assert (found, service.sums) == ([5, 5], [5])


def test_a_large_result_of_another_run_answers_too(harness: Harness) -> None:
    sent: list[str] = []

    @harness.tool(effect="external", identity=lambda name: name, identity_scope="store")
    def report(name: str) -> str:
        sent.append(name)
        return "x" * 100_000

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return len(run.call(report, "weekly"))

    assert [harness.run(agent, "x").unwrap() for _ in range(2)] == [100_000] * 2
    assert sent == ["weekly"]


# --- While another run is at it. -------------------------------------------------------------------------------------


@both_kinds
def test_a_run_waits_about_one_lease_for_an_action_that_another_run_has_under_way(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    going, may_end = threading.Event(), threading.Event()

    def end() -> None:
        going.set()
        assert may_end.wait(PATIENCE)

    service = Service(end)
    agent = payer(harness, service, waits)
    ended: list[Any] = []
    first = threading.Thread(target=lambda: ended.append(harness.run(agent, 5)))
    first.start()
    assert going.wait(PATIENCE)
    second = harness.run(agent, 5)
    assert (second.status, asked(second), second.wake_at) == ("WAITING", [], clock.wall_ms() + TTL_MS)
    assert states(harness, second.run_id) == {"pay.1": "AWAITING"}
    assert harness.resume(second.run_id).status == "WAITING"
    may_end.set()
    first.join(PATIENCE)
    clock.move(DEFAULT_TTL)
    (resumed,) = harness.resume_due()
    assert (ended[0].unwrap(), resumed.unwrap(), service.sums) == (5, 5, [5])


@both_kinds
@pytest.mark.parametrize("happened", [True, False])
def test_a_run_waits_again_and_again_while_nobody_knows_whether_another_run_did_it(
    harness: Harness, clock: StoppedClock, waits: bool, happened: bool
) -> None:
    service = Service(ConnectionError("cut"))
    agent = payer(harness, service, waits)
    first = harness.run(agent, 5)
    second = harness.run(agent, 5)
    assert asked(first) == [("pay.1", "resolve", 1)]
    for _ in range(3):
        assert (second.status, second.wake_at) == ("WAITING", clock.wall_ms() + TTL_MS)
        clock.move(DEFAULT_TTL)
        (second,) = harness.resume_due()
    harness.resolve(first.run_id, "pay.1", Happened(5) if happened else NotHappened())
    assert harness.resume(first.run_id).unwrap() == 5
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert second.unwrap() == 5
    assert service.sums == ([5] if happened else [5, 5])


@both_kinds
def test_an_action_that_the_other_run_failed_to_do_is_done_by_the_one_that_waited(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(ConnectionError("cut"))
    agent = payer(harness, service, waits, retries=0)
    first, second = harness.run(agent, 5), harness.run(agent, 6)
    harness.resolve(first.run_id, "pay.1", NotHappened())
    service.ends.append(Declined("no funds"))
    assert harness.resume(first.run_id).error_type == "Declined"
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert second.unwrap() == 6
    assert service.sums == [5, 5, 6]
    # The first one is reopened: it asks for the action with other arguments than it was done with.
    assert harness.resume(first.run_id).unwrap() == f"{second.run_id}/pay.1"
    assert service.sums == [5, 5, 6]


@both_kinds
def test_a_dead_process_holds_its_action_until_its_run_is_settled(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(Interruption())
    agent = payer(harness, service, waits)
    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, 5)
    first = harness.find("last")
    second = harness.run(agent, 5)
    assert second.status == "WAITING"
    clock.move(DEFAULT_TTL + 0.001)
    assert {result.status for result in harness.resume_due()} == {"WAITING"}
    assert asked(harness.resume(first)) == [("pay.1", "resolve", 1)]
    harness.resolve(first, "pay.1", Happened(7))
    assert harness.resume(first).unwrap() == 7
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert (second.unwrap(), service.sums) == (7, [5])


@both_kinds
def test_an_idempotent_action_that_failed_elsewhere_may_be_done_by_any_run_under_the_same_key(
    harness: Harness, waits: bool
) -> None:
    service = Service(ValueError("500"))
    agent = payer(harness, service, waits, effect="idempotent", retries=0)
    first = harness.run(agent, 5)
    assert first.error_type == "CallFailed"
    assert harness.run(agent, 6).unwrap() == f"{first.run_id}/pay.1"
    second = harness.run(agent, 5)
    assert (second.unwrap(), service.sums, len({key for _, key in service.sent})) == (5, [5, 5], 1)
    # Reopened, the first run finds that it was done meanwhile.
    assert harness.resume(first.run_id).unwrap() == 5
    assert service.sums == [5, 5]


# --- What operators do to it. ----------------------------------------------------------------------------------------


@both_kinds
def test_a_run_that_waits_for_an_action_of_another_can_be_cancelled_and_holds_nothing(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(ConnectionError("cut"))
    agent = payer(harness, service, waits)
    first, second = harness.run(agent, 5), harness.run(agent, 5)
    assert harness.cancel(second.run_id).status == "CANCELLED"
    harness.resolve(first.run_id, "pay.1", NotHappened())
    assert harness.resume(first.run_id).unwrap() == 5
    assert service.sums == [5, 5]


@both_kinds
def test_an_action_of_a_cancelled_run_that_may_have_been_done_is_settled_by_a_verdict(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(*[ConnectionError("cut")] * 3)
    agent = payer(harness, service, waits)
    first, second = harness.run(agent, 5), harness.run(agent, 6)
    assert harness.cancel(first.run_id).status == "CANCELLED"
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert (second.status, service.sums) == ("WAITING", [5])
    assert [(view.run_id, view.asked.call_id) for view in harness.requests()] == [(first.run_id, "pay.1")]
    harness.resolve(first.run_id, "pay.1", NotHappened())
    assert states(harness, first.run_id) == {"pay.1": "FAILED"}
    assert harness.requests() == []
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert service.sums == [5, 6]
    # And once more the other way round.
    harness.cancel(second.run_id)
    harness.resolve(second.run_id, "pay.1", Happened(6))
    assert states(harness, second.run_id) == {"pay.1": "SUCCEEDED"}
    third = harness.run(agent, 6)
    assert (third.unwrap(), service.sums) == (6, [5, 6])
    assert harness.run(agent, 5).unwrap() == f"{second.run_id}/pay.1"
    assert harness.doctor().sound


@both_kinds
def test_an_action_that_waits_for_its_approval_is_nobodys_yet(harness: Harness, waits: bool) -> None:
    service = Service()
    agent = payer(harness, service, waits, approval="always")
    first, second = harness.run(agent, 5), harness.run(agent, 6)
    harness.approve(second.run_id, "pay.1")
    assert harness.resume(second.run_id).unwrap() == 6
    harness.approve(first.run_id, "pay.1")
    assert harness.resume(first.run_id).unwrap() == f"{second.run_id}/pay.1"
    assert service.sums == [6]


@both_kinds
def test_an_approval_that_meets_a_held_name_is_used_once_the_name_is_free(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(ConnectionError("cut"))
    agent = payer(harness, service, waits, approval="always", retries=0)
    first, second = harness.run(agent, 5), harness.run(agent, 5)
    harness.approve(first.run_id, "pay.1")
    harness.resume(first.run_id)
    harness.approve(second.run_id, "pay.1")
    waiting = harness.resume(second.run_id)
    assert (waiting.status, asked(waiting), waiting.wake_at) == ("WAITING", [], clock.wall_ms() + TTL_MS)
    harness.resolve(first.run_id, "pay.1", NotHappened())
    assert asked(harness.resume(first.run_id)) == [("pay.1", "approval", 2)]
    harness.reject(first.run_id, "pay.1")
    assert harness.resume(first.run_id).error_type == "CallRejected"
    clock.move(DEFAULT_TTL)
    (second,) = harness.resume_due()
    assert (second.unwrap(), service.sums) == (5, [5, 5])


@both_kinds
def test_a_cancelled_idempotent_action_keeps_its_name_and_the_same_may_be_done_elsewhere(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    service = Service(Interruption(), Interruption())
    agent = payer(harness, service, waits, effect="idempotent", approval="always")
    first = harness.run(agent, 5)
    harness.approve(first.run_id, "pay.1")
    with pytest.raises(KeyboardInterrupt):
        harness.resume(first.run_id)
    clock.move(DEFAULT_TTL + 0.001)
    assert asked(harness.resume(first.run_id)) == [("pay.1", "approval", 2)]
    harness.cancel(first.run_id)
    service.ends.clear()
    found = []
    for cents in (6, 5):
        again = harness.run(agent, cents)
        harness.approve(again.run_id, "pay.1")
        found.append(harness.resume(again.run_id).unwrap())
    assert found == [f"{first.run_id}/pay.1", 5]
    assert service.sums == [5, 5] and len({key for _, key in service.sent}) == 1


def test_many_runs_at_once_do_an_action_once(harness: Harness) -> None:
    service = Service(lambda: until(lambda: len(harness.runs(status="WAITING")) == 7))
    agent = payer(harness, service, False)
    ended: list[Any] = []
    threads = [threading.Thread(target=lambda: ended.append(harness.run(agent, 5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(result.status for result in ended) == ["COMPLETED"] + ["WAITING"] * 7
    assert service.sums == [5]
    for result in ended:
        if result.status == "WAITING":
            harness.pause(result.run_id)  # and resumed, it does not wait for its time
            assert harness.resume(result.run_id).unwrap() == 5
    assert service.sums == [5]
