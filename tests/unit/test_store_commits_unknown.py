"""A commit whose acknowledgement is lost, for every kind of change: it is made once, and its maker is told so.

The store raises CommitUnknown either after the real commit or before it, which is all that a client can see of a
connection lost or a disk failed during COMMIT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Change, Claim, Claimed, Guard, Refusal, Renew
from jumar.core.requests import Lane
from jumar.core.states import CallState, Status
from jumar.core.store import CommitUnknown, RunFilter
from jumar.errors import StoreError, StoreUnavailable
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import LONG, Scene, answering, call, changed
from tests.conformance.wrapping import Watched

SOON = 60.0


@pytest.fixture
def store() -> Iterator[Watched]:
    store = Watched(open_store("memory:"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


def loses(store: Watched, landed: bool, times: int = 1) -> None:
    """The acknowledgement of the next so many writes is lost, after they were made or before."""
    left = iter(range(times))

    def lose(*_: Any) -> None:
        if next(left, None) is not None:
            raise CommitUnknown("the connection was lost")

    store.before, store.after = (None, lose) if landed else (lose, None)


MADE: dict[str, Callable[[Scene], Change]] = {
    "create": lambda scene: scene.create(owner="ann/1"),
    "create-without-an-owner": lambda scene: scene.create(),
    "claim": lambda scene: scene.claim(scene.queued(), "bob/1"),
    "takeover": lambda scene: scene.claim(scene.abandoned(), "bob/1"),
    "advance": lambda scene: laden(scene, scene.call_in(scene.running(), CallState.STARTED)),
    "leave": lambda scene: scene.leave(scene.running(), Status.COMPLETED),
    "answer": lambda scene: answering(scene.asked(scene.running(), "r1"), "r1"),
    "renew": lambda scene: Renew(run_no=scene.running("ann").run_no, owner="ann", epoch=1, ttl_ms=2 * LONG),
}


def in_this_thread(queue: CommitQueue, change: Change) -> Any:
    return queue.submit(change)


def on_a_loop(queue: CommitQueue, change: Change) -> Any:
    async def work() -> Any:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        queue.submit_async(change, None, loop, future)
        return await asyncio.wait_for(future, SOON)

    return asyncio.run(work())


def with_another(queue: CommitQueue, change: Change) -> Any:
    """Behind a change that is refused, in one batch."""

    async def work() -> Any:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future(), loop.create_future()]
        for each, future in zip(
            [Claim(run_id="?", owner="x", ttl_ms=1, at=1, statuses=1), change], futures, strict=True
        ):
            queue.submit_async(each, None, loop, future)
        refused, answer = await asyncio.wait_for(asyncio.gather(*futures), SOON)
        assert refused.guard is Guard.NOT_FOUND
        return answer

    return asyncio.run(work())


WAYS = {"in-a-thread": in_this_thread, "on-a-loop": on_a_loop, "in-a-batch": with_another}


def told(outcome: Any) -> Any:
    """What a maker must be told alike whether or not an acknowledgement was lost; times of leases differ."""
    return (outcome.run.epoch, outcome.run.owner) if isinstance(outcome, Claimed) else outcome


def rows(scene: Scene) -> list[Any]:
    """Every row there is, but for the times of leases."""
    everything = [scene.everything(run) for run in scene.store.runs(RunFilter())]
    return [(replace(run, lease_until=min(run.lease_until, 1)), *others) for run, *others in everything]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_a_change_whose_acknowledgement_is_lost_is_made_once(
    store: Watched,
    scene: Scene,
    make: Callable[[Scene], Change],
    landed: bool,
    way: Callable[[CommitQueue, Change], Any],
) -> None:
    # The same history in a store that loses nothing says what must come of it.
    sound = Scene(open_store("memory:"))
    expected = sound.write(make(sound))
    change = make(scene)
    loses(store, landed)
    assert told(way(CommitQueue(store), change)) == told(expected)
    assert rows(scene) == rows(sound)
    sound.store.close()


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_advances_of_one_run_in_one_lost_batch_are_each_made_once(store: Watched, scene: Scene, landed: bool) -> None:
    run = scene.running()
    queue, lane = CommitQueue(store), Lane(0)
    loses(store, landed)

    async def work() -> list[Any]:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(5)]
        for seq, future in enumerate(futures, 1):
            queue.submit_async(scene.advance(run, calls=(call(seq),)), lane, loop, future)
        return await asyncio.wait_for(asyncio.gather(*futures), SOON)

    assert [ack.version for ack in asyncio.run(work())] == [1, 2, 3, 4, 5]
    stored = [(record.seq, record.started_version) for record in store.calls(run.run_no)]
    assert stored == [(seq, seq) for seq in range(1, 6)]


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_a_refused_change_is_refused_though_its_acknowledgement_is_lost(
    store: Watched, scene: Scene, landed: bool
) -> None:
    run = scene.call_in(scene.running(), CallState.FAILED)
    before = rows(scene)
    for change, guard in (
        (scene.create(run_id=run.run_id, owner="bob/1"), Guard.EXISTS),
        (scene.claim(run, "bob/1"), Guard.HELD),
        (scene.advance(run, version=run.version + 1), Guard.VERSION),
        (scene.advance(run, owner="bob/1"), Guard.LEASE),
        (scene.advance(run, changes=(changed(1, CallState.SUCCEEDED),)), Guard.TRANSITION),
        (answering(run, "never asked"), Guard.ANSWERED),
    ):
        loses(store, landed)
        answer = CommitQueue(store).submit(change)
        assert isinstance(answer, Refusal), change
        assert answer.guard is guard
        assert rows(scene) == before


def test_an_advance_that_did_not_land_before_a_takeover_is_refused(store: Watched, scene: Scene) -> None:
    run = scene.abandoned(owner="ann")
    change = scene.advance(run, calls=(call(1),))

    def take_over(*_: Any) -> None:
        store.before = None
        scene.claimed(scene.claim(run, "bob"))
        raise CommitUnknown("the connection was lost")

    store.before = take_over
    answer = CommitQueue(store).submit(change)
    assert isinstance(answer, Refusal)
    assert answer.guard is Guard.LEASE
    assert store.calls(run.run_no) == []


def test_a_store_that_never_says_is_an_error_and_the_queue_goes_on(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue = CommitQueue(store)
    loses(store, landed=False, times=100)
    with pytest.raises(StoreError, match="did not say"):
        queue.submit(scene.advance(run))
    store.before = None
    assert queue.submit(scene.advance(run)) == Ack(run.run_no, 1, 1)


def test_a_store_that_fails_while_it_is_read_back_is_that_error(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue = CommitQueue(store)
    loses(store, landed=True)

    def fail(change: Change) -> Any:
        raise StoreUnavailable("the disk is gone")

    broken: Any = store
    broken.read_back = fail
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        queue.submit(scene.advance(run))


def test_an_acknowledgement_lost_twice_is_settled_all_the_same(store: Watched, scene: Scene) -> None:
    run = scene.running()
    loses(store, landed=False, times=2)
    assert CommitQueue(store).submit(scene.advance(run, calls=(call(1),))) == Ack(run.run_no, 1, 1)
    assert len(store.calls(run.run_no)) == 1
