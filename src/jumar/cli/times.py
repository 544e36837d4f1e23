"""Moments and durations as people read them.  Moments are wall-clock milliseconds since 1970, shown in UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def moment(at: int) -> str:
    """A date and time: `2026-11-29 14:03:22 UTC`."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: int) -> str:
    """A time of day to the millisecond: `14:03:22.123`."""
    return f"{_utc(at).strftime('%H:%M:%S')}.{at % 1000:03d}"


def _utc(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at // 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a damaged row may hold any number
        return datetime.fromtimestamp(0, UTC)


def lasted(ms: float) -> str:
    """A duration in at most eleven characters: `85 ms`, `0.42 s`, `12.4 s`, `2 min 05 s`, `3 h 07 min`, `2 d 04 h`."""
    ms = max(0, round(ms))
    if ms < 100:
        return f"{ms} ms"
    if ms < 9_995:
        return f"{ms / 1000:.2f} s"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    if ms < _HOUR - _SECOND // 2:
        seconds = round(ms / 1000)
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if ms < _DAY - _MINUTE // 2:
        minutes = round(ms / _MINUTE)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(ms / _HOUR)
    return f"{hours // 24} d {hours % 24:02d} h"


def ago(at: int, now: int) -> str:
    """How far a moment lies from now, in one unit: `just now`, `12 s ago`, `in 3 min`."""
    distance = abs(now - at)
    if distance < _SECOND:
        return "just now"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
    size, unit = next((size, unit) for size, unit in units if distance >= size)
    return f"{distance // size} {unit} ago" if at <= now else f"in {round(distance / size)} {unit}"


def when(at: int, now: int) -> str:
    """A moment near now as a time of day, one further away with its date, and how far it lies from now."""
    shown = f"{clock(at)[:8]} UTC" if abs(at - now) < _DAY // 2 else moment(at)
    return f"{shown} ({ago(at, now)})"
