"""What the demonstration adds to an agent's process: a witness that counts, and moments at which it can be killed.

`witness` appends a line to a file that Jumar knows nothing of; the agent's tools and its model do so before they
work, so the file counts what was really done, however often. `moment` tells the parent process, over standard output,
that the agent has come to a certain point; at the one the parent has chosen it goes no further, and waits to be
killed. `look` asks the parent to look at the site's files, and goes on when it has. Without the parent's settings in
the environment all three do nothing.

`stop_inside` finds a moment that no code of the agent's can name, one between two of the calls by which Jumar puts
files back: Python tells an audit hook of such calls before they are made, so nothing of Jumar's is replaced for it.
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
_answers = threading.Semaphore(0)  # how often the parent has looked


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


def look(name: str) -> None:
    """Ask the parent to look at the files as they are now, and wait until it has."""
    if STOP_AT in os.environ:
        say("look", name=name)
        _answers.acquire()


def stop_inside(name: str, folder: bytes) -> None:
    """Where the moment `name` is the chosen one: come to it right after a folder of this name was made by the system's
    own call with a name in bytes, which is how a put-back makes one, before whatever this thread asks for next.
    """
    if os.environ.get(STOP_AT) != name:
        return
    maker: list[int] = []

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if maker:
            if maker[0] == threading.get_ident():
                maker[0] = 0
                moment(name)
        elif event == "os.mkdir" and args[0] == folder:
            maker.append(threading.get_ident())

    sys.addaudithook(hear)


def say(what: str, **details: Any) -> None:
    """Tell the parent process something, as one line of JSON; tools that are called side by side speak in turn."""
    with _speaking:
        sys.stdout.write(json.dumps({"say": what, **details}) + "\n")
        sys.stdout.flush()


def end_with_parent() -> None:
    """End this process as soon as its parent is gone: it holds the other end of standard input, and writes to it only
    that it has looked, a byte each time.
    """

    def watch() -> None:
        while seen := os.read(0, 1024):
            _answers.release(len(seen))
        os._exit(1)

    threading.Thread(target=watch, name="demo-parent", daemon=True).start()
