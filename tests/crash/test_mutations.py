"""The tests of the protocol, tested: each way to break it in one spot is noticed by the sweep or by a named test."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from jumar.core.changes import Ack, Advance, Create, Guard, Refusal
from jumar.core.records import Artifact
from jumar.core.states import Phase
from jumar.errors import JumarError, Stopped
from jumar.stores.sqlite.store import SQLiteStore
from jumar.testing.crash_clock import stopped_clock
from tests.concurrency import test_late_results as late
from tests.concurrency import test_lost_leases as leases
from tests.crash import test_branches, test_changed_code, test_frozen, test_giving_up, test_transactions
from tests.crash.mutations import MUTATIONS
from tests.crash.test_lost_acks import doubted
from tests.crash.worlds import RUN, Story, Unbroken, judge

Check = Callable[[Path], None]


def swept(like: str) -> Check:
    """The sweep, at the points that are like this."""

    def check(folder: Path) -> None:
        with stopped_clock() as clock:
            (folder / "unbroken").mkdir()
            unbroken = Unbroken(folder / "unbroken", clock, waits=False)
            points = unbroken.points_like(like)
            assert points, f"no point is like {like}"
            for point in points:
                (folder / str(point)).mkdir()
                story = Story(folder / str(point), clock, waits=False)
                story.live(point)
                judge(story, story.live(), unbroken)

    return check


def frozen(how: Callable[[Story, test_frozen.Frozen, Unbroken], None], like: str) -> Check:
    """The frozen worker, at the points that are like this."""

    def check(folder: Path) -> None:
        with stopped_clock() as clock:
            test_frozen.frozen_at_each_point(folder, clock, False, how, like=like)

    return check


def with_two_workers(test: Callable[[leases.Scene], None]) -> Check:
    """A test of two workers on one run."""

    def check(folder: Path) -> None:
        with stopped_clock() as clock:
            scene = leases.Scene(folder, clock, waits=False)
            with scene.first, scene.second:
                test(scene)

    return check


def with_a_till(test: Callable[..., None], *answer: object) -> Check:
    """A test of a late payment; what is to come must come soon."""

    def check(folder: Path) -> None:
        with patch.object(late, "SOON", 1.0):
            test(folder, late.Till(), False, *answer)

    return check


def acknowledgement_lost(folder: Path) -> None:
    """An advance that landed is made once more before it is seen to have landed."""
    with stopped_clock() as clock:
        (folder / "unbroken").mkdir()
        unbroken = Unbroken(folder / "unbroken", clock, waits=False)
        (folder / "first").mkdir()
        first = Story(folder / "first", clock, waits=False)
        assert doubted(first, unbroken, "checkpoint.1 SUCCEEDED", "unseen").doubted


def another_owner_is_refused(folder: Path) -> None:
    """An advance in another owner's name, under the right epoch and version."""
    store = SQLiteStore(str(folder / "run.db"))
    try:
        made = Create(
            run_id=RUN,
            agent="work",
            agent_version="",
            task="t",
            phase=Phase.IN_CODE,
            input=Artifact(b"d" * 32, b"null"),
            at=1,
            owner="ada",
            ttl_ms=30_000,
        )
        (created,) = store.write([made])
        assert isinstance(created, Ack)
        advance = Advance(
            run_no=created.run_no, owner="bob", epoch=1, phase=Phase.IN_CODE, step=0, ttl_ms=30_000, at=2, version=0
        )
        (answer,) = store.write([advance])
        assert isinstance(answer, Refusal) and answer.guard is Guard.LEASE
    finally:
        store.close()


def on_a_stopped_clock(test: Callable[..., None], *rest: object) -> Check:
    """A test that takes a folder and a clock."""

    def check(folder: Path) -> None:
        with stopped_clock() as clock:
            test(folder, clock, *rest)

    return check


def branches_take_turns(folder: Path) -> None:
    """Parallel branches that read and then pay."""
    with stopped_clock() as clock:
        test_branches.killed_anywhere(folder, clock, (2, 1, 0), (1, 2, 0), waits=False)


SENT = r"after Invoke\((book|wire)"
CHECKS: dict[str, Check] = {
    "effects_are_sent_without_a_record": swept(SENT),
    "an_uncertain_external_call_is_simply_made_again": swept(SENT),
    "the_key_names_the_attempt": swept(r"after Invoke\(reserve"),
    "a_deadline_for_sending_is_not_kept": frozen(test_frozen.taken_over, r"after Commit\(.*reserve.1 STARTED"),
    "calls_are_sent_although_the_lease_is_in_doubt": with_two_workers(
        leases.test_a_worker_cut_off_from_the_store_sends_nothing_new_once_it_cannot_be_sure_of_its_lease
    ),
    "not_happened_counts_at_once": with_a_till(
        late.test_a_late_result_that_comes_while_the_run_waits_in_place_is_what_the_agent_gets
    ),
    "not_knowing_counts_as_not_happened": swept(SENT),
    "late_results_are_dropped": with_a_till(
        late.test_a_late_result_that_comes_after_the_run_waits_answers_what_was_asked, late.Unknown()
    ),
    "an_answer_nobody_has_looked_at_counts_as_seen": with_a_till(
        lambda folder, till, waits: late.test_an_answer_that_comes_before_the_run_has_left_off_is_not_slept_through(
            folder, waits
        )
    ),
    "a_person_has_the_last_word_over_a_late_result": with_a_till(
        late.test_a_late_result_outweighs_the_word_of_a_person_that_nothing_happened
    ),
    "a_call_given_up_leaves_no_mark": on_a_stopped_clock(
        test_giving_up.test_a_call_given_up_at_any_moment_is_given_up_again_on_replay, "idempotent"
    ),
    "a_claim_marks_nothing_uncertain": swept(r"after Invoke\(reserve"),
    "a_claim_keeps_the_epoch": swept(r"after Invoke\(reserve"),
    "advances_do_not_look_at_the_lease": frozen(test_frozen.left_alone, r"before Commit\(.*search.1 SUCCEEDED"),
    "advances_do_not_look_at_the_epoch_or_owner": frozen(test_frozen.overtaken, r"before Commit\(.*search.1 SUCCEEDED"),
    "advances_do_not_look_at_the_owner": another_owner_is_refused,
    "advances_do_not_look_at_the_version": acknowledgement_lost,
    "a_renewal_revives_a_lost_lease": with_two_workers(
        leases.test_a_renewal_that_comes_too_late_does_not_revive_the_lease
    ),
    "rows_land_although_the_guard_refused": frozen(test_frozen.left_alone, r"before Commit\(.*reserve.1 SUCCEEDED"),
    "the_cursor_commits_before_the_result": on_a_stopped_clock(test_transactions.cut_everywhere),
    "replay_matches_nothing": swept(r"after Commit\(.*search.1 SUCCEEDED"),
    "replay_does_not_look_at_the_arguments": on_a_stopped_clock(
        test_changed_code.test_an_argument_changed_in_the_code_is_not_answered_by_the_old_record
    ),
    "branches_share_one_table": branches_take_turns,
    "changed_code_is_not_noticed": on_a_stopped_clock(
        test_changed_code.test_a_tool_renamed_in_the_code_is_not_paid_again
    ),
    "stopping_signals_are_ordinary_exceptions": with_two_workers(
        leases.test_a_worker_whose_run_was_taken_over_sends_nothing_although_its_agent_catches_every_exception
    ),
}


def test_every_mutation_has_its_check() -> None:
    assert CHECKS.keys() == MUTATIONS.keys()
    assert len(MUTATIONS) >= 10


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_as_it_is_passes_the_check(folder: Path, name: str) -> None:
    CHECKS[name](folder)


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_broken_in_one_spot_is_caught(folder: Path, name: str) -> None:
    caught: BaseException | None = None
    with MUTATIONS[name]() as spot, tempfile.TemporaryDirectory(dir=folder) as inside:
        try:
            CHECKS[name](Path(inside))
        except (AssertionError, JumarError, Stopped, pytest.fail.Exception) as error:
            caught = error
    assert spot.hits > 0, "the mutation broke nothing that the check comes by"
    assert caught is not None, "the check did not notice"
    print(f"caught by {type(caught).__name__}: {caught}")
