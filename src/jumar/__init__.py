"""Jumar makes an AI agent's run durable and undoable.

It wraps the agent you have.  After a crash at any instant the run goes on from its last recorded fact; a confirmed
effect is never repeated; an effect whose outcome is unknown is never guessed at.  Start with `Harness`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar import errors
from jumar.core.codec import register_codec
from jumar.core.records import Usage
from jumar.core.verdicts import Happened, NotHappened, Unknown
from jumar.engine.scope import CurrentCall, current_call
from jumar.errors import NotApplied
from jumar.harness.harness import Harness
from jumar.harness.results import RunResult
from jumar.harness.run import Run
from jumar.harness.tools import Tool, tool

if TYPE_CHECKING:
    from jumar.core.decisions import Decision, ToolCall
    from jumar.harness.async_run import AsyncRun
    from jumar.harness.view import LoopView

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

# What a plain program need not load: AsyncRun brings asyncio with it, the others are for loop agents.
_LATER = {
    "AsyncRun": "jumar.harness.async_run",
    "Decision": "jumar.core.decisions",
    "LoopView": "jumar.harness.view",
    "ToolCall": "jumar.core.decisions",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'jumar' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
