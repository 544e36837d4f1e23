"""`python -m benchmarks`: measure, and print the table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    calls,
    concurrency,
    disk,
    files,
    hot,
    importing,
    loops,
    machine,
    peers,
    postgres,
    report,
    resuming,
    rollback,
    workers,
    writes,
)
from benchmarks.measuring import Figure
from benchmarks.sizes import FULL, QUICK, TINY, Sizes

Measure = Callable[[Path, Sizes], list[Figure]]

ROWS: dict[str, Measure] = {
    "call": calls.measure_calls,
    "call-asyncio": calls.measure_async_calls,
    "call-hot": hot.measure_hot_calls,
    "runs-asyncio": concurrency.measure_async_runs,
    "runs-threads": concurrency.measure_threaded_runs,
    "resume": resuming.measure_resume,
    "resume-asyncio": resuming.measure_async_resume,
    "loop-turn": loops.measure_turns,
    "loop-resume": loops.measure_loop_resume,
    "loop-messages": loops.measure_messages,
    "disk": disk.measure_disk,
    "write-call": writes.measure_writes,
    "import": importing.measure_import,
    "files": files.measure_files,
    "rollback-1000": rollback.measure_rollback,
    "postgres-call": postgres.measure_calls,
    "postgres-runs": postgres.measure_runs,
    "workers": workers.measure_workers,
    "takeover": workers.measure_takeovers,
    "peers": peers.measure_peers,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for; 0 where every budget is met, 1 where one is not."""
    options = _parser().parse_args(arguments)
    place = options.dir if options.dir is not None else machine.default_directory()
    if machine.is_in_memory(place):
        print(f"Warning: {place} is in memory, where a commit costs next to nothing.", file=sys.stderr)
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="jumar-benchmarks-", dir=place) as fresh:
        facts = machine.facts(Path(fresh), sizes.flushes)
        try:
            for row in options.only or ROWS:
                print(f"measuring {row} ...", file=sys.stderr)
                directory = Path(fresh, row)
                directory.mkdir()
                figures += ROWS[row](directory, sizes)
        finally:
            postgres.stop_server()
    if options.json:
        print(report.as_json(figures, facts))
    elif options.page is not None:
        report.put_into(options.page, report.markdown(figures, facts))
    elif options.markdown:
        print(report.markdown(figures, facts))
    else:
        report.show(figures, facts)
    return 0 if all(figure.is_met for figure in figures) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Jumar beside its floor, in one run.")
    parser.add_argument("--only", action="append", choices=list(ROWS), metavar="ROW", help=f"one of {', '.join(ROWS)}")
    parser.add_argument("--dir", type=Path, help="where to make the fresh directory with the databases")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer repetitions: rougher figures")
    size.add_argument("--tiny", action="store_true", help="a few of everything, to see that it runs: no figures at all")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for a program")
    form.add_argument("--markdown", action="store_true", help="for a page of documentation")
    form.add_argument("--page", type=Path, help="put the markdown between the two marks of this page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
