"""Several branches side by side: `gather` and `map`.

Each item is a branch with a replay table of its own, so they may finish in any order, die anywhere and go on
elsewhere.  All of them settle before anything is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jumar.core.requests import Attempt, Fan, Flow, Invoke
from jumar.engine.flows.calls import diverged
from jumar.engine.live import LiveRun
from jumar.engine.scope import Branch, Scope
from jumar.engine.threads import stops_process


def fan_out(
    live: LiveRun, parent: Branch, word: str, bodies: Sequence[Callable[[], Any]], *, waits: bool
) -> Flow[list[Attempt]]:
    """Run the bodies, each in a branch of its own, and answer how each ended, in their order."""
    live.check_asking()
    live.check_branch(parent)
    path = parent.fan_path(word)
    branches = [live.branch(f"{path}:{index}", parent) for index in range(len(bodies))]
    for branch in branches:
        branch.is_item = True
    requests = [
        Invoke(body, (), {}, Scope(live, branch, waits=waits)) for body, branch in zip(bodies, branches, strict=True)
    ]
    try:
        ended: list[Attempt] = yield Fan(requests)
    except BaseException:  # it was given up, or the process is being stopped
        live.is_cut_off = True
        _all_settled(live, parent, branches)
        raise
    signal = _all_settled(live, parent, branches)
    for attempt in ended:
        if attempt.error is not None and stops_process(attempt.error):
            raise attempt.error
    live.check()
    if signal is not None:
        raise signal
    for attempt, branch in zip(ended, branches, strict=True):
        if attempt.error is None:
            close_branch(live, branch)
    for attempt in ended:
        if attempt.error is not None and not isinstance(attempt.error, Exception):
            raise attempt.error
    return ended


def _all_settled(live: LiveRun, parent: Branch, branches: Sequence[Branch]) -> BaseException | None:
    """Let the branch around the items wait for the earliest of what they wait for; answers the signal to raise, if any
    of them waits.  That holds however the fan ended: nobody goes on as if what was asked had been answered.
    """
    signal = None
    for branch in branches:
        if (wait := live.settled(branch)) is not None:
            signal = live.wait(wait, parent)
    return signal


def close_branch(live: LiveRun, branch: Branch) -> None:
    """At a branch's end every recorded call in it that is not a read must have been asked for again."""
    left = branch.table.first_effect()
    if left is not None:
        raise live.stop(diverged(left, f"the end of branch {branch.path}, without this call"))


def first_failure(ended: Sequence[Attempt]) -> BaseException | None:
    """The failure of the lowest index, or None."""
    return next((attempt.error for attempt in ended if attempt.error is not None), None)
