"""The sweep of rollbacks, tested: each way to break one rule of theirs is noticed."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from jumar.errors import JumarError, Stopped
from jumar.testing.crash_clock import stopped_clock
from tests.crash.mutations_rolling import ROLLING
from tests.crash.test_rollback import Stage

NOWHERE: list[str] = []
REFUND = [r"after Invoke\(refund"]

# By the name of the mutation: after which points somebody dies, and whether the agent is a loop.
CHECKS: dict[str, tuple[list[str], bool]] = {
    "what_was_left_behind_and_stands_is_forgotten": (NOWHERE, False),
    "a_loop_agents_call_is_not_answered_by_what_stands": (NOWHERE, True),
    "a_compensation_that_may_have_happened_is_sent_again_by_itself": (REFUND, False),
    "a_compensation_is_sent_before_it_is_on_record": (REFUND, False),
    "the_original_is_marked_in_an_advance_of_its_own": ([r"after Commit.*pay\.1\.undo SUCCEEDED"], False),
    "an_undone_action_is_not_counted": (NOWHERE, False),
    "the_files_are_taken_for_put_back": (NOWHERE, False),
    "whoever_takes_the_run_over_goes_on_without_finishing": (["after Restore"], False),
    "what_is_undone_is_not_looked_at_again": (REFUND, False),
}


def told(folder: Path, name: str) -> None:
    """Carry the check for a mutation out: in a world that the mutation breaks, the points are told anew."""
    likes, loops = CHECKS[name]
    with stopped_clock() as clock:
        stage = Stage(folder, clock, waits=False, loops=loops)
        for like in likes:
            points = [number for number, entry in enumerate(stage.path, 1) if re.search(like, entry)]
            assert points, f"no point is like {like}"
            for point in points:
                stage.told(point)


def test_every_mutation_has_its_check() -> None:
    assert CHECKS.keys() == ROLLING.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_as_it_is_passes_the_check(folder: Path, name: str) -> None:
    told(folder, name)


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_broken_in_one_spot_is_caught(folder: Path, name: str) -> None:
    caught: BaseException | None = None
    with ROLLING[name]() as spot, tempfile.TemporaryDirectory(dir=folder) as inside:
        try:
            told(Path(inside), name)
        except (AssertionError, JumarError, Stopped, ValueError) as error:
            caught = error
    assert spot.hits > 0, "the mutation broke nothing that the check comes by"
    assert caught is not None, "the check did not notice"
    print(f"caught by {type(caught).__name__}: {caught}")
