"""What the demonstration adds to an agent's process: a witness that counts, and moments at which it can be killed.

`witness` appends a line to a file that Jumar knows nothing of; the agent's tools and its model do so before they
work, so the file counts what was really done, however often. `moment` tells the parent process, over standard output,
that the agent has come to a certain point; at the one the parent has chosen it goes no further, and waits to be
killed. Without the parent's settings in the environment both do nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

STOP_AT = "JUMAR_DEMO_STOP"  # the moment at which to wait for the end; empty for none
WITNESS = "JUMAR_DEMO_WITNESS"  # the file to append to
SERVICE = "JUMAR_DEMO_SERVICE"  # where the outside service listens, as host:port

_speaking = threading.Lock()


def witness(what: str, detail: str) -> None:
    """Append what is about to be done, by which process, to the witness's file."""
    path = os.environ.get(WITNESS)
    if path:
        append(path, {"what": what, "detail": detail, "pid": os.getpid(), "at": time.time()})


def append(path: str, line: dict[str, Any], *, to_disk: bool = False) -> None:
    """Append one JSON line in one write, so that lines of several processes never mix; `to_disk` waits for the disk."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
        if to_disk:
            os.fsync(file)
    finally:
        os.close(file)


def moment(name: str) -> None:
    """Tell the parent where the agent is, and wait there for the end if that was asked for."""
    stop = os.environ.get(STOP_AT)
    if stop is None:
        return
    say("moment", name=name)
    if name == stop:
        threading.Event().wait()


def say(what: str, **details: Any) -> None:
    """Tell the parent process something, as one line of JSON; tools that are called side by side speak in turn."""
    with _speaking:
        sys.stdout.write(json.dumps({"say": what, **details}) + "\n")
        sys.stdout.flush()


def end_with_parent() -> None:
    """End this process as soon as its parent is gone: it holds the other end of standard input, and writes nothing."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="demo-parent", daemon=True).start()
