"""Loop agents: a function that decides, driven by the harness."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Sequence
from typing import Any

from msgspec.structs import replace

from jumar.core.codec import codec_for
from jumar.core.naming import check_name
from jumar.engine.flows.lifecycle import AgentPlan
from jumar.engine.flows.planning import LoopPlan, LoopTool
from jumar.engine.policy import Codec
from jumar.errors import UsageError
from jumar.harness.agents import AgentSpec, fingerprint
from jumar.harness.calling import AnswerCodec
from jumar.harness.options import seconds, whole
from jumar.harness.streams import reading
from jumar.harness.tools import ToolSpec

_TAKES_ONE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MOST_STEPS = 1_000_000


class LoopOptions:
    """The options of `harness.loop`, checked."""

    def __init__(
        self,
        *,
        verify: Any,
        max_steps: Any,
        verify_limit: Any,
        retries: Any,
        timeout: Any,
        takes: Any,
        returns: Any,
        on_event: Any,
    ) -> None:
        self.verify: Callable[..., Any] | None = verify
        self.max_steps = whole("max_steps", max_steps, 1, _MOST_STEPS)
        self.verify_limit = whole("verify_limit", verify_limit, 1)
        self.retries = whole("retries", retries)
        self.timeout = seconds("timeout", timeout, zero=False)
        self.input_codec = codec_for(takes)
        self.output_codec: Codec = codec_for(Any) if returns is Any else AnswerCodec(codec_for(returns))
        self.on_event = on_event
        if verify is not None and not callable(verify):
            raise UsageError(f"verify= takes a function of the output, not {type(verify).__name__}")
        if on_event is not None and not callable(on_event):
            raise UsageError(f"on_event= takes a function of one event, not {type(on_event).__name__}")


class LoopSpec(AgentSpec):
    """What is behind a decorated loop agent."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        tools: Sequence[ToolSpec],
        options: LoopOptions,
        known: Container[str],
    ) -> None:
        super().__init__(function, name, list(tools), {})
        self._loop_tools = tools
        self._options = options
        self._known = known

    @property
    def plan(self) -> AgentPlan:
        """How the agent is run."""
        if self._plan is None:
            options = self._options
            self._plan = AgentPlan(
                self.name,
                fingerprint(self.function),
                self.function,
                options.input_codec,
                options.output_codec,
                frozenset(tool.name for tool in self._loop_tools),
                self.is_async,
                self._loop_plan(),
            )
        return self._plan

    def _loop_plan(self) -> LoopPlan:
        options, waits = self._options, self.is_async
        tools = {}
        for spec in self._loop_tools:
            # A plain tool of an async agent takes a thread, so that the loop and the other calls go on meanwhile.
            policy = replace(spec.policy, threaded=True) if waits and not spec.is_async else spec.policy
            tools[spec.name] = LoopTool(policy, spec.function, spec.is_async)
        return LoopPlan(
            self.name,
            reading(self.function, options.on_event, timeout=options.timeout, waits=waits),
            tools,
            self._known,
            options.verify,
            options.max_steps,
            options.verify_limit,
            options.retries,
            options.timeout,
            options.output_codec,
            waits,
        )


def loop_spec(
    function: Any, name: str | None, tools: Sequence[ToolSpec], options: LoopOptions, known: Container[str]
) -> LoopSpec:
    """A function as a loop agent; UsageError where it does not take one view, or could not make its calls."""
    if not inspect.isfunction(function):
        raise UsageError(f"{function!r} cannot be a loop agent: it is no function")
    if inspect.isasyncgenfunction(function):
        raise UsageError(
            f"loop agent {function.__name__} is an async generator, which can return nothing",
            hint="Return the Decision instead of yielding it; pass what is streamed to a function of your own.",
        )
    parameters = inspect.signature(function).parameters.values()
    if len(parameters) != 1 or any(parameter.kind not in _TAKES_ONE for parameter in parameters):
        shown = f"{function.__name__}{inspect.signature(function)}"
        raise UsageError(
            f"{shown} cannot be a loop agent",
            hint="A loop agent takes the view, as in `def operator(view):`, and returns a Decision.",
        )
    spec = LoopSpec(function, check_name("an agent", name or function.__name__), tools, options, known)
    if spec.is_async:
        return spec
    awaited = next((tool.name for tool in tools if tool.is_async), None)
    if awaited is None and inspect.iscoroutinefunction(options.verify):
        awaited = "verify"
    if awaited is not None:
        raise UsageError(
            f"{awaited} is async, and loop agent {spec.name} is a plain one",
            hint="Write the agent with `async def`, or that function without.",
        )
    return spec
