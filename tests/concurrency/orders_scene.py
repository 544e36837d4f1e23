"""What the workers of the tests of orders do: an agent that pays, and people who answer and steer from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar import Harness, Run
from jumar.testing.witness import Witness
from tests.concurrency.workers import Line

RUN = "01a00000-0000-7000-8000-000000000001"
OTHER = "01a00000-0000-7000-8000-000000000002"


def scene(line: Line | None, folder: Path, by: str, *, pauses: bool = False, ttl: float = 30.0) -> Harness:
    """A harness with an agent `payer` that pays twice; it pauses inside the first payment where `pauses` says so."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=ttl)
    witness = Witness(folder / "witness", by=by)

    @harness.tool(effect="external", identity=lambda cents: f"pay:{cents}", identity_scope="store")
    def pay(cents: int) -> int:
        witness.send("pay")
        if pauses and cents == 1 and line is not None:
            line.pause("paying")
        return cents

    @harness.tool(effect="external", approval="always")
    def wire(cents: int) -> int:
        witness.send("wire")
        return cents

    @harness.agent
    def payer(run: Run, task: Any) -> Any:
        return run.call(pay, 1), run.call(pay, 2)

    @harness.agent
    def wirer(run: Run, task: Any) -> Any:
        return run.call(wire, 1)

    return harness


def drives(line: Line, folder: str, by: str, agent: str, run_id: str, ttl: float) -> str:
    """Start a run and drive it; answers its status."""
    with scene(line, Path(folder), by, pauses=True, ttl=ttl) as harness:
        return harness.run(agent, run_id=run_id).status


def resumes(line: Line, folder: str, by: str, ttl: float) -> str:
    """Take the run up, once told to, waiting for its lease; answers its status."""
    with scene(line, Path(folder), by, ttl=ttl) as harness:
        line.pause("ready")
        return harness.resume(RUN).status


def resumes_due(line: Line, folder: str, by: str, ttl: float) -> str:
    """Take up, once told to, whatever can go on; answers how many runs that were."""
    with scene(line, Path(folder), by, ttl=ttl) as harness:
        line.pause("ready")
        return str(len(harness.resume_due()))


def orders(line: Line, folder: str, by: str, order: str, waits: bool) -> str:
    """Give an order, once told to; answers how the run stands then."""
    with scene(line, Path(folder), by) as harness:
        line.pause("ready")
        info = getattr(harness, order)(RUN, by=by, wait=waits)
        return f"{info.status} {info.control}"


def says(line: Line, folder: str, by: str, word: str) -> str:
    """Approve or reject, once told to."""
    with scene(line, Path(folder), by) as harness:
        harness.find(RUN)  # everything is open before the word comes
        line.pause("ready")
        getattr(harness, word)(RUN, "wire.1", by=by)
        return f"{word} by {by}"
