"""How errors are sorted, and how long to wait before the next attempt.

An exception is sorted by the first of these that knows it: the user's own table, the exception's own say
(`NotApplied`), the HTTP status it carries, the names of its types, and last its built-in bases.  Names, not types, because the
clients that raise them (httpx, requests, the model SDKs) are never imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from jumar.core.limits import MAX_MESSAGE
from jumar.core.states import ErrorClass
from jumar.errors import NotApplied

RETRIED: frozenset[ErrorClass] = frozenset({ErrorClass.TRANSIENT, ErrorClass.RATE_LIMITED})

_STATUS_CODES: dict[int, ErrorClass] = {
    408: ErrorClass.TRANSIENT,
    409: ErrorClass.PERMANENT,
    425: ErrorClass.TRANSIENT,
    429: ErrorClass.RATE_LIMITED,
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
    "RemoteProtocolError": ErrorClass.TRANSIENT,
    "Timeout": ErrorClass.TRANSIENT,
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
    """Sort `error`; `extra` is the user's table and wins, its most derived match first."""
    for kind in type(error).__mro__:
        if kind in extra:
            return Sorted(extra[kind], retry_after(error, wall_ms))
    if isinstance(error, NotApplied):
        return Sorted(ErrorClass.TRANSIENT, error.retry_after)
    status = status_code(error)
    if status is not None:
        return Sorted(_of_status(status), retry_after(error, wall_ms))
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
    response = getattr(error, "response", None)
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return None


def retry_after(error: BaseException, wall_ms: int) -> float | None:
    """The seconds a `Retry-After` header (a number or a date) asks to wait, or an attribute `retry_after`."""
    own = getattr(error, "retry_after", None)
    if isinstance(own, (int, float)) and own >= 0:
        return float(own)
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    value = _header(headers, "retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        return _seconds_until(value, wall_ms)


def _seconds_until(date: str, wall_ms: int) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - wall_ms / 1000)


def _header(headers: Any, name: str) -> str | None:
    if not isinstance(headers, Mapping):
        return None
    for key, value in headers.items():
        if isinstance(key, str) and key.lower() == name:
            return str(value)
    return None


def backoff(attempt: int, asked: float | None, jitter: float, *, first: float = 0.25, cap: float = 60.0) -> float:
    """Seconds to wait after attempt number `attempt` (from 1) failed.

    It doubles from `first` up to `cap`, and `jitter` (0 to 1, drawn by the caller) takes up to half of it off, so that workers that
    failed together do not return together.  What the other side asked for with Retry-After is never undercut.
    """
    ceiling = min(cap, first * 2.0 ** min(attempt - 1, 30))
    wait = ceiling * (1.0 - jitter / 2.0)
    return max(wait, asked) if asked is not None else wait


def short_message(error: BaseException) -> str:
    """The error's message, bounded, with what a database or terminal cannot hold made visible."""
    try:
        text = error.what if isinstance(error, NotApplied) else str(error)
    except Exception:  # a broken __str__ must not hide the error itself
        text = "(its message could not be read)"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
