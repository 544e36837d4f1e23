"""Keeping restore points with the files: what a checkpoint's snapshot of the workspace is, and when it is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, log


def telling(live: LiveRun) -> Callable[[Any], None]:
    """What a capture tells its progress to: the log, and the run's lease, which a scan that gets on deserves."""

    def tell(progress: Any) -> None:
        live.progress_at = live.clock()
        log(INFO, live.run_id, None, "scanned %s files (%.0f s)", f"{progress.files:,}", progress.seconds)

    return tell
