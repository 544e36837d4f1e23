"""An agent whose code has changed while its run was down: nothing that was done is done again under another name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, Run
from jumar.errors import ReplayDiverged
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.worlds import RUN

Code = Callable[[Run, Any, Any], Any]


class DiesAtNote(World):
    """A world that ends when the agent's last tool is to be run."""

    def before(self, request: Any) -> None:
        """Die before `note` is invoked."""
        if getattr(getattr(request, "body", None), "__name__", "") == "note":
            self.end()
        super().before(request)


def harness_in(folder: Path, code: Code, name: str = "pay", world: World | None = None) -> Harness:
    """A harness whose agent runs `code`; its paying tool has this name."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
    witness = Witness(folder / "witness", world=world)

    @harness.tool(name=name, effect="external", settle=0)
    def pay(cents: int) -> str:
        witness.send("pay")
        return f"paid {cents}"

    @harness.tool(effect="idempotent")
    def note(text: str) -> None:
        witness.apply("note")

    @harness.agent
    def work(run: Run, task: str) -> Any:
        return code(run, pay, note)

    return harness


def first_code(run: Run, pay: Any, note: Any) -> Any:
    receipt = run.call(pay, 5)
    run.call(note, receipt)
    return receipt


def in_a_step(run: Run, pay: Any, note: Any) -> Any:
    with run.step("buy"):
        receipt = run.call(pay, 5)
    run.call(note, receipt)
    return receipt


def in_a_branch(run: Run, pay: Any, note: Any) -> Any:
    (receipt,) = run.gather(lambda: run.call(pay, 5))
    run.call(note, receipt)
    return receipt


def other_amount(run: Run, pay: Any, note: Any) -> Any:
    return run.call(pay, 6)


def without_the_call(run: Run, pay: Any, note: Any) -> Any:
    return "nothing bought"


def without_the_call_in_the_step(run: Run, pay: Any, note: Any) -> Any:
    with run.step("buy"):
        pass
    run.call(note, "nothing bought")


def without_the_call_in_the_branch(run: Run, pay: Any, note: Any) -> Any:
    run.gather(lambda: None)
    run.call(note, "nothing bought")


def resumed_with(folder: Path, clock: StoppedClock, before: Code, after: Code, name: str = "pay") -> ReplayDiverged:
    """Run `before` up to its payment's record, then resume with `after`: the error that it must end with."""
    world = DiesAtNote()
    harness = inhabited(harness_in(folder, before, world=world), world)
    with pytest.raises(Crashed):
        harness.run("work", "go", run_id=RUN)
    harness.close()
    clock.move(TTL + 0.001)
    with harness_in(folder, after, name) as later, pytest.raises(ReplayDiverged) as raised:
        later.resume(RUN)
    with harness_in(folder, after, name) as later:
        seen = later.show(RUN).run
        assert (seen.status, seen.error_type) == ("FAILED", "ReplayDiverged")
    assert Witness(folder / "witness").count("sent", "pay") == 1, "it was paid again"
    assert Witness(folder / "witness").count("applied", "note") == 0, "the changed code did something"
    return raised.value


def inhabited(harness: Harness, world: World) -> Harness:
    """The harness, in that world."""
    inhabit(harness, world)
    return harness


def test_a_tool_renamed_in_the_code_is_not_paid_again(folder: Path, clock: StoppedClock) -> None:
    error = resumed_with(folder, clock, first_code, first_code, name="transfer")
    assert error.recorded == 'pay.1("cents":5)'
    assert error.asked == 'transfer.1("cents":5)'
    assert "pay.1" in str(error) and "transfer.1" in str(error)


def test_an_argument_changed_in_the_code_is_not_answered_by_the_old_record(folder: Path, clock: StoppedClock) -> None:
    error = resumed_with(folder, clock, first_code, other_amount)
    assert (error.recorded, error.asked) == ('pay.1("cents":5)', 'pay.2("cents":6)')


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        (first_code, without_the_call, "the agent's end"),
        (in_a_step, without_the_call_in_the_step, "the end of step buy"),
        (in_a_branch, without_the_call_in_the_branch, "the end of branch gather:0"),
    ],
)
def test_a_call_that_the_code_no_longer_makes_stops_the_run_where_it_is_missed(
    folder: Path, clock: StoppedClock, before: Code, after: Code, asked: str
) -> None:
    error = resumed_with(folder, clock, before, after)
    assert error.recorded.endswith('pay.1("cents":5)')
    assert error.asked.startswith(asked)


def test_a_run_that_diverged_goes_on_with_the_code_that_recorded_it(folder: Path, clock: StoppedClock) -> None:
    resumed_with(folder, clock, first_code, without_the_call)
    with harness_in(folder, first_code) as harness:
        result = harness.resume(RUN)
    assert (result.status, result.output) == ("COMPLETED", "paid 5")
    assert Witness(folder / "witness").count("sent", "pay") == 1
