"""Ways to break what a store guards of paths, names, rollbacks and forks, each in one spot.

Each is a context manager under which every SQLite store has the broken statement or function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from jumar.stores.sqlite import holds, keeping, names, operators, tables, taking, writes

Mutation = Callable[[], AbstractContextManager[None]]
STATEMENTS: dict[str, tuple[str, str, str]] = {
    # What it does: the statement, the words in it, and what stands there instead.
    "paths_below_are_free": ("holds_below", "AND path >= ?", "AND 0 AND path >= ?"),
    "the_whole_workspace_is_free_where_only_parts_are_held": (
        "holds_of_workspace",
        "WHERE hold.workspace = ?",
        "WHERE hold.workspace = ? AND path = x''",
    ),
    "paths_of_other_workspaces_are_in_the_way": ("holds_at", "hold.workspace = ?", "hold.workspace > ?"),
    "paths_are_given_up_by_the_run": ("hold_drop", "run_no = ? AND call_seq = ?", "run_no = ? AND call_seq >= ?"),
    "a_rollback_begins_although_the_run_has_gone_on": (
        "run_claim",
        "AND (:version IS NULL OR version = :version)",
        "AND (:version IS NULL OR 1)",
    ),
    "a_second_rollback_takes_the_place_of_the_first": (
        "run_claim",
        "AND (:intent IS NULL OR intent IS NULL)",
        "",
    ),
    "a_claim_forgets_the_rollback_under_way": ("run_claim", "coalesce(:intent, intent)", ":intent"),
    "an_order_outlives_the_run_it_was_given": ("run_claim", "(1 << status) & :final <> 0 OR", ""),
    "an_intent_is_made_out_of_nothing": ("run_intent", "AND intent IS NOT NULL", ""),
    "a_run_ends_in_the_middle_of_a_rollback": ("run_leave", "(intent IS NULL OR NOT :is_final)", "(1 OR :is_final)"),
    "a_head_is_made_without_a_rollback": ("run_rebase", "AND intent IS NOT NULL", ""),
    "a_rollback_is_never_over": ("run_rebase", "intent = NULL,", ""),
    "a_head_begins_no_generation": ("run_rebase", "generation + (:base IS NOT NULL)", "generation"),
    "a_line_knows_the_newest_head_alone": ("run_rebase", "coalesce(line || ' ', '') ||", ""),
    "a_head_does_not_look_at_the_lease": ("run_rebase", "AND lease_until > :now", "AND :now"),
    "a_head_does_not_look_at_the_epoch": ("run_rebase", "AND epoch = :epoch", "AND :epoch"),
    "a_head_does_not_look_at_the_version": ("run_rebase", "AND version = :version", "AND :version + 1"),
    "a_run_that_was_rolled_back_misses_an_order": (
        "run_rebase",
        "(control = :control AND answers = :answers)",
        "(:control + :answers + 1)",
    ),
    "a_paused_run_keeps_its_owner": ("run_rebase", "CASE WHEN :status = 1 THEN owner END", "owner"),
    "an_answer_is_withdrawn": ("request_withdraw", "AND verdict IS NULL", ""),
    "a_request_of_another_run_is_withdrawn": ("request_withdraw", "AND run_no = :run_no", "AND :run_no"),
    "a_withdrawn_request_stays_open": ("request_withdraw", "verdict = 5,", ""),
    "a_fork_is_made_of_a_run_that_has_gone_on": ("run_fork", "AND version = :version", "AND :version + 1"),
    "a_fork_knows_its_source_as_its_origin": ("run_fork", "coalesce(origin, run_id)", "run_id"),
    "a_fork_has_calls_that_have_not_ended": ("fork_call", "AND state IN (3, 4, 6, 7)", ""),
    "a_fork_has_calls_of_its_sources_epoch": ("fork_call", "attempt, 0, generation", "attempt, epoch, generation"),
    "a_fork_forgets_what_was_undone": ("fork_names_undone", "AND undone > 0", "AND undone > 99"),
    "a_fork_holds_names_of_the_store": ("fork_name", "AND scope_run = :source_no", "AND scope_run >= 0"),
    "a_fork_has_its_sources_artifacts_alone": (
        "artifact_of_family",
        "UNION SELECT run.run_no, run.forked_from FROM origin",
        "UNION SELECT run.run_no, NULL FROM origin",
    ),
    "whoever_saw_a_name_before_it_was_undone_takes_it": ("identity_take", "WHERE undone = excluded.undone", "WHERE 1"),
    "a_name_that_nobody_had_was_undone": ("identity_take", "WHERE :undone = 0 OR EXISTS", "WHERE 1 OR EXISTS"),
    "an_undoing_is_not_counted": ("identity_left", "undone + :undone", "undone + 0 * :undone"),
    "a_name_that_was_undone_is_forgotten": ("identity_free", "AND undone = 0", ""),
    "an_action_is_undone_although_another_run_counts_on_it": ("call_shared", "other.run_no <> :run_no", "0"),
    "the_newest_snapshot_is_the_oldest": ("last_snapshot", "version DESC", "version"),
}  # fmt: skip


def of_statement(name: str) -> Mutation:
    """A statement with other words in one place."""
    statement, old, new = STATEMENTS[name]

    @contextmanager
    def broken() -> Generator[None, None, None]:
        text = tables.SQL[statement]
        assert old in text, f"{statement} does not say {old}"
        with patch.dict(tables.SQL, {statement: text.replace(old, new)}):
            yield

    return broken


def _replaced(module: Any, name: str, by: Any) -> Mutation:
    @contextmanager
    def broken() -> Generator[None, None, None]:
        with patch.object(module, name, by):
            yield

    return broken


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _is_free_within_the_run(connection: Any, run_no: int, wanted: Any) -> bool:
    found = holds.overlapping(connection, wanted.workspace, wanted.path)
    return all(holder.run_no == run_no for holder in found)


def _one_by_one(connection: Any, run_no: int, takes: Any, paths: Any) -> bool:
    got = [names.take(connection, run_no, wanted) for wanted in takes]
    return all([*got, *(holds.take(connection, run_no, wanted) for wanted in paths)])


def _takes_all_the_same(connection: Any, run_no: int, wanted: Any) -> bool:
    holds.insert(connection, run_no, wanted)
    return True


def _drops_all(connection: Any, run: Any) -> list[Any]:
    connection.execute("DELETE FROM hold WHERE run_no = ?", (run.run_no,))
    return _mark(connection, run)


def _unread(connection: Any, run_no: int, record: Any) -> None:
    connection.execute(tables.SQL["checkpoint_insert"], keeping.checkpoint_row(run_no, record))


_mark = writes._mark

FUNCTIONS: dict[str, Mutation] = {
    "paths_above_are_free": _replaced(holds, "_with_those_above", lambda path: iter([path])),
    "names_that_begin_alike_are_below": _replaced(holds, "_AFTER_SLASH", b"\xff"),
    "calls_of_one_run_are_not_in_each_others_way": _replaced(holds, "is_free", _is_free_within_the_run),
    "a_call_takes_what_it_can_get": _replaced(taking, "_take", _one_by_one),
    "a_rollback_takes_paths_that_are_held": _replaced(holds, "take", _takes_all_the_same),
    "a_claim_gives_up_the_paths_of_open_writes": _replaced(writes, "_mark", _drops_all),
    "an_answer_that_settles_keeps_the_paths": _replaced(operators.holds, "drop", _nothing),
    "a_head_is_made_while_a_call_is_started": _replaced(writes, "_nothing_open", _nothing),
    "checkpoints_are_not_read_back": _replaced(keeping, "keep", _unread),
}

MUTATIONS: dict[str, Mutation] = {**{name: of_statement(name) for name in STATEMENTS}, **FUNCTIONS}
