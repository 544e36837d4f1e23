"""Agents: functions that get a run and one input."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

from jumar.core.codec import codec_for
from jumar.core.naming import check_name
from jumar.core.states import Effect
from jumar.engine.flows.lifecycle import AgentPlan
from jumar.errors import UsageError
from jumar.harness.binding import hints_of
from jumar.harness.tools import ToolSpec

_TAKES_ONE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class AgentSpec:
    """What is behind a decorated agent."""

    def __init__(
        self, function: Callable[..., Any], name: str, tools: list[ToolSpec] | None, names: dict[str, Any]
    ) -> None:
        self.function = function
        self.name = name
        self.is_async = inspect.iscoroutinefunction(function)
        self._tools = tools
        self._names = names
        self._plan: AgentPlan | None = None

    @property
    def writer(self) -> str | None:
        """The name of a tool it lists that writes files, if there is one."""
        return next((tool.name for tool in self._tools or () if tool.effect is Effect.WRITE), None)

    @property
    def plan(self) -> AgentPlan:
        """How the agent is run; its annotations are read at first use."""
        if self._plan is None:
            hints = hints_of(self.function, self._names)
            if hints is None:
                raise UsageError(
                    f"an annotation of agent {self.name} names a type that cannot be found",
                    hint="Define the type before the agent, at the top of its module.",
                )
            names = list(inspect.signature(self.function).parameters)
            self._plan = AgentPlan(
                self.name,
                fingerprint(self.function),
                self.function,
                codec_for(hints.get(names[1], Any)),
                codec_for(hints.get("return", Any)),
                None if self._tools is None else frozenset(tool.name for tool in self._tools),
                self.is_async,
            )
        return self._plan


def agent_spec(function: Any, name: str | None, tools: list[ToolSpec] | None, names: dict[str, Any]) -> AgentSpec:
    """A function as an agent; UsageError where it does not take a run and one input."""
    if not inspect.isfunction(function):
        raise UsageError(f"{function!r} cannot be an agent: it is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"agent {function.__name__} is a generator", hint="Return the output instead of yielding it.")
    parameters = inspect.signature(function).parameters.values()
    if len(parameters) != 2 or any(parameter.kind not in _TAKES_ONE for parameter in parameters):
        shown = f"{function.__name__}{inspect.signature(function)}"
        raise UsageError(
            f"{shown} cannot be an agent", hint="An agent takes the run and one input, as in `def repair(run, task):`."
        )
    return AgentSpec(function, check_name("an agent", name or function.__name__), tools, names)


def fingerprint(function: Any) -> str:
    """A short digest of the agent's own code, to tell in a message that it has changed."""
    code = function.__code__
    return hashlib.sha256(code.co_code + repr(code.co_names).encode()).hexdigest()[:12]
