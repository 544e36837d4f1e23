"""What a change finds after it waited for another transaction: the clock as it is then, and all that was committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import pytest

from jumar.core.changes import Ack, Change, Claimed, Guard, Refusal, Renew
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, EventKind, Status
from jumar.core.store import Store
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.conformance_scene import Scene, answering, call
from tests.concurrency.postgres_scene import held, meanwhile
from tests.conformance import one_schema

Make: TypeAlias = Callable[[Scene, RunRecord], Change]

TTL = 1000
ISOLATIONS = ("read committed", "repeatable read", "serializable")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose lease clock stands at 0 until a test moves it."""
    one_schema.set_clock(0)
    store = one_schema.clocked().store_of(tmp_path)
    yield store
    store.close()


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)


def store_with(isolation: str) -> PostgresStore:
    """A store on a server whose transactions are isolated like this unless they ask for something else."""
    option = quote(f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}")
    return PostgresStore(f"{one_schema.clocked().address}&options={option}")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_start_that_commits_after_its_lease_ran_out_is_uncertain_to_the_claim_that_waited_for_it(
    scene: Scene, isolation: str
) -> None:
    run = scene.running(ttl_ms=TTL)
    other = store_with(isolation)
    with held(one_schema.clocked()) as late:
        start = scene.advance(run, ttl_ms=TTL, calls=(call(1, CallState.STARTED, epoch=1),))
        assert isinstance(late.make(start), Ack)
        one_schema.set_clock(2 * TTL)
        with meanwhile(other, scene.claim(run)) as claims:
            late.until_waited_for()
            late.commit()
        (claimed,) = claims.result()
    other.close()
    assert isinstance(claimed, Claimed), claimed
    assert (claimed.taken_over, claimed.uncertain, claimed.run.version, claimed.run.epoch) == (True, 1, 1, 2)
    assert [each.state for each in scene.store.calls(run.run_no)] == [CallState.UNCERTAIN]
    assert EventKind.CALL_UNCERTAIN in [line.kind for line in scene.store.events(run.run_no)]


def test_a_claim_that_waited_for_an_advance_which_kept_the_lease_is_refused(scene: Scene) -> None:
    run = scene.running(ttl_ms=TTL)
    with held(one_schema.clocked()) as late:
        late.make(scene.advance(run, ttl_ms=10 * TTL))
        one_schema.set_clock(2 * TTL)
        with meanwhile(scene.store, scene.claim(run)) as claims:
            late.until_waited_for()
            late.commit()
        (refused,) = claims.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.HELD


WAITING: dict[str, Make] = {
    "a read": lambda scene, run: scene.advance(run, calls=(call(1),)),
    "a start": lambda scene, run: scene.advance(run, calls=(call(1, CallState.STARTED),)),
    "a write": lambda scene, run: scene.writing(run, b"conf"),
    "an end": lambda scene, run: scene.leave(run, Status.COMPLETED),
    "a renewal": lambda scene, run: Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=TTL),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_lease_that_runs_out_while_its_owner_waits_for_the_row_has_run_out(scene: Scene, name: str) -> None:
    """Whoever held the row changed nothing of it, so the database would not look at it again by itself."""
    run = scene.running(ttl_ms=TTL)
    before = scene.everything(run)
    with held(one_schema.clocked()) as other:
        other.lock(run.run_no)
        with meanwhile(scene.store, WAITING[name](scene, run)) as waits:
            other.until_waited_for()
            one_schema.set_clock(TTL)
            other.roll_back()
        (refused,) = waits.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.LEASE
    assert scene.everything(run) == before


@pytest.mark.parametrize("name", WAITING)
def test_one_that_still_has_its_lease_after_it_waited_for_the_row_goes_on(scene: Scene, name: str) -> None:
    run = scene.running(ttl_ms=TTL)
    with held(one_schema.clocked()) as other:
        other.lock(run.run_no)
        with meanwhile(scene.store, WAITING[name](scene, run)) as waits:
            other.until_waited_for()
            one_schema.set_clock(TTL - 1)
            other.roll_back()
        (made,) = waits.result()
    assert isinstance(made, Ack), made


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_advance_that_waited_for_a_renewal_of_its_lease_goes_on(scene: Scene, isolation: str) -> None:
    run = scene.running(ttl_ms=TTL)
    other = store_with(isolation)
    with held(one_schema.clocked()) as heartbeat:
        heartbeat.make(Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=TTL))
        with meanwhile(other, scene.advance(run, calls=(call(1),))) as advances:
            heartbeat.until_waited_for()
            heartbeat.commit()
        assert advances.result() == [Ack(run.run_no, 1, 1)]
    other.close()


def test_an_answer_that_is_committed_while_its_run_begins_to_wait_is_seen(scene: Scene) -> None:
    run = scene.asked(scene.call_in(scene.running(), CallState.AWAITING), "r-1")
    with held(one_schema.clocked()) as somebody:
        somebody.make(answering(run, "r-1"))
        with meanwhile(scene.store, scene.leave(run, Status.WAITING)) as leaves:
            somebody.until_waited_for()
            somebody.commit()
        (refused,) = leaves.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.NEWS
    assert (scene.again(run).status, scene.again(run).answers) == (Status.RUNNING, 1)


def test_an_answer_that_waited_for_its_run_to_wait_wakes_it(scene: Scene) -> None:
    run = scene.asked(scene.call_in(scene.running(), CallState.AWAITING), "r-1")
    with held(one_schema.clocked()) as driver:
        driver.make(scene.leave(run, Status.WAITING))
        with meanwhile(scene.store, answering(run, "r-1")) as answers:
            driver.until_waited_for()
            driver.commit()
        (answered,) = answers.result()
    assert isinstance(answered, Ack), answered
    assert (scene.again(run).status, scene.again(run).answers) == (Status.QUEUED, 1)


def test_one_request_that_two_people_answer_at_once_is_answered_once(scene: Scene) -> None:
    run = scene.asked(scene.call_in(scene.running(), CallState.AWAITING), "r-1")
    with held(one_schema.clocked()) as kim:
        assert isinstance(kim.make(answering(run, "r-1", by="kim")), Ack)
        with meanwhile(scene.store, answering(run, "r-1", by="lee")) as answers:
            kim.until_waited_for()
            kim.commit()
        (refused,) = answers.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.ANSWERED
    assert [(each.by, scene.again(run).answers) for each in scene.store.requests(run.run_no)] == [("kim", 1)]


def test_an_order_that_waited_for_a_run_to_end_is_refused(scene: Scene) -> None:
    run = scene.running()
    with held(one_schema.clocked()) as driver:
        driver.make(scene.leave(run, Status.COMPLETED))
        with meanwhile(scene.store, scene.order(run, Control.CANCEL)) as orders:
            driver.until_waited_for()
            driver.commit()
        (refused,) = orders.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.ENDED


@pytest.mark.parametrize("committed", (True, False))
@pytest.mark.parametrize(
    ("first", "second"), ((b"conf", b"conf/site.ini"), (b"conf/site.ini", b"conf"), (b"", b"conf"), (b"a", b"a"))
)
def test_of_two_calls_that_want_overlapping_paths_at_once_one_has_them(
    scene: Scene, first: bytes, second: bytes, committed: bool
) -> None:
    ours, theirs = scene.running(), scene.running()
    with held(one_schema.clocked()) as other:
        assert isinstance(other.make(scene.writing(theirs, first)), Ack)
        with meanwhile(scene.store, scene.writing(ours, second)) as waits:
            other.until_waited_for()
            other.commit() if committed else other.roll_back()
        (made,) = waits.result()
    assert isinstance(made, Ack), made
    assert made.taken == ((1,) if committed else ())
    expected = (first, theirs.run_id, 1) if committed else (second, ours.run_id, 1)
    assert scene.holders() == [expected]


def test_two_calls_that_want_paths_apart_of_one_workspace_have_them(scene: Scene) -> None:
    ours, theirs = scene.running(), scene.running()
    with held(one_schema.clocked()) as other:
        assert isinstance(other.make(scene.writing(theirs, b"conf")), Ack)
        with meanwhile(scene.store, scene.writing(ours, b"site")) as waits:
            other.until_waited_for()
            other.commit()
        (made,) = waits.result()
    assert isinstance(made, Ack), made
    assert (made.taken, len(scene.holders())) == ((), 2)


def test_a_rollback_that_waited_for_a_write_of_its_paths_is_refused(scene: Scene) -> None:
    run, theirs = scene.ended(Status.FAILED), scene.running()
    wanted = scene.writing(run, b"conf", seq=0).holds
    with held(one_schema.clocked()) as other:
        other.make(scene.writing(theirs, b"conf/site.ini"))
        with meanwhile(scene.store, scene.rollback(run, holds=wanted)) as waits:
            other.until_waited_for()
            other.commit()
        (refused,) = waits.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.HOLD
    assert f"conf/site.ini is held by a write of run {theirs.run_id}" in refused.detail
    assert refused.run == run == scene.again(run)


@pytest.mark.parametrize("committed", (True, False))
def test_of_two_calls_that_want_one_name_at_once_one_has_it(scene: Scene, committed: bool) -> None:
    ours, theirs = scene.running(), scene.running()
    with held(one_schema.clocked()) as other:
        assert isinstance(other.make(scene.starting(theirs, "pay:7")), Ack)
        with meanwhile(scene.store, scene.starting(ours, "pay:7")) as waits:
            other.until_waited_for()
            other.commit() if committed else other.roll_back()
        (made,) = waits.result()
    assert isinstance(made, Ack), made
    assert made.taken == ((1,) if committed else ())
    assert scene.holder(ours, "pay:7") == ((theirs if committed else ours).run_id, 1)


def test_a_name_that_is_given_up_while_another_waits_for_it_is_that_ones(scene: Scene) -> None:
    ours, theirs = scene.running(), scene.running()
    scene.ack(scene.starting(theirs, "pay:7"))
    theirs = scene.again(theirs)
    with held(one_schema.clocked()) as other:
        other.make(scene.advance(theirs, frees=(1,)))
        with meanwhile(scene.store, scene.starting(ours, "pay:7")) as waits:
            other.until_waited_for()
            other.commit()
        (made,) = waits.result()
    assert isinstance(made, Ack), made
    assert made.taken == ()
    assert scene.holder(ours, "pay:7") == (ours.run_id, 1)


def test_of_two_creations_of_one_run_at_once_one_is_refused(scene: Scene) -> None:
    new = scene.create(owner="ann")
    with held(one_schema.clocked()) as other:
        assert isinstance(other.make(new), Ack)
        with meanwhile(scene.store, new) as waits:
            other.until_waited_for()
            other.commit()
        (refused,) = waits.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.EXISTS
    assert refused.run == scene.named(new.run_id)


def test_a_fork_waits_for_what_its_source_is_doing_and_is_refused_where_that_has_gone_on(scene: Scene) -> None:
    run = scene.running()
    with held(one_schema.clocked()) as driver:
        driver.make(scene.advance(run, calls=(call(1),)))
        with meanwhile(scene.store, scene.fork(run)) as waits:
            driver.until_waited_for()
            driver.commit()
        (refused,) = waits.result()
    assert isinstance(refused, Refusal), refused
    assert refused.guard is Guard.VERSION


def test_what_became_of_a_change_is_asked_behind_the_transaction_that_makes_it(scene: Scene) -> None:
    run = scene.running()
    change = scene.advance(run, calls=(call(1),))
    with held(one_schema.clocked()) as on_its_way:
        on_its_way.make(change)
        with meanwhile(ReadBack(scene.store), change) as asks:  # type: ignore[arg-type]
            on_its_way.until_waited_for()
            on_its_way.commit()
        assert asks.result() == [Ack(run.run_no, 1, 1)]


class ReadBack:
    """`write` asks what became of changes instead of making them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, changes: list[Change]) -> list[object]:
        """The answers."""
        return [self._store.read_back(change) for change in changes]
