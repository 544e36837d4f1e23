"""What a copy of a run has to bring along, and how it is told that it did."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.carrying import named_artifacts, named_snapshots, on_clock, unlike
from jumar.core.intents import Former, Intent, pack_intent
from jumar.core.moving import adoption, arrival, departure, elsewhere, is_elsewhere, shown_message, standing, stood
from jumar.core.records import CheckpointRecord, EventRecord, HoldRecord, IdentityRecord, LeaseTime, RunExport
from jumar.core.states import CallState, EventKind, IdentityScope, Level, Phase, Status
from jumar.errors import IntegrityError
from jumar.testing.conformance_scene import Scene, call, named
from jumar.testing.model import ModelStore

HERE, THERE = LeaseTime(b"here", 1_000), LeaseTime(b"there", 50_000)


@pytest.fixture
def export() -> RunExport:
    scene = Scene(ModelStore(lambda: LeaseTime(b"model", 1)))
    run = scene.waiting(wake_at=9, waiting_on="scan.search.1")
    found = scene.store.export(run.run_id)
    assert found is not None
    return found


def with_call(export: RunExport, state: CallState, **fields: Any) -> RunExport:
    return replace(export, calls=(call(1, state, **fields),))


@pytest.mark.parametrize("state", [CallState.STARTED, CallState.UNCERTAIN], ids=lambda state: state.label)
def test_what_may_still_act_is_waited_for_as_long_by_the_other_clock(export: RunExport, state: CallState) -> None:
    moved = on_clock(with_call(export, state, boot=b"here", dispatch_by=1_300, over_at=900), HERE, THERE)
    (record,) = moved.calls
    assert (record.boot, record.dispatch_by, record.over_at) == (b"there", 50_300, 49_900)


def test_what_was_sent_before_the_host_was_started_anew_stays_over(export: RunExport) -> None:
    older = with_call(export, CallState.UNCERTAIN, boot=b"before", dispatch_by=1_300)
    assert on_clock(older, HERE, THERE) == older


def test_what_was_sent_under_a_boot_that_only_the_other_clock_knows_is_over_there(export: RunExport) -> None:
    strange = with_call(export, CallState.UNCERTAIN, boot=b"there", dispatch_by=99_999_999)
    (record,) = on_clock(strange, HERE, THERE).calls
    assert record.boot not in (HERE.boot, THERE.boot)
    assert (record.dispatch_by, record.over_at) == (None, None)


def test_what_has_ended_keeps_its_times(export: RunExport) -> None:
    ended = with_call(export, CallState.SUCCEEDED, boot=b"here", dispatch_by=1_300)
    assert on_clock(ended, HERE, THERE) == ended


def test_every_digest_that_names_bytes_or_files_is_found(export: RunExport) -> None:
    digests = [bytes([number]) * 32 for number in range(12)]
    former = Former(Status.FAILED)
    intent = Intent(
        0, Phase.IN_CODE, 0, former, tree=digests[0], known=digests[1], context=digests[2], environment=digests[3]
    )
    record = call(1, args_artifact=digests[4], result_artifact=digests[5], before=digests[6], after=digests[7])
    kept = CheckpointRecord("x", Level.STEP, "manual", context=digests[8], tree=digests[9], environment=digests[10])
    run = replace(export.run, output_digest=digests[11], intent=pack_intent(intent))
    whole = replace(export, run=run, calls=(record,), checkpoints=(kept,))
    assert set(named_snapshots(whole)) == {digests[at] for at in (0, 1, 6, 7, 9)}
    assert named_artifacts(whole) == {digests[at] for at in (2, 3, 4, 5, 8, 10, 11)} | {run.input_digest}


def test_the_digests_of_a_run_with_a_damaged_intent_are_those_that_can_be_read(export: RunExport) -> None:
    assert named_snapshots(replace(export, run=replace(export.run, intent=b"{"))) == []


NAME = IdentityRecord(IdentityScope.STORE, "pay:7", 1, "x", 1, b"\x01" * 32)
CHANGED: list[tuple[str, dict[str, Any]]] = [
    ("calls", {"calls": (call(1),)}),
    ("checkpoints", {"checkpoints": (CheckpointRecord("x", Level.STEP, "manual"),)}),
    ("events", {"events": (EventRecord(EventKind.RETRY, 1),)}),
    ("names", {"identities": (NAME,)}),
    ("paths", {"holds": (HoldRecord("/", b"a", 1, "x", 1),)}),
    ("artifacts", {"artifacts": ()}),
    ("requests", {"requests": ("one",)}),
]


@pytest.mark.parametrize(("what", "fields"), CHANGED, ids=[what for what, _ in CHANGED])
def test_each_part_in_which_two_copies_differ_is_named(export: RunExport, what: str, fields: dict[str, Any]) -> None:
    assert unlike(export, export) is None
    assert unlike(export, replace(export, **fields)) == what


def test_a_number_of_its_own_and_more_artifacts_make_no_difference(export: RunExport) -> None:
    more = (*export.artifacts, named(b"more"))
    run = replace(export.run, run_no=99, boot=b"x", lease_until=5)
    assert unlike(export, replace(export, run=run, artifacts=more)) is None


@pytest.mark.parametrize("field", ["epoch", "version", "answers", "step", "crashes", "created_at"])
def test_a_run_that_has_gone_on_is_another(export: RunExport, field: str) -> None:
    run = replace(export.run, **{field: getattr(export.run, field) + 1})
    assert unlike(export, replace(export, run=run)) == "run"


def test_how_a_run_stood_is_known_whatever_its_own_message_was(export: RunExport) -> None:
    run = replace(export.run, error_message='{"status":5}\n"', error_type="Declined")
    change = departure(run, "sqlite:///b.db", 5)
    gone = replace(run, status=Status.CANCELLED, error_type="moved away", error_message=change.message)
    assert is_elsewhere(gone)
    assert stood(gone) == standing(run)
    assert shown_message(gone) == "sqlite:///b.db"
    assert elsewhere(gone) == f"run {run.run_id} has moved to sqlite:///b.db"
    back = arrival(gone, stood(gone), 6)
    assert (back.status, back.error_message) == (run.status, run.error_message)


def test_a_message_that_does_not_say_how_a_run_stood_is_damage(export: RunExport) -> None:
    gone = replace(export.run, status=Status.CANCELLED, error_type="moved away", error_message="sqlite:///b.db")
    with pytest.raises(IntegrityError, match="does not say what it was"):
        stood(gone)


def test_an_error_of_a_program_cannot_look_like_a_move(export: RunExport) -> None:
    for name in ("Moved", "Arriving"):
        assert not is_elsewhere(replace(export.run, status=Status.CANCELLED, error_type=name))
    run = adoption(export).export.run
    assert is_elsewhere(run)
    assert "jumar store copy" in elsewhere(run)
