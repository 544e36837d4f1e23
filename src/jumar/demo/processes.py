"""Starting, hearing and ending the demonstration's processes.

Each child speaks JSON lines on its standard output, which a thread here reads; what it writes to standard error goes
to a file, for the case that something goes wrong. Its standard input is held open: a child ends when this process is
gone, however that came about. All that is ever written to it is a byte that lets a child go on that waits for that.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jumar
from jumar.errors import JumarError

PATIENCE = 20.0  # seconds without a word after which a child is given up
_LAST_LINES = 8


class DemoFailed(JumarError):
    """The demonstration could not be finished."""

    code = "demo-failed"
    default_safe = "Its processes are ended."
    default_hint = "Try it again; a machine that stands still for seconds can cause this."


class Child:
    """One child process.  As a context manager it is ended, if need be by SIGKILL, when the block is left."""

    def __init__(self, module: str, *args: str, directory: Path, settings: dict[str, str]) -> None:
        self._errors = directory / "processes.log"
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._errors.open("ab") as errors:
            # A group of its own: Ctrl-C is for this process, which then ends its children itself.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *args],
                cwd=directory,
                env=_environment(settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                process_group=0,
            )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, name=f"demo-{self.pid}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.put(json.loads(line))
        self._messages.put(None)

    def hear(self) -> dict[str, Any]:
        """The next thing the child says; DemoFailed where it ended, or fell silent, instead."""
        try:
            message = self._messages.get(timeout=PATIENCE)
        except queue.Empty:
            raise DemoFailed(f"process {self.pid} said nothing for {PATIENCE:.0f} s") from None
        if message is not None:
            return message
        code = self._process.wait()
        raise DemoFailed(f"process {self.pid} ended by itself with exit code {code}{self._last_words()}")

    def go_on(self) -> None:
        """Let the child go on, which waits for that; where it has ended instead, `hear` tells."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), b".")

    def _last_words(self) -> str:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return "".join(f"\n  {line}" for line in lines)

    def kill(self) -> str:
        """Send SIGKILL, wait until the process is gone, and answer the name of the signal that ended it."""
        self._process.send_signal(signal.SIGKILL)
        code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _environment(settings: dict[str, str]) -> dict[str, str]:
    """This process's environment with Jumar's own variables replaced, and with the way to this very package."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JUMAR_")}
    root = Path(jumar.__file__).resolve().parents[1]
    paths = [str(Path(path).resolve()) for path in own.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root.name not in ("site-packages", "dist-packages"):  # those every Python finds by itself
        paths.insert(0, str(root))
    if paths:
        own["PYTHONPATH"] = os.pathsep.join(paths)
    return own | settings
