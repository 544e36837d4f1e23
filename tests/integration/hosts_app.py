"""An agent on two hosts: the tools of both, and what a process of the first host does until it is killed.

Run as `hosts_app.py ADDRESS ROOT WITNESS RUN_ID stops`, it drives a run on the files of ROOT, or takes it over where
there is one.  When the tool `rewrite` has written the first half of a text that has a NUL in its middle, it says "half"
and waits until its input ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jumar import Happened, Harness, NotHappened, Run, current_call

TTL = 1.0  # seconds
HALF = "[site]\nworkers = "


def harness_on(address: str, root: Path, witness: Path, *, stops: bool = False, **options: Any) -> Harness:
    """A harness with the agent `tune`, whose tools write into the run's files and into the witness's log."""
    made = Harness(address, workspace=root, lease_ttl=TTL, **options)

    @made.tool(effect="write", paths=["{name:path}"])
    def rewrite(name: str, text: str) -> int:
        place = current_call().workspace / name
        place.parent.mkdir(exist_ok=True)
        first, _, rest = text.partition("\0")
        place.write_text(first)
        if rest and stops:
            print("half", flush=True)
            sys.stdin.read()
        place.write_text(first + rest)
        return len(text)

    @made.tool(effect="external")
    def announce(what: str) -> str:
        with witness.open("a") as log:
            log.write(f"{what}\n")
        return what

    @announce.probe
    def _(what: str) -> Happened | NotHappened:
        said = witness.read_text().splitlines() if witness.exists() else []
        return Happened(what) if what in said else NotHappened()

    @made.tool(effect="read")
    def listed() -> list[str]:
        root = current_call().workspace
        return sorted(os.fspath(each.relative_to(root)) for each in root.rglob("*"))

    @made.agent(tools=[rewrite])
    def fail_once(run: Run, task: None) -> str:
        with run.step("tuning"):
            rewrite("conf/site.ini", "[site]\nworkers = 1\n")
            if not witness.exists():
                witness.touch()
                raise RuntimeError("not yet")
        return (run.workspace / "conf" / "site.ini").read_text()

    @made.agent
    def asked(run: Run, task: None) -> bool:
        run.checkpoint("as it was")
        return run.ask("Go on?", choices=["yes", "no"]) == "yes" and (run.workspace / "conf" / "secret").exists()

    @made.agent(tools=[rewrite, announce, listed])
    def tune(run: Run, times: int) -> list[str]:
        announce("begun")
        rewrite("conf/site.ini", "[site]\nworkers = 1\n")
        run.checkpoint("tuned once")
        rewrite("notes/a b.txt", "noted\n")
        rewrite("conf/site.ini", f"{HALF}\0{times}\n")
        announce("done")
        return listed()

    return made


if __name__ == "__main__":
    _, address, root, witness, run_id, how = sys.argv
    harness = harness_on(address, Path(root), Path(witness), stops=how == "stops")
    if harness.store.run(run_id) is None:
        harness.run("tune", 8, run_id=run_id)
    else:
        harness.resume(run_id)
