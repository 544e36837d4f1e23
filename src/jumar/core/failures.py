"""How errors are sorted, and how long to wait before the next attempt.

An exception is sorted by the first of these that knows it: the user's own table, the exception's own say
(`NotApplied`), the HTTP status it carries, the type that a provider gave the error in the middle of a stream (whose
status was 200 long before), the names of its types, and last its built-in bases.  Names, not types, because the
clients that raise them (httpx, requests, the model SDKs) are never imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from msgspec import Struct

from jumar.core.limits import MAX_MESSAGE, MAX_RETRY_AFTER
from jumar.core.naming import storable
from jumar.core.states import ErrorClass
from jumar.errors import JumarError, NotApplied

RETRIED: frozenset[ErrorClass] = frozenset({ErrorClass.TRANSIENT, ErrorClass.RATE_LIMITED})

_STATUS_CODES: dict[int, ErrorClass] = {
    408: ErrorClass.TRANSIENT,
    409: ErrorClass.PERMANENT,
    425: ErrorClass.TRANSIENT,
    429: ErrorClass.RATE_LIMITED,
}

_STREAMED_TYPES: dict[str, ErrorClass] = {
    "api_error": ErrorClass.TRANSIENT,
    "overloaded_error": ErrorClass.TRANSIENT,
    "rate_limit_error": ErrorClass.RATE_LIMITED,
    "rate_limit_exceeded": ErrorClass.RATE_LIMITED,
    "server_error": ErrorClass.TRANSIENT,
    "timeout_error": ErrorClass.TRANSIENT,
}

_TYPE_NAMES: dict[str, ErrorClass] = {
    "RateLimitError": ErrorClass.RATE_LIMITED,
    "RateLimited": ErrorClass.RATE_LIMITED,
    "TooManyRequests": ErrorClass.RATE_LIMITED,
    "APITimeoutError": ErrorClass.TRANSIENT,
    "APIConnectionError": ErrorClass.TRANSIENT,
    "InternalServerError": ErrorClass.TRANSIENT,
    "ServiceUnavailable": ErrorClass.TRANSIENT,
    "TransportError": ErrorClass.TRANSIENT,
    "TimeoutException": ErrorClass.TRANSIENT,
    "Timeout": ErrorClass.TRANSIENT,
    "ConnectionError": ErrorClass.TRANSIENT,
    "ClientConnectionError": ErrorClass.TRANSIENT,
    "URLError": ErrorClass.TRANSIENT,
    "gaierror": ErrorClass.TRANSIENT,
    "CancelledError": ErrorClass.CANCELLED,
}

_BASES: tuple[tuple[type[BaseException], ErrorClass], ...] = (
    (TimeoutError, ErrorClass.TRANSIENT),
    (ConnectionError, ErrorClass.TRANSIENT),
    (InterruptedError, ErrorClass.TRANSIENT),
    (BlockingIOError, ErrorClass.TRANSIENT),
)


class Sorted(Struct, frozen=True):
    """An error's class, and the seconds its sender asked to wait, where it did."""

    error_class: ErrorClass
    retry_after: float | None = None

    @property
    def retried(self) -> bool:
        """Whether trying again may help."""
        return self.error_class in RETRIED


def classify(error: BaseException, extra: Mapping[type[BaseException], ErrorClass], wall_ms: int) -> Sorted:
    """Sort `error`; `extra` is the user's table and wins, its most derived match first.

    It never raises, whatever the error's own attributes do when they are read: what was sent must be recorded.
    """
    try:
        return _classified(error, extra, wall_ms)
    except Exception:
        return Sorted(ErrorClass.PERMANENT)


def _classified(error: BaseException, extra: Mapping[type[BaseException], ErrorClass], wall_ms: int) -> Sorted:
    for kind in type(error).__mro__:
        if kind in extra:
            return Sorted(extra[kind], retry_after(error, wall_ms))
    if isinstance(error, NotApplied):
        return Sorted(ErrorClass.TRANSIENT, retry_after(error, wall_ms))
    status = status_code(error)
    if status is not None:
        return Sorted(_of_status(status), retry_after(error, wall_ms))
    named = attribute(error, "type")
    if isinstance(named, str) and named in _STREAMED_TYPES:
        return Sorted(_STREAMED_TYPES[named], retry_after(error, wall_ms))
    for kind in type(error).__mro__:
        if kind.__name__ in _TYPE_NAMES and kind.__module__ != "builtins":
            return Sorted(_TYPE_NAMES[kind.__name__], retry_after(error, wall_ms))
    for base, error_class in _BASES:
        if isinstance(error, base):
            return Sorted(error_class)
    return Sorted(ErrorClass.PERMANENT)


def _of_status(status: int) -> ErrorClass:
    if status in _STATUS_CODES:
        return _STATUS_CODES[status]
    return ErrorClass.TRANSIENT if status >= 500 else ErrorClass.PERMANENT


def status_code(error: BaseException) -> int | None:
    """The HTTP status an exception carries, by the attributes that clients commonly use."""
    for holder in (error, attribute(error, "response")):
        for name in ("status_code", "status", "code"):
            status = _status(attribute(holder, name))
            if status is not None:
                return status
    return None


def _status(value: Any) -> int | None:
    try:
        return int(value) if isinstance(value, int) and 400 <= value <= 599 else None
    except Exception:  # a foreign object that fails when it is looked at
        return None


def attribute(holder: Any, name: str) -> Any:
    """An attribute of something foreign; None where it has none, or fails in telling."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def retry_after(error: BaseException, wall_ms: int) -> float | None:
    """The seconds that an attribute `retry_after`, or else a `Retry-After` header (a number or a date), asks to wait.

    None where neither is there or makes sense.  A wait longer than a week is taken as a week.
    """
    try:
        return _asked_to_wait(error, wall_ms)
    except Exception:  # a header or attribute that cannot even be read asks for nothing
        return None


def _asked_to_wait(error: BaseException, wall_ms: int) -> float | None:
    own = attribute(error, "retry_after")
    if isinstance(own, (int, float)) and own >= 0:
        return float(min(own, MAX_RETRY_AFTER))
    for holder in (attribute(error, "response"), error):
        value = _header(attribute(holder, "headers"), "retry-after")
        if value is not None:
            return _seconds(value, wall_ms)
    return None


def _seconds(value: str, wall_ms: int) -> float | None:
    try:
        asked = float(value)
    except ValueError:
        asked = _seconds_until(value, wall_ms)
    return None if math.isnan(asked) else min(max(0.0, asked), MAX_RETRY_AFTER)


def _seconds_until(date: str, wall_ms: int) -> float:
    from email.utils import parsedate_to_datetime  # brings sockets and calendars along, for a header that is rare

    try:
        moment = parsedate_to_datetime(date)
        # A date without a zone is in UTC too: headers know no local time.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - wall_ms / 1000
    except (TypeError, ValueError, IndexError, OverflowError):
        return math.nan


def _header(headers: Any, name: str) -> str | None:
    try:
        pairs = list(headers.items())
    except Exception:  # no headers, or of a shape of their own
        return None
    return next((str(value) for key, value in pairs if isinstance(key, str) and key.lower() == name), None)


def backoff(attempt: int, asked: float | None, jitter: float, *, first: float = 0.25, cap: float = 60.0) -> float:
    """Seconds to wait after attempt number `attempt` (from 1) failed.

    It doubles from `first` up to `cap`, and `jitter` (0 to 1, drawn by the caller) takes up to half of it off, so
    that workers that failed together do not return together.  What the other side asked for with Retry-After is never
    undercut.
    """
    ceiling = min(cap, first * 2.0 ** min(attempt - 1, 30))
    wait = ceiling * (1.0 - jitter / 2.0)
    return max(wait, asked) if asked is not None else wait


def short_message(error: BaseException) -> str:
    """The error's message, bounded, with what a database or terminal cannot hold made visible."""
    try:
        text = storable(error.what if isinstance(error, JumarError) else str(error))
        return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
    except Exception:  # a broken __str__ must not hide the error itself
        return "(its message could not be read)"
