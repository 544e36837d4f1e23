"""The lease clock of a single host.

Leases must not be stolen because a wall clock was set, and must run out although the machine slept.  So the clock is
the kernel's time since boot, suspend included (CLOCK_BOOTTIME), together with the boot's own id: a lease of another
boot has expired.  Where a system has no such clock, the wall clock stands in and every boot looks the same.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from jumar.core.records import LeaseTime

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _boot() -> bytes:
    try:
        with open(_BOOT_ID, "rb") as file:  # noqa: PTH123 - importing pathlib takes milliseconds of every start
            return hashlib.sha256(file.read()).digest()[:8]
    except OSError:
        return b"wall"


BOOT: bytes = _boot() if hasattr(time, "CLOCK_BOOTTIME") else b"wall"


_ID: int = getattr(time, "CLOCK_BOOTTIME", -1) if BOOT != b"wall" else time.CLOCK_REALTIME


def lease_ms(_read: Callable[[int], int] = time.clock_gettime_ns, _clock: int = _ID) -> int:
    """Milliseconds on this host's lease clock."""
    return _read(_clock) // 1_000_000


def lease_ns() -> int:
    """Nanoseconds on the same clock."""
    return time.clock_gettime_ns(_ID)


def lease_now() -> LeaseTime:
    """A reading of this host's lease clock."""
    return LeaseTime(BOOT, lease_ms())


def wall_ms() -> int:
    """Wall-clock milliseconds since 1970: for people, names and timers, never for leases."""
    return time.time_ns() // 1_000_000
