"""How a run's files were when it was left, told from its rows alone."""

from __future__ import annotations

from typing import Any

import pytest

from jumar.core.last_tree import Since, since
from jumar.core.locations import Location, located, root_of
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect

BEFORE, AFTER = b"before", b"after"


def call(seq: int, state: CallState, effect: Effect = Effect.WRITE, **more: Any) -> CallRecord:
    return CallRecord(seq, f"tool.{seq}", "", "", 1, CallKind.TOOL, "tool", effect, state, 1, 1, 0, b"", **more)


def write(seq: int, state: CallState, ended: int | None = None) -> CallRecord:
    return call(seq, state, before=b"before %d" % seq, after=b"after %d" % seq, ended_version=ended)


def test_what_a_snapshot_has_seen_counts_no_more() -> None:
    calls = [write(1, CallState.SUCCEEDED, 4), call(2, CallState.SUCCEEDED, Effect.EXTERNAL, ended_version=5)]
    assert since(5, calls) == Since()
    assert since(4, calls) == Since(unseen=("tool.2",))
    assert since(3, calls) == Since((b"after 1",), unseen=("tool.2",))


def test_writes_count_in_the_order_in_which_they_ended_and_open_ones_last_as_they_were_before() -> None:
    calls = [
        write(1, CallState.UNCERTAIN),
        write(2, CallState.SUCCEEDED, 9),
        write(3, CallState.FAILED, 8),
        write(4, CallState.SUCCEEDED, 7),
        write(5, CallState.PLANNED),
    ]
    assert since(5, calls).parts == (b"after 4", b"before 3", b"after 2", b"before 1", b"before 5")


def test_a_write_that_failed_once_and_is_made_again_is_open() -> None:
    again = write(1, CallState.STARTED, 3)  # the version is that of its failure
    assert since(5, [again]).parts == (b"before 1",)


def test_a_success_of_which_nothing_was_kept_is_told() -> None:
    lost = call(1, CallState.SUCCEEDED, before=BEFORE, ended_version=6)
    assert since(5, [lost]) == Since(lost=("tool.1",))
    assert since(6, [lost]) == Since()


@pytest.mark.parametrize("effect", [Effect.EXTERNAL, Effect.IDEMPOTENT])
def test_what_may_have_changed_files_unseen_is_told_unless_it_was_never_sent(effect: Effect) -> None:
    assert since(0, [call(1, CallState.UNCERTAIN, effect)]).unseen == ("tool.1",)
    never = CallRecord(1, "tool.1", "", "", 1, CallKind.TOOL, "tool", effect, CallState.PLANNED, 0, 1, 0, b"")
    assert since(0, [never]) == Since()
    assert since(0, [call(1, CallState.STARTED, Effect.READ)]) == Since()


@pytest.mark.parametrize("root", ["/srv/site", "/a:b/c", "/"])
def test_a_place_comes_back_from_its_text(root: str) -> None:
    for host in (None, "web-3_x.y"):
        place = Location(host, root)
        assert (located(place.text), root_of(place.text)) == (place, root)
