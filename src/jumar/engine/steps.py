"""A named part of a run: `with run.step("scan"):`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from jumar.core.naming import check_label, step_part
from jumar.core.states import EventKind, Strategy
from jumar.core.triggers import AFTER_PLANNING_STEP, BEFORE_PLANNING_STEP
from jumar.engine.drivers.plain import drive
from jumar.engine.flows.calls import diverged
from jumar.engine.flows.keeping import ready
from jumar.engine.live import LiveRun
from jumar.engine.scope import Branch, Scope, branch_here, current_scope
from jumar.errors import NotStorable, Stopped, UsageError


class Step:
    """Entering marks a restore point and names the calls made inside; leaving checks that what is recorded was asked
    for again.

    Opened in a thread or task that runs no branch, the step is a branch of its own, and its name must be the only one.
    It works with `with` and `async with` alike; neither waits for anything but a look at the files, where the restore
    point has to keep them and they may have changed.
    """

    def __init__(
        self, live: LiveRun, label: str, here: Callable[[], Any], waits: bool, strategy: Strategy | None = None
    ) -> None:
        self._live = live
        self._label = check_label("a step", label)
        self._here = here
        self._waits = waits
        self._branch: Branch | None = None
        self._outer = ""
        self._strategy = strategy
        self._outer_strategy: Strategy | None = None
        self._own = False
        self._token: Any = None
        self.path = ""

    def __enter__(self) -> Self:
        live = self._live
        live.check_asking()
        if self._branch is not None:
            raise UsageError(
                f"step {self.path} was entered again before it was left", hint="Call run.step(...) for each entry."
            )
        home = self._here()
        branch = branch_here(live, home)
        live.check_branch(branch)
        context = live.kept_context()
        self._own = branch is None
        if branch is None:
            branch = live.own_branch(step_part(self._label, 1))
            branch.home = home
            self.path = branch.path
        else:
            if branch is live.root and not branch.step:
                live.root_step(step_part(self._label, 1))
            self._outer = branch.enter_step(self._label)
            self.path = branch.step
        self._branch = branch
        self._outer_strategy = branch.strategy
        branch.strategy = branch.strategy if self._strategy is None else self._strategy
        self._token = current_scope.set(Scope(live, branch, waits=self._waits))
        try:
            with live.lock:
                live.step_index += 1
            self._scan(BEFORE_PLANNING_STEP)
            live.ride_checkpoint(BEFORE_PLANNING_STEP, self.path, context)
            live.ride_event(EventKind.STEP_STARTED, None, self.path)
        except BaseException:  # an interrupt, say: `with` leaves only what it has entered
            self._leave(branch)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        branch, live, path = self._branch, self._live, self.path
        stopped = (
            live.halt is not None
            or isinstance(error, Stopped)
            or (error is not None and not isinstance(error, Exception))
        )
        if branch is None:
            if stopped:
                return
            raise UsageError(f"step {path or self._label} was left without being entered", hint="Use it in a `with`.")
        if branch.step != path:
            if stopped:
                return
            raise UsageError(
                f"step {path} was left while the code stands in {branch.step or 'none'}",
                hint="Leave steps in the reverse order of entering them; `with` blocks do.",
            ) from error
        self._leave(branch)
        if stopped:
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
        self._scan(AFTER_PLANNING_STEP)
        live.ride_checkpoint(AFTER_PLANNING_STEP, path, context)

    def _scan(self, event: str) -> None:
        """Have the files captured that the checkpoint keeps; of an async run this blocks the event loop, unless
        `async with` has had it done before.
        """
        if self._live.must_look:
            drive(ready(self._live, event), self._live.io)

    async def _ascan(self, event: str) -> None:
        if self._live.must_look and self._live.halt is None:
            from jumar.engine.drivers.aio import adrive

            await adrive(ready(self._live, event), self._live.io)

    def _leave(self, branch: Branch) -> None:
        """Go back to where the branch stood; what is left in another context (an async generator that is closed by its
        event loop, say) leaves the scope of the context it was entered in, which names the same branch.
        """
        self._branch = None
        branch.strategy = self._outer_strategy
        if self._own:
            branch.home = None
        else:
            branch.step = self._outer
        token, self._token = self._token, None
        with suppress(ValueError):
            current_scope.reset(token)

    async def __aenter__(self) -> Self:
        await self._ascan(BEFORE_PLANNING_STEP)
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Exception):
            await self._ascan(AFTER_PLANNING_STEP)
        self.__exit__(kind, error, trace)
