"""Checksums of what is stored, so that damage is seen where it is read and nothing is guessed from it.

A call row carries a CRC-32 of its id, its arguments' digest and how it ended (cheap enough for every call); a
checkpoint carries a sha256 of all its fields, being what a recovery stands on; an artifact is named by the sha256 of
its bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import msgspec
from msgspec.structs import replace

from jumar.core.call_states import ENDED
from jumar.core.records import CallRecord, CheckpointRecord, Failure
from jumar.core.states import CallKind, CallState, Effect

_encode = msgspec.json.Encoder(order="deterministic").encode


def failure_bytes(failure: Failure | None) -> bytes | None:
    """A failure as it is stored."""
    return None if failure is None else _encode(failure)


def call_checksum(
    call_id: str,
    args_digest: bytes,
    kind: CallKind,
    effect: Effect,
    state: CallState,
    result: bytes | None,
    failure: bytes | None,
) -> int:
    """The checksum of a call; `result` is the result itself where it sits in the row, else its artifact's digest.

    A state counts only where the call has ended: the others change in one statement with many rows, at a claim.
    """
    mark = kind | effect << 8 | (state if state in ENDED else 255) << 16
    total = zlib.crc32(args_digest, zlib.crc32(call_id.encode(), mark))
    if result is not None:
        total = zlib.crc32(result, total ^ 1)
    if failure is not None:
        total = zlib.crc32(failure, total ^ 2)
    return total


def checksum_of(record: CallRecord) -> int:
    """The checksum that a call's record should carry."""
    return call_checksum(
        record.call_id,
        record.args_digest,
        record.kind,
        record.effect,
        record.state,
        record.result if record.result is not None else record.result_artifact,
        failure_bytes(record.failure),
    )


def call_agrees(record: CallRecord, known: bytes | None = None) -> bool:
    """Whether a call row still agrees with its own checksum.

    `known` are arguments that the row's digest was just taken of, which spares a replay hashing the same bytes twice.
    """
    try:
        return record.checksum == checksum_of(record) and (
            record.args is None or record.args == known or hashlib.sha256(record.args).digest() == record.args_digest
        )
    except (TypeError, AttributeError):  # a damaged row may hold text where bytes belong
        return False


def checkpoint_checksum(record: CheckpointRecord) -> bytes:
    """The checksum over every other field of a checkpoint.  What came later counts only where it is there, so that the
    checksums of older rows stay as they are.
    """
    fields: tuple[Any, ...] = (
        record.version,
        record.base_version,
        record.name,
        record.level,
        record.trigger,
        record.refs,
        record.step,
        record.phase,
        record.context,
        record.created_at,
    )
    if record.tree is not None or record.environment is not None or record.storage:
        fields += (record.tree, record.environment, record.storage)
    return hashlib.sha256(_encode(fields)).digest()


def checkpoint_agrees(record: CheckpointRecord) -> bool:
    """Whether a checkpoint still agrees with its own checksum."""
    return record.checksum == checkpoint_checksum(record)


def sealed(record: CheckpointRecord, version: int) -> CheckpointRecord:
    """The checkpoint as it stands for `version`, with its checksum."""
    placed = replace(record, version=version)
    return replace(placed, checksum=checkpoint_checksum(placed))
