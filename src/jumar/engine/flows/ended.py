"""What became of a run."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from jumar.core.records import RunRecord
from jumar.core.requests import Flow, Load
from jumar.engine.live import LiveRun


class Ended(Struct, frozen=True):
    """What became of a run: its record as it stands now, its output where it completed, its error where it failed."""

    run: RunRecord
    output: Any = None
    error: BaseException | None = None


def reread(live: LiveRun) -> Flow[RunRecord]:
    """The run's record as it stands now."""
    run_id = live.run_id
    run = yield from Load(lambda store: store.run(run_id))
    assert run is not None
    return run
