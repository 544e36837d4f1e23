"""Checksums: what agrees with itself, and that any change of what is stored shows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.checksums import (
    call_agrees,
    call_checksum,
    checkpoint_agrees,
    checkpoint_checksum,
    checksum_of,
    failure_bytes,
    sealed,
)
from jumar.core.codec import digest
from jumar.core.records import CallRecord, CheckpointRecord, Failure
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Level, Phase, Storage

ARGS = b'{"query":"ERROR"}'
FAILURE = Failure("Declined", "no funds", ErrorClass.PERMANENT, args=b'["no funds"]', module="shop")


def ended(result: bytes | None = None, artifact: bytes | None = None, failure: Failure | None = None) -> CallRecord:
    record = CallRecord(
        1,
        "scan.search.1",
        "",
        "scan",
        1,
        CallKind.TOOL,
        "search",
        Effect.READ,
        CallState.FAILED if failure else CallState.SUCCEEDED,
        1,
        1,
        0,
        digest(ARGS),
        ARGS,
        result=result,
        result_artifact=artifact,
        failure=failure,
    )
    return replace(record, checksum=checksum_of(record))


INLINE, LARGE, FAILED = ended(b'["a"]'), ended(artifact=digest(b"large")), ended(failure=FAILURE)


@pytest.mark.parametrize("record", [INLINE, LARGE, FAILED, ended(b"null", failure=FAILURE), ended()])
def test_a_call_agrees_with_its_own_checksum(record: CallRecord) -> None:
    assert call_agrees(record)
    assert call_agrees(replace(record, args=None))


@pytest.mark.parametrize(
    ("record", "change"),
    [
        (INLINE, {"result": b'["b"]'}),
        (INLINE, {"result": None}),
        (INLINE, {"result": b""}),
        (INLINE, {"call_id": "scan.search.2"}),
        (INLINE, {"args": b'{"query":"WARN"}'}),
        (INLINE, {"args_digest": digest(b"{}"), "args": None}),
        (INLINE, {"failure": FAILURE}),
        (INLINE, {"checksum": INLINE.checksum ^ 1}),
        (INLINE, {"kind": CallKind.DECISION}),
        (INLINE, {"effect": Effect.EXTERNAL}),
        (INLINE, {"state": CallState.STARTED}),
        (INLINE, {"state": CallState.FAILED}),
        (LARGE, {"result_artifact": digest(b"other")}),
        (LARGE, {"result_artifact": None}),
        (FAILED, {"failure": None}),
        (FAILED, {"failure": replace(FAILURE, message="no money")}),
        (FAILED, {"failure": replace(FAILURE, cancelled=True)}),
        (FAILED, {"result": b"null"}),
    ],
)
def test_a_call_of_which_anything_has_changed_does_not(record: CallRecord, change: dict[str, Any]) -> None:
    assert not call_agrees(replace(record, **change))


def test_a_result_and_a_failure_of_the_same_bytes_are_told_apart() -> None:
    place = ("c", b"", CallKind.TOOL, Effect.READ, CallState.SUCCEEDED)
    assert call_checksum(*place, b"x", None) != call_checksum(*place, None, b"x")
    assert call_checksum(*place, b"", None) != call_checksum(*place, None, None)


def test_a_call_that_a_claim_marks_keeps_its_checksum() -> None:
    started = replace(INLINE, state=CallState.STARTED, result=None)
    started = replace(started, checksum=checksum_of(started))
    assert call_agrees(replace(started, state=CallState.UNCERTAIN))


def test_a_failure_is_written_without_what_is_at_its_default() -> None:
    plain = Failure("ValueError", "no", ErrorClass.PERMANENT)
    assert failure_bytes(plain) == b'{"type_name":"ValueError","message":"no","error_class":2}'
    assert failure_bytes(None) is None


CHECKPOINT = sealed(
    CheckpointRecord(
        "fix_scan_step_20231114T221320.000Z",
        Level.STEP,
        "manual",
        refs=("claim:c-17", "claim:c-18"),
        step=2,
        phase=Phase.IN_CODE,
        context=digest(b"{}"),
        created_at=1_700_000_000_000,
    ),
    7,
)


def test_a_checkpoint_is_sealed_for_one_version() -> None:
    assert checkpoint_agrees(CHECKPOINT)
    assert CHECKPOINT.version == 7
    assert len(CHECKPOINT.checksum) == 32
    assert not checkpoint_agrees(CheckpointRecord("name", Level.STEP, "manual"))


CHANGES: dict[str, Any] = {
    "version": 8,
    "base_version": 1,
    "name": "other",
    "level": Level.TASK,
    "trigger": "after_planning_step",
    "refs": ("claim:c-17",),
    "step": 3,
    "phase": Phase.STOPPED,
    "context": None,
    "created_at": 0,
    "checksum": b"",
    "tree": digest(b"tree"),
    "environment": digest(b"environment"),
    "storage": Storage.HOT,
}


def test_every_field_of_a_checkpoint_is_tried() -> None:
    assert set(CHANGES) == set(CheckpointRecord.__struct_fields__)


@pytest.mark.parametrize("field", CHANGES)
def test_a_checkpoint_of_which_any_field_has_changed_does_not_agree(field: str) -> None:
    assert not checkpoint_agrees(replace(CHECKPOINT, **{field: CHANGES[field]}))


def test_references_do_not_run_into_each_other() -> None:
    apart = replace(CHECKPOINT, refs=("claim:a", "claim:b"))
    together = replace(CHECKPOINT, refs=("claim:a claim:b",))
    assert checkpoint_checksum(apart) != checkpoint_checksum(together)
