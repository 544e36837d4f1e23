"""What a harness is told of: its tools and its agents."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from jumar.core.naming import check_name
from jumar.engine.policy import Fingerprint
from jumar.errors import UnknownAgent, UsageError
from jumar.harness.agents import AgentSpec, agent_spec
from jumar.harness.binding import caller_names, has_signature
from jumar.harness.options import refuse_later, seconds, several
from jumar.harness.tools import Tool, ToolOptions, ToolSpec, decorated, spec_of

Q = ParamSpec("Q")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Declaring:
    """The part of a harness that declares; `Harness` has it."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentSpec] = {}
        self._tools: dict[str, ToolSpec] = {}
        self._fingerprints: dict[str, Fingerprint] = {}

    @property
    def agents(self) -> dict[str, AgentSpec]:
        """The declared agents, loop agents among them, by their names."""
        return self._agents

    @property
    def tools(self) -> dict[str, ToolSpec]:
        """The tools that the harness knows, by their names."""
        return self._tools

    def _has_live_runs(self) -> bool:
        raise NotImplementedError

    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[Q, R]], Tool[Q, R]]:
        """Make a function a tool of this harness; see `jumar.tool` for the options."""
        names = caller_names(1)

        def decorate(function: Callable[Q, R]) -> Tool[Q, R]:
            tool: Tool[Q, R] = decorated(function, dict(options), names)
            self._add_tool(spec_of(tool))
            return tool

        # Used without an effect, as a bare decorator, it is given the function itself: then it says what is missing.
        return decorate if function is None else decorate(function)

    def _add_tool(self, spec: ToolSpec) -> None:
        known = self._tools.get(spec.name)
        if known is not None and known.function is not spec.function:
            raise UsageError(
                f"two tools are called {spec.name}", hint="Give one of them another name: tool(name='...')."
            )
        self._tools.setdefault(spec.name, spec)
        if self not in spec.harnesses:
            spec.harnesses.append(self)

    def fingerprint(self, name: str, *, timeout: float = 10.0) -> Callable[[F], F]:
        """Decorate a function without arguments that tells, as small JSON, the state of something outside: the version
        of a schema, the revision that a service runs.

        It is read with each snapshot that a checkpoint keeps, and compared when the run is resumed; what has changed
        is told in the brief, or the resume refused (`Harness(drift="refuse")`).  One that raises, answers more than
        4 KiB, or takes longer than `timeout` seconds, counts as unknown.
        """
        check_name("a fingerprint", name)
        limit = seconds("timeout", timeout, zero=False)

        def decorate(function: F) -> F:
            if name in self._fingerprints:
                raise UsageError(f"two fingerprints are called {name}", hint="Give one of them another name.")
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise UsageError(
                    f"the fingerprint {name} is no plain function",
                    hint="Write it with `def`, without arguments, be the agents async or not.",
                )
            if not has_signature(function) or any(map(_is_needed, inspect.signature(function).parameters.values())):
                raise UsageError(f"the fingerprint {name} needs arguments", hint="It is called without any.")
            self._fingerprints[name] = Fingerprint(function, 10.0 if limit is None else limit)
            return function

        return decorate

    @overload
    def agent(self, function: F, /) -> F: ...
    @overload
    def agent(
        self, /, *, tools: Iterable[Any] | None = ..., name: str | None = ..., **later: Any
    ) -> Callable[[F], F]: ...
    def agent(
        self, function: Any = None, /, *, tools: Iterable[Any] | None = None, name: str | None = None, **later: Any
    ) -> Any:
        """Make a function an agent: it gets a Run (an AsyncRun where it is `async def`) and one input.

        `tools` lists what it may call, and no others; without it, it may call any tool.
        """
        refuse_later("agent", later, self.agent)
        names = caller_names(1)
        specs = None if tools is None else [spec_of(tool) for tool in several("tools=", tools)]

        def decorate(function: Any) -> Any:
            spec = agent_spec(function, name, specs, names)
            self._declare(spec, specs or ())
            return function

        return decorate if function is None else decorate(function)

    def loop(
        self,
        *,
        tools: Iterable[Any],
        verify: Callable[[Any], Any] | None = None,
        max_steps: int = 20,
        verify_limit: int = 3,
        retries: int = 2,
        timeout: float | None = None,
        takes: Any = Any,
        returns: Any = Any,
        name: str | None = None,
        on_event: Callable[[Any], Any] | None = None,
        **later: Any,
    ) -> Callable[[F], F]:
        """Make a function a loop agent: it gets a LoopView and answers a Decision, step by step; the harness does the
        rest.

        `tools` lists what it may call.  `verify(output)` answers True, or a reason (text) that sends the output back;
        `verify_limit` refused outputs, or `max_steps` decisions without an end, fail the run.  `retries` and `timeout`
        (seconds) hold for each decision and each verification.  `takes` is the type of the input, `returns` that of
        the output, which may also be given as JSON text.  Where the function is a generator, `on_event` gets what it
        yields.
        """
        from jumar.harness.loops import LoopOptions, loop_spec  # which a program without loop agents never loads

        refuse_later("loop", later, self.loop)
        specs = [spec_of(tool) for tool in several("tools=", tools)]
        options = LoopOptions(
            verify=verify,
            max_steps=max_steps,
            verify_limit=verify_limit,
            retries=retries,
            timeout=timeout,
            takes=takes,
            returns=returns,
            on_event=on_event,
        )

        def decorate(function: F) -> F:
            self._declare(loop_spec(function, name, specs, options, self._tools), specs)
            return function

        return decorate

    def _declare(self, spec: AgentSpec, tools: Iterable[ToolSpec]) -> None:
        if spec.name in self._agents:
            raise UsageError(
                f"two agents are called {spec.name}", hint="Give one of them another name: agent(name='...')."
            )
        for tool in tools:
            self._add_tool(tool)
        self._agents[spec.name] = spec

    def _agent(self, agent: Any) -> AgentSpec:
        for spec in self._agents.values():
            if spec.function is agent or spec.name == agent:
                return spec
        name = agent if isinstance(agent, str) else getattr(agent, "__name__", repr(agent))
        known = ", ".join(sorted(self._agents)) or "none"
        raise UnknownAgent(
            f"this harness has no agent {name}",
            hint=f"Decorate it with @harness.agent, in a module that is imported. Known agents: {known}.",
        )


def _is_needed(parameter: inspect.Parameter) -> bool:
    is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_open
