"""What is left of a lease."""

from __future__ import annotations

from jumar.core.records import LeaseTime, RunRecord


def seconds_left(run: RunRecord, now: LeaseTime) -> float:
    """The seconds for which the lease on a run is still live; 0 where none is, as after a new boot of the host."""
    if run.owner is None or run.boot != now.boot:
        return 0.0
    return max(0.0, (run.lease_until - now.ms) / 1000)
