"""Several changes in one transaction of PostgreSQL: what fails fails alone, and no two of them wait for each other.

A deadlock would be resolved by the database and the transaction made again, without anybody seeing more than a delay.
So where none may come about, it is looked at what the database said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jumar.core.changes import Ack, Advance, Change, Guard, Refusal, Renew
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, Phase, Status
from jumar.core.store import Store
from jumar.stores.postgres import writes
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.conformance_scene import LONG, Scene, answering, call, changed
from tests.concurrency.postgres_scene import held, meanwhile
from tests.conformance import one_schema

ROUNDS = 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = one_schema.shared().store_of(tmp_path)
    yield store
    store.close()


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No transaction is ended by the database because of another."""
    met: list[str | None] = []
    again = writes._again

    def listening(transaction: Callable[[], Any]) -> Any:
        def told() -> Any:
            try:
                return transaction()
            except psycopg.Error as error:
                met.append(error.sqlstate)
                raise

        return again(told)

    monkeypatch.setattr(writes, "_again", listening)
    yield
    assert met == []


def renewal(run: RunRecord) -> Renew:
    assert run.owner is not None
    return Renew(run_no=run.run_no, owner=run.owner, epoch=run.epoch, ttl_ms=LONG)


def test_a_call_that_is_there_already_fails_alone_in_a_batch(scene: Scene) -> None:
    runs = [scene.call_in(scene.running(), CallState.STARTED) for _ in range(3)]
    batch = [scene.advance(run, calls=(call(seq),)) for run, seq in zip(runs, (2, 1, 2), strict=True)]
    before = scene.everything(runs[1])
    first, second, third = scene.store.write(batch)
    assert (first, third) == (Ack(runs[0].run_no, 2, 1), Ack(runs[2].run_no, 2, 1))
    assert isinstance(second, Exception)
    assert scene.everything(runs[1]) == before
    assert isinstance(scene.write(scene.advance(runs[1], calls=(call(2),))), Ack)


def test_a_change_that_cannot_be_sent_fails_alone_in_a_batch(scene: Scene) -> None:
    """The driver finds a text that PostgreSQL cannot hold, or that is no text, when a part of the batch is on its
    way.
    """
    runs = [scene.running() for _ in range(4)]
    texts = ("fine", "\x00", "\udc80", "fine")
    batch = [scene.advance(run, calls=(call(1, key=text),)) for run, text in zip(runs, texts, strict=True)]
    first, second, third, fourth = scene.store.write(batch)
    assert (first, fourth) == (Ack(runs[0].run_no, 1, 1), Ack(runs[3].run_no, 1, 1))
    assert isinstance(second, Exception)
    assert isinstance(third, Exception)
    assert [scene.again(run).version for run in runs] == [1, 0, 0, 1]


def test_versions_of_one_run_follow_each_other_in_one_batch(scene: Scene) -> None:
    run = scene.running()
    batch = [scene.advance(run, version=version, calls=(call(version + 1),)) for version in range(20)]
    assert scene.store.write(batch) == [Ack(run.run_no, version + 1, 1) for version in range(20)]
    assert [each.started_version for each in scene.store.calls(run.run_no)] == list(range(1, 21))


ODD = (
    "",
    " ",
    "NULL",
    "null",
    '"',
    "\\",
    '\\"',
    "a,b",
    "{}",
    "{a,{b}}",
    "%s",
    "{schema}",
    "\n\t\r",
    "déjà \U0001f9d7",
    "'; --",
)


def test_what_goes_together_is_written_as_if_it_had_gone_alone(scene: Scene) -> None:
    """Plain calls of different runs are sent as columns, in which any text and any bytes may stand."""
    records = [
        call(1, call_id=f"scan.{text}", branch=text, step=text, tool=text, args=text.encode(), result=bytes(range(at)))
        for at, text in enumerate(ODD)
    ]
    alone, together = ([scene.running(owner=text) for text in ODD] for _ in range(2))
    given = list(zip(records, alone, together, strict=True))
    for record, run, _ in given:
        assert scene.ack(scene.advance(run, step=record.seq + 1, calls=(record,))) == Ack(run.run_no, 1, 1)
    batch = [scene.advance(run, step=record.seq + 1, calls=(record,)) for record, _, run in given]
    assert scene.store.write(batch) == [Ack(run.run_no, 1, 1) for run in together]
    for record, lone, run in given:
        assert scene.store.calls(run.run_no) == scene.store.calls(lone.run_no)
        assert scene.store.calls(run.run_no)[0].result == record.result
        kept, left = scene.again(run), scene.again(lone)
        assert (kept.version, kept.step, kept.phase, kept.updated_at) == (1, 2, left.phase, left.updated_at)


def test_each_of_those_that_go_together_meets_its_own_guard(scene: Scene) -> None:
    good, last = scene.running(), scene.running()
    ahead, gone, ended = scene.running(), scene.abandoned(), scene.ended(Status.COMPLETED)
    taken = scene.running()
    scene.ack(scene.leave(taken, Status.QUEUED))
    scene.claimed(scene.claim(taken))
    deciding = scene.running(phase=Phase.READY_TO_DECIDE)
    batch = [
        scene.advance(good, calls=(call(1),)),
        scene.advance(ahead, version=3, calls=(call(1),)),
        scene.advance(gone, calls=(call(1),)),
        scene.advance(ended, owner="ann", version=1, calls=(call(1),)),
        scene.advance(taken, calls=(call(1),)),
        scene.advance(good, run_no=0, calls=(call(1),)),
        scene.advance(deciding, phase=Phase.VERIFYING, calls=(call(1),)),
        scene.advance(last, calls=(call(1),)),
    ]
    outcomes = scene.store.write(batch)
    assert (outcomes[0], outcomes[-1]) == (Ack(good.run_no, 1, 1), Ack(last.run_no, 1, 1))
    for change, outcome in list(zip(batch, outcomes, strict=True))[1:-1]:
        assert isinstance(outcome, Refusal)
        assert outcome == scene.write(change)
    guards = [outcome.guard for outcome in outcomes if isinstance(outcome, Refusal)]
    assert guards == [Guard.VERSION, Guard.LEASE, Guard.ENDED, Guard.LEASE, Guard.NOT_FOUND, Guard.TRANSITION]
    assert [len(scene.store.calls(each.run_no)) for each in (good, ahead, gone, ended, taken, deciding, last)] == [
        *(1, 0, 0, 0, 0, 0, 1)
    ]


def test_plain_calls_and_others_of_the_same_runs_keep_their_order_in_a_batch(scene: Scene) -> None:
    one, other = scene.running(), scene.running()
    batch = [
        scene.advance(one, calls=(call(1),)),
        scene.advance(other, calls=(call(1),)),
        scene.advance(one, version=1, calls=(call(2, CallState.STARTED),)),
        scene.advance(other, version=1, calls=(call(2),)),
        scene.advance(one, version=2, changes=(changed(2, CallState.SUCCEEDED, result=b"1"),)),
        scene.advance(one, version=3, calls=(call(3),)),
        scene.advance(other, version=2, calls=(call(3),)),
        scene.advance(other, version=3, calls=(call(4),)),
    ]
    assert all(isinstance(outcome, Ack) for outcome in scene.store.write(batch))
    assert [each.started_version for each in scene.store.calls(one.run_no)] == [1, 2, 4]
    assert [each.started_version for each in scene.store.calls(other.run_no)] == [1, 2, 3, 4]


def test_two_transactions_over_the_same_two_runs_never_wait_for_each_other(scene: Scene, undisturbed: None) -> None:
    """The second waits for the first run that it locks, whichever of the two it names first, and holds none meanwhile
    that the first will want.
    """
    low, high = scene.running(), scene.running()
    with held(one_schema.shared()) as other:
        other.make(renewal(low))
        with meanwhile(scene.store, renewal(high), renewal(low)) as waits:
            other.until_waited_for()
            other.make(renewal(high))
            other.commit()
        assert all(isinstance(outcome, Ack) for outcome in waits.result())


def test_no_order_of_changes_leads_to_a_deadlock(scene: Scene, undisturbed: None) -> None:
    """Three at once, each with its own order of the same runs, named by their numbers and by their ids."""
    runs = [scene.asked(scene.call_in(scene.running(), CallState.AWAITING), f"r-{at}") for at in range(3)]

    def kinds(run: RunRecord, round_no: int) -> Change:
        made = (renewal(run), scene.order(run, Control.NONE), scene.claim(run), answering(run, f"r-{round_no % 3}"))
        return made[round_no % len(made)]

    def work(order: tuple[RunRecord, ...]) -> None:
        store = PostgresStore(one_schema.shared().address)
        for round_no in range(ROUNDS):
            for outcome in store.write([kinds(run, round_no) for run in order]):
                assert not isinstance(outcome, Exception), outcome
        store.close()

    with ThreadPoolExecutor(3) as threads:
        orders = list(permutations(runs))[::2]
        for done in [threads.submit(work, order) for order in orders]:
            done.result()


def test_no_order_of_names_and_paths_leads_to_a_deadlock(scene: Scene, undisturbed: None) -> None:
    """Each takes two names and two paths, and gives them up again, in one transaction with others; one the other way
    round.
    """
    names, paths = ("pay:7", "pay:8"), (b"conf", b"site")

    def work(numbers: tuple[int, int], mine: list[RunRecord]) -> None:
        own = Scene(PostgresStore(one_schema.shared().address))
        runs = [mine[number] for number in numbers]
        for round_no in range(ROUNDS // 2):
            seq = round_no + 1
            batch = [
                both(own, own.again(run), names[at], paths[at], seq) for run, at in zip(runs, numbers, strict=True)
            ]
            for outcome in own.store.write(batch):
                assert isinstance(outcome, Ack), outcome
            batch = [own.advance(own.again(run), frees=(seq,), drops=(seq,)) for run in runs]
            for outcome in own.store.write(batch):
                assert isinstance(outcome, Ack), outcome
        own.store.close()

    with ThreadPoolExecutor(2) as threads:
        orders = ((0, 1), (1, 0))
        tasks = [threads.submit(work, numbers, [scene.running(), scene.running()]) for numbers in orders]
        for done in tasks:
            done.result()
    assert scene.holders() == []


def both(scene: Scene, run: RunRecord, name: str, path: bytes, seq: int) -> Advance:
    named, writing = scene.starting(run, name, seq), scene.writing(run, path, seq=seq)
    return scene.advance(run, calls=named.calls, takes=named.takes, holds=writing.holds)


def test_a_transaction_that_the_database_ends_for_a_deadlock_is_made_again(scene: Scene) -> None:
    """Somebody who does not keep to the order, say a person with an SQL prompt."""
    low, high = scene.running(), scene.running()
    with held(one_schema.shared()) as other:
        other.connection.execute("SET deadlock_timeout = '1min'")  # so that it is the other one which notices
        other.lock(high.run_no)
        with meanwhile(scene.store, renewal(low), renewal(high)) as waits:
            other.until_waited_for()
            other.lock(low.run_no)
            other.commit()
        assert all(isinstance(outcome, Ack) for outcome in waits.result())


def test_a_batch_with_a_refusal_keeps_the_rest(scene: Scene) -> None:
    run, ended, new = scene.running(), scene.ended(Status.COMPLETED), scene.create()
    outcomes = scene.store.write([renewal(run), scene.claim(ended), new, scene.claim(new.run_id)])
    assert isinstance(outcomes[1], Refusal)
    assert outcomes[1].guard is Guard.ENDED
    assert scene.named(new.run_id).owner == "bob"
