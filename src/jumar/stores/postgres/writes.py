"""Applying changes: each is one call of one function of the database, made and answered in one round trip.

The functions check the guards and write the rows (migrations 0003 to 0005); here changes become their parameters, and
what they answer becomes outcomes.  A lone advance commits by itself.  Several changes go as one pipeline, from BEGIN to
COMMIT, without waiting for an answer in between; whatever rows and names more than one of them may want are locked at
its start, in one order, so that no two such transactions wait for each other.  Should two wait for each other all the
same, the database ends one of them, which is then made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import psycopg

from jumar.core.changes import (
    Ack,
    Adopt,
    Advance,
    Answer,
    Arrive,
    Change,
    Claim,
    Claimed,
    Create,
    Depart,
    Fork,
    Guard,
    Order,
    Outcome,
    Refusal,
    Renew,
)
from jumar.core.phases import FINAL
from jumar.core.records import LeaseTime, RunRecord
from jumar.core.states import EventKind, mask
from jumar.stores import refusals
from jumar.stores.packing import pack
from jumar.stores.postgres import moving, raised
from jumar.stores.postgres.asking import ask
from jumar.stores.postgres.documents import answer_rest, claim_rest, jsonb, keys, rest_of, workspaces
from jumar.stores.postgres.plain import columns, grouped, guards, is_plain_advance, parameters
from jumar.stores.postgres.run_rows import run_of

Connection: TypeAlias = psycopg.Connection[Any]
Statements: TypeAlias = Mapping[str, str]
Learn: TypeAlias = Callable[[int], None]

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
COMMIT = "COMMIT"
_FINAL = mask(*FINAL)
_TRIES = 5
_AGAIN = frozenset({"40001", "40P01"})  # a serialization failure, a deadlock
# These look at nothing but rows that the lock on their run keeps as they are, whatever transactions may see of others.
_BY_THEMSELVES = frozenset({"advance_plain", "advance_alone", "renew"})
_decode = msgspec.json.Decoder().decode


class Alone(Exception):
    """The batch has to be taken apart: one of the changes stands for itself."""


class Call(NamedTuple):
    """A statement to send: its name in queries.sql, and its parameters."""

    name: str
    parameters: tuple[Any, ...]


def apply_batch(
    connection: Connection, sql: Statements, changes: Sequence[Change], learn: Learn | None = None
) -> list[Outcome]:
    """Apply changes in this order, all or none, and answer each.

    `connection` is in autocommit mode and outside a transaction, and is so again afterwards.  Raises psycopg.Error
    where the database does, or a guard failed after rows were written: nothing is left behind then, unless the
    connection was lost.  Of a lone change the latter is its Refusal.  `learn` is told the server's lease clock.
    """
    adoption = next((change for change in changes if isinstance(change, Adopt)), None)
    if adoption is not None:
        if len(changes) > 1:
            raise Alone("a run is adopted in a transaction of its own")
        return [_again(lambda: moving.adopt(connection, sql, adoption))]
    if len(changes) == 1:
        return [_alone(connection, sql, changes[0], learn)]
    groups = grouped(changes)
    calls = [Call("advance_many", columns(group)) if isinstance(group, list) else call_for(group) for group in groups]
    replies = _again(lambda: _pipelined(connection, sql, [_locks(changes), *calls]))[1:]
    told: list[Any] = []
    for group, reply in zip(groups, map(_decode, replies), strict=True):
        told += reply if isinstance(group, list) else [reply]
    if learn is not None and told:
        learn(told[-1][0])
    return [_outcome(change, each) for change, each in zip(changes, told, strict=True)]


def _alone(connection: Connection, sql: Statements, change: Change, learn: Learn | None) -> Outcome:
    call = call_for(change)
    try:
        if call.name in _BY_THEMSELVES:
            reply = _again(lambda: _autocommitted(connection, sql, call))
        else:
            (reply,) = _again(lambda: _pipelined(connection, sql, [call]))
    except psycopg.Error as error:
        refusal = raised.refusal(error)
        if refusal is None:
            raise
        return refusal
    told = _decode(reply)
    if learn is not None:
        learn(told[0])
    return _outcome(change, told)


def _again(transaction: Callable[[], Any]) -> Any:
    """The transaction's answer.  One that the database ended because another was in its way left nothing behind."""
    for _ in range(_TRIES - 1):
        try:
            return transaction()
        except psycopg.Error as error:
            if error.sqlstate not in _AGAIN:
                raise
    return transaction()


def _autocommitted(connection: Connection, sql: Statements, call: Call) -> str | bytes:
    if call.name == "advance_plain":
        return ask(connection, sql["advance_plain_asked"], call.parameters)
    row = connection.execute(sql[call.name], call.parameters).fetchone()
    assert row is not None
    return str(row[0])


def _pipelined(connection: Connection, sql: Statements, calls: Sequence[Call]) -> list[Any]:
    try:
        with connection.pipeline():
            connection.execute(BEGIN)
            cursors = [connection.execute(sql[call.name], call.parameters) for call in calls]
            connection.execute(COMMIT)
        rows = [cursor.fetchone() for cursor in cursors]
    except Exception:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        raise
    return [None if row is None else row[0] for row in rows]


def _locks(changes: Sequence[Change]) -> Call:
    """What several changes have to lock before the first of them is made."""
    run_nos: set[int] = set()
    run_ids: set[str] = set()
    spaces: set[str] = set()
    names: set[str] = set()
    freed: list[tuple[int, int]] = []
    for change in changes:
        if isinstance(change, (Claim, Order, Arrive, Depart)):
            run_ids.add(change.run_id)
        elif isinstance(change, Fork):
            run_nos.add(change.source_no)
        elif isinstance(change, (Advance, Renew, Answer)):
            run_nos.add(change.run_no)
        if isinstance(change, (Advance, Claim)):
            spaces.update(workspaces(change.holds))
        if isinstance(change, Advance):
            names.update(keys(change.takes))
            freed += [(change.run_no, seq) for seq in change.frees]
        if isinstance(change, Answer) and change.frees and change.settles is not None:
            freed.append((change.run_no, change.settles.seq))
    freed_runs, freed_seqs = [run_no for run_no, _ in freed], [seq for _, seq in freed]
    return Call("lock_all", (list(run_nos), list(run_ids), list(spaces), list(names), freed_runs, freed_seqs))


def call_for(change: Change) -> Call:
    """The statement that applies a change."""
    if type(change) is Advance:
        return _advance(change)
    if isinstance(change, Create):
        return _create(change)
    if isinstance(change, Claim):
        return _claim(change)
    if isinstance(change, Renew):
        return Call("renew", (change.run_no, change.owner, change.epoch, change.ttl_ms))
    if isinstance(change, Answer):
        return _answer(change)
    if isinstance(change, Order):
        control, by, note = int(change.control), change.by, change.note
        told = (int(EventKind.ORDERED), change.control.label)
        return Call("order", (change.run_id, control, change.at, by, note, _FINAL, *told))
    if isinstance(change, Fork):
        return _fork(change)
    if isinstance(change, Arrive):
        return Call("arrive", moving.arrive_values(change))
    if isinstance(change, Depart):
        return Call("depart", moving.depart_values(change))
    raise TypeError(f"{type(change).__name__} is no change")


def _advance(change: Advance) -> Call:
    if is_plain_advance(change):
        return Call("advance_plain", parameters(change))
    rest, blobs = rest_of(change)
    name = "advance" if "gives" in rest or "ending" in rest else "advance_alone"
    return Call(name, (*guards(change), change.control, change.answers, jsonb(rest), blobs))


def _create(new: Create) -> Call:
    values = (
        *(new.run_id, new.agent, new.agent_version, new.task, int(new.phase), new.owner, new.ttl_ms, new.input.digest),
        *pack(new.input.data),
        *(new.at, new.workspace, int(EventKind.CREATED)),
    )
    return Call("create", values)


def _claim(claim: Claim) -> Call:
    rest, blobs = claim_rest(claim)
    values = (
        *(claim.run_id, claim.owner, claim.ttl_ms, claim.statuses, claim.early, claim.resumes, claim.epoch),
        *(claim.version, claim.workspace, _FINAL, claim.at, jsonb(rest), blobs),
    )
    return Call("claim", values)


def _answer(given: Answer) -> Call:
    rest, blobs = answer_rest(given)
    values = (
        *(given.run_no, given.request_id, int(given.verdict), given.value, given.by, given.note, given.at, given.epoch),
        *(_FINAL, int(EventKind.ANSWERED), given.verdict.label, jsonb(rest), blobs),
    )
    return Call("answer", values)


def _fork(change: Fork) -> Call:
    values = (
        *(change.run_id, change.source_no, change.version, change.base, int(change.phase), change.step, change.at),
        *(list(change.calls), list(change.checkpoints), change.workspace, int(EventKind.FORKED)),
    )
    return Call("fork", values)


def outcome(change: Change, reply: str) -> Outcome:
    """What the database's answer to a change means."""
    return _outcome(change, _decode(reply))


def _outcome(change: Change, told: list[Any]) -> Outcome:
    if isinstance(told[1], str):  # the boot: a guard refused
        return _refusal(change, LeaseTime(bytes.fromhex(told[1]), told[0]), *map(run_of, told[2:]))
    if isinstance(change, Advance):
        return Ack(change.run_no, change.version + 1, change.epoch, told[1], told[2], tuple(told[3]))
    if isinstance(change, Claim):
        run = run_of(told[1])
        assert run is not None
        return Claimed(run, told[2], told[3])
    if isinstance(change, Renew):
        return Ack(change.run_no, told[1], change.epoch, told[2], told[3])
    if isinstance(change, Answer):
        return Ack(change.run_no, *told[1:])
    if isinstance(change, Fork):
        return Ack(told[1], told[2], 0)
    return Ack(*told[1:])


def _refusal(change: Change, now: LeaseTime, run: RunRecord | None, other: RunRecord | None = None) -> Refusal:
    """Name the guard, from the run as the refusing transaction saw it; `other` has the id that a fork was to have."""
    if isinstance(change, Advance):
        return refusals.advance_refused(run, now, change)
    if isinstance(change, Create):
        return Refusal(Guard.EXISTS, f"run {change.run_id} is already there", run)
    if isinstance(change, Renew):
        return Refusal(Guard.LEASE, "the lease ran out or was taken over", run)
    if isinstance(change, Answer):
        return Refusal(Guard.ANSWERED, "this request was answered before, or is no longer asked", run)
    if isinstance(change, Fork):
        return refusals.fork_refused(run, other, change)
    if isinstance(change, (Arrive, Depart)):
        return moving.refused(change, now, run)
    assert isinstance(change, (Claim, Order)), change
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {change.run_id}")
    if isinstance(change, Claim):
        return refusals.claim_refused(run, now, change)
    return refusals.ended(run)
