"""A named part of a run: `with run.step("scan"):`."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from jumar.core.naming import check_label, step_part
from jumar.core.states import EventKind, Level
from jumar.engine.flows.calls import diverged
from jumar.engine.live import LiveRun
from jumar.engine.scope import Branch, Scope, branch_here, current_scope
from jumar.errors import NotStorable, Stopped


class Step:
    """Entering marks a restore point and names the calls made inside; leaving checks that what is recorded was asked
    for again.

    Opened in a thread or task that runs no branch, the step is a branch of its own, and its name must be the only one.
    It works with `with` and `async with` alike; neither waits for anything.
    """

    def __init__(self, live: LiveRun, label: str, here: Callable[[], Any], waits: bool) -> None:
        self._live = live
        self._label = check_label("a step", label)
        self._here = here
        self._waits = waits
        self._branch: Branch | None = None
        self._outer = ""
        self._own = False
        self._token: Any = None
        self.path = ""

    def __enter__(self) -> Self:
        live = self._live
        live.check()
        home = self._here()
        branch = branch_here(live, home)
        context = live.kept_context()
        if branch is None:
            self._own = True
            branch = live.own_branch(step_part(self._label, 1))
            branch.home = home
            self.path = branch.path
        else:
            self._outer = branch.enter_step(self._label)
            self.path = branch.step
        self._branch = branch
        self._token = current_scope.set(Scope(live, branch, waits=self._waits))
        with live.lock:
            live.step_index += 1
        live.ride_checkpoint(Level.STEP, "step-start", self.path, context)
        live.ride_event(EventKind.STEP_STARTED, None, self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        branch, live = self._branch, self._live
        assert branch is not None
        current_scope.reset(self._token)
        path = self.path
        if not self._own:
            branch.step = self._outer
        if (
            live.halt is not None
            or isinstance(error, Stopped)
            or (error is not None and not isinstance(error, Exception))
        ):
            return
        left = branch.table.first_effect("" if self._own else path)
        if left is not None:
            raise live.stop(diverged(left, f"the end of step {path}, without this call"))
        live.ride_event(EventKind.STEP_ENDED, None, path)
        try:
            context = live.kept_context()
        except NotStorable:
            if error is None:
                raise
            return  # the error that the step ends with goes first
        live.ride_checkpoint(Level.STEP, "step-end", path, context)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
