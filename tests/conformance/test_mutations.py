"""The suite for stores, tested: each way to break a guard in one spot is noticed by the sentence that tells of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Guard, Head
from jumar.core.states import CallState, Status
from jumar.core.store import Store
from jumar.errors import JumarError
from jumar.stores.opening import open_store
from jumar.testing import StoreConformance
from jumar.testing.conformance_scene import Scene
from tests.conformance import test_sqlite_keeping as keeping
from tests.conformance.mutations import MUTATIONS


class Suite(StoreConformance):
    """The suite on a database in memory; its tests are called by name."""

    __test__ = False
    durable = False

    def make_store(self, folder: Path) -> Store:
        return open_store("memory:")


Check = Callable[[Path], None]


def sentence(name: str, **fields: Any) -> Check:
    """A test of the suite."""

    def check(folder: Path) -> None:
        suite = Suite()
        store = suite.make_store(folder)
        try:
            getattr(suite, f"test_{name}")(scene=Scene(store), **fields)
        finally:
            store.close()

    return check


def read_back(folder: Path) -> None:
    file = folder / "runs.db"
    store = open_store(f"sqlite:///{file}")
    try:
        keeping.test_a_checkpoint_of_which_any_column_is_kept_otherwise_undoes_its_advance(file, store, "step")
    finally:
        store.close()


_HEAD = {"ends": {"head": Head(base=1)}}
_UNDONE_IN_FORKS = "it_knows_how_often_actions_within_the_run_were_undone_whoever_holds_their_names"
_SAW_IT = "of_two_runs_that_saw_the_name_before_it_was_undone_neither_gets_it"
_IN_THE_WAY = "a_path_above_or_below_or_the_same_is_in_the_way_whichever_came_first"

CHECKS: dict[str, Check] = {
    "paths_below_are_free": sentence(_IN_THE_WAY, path=b"conf/site.ini/deeper"),
    "the_whole_workspace_is_free_where_only_parts_are_held": sentence(_IN_THE_WAY, path=b""),
    "paths_of_other_workspaces_are_in_the_way": sentence(
        "a_path_of_another_workspace_is_another_path", path=b"conf/site.ini"
    ),
    "paths_are_given_up_by_the_run": sentence("only_the_paths_of_the_calls_that_are_named_are_given_up"),
    "a_rollback_begins_although_the_run_has_gone_on": sentence(
        "a_run_that_has_gone_on_since_it_was_planned_refuses_it", wrong={"version": 0}
    ),
    "a_second_rollback_takes_the_place_of_the_first": sentence("a_second_rollback_is_refused_while_the_first_is_open"),
    "a_claim_forgets_the_rollback_under_way": sentence("a_takeover_finds_the_intent"),
    "an_order_outlives_the_run_it_was_given": sentence(
        "an_order_that_a_finished_run_was_given_is_spent", status=Status.CANCELLED
    ),
    "an_intent_is_made_out_of_nothing": sentence(
        "an_advance_that_would_replace_an_intent_where_there_is_none_is_refused"
    ),
    "a_run_ends_in_the_middle_of_a_rollback": sentence(
        "no_run_ends_for_good_in_the_middle_of_it", status=Status.COMPLETED
    ),
    "a_head_is_made_without_a_rollback": sentence("without_an_intent_it_is_refused", **_HEAD),
    "a_rollback_is_never_over": sentence("after_it_another_rollback_may_begin"),
    "a_head_begins_no_generation": sentence("a_head_begins_a_generation_and_lengthens_the_line"),
    "a_line_knows_the_newest_head_alone": sentence("a_head_begins_a_generation_and_lengthens_the_line"),
    "a_head_does_not_look_at_the_lease": sentence("an_expired_lease_refuses_it", **_HEAD),
    "a_head_does_not_look_at_the_epoch": sentence(
        "it_is_guarded_as_every_advance", **_HEAD, wrong={"epoch": 1}, guard=Guard.LEASE
    ),
    "a_head_does_not_look_at_the_version": sentence(
        "it_is_guarded_as_every_advance", **_HEAD, wrong={"version": 7}, guard=Guard.VERSION
    ),
    "a_run_that_was_rolled_back_misses_an_order": sentence(
        "an_order_or_an_answer_refuses_it_only_where_the_run_leaves", **_HEAD, news="order"
    ),
    "a_paused_run_keeps_its_owner": sentence("a_head_leaves_the_run_paused_where_the_ending_says_so"),
    "an_answer_is_withdrawn": sentence("what_was_answered_before_keeps_its_answer"),
    "a_request_of_another_run_is_withdrawn": sentence("only_requests_of_its_own_run_are_withdrawn"),
    "a_withdrawn_request_stays_open": sentence("a_withdrawn_request_is_open_no_more_and_refuses_an_answer"),
    "a_fork_is_made_of_a_run_that_has_gone_on": sentence("a_source_that_went_on_meanwhile_refuses_it"),
    "a_fork_knows_its_source_as_its_origin": sentence("the_first_of_the_chain_is_the_origin_of_all"),
    "a_fork_has_calls_that_have_not_ended": sentence(
        "a_call_that_has_not_ended_or_is_not_there_refuses_it", state=CallState.UNCERTAIN
    ),
    "a_fork_has_calls_of_its_sources_epoch": sentence("it_has_the_calls_that_are_named_as_they_ended_and_no_others"),
    "a_fork_forgets_what_was_undone": sentence(_UNDONE_IN_FORKS),
    "a_fork_holds_names_of_the_store": sentence("names_of_the_store_stay_with_the_source"),
    "a_fork_has_its_sources_artifacts_alone": sentence("artifacts_are_found_through_the_chain_of_forks"),
    "whoever_saw_a_name_before_it_was_undone_takes_it": sentence(_SAW_IT),
    "a_name_that_nobody_had_was_undone": sentence("a_name_that_nobody_has_had_was_never_undone"),
    "an_undoing_is_not_counted": sentence(_SAW_IT),
    "a_name_that_was_undone_is_forgotten": sentence(
        "every_undoing_counts_and_a_name_given_up_otherwise_keeps_the_count"
    ),
    "an_action_is_undone_although_another_run_counts_on_it": sentence("what_was_given_to_another_run_is_shared"),
    "the_newest_snapshot_is_the_oldest": sentence("the_newest_snapshot_is_that_of_the_newest_checkpoint_with_a_tree"),
    "paths_above_are_free": sentence(_IN_THE_WAY, path=b"conf"),
    "names_that_begin_alike_are_below": sentence("a_path_beside_is_not_in_the_way", path=b"conf/site.ini2"),
    "calls_of_one_run_are_not_in_each_others_way": sentence("a_call_of_the_same_run_is_in_the_way_too"),
    "a_call_takes_what_it_can_get": sentence("a_call_that_cannot_have_one_of_its_paths_gets_none_of_them"),
    "a_rollback_takes_paths_that_are_held": sentence(
        "a_path_that_an_open_write_holds_refuses_it_and_nothing_is_changed", path=b"conf"
    ),
    "a_claim_gives_up_the_paths_of_open_writes": sentence("a_write_that_a_takeover_finds_open_keeps_its_paths"),
    "an_answer_that_settles_keeps_the_paths": sentence(
        "an_answer_that_settles_a_call_of_a_finished_run_gives_up_its_paths", status=Status.CANCELLED
    ),
    "a_head_is_made_while_a_call_is_started": sentence("a_head_is_refused_while_a_call_is_started"),
    "checkpoints_are_not_read_back": read_back,
}


def test_every_mutation_has_its_check() -> None:
    assert CHECKS.keys() == MUTATIONS.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_the_store_as_it_is_passes_the_check(tmp_path: Path, name: str) -> None:
    CHECKS[name](tmp_path)


@pytest.mark.parametrize("name", CHECKS)
def test_a_store_broken_in_one_spot_is_caught(tmp_path: Path, name: str) -> None:
    with MUTATIONS[name](), pytest.raises((AssertionError, JumarError)):
        CHECKS[name](tmp_path)
