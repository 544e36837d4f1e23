"""Tools: functions whose calls are recorded.

`harness.tool` and `jumar.tool` return a real function, with the name, docs, signature and sync or async kind of the
one they were given, so that any framework takes it as a tool of its own.  Inside a run, calling it records the call;
outside of a run, and inside another tool's body, it just calls through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Required, TypedDict, TypeVar, Unpack, overload

from msgspec.structs import replace

from jumar.core.codec import codec_for
from jumar.core.naming import check_key, check_name
from jumar.core.path_templates import parse
from jumar.core.states import CallKind, Effect
from jumar.engine.policy import ToolPolicy
from jumar.engine.scope import current_scope
from jumar.errors import NotSupported, UsageError
from jumar.harness.binding import Binder, caller_names, has_signature, hints_of
from jumar.harness.options import (
    approval_named,
    did_you_mean,
    effect_named,
    exception_types,
    hot_named,
    scope_named,
    seconds,
    several,
    strategy_named,
    whole,
)

if TYPE_CHECKING:
    from jumar.harness.declaring import Declaring

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])

_SPEC = "__jumar_tool__"
_BODIES_OF_TOOLS = (CallKind.TOOL, CallKind.COMPENSATION)  # in which other tools just run


class Tool(Protocol[P, R_co]):
    """A decorated tool: call it as the function it is, or give it to `run.call`, `run.map` and `run.gather`."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the tool: recorded inside a run, plainly outside of one."""
        ...

    def probe(self, function: F) -> F:
        """Decorate the function that says, with the tool's own arguments, whether a call happened."""
        ...

    def compensate(self, function: F) -> F:
        """Decorate the function that undoes a call when its run is rolled back: it gets what the call returned, then
        the tool's own arguments.
        """
        ...

    def using(
        self,
        *,
        timeout: float | None = ...,
        retries: int = ...,
        key: str | None = ...,
        approval: str | None = ...,
        strategy: str = ...,
        durability: str | None = ...,
    ) -> Tool[P, R_co]:
        """The same tool with other settings for one call."""
        ...

    @overload
    def bind(self: Tool[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> Bound[R]: ...
    @overload
    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]: ...
    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """The tool with its arguments, for `run.gather`."""
        ...


class Bound(Generic[R_co]):
    """A tool with its arguments, not called yet."""

    __slots__ = ("args", "kwargs", "tool")

    def __init__(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tool = tool
        self.args = args
        self.kwargs = kwargs


class ToolSpec:
    """What is behind a decorated tool."""

    def __init__(self, function: Callable[..., Any], policy: dict[str, Any], names: dict[str, Any]) -> None:
        self.function = function
        self.name: str = policy["name"]
        self.effect: Effect = policy["effect"]
        self.is_async = inspect.iscoroutinefunction(function)
        self.binder = Binder(function)
        self.key: str | None = None
        self.harnesses: list[Declaring] = []
        if policy.get("paths"):
            policy["bind"] = self.binder.bind
        self._options = policy
        self._names = names
        self._policy: ToolPolicy | None = None
        self._compile(final=False)

    @property
    def policy(self) -> ToolPolicy:
        """How calls of the tool are made."""
        if self._policy is None:
            self._compile(final=True)
        assert self._policy is not None
        return self._policy

    def _compile(self, *, final: bool) -> None:
        hints = hints_of(self.function, self._names)
        if hints is None:
            if final:
                raise UsageError(
                    f"an annotation of {self.name} names a type that cannot be found",
                    hint="Define the type before the tool, at the top of its module.",
                )
            return
        self._policy = ToolPolicy(
            codec=codec_for(hints.get("return", inspect.Signature.empty)),
            arguments=_Later(self.name, self.binder, hints),
            **self._options,
        )
        self._names = {}

    def arguments(self, data: bytes) -> tuple[Sequence[Any], dict[str, Any], bytes]:
        """Typed arguments out of a JSON object: see `harness.arguments`."""
        assert self.policy.arguments is not None
        return self.policy.arguments(data)

    def changed(self, **options: Any) -> ToolSpec:
        """A copy with other options."""
        copy = object.__new__(ToolSpec)
        copy.__dict__.update(self.__dict__)
        copy._policy = replace(self.policy, **options)
        return copy

    def answer_probe(self, function: Callable[..., Any]) -> None:
        """Register the tool's probe."""
        self._options["probe"] = function
        if self._policy is not None:
            self._policy = replace(self._policy, probe=function)

    def answer_compensation(self, function: Callable[..., Any]) -> None:
        """Register what undoes a call of the tool."""
        self._options["compensate"] = function
        if self._policy is not None:
            self._policy = replace(self._policy, compensate=function)

    def is_live_elsewhere(self) -> bool:
        """Whether a run is live on a harness that has this tool."""
        return any(harness._has_live_runs() for harness in self.harnesses)


class _Later:
    """The reader of a tool's arguments, made when the first are read: most tools never need one."""

    __slots__ = ("_made", "_parts")

    def __init__(self, *parts: Any) -> None:
        self._parts = parts
        self._made: Any = None

    def __call__(self, data: bytes) -> Any:
        if self._made is None:
            from jumar.harness.arguments import Arguments

            self._made = Arguments(*self._parts)
        return self._made(data)


def spec_of(tool: Any) -> ToolSpec:
    """What is behind `tool`; UsageError for a plain function."""
    spec = getattr(tool, _SPEC, None)
    if isinstance(spec, ToolSpec):
        return spec
    name = getattr(tool, "__name__", repr(tool))
    raise UsageError(
        f"{name} is no tool", hint="Decorate it with @harness.tool(effect=...) or @jumar.tool(effect=...)."
    )


def is_tool(value: Any) -> bool:
    """Whether `value` is a decorated tool."""
    return isinstance(getattr(value, _SPEC, None), ToolSpec)


class ToolOptions(TypedDict, total=False):
    """The options of a tool; see `tool`."""

    effect: Required[str]
    name: str | None
    retries: int | None
    timeout: float | None
    not_applied: type[BaseException] | Iterable[type[BaseException]]
    errors: type[BaseException] | Iterable[type[BaseException]]
    settle: float | None
    approval: str | None
    identity: Callable[..., str] | None
    identity_scope: str
    paths: Iterable[str] | None
    verify: Callable[..., Any] | None
    strategy: str
    durability: str | None


def tool(function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function a tool, for a harness that lists it in an agent's `tools=[...]`.

    `effect` says what repeating a call would do: "read" (nothing), "idempotent" (nothing more, given the same
    idempotency key), "external" (it would happen twice).  `retries` is the number of further attempts after a passing
    failure (2 by default, or what `Harness(config=)` says), `timeout` seconds.  `not_applied` lists exceptions that
    promise the call did not happen, `errors` those that the agent gets as they are and that promise the same.  `settle`
    is the number of seconds after an attempt's end within which a late effect is still reckoned with (two lease ttls by
    default).

    `approval="always"` asks a person before an attempt is sent; where that is refused, the agent gets CallRejected.
    `identity` names what a call does, from the tool's own arguments, as in `lambda invoice, cents: f"pay:{invoice}"`:
    the action of one name is done once in its run, or, with `identity_scope="store"`, in all runs of the store; asked
    for again it answers the same result.

    An `effect="write"` changes files of the workspace and nothing else.  `paths` names those that it may change, by its
    arguments, as in `paths=["conf/{name}"]`: `{name}` is one segment of a path, `{name:path}` a relative path; without
    it, that is the whole workspace.  A call that raises, times out, is cut off by a crash, or whose `verify(result,
    *args)` does not answer True has its files put back as they were, and is made again while its retries last.

    `strategy` says what is done about a call that fails, instead of what its effect and error call for ("auto"):
    "retry" makes it again, whatever the error, but for an "external" one that may have happened; "forward" does not,
    and the agent is told at once; "rollback" puts the files of a "write" back and makes it again, and, of any other
    tool, takes a run that fails with the call back to the start of the step that it is in, as often as it has retries.

    `durability="hot"`, for an `effect="read"`, lets the agent go on as soon as a result is queued to be written
    ("sync": once it is on disk); without it, it is as the harness says.
    """
    names = caller_names(1)

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        tool: Tool[P, R] = decorated(function, dict(options), names)
        return tool

    # Used without an effect, as a bare decorator, it is given the function itself: then it says what is missing.
    return decorate if function is None else decorate(function)


def decorated(function: Callable[..., Any], options: dict[str, Any], names: dict[str, Any]) -> Any:
    """The tool made of a function."""
    if not callable(function):
        raise UsageError(f"{function!r} cannot be a tool: it is no function")
    if is_tool(function):
        raise UsageError(f"{function.__name__} is a tool already")
    if not has_signature(function):
        raise UsageError(
            f"{function!r} does not tell its arguments, so it cannot be a tool",
            hint="Wrap it in a function of your own.",
        )
    return _wrapped(ToolSpec(function, _checked(function, options), names))


def _checked(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    for option in options.keys() - ToolOptions.__annotations__.keys():
        _refuse(option)
    name: Any = options.get("name") or getattr(function, "__name__", "")
    retries = options.get("retries")
    return {
        "kind": CallKind.TOOL,
        "name": check_name("a tool", name),
        "effect": effect_named(options.get("effect"), f"tool {name}"),
        "retries": None if retries is None else whole("retries", retries),
        "timeout": seconds("timeout", options.get("timeout"), zero=False),
        "settle": seconds("settle", options.get("settle"), zero=True),
        "not_applied": exception_types("not_applied", options.get("not_applied", ())),
        "errors": exception_types("errors", options.get("errors", ())),
        "approval": approval_named(options.get("approval")),
        "strategy": strategy_named(options.get("strategy", "auto")),
        "hot": hot_named(options.get("durability"), effect_named(options.get("effect"), f"tool {name}"), name),
        **_identity(name, options),
        **_files(name, function, options),
    }


def _identity(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that name a tool's action."""
    identity, scope = options.get("identity"), options.get("identity_scope")
    if identity is None:
        if scope is not None:
            raise UsageError(f"tool {name} has an identity_scope= and no identity=")
        return {}
    if not callable(identity) or inspect.iscoroutinefunction(identity):
        raise UsageError(
            f"identity={identity!r} is no plain function", hint="It gets the tool's own arguments and answers a text."
        )
    if effect_named(options.get("effect"), f"tool {name}") is Effect.READ:
        raise UsageError(f"tool {name} is a read, which may be repeated; only a tool that acts has an identity")
    return {"identity": identity, "identity_scope": scope_named(scope)}


def _files(name: str, function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a tool that writes."""
    paths, verify = options.get("paths"), options.get("verify")
    if paths is None and verify is None:
        return {}
    if effect_named(options.get("effect"), f"tool {name}") is not Effect.WRITE:
        option = "paths" if paths is not None else "verify"
        raise UsageError(f"tool {name} has {option}= and does not write", hint='Give it effect="write".')
    found: dict[str, Any] = {}
    if paths is not None:
        parameters = frozenset(inspect.signature(function).parameters)
        found["paths"] = tuple(parse(path, parameters) for path in several("paths=", paths))
        if not found["paths"]:
            raise UsageError(f"tool {name} has paths= that name nothing", hint="Leave it out for the whole workspace.")
    if verify is not None:
        _check_verify(name, function, verify)
        found["verify"] = verify
    return found


def _check_verify(name: str, function: Any, verify: Any) -> None:
    if not callable(verify):
        raise UsageError(f"verify={verify!r} is no function", hint="It gets the result and the tool's own arguments.")
    if inspect.iscoroutinefunction(verify) and not inspect.iscoroutinefunction(function):
        raise UsageError(f"the verify of {name} is async, and the tool is not")
    if has_signature(verify):
        ours = ["result", *inspect.signature(function).parameters]
        _takes(f"the verify of {name}", verify, ours, "It is asked with the result and the tool's own arguments")


_LATER = frozenset(
    {
        "budget",
        "returns",
    }
)


def _refuse(option: str) -> None:
    if option in _LATER:
        raise NotSupported(f"{option}= is not in this version")
    raise UsageError(f"a tool has no option {option!r}", hint=did_you_mean(option, ToolOptions.__annotations__))


def _wrapped(spec: ToolSpec) -> Any:
    """The function that users see, around a spec."""
    if spec.is_async:

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            scope = _recording_scope(spec)
            if scope is None:
                return await spec.function(*args, **kwargs)
            from jumar.harness.calling import call_awaited

            return await call_awaited(scope, spec, args, kwargs)

        wrapper: Any = awaited
    else:

        def called(*args: Any, **kwargs: Any) -> Any:
            scope = _recording_scope(spec)
            if scope is None:
                return spec.function(*args, **kwargs)
            from jumar.harness.calling import call_plainly

            return call_plainly(scope, spec, args, kwargs)

        wrapper = called
    update_wrapper(wrapper, spec.function)
    setattr(wrapper, _SPEC, spec)
    wrapper.probe = lambda function: _probe(spec, function)
    wrapper.compensate = lambda function: _compensate(spec, function)
    wrapper.using = lambda **options: _using(spec, options)
    wrapper.bind = lambda *args, **kwargs: Bound(wrapper, args, kwargs)
    return wrapper


def _recording_scope(spec: ToolSpec) -> Any:
    """The scope in which a direct call is recorded; None where it just calls through."""
    scope = current_scope.get()
    if scope is None:
        if spec.effect is not Effect.READ and spec.is_live_elsewhere():
            raise UsageError(
                f"{spec.name} was called from a thread without the run's context while a run is live",
                hint="Call it through run.gather or run.map, or hand the thread a copy of the context.",
            )
        return None
    if scope.call is None:
        return scope
    if scope.call.kind not in _BODIES_OF_TOOLS and spec.effect is not Effect.READ:
        raise UsageError(
            f"{spec.name} was called inside the {scope.call.kind.label} {scope.call.call_id}, which does not record it",
            hint="Return what is to be done, and make the call from the agent itself.",
        )
    return None


def _probe(spec: ToolSpec, function: Any) -> Any:
    if spec.effect is not Effect.EXTERNAL:
        raise UsageError(f"{spec.name} is {spec.effect.label}; only an external tool is asked whether it happened")
    if inspect.iscoroutinefunction(function) and not spec.is_async:
        raise UsageError(f"the probe of {spec.name} is async, and the tool is not")
    _takes_the_same(spec, function)
    spec.answer_probe(function)
    return function


def _takes_the_same(spec: ToolSpec, probe: Any) -> None:
    """A probe is asked with its tool's own arguments; one that cannot take them would never answer."""
    ours = [parameter.name for parameter in spec.binder.signature.parameters.values()]
    _takes(f"the probe of {spec.name}", probe, ours, "It is asked with the tool's own arguments")


def _takes(what: str, function: Any, ours: list[str], how: str) -> None:
    """UsageError where a function of the tool's cannot take what it is going to be asked with."""
    theirs = inspect.signature(function).parameters.values()
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in theirs):
        return
    needed = [parameter.name for parameter in theirs if parameter.default is parameter.empty]
    if len(theirs) < len(ours) or len(needed) > len(ours):
        raise UsageError(
            f"{what} takes ({', '.join(parameter.name for parameter in theirs)})",
            hint=f"{how}: ({', '.join(ours)}).",
        )


def _compensate(spec: ToolSpec, function: Any) -> Any:
    if spec.effect is Effect.READ:
        raise UsageError(f"{spec.name} is a read, which leaves nothing to be undone")
    if spec.effect is Effect.WRITE:
        raise UsageError(f"{spec.name} writes files, which a rollback puts back by itself")
    if not callable(function):
        raise UsageError(f"compensate of {spec.name} takes a function, not {type(function).__name__}")
    _takes_the_result_too(spec, function)
    spec.answer_compensation(function)
    return function


def _takes_the_result_too(spec: ToolSpec, function: Any) -> None:
    """A compensation gets the result and the tool's own arguments; one that cannot take them would undo nothing."""
    theirs = inspect.signature(function).parameters.values()
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in theirs):
        return
    ours = ["result", *(parameter.name for parameter in spec.binder.signature.parameters.values())]
    needed = [parameter.name for parameter in theirs if parameter.default is parameter.empty]
    if len(theirs) < len(ours) or len(needed) > len(ours):
        raise UsageError(
            f"the compensation of {spec.name} takes ({', '.join(parameter.name for parameter in theirs)})",
            hint=f"It gets what the call returned, then the tool's own arguments: ({', '.join(ours)}).",
        )


def _using(spec: ToolSpec, options: dict[str, Any]) -> Any:
    given = dict(options)
    key = given.pop("key", spec.key)
    if key is not None:
        check_key(key)
    changes: dict[str, Any] = {}
    if "retries" in given:
        changes["retries"] = whole("retries", given.pop("retries"))
    if "timeout" in given:
        changes["timeout"] = seconds("timeout", given.pop("timeout"), zero=False)
    if "approval" in given:
        changes["approval"] = approval_named(given.pop("approval"))
    if "strategy" in given:
        changes["strategy"] = strategy_named(given.pop("strategy"))
    if "durability" in given:
        changes["hot"] = hot_named(given.pop("durability"), spec.effect, spec.name)
    for option in given:
        if option in _LATER:
            raise NotSupported(f"using({option}=...) is not in this version")
        known = ("approval", "durability", "key", "retries", "strategy", "timeout")
        raise UsageError(f"{spec.name}.using has no option {option!r}", hint=did_you_mean(option, known))
    copy = spec.changed(**changes)
    copy.key = key
    return _wrapped(copy)
