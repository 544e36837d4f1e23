"""What the tests of the command line share: a small app on disk, and ways to run `python -m jumar` as a user does."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jumar.cli.main import main

SECONDS = 60.0  # after which something that never came is a failure

APP = '''
import asyncio
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from jumar import Happened, Harness, NotHappened, Usage

harness = Harness("sqlite:///runs.db")
quick = Harness("sqlite:///runs.db", lease_ttl=2.0)


def reached(name):
    """Leave a mark, then wait until the test says `go`."""
    Path(name).touch()
    while not Path("go").exists():
        time.sleep(0.01)


@dataclass
class Site:
    name: str
    pages: int = 1


@harness.tool(effect="read")
def look(name: str) -> list[str]:
    return [f"{name} one", f"{name} two"]


@harness.tool(effect="read")
def hold(name: str) -> str:
    reached(name)
    return name


@harness.tool(effect="read")
async def ahold(name: str) -> str:
    Path(name).touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return name


@harness.tool(effect="external")
def pay(cents: int) -> int:
    raise RuntimeError("the line went dead")


@harness.tool(effect="external")
def hold_and_pay(cents: int) -> int:
    reached("paying")
    return cents


@harness.tool(effect="external", timeout=0.05, settle=36_000)
def slow(cents: int) -> int:
    threading.Event().wait()


@slow.probe
def _(cents: int):
    return NotHappened()


@harness.tool(effect="read")
def lose(query: str) -> str:
    raise ValueError("no such file: conf/site.ini")


@harness.agent
def fine(run, task):
    print("a word of the agent's own")
    with run.step("scan"):
        found = run.call(look, "page")
    return {"task": task, "found": found}


@harness.agent
def typed(run, site: Site) -> Site:
    return Site(site.name, site.pages + 1)


@harness.agent
def fails(run, task):
    run.call(look, "page")
    raise ValueError("the site has no pages")


@harness.agent
def fails_at_length(run, task):
    raise ValueError("page one is missing, and so are pages two, three, four, five, six, seven, eight and nine")


@harness.agent
def fails_in_a_call(run, task):
    run.call(lose, "z")


@harness.agent
def leaves(run, task):
    run.call(look, "page")
    raise SystemExit(0)


@harness.agent
def pays(run, task):
    return run.call(pay, 1200)


@harness.agent
def slows(run, task):
    return run.call(slow, 1200)


@harness.agent
def holds(run, task):
    return run.call(hold, "held")


@harness.agent
def looks_and_holds(run, task):
    return [run.call(look, "page"), run.call(hold, "held")]


@harness.agent
async def aholds(run, task):
    return await run.call(ahold, "held")


@harness.agent
def holds_and_pays(run, task):
    return run.call(hold_and_pay, 5)


# --- A run that has everything the timeline shows; it dies once, at its order. ---


@quick.tool(effect="read")
def search(query: str) -> list[str]:
    return [query + chr(27) + "[31m", "\\u65e5\\u672c\\u8a9e" * 40]


@quick.tool(effect="read", retries=2)
def flaky(query: str) -> str:
    if not Path("tried").exists():
        Path("tried").touch()
        raise ConnectionError("reset")
    return query


@quick.tool(effect="read")
def broken(query: str) -> str:
    raise ValueError("no such file: conf/site.ini")


@quick.tool(effect="idempotent")
def order(part: str) -> str:
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@quick.tool(effect="external")
def send(to: str) -> str:
    raise RuntimeError("the line went dead")


def model(prompt):
    return "search, then order", Usage(input_tokens=900, output_tokens=40, usd=0.012)


@quick.agent
def repair(run, task):
    run.decide(model, task)
    run.plan(["scan", "fix"])
    with run.step("scan"):
        run.gather(search.bind("a"), search.bind("b"), lambda: (run.call(search, "c"), run.call(flaky, "d")))
        with run.step("deep"):
            run.map(search, ["x", "y"])
            try:
                run.call(broken, "z")
            except Exception:
                pass
    with run.step("fix"):
        run.call(order, "disk")
        run.checkpoint("before sending", refs=["claim:c-17"])
        run.call(send, "shop")


@quick.agent
def dies(run, task):
    run.call(order, "disk")
    return "came back"
'''


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)


class Site:
    """A folder with the app in it, where commands are run as a user runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site_app.py").write_text(APP)
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("JUMAR_") and key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")
        }
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self.environment["PYTHONIOENCODING"] = "utf-8"

    def jumar(self, *words: str, stdin: str | None = None, **environment: str) -> Done:
        """Run `python -m jumar` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "jumar", *words],
            cwd=self.folder,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def here(self, *words: str, stdin: str = "", **environment: str) -> Done:
        """Run the same command in this process, which is much faster; what it imported is forgotten afterwards."""
        environment = {**self.environment, **environment}
        encoding = environment["PYTHONIOENCODING"]
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
        modules, path = set(sys.modules), list(sys.path)
        with (
            patch.dict(os.environ, environment, clear=True),
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
            chdir(self.folder),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = main(list(words))
            finally:  # else one test's app would be the next one's
                sys.path[:] = path
                for name in set(sys.modules) - modules:
                    if str(self.folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                        del sys.modules[name]
        return Done(code, *(stream.buffer.getvalue().decode("utf-8") for stream in (out, err)))  # type: ignore[attr-defined]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `python -m jumar` and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "jumar", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_file(self, name: str) -> None:
        """Wait until a process has left its mark."""
        deadline = time.monotonic() + SECONDS
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"{name} never appeared"
            time.sleep(0.01)

    def go(self) -> None:
        """Let the processes that wait go on."""
        (self.folder / "go").touch()

    def last(self, *more: str) -> Any:
        """The newest run, as `show --json` tells it."""
        return self.here("show", "last", "--store", "sqlite:///runs.db", "--json", *more).json


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, site: Site, columns: int, *words: str, **environment: str) -> None:
        env = {**site.environment, "TERM": "xterm-256color", **environment}
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jumar", *words],
            cwd=site.folder,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def read_until(self, wanted: str) -> str:
        """Read until the terminal has shown this."""
        while wanted not in self.text:
            assert self._read(), f"the terminal never showed {wanted!r}: {self.text!r}"
        return self.text

    def end(self) -> str:
        """Everything the terminal showed until the command ended."""
        while self._read():
            continue
        self.process.wait(SECONDS)
        os.close(self._master)
        return self.text

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # what Linux says once the other side is closed
                raise
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)
