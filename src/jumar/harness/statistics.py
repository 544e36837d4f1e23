"""What `harness.stats()` answers."""

from __future__ import annotations

from msgspec import Struct

from jumar.core.statistics import StoreStats


class Stats(Struct, frozen=True):
    """How this process has fared since its store was opened; `store` is about what was written to it."""

    store: StoreStats
