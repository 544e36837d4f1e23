"""What a worker goes by, as plain functions, and the bell that wakes it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Adopt, Advance, Answer, Arrive, Change, Claim, Create, Depart, Fork, Order, Renew
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, Phase, Status
from jumar.core.working import (
    delay_after,
    is_given_up,
    leaves_files,
    may_make_due,
    pause_before_looking,
    told_of_crashes,
)
from jumar.stores.clock import lease_now
from jumar.stores.watching import Bell
from jumar.testing.conformance_scene import Scene, answering, call
from jumar.testing.model import ModelStore

PATIENCE = 60.0


@pytest.fixture
def scene() -> Scene:
    return Scene(ModelStore(lease_now))


def test_what_may_make_a_run_due_at_once_is_told_and_nothing_else(scene: Scene) -> None:
    run = scene.running()
    may: list[Change] = [
        scene.create(),
        scene.leave(run, Status.QUEUED),
        scene.leave(run, Status.WAITING, wake_at=1),
        answering(run, "r1"),
        scene.order(run, Control.PAUSE),
        Arrive(
            run_id=run.run_id,
            status=Status.QUEUED,
            wake_at=None,
            waiting_on=None,
            error_class=None,
            error_type=None,
            error_message=None,
            at=1,
            epoch=1,
            version=0,
            answers=0,
            control=Control.NONE,
        ),
    ]
    may_not: list[Change] = [
        scene.create(owner="ann"),
        scene.advance(run),
        *(scene.leave(run, status) for status in Status if status not in (Status.QUEUED, Status.WAITING)),
        scene.claim(run),
        scene.fork(run),
        Renew(run_no=1, owner="ann", epoch=1, ttl_ms=1),
    ]
    assert [may_make_due(change) for change in may] == [True] * len(may)
    assert [may_make_due(change) for change in may_not] == [False] * len(may_not)
    kinds = {type(change) for change in may + may_not} | {Adopt, Depart}
    assert kinds == {Create, Fork, Claim, Advance, Renew, Answer, Order, Adopt, Arrive, Depart}


@pytest.mark.parametrize(
    ("next_due", "pause"), [(None, 1.0), (0, 1.0), (-5, 1.0), (300, 0.3), (5000, 1.0), (1, 0.005), (999, 0.999)]
)
def test_a_worker_waits_for_the_next_run_and_never_longer_than_its_poll(next_due: int | None, pause: float) -> None:
    assert pause_before_looking(next_due, 1.0) == pytest.approx(pause)


def test_what_goes_wrong_again_and_again_is_left_alone_for_longer_each_time_and_never_for_ever() -> None:
    delays = [delay_after(times) for times in range(1, 40)]
    assert delays == sorted(delays)
    assert delays[0] < 1.0
    assert delays[-1] == delays[-20] == 300.0
    assert delay_after(10**9) == 300.0


@pytest.mark.parametrize(("crashes", "given_up"), [(0, False), (2, False), (3, True), (4, True)])
def test_a_run_is_given_up_at_so_many_crashes(scene: Scene, crashes: int, given_up: bool) -> None:
    run = replace(scene.running(), crashes=crashes)
    assert is_given_up(run, 3) is given_up


def test_files_are_put_back_when_a_run_is_given_up_and_left_where_that_ended_a_process_too(scene: Scene) -> None:
    run = scene.running()
    assert not leaves_files(replace(run, crashes=3), 3)
    assert leaves_files(replace(run, crashes=4), 3)


def _told(run: RunRecord, *states: CallState, **fields: Any) -> str:
    calls = [call(seq, state) for seq, state in enumerate(states, 1)]
    return told_of_crashes(replace(run, **fields), calls)


def test_a_run_that_is_given_up_says_how_often_and_where_its_process_ended_and_what_to_do(scene: Scene) -> None:
    run = scene.running()
    done, unknown = CallState.SUCCEEDED, CallState.UNCERTAIN
    told = _told(run, done, unknown, CallState.PLANNED, crashes=5)
    assert told.startswith("the process that drove the run ended, or lost its lease, 5 times without recording")
    assert "the last time in call scan.search.2;" in told
    assert told.endswith("find out what ends the process, then resume the run")
    assert "once without recording anything new, after call scan.search.2;" in _told(run, done, done, crashes=1)
    assert "before it had recorded any call;" in _told(run, crashes=2)
    assert "before it had recorded any call;" in _told(run, CallState.PLANNED, crashes=2)
    assert "while the run was being rolled back;" in _told(run, unknown, crashes=2, intent=b"{}", phase=Phase.IN_CODE)


def test_of_two_calls_in_doubt_the_one_of_the_last_process_is_named(scene: Scene) -> None:
    run = replace(scene.running(), crashes=2)
    calls = [call(1, CallState.UNCERTAIN, epoch=3), call(2, CallState.UNCERTAIN, epoch=1)]
    assert "in call scan.search.1;" in told_of_crashes(run, calls)


# --- The bell. ---


def test_a_bell_that_rang_before_anybody_waited_is_heard_once() -> None:
    bell = Bell()
    for _ in range(1000):
        bell.ring()
    assert bell.wait(PATIENCE)
    assert not bell.wait(0)
    bell.ring()
    assert bell.wait(PATIENCE)


def test_a_bell_wakes_a_thread_that_waits() -> None:
    bell = Bell()
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(bell.wait(PATIENCE)))
    thread.start()
    bell.ring()
    thread.join(PATIENCE)
    assert heard == [True]


def test_a_bell_may_be_rung_in_a_signal_handler_while_its_own_thread_waits_at_it() -> None:
    bell = Bell()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: bell.ring())
    try:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)).start()
        assert bell.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, before)
