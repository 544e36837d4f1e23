"""The suite for moving runs, tested: each way to break one of its guards in one spot is noticed by the sentence that
tells of it."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from jumar.core.states import Status
from jumar.core.store import Store
from jumar.errors import JumarError
from jumar.stores.opening import open_store
from jumar.stores.sqlite import tables
from jumar.testing import StoreConformance
from jumar.testing.conformance_scene import Scene


class Suite(StoreConformance):
    """The suite on databases in memory; its tests are called by name."""

    __test__ = False
    durable = False

    def make_store(self, folder: Path) -> Store:
        return open_store("memory:")


_ELSEWHERE = "('arriving here', 'moved away')"
_ARRIVING, _MOVED = "('arriving here')", "('moved away')"
_NEVER: dict[str, Any] = {}

# What it does: the statement, the words in it, what stands there instead; the sentence, and what it is given.
MUTATIONS: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "a_run_that_is_arriving_is_claimed": (
        "run_claim", _ELSEWHERE, _MOVED,
        "nobody_goes_on_with_it_before_it_has_arrived", _NEVER,
    ),
    "a_run_that_has_moved_is_claimed": (
        "run_claim", _ELSEWHERE, _ARRIVING, "nobody_goes_on_with_it_where_it_was", _NEVER,
    ),
    "a_run_that_is_arriving_is_answered": (
        "request_answer", _ELSEWHERE, _MOVED, "nobody_goes_on_with_it_before_it_has_arrived", _NEVER,
    ),
    "a_late_result_changes_what_has_departed": (
        "request_answer", _ELSEWHERE, _ARRIVING,
        "a_late_result_of_an_attempt_does_not_change_what_has_departed", _NEVER,
    ),
    "rows_of_what_is_replaced_stay": (
        "forget_holds", "run_no = :run_no", "0 AND :run_no",
        "one_that_is_on_its_way_is_replaced_by_what_has_come_of_it", _NEVER,
    ),
    "a_name_is_taken_from_who_holds_it": (
        "identity_adopt", "WHERE run_no = 0 AND", "WHERE", "a_name_that_another_run_holds_keeps_it_out", _NEVER,
    ),
    "a_name_forgets_how_often_it_was_undone": (
        "identity_adopt", "OR undone <= excluded.undone", "OR 1",
        "a_name_that_was_undone_more_often_there_keeps_it_out", _NEVER,
    ),
    "names_that_nobody_holds_are_not_exported": (
        "identities_of_run", "AND identity.run_no = 0", "AND identity.run_no < 0",
        "an_export_tells_how_often_the_actions_that_its_calls_name_were_undone", _NEVER,
    ),
    "what_was_never_adopted_arrives": (
        "run_arrive", "AND status = 6 AND error_type = 'arriving here'", "", "what_was_not_adopted_does_not_arrive",
        _NEVER,
    ),
    "what_has_gone_on_does_not_keep_an_arrival_out": (
        "run_arrive", "AND version = :version", "AND :version + 1",
        "what_was_adopted_anew_meanwhile_does_not_arrive", {"field": "version"},
    ),
    "a_claim_does_not_keep_an_arrival_out": (
        "run_arrive", "AND epoch = :epoch", "AND :epoch + 1",
        "what_was_adopted_anew_meanwhile_does_not_arrive", {"field": "epoch"},
    ),
    "an_answer_does_not_keep_an_arrival_out": (
        "run_arrive", "AND answers = :answers", "AND :answers + 1",
        "what_was_adopted_anew_meanwhile_does_not_arrive", {"field": "answers"},
    ),
    "an_arrival_keeps_the_epoch": (
        "run_arrive", "epoch = :epoch_after,", "epoch = epoch + 0 * :epoch_after,",
        "a_run_that_has_arrived_is_what_it_was_without_a_lease", {"status": Status.QUEUED},
    ),
    "a_run_departs_from_under_its_driver": (
        "run_depart", "(owner IS NULL OR boot <> :boot OR lease_until <= :now)", "(1 OR :boot OR :now)",
        "a_run_that_somebody_holds_stays", _NEVER,
    ),
    "a_run_departs_although_it_has_ended": (
        "run_depart", "(1 << status) & :final = 0", "(1 OR :final)", "a_run_that_has_ended_stays",
        {"status": Status.COMPLETED},
    ),
    "a_run_departs_although_it_was_claimed": (
        "run_depart", "AND epoch = :epoch", "AND :epoch + 1", "a_run_that_has_gone_on_stays", {"field": "epoch"},
    ),
    "a_run_departs_although_it_has_gone_on": (
        "run_depart", "AND version = :version", "AND :version + 1", "a_run_that_has_gone_on_stays",
        {"field": "version"},
    ),
    "a_run_departs_although_it_was_answered": (
        "run_depart", "AND answers = :answers", "AND :answers + 1", "a_run_that_has_gone_on_stays",
        {"field": "answers"},
    ),
    "a_run_departs_with_an_order_that_nobody_obeys": (
        "run_depart", "AND control = :control", "AND :control + 1", "a_run_that_was_given_an_order_stays", _NEVER,
    ),
    "requests_of_what_has_departed_stay_open": (
        "requests_withdraw", "verdict = 5,", "verdict = verdict,",
        "its_paths_are_free_its_requests_withdrawn_and_its_names_kept", _NEVER,
    ),
}  # fmt: skip


def check(folder: Path, name: str) -> None:
    """Hold the store to the sentence that tells of what a mutation breaks."""
    *_, sentence, fields = MUTATIONS[name]
    suite = Suite()
    stores = [suite.make_store(folder), suite.make_store(folder)]
    method = getattr(suite, f"test_{sentence}")
    scenes: dict[str, Any] = {"scene": Scene(stores[0]), "there": Scene(stores[1])}
    wanted = {word: scene for word, scene in scenes.items() if word in signature(method).parameters}
    try:
        method(**wanted, **fields)
    finally:
        for store in stores:
            store.close()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_store_is_caught_that_is_broken_in_one_spot_and_passes_as_it_is(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)
    statement, old, new, *_ = MUTATIONS[name]
    text = tables.SQL[statement]
    assert old in text, f"{statement} does not say {old}"
    with patch.dict(tables.SQL, {statement: text.replace(old, new)}), pytest.raises((AssertionError, JumarError)):
        check(tmp_path, name)
