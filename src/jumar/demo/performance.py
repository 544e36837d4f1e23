"""From the options to the exit code: a directory, the play in it, and what is told of it."""

from __future__ import annotations

import json as json_module
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from jumar.demo.figures import ActResult
from jumar.demo.piece import Piece
from jumar.demo.piece_loop import LOOP
from jumar.demo.piece_plain import PLAIN
from jumar.demo.play import play
from jumar.demo.processes import DemoFailed
from jumar.errors import UsageError

Show = Callable[[str, str], None]

_PIECES = {piece.agent: piece for piece in (PLAIN, LOOP)}


def perform(agent: str, *, json: bool, keep: str | None, show: Show | None, console: Any) -> int:
    """See `jumar.demo.run_demo`."""
    piece = _PIECES.get(agent)
    if piece is None:
        raise UsageError(f"the demonstration has no agent {agent}", hint=f"Its agents are {' and '.join(_PIECES)}.")
    directory = _directory(keep)
    is_kept = keep is not None
    try:
        with _signals_like_ctrl_c():
            return _figures(piece, directory, is_kept) if json else _story(piece, directory, is_kept, show, console)
    except BrokenPipeError:
        raise  # whoever read our output has gone
    except (DemoFailed, OSError) as error:
        is_kept = True  # what there is tells what went wrong
        raise DemoFailed(
            f"the demonstration could not be finished: {error.what if isinstance(error, DemoFailed) else error}",
            safe=f"Its processes are ended. What there is so far lies in {directory}.",
        ) from error
    finally:
        if not is_kept:
            shutil.rmtree(directory, ignore_errors=True)


def _figures(piece: Piece, directory: Path, is_kept: bool) -> int:
    result = play(piece, directory, _silent, _silent)
    print(json_module.dumps(result.to_json() | {"kept": is_kept}, indent=2))
    return 0 if result.ok else 1


def _silent(*_: object) -> None:
    """Tell nothing."""


def _story(piece: Piece, directory: Path, is_kept: bool, show: Show | None, console: Any) -> int:
    from jumar.demo.telling import Teller

    teller = Teller(console)

    def ended(store: str, act: ActResult) -> None:
        teller.report(act)
        if show is None:
            teller.timeline(act)
        else:
            teller.heading("The run")
            show(store, act.run_id)
        teller.table(act)

    teller.open(piece, directory)
    with teller:
        result = play(piece, directory, teller.beat, ended)
    teller.close(result, is_kept)
    return 0 if result.ok else 1


def _directory(keep: str | None) -> Path:
    """A fresh directory; UsageError where `keep` is not one and cannot become one."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="jumar-demo-")).resolve()
    try:
        path = Path(keep).resolve()
        str(path).encode()  # the database driver takes no other names
        path.mkdir(parents=True, exist_ok=True)
        taken = next(path.iterdir(), None)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{keep!r} cannot be used as a directory: {error}", hint="Name a directory that can be made."
        ) from error
    if taken is not None:
        raise UsageError(
            f"{path} is not empty", hint="Name a directory that is not there yet, so that nothing of yours is touched."
        )
    return path


@contextmanager
def _signals_like_ctrl_c() -> Iterator[None]:
    """Treat a plain kill, or a terminal that is closed, like Ctrl-C, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
