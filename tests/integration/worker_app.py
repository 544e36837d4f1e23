"""The app that worker processes serve in the tests, and a folder to run them in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from jumar import Harness
from jumar.testing.witness import Line, Witness
from tests.integration.cli_helpers import SECONDS, Site

APP = """
import os
import time
from pathlib import Path

from jumar import Harness
from jumar.testing.witness import Witness

harness = Harness("sqlite:///runs.db", lease_ttl=1.5)
patient = Harness("sqlite:///runs.db", lease_ttl=30.0)
witness = Witness("witness", by=str(os.getpid()))


def reached(name):
    Path(name).touch()
    while not Path("go").exists():
        time.sleep(0.01)


@harness.tool(effect="external")
def pay(cents: int) -> int:
    witness.send(f"pay {cents}")
    return cents


@harness.tool(effect="external")
def hold_and_pay(cents: int) -> int:
    witness.send(f"pay {cents}")
    reached("paying")
    return cents


@harness.tool(effect="idempotent")
def hold_and_order(part: str) -> str:
    witness.apply(part)
    reached("ordering")
    return part


@harness.tool(effect="external")
def deadly(cents: int) -> int:
    witness.note("died", "deadly")
    if not Path("mended").exists():
        os._exit(7)
    witness.send("deadly")
    return cents


@harness.agent
def pays(run, cents: int) -> int:
    return run.call(pay, cents)


@harness.agent
def holds_and_pays(run, cents: int):
    return [run.call(hold_and_pay, cents), run.call(pay, cents + 1)]


@harness.agent
def orders(run, part: str):
    return run.call(hold_and_order, part)


@harness.agent
def kills(run, task):
    run.call(pay, 1)
    witness.note("died", "kills")
    if not Path("mended").exists():
        os._exit(7)
    return "alive"


@harness.agent
def kills_in_a_call(run, task):
    return run.call(deadly, 5)


@harness.agent
def hangs(run, task):
    reached("hanging")


@harness.agent
def asks(run, task):
    print("a word of the agent's own")
    return run.ask("Go on?", choices=["yes"])


@patient.agent(name="pays")
def patient_pays(run, cents: int) -> int:
    return cents
"""


class Yard(Site):
    """A folder with the app in it, where worker processes are started as a user starts them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "yard.py").write_text(APP, encoding="utf-8")
        self.environment["JUMAR_APP"] = "yard:harness"
        self._workers: list[WorkerProcess] = []

    def begin(self, agent: str, task: Any = None) -> str:
        """Start a run, as a web server would; answers its id."""
        program = (
            "import json, sys, yard; "
            "print(yard.harness.start(sys.argv[1], json.loads(sys.argv[2]))); yard.harness.close()"
        )
        return self.python(program, agent, json.dumps(task))[0]

    def begin_many(self, agent: str, tasks: list[Any]) -> list[str]:
        """Start a run for each task; answers their ids."""
        program = (
            "import json, sys, yard\n"
            "for task in json.loads(sys.argv[2]): print(yard.harness.start(sys.argv[1], task))\n"
            "yard.harness.close()"
        )
        return self.python(program, agent, json.dumps(tasks))

    def python(self, program: str, *words: str) -> list[str]:
        """The lines that a program prints."""
        import sys

        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def worker(self, *words: str) -> WorkerProcess:
        """Start a worker; it has begun when this returns."""
        process = WorkerProcess(self.start("worker", "--json", "--poll", "0.2", *words))
        self._workers.append(process)
        assert process.hear("started")["concurrency"] >= 1
        return process

    def view(self, run_id: str) -> Any:
        """A run, as it is in the store."""
        with Harness(f"sqlite:///{self.folder / 'runs.db'}") as harness:
            return harness.show(run_id)

    def crashes(self, run_id: str) -> int:
        """How many processes have ended under a run, as the store counts them."""
        with Harness(f"sqlite:///{self.folder / 'runs.db'}") as harness:
            run = harness.store.run(run_id)
            assert run is not None
            return run.crashes

    def witnessed(self) -> list[Line]:
        """What really happened, in order."""
        return Witness(self.folder / "witness").lines()

    def end(self) -> None:
        """Leave no process behind."""
        self.go()
        for worker in self._workers:
            worker.kill()


class WorkerProcess:
    """A worker in a process of its own, whose lines can be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.heard: list[dict[str, Any]] = []
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def hear(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait until it tells of such an event; what it told before counts too."""
        wanted = {"event": event, **fields}
        for told in self.heard:
            if wanted.items() <= told.items():
                return told
        while True:
            try:
                line = self._lines.get(timeout=SECONDS)
            except Empty:
                raise AssertionError(f"it told of no {wanted}, but {self.heard}") from None
            assert line, f"it ended and told of no {wanted}, but {self.heard}; {self._complaints()}"
            self.heard.append(json.loads(line))
            if wanted.items() <= self.heard[-1].items():
                return self.heard[-1]

    def _complaints(self) -> str:
        assert self.process.stderr is not None
        return "" if self.process.stderr.closed else self.process.stderr.read()

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def ends(self) -> tuple[int, str]:
        """Its exit code, and what it wrote on standard error."""
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code, self._complaints()

    def kill(self) -> None:
        """SIGKILL, where it is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
