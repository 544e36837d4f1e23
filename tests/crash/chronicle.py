"""What landed in a store, change by change, held against the laws of the protocol.

A `Chronicle` is told of every change and of what the store answered to it.  It keeps its own idea of each run from
that alone (phase, version, epoch, calls, requests, names) and writes down whatever breaks a law: `wrongs` must be
empty in the end.  It raises nothing, because what it is told it is told in the middle of a commit.

The laws: versions follow one another and epochs never fall; phases and call states walk their tables; attempts are
counted; a claim leaves nothing STARTED, nor a read that an open decision had planned as if it was never made; a
question is asked once an attempt; an attempt goes out only under an approval of its own, or under one that covers a
retry after an attempt which surely was not applied; a named call is sent only while it holds its name, and keeps it
while nobody knows whether it happened; a run that has left RUNNING has nothing STARTED, and one that was paused or
cancelled sends nothing more; a run that waits does not wait for what was answered; a sleep ends when it was to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from jumar.core.call_states import CALL_STATES
from jumar.core.changes import Ack, Advance, Answer, CallChange, Change, Claim, Claimed, Create, Ending, Order, Outcome
from jumar.core.phases import STATUSES, check_path
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect, IdentityScope, Phase, RequestKind, Status, Verdict
from jumar.core.store import Store
from jumar.errors import IllegalTransition
from jumar.testing.witness import Line

_OPEN_DECISION = (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
_ORDERED = (Status.PAUSED, Status.CANCELLED)
_GIVES_UP = (CallState.REJECTED, CallState.COMPENSATED, CallState.FAILED)


class Seen:
    """One call, as far as the changes tell of it."""

    def __init__(self, record: CallRecord) -> None:
        self.call_id, self.tool, self.kind, self.effect = record.call_id, record.tool, record.kind, record.effect
        self.state: CallState | None = None
        self.attempt = 0
        self.failure: str | None = None  # the type of it
        self.result = record.result
        self.name: tuple[int, str] | None = None
        self.covered = False  # whether the last attempt went out under an approval


class Book:
    """One run, as far as the changes tell of it."""

    def __init__(self, run_id: str, phase: Phase, epoch: int) -> None:
        self.run_id = run_id
        self.phase = phase
        self.version = 0
        self.epoch = epoch
        self.status = Status.RUNNING if epoch else Status.QUEUED
        self.calls: dict[int, Seen] = {}
        self.asked: dict[tuple[int, RequestKind, int], str] = {}  # by call, kind and attempt: the request's id
        self.verdicts: dict[str, Verdict] = {}
        self.still_at: int | None = None  # the number of lines the witness had when the run was paused or cancelled
        self.told_at: int | None = None  # and when its driver was told of an order


class Chronicle:
    """The changes of every run in one store, which `store` reads.  `lines` are those of the witness, `approved` the
    tools that need a yes; `in_turn` says that no two calls of a run are ever made side by side.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        lines: Callable[[], list[Line]],
        *,
        approved: frozenset[str],
        in_turn: bool = True,
    ) -> None:
        self.books: dict[int, Book] = {}
        self.names: dict[tuple[int, str], tuple[int, int]] = {}
        self.wrongs: list[str] = []
        self.told: list[str] = []  # what landed, in a few words
        self.approved = approved
        self._store = store
        self._lines = lines
        self._in_turn = in_turn
        self._lock = threading.Lock()

    def add(self, change: Change, outcome: Outcome | Exception) -> None:
        """A change was answered."""
        with self._lock:
            try:
                self._add(change, outcome)
            except Exception as error:  # a law that was met by something it did not reckon with
                self._wrong(f"{type(error).__name__}: {error}")

    def _add(self, change: Change, outcome: Outcome | Exception) -> None:
        if isinstance(change, Create) and isinstance(outcome, Ack):
            self.books[outcome.run_no] = Book(change.run_id, change.phase, outcome.epoch)
        elif isinstance(change, Claim) and isinstance(outcome, Claimed):
            self._claimed(self.books[outcome.run.run_no], change, outcome)
        elif isinstance(change, Advance) and isinstance(outcome, Ack):
            self._advanced(self.books[change.run_no], change, outcome)
        elif isinstance(change, Answer) and isinstance(outcome, Ack):
            self._answered(self.books[change.run_no], change)
        elif isinstance(change, Order) and isinstance(outcome, Ack):
            self.told.append(f"ordered to {change.control.label}")

    def _wrong(self, what: str) -> None:
        self.wrongs.append(what)

    # --- Claims. ---

    def _claimed(self, book: Book, claim: Claim, claimed: Claimed) -> None:
        run = claimed.run
        self.told.append(f"claimed, epoch {run.epoch}")
        if run.epoch != book.epoch + 1:
            self._wrong(f"a claim led from epoch {book.epoch} to {run.epoch}")
        if book.status in (Status.PAUSED, Status.FAILED) and not (claim.resumes or claim.early):
            self._wrong(f"a run {book.status.label} was taken up, and nobody asked for it")
        self._nothing_since(book)
        book.epoch, book.status, book.still_at, book.told_at = run.epoch, Status.RUNNING, None, None
        marked = 0
        for seen in book.calls.values():
            doubted = seen.state is CallState.STARTED
            if seen.state is CallState.PLANNED and seen.effect is Effect.READ and book.phase in _OPEN_DECISION:
                doubted, seen.attempt = True, seen.attempt + 1
            if doubted:
                seen.state, marked = CallState.UNCERTAIN, marked + 1
        if claimed.uncertain != marked:
            self._wrong(f"a claim made {claimed.uncertain} calls uncertain, and not {marked}")
        for change in claim.reopens:
            self._moved(book, change.seq, change.state, change.attempt)
            book.calls[change.seq].failure = None
        self.compare(run.run_no)

    def compare(self, run_no: int) -> None:
        """Hold the run's calls, and the names of those that may have happened, against what is on disk."""
        book = self.books[run_no]
        for row in self._store().calls(run_no):
            seen = book.calls[row.seq]
            if (row.state, row.attempt) != (seen.state, seen.attempt):
                what = f"{seen.state and seen.state.name}, attempt {seen.attempt}"
                self._wrong(f"{row.call_id} is {row.state.name}, attempt {row.attempt}, and not {what}")
            if row.state is CallState.UNCERTAIN and row.identity is not None and row.identity_scope is not None:
                holder = self._store().identity(row.identity_scope, run_no, row.identity)
                if holder is None or (holder.run_no, holder.call_seq) != (run_no, row.seq):
                    self._wrong(f"{row.call_id} may have happened, and its name {row.identity} is not its own")

    # --- Advances. ---

    def _advanced(self, book: Book, advance: Advance, ack: Ack) -> None:
        if ack.version != book.version + 1:
            self._wrong(f"an advance led from version {book.version} to {ack.version}")
        if advance.epoch != book.epoch or book.status is not Status.RUNNING:
            self._wrong(f"an advance of epoch {advance.epoch} landed in a run {book.status.label}, epoch {book.epoch}")
        try:
            check_path(book.phase, *advance.through, advance.phase)
        except IllegalTransition as error:
            self._wrong(error.what)
        book.version, book.phase = ack.version, advance.phase
        for seq in advance.frees:
            self._freed(book, advance, seq)
        for record in advance.calls:
            book.calls[record.seq] = Seen(record)
        for each in (*advance.calls, *advance.changes):
            self._call(book, advance, ack, each)
        for request in advance.requests:
            place = (request.call_seq, request.kind, request.attempt)
            if place in book.asked:
                self._wrong(f"{request.call_id} asks twice ({request.kind.label}, attempt {request.attempt})")
            book.asked[place] = request.request_id
        if ack.control and book.told_at is None:
            book.told_at = len(self._lines())
        if advance.ending is not None:
            self._left(book, advance.ending)

    def _call(self, book: Book, advance: Advance, ack: Ack, each: CallRecord | CallChange) -> None:
        seen = book.calls[each.seq]
        state, attempt = each.state, each.attempt
        if each.identity is not None and each.identity_scope is not None:
            seen.name = (0 if each.identity_scope is IdentityScope.STORE else advance.run_no, each.identity)
        if each.seq in ack.taken:
            state, attempt = CallState.AWAITING, attempt - 1
        elif state is CallState.STARTED:
            self._sent(book, advance, seen, each.seq, attempt)
        self._moved(book, each.seq, state, attempt)
        seen.failure = None if each.failure is None else each.failure.type_name
        if seen.kind is CallKind.SLEEP and state is CallState.SUCCEEDED and advance.at < int(seen.result or b"0"):
            self._wrong(f"{seen.call_id} ended before its time")

    def _moved(self, book: Book, seq: int, state: CallState, attempt: int) -> None:
        seen = book.calls[seq]
        self.told.append(f"{seen.call_id} {state.name} {attempt}")
        before = seen.state
        if state not in CALL_STATES[before]:
            self._wrong(f"{seen.call_id} went from {before and before.name} to {state.name}")
        if state is CallState.STARTED and attempt != seen.attempt + 1:
            self._wrong(f"attempt {attempt} of {seen.call_id} was sent after attempt {seen.attempt}")
        if seen.effect is not Effect.READ and state is CallState.SUCCEEDED and attempt != seen.attempt:
            self._wrong(f"{seen.call_id} ended with attempt {attempt}, and attempt {seen.attempt} was the last")
        seen.state, seen.attempt = state, attempt

    def _sent(self, book: Book, advance: Advance, seen: Seen, seq: int, attempt: int) -> None:
        if seen.name is not None:
            takes = [take for take in advance.takes if take.seq == seq]
            if not takes:
                self._wrong(f"{seen.call_id} was sent without its name")
            for take in takes:
                self._took(advance.run_no, seen, seq, take.instead_of)
        if seen.tool in self.approved and seen.kind is CallKind.TOOL:
            request = book.asked.get((seq, RequestKind.APPROVAL, attempt))
            verdict = None if request is None else book.verdicts.get(request)
            is_retry = request is None and seen.state is CallState.PLANNED and seen.failure is not None and seen.covered
            seen.covered = verdict is Verdict.APPROVE or is_retry
            if not seen.covered:
                self._wrong(f"attempt {attempt} of {seen.call_id} was sent without an approval ({verdict})")

    # --- Names. ---

    def _took(self, run_no: int, seen: Seen, seq: int, instead_of: tuple[int, int] | None) -> None:
        assert seen.name is not None
        holder = self.names.get(seen.name)
        if holder is not None and holder != (run_no, seq):
            other = self.books[holder[0]].calls[holder[1]]
            if holder != instead_of or other.state not in _GIVES_UP:
                self._wrong(f"{seen.call_id} took the name of {other.call_id}, which is {other.state}")
        self.names[seen.name] = (run_no, seq)

    def _freed(self, book: Book, advance: Advance, seq: int) -> None:
        seen = book.calls[seq]
        after = next((change for change in advance.changes if change.seq == seq), None)
        state = seen.state if after is None else after.state
        cancelled = advance.ending is not None and advance.ending.status is Status.CANCELLED
        allowed = (*_GIVES_UP, CallState.PLANNED, CallState.AWAITING) if cancelled else _GIVES_UP
        if state not in allowed:
            self._wrong(f"{seen.call_id} gave its name up as {state and state.name}")
        if seen.name is not None and self.names.get(seen.name) == (advance.run_no, seq):
            del self.names[seen.name]

    # --- Leaving, answers. ---

    def _left(self, book: Book, ending: Ending) -> None:
        self.told.append(ending.status.name)
        if ending.status not in STATUSES[book.status]:
            self._wrong(f"a run went from {book.status.label} to {ending.status.label}")
        started = [seen.call_id for seen in book.calls.values() if seen.state is CallState.STARTED]
        if started:
            self._wrong(f"the run is {ending.status.label}, and {', '.join(started)} under way")
        book.status = ending.status
        if ending.status in _ORDERED:
            book.still_at = len(self._lines())
        if ending.status is Status.WAITING and ending.wake_at is None:
            self._waits_for_something(book, ending)
        if ending.status is Status.WAITING and ending.wake_at is not None:
            self._sleeps_as_long_as_it_was_to(book, ending)

    def _waits_for_something(self, book: Book, ending: Ending) -> None:
        names = (ending.waiting_on or "").split(", ")
        for seq, seen in book.calls.items():
            to_come = seen.attempt if seen.kind is CallKind.ASK else seen.attempt + 1
            kind = RequestKind.ASK if seen.kind is CallKind.ASK else RequestKind.APPROVAL
            verdict = book.verdicts.get(book.asked.get((seq, kind, to_come), ""))
            if seen.call_id in names and seen.state is CallState.AWAITING and verdict is not None:
                self._wrong(f"the run waits for {seen.call_id}, which was answered ({verdict.label})")

    def _sleeps_as_long_as_it_was_to(self, book: Book, ending: Ending) -> None:
        for seen in book.calls.values():
            is_it = seen.kind is CallKind.SLEEP and seen.call_id == ending.waiting_on
            if is_it and ending.wake_at != int(seen.result or b"0"):
                self._wrong(f"{seen.call_id} sleeps until {ending.wake_at}, and was to until {seen.result!r}")

    def _answered(self, book: Book, answer: Answer) -> None:
        was = book.verdicts.get(answer.request_id)
        if was is not None and not (was is Verdict.NOT_HAPPENED and answer.epoch is not None):
            self._wrong(f"a request was answered twice ({was.label}, {answer.verdict.label})")
        self.told.append(f"answered: {answer.verdict.label}")
        book.verdicts[answer.request_id] = answer.verdict
        if book.status is Status.WAITING:
            book.status = Status.QUEUED
        if book.status is Status.CANCELLED and answer.settles is not None:
            settles = answer.settles
            self._moved(book, settles.seq, settles.state, settles.attempt)
            seen = book.calls[settles.seq]
            if answer.frees and seen.name is not None:
                self.names.pop(seen.name, None)

    # --- What the outside world saw. ---

    def _nothing_since(self, book: Book) -> None:
        lines = self._lines()
        for what, position in (("was left", book.still_at), ("was told of an order", book.told_at)):
            if position is None or (what != "was left" and not self._in_turn):
                continue
            later = [f"{line.what} {line.tool}" for line in lines[position:] if line.by == book.run_id]
            if later:
                self._wrong(f"after the run {what}: {later}")

    def settle(self) -> list[str]:
        """Look at everything once more, at the end of the story; answers all that was wrong."""
        for run_no, book in self.books.items():
            self._nothing_since(book)
            self.compare(run_no)
        return self.wrongs


def in_words(wrongs: list[str], told: list[str]) -> str:
    """A failure's text."""
    return f"{wrongs}\n  what landed: {'; '.join(told)}"
