"""An external call that timed out goes on: whatever is believed of it meanwhile, it takes effect once, and what it
returns in the end is the best evidence there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, Harness, NotApplied, NotHappened, Unknown
from jumar.testing.crash_clock import stopped_clock
from tests.concurrency.agents import calls_one, gathers

SOON = 10.0  # seconds within which what is waited for must have come


class Till:
    """A till whose first payment hangs on the wire until it is let go; every payment that goes through is counted."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.came_through = threading.Event()
        self.on_the_wire = threading.Event()
        self.taken = 0
        self.calls = 0

    def pay(self) -> str:
        """Pay; what `pay` of the agents does."""
        self.calls += 1
        if self.calls == 1:
            self.on_the_wire.set()
            assert self.let_go.wait(SOON)
        self.taken += 1
        self.came_through.set()
        return f"receipt {self.taken}"


@pytest.fixture
def till() -> Till:
    """A fresh till."""
    return Till()


def harness_with(
    folder: Path, till: Till, probe: Callable[[], Any] | None, *, waits: bool, settle: float = 0.0, **rest: Any
) -> Harness:
    """A harness whose agent pays once, by a tool that times out at once."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", **rest)

    @harness.tool(effect="external", timeout=0.05, settle=settle)
    def pay() -> str:
        return till.pay()

    if probe is not None:
        pay.probe(probe)
    calls_one(harness, pay, waits=waits)
    return harness


def until(true: Callable[[], bool]) -> None:
    """Wait until something another thread does is done."""
    give_up = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.005)


def test_a_payment_that_comes_through_while_the_probe_says_no_is_not_made_again(
    tmp_path: Path, till: Till, waits: bool
) -> None:
    def probe() -> NotHappened:
        # True when asked, and no longer true when answered.
        till.let_go.set()
        assert till.came_through.wait(SOON)
        return NotHappened()

    with harness_with(tmp_path, till, probe, waits=waits) as harness:
        result = harness.run("work")
        assert (result.status, result.output) == ("COMPLETED", "receipt 1")
    assert till.taken == 1


def test_a_late_result_that_comes_while_the_run_waits_in_place_is_what_the_agent_gets(
    tmp_path: Path, till: Till, waits: bool
) -> None:
    asked: list[int] = []

    def probe() -> NotHappened:
        asked.append(1)
        threading.Timer(0.05, till.let_go.set).start()
        return NotHappened()

    with harness_with(tmp_path, till, probe, waits=waits, settle=20.0) as harness:
        result = harness.run("work")
        assert (result.status, result.output) == ("COMPLETED", "receipt 1")
        assert [call.attempt for call in harness.show(result.run_id).calls] == [1]
    assert (till.taken, len(asked)) == (1, 1)


@pytest.mark.parametrize("answer", [NotHappened(), Unknown()], ids=["not-happened", "unknown"])
def test_a_late_result_that_comes_after_the_run_waits_answers_what_was_asked(
    tmp_path: Path, till: Till, waits: bool, answer: Any
) -> None:
    with harness_with(tmp_path, till, lambda: answer, waits=waits, settle=60.0) as harness:
        result = harness.run("work")
        assert result.status == "WAITING"
        assert (result.wake_at is not None) == isinstance(answer, NotHappened)
        till.let_go.set()
        until(lambda: harness.show(result.run_id).run.status == "QUEUED")
        result = harness.resume(result.run_id)
        assert (result.status, result.output) == ("COMPLETED", "receipt 1")
    assert till.taken == 1


def test_a_late_result_outweighs_the_word_of_a_person_that_nothing_happened(
    tmp_path: Path, till: Till, waits: bool
) -> None:
    with stopped_clock() as clock, harness_with(tmp_path, till, None, waits=waits) as harness:
        result = harness.run("work")
        harness.resolve(result.run_id, "pay.1", NotHappened())
        till.let_go.set()
        answered = [("answered", "not-happened"), ("answered", "happened")]
        until(lambda: _told(harness, result.run_id, "answered") == answered)
        clock.move(3600)
        result = harness.resume(result.run_id)
        assert (result.status, result.output) == ("COMPLETED", "receipt 1")
    assert till.taken == 1


def test_the_word_of_a_person_that_nothing_happened_counts_once_the_attempt_can_no_longer_act(
    tmp_path: Path, till: Till, waits: bool
) -> None:
    with stopped_clock() as clock, harness_with(tmp_path, till, None, waits=waits, settle=60.0) as harness:
        result = harness.run("work")
        harness.resolve(result.run_id, "pay.1", NotHappened())
        with harness_with(tmp_path, till, None, waits=waits, settle=60.0) as other:
            result = other.resume(result.run_id)
            assert result.status == "WAITING" and result.wake_at is not None
            assert till.calls == 1, "the word was taken while the attempt might still act"
            clock.move_to_wall(result.wake_at)
            # The first one is still on the wire, which another process cannot know; its settling time was to cover
            # that.
            result = other.resume(result.run_id)
            assert (result.status, result.output, till.calls) == ("COMPLETED", "receipt 1", 2)
        till.let_go.set()
        until(lambda: till.taken == 2)


def test_a_process_that_sees_its_own_attempt_go_on_never_takes_it_for_over(
    tmp_path: Path, till: Till, waits: bool
) -> None:
    with stopped_clock() as clock, harness_with(tmp_path, till, None, waits=waits, settle=60.0) as harness:
        result = harness.run("work")
        harness.resolve(result.run_id, "pay.1", NotHappened())
        for _ in range(3):
            clock.move(3600)
            result = harness.resume(result.run_id)
            assert (result.status, till.calls) == ("WAITING", 1)
        till.let_go.set()
        until(lambda: till.came_through.is_set() and not _threads("jumar-call"))
        clock.move(3600)
        result = harness.resume(result.run_id)
        assert (result.status, result.output) == ("COMPLETED", "receipt 1")
    assert till.taken == 1


def test_what_is_asked_about_an_attempt_is_asked_no_longer_once_the_probe_has_settled_it(
    tmp_path: Path, waits: bool
) -> None:
    answers: list[Any] = [NotHappened(), NotHappened(), Unknown()]
    calls: list[int] = []
    with stopped_clock() as clock, Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:

        @harness.tool(effect="external", settle=60.0)
        def pay() -> str:
            calls.append(1)
            raise ConnectionError("the line is dead")

        pay.probe(lambda: answers.pop(0))
        calls_one(harness, pay, waits=waits)
        result = harness.run("work")
        assert [(each.attempt, result.wake_at is None) for each in result.waiting_on] == [(1, False)]
        clock.move_to_wall(result.wake_at or 0)
        result = harness.resume(result.run_id)
        # The first attempt did not happen, as the probe found in the end; of the second nobody knows.
        assert [(each.attempt, result.wake_at is None) for each in result.waiting_on] == [(2, True)]
        assert [each.attempt for each in harness.show(result.run_id).waiting_on] == [2]
        harness.resolve(result.run_id, "pay.1", Happened("receipt"))
        assert harness.resume(result.run_id).output == "receipt"
    assert len(calls) == 2


def test_a_run_does_not_sit_beside_a_body_that_never_ends(tmp_path: Path, till: Till, waits: bool) -> None:
    with harness_with(tmp_path, till, NotHappened, waits=waits, settle=0.05) as harness:
        result = harness.run("work")
        assert result.status == "WAITING" and result.wake_at is not None
        till.let_go.set()
        until(lambda: harness.show(result.run_id).run.status == "QUEUED")
        assert harness.resume(result.run_id).output == "receipt 1"
    assert till.taken == 1


def test_an_attempt_that_ends_late_and_says_it_was_not_applied_is_made_again_at_once(
    tmp_path: Path, waits: bool
) -> None:
    let_go = threading.Event()
    calls: list[int] = []
    with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:

        @harness.tool(effect="external", timeout=0.05, settle=20.0)
        def pay() -> str:
            calls.append(1)
            if len(calls) == 1:
                assert let_go.wait(SOON)
                raise NotApplied("the till was closed")
            return "receipt"

        @pay.probe
        def _() -> NotHappened:
            let_go.set()
            return NotHappened()

        calls_one(harness, pay, waits=waits)
        result = harness.run("work")
        assert (result.status, result.output) == ("COMPLETED", "receipt")
        assert [call.attempt for call in harness.show(result.run_id).calls] == [2]


def test_an_answer_that_comes_before_the_run_has_left_off_is_not_slept_through(tmp_path: Path, waits: bool) -> None:
    """A branch decides to wait while another is still busy.  The answer comes, the other branch records its result
    on top of it, and only then does the run come to leave: it must not wait for what is there already."""
    till = Till()
    with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:

        @harness.tool(effect="external", timeout=0.05)
        def pay() -> str:
            return till.pay()

        @harness.tool(effect="read")
        def look() -> str:
            until(lambda: len(harness.show("last").waiting_on) == 1)
            till.let_go.set()
            until(lambda: _told(harness, "last", "answered") == [("answered", "happened")])
            return "seen"

        gathers(harness, pay, look, waits=waits)
        result = harness.run("work")
        assert (result.status, result.output) == ("COMPLETED", ["receipt 1", "seen"])
    assert till.taken == 1


def test_a_late_result_that_the_store_cannot_take_leaves_the_question_open(tmp_path: Path, till: Till) -> None:
    harness = harness_with(tmp_path, till, None, waits=False)
    result = harness.run("work")
    harness.close()
    till.let_go.set()
    until(lambda: till.came_through.is_set() and not _threads("jumar-call"))
    with harness_with(tmp_path, Till(), None, waits=False) as later:
        assert [each.call_id for each in later.show(result.run_id).waiting_on] == ["pay.1"]
        later.resolve(result.run_id, "pay.1", Happened("receipt 1"))
        assert later.resume(result.run_id).output == "receipt 1"
    assert till.taken == 1


def _threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def _told(harness: Harness, run_id: str, what: str) -> list[tuple[str, str]]:
    return [(line.what, line.detail) for line in harness.trace(run_id) if line.what == what]
