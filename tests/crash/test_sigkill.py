"""Real processes, really killed, on a real disk: SIGKILLs at points drawn from the run and from its recoveries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, NotHappened
from jumar.core.call_states import ENDED
from jumar.testing import Restart, Witness, restart_sweep
from jumar.testing.crash_clock import stopped_clock
from tests.crash.places import looked_up_at
from tests.crash.worlds import AGENT, RUN, TASK, Unbroken, judge_outside


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture(params=[True, False], ids=["at the point", "soon after it"])
def exact(request: pytest.FixtureRequest) -> bool:
    """Whether a process kills itself at the point, or is killed as soon as it is heard to have come there."""
    return bool(request.param)


def swept(
    folder: Path, *, waits: bool, exact: bool, points: Any, again: int, store: str = "sqlite:///{folder}/run.db"
) -> None:
    """Have runs killed there, and each judged as those that are crashed within one process are."""
    with stopped_clock() as clock:
        (folder / "unbroken").mkdir()
        unbroken = Unbroken(folder / "unbroken", clock, waits=waits)

    def check(restart: Restart) -> None:
        assert restart.run_id == RUN or "{folder}" not in store
        ended = frozenset(call.call_id for call in restart.calls_before if call.state in {each.name for each in ENDED})
        with looked_up_at(restart.store):
            found = [(len(restart.witness_before), ended)]
            judge_outside(restart.folder, restart.output, found, unbroken, restart.run_id)

    seed = random.randrange(2**32)
    print(f"seed {seed}")
    sweep = restart_sweep(
        f"tests.crash.app:{'waiting' if waits else 'plain'}:{AGENT}",
        TASK,
        folder=folder / "sweep",
        store=store,
        points=points,
        seed=seed,
        again=again,
        exact=exact,
        witness="witness",
        answer=by_the_witness,
        check=check,
    )
    assert sweep.restarts


def by_the_witness(asked: Any, folder: Path) -> Happened[str] | NotHappened:
    """A person who knows what the witness knows answers what is asked about a wire; the other tools have a probe."""
    sent = any(line.call_id == asked.call_id and line.what == "sent" for line in Witness(folder / "witness").lines())
    return Happened("5 to B") if sent else NotHappened()


def test_a_run_whose_processes_are_killed_over_and_over_ends_as_if_nothing_had_happened(
    tmp_path: Path, waits: bool, exact: bool
) -> None:
    swept(tmp_path, waits=waits, exact=exact, points=2, again=2)


@pytest.mark.sweep
def test_a_run_that_is_killed_at_any_of_its_points_ends_as_if_nothing_had_happened(
    tmp_path: Path, waits: bool, exact: bool
) -> None:
    swept(tmp_path, waits=waits, exact=exact, points=30, again=3)
