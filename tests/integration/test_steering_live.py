"""Orders to a run that is being driven: what is in flight settles, nothing new goes out, and the run obeys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jumar import Harness, NotApplied
from jumar.core.changes import Advance
from jumar.core.limits import DEFAULT_TTL
from jumar.core.requests import Commit
from jumar.errors import CallFailed, RunEnded, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, states, until
from tests.integration.waits_helpers import PATIENCE, asked, at, clock, every_kind, leaves_as, once, scripted

__all__ = ["clock"]

ENDS = {"pause": "PAUSED", "cancel": "CANCELLED"}
orders = pytest.mark.parametrize("order", list(ENDS))


def give(harness: Harness, order: str, run_id: str = "last", **options: Any) -> Any:
    """Give an order."""
    return getattr(harness, order)(run_id, **options)


@every_kind
@orders
def test_an_order_given_in_a_calls_body_is_obeyed_after_that_call(harness: Harness, waits: bool, order: str) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        if cents == 1:
            info = give(harness, order)
            assert (info.status, info.control) == ("RUNNING", order)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1)), (yield run.call(pay, 2))

    result = harness.run(agent, "x")
    assert (result.status, sent, states(harness)) == (ENDS[order], [1], {"pay.1": "SUCCEEDED"})
    if order == "pause":
        assert harness.resume(result.run_id).unwrap() == [1, 2]
        assert sent == [1, 2]
    else:
        with pytest.raises(RunEnded):
            harness.resume(result.run_id)


@every_kind
@orders
def test_an_order_from_another_thread_is_waited_for_until_it_is_obeyed(
    harness: Harness, waits: bool, order: str
) -> None:
    going, may_end = threading.Event(), threading.Event()
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        going.set()
        assert may_end.wait(PATIENCE)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1)), (yield run.call(pay, 2))

    ended: list[Any] = []
    driving = threading.Thread(target=lambda: ended.append(harness.run(agent, "x")))
    driving.start()
    assert going.wait(PATIENCE)
    infos: list[Any] = []
    steering = threading.Thread(target=lambda: infos.append(give(harness, order, wait=True)))
    steering.start()
    until(lambda: harness.show("last").run.control == order)
    assert infos == []
    may_end.set()
    for thread in (driving, steering):
        thread.join(PATIENCE)
    assert (ended[0].status, infos[0].status, sent) == (ENDS[order], ENDS[order], [1])
    assert infos[0] == harness.show("last").run


@every_kind
@orders
def test_what_a_gather_has_in_flight_settles_and_nothing_new_goes_out(
    harness: Harness, waits: bool, order: str
) -> None:
    going = threading.Event()
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 2:
            going.set()
        assert going.wait(PATIENCE)
        if cents == 1:
            give(harness, order)
        elif cents == 2:
            until(lambda: harness.show("last").run.control == order)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        later = [once(going, waits, lambda number=number: after(run, number)) for number in (3, 4)]
        return (yield run.gather(pay.bind(1), pay.bind(2), *later))

    def after(run: Any, number: int) -> Any:
        if not run.recovered:
            until(lambda: harness.show("last").run.control == order)
        return run.call(pay, number)

    result = harness.run(agent, "x")
    assert (result.status, sorted(sent)) == (ENDS[order], [1, 2])
    seen = states(harness)
    assert (seen.pop("gather:0.pay.1"), seen.pop("gather:1.pay.1")) == ("SUCCEEDED", "SUCCEEDED")
    assert set(seen.values()) <= {"PLANNED"}
    if order == "pause":
        assert harness.resume(result.run_id).unwrap() == [1, 2, 3, 4]
        assert sorted(sent) == [1, 2, 3, 4]


@every_kind
@orders
def test_an_order_that_meets_the_start_of_a_call_keeps_it_from_being_sent(
    harness: Harness, waits: bool, order: str
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1))

    def starts(request: Any) -> bool:
        change = request.change if isinstance(request, Commit) else None
        return isinstance(change, Advance) and any(record.call_id == "pay.1" for record in change.calls)

    moment = at(harness, starts, lambda: give(harness, order))
    result = harness.run(agent, "x")
    assert (moment.acted, result.status, sent, states(harness)) == (True, ENDS[order], [], {"pay.1": "PLANNED"})
    if order == "pause":
        assert harness.resume(result.run_id).unwrap() == 1
        assert (sent, harness.show("last").calls[0].attempt) == ([1], 2)


@every_kind
@orders
def test_a_run_that_ends_in_the_moment_of_an_order_stands_as_it_is_shown(
    harness: Harness, waits: bool, order: str
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.value("a fact", 1))

    moment = at(harness, leaves_as("COMPLETED"), lambda: give(harness, order))
    result = harness.run(agent, "x")
    assert (moment.acted, result.unwrap()) == (True, 1)
    shown = harness.show("last")
    assert (shown.run.status, shown.run.phase, shown.output) == ("COMPLETED", "STOPPED", 1)
    with pytest.raises(RunEnded):
        give(harness, order)


@every_kind
def test_a_run_that_fails_in_the_moment_it_is_cancelled_is_cancelled(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.value("a fact", 1)
        raise RuntimeError("broken")

    at(harness, leaves_as("FAILED"), lambda: harness.cancel("last"))
    result = harness.run(agent, "x")
    assert (
        (result.status, result.error_type)
        == ("CANCELLED", None)
        == (
            harness.show("last").run.status,
            harness.show("last").run.error_type,
        )
    )


@every_kind
def test_a_run_that_fails_in_the_moment_it_is_paused_fails(harness: Harness, waits: bool) -> None:
    broken = True

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.value("a fact", 1)
        if broken:
            raise RuntimeError("broken")
        return "mended"

    at(harness, leaves_as("FAILED"), lambda: harness.pause("last"))
    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "RuntimeError")
    broken = False
    assert harness.resume(result.run_id).unwrap() == "mended"


@every_kind
@orders
def test_an_order_in_the_moment_a_run_begins_to_wait_outranks_what_it_waits_for(
    harness: Harness, waits: bool, order: str
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("go?"))

    at(harness, leaves_as("WAITING"), lambda: give(harness, order))
    result = harness.run(agent, "x")
    assert (result.status, len(harness.requests())) == (ENDS[order], 1 if order == "pause" else 0)
    if order == "pause":
        assert asked(harness.resume(result.run_id)) == [("ask.1", "ask", 1)]


@every_kind
def test_a_cancellation_in_the_moment_of_a_pause_is_what_counts(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="read")
    def look() -> int:
        harness.pause("last")
        return 1

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(look)), (yield run.call(look))

    at(harness, leaves_as("PAUSED"), lambda: harness.cancel("last"))
    assert harness.run(agent, "x").status == "CANCELLED" == harness.show("last").run.status


@every_kind
def test_an_order_in_the_moment_a_process_is_stopped_is_carried_out_by_the_next(harness: Harness, waits: bool) -> None:
    interrupt = Interruption()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.value("a fact", 1)
        interrupt()
        return "done"

    at(harness, leaves_as("QUEUED"), lambda: harness.cancel("last"))
    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    run = harness.show("last").run
    assert (run.status, run.control, run.owner) == ("QUEUED", "cancel", None)  # its lease was given back all the same
    assert [result.status for result in harness.resume_due()] == ["CANCELLED"]


@every_kind
@orders
def test_what_is_to_be_tried_again_is_not_after_an_order(
    harness: Harness, waits: bool, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.engine.flows.effects.backoff", lambda attempt, asked, luck: 0.0)
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            give(harness, order)
            raise NotApplied("busy")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            return (yield run.call(pay, 5))
        except CallFailed:
            return "the agent was told"

    result = harness.run(agent, "x")
    assert (result.status, sent, states(harness)) == (ENDS[order], [5], {"pay.1": "PLANNED"})
    if order == "pause":
        assert harness.resume(result.run_id).unwrap() == 5


@every_kind
@orders
def test_a_call_that_ends_in_doubt_after_an_order_is_asked_about(harness: Harness, waits: bool, order: str) -> None:
    probed: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        give(harness, order)
        raise ConnectionError("cut")

    @pay.probe
    def _(cents: int) -> Any:
        probed.append(cents)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    assert (result.status, states(harness), probed) == (ENDS[order], {"pay.1": "UNCERTAIN"}, [])
    assert [(view.asked.call_id, view.asked.kind) for view in harness.requests()] == [("pay.1", "resolve")]


@every_kind
def test_a_paused_run_asks_nobody_about_what_it_will_repeat_itself(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    interrupt = Interruption()

    @harness.tool(effect="idempotent")
    def put(value: int) -> int:
        interrupt()
        return value

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(put, 5))

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    clock.move(DEFAULT_TTL + 0.001)
    assert harness.pause("last").status == "PAUSED"
    assert (states(harness), harness.requests()) == ({"put.1": "UNCERTAIN"}, [])
    assert harness.resume("last").unwrap() == 5


@every_kind
@orders
def test_a_sleep_in_place_ends_where_an_order_comes(harness: Harness, waits: bool, order: str) -> None:
    sleeping = threading.Event()

    def steer() -> None:
        assert sleeping.wait(PATIENCE)
        give(harness, order, wait=True)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        sleeping.set()
        yield run.gather(lambda: run.sleep(29), lambda: run.value("a fact", told))

    def told() -> int:
        until(lambda: harness.show("last").run.control == order)
        return 1

    steering = threading.Thread(target=steer)
    steering.start()
    assert harness.run(agent, "x").status == ENDS[order]
    steering.join(PATIENCE)


def test_a_late_result_of_a_cancelled_run_settles_its_call(harness: Harness) -> None:
    may_end = threading.Event()

    @harness.tool(effect="external", timeout=0.05, identity=lambda cents: "pay", identity_scope="store")
    def pay(cents: int) -> int:
        if not may_end.is_set():
            harness.cancel("last")
            assert may_end.wait(PATIENCE)
        return cents

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.call(pay, 5)

    assert harness.run(agent, "x").status == "CANCELLED"
    first = harness.find("last")
    assert states(harness) == {"pay.1": "UNCERTAIN"}
    may_end.set()
    until(lambda: states(harness, first) == {"pay.1": "SUCCEEDED"})
    assert harness.requests() == []
    assert harness.run(agent, "x").unwrap() == 5 == harness.show(first).calls[0].result


@every_kind
@orders
def test_a_run_cannot_wait_for_itself_to_obey(harness: Harness, waits: bool, order: str) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        with pytest.raises(UsageError, match="inside the run"):
            give(harness, order, wait=True)
        return (yield run.value("a fact", 1))

    assert harness.run(agent, "x").unwrap() == 1
    assert harness.show("last").run.control == "none"


def test_the_order_of_a_cancelled_agent_does_not_pass_through_what_catches_every_exception(harness: Harness) -> None:
    caught: list[BaseException] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        harness.cancel("last")
        return cents

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        steps: list[Callable[[], Any]] = [lambda: run.call(pay, 1), lambda: run.call(pay, 2), lambda: run.ask("go?")]
        for step in steps:
            try:
                step()
            except Exception as error:
                caught.append(error)
        return "done"

    assert (harness.run(agent, "x").status, caught) == ("CANCELLED", [])
