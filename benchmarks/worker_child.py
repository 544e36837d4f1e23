"""A worker that is measured: a process with one agent, which begins when it is told to.

    python -m benchmarks.worker_child ADDRESS TTL CONCURRENCY [holds|until-idle]

It says `ready` once its store is open, and then reads a line before it takes anything up.  One that holds never comes
back from a read: its runs are under way until it is killed.
"""

from __future__ import annotations

import signal
import sys
import threading

from benchmarks.floors import RESULT
from jumar import Harness, Run
from jumar.engine.places import Stop

AGENT = "reader"


def made(address: str, ttl: float, *, holds: bool = False) -> Harness:
    """A harness with the agent."""
    harness = Harness(address, lease_ttl=ttl)

    @harness.tool(effect="read")
    def read(number: int) -> str:
        if holds:
            threading.Event().wait()
        return RESULT

    @harness.agent(tools=[read], name=AGENT)
    def reader(run: Run, steps: int) -> int:
        for number in range(steps):
            run.call(read, number)
        return steps

    return harness


def main() -> None:
    address, ttl, concurrency, *how = sys.argv[1:]
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with made(address, float(ttl), holds="holds" in how) as harness:
        harness.store.now()
        print("ready", flush=True)
        sys.stdin.readline()
        harness.work(concurrency=int(concurrency), stop=stop, until_idle="until-idle" in how)


if __name__ == "__main__":
    main()
