"""Loop agents go on where they stand after a crash: no decision is made twice, and no more is read than is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Happened, Harness, NotHappened, RunResult
from jumar.core.records import CallRecord
from jumar.core.states import CallKind
from jumar.errors import IntegrityError, ReplayDiverged
from jumar.testing import Crashed, StoppedClock, Witness, World, stopped_clock
from jumar.testing.crash import inhabit
from tests.integration.agents_helpers import Interruption, interrupted
from tests.integration.loops_helpers import Script, act, approved_tools, call, declare
from tests.unit.message_rules import CHECKS

RUN = "01a00000-0000-7000-8000-000000000001"
TTL = 30.0


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture
def clock() -> Iterator[StoppedClock]:
    """Stopped clocks, so that leases run out when they are told to."""
    with stopped_clock() as stopped:
        yield stopped


class Lives:
    """One run of one loop agent, in one process after another."""

    def __init__(self, folder: Path, clock: StoppedClock, waits: bool) -> None:
        self.folder = folder
        self.clock = clock
        self.waits = waits
        self.witness = Witness(folder / "witness")
        self.options: dict[str, Any] = {}
        self.script = Script(
            act(call("search", query="a"), call("ship", item="ink"), call("pay", cents=5)),
            act(call("pay", cents=7)),
            Decision.finish("bad"),
            Decision.finish("good"),
        )

    def harness(self, world: World) -> Harness:
        """The harness of one life."""
        witness = Witness(self.folder / "witness", world=world)
        harness = Harness(f"sqlite:///{self.folder / 'run.db'}", lease_ttl=TTL)
        inhabit(harness, world)

        @harness.tool(effect="read")
        def search(query: str) -> str:
            witness.note("read", "search")
            return f"{query} found"

        @harness.tool(effect="idempotent")
        def ship(item: str) -> str:
            witness.apply("ship")
            return f"{item} shipped"

        @harness.tool(effect="external", settle=0.0)
        def pay(cents: int) -> str:
            witness.send("pay")
            return f"{cents} paid"

        @pay.probe
        def _(cents: int) -> Happened[str] | NotHappened:
            return Happened(f"{cents} paid") if witness.happened() else NotHappened()

        def verify(output: str) -> Any:
            witness.note("read", "verify")
            return output == "good" or "not good"

        options: dict[str, Any] = {"tools": [search, ship, pay], "verify": verify} | self.options
        declare(harness, self.waits, self.script, **options)
        return harness

    def live(self, at: str | None = None) -> RunResult[Any] | None:
        """One life, which ends at a point; its result, or None."""
        world = World(at, clock=self.clock)
        harness = self.harness(world)
        try:
            if harness.runs():
                return harness.resume(RUN)
            return harness.run("operator", "x", run_id=RUN)
        except Crashed:
            return None
        finally:
            harness.close()
            self.clock.move(TTL + 0.001)

    def look(self, see: Callable[[Harness], Any]) -> Any:
        """See something of the run from outside."""
        with self.harness(World(clock=self.clock)) as harness:
            return see(harness)

    def attempts(self) -> dict[str, tuple[str, int]]:
        """State and attempt of each call."""
        rows = self.look(lambda harness: harness.show(RUN).calls)
        return {row.call_id: (row.state, row.attempt) for row in rows}


@pytest.fixture
def lives(tmp_path: Path, clock: StoppedClock, waits: bool) -> Lives:
    """The lives of one run."""
    return Lives(tmp_path, clock, waits)


# --- Crashes. --------------------------------------------------------------------------------------------------------


def test_a_decision_that_is_recorded_is_not_made_again(lives: Lives) -> None:
    assert lives.live(r"after Commit\(Advance: turn.decide.1 SUCCEEDED") is None
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    assert lives.script.steps == [1, 2, 3, 4]


def test_a_decision_whose_answer_was_lost_is_made_again_under_its_own_id(lives: Lives) -> None:
    assert lives.live(r"after Invoke\(.*turn#2.decide.1") is None
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    assert lives.script.steps == [1, 2, 2, 3, 4]
    assert [call_id for call_id in lives.attempts() if "decide" in call_id] == [
        "turn.decide.1",
        "turn#2.decide.1",
        "turn#3.decide.1",
        "turn#4.decide.1",
    ]


def test_what_a_decision_planned_is_known_before_any_of_it_is_sent(lives: Lives) -> None:
    assert lives.live("before Fan") is None
    assert lives.attempts() == {
        "turn.decide.1": ("SUCCEEDED", 1),
        "turn.search.1": ("PLANNED", 0),
        "turn.ship.1": ("PLANNED", 0),
        "turn.pay.1": ("PLANNED", 0),
    }
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    # A planned effect was surely not sent, so this is its first attempt; a planned read may have been.
    assert lives.attempts()["turn.pay.1"] == ("SUCCEEDED", 1)
    assert lives.attempts()["turn.ship.1"] == ("SUCCEEDED", 1)
    assert lives.attempts()["turn.search.1"] == ("SUCCEEDED", 2)
    assert lives.witness.count("sent", "pay") == 2


def test_an_effect_that_was_on_its_way_is_settled_before_the_next_decision_and_the_brief_tells(lives: Lives) -> None:
    assert lives.live(r"after Invoke\(pay of turn#2.pay.1") is None
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    assert lives.witness.count("sent", "pay") == 2
    first = next(view for view in lives.script.views if view.recovered)
    assert first.brief is not None
    lines = first.brief.splitlines()
    assert "goes on after an interruption; it has been taken up once so far." in lines[0]
    assert lines[1] == "Finished turns (2), recorded with their results:"
    assert "It was not known whether call turn#2.pay.1 (pay) had happened; it had, and it is recorded." in lines
    assert lines[-1] == "Continue from turn 3; do not repeat turns 1, 2."
    assert {view.brief for view in lives.script.views if view.recovered} == {first.brief}  # the same for every turn


def test_an_effect_that_never_left_is_sent_and_the_brief_says_again(lives: Lives) -> None:
    assert lives.live(r"before Invoke\(pay of turn#2.pay.1") is None
    result = lives.live()
    assert result is not None and result.wake_at is not None  # until the attempt can surely act no more
    lives.clock.move_to_wall(result.wake_at)
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    brief = next(view.brief for view in lives.script.views if view.recovered)
    assert brief is not None
    doubt = "It was not known whether call turn#2.pay.1 (pay) had happened; "
    assert f"{doubt}it was sent again, and its result is recorded." in brief.splitlines()
    assert lives.attempts()["turn#2.pay.1"] == ("SUCCEEDED", 2)


@pytest.mark.parametrize(
    ("point", "times"),
    [
        (r"before Invoke\(verify of turn#3.verify.1", 2),
        (r"after Invoke\(verify of turn#3.verify.1", 3),
        (r"after Commit\(Advance: turn#3.verify.1 SUCCEEDED", 2),
        (r"after Commit\(Advance: turn#4.verify.1 SUCCEEDED", 2),
        (r"before Commit\(Advance: COMPLETED", 2),
    ],
)
def test_a_verdict_that_is_recorded_is_not_asked_for_again(lives: Lives, point: str, times: int) -> None:
    assert lives.live(point) is None
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    assert lives.witness.count("read", "verify") == times
    assert lives.script.steps == [1, 2, 3, 4]


def test_how_often_outputs_were_sent_back_is_known_after_each_crash(lives: Lives) -> None:
    lives.script = Script(*[Decision.finish("bad")] * 3)
    assert lives.live(r"after Commit\(Advance: turn.verify.1 SUCCEEDED") is None
    assert lives.live(r"after Commit\(Advance: turn#2.decide.1 SUCCEEDED") is None
    assert lives.live(r"after Commit\(Advance: turn#2.verify.1 SUCCEEDED") is None
    result = lives.live()
    assert result is not None and (result.status, result.error_type) == ("FAILED", "VerificationFailed")
    assert [view.limits.verifications_left for view in lives.script.views if view.limits] == [3, 2, 1]
    assert lives.script.steps == [1, 2, 3]


def test_a_run_interrupted_before_its_first_decision_says_so(lives: Lives) -> None:
    assert lives.live(r"after Commit\(Create") is None
    result = lives.live()
    assert result is not None and result.unwrap() == "good"
    brief = lives.script.views[0].brief
    assert brief is not None and brief.splitlines()[0].endswith("taken up once so far. Nothing is recorded yet.")
    assert brief.splitlines()[1:] == ["Continue from turn 1."]


def test_after_a_kill_between_call_and_result_the_history_is_valid_for_a_new_user_turn(lives: Lives) -> None:
    assert lives.live(r"after Invoke\(pay of turn.pay.1") is None
    for provider, check in CHECKS.items():
        messages = lives.look(lambda harness, provider=provider: harness.view(RUN).messages(provider))
        check(messages)
        text = str(messages[-1]["content"])
        assert "may have happened; its result is not known" in text
    view = lives.look(lambda harness: harness.view(RUN))
    assert (view.step_index, view.limits, view.brief, len(view.history)) == (2, None, None, 1)


def test_a_planned_read_that_needs_an_approval_is_not_sent_without_one_after_a_crash(lives: Lives) -> None:
    sent: list[str] = []
    lives.script = Script(act(call("secret", what="a"), call("look")), Decision.finish("good"))
    harness = lives.harness

    def with_tools(world: World) -> Harness:
        made = harness(world)
        made._agents.clear()
        declare(made, lives.waits, lives.script, tools=approved_tools(made, sent))
        return made

    lives.harness = with_tools  # type: ignore[method-assign]
    assert lives.live(r"after Commit\(Advance: turn.decide.1 SUCCEEDED") is None
    result = lives.live()
    assert result is not None and result.status == "WAITING"
    assert sent == ["look"]
    lives.look(lambda harness: harness.approve(RUN, "turn.secret.1"))
    again = lives.live()
    assert again is not None and again.unwrap() == "good"
    assert sent == ["look", "a"]


# --- Reading no more than is needed. ---------------------------------------------------------------------------------


class Counting:
    """A store that keeps how many calls were read."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def calls(self, run_no: int, since: int = 0) -> list[CallRecord]:
        found: list[CallRecord] = self._store.calls(run_no, since)
        self.read.append(len(found))
        return found

    def last_call(self, run_no: int, kind: CallKind) -> CallRecord | None:
        self.read.append(1)
        found: CallRecord | None = self._store.last_call(run_no, kind)
        return found


class Watching(World):
    """A world whose store counts."""

    def around(self, store: Any) -> Any:
        self.store = Counting(super().around(store))
        return self.store


def long_run(turns: int, decide: Callable[[Any], Any]) -> tuple[Harness, Watching]:
    """A harness with an agent that takes so many turns of one failing call each, and then asks `decide`."""
    harness, world = Harness("memory:"), Watching()
    inhabit(harness, world)
    declare(
        harness,
        False,
        lambda view: act(call("nothing")) if view.step_index <= turns else decide(view),
        max_steps=turns + 10,
    )
    return harness, world


def test_the_first_view_of_a_long_run_costs_the_reading_of_its_newest_turn_alone() -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    def decide(view: Any) -> Any:
        interrupt()
        seen.append((view.step_index, list(world.store.read)))
        seen.append((len(view.history), len(view.messages("openai"))))
        seen.append(list(world.store.read))
        return act(call("nothing")) if view.step_index < 2003 else Decision.finish("done")

    harness, world = long_run(2000, decide)
    with harness:
        run_id = interrupted(harness, "operator")
        world.store.read.clear()
        assert harness.resume(run_id).unwrap() == "done"
    assert seen[0] == (2001, [1, 2])  # the newest decision, and it again with its call
    assert seen[1:3] == [(2000, 4001), [1, 2, 4000]]  # the whole history, once it is asked for
    assert seen[-1] == [1, 2, 4000, 2, 2]  # and then each turn once


def test_a_function_that_keeps_its_own_notes_reads_nothing() -> None:
    harness, world = long_run(20, lambda view: Decision.finish("done"))
    with harness:
        assert harness.run("operator", "x").unwrap() == "done"
        assert world.store.read == []


# --- Changed code and damage. ----------------------------------------------------------------------------------------


def test_a_planned_call_whose_tool_is_gone_is_not_left_out_silently(lives: Lives) -> None:
    assert lives.live("before Fan") is None
    lives.options = {"tools": []}
    with pytest.raises(ReplayDiverged, match="has no tool search any more"):
        lives.live()
    lives.options = {}
    result = lives.live()
    assert result is not None and result.unwrap() == "good"


def test_a_function_agent_takes_no_loop_agents_run_and_the_other_way_round(harness: Harness) -> None:
    loop_run = harness.start(declare(harness, False, Script(Decision.finish("done"))), "x")
    harness._agents.clear()

    @harness.agent
    def operator(run: Any, task: str) -> str:
        return "plain"

    plain_run = harness.start(operator, "x")
    with pytest.raises(ReplayDiverged, match="recorded by a loop agent"):
        harness.resume(loop_run)
    harness._agents.clear()
    declare(harness, False, Script(Decision.finish("done")))
    with pytest.raises(ReplayDiverged, match="recorded by a function agent"):
        harness.resume(plain_run)


@pytest.mark.parametrize("column", ["result", "step"])
def test_a_damaged_decision_stops_the_run_and_nothing_is_guessed(lives: Lives, column: str) -> None:
    import sqlite3

    assert lives.live("before Fan") is None
    with sqlite3.connect(lives.folder / "run.db") as database:
        database.execute(f"UPDATE call SET {column} = ? WHERE seq = 1", ["x" if column == "step" else b'{"calls":[]}'])
    database.close()
    with pytest.raises(IntegrityError):
        lives.live()
    assert lives.witness.count("sent") == 0
