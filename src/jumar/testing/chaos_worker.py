"""A worker of a storm: a process that takes up whatever runs are due, until it is told to stop, or worse.

It is told the terms as JSON on its command line, and says on standard output, in one line, that it has begun.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from jumar.engine.places import Stop
from jumar.harness.harness import Harness
from jumar.harness.working import WorkerEvent
from jumar.testing.chaos_app import Terms, build

CRASHES = 1_000_000  # no run is given up here, however many workers are killed under it
BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from jumar.testing.chaos_worker import main; main()"


def command(terms: Terms) -> list[str]:
    """What starts such a process, from any folder."""
    path = [str(Path(entry).resolve()) for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-c", BEGIN, json.dumps(path), msgspec.json.encode(terms).decode()]


def main() -> None:
    """Work until SIGTERM."""
    terms = msgspec.json.decode(sys.argv[2], type=Terms)
    with mutated(terms.mutation), build(terms) as harness:
        print("begun", flush=True)
        _work(harness, terms.concurrency)


def mutated(mutation: str | None) -> AbstractContextManager[Any]:
    """What breaks the protocol in this process, named MODULE:NAME; nothing where there is no name."""
    if mutation is None:
        return nullcontext()
    module, name = mutation.split(":")
    broken: AbstractContextManager[Any] = getattr(importlib.import_module(module), name)()
    return broken


def _work(harness: Harness, concurrency: int) -> None:
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    harness.work(concurrency=concurrency, stop=stop, max_crashes=CRASHES, grace=60.0, told=_tell)


def _tell(event: WorkerEvent) -> None:
    if event.error is not None:
        print(os.getpid(), event.run_id, event.what, repr(event.error), file=sys.stderr, flush=True)
