"""Ways to break the protocol, each in one spot.  The tests of the protocol are tested by them: every one must be
noticed.

A mutation is a context manager; `hits` of what it yields says how often the broken spot was come by, so that one
that no longer meets anything shows as well.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from jumar.core.changes import Refusal
from jumar.core.replay import BranchTable, ReplayTable
from jumar.core.states import Effect
from jumar.core.uncertain import RESOLUTION, Resolution
from jumar.core.verdicts import NotHappened, Unknown
from jumar.engine import policy
from jumar.engine.flows import calls, effects, settling
from jumar.engine.halting import Halt
from jumar.engine.live import LiveRun
from jumar.engine.policy import Settings
from jumar.engine.scope import CurrentCall
from jumar.stores.sqlite import tables, writes
from tests.crash.statements import rewritten

Mutation = Callable[[], Any]
MUTATIONS: dict[str, Mutation] = {}


class Broken:
    """How often the broken spot was come by."""

    def __init__(self) -> None:
        self.hits = 0

    def hit(self, value: Any = None) -> Any:
        """Come by, with this value."""
        self.hits += 1
        return value


def mutated(registry: dict[str, Mutation]) -> Callable[[Callable[[Broken], Any]], Mutation]:
    """A decorator that registers a mutation: a generator that breaks a spot, yields, and mends it."""

    def mutation(function: Callable[[Broken], Any]) -> Mutation:
        @contextmanager
        def broken() -> Generator[Broken, None, None]:
            spot = Broken()
            with contextmanager(function)(spot):
                yield spot

        registry[function.__name__] = broken
        return broken

    return mutation


mutation = mutated(MUTATIONS)


def sql(spot: Broken, marks: tuple[str, ...], old: str, new: str) -> Any:
    """Replace a part of the statements that hold all the marks."""

    def rewrite(connection: Any, statement: str, values: Any) -> Any:
        text = " ".join(statement.split())
        if old in text and all(mark in text for mark in marks):
            spot.hit()
            return connection.execute(text.replace(old, new), *values)
        return connection.execute(statement, *values)

    return rewritten(rewrite)


# --- Before and after a call is sent. ---


@mutation
def effects_are_sent_without_a_record(spot: Broken) -> Any:
    """An effect is sent without committing STARTED first, as a read is."""
    with patch.object(calls, "needs_started", lambda effect: spot.hit(False)):
        yield


@mutation
def an_uncertain_external_call_is_simply_made_again(spot: Broken) -> Any:
    """An external call that may have happened is treated as an idempotent one."""
    with patch.dict(RESOLUTION, {Effect.EXTERNAL: Resolution.AGAIN_SAME_KEY}):
        spot.hit()
        yield


@mutation
def the_key_names_the_attempt(spot: Broken) -> Any:
    """The idempotency key is another one for each attempt."""
    key = property(lambda call: spot.hit(f"{call.run_id}/{call.call_id}/{call.attempt}"))
    with patch.object(CurrentCall, "idempotency_key", key):
        yield


@mutation
def a_deadline_for_sending_is_not_kept(spot: Broken) -> Any:
    """A call whose STARTED is old may be sent all the same."""
    with patch.object(Settings, "dispatch_ms", property(lambda settings: spot.hit(10**9))):
        yield


@mutation
def calls_are_sent_although_the_lease_is_in_doubt(spot: Broken) -> Any:
    """The trust deadline is not looked at."""

    def before_dispatch(live: LiveRun) -> None:
        spot.hit()
        live.check()

    with patch.object(LiveRun, "before_dispatch", before_dispatch):
        yield


# --- Settling what may have happened. ---


@mutation
def not_happened_counts_at_once(spot: Broken) -> Any:
    """That nothing happened is believed while the attempt may still act."""
    with patch.object(policy, "sure_of_not_happened_at", lambda **times: spot.hit(0)):
        yield


@mutation
def not_knowing_counts_as_not_happened(spot: Broken) -> Any:
    """A probe that does not know, or is not there, is taken to say that nothing happened."""
    real = settling._probe

    def probe(*args: Any) -> Any:
        answer = yield from real(*args)
        return spot.hit(NotHappened()) if isinstance(answer, Unknown) else answer

    with patch.object(settling, "_probe", probe):
        yield


@mutation
def late_results_are_dropped(spot: Broken) -> Any:
    """What an attempt returns after its timeout is not filed."""
    with patch.object(settling, "_file_late", lambda *args: spot.hit()):
        yield


@mutation
def an_answer_nobody_has_looked_at_counts_as_seen(spot: Broken) -> Any:
    """An advance that tells of an answer marks it as seen."""
    real = LiveRun.seen

    def seen(live: LiveRun, *told: Any) -> None:
        real(live, *told)
        run = live.io.store.run(live.run_id)
        assert run is not None
        live.answers = spot.hit(run.answers)

    with patch.object(LiveRun, "seen", seen):
        yield


@mutation
def a_person_has_the_last_word_over_a_late_result(spot: Broken) -> Any:
    """A request that is answered takes no late result any more."""
    with sql(spot, ("UPDATE request",), "(verdict IS NULL OR (verdict = 1 AND :epoch IS NOT NULL))", "verdict IS NULL"):
        yield


@mutation
def a_call_given_up_leaves_no_mark(spot: Broken) -> Any:
    """That the agent gave a call up is not recorded."""
    with patch.object(effects, "note_given_up", lambda *args, **options: spot.hit()):
        yield


# --- Claims, leases and guards. ---


@mutation
def a_claim_marks_nothing_uncertain(spot: Broken) -> Any:
    """A claim leaves the calls of the dead process as they are."""
    with sql(spot, ("UPDATE call", "state = 5"), "state = 2", "state = 2 AND 0"):
        yield


@mutation
def a_claim_keeps_the_epoch(spot: Broken) -> Any:
    """The fencing token is not raised."""
    with sql(spot, ("UPDATE run",), "epoch = epoch + 1", "epoch = epoch"):
        yield


@mutation
def advances_do_not_look_at_the_lease(spot: Broken) -> Any:
    """An advance lands although the lease ran out."""
    with (
        sql(spot, ("version = version + 1",), "lease_until > ?", "? IS NOT NULL"),
        sql(spot, ("version = version + 1",), "lease_until > :now", ":now IS NOT NULL"),
    ):
        yield


@mutation
def advances_do_not_look_at_the_epoch_or_owner(spot: Broken) -> Any:
    """An advance lands although another process has the run."""
    with (
        sql(spot, ("version = version + 1",), "owner = ? AND epoch = ?", "? IS NOT NULL AND ? IS NOT NULL"),
        sql(spot, ("version = version + 1",), "owner = :owner AND epoch = :epoch", ":owner <> '' AND :epoch > 0"),
        sql(spot, ("version = version + 1",), "version = ?", "? IS NOT NULL"),
        sql(spot, ("version = version + 1",), "version = :version", ":version IS NOT NULL"),
    ):
        yield


@mutation
def advances_do_not_look_at_the_owner(spot: Broken) -> Any:
    """An advance lands under anybody's name, if only the epoch is right."""
    with (
        sql(spot, ("version = version + 1",), "AND owner = ?", "AND ? <> ''"),
        sql(spot, ("version = version + 1",), "AND owner = :owner", "AND :owner <> ''"),
    ):
        yield


@mutation
def advances_do_not_look_at_the_version(spot: Broken) -> Any:
    """An advance lands on top of whatever is there."""
    with (
        sql(spot, ("version = version + 1",), "AND version = ?", "AND ? IS NOT NULL"),
        sql(spot, ("version = version + 1",), "AND version = :version", "AND :version IS NOT NULL"),
    ):
        yield


@mutation
def a_renewal_revives_a_lost_lease(spot: Broken) -> Any:
    """A renewal does not look whether the lease is still live."""
    with sql(spot, ("UPDATE run SET lease_until = :lease_until",), "lease_until > :now", ":now IS NOT NULL"):
        yield


@mutation
def rows_land_although_the_guard_refused(spot: Broken) -> Any:
    """The calls of a refused advance are written all the same."""
    real = writes._advance

    def advance(connection: Any, change: Any) -> Any:
        outcome = real(connection, change)
        if isinstance(outcome, Refusal):
            for call in change.changes:
                spot.hit()
                tables.call_change(connection, change.run_no, replace(call, epoch=change.epoch), change.version + 1)
        return outcome

    with patch.object(writes, "_advance", advance):
        yield


@mutation
def the_cursor_commits_before_the_result(spot: Broken) -> Any:
    """The run's row and the rows that belong to it go to disk in two transactions."""

    def rewrite(connection: Any, statement: str, values: Any) -> Any:
        answer = connection.execute(statement, *values)
        if "version = version + 1" in statement and "RETURNING" not in statement and answer.rowcount == 1:
            spot.hit()
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        return answer

    with rewritten(rewrite):
        yield


# --- Replay. ---


@mutation
def replay_matches_nothing(spot: Broken) -> Any:
    """A recorded call is made again."""
    with (
        patch.object(BranchTable, "match", lambda *args: spot.hit()),
        patch.object(BranchTable, "first_effect", lambda *args: None),
        patch.object(ReplayTable, "unmatched_effects", lambda table: []),
    ):
        yield


@mutation
def replay_does_not_look_at_the_arguments(spot: Broken) -> Any:
    """A call is answered by any record of the same tool."""
    add, match = BranchTable.add, BranchTable.match

    def add_bare(table: BranchTable, record: Any) -> None:
        digests[record.seq] = record.args_digest
        add(table, replace(record, args_digest=b""))

    def match_bare(table: BranchTable, kind: Any, tool: str, args_digest: bytes) -> Any:
        record = match(table, kind, tool, b"")
        return None if record is None else spot.hit(replace(record, args_digest=digests[record.seq]))

    digests: dict[int, bytes] = {}
    with patch.object(BranchTable, "add", add_bare), patch.object(BranchTable, "match", match_bare):
        yield


@mutation
def branches_share_one_table(spot: Broken) -> Any:
    """The branches of a gather answer each other's calls."""
    real = ReplayTable.branch
    with patch.object(ReplayTable, "branch", lambda table, path: real(table, spot.hit(""))):
        yield


@mutation
def changed_code_is_not_noticed(spot: Broken) -> Any:
    """A call goes out although its branch holds an unmatched record of another."""
    with patch.object(calls, "_refuse_divergence", lambda call: spot.hit()):
        yield


# --- Stopping. ---


@mutation
def stopping_signals_are_ordinary_exceptions(spot: Broken) -> Any:
    """What stops a run is caught by an agent's `except Exception`."""

    class Soft(Exception):
        error = None

    with patch.object(Halt, "signal", lambda halt: spot.hit(Soft("stopped"))):
        yield
