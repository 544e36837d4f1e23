"""The conformance suite that every store passes.

Subclass it in a test module, say how the store is made, and pytest collects one test for each sentence of the
contract in `jumar.core.store`:

    from jumar.testing import StoreConformance

    class TestMyStore(StoreConformance):
        def make_store(self, folder):
            return MyStore(folder / "runs.db")

Each test gets a fresh store in an empty folder.  `make_store` is called again with the same folder where a test
closes the store and opens it anew; a store that forgets then says `durable = False`, and is held to that.  Nothing is
skipped.
"""

from __future__ import annotations

import sys

import pytest

# The parts' assertions are told in full when they fail, where the parts are not imported yet.
_PARTS = [
    f"jumar.testing.conformance_{part}"
    for part in (
        *("scene", "suite", "claiming", "resuming", "advancing", "identities", "leaving", "operators", "batches"),
        *("reading", "looking", "holding", "undoing", "rolling_back", "forking", "moving", "due"),
    )
]
pytest.register_assert_rewrite(*(part for part in _PARTS if part not in sys.modules))

from jumar.testing.conformance_advancing import Advancing, CallsOfAdvances  # noqa: E402
from jumar.testing.conformance_batches import Batches, ReadingBack  # noqa: E402
from jumar.testing.conformance_claiming import Claiming, Creating, Renewing  # noqa: E402
from jumar.testing.conformance_due import Crashes, DueOfAgents, NextDue, Watching  # noqa: E402
from jumar.testing.conformance_forking import Forking, ForksOfForks  # noqa: E402
from jumar.testing.conformance_holding import HoldingPaths, KeepingPaths  # noqa: E402
from jumar.testing.conformance_identities import KeepingNames, TakingNames  # noqa: E402
from jumar.testing.conformance_leaving import Answering, Leaving  # noqa: E402
from jumar.testing.conformance_looking import Due, OneCall, OpenRequests  # noqa: E402
from jumar.testing.conformance_moving import Adopting, Arriving, Departing, Exporting, ReadingMovesBack  # noqa: E402
from jumar.testing.conformance_operators import Ordering, Settling  # noqa: E402
from jumar.testing.conformance_reading import Care, Checkpoints, Rows, Runs  # noqa: E402
from jumar.testing.conformance_resuming import OpenDecisions, Resuming  # noqa: E402
from jumar.testing.conformance_rolling_back import BeginningRollbacks, EndingRollbacks, Withdrawing  # noqa: E402
from jumar.testing.conformance_undoing import Sharing, Undoing  # noqa: E402

__all__ = ["StoreConformance"]


class StoreConformance(
    Creating,
    Claiming,
    Resuming,
    OpenDecisions,
    Renewing,
    Advancing,
    CallsOfAdvances,
    TakingNames,
    KeepingNames,
    Undoing,
    Sharing,
    HoldingPaths,
    KeepingPaths,
    BeginningRollbacks,
    EndingRollbacks,
    Withdrawing,
    Forking,
    ForksOfForks,
    Leaving,
    Answering,
    Ordering,
    Settling,
    Batches,
    ReadingBack,
    Exporting,
    Adopting,
    Arriving,
    Departing,
    ReadingMovesBack,
    Runs,
    Rows,
    Checkpoints,
    Due,
    DueOfAgents,
    NextDue,
    Watching,
    Crashes,
    OpenRequests,
    OneCall,
    Care,
):
    """Every guard and every promise of a store, one test each.  A subclass gives `make_store`, perhaps `durable`."""
