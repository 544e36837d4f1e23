"""Jumar makes an AI agent's run durable and undoable.

It wraps the agent you have.  After a crash at any instant the run goes on from its last recorded fact; a confirmed
effect is never repeated; an effect whose outcome is unknown is never guessed at.  Start with `Harness`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar import errors
from jumar.core.codec import register_codec
from jumar.core.decisions import Decision, ToolCall
from jumar.core.records import Usage
from jumar.core.verdicts import Happened, NotHappened, Unknown
from jumar.engine.scope import CurrentCall, current_call
from jumar.errors import NotApplied
from jumar.harness.harness import Harness
from jumar.harness.results import RunResult
from jumar.harness.run import Run
from jumar.harness.tools import Tool, tool
from jumar.harness.view import LoopView

if TYPE_CHECKING:
    from jumar.harness.async_run import AsyncRun

__version__ = "0.1.0"

__all__ = [
    "AsyncRun",
    "CurrentCall",
    "Decision",
    "Happened",
    "Harness",
    "LoopView",
    "NotApplied",
    "NotHappened",
    "Run",
    "RunResult",
    "Tool",
    "ToolCall",
    "Unknown",
    "Usage",
    "current_call",
    "errors",
    "register_codec",
    "tool",
]


def __getattr__(name: str) -> Any:
    # AsyncRun brings asyncio with it, which a plain program need not load.
    if name == "AsyncRun":
        from jumar.harness.async_run import AsyncRun

        return AsyncRun
    raise AttributeError(f"module 'jumar' has no attribute {name!r}")
