"""Starting the processes of a sweep, hearing them, and seeing to it that each of them ends.

A process gets modules from where this one has them, and a case's own folder as its working directory.  What it and
the agent print goes to a log in that folder.  It leads a process group: whatever it started itself is gone once it is.
Its end is seen through a file descriptor for the process, so nobody looks again and again whether it has come.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from jumar.testing.restarts_line import Answers, Orders, Told, decode_told, encode

LOG = "processes.log"
_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from jumar.testing.restarts_child import main; main()"
)
_LAST_LINES = 20


class Overdue(Exception):
    """A process was silent past its deadline."""


class Process:
    """One process of a case; as a context manager, one that is gone when the block is left."""

    def __init__(self, orders: Orders, folder: Path, env: Mapping[str, str], deadline: float) -> None:
        self._deadline = deadline
        self._buffer = b""
        self._lines: list[bytes] = []
        self._over = False  # nothing more comes out of the pipe
        self._heard, theirs = os.pipe()
        os.set_blocking(self._heard, False)
        try:
            with (folder / LOG).open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _BEGIN, json.dumps(_path())],
                    cwd=folder,
                    env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(env),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs,),
                    process_group=0,
                )
        except BaseException:
            os.close(self._heard)
            raise
        finally:
            os.close(theirs)
        self._ended = os.pidfd_open(self._process.pid)
        self._give_up = time.monotonic() + deadline
        self._say(encode(msgspec.structs.replace(orders, line=theirs)))

    def answer(self, answers: Answers) -> None:
        """Answer what the process asked; its deadline begins anew."""
        self._give_up = time.monotonic() + self._deadline
        self._say(encode(answers))

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead, which is noticed where it is heard
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def hear(self) -> Told | None:
        """The next thing the process tells; None where it is dead and has told all.  Overdue past the deadline."""
        while not self._lines:
            left = self._give_up - time.monotonic()
            sources = [self._ended] if self._over else [self._heard, self._ended]
            ready = select.select(sources, [], [], max(0.0, left))[0]
            if not ready:
                raise Overdue
            # What it told before its death is in the pipe by now, even where only the death was seen.
            if (self._over or not self._read()) and self._ended in ready:
                return None
        return decode_told.decode(self._lines.pop(0))

    def _read(self) -> bool:
        """Take what is in the pipe: whether that was anything."""
        try:
            data = os.read(self._heard, 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._lines += lines
        self._over = not data
        return bool(data)

    def kill(self) -> None:
        """SIGKILL, for the process and all it started."""
        # Until it has been waited for, its id and its group's are its own, whether it is alive or not.
        os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Make sure that it has ended; answers the exit code, negative for a signal."""
        if self._process.returncode is None:
            self.kill()
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self._heard)
        os.close(self._ended)


def _path() -> list[str]:
    """Where this process finds modules, from any folder."""
    return [str(Path(entry).resolve()) for entry in sys.path if isinstance(entry, str)]


def last_lines(folder: Path) -> str:
    """The end of what the processes of a case printed."""
    try:
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
