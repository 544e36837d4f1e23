"""Several real processes on one database: frozen, killed, with a wrong clock, all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.testing.witness import Witness
from tests.concurrency.scenes import RUN, Options, Scene, drive
from tests.concurrency.workers import Worker, start

__all__ = ["start"]

Hire = Callable[..., Worker]

SHORT = 0.6  # seconds that the lease of one who is to lose it lasts
LIVELY = 1.5  # of one who must be seen to renew it, on a busy machine too
SEEN = 6.0  # of one who must be seen to renew it while several others work


@pytest.fixture
def hire(start: Callable[..., Worker], tmp_path: Path) -> Hire:
    """Starts a worker on the test's database: hire("ada", "run one", pauses=("in a body",))."""
    return lambda by, action, **options: start(drive, str(tmp_path), by, action, Options(**options))


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """What the workers' tools did outside."""
    return Witness(tmp_path / "witness")


def stands(folder: Path) -> tuple[Any, Any]:
    """The run and its calls as they are on disk."""
    with Harness(f"sqlite:///{folder / 'run.db'}") as harness:
        seen = harness.show(RUN)
    return seen.run, seen.calls


# --- Frozen, hung, or with a wrong clock. ---


@pytest.mark.parametrize("where", ["in a body", "between calls"])
def test_a_frozen_worker_thawed_after_a_takeover_writes_and_sends_nothing(
    tmp_path: Path, hire: Hire, witness: Witness, where: str
) -> None:
    frozen = hire("ada", "run one", pauses=(where,), ttl=SHORT)
    frozen.expect(where)
    frozen.freeze()
    assert hire("bob", "resume").ends() == "COMPLETED"
    before, lines = stands(tmp_path), witness.lines()
    frozen.thaw()
    frozen.let_go(where)
    assert frozen.ends() == "LeaseLost"
    assert stands(tmp_path) == before
    assert witness.lines() == lines
    assert [line.by for line in lines if line.what == "sent"] == ["bob", "bob"]
    assert witness.count("swallowed") == 0, "the agent took the stopping signal for a tool's answer"


@pytest.mark.parametrize("action", ["resume", "resume at once"])
def test_a_worker_whose_wall_clock_is_five_minutes_ahead_steals_no_lease(
    tmp_path: Path, hire: Hire, witness: Witness, action: str
) -> None:
    healthy = hire("ada", "run one", pauses=("in a body",), ttl=LIVELY)
    healthy.expect("in a body")
    assert hire("bob", action, clock_ahead=300.0).ends() == "LeaseHeld"
    healthy.let_go("in a body")
    assert healthy.ends() == "COMPLETED"
    assert stands(tmp_path)[0].epoch == 1
    assert {line.by for line in witness.lines()} == {"ada"}


def test_a_worker_whose_wall_clock_is_five_minutes_ahead_keeps_its_own_lease_no_longer_than_others(
    tmp_path: Path, hire: Hire
) -> None:
    ahead = hire("ada", "run one", pauses=("in a body",), clock_ahead=300.0, ttl=SHORT)
    ahead.expect("in a body")
    ahead.kill()
    assert hire("bob", "resume").ends() == "COMPLETED"
    assert stands(tmp_path)[0].epoch == 2


def test_a_healthy_tool_that_outlives_the_lease_keeps_it(tmp_path: Path, hire: Hire, witness: Witness) -> None:
    healthy = hire("ada", "run one", pauses=("in a body",), ttl=LIVELY)
    healthy.expect("in a body")
    for _ in range(3):
        # Each of them waits until the lease it found has run out, or is seen renewed.
        assert hire("bob", "resume").ends() == "LeaseHeld"
    healthy.let_go("in a body")
    assert healthy.ends() == "COMPLETED"
    assert stands(tmp_path)[0].epoch == 1
    assert {line.by for line in witness.lines()} == {"ada"}


def test_a_hung_tool_does_not_keep_the_lease_for_ever(tmp_path: Path, hire: Hire, witness: Witness) -> None:
    hung = hire("ada", "run one", pauses=("in a body",), stall=0.2, ttl=SHORT)
    hung.expect("in a body")
    ends = "LeaseHeld"
    while ends == "LeaseHeld":
        ends = hire("bob", "resume").ends()
    assert ends == "COMPLETED"
    before, lines = stands(tmp_path), witness.lines()
    hung.let_go("in a body")
    assert hung.ends() == "LeaseLost"
    assert (stands(tmp_path), witness.lines()) == (before, lines)


# --- Two at once. ---


def test_a_second_process_on_a_live_run_is_refused(tmp_path: Path, hire: Hire, witness: Witness) -> None:
    first = hire("ada", "run one", pauses=("in a body",))
    first.expect("in a body")
    assert hire("bob", "resume at once").ends() == "LeaseHeld"
    assert hire("bob", "run one").ends() == "RunExists"
    first.let_go("in a body")
    assert first.ends() == "COMPLETED"
    assert {line.by for line in witness.lines()} == {"ada"}


def test_of_several_processes_that_resume_a_dead_run_exactly_one_wins(
    tmp_path: Path, hire: Hire, witness: Witness
) -> None:
    dead = hire("ada", "run one", pauses=("in a body",), ttl=SHORT)
    dead.expect("in a body")
    dead.kill()
    rivals = [hire(by, "resume", pauses=("in a body",), ttl=SEEN) for by in ("bob", "cid", "dot", "eve")]
    words = [rival.hear() for rival in rivals]
    assert sorted(map(str, words)) == ["LeaseHeld", "LeaseHeld", "LeaseHeld", "in a body"]
    winner = rivals[words.index("in a body")]
    winner.let_go("in a body")
    assert winner.ends() == "COMPLETED"
    assert stands(tmp_path)[0].epoch == 2
    assert (witness.count("read", "look"), witness.count("sent", "pay")) == (2, 2)


def test_of_several_processes_that_resume_a_dead_run_the_others_see_it_held_or_finished(
    tmp_path: Path, hire: Hire, witness: Witness
) -> None:
    dead = hire("ada", "run one", pauses=("in a body",), ttl=SHORT)
    dead.expect("in a body")
    dead.kill()
    ends = sorted(rival.ends() for rival in [hire(by, "resume") for by in ("bob", "cid", "dot", "eve")])
    assert ends[0] == "COMPLETED"
    assert set(ends[1:]) <= {"LeaseHeld", "RunEnded"}
    assert stands(tmp_path)[0].epoch == 2
    assert witness.count("sent", "pay") == 2


# --- Killed. ---


def test_a_search_whose_result_is_recorded_is_not_made_again_by_the_process_that_takes_over(
    tmp_path: Path, hire: Hire, witness: Witness
) -> None:
    first = hire("ada", "run thinker", pauses=("deciding",), ttl=SHORT)
    first.expect("deciding")
    first.kill()
    assert witness.count("read", "search") == 1
    assert hire("bob", "resume").ends() == "COMPLETED"
    run, calls = stands(tmp_path)
    assert (run.status, run.epoch) == ("COMPLETED", 2)
    assert [(call.call_id, call.state, call.epoch) for call in calls] == [
        ("search.1", "SUCCEEDED", 1),
        ("model.1", "SUCCEEDED", 2),
    ]
    assert witness.count("read", "search") == 1, "the search was made again"


def test_a_tool_that_succeeded_is_not_repeated_when_the_next_model_call_fails_and_the_process_is_killed(
    tmp_path: Path, hire: Hire, witness: Witness
) -> None:
    first = hire("ada", "run thinker", model_is_down=True, ttl=LIVELY)
    first.expect("the model is down", "the model is down")
    first.kill()
    assert hire("bob", "resume").ends() == "COMPLETED"
    assert (witness.count("read", "search"), witness.count("read", "model")) == (1, 3)


def test_of_three_parallel_tools_the_one_that_is_recorded_does_not_run_again_after_a_kill(
    tmp_path: Path, hire: Hire, witness: Witness
) -> None:
    words = ("fetching 0", "fetching 1", "fetching 2")
    first = hire("ada", "run three", pauses=words, ttl=LIVELY)
    first.expect(*words)
    first.let_go("fetching 0")
    first.expect("recorded 0")
    first.kill()
    second = hire("bob", "resume")
    second.expect("recorded 0", "recorded 1", "recorded 2")
    assert second.ends() == "COMPLETED"
    fetched = [witness.count("read", f"fetch {number}") for number in range(3)]
    assert fetched == [1, 2, 2]
    with Scene(None, tmp_path, "", Options()).harness as harness:  # type: ignore[arg-type]
        assert harness.show(RUN).output == [0, 1, 4]
