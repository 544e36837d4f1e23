"""Workers on PostgreSQL: how many advances a second some processes of them make, and how long it takes until the runs
of one that was killed are taken over.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measuring import Figure, quartiles
from benchmarks.postgres import served
from benchmarks.sizes import Sizes
from benchmarks.worker_child import AGENT, made
from jumar import Harness
from jumar.core.states import EventKind, Status
from jumar.core.store import RunFilter

_CONCURRENCY = 8
_LONG = 30.0  # a lease that does not run out meanwhile
_MOST_SECONDS = 120.0


def measure_workers(directory: Path, sizes: Sizes) -> list[Figure]:
    """Advances a second of one to four processes, on runs that are there when they begin."""
    speeds: dict[int, list[float]] = {count: [] for count in sizes.workers}
    with served(directory) as address, made(address, _LONG) as harness:
        for turn in range(sizes.worker_rounds):
            for count in sizes.workers if turn % 2 else reversed(sizes.workers):
                speeds[count].append(_advances_a_second(harness, address, count, sizes))
    return [
        Figure(
            f"workers-{count}",
            f"{count} worker process{'es' if count > 1 else ''} on PostgreSQL",
            "advances/s",
            None,
            median(speeds[count]),
            quartiles(speeds[count]),
            notes=(
                f"{sizes.worker_runs} runs of {sizes.worker_steps} reads, {_CONCURRENCY} at a time in each process",
            ),
        )
        for count in sizes.workers
    ]


def _advances_a_second(harness: Harness, address: str, count: int, sizes: Sizes) -> float:
    run_ids = [harness.start(AGENT, sizes.worker_steps) for _ in range(sizes.worker_runs)]
    with ExitStack() as stack:
        children = [stack.enter_context(_child(address, _LONG, "until-idle")) for _ in range(count)]
        began = time.perf_counter()
        for child in children:
            _tell(child)
        for child in children:
            if child.wait(_MOST_SECONDS) != 0:
                raise AssertionError(f"a worker ended with {child.returncode}")
        taken = time.perf_counter() - began
    runs = [harness.store.run(run_id) for run_id in run_ids]
    if any(run is None or run.status is not Status.COMPLETED for run in runs):
        raise AssertionError("the workers have left a run")
    return sum(run.version for run in runs if run is not None) / taken


def measure_takeovers(directory: Path, sizes: Sizes) -> list[Figure]:
    """From the kill of a worker to the claim by another one, for each of its runs."""
    with served(directory) as address, made(address, sizes.ttl) as harness:
        taken = [each for turn in range(sizes.kills) for each in _takeovers(harness, address, sizes, turn)]
    middle, late = _percentile(taken, 50), _percentile(taken, 99)
    told = (
        f"p50 {middle:.2f} s, p99 {late:.2f} s, longest {max(taken):.2f} s of {len(taken)}; the ttl is {sizes.ttl:g} s"
    )
    return [
        Figure(
            f"takeover-{name}",
            f"from kill -9 of a worker to the takeover of its runs on PostgreSQL, {name}, over the ttl",
            "x",
            None,
            seconds / sizes.ttl,
            floor_us=sizes.ttl * 1e6,
            jumar_us=seconds * 1e6,
            notes=(told,) if name == "p99" else (),
        )
        for name, seconds in (("p50", middle), ("p99", late))
    ]


def _takeovers(harness: Harness, address: str, sizes: Sizes, turn: int) -> list[float]:
    """Kill a worker that has all runs, at another moment between two of its renewals each turn; answers for how many
    seconds each run was nobody's.
    """
    run_ids = [harness.start(AGENT, 1) for _ in range(sizes.killed_runs)]
    with _child(address, sizes.ttl, "holds", places=sizes.killed_runs) as victim:
        _tell(victim)
        _await(lambda: len(harness.store.runs(RunFilter(status=Status.RUNNING, limit=1000))) == len(run_ids))
        with _child(address, sizes.ttl, places=sizes.killed_runs) as heir:
            _tell(heir)
            time.sleep(sizes.ttl / 3 * (1 + turn / sizes.kills))
            killed_at = time.time()
            victim.kill()
            _await(lambda: not harness.store.runs(RunFilter(status=Status.RUNNING, limit=1)))
            heir.send_signal(signal.SIGTERM)
            heir.wait(_MOST_SECONDS)
    found = []
    for run_id in run_ids:
        run = harness.store.run(run_id)
        assert run is not None
        claims = [each.at for each in harness.store.events(run.run_no) if each.kind is EventKind.TAKEN_OVER]
        found += [at / 1000 - killed_at for at in claims[:1]]
    if len(found) != len(run_ids):
        raise AssertionError("a run was not taken over")
    return found


@contextmanager
def _child(address: str, ttl: float, *how: str, places: int = _CONCURRENCY) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that is ready to begin; killed at the end of the block, unless it has ended."""
    command = [sys.executable, "-m", "benchmarks.worker_child", address, str(ttl), str(places), *how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            if child.stdout.readline() != b"ready\n":
                raise AssertionError("a worker did not begin")
            yield child
        finally:
            child.kill()


def _tell(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.flush()


def _await(has_come: object) -> None:
    assert callable(has_come)
    until = time.monotonic() + _MOST_SECONDS
    while not has_come():
        if time.monotonic() > until:
            raise AssertionError("it took too long")
        time.sleep(0.02)


def _percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]
