"""Making a call that writes files: so that what is left half-done is put back, and nobody else writes there meanwhile.

The order of one attempt:

1. The declared paths are told from the arguments.  A path that is refused fails the call; nothing is sent.
2. The paths are taken in the table of this process, and with them the workspace's lock: calls that overlap go one
   after the other, and no thread of another process, still writing for a run that was taken over, is met.
3. The files are captured as they are: the call's `before`.  What cannot be captured could not be put back, so a call
   that may write it fails; nothing is sent.  Where a declared path is a link, what it leads to is captured with it.
4. STARTED is committed, with `before` and with the paths held in the store, for as long as the call is STARTED or
   UNCERTAIN.  Where another call holds one of them, this one waits.
5. The body runs.  The files are captured again, the call's `after`, and `verify` is asked.
6. SUCCEEDED gives the paths up.  Anything else goes through UNCERTAIN: the files are put back to `before`, by a forced
   restore whose safety snapshot keeps what is taken away; then the call is made again, or fails.

A body that outlives its timeout keeps its place in the table until it has ended, and only then are files put back.  The
lease is looked at once the lock is there: whoever takes the run over afterwards waits for that same lock before he
touches a file, so a put-back that comes late can never undo his work.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jumar.core import exceptions
from jumar.core.changes import Hold
from jumar.core.failures import Sorted, short_message
from jumar.core.held_paths import held_paths, led_to
from jumar.core.locations import root_of
from jumar.core.path_templates import resolve
from jumar.core.records import Failure
from jumar.core.requests import Attempt, Captured, Flow, Invoke
from jumar.core.scopes import covers
from jumar.core.states import CallState, Effect, ErrorClass, EventKind, Strategy
from jumar.core.strategies import of_call
from jumar.core.uncertain import Ended, Judgement, judge
from jumar.engine.behind import unwritten
from jumar.engine.flows.actions import held
from jumar.engine.flows.effects import last_attempt, not_sent, pause, send, start
from jumar.engine.flows.keeping import captured, grafted
from jumar.engine.flows.outcomes import failure_of, how_ended, raised, record_failure, record_success
from jumar.engine.flows.places import Taken, held_elsewhere, taken
from jumar.engine.flows.putting_back import put_back
from jumar.engine.flows.settling import note_given_up, note_uncertain
from jumar.engine.logs import WARNING, log
from jumar.errors import JumarError, PathRefused, UsageError, WorkspaceError

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_FAILED_VERIFY = "VerificationFailed"
_SPECIAL = re.compile(rb"([\\*?\[\]!^-])")  # of a glob


class _Write(Struct):
    """A call that writes: the root of its workspace, the globs that it declares, and the paths that it holds."""

    call: Call
    root: str
    scope: tuple[bytes, ...]
    paths: tuple[bytes, ...]

    def widen(self, paths: tuple[bytes, ...]) -> None:
        """What is written at these paths is written by this call, too."""
        self.scope = tuple(sorted({*self.scope, *(_SPECIAL.sub(rb"\\\1", path) for path in paths)}))
        self.paths = held_paths(self.scope)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What the STARTED advance takes."""
        return tuple(Hold(seq=self.call.seq, workspace=self.root, path=path) for path in self.paths)


class _End(Struct):
    """How an attempt ended that did not succeed: what is recorded of it, and whether another may follow."""

    failure: Failure
    again: bool
    error: BaseException | None = None
    sorted_error: Sorted | None = None
    times: tuple[int, int] = (0, 0)


class _Wider(Struct):
    """Declared paths are links to these: what is written through them must be put back with the rest."""

    paths: tuple[bytes, ...]


class _Done(Struct):
    """The call has succeeded, and this is what the agent gets."""

    value: Any


def make_write(call: Call, attempt: int, *, new: bool) -> Flow[Any]:
    """Make a call that writes, in as many attempts as it may have; answers what the agent gets."""
    live = call.live
    root = _root(call)
    try:
        scope = declared(call)
    except PathRefused as error:
        raise (yield from _refuse(call, attempt - 1, error, new=new)) from error
    write = _Write(call, root, scope, held_paths(scope))
    last = last_attempt(call, attempt)
    while True:
        live.before_dispatch()
        try:
            place = yield from taken(live, root, call.seq, write.paths, call.branch, call.call_id)
        except BaseException as given_up:
            note_given_up(call, attempt - 1, given_up, CallState.FAILED, new=new)
            raise
        try:
            end = yield from _attempt(write, place, attempt, new=new)
        finally:
            place.leave()
        if isinstance(end, _Wider):
            write.widen(end.paths)
            continue
        new = False
        if isinstance(end, _Done):
            return end.value
        if end is None:
            found = yield from _others(write, attempt - 1)
            if found is not None:
                return found.value
            continue
        if not end.again or attempt >= last:
            yield from record_failure(call, attempt, end.failure, *end.times, new=False, freed=True)
            raise raised(call, end.failure) from end.error
        yield from pause(call, attempt, end.failure, end.sorted_error, new=False, freed=True)
        attempt += 1


def _root(call: Call) -> str:
    root = call.live.run.workspace
    if root is None:
        raise no_workspace(call.policy.name)
    return root


def no_workspace(tool: str) -> UsageError:
    """The error for a tool that writes in a run that has no files."""
    return UsageError(
        f"{tool} writes files, and there is no workspace for its run",
        safe="Nothing was written.",
        hint='Name the folder that its paths are relative to: Harness(workspace="site").',
    )


def declared(call: Call) -> tuple[bytes, ...]:
    """The globs that the call's tool declares, from the arguments it is sent with; none for the whole workspace.
    PathRefused where an argument leads anywhere else.
    """
    policy = call.policy
    if not policy.paths or policy.bind is None:
        return ()
    arguments = policy.bind(call.args, call.kwargs)
    return tuple(sorted({resolve(template, arguments) for template in policy.paths}))


def _refuse(call: Call, made: int, error: JumarError, *, new: bool) -> Flow[Exception]:
    """Record that the call fails without having been sent; answers what the agent gets."""
    failure = exceptions.failure_of(error, ErrorClass.PERMANENT, (PathRefused,))
    yield from record_failure(call, made, failure, 0, call.live.wall(), new=new, freed=True)
    return raised(call, failure)


def _others(write: _Write, made: int) -> Flow[Any]:
    """Another call holds the name of the action, or one of the paths.  Answers that call's result where it is this
    one's too, None where both may be tried for again.
    """
    call = write.call
    try:
        if call.identity is not None:
            found = yield from held(call, made)
            if found is not None:
                return found
        yield from held_elsewhere(call, write.root, write.paths)
    except BaseException as given_up:
        note_given_up(call, made, given_up, CallState.FAILED, new=False)
        raise
    return None


# --- One attempt. ----------------------------------------------------------------------------------------------------


def _attempt(write: _Write, place: Taken, attempt: int, *, new: bool) -> Flow[_Done | _End | _Wider | None]:
    """One attempt, with its paths taken; None where another call holds its name or its paths."""
    call, live = write.call, write.call.live
    try:
        before = yield from _captured(write)
        _check_restorable(write, before)
        beyond = _led_to(write, before)
        if beyond:
            return _Wider(beyond)
    except WorkspaceError as refused:
        raise (yield from _refuse(call, attempt - 1, refused, new=new)) from refused
    yield from grafted(live, write.root, before)
    dispatch_by = yield from start(call, attempt, new=new, before=before.digest, holds=write.holds)
    if dispatch_by is None:
        return None
    ended = yield from send(call, attempt, dispatch_by)
    if ended is None:
        return _End(not_sent(call), again=True, times=(0, live.wall()))
    place.body(attempt, ended)
    error = None if ended.timed_out else ended.error
    if error is not None and not isinstance(error, Exception):
        left = CallState.UNCERTAIN if ended.sent else CallState.FAILED
        note_given_up(call, attempt, error, left, new=False, ended=ended, freed=not ended.sent)
        raise error
    how, sorted_error = how_ended(call, ended, live.wall())
    judgement = judge(call.policy.effect, how)
    times = (ended.started_at, ended.ended_at)
    if judgement is Judgement.SUCCEEDED:
        after = yield from _after(write)
        polluted = yield from _verified(write, attempt, ended)
        if polluted is None:
            if after is not None:
                yield from grafted(live, write.root, after)
            digest = None if after is None else after.digest
            value = yield from record_success(call, attempt, ended.value, *times, new=False, after=digest)
            return _Done(value)
        end = _End(polluted, again=True, times=times)
    else:
        failure = failure_of(call, how, sorted_error, error)
        end = _End(failure, judgement is not Judgement.FAILED, error, sorted_error, times)
    if how is Ended.NOT_APPLIED:
        return end
    return (yield from _undone(write, place, attempt, ended, before, end))


def _undone(write: _Write, place: Taken, attempt: int, ended: Attempt, before: Captured, end: _End) -> Flow[_End]:
    """Do what the strategy says about an attempt that may have left files half-done."""
    call = write.call
    strategy = of_call(Effect.WRITE, end.failure.error_class, call.strategy)
    if strategy is not Strategy.ROLLBACK:
        call.live.dirty = True
    if strategy is Strategy.FORWARD:
        end.again = False
        return end
    yield from note_uncertain(call, attempt, end.failure, ended.over_at)
    try:
        yield from place.over(ended)
        if strategy is Strategy.ROLLBACK:
            yield from put_back(call.live, write.root, call.seq, call.call_id, before.digest, call.branch)
    except BaseException as given_up:
        note_given_up(call, attempt, given_up, CallState.UNCERTAIN, new=False, ended=ended)
        raise
    return end


def _captured(write: _Write) -> Flow[Captured]:
    """The declared files as they are now.  An error that is not about the files themselves stops the run, so that the
    agent's code does not swallow it.
    """
    live = write.call.live
    try:
        return (yield from captured(live, write.root, write.scope))
    except WorkspaceError:
        raise
    except Exception as error:
        raise live.stop(unwritten(error)) from error


def _check_restorable(write: _Write, before: Captured) -> None:
    """WorkspaceError where something that the call may write could not be put back."""
    from jumar.core.restoring import shown
    from jumar.core.trees import LACKING, SkipReason

    for skipped in before.snapshot.skipped:
        if skipped.reason is SkipReason.LINKED:
            raise PathRefused(f"{shown(skipped.path)} is a symbolic link, and {write.call.policy.name} writes below it")
        if skipped.reason in LACKING or skipped.path in write.paths:
            why = skipped.reason.value
            raise _not_restorable(f"{shown(skipped.path)} cannot be captured ({why})", write.call.policy.name)
    for path in before.snapshot.torn:
        raise _not_restorable(f"{shown(path)} is being changed by somebody else", write.call.policy.name)


def _led_to(write: _Write, before: Captured) -> tuple[bytes, ...]:
    """The paths that links at declared paths lead to and that are not declared; PathRefused where one leads out of the
    workspace.
    """
    from jumar.core.restoring import shown

    found = {path: led_to(os.fsencode(root_of(write.root)), path, target) for path, target in before.links}
    for path, to in found.items():
        if to is None or any(part.lower() == b".git" for part in to.split(b"/")):
            raise PathRefused(f"{shown(path)} is a symbolic link that leads out of the workspace")
    is_covered = covers(write.scope)
    return tuple(to for to in found.values() if to is not None and not is_covered(to))


def _not_restorable(what: str, tool: str) -> WorkspaceError:
    return WorkspaceError(
        f"{what}, so it could not be put back after {tool}",
        safe="The call was not sent.",
        hint="Make it readable, move it out of the workspace, or declare narrower paths=.",
    )


def _after(write: _Write) -> Flow[Captured | None]:
    """The files as the body has left them; None where that cannot be told, which undoes nothing of what it did."""
    live = write.call.live
    try:
        after = yield from _captured(write)
    except WorkspaceError as error:
        log(WARNING, live.run_id, write.call.call_id, "what it has written cannot be captured: %s", error.what)
        live.dirty = True
        return None
    return after


def _verified(write: _Write, attempt: int, ended: Attempt) -> Flow[Failure | None]:
    """Ask the tool's `verify`; answers why the files are not what they should be, or None."""
    call = write.call
    verify = call.policy.verify
    if verify is None:
        return None
    live, policy = call.live, call.policy
    live.begin(call.seq, policy.timeout)
    args = (ended.value, *call.args)
    try:
        answer: Attempt = yield Invoke(verify, args, call.kwargs, call.scope(attempt), policy.timeout, policy.threaded)
    finally:
        live.end(call.seq)
    error = answer.error
    if error is not None and not isinstance(error, Exception) and not answer.timed_out:
        note_given_up(call, attempt, error, CallState.UNCERTAIN, new=False, ended=ended)
        raise error
    why = _refusal(answer)
    if why is None:
        return None
    live.ride_event(EventKind.PROBED, call.seq, "verify")
    return Failure(_FAILED_VERIFY, f"the files are not as they should be: {why}", ErrorClass.POLLUTED)


def _refusal(answer: Attempt) -> str | None:
    """Why a verification refused; None where it did not."""
    if answer.timed_out:
        return "verify did not end in time"
    if answer.error is not None:
        return f"verify raised {type(answer.error).__name__}: {short_message(answer.error)}"
    if isinstance(answer.value, str):
        return answer.value
    return None if answer.value else f"verify answered {answer.value!r}"
