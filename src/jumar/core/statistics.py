"""How a process's writing to a store has gone so far, in numbers."""

from __future__ import annotations

from msgspec import Struct


class Times(Struct, frozen=True):
    """Milliseconds: how many were measured, their mean, and the longest."""

    count: int = 0
    mean: float = 0.0
    longest: float = 0.0


class StoreStats(Struct, frozen=True):
    """What was written to the store since it was opened.

    `writes` counts changes that the store has answered and `commits` what it was asked to commit, each with one change
    or several.  `hot_ms` is how long hot writes took until they were accepted, `cold_ms` how long all writes took until
    they were on disk.  `pending` are hot writes that are not on disk yet; `retried` counts how often such a one was
    tried again, `waited_ms` is how long runs were held up because too many were pending, and `lost` counts those that
    were given up: no store could take them, or this one did not until it was closed.
    """

    writes: int = 0
    commits: int = 0
    hot_ms: Times = Times()
    cold_ms: Times = Times()
    pending: int = 0
    retried: int = 0
    waited_ms: float = 0.0
    lost: int = 0
