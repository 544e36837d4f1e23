"""What `Run` and `AsyncRun` share: facts about the run, and the flow behind each method.

Every method builds a flow here, once; the two faces differ only in which driver carries it out, and in the types they
show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jumar.core.codec import codec_for, encode_arguments
from jumar.core.exceptions import comes_from_all
from jumar.core.failures import short_message
from jumar.core.naming import check_label
from jumar.core.references import check_references
from jumar.core.requests import Attempt, Flow
from jumar.core.states import CallKind
from jumar.core.triggers import AFTER_PLANNING, MANUAL
from jumar.engine.flows.asking import ask
from jumar.engine.flows.calls import Call, mark, prepare
from jumar.engine.flows.fan import fan_out, first_failure
from jumar.engine.flows.sleeping import sleep
from jumar.engine.live import LiveRun
from jumar.engine.policy import ToolPolicy
from jumar.engine.scope import branch_here, folder_of
from jumar.engine.steps import Step
from jumar.errors import MapFailed, NotSupported, UsageError
from jumar.harness.asking import ask_call, sleep_call
from jumar.harness.calling import decision_call, label_of, mark_call, tool_call, value_call
from jumar.harness.options import effect_named, seconds, several, strategy_named, whole
from jumar.harness.tools import Bound, is_tool, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from jumar.core.briefs.records import Brief

_KINDS = {"decision": CallKind.DECISION, "tool": CallKind.TOOL, "value": CallKind.VALUE}


class Face:
    """An agent's hold on its run."""

    _waits = False

    def __init__(self, live: LiveRun) -> None:
        self._live = live

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self._live.run.agent}>"

    @property
    def id(self) -> str:
        """The run's id."""
        return self._live.run_id

    @property
    def label(self) -> str:
        """The run's task, as a slug."""
        return self._live.run.task

    @property
    def step_index(self) -> int:
        """How many steps were entered so far."""
        return self._live.step_index

    @property
    def version(self) -> int:
        """The run's version: how many advances it has made."""
        return self._live.lane.version

    @property
    def epoch(self) -> int:
        """The fencing token of this process's claim, 1 for the first."""
        return self._live.epoch

    @property
    def recovered(self) -> bool:
        """Whether this run goes on from an earlier process."""
        return self._live.recovered

    @property
    def workspace(self) -> Path:
        """The folder that the run's files are in: of a fork its own, where it was given one.  UsageError where the run
        has no workspace.
        """
        return folder_of(self._live.run.workspace)

    @property
    def context(self) -> dict[str, Any]:
        """A small dict of plain JSON that is kept with each checkpoint."""
        return self._live.context

    def step(self, name: str, *, strategy: str = "auto") -> Step:
        """A named part of the run, as `with run.step("scan"):`.  The calls inside carry its name, and a restore point
        is kept at its start and its end.  `strategy` is what is done about those of them that fail, unless their tool
        says so itself: see `harness.tool`.
        """
        return Step(self._live, name, self._home, self._waits, strategy_named(strategy))

    # --- The flows behind the methods. ---

    def _home(self) -> Any:
        raise NotImplementedError

    def _tool_call(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        spec = spec_of(tool)
        if spec.is_async and not self._waits:
            raise UsageError(
                f"{spec.name} is async, and this agent is a plain one", hint="Write the agent with `async def`."
            )
        return tool_call(self._live, spec, args, kwargs, self._home())

    def _decision(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        returns: Any,
        key: str | None,
        retries: int,
        timeout: float | None,
        on_event: Callable[[Any], Any] | None,
    ) -> Call:
        options = {"retries": whole("retries", retries), "timeout": seconds("timeout", timeout, zero=False)}
        return decision_call(
            self._live, model, args, kwargs, returns, key, on_event, options, self._home(), waits=self._waits
        )

    def _value(self, name: str, source: Any, returns: Any, key: str | None) -> Call:
        check_label("a value", name)
        return value_call(self._live, name, source, returns, key, self._home())

    def _ask(
        self, question: str, choices: Any, returns: Any, expires: float | None, default: Any, key: str | None
    ) -> Flow[Any]:
        return ask(*ask_call(self._live, question, choices, returns, expires, default, key, self._home()))

    def _sleep(self, length: float | None, until: datetime | None, key: str | None) -> Flow[None]:
        return sleep(*sleep_call(self._live, length, until, key, self._home()))

    def _checkpoint(self, name: str, refs: Iterable[str]) -> Flow[None]:
        check_label("a checkpoint", name)
        checked = check_references(refs, self._live.settings.reference_kinds)
        call = mark_call(self._live, CallKind.CHECKPOINT, {"name": name, "refs": list(checked)}, self._home())
        return mark(call, MANUAL, checked)

    def _plan(self, steps: Sequence[str], files: Iterable[str]) -> Flow[None]:
        details = {
            "steps": [check_label("a planned step", step) for step in several("plan", steps)],
            "files": [check_label("a planned file", file) for file in several("files=", files)],
        }
        call = mark_call(self._live, CallKind.PLAN, details, self._home())
        return mark(call, AFTER_PLANNING)

    def _brief(self, lang: str) -> Flow[Brief]:
        from jumar.engine.flows.briefing import brief_flow  # which an agent that asks for none never loads

        return brief_flow(self._live, lang)

    def _record(
        self,
        kind: str,
        name: str,
        args: Mapping[str, Any],
        body: Callable[[], Any],
        key: str | None,
        effect: str,
        codec: Any,
        usage: Any,
        plan: Any,
    ) -> Call:
        if plan is not None:
            raise NotSupported("record(plan=...) is not in this version")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise UsageError(f"record has no kind {kind!r}", hint=f"Use one of {', '.join(map(repr, _KINDS))}.")
        if not callable(body):
            raise UsageError(f"record takes a function that makes the call, not {type(body).__name__}")
        if not isinstance(args, Mapping):
            raise UsageError(f"record takes its arguments by name, as a dict, not {type(args).__name__}")
        policy = ToolPolicy(
            _KINDS[kind],
            label_of(check_label("a record", name)),
            effect_named(effect, f"record {name}"),
            codec_for(Any if codec is None else codec),
            usage=usage,
        )
        call = Call(self._live, policy, body, (), {}, encode_arguments(dict(args)), key)
        return prepare(call, branch_here(self._live, self._home()))

    def _gather(self, items: tuple[Any, ...]) -> Flow[list[Any]]:
        bodies = [self._body(item) for item in items]
        ended = yield from self._fan("gather", bodies)
        failure = first_failure(ended)
        if isinstance(failure, StopIteration):  # would end this flow instead of failing it
            raise RuntimeError(f"an item of gather raised StopIteration: {short_message(failure)}") from failure
        if failure is not None:
            comes_from_all(failure, [attempt.error for attempt in ended])
            raise failure
        return [attempt.value for attempt in ended]

    def _map(self, tool: Any, items: Iterable[Any]) -> Flow[list[Any]]:
        bodies = [self._body(_bound(tool, item)) for item in items]
        ended = yield from self._fan("map", bodies)
        failed = [index for index, attempt in enumerate(ended) if attempt.error is not None]
        if not failed:
            return [attempt.value for attempt in ended]
        results = [attempt.value if attempt.error is None else attempt.error for attempt in ended]
        first = ended[failed[0]].error
        why = "" if first is None else short_message(first)
        raise MapFailed(
            f"{len(failed)} of {len(ended)} items failed; the first, item {failed[0]}: {why}", results=results
        ) from first

    def _fan(self, word: str, bodies: list[Callable[[], Any]]) -> Flow[list[Attempt]]:
        if not bodies:
            self._live.check()
            return []
        branch = branch_here(self._live, self._home())
        if branch is None:
            raise UsageError(f"{word} was called from a thread or task that belongs to no branch of the run")
        return (yield from fan_out(self._live, branch, word, bodies, waits=self._waits))

    def _body(self, item: Any) -> Callable[[], Any]:
        if isinstance(item, Bound):
            return self._bound_body(item)
        if is_tool(item):
            return self._bound_body(Bound(item, (), {}))
        if callable(item):
            body: Callable[[], Any] = item
            return body
        raise UsageError(
            f"gather cannot run {type(item).__name__}", hint="Give it tool.bind(...), or a function without arguments."
        )

    def _bound_body(self, bound: Bound[Any]) -> Callable[[], Any]:
        raise NotImplementedError

    def _threaded_call(self, bound: Bound[Any]) -> Call:
        """A plain tool as an item of an async run's gather or map: its body takes a worker thread."""
        spec = spec_of(bound.tool)
        policy = spec.policy if spec.is_async else replace(spec.policy, threaded=True)
        return tool_call(self._live, spec, bound.args, bound.kwargs, self._home(), policy)


def _bound(tool: Any, item: Any) -> Any:
    args = item if isinstance(item, tuple) else (item,)
    return Bound(tool, args, {}) if is_tool(tool) else partial(tool, *args)
