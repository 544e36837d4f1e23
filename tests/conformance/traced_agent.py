"""An agent that dies where it is told to, for tests of what a recovery reads.

Run as `python -m tests.conformance.traced_agent FOLDER POINT`, it starts run RUN on FOLDER/runs.db and dies at POINT
without a word. What it does outside is told in FOLDER/effects.log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jumar import Happened, Harness, NotHappened, Run

RUN = "01890000-0000-7000-8000-0000000000aa"
POINTS = ("searching", "reserved", "paid", "wiring", "deciding")


def build(folder: Path, dies_at: str = "") -> Harness:
    """A harness with the agent `repair`; where it comes to `dies_at`, the process ends there and then."""
    harness = Harness(f"sqlite:///{folder / 'runs.db'}", lease_ttl=30.0)
    log = folder / "effects.log"

    def point(name: str) -> None:
        if name == dies_at:
            os._exit(9)

    def done(effect: str) -> None:
        with log.open("a") as file:
            file.write(effect + "\n")

    @harness.tool(effect="read")
    def search(query: str) -> list[str]:
        done(f"search {query}")
        point("searching")
        return [f"{query} in line 7"]

    @harness.tool(effect="idempotent")
    def reserve(seat: str) -> str:
        done(f"reserve {seat}")
        point("reserved")
        return f"seat {seat}"

    @harness.tool(effect="external", settle=0.0, timeout=20.0)
    def pay(cents: int) -> str:
        done(f"pay {cents}")
        point("paid")
        return f"receipt {cents}"

    @pay.probe
    def _(cents: int) -> Happened[str] | NotHappened:
        done("probe")
        return Happened(f"receipt {cents}") if f"pay {cents}\n" in log.read_text() else NotHappened()

    @harness.tool(effect="external")
    def wire(cents: int) -> str:
        done(f"wire {cents}")
        point("wiring")
        return f"wired {cents}"

    def model(task: str) -> str:
        done(f"decide {task}")
        point("deciding" if task == "report" else "")
        return task.upper()

    @harness.agent
    def repair(run: Run, task: str) -> dict[str, Any]:
        plan = run.decide(model, task)
        run.plan(["scan", "order"])
        with run.step("scan"):
            hits = [run.call(search, "ERROR"), run.call(search, "WARN")]
        run.checkpoint("scanned", refs=["claim:c-17"])
        with run.step("order"):
            seat = run.call(reserve, run.value("seat", lambda: "7b"))
            receipts = [run.call(pay, 100), run.call(pay, 250)]
        wired = run.call(wire, 300)
        said = run.decide(model, "report")
        return {"plan": plan, "hits": hits, "seat": seat, "receipts": receipts, "wired": wired, "said": said}

    return harness


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2]).run("repair", "fix the site", run_id=RUN)
