"""Sizes and lengths that are part of the contract, each in one place."""

from __future__ import annotations

from msgspec import Struct

from jumar.errors import NotStorable

INLINE_BYTES = 2048  # arguments and results up to this size sit in the call row, larger ones in an artifact
MAX_VALUE_BYTES = 4 * 1024 * 1024  # of one argument set, result, input or output, as JSON
MAX_MESSAGE = 500  # characters of an error's message that are kept
MAX_RETRY_AFTER = 7 * 24 * 3600.0  # seconds that another side's Retry-After may ask to wait
MAX_KEY = 256  # characters of a call's own key
MAX_REFERENCE_ID = 128
MAX_REFERENCES = 256
MAX_LABEL = 200  # characters of a label as a person typed it
MAX_SLUG = 48
MAX_WORKERS = 64  # threads one `gather` or `map` uses at once
DEFAULT_TTL = 30.0  # seconds a lease lasts
DEFAULT_STALL = 600.0  # seconds without progress after which a run is no longer renewed


class SnapshotLimits(Struct, frozen=True):
    """What one snapshot of a workspace may cost: files in it, bytes of their content, seconds.  Past one of them it is
    partial, and says what it lacks.  None is no limit.
    """

    files: int | None = None
    bytes: int | None = None
    seconds: int | None = None


def check_size(data: bytes, what: str = "the value has") -> None:
    """NotStorable where a value's JSON is too large to keep."""
    if len(data) > MAX_VALUE_BYTES:
        raise NotStorable(
            f"{what} {len(data) / 1_000_000:.1f} MB as JSON; at most {MAX_VALUE_BYTES // (1024 * 1024)} MiB are kept",
            hint="Keep large data outside, and hand on a reference to it.",
        )
