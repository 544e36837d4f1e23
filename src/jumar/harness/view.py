"""What a loop agent's function is given, and what anybody may look at of a loop agent's run.

The history is read from the ledger when it is first asked for, and then only what has been added since; the messages of
a turn are made once.  So a view costs the same at the ten-thousandth turn as at the second, and a function that keeps
its own notes costs no reading at all.

What a view hands out is its own: values in it may be changed, and neither another view nor any message shows it.  So a
turn is copied when a view is first asked for it, and no sooner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import msgspec
from msgspec import UNSET

from jumar.core.codec import TypedCodec, digest
from jumar.core.lines import counts
from jumar.core.messages import Message, Transcript
from jumar.core.records import CallRecord, RunRecord
from jumar.core.states import Phase, Status
from jumar.core.store import Store
from jumar.core.turns import Limits, Turn, apart, grouped, shown, turn_number, turn_of
from jumar.engine.live import LiveRun
from jumar.errors import IntegrityError, JumarError, UsageError

T = TypeVar("T")

_json = msgspec.json.Decoder()
_ALL = 2**62


class LoopView:
    """A loop agent's run as it stands before one of its decisions.

    - `task`: the run's input.
    - `history`: the turns so far, each with its decision, the results of its calls, and the reason where its output was
      not accepted.
    - `step_index`: the number of this step, from 1.
    - `limits`: how many steps are left, this one among them, and how many outputs may still be presented; None where
      the run is only looked at.
    - `recovered`: whether this process goes on with what an earlier one began; `brief` then says in a few sentences
      what happened, for the model, and is None otherwise.
    """

    __slots__ = ("_brief", "_history", "_make_task", "_task", "_turns", "limits", "recovered", "run_id", "step_index")

    def __init__(
        self,
        history: _History,
        *,
        run_id: str,
        task: Callable[[], Any],
        step_index: int,
        limits: Limits | None,
        brief: Callable[[], str] | None,
        recovered: bool,
    ) -> None:
        self._history = history
        self._turns: _Turns | None = None
        self._make_task = task
        self._task: Any = UNSET
        self.run_id = run_id
        self.step_index = step_index
        self.limits = limits
        self._brief = brief
        self.recovered = recovered

    def __repr__(self) -> str:
        return f"<step {self.step_index} of run {self.run_id}>"

    @property
    def task(self) -> Any:
        """The run's input."""
        if self._task is UNSET:
            self._task = self._make_task()
        return self._task

    @property
    def brief(self) -> str | None:
        """What happened before this process took the run up, for the model; None where nobody interrupted it."""
        return None if self._brief is None else self._brief()

    @property
    def history(self) -> Sequence[Turn]:
        """The turns before this step, oldest first."""
        if self._turns is None:
            self._turns = self._history.before(self.step_index)
        return self._turns

    def messages(self, provider: str) -> list[Message]:
        """The task and the history as messages for a provider: "openai" (chat completions) or "anthropic" (messages).

        They are valid whatever happened: every call has one result, in its place.  The list is the caller's own, to
        change or add to.  A brief is not among them.
        """
        return self._history.messages(provider, self.step_index)


class _Turns(Sequence[Turn]):
    """The first turns of a list that grows, for one view to show; each is copied when it is first asked for.  They are
    compared like a tuple's.
    """

    __slots__ = ("_copies", "_count", "_turns")

    def __init__(self, turns: list[Turn], count: int) -> None:
        self._turns = turns
        self._count = count
        self._copies: dict[int, Turn] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        places = range(self._count)[index]
        return self._copy(places) if isinstance(places, int) else tuple(map(self._copy, places))

    def _copy(self, place: int) -> Turn:
        found = self._copies.get(place)
        return self._copies.setdefault(place, apart(self._turns[place])) if found is None else found

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, _Turns)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class _History:
    """The turns of one run, read as far as they are asked for."""

    def __init__(
        self, store: Store, run: RunRecord, task: Callable[[], Any], refuse: Callable[[JumarError], Any]
    ) -> None:
        self._store = store
        self._run_no = run.run_no
        self._line = run.line
        self._task = task
        self._refuse = refuse
        self._lock = threading.Lock()
        self._turns: list[Turn] = []
        self._next = 0  # the number of the first call that has not been read
        self._transcripts: dict[str, Transcript] = {}

    def before(self, step: int) -> _Turns:
        """The turns before this step."""
        with self._lock:
            self._read(step)
            return _Turns(self._turns, min(len(self._turns), step - 1))

    def messages(self, provider: str, step: int) -> list[Message]:
        """The messages before this step; each turn is made into messages once."""
        with self._lock:
            transcript = self._transcripts.get(provider)
            if transcript is None:
                transcript = self._transcripts[provider] = Transcript(provider, self._task())
            self._read(step)
            turns = min(len(self._turns), step - 1)
            for turn in self._turns[transcript.turns : turns]:
                transcript.add(turn)
            return transcript.upto(turns)

    def _read(self, step: int) -> None:
        if len(self._turns) >= step - 1:
            return
        try:
            for rows in grouped(self._calls()):
                if turn_number(rows[0].step) >= step:
                    return
                turn = turn_of(rows, self._artifact)
                if turn is None:
                    return
                self._turns.append(turn)
                self._next = rows[-1].seq + 1
        except JumarError as error:
            raise self._refuse(error) from error

    def _calls(self) -> list[CallRecord]:
        """The calls not read yet, without those that a rollback left behind."""
        calls = self._store.calls(self._run_no, self._next)
        return [call for call in calls if counts(self._line, call)] if self._line else calls

    def _artifact(self, name: bytes) -> bytes:
        return read_artifact(self._store, self._run_no, name)


class Views:
    """What gives each decision of a live run its view."""

    def __init__(self, live: LiveRun, input_codec: TypedCodec) -> None:
        self._live = live
        self._codec = input_codec
        self._history: _History | None = None
        self._input = b""
        self._make_brief: Callable[[], str] | None = None
        self._brief: str | None = None
        self._lock = threading.Lock()

    def _told(self) -> str:
        """The brief, which is made when it is first asked for."""
        with self._lock:
            if self._brief is None:
                assert self._make_brief is not None
                try:
                    self._brief = self._make_brief()
                except JumarError as error:
                    raise self._live.stop(error) from error
            return self._brief

    def at(self, task: Any, number: int, limits: Limits, brief: Callable[[], str] | None) -> LoopView:
        """The view of turn `number`."""
        live = self._live
        self._make_brief = brief
        if self._history is None:
            self._input = data = self._codec.encode(task)
            # A run whose record is damaged, or cannot be read, is not for the function to deal with: it stops.
            self._history = _History(live.io.store, live.run, lambda: shown(_json.decode(data)), live.stop)
        return LoopView(
            self._history,
            run_id=live.run_id,
            task=partial(self._codec.decode, self._input),
            step_index=number,
            limits=limits,
            brief=None if brief is None else self._told,
            recovered=live.recovered,
        )


def view_of(store: Store, run: RunRecord) -> LoopView:
    """A run of a loop agent, for looking: its history to the last recorded call, that of an open turn included.

    UsageError where it is a function agent's run.
    """
    if run.phase is Phase.IN_CODE:
        raise _no_loop(run)
    assert run.input_digest is not None
    data = read_artifact(store, run.run_no, run.input_digest)

    def task() -> Any:
        return shown(_json.decode(data))

    history = _History(store, run, task, _as_it_is)
    try:
        turns = history.before(_ALL)
    except IntegrityError as error:
        if run.phase is Phase.STOPPED:  # of a function agent that has ended
            raise _no_loop(run) from error
        raise
    if not turns and run.status is Status.COMPLETED:  # which no loop agent is without a decision
        raise _no_loop(run)
    step = turns[-1].index + 1 if turns else 1
    return LoopView(
        history, run_id=run.run_id, task=task, step_index=step, limits=None, brief=None, recovered=run.epoch > 1
    )


def _no_loop(run: RunRecord) -> UsageError:
    return UsageError(
        f"run {run.run_id} is of {run.agent}, which is no loop agent", hint="Look at it with `jumar show RUN`."
    )


def read_artifact(store: Store, run_no: int, name: bytes) -> bytes:
    """The bytes of an artifact; IntegrityError where they are gone or changed."""
    data = store.artifact(run_no, name)
    if data is None or digest(data) != name:
        raise IntegrityError(f"artifact {name.hex()[:12]} is missing or damaged")
    return data


def _as_it_is(error: JumarError) -> JumarError:
    return error
