"""The lease clock of one host: a lease of another boot is over, and the wall clock moves none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.core.changes import Guard, Renew
from jumar.core.records import LeaseTime
from jumar.core.states import CallState
from jumar.stores import clock
from jumar.stores.clock import BOOT, lease_ms, lease_now
from jumar.stores.opening import open_store
from jumar.stores.sqlite import store as sqlite_store
from jumar.stores.sqlite import writes
from jumar.testing.conformance_scene import LONG, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    yield Scene(store)
    store.close()


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "BOOT", b"another!")
    monkeypatch.setattr(writes, "lease_ms", lambda: 5)


def test_a_lease_of_another_boot_is_over_however_long_it_was(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.call_in(scene.running("ann", ttl_ms=LONG), CallState.STARTED)
    restart(monkeypatch)
    claimed = scene.claimed(scene.claim(run, "bob"))
    assert (claimed.taken_over, claimed.uncertain, claimed.run.epoch) == (True, 1, 2)
    assert claimed.run.boot == b"another!"


def test_a_run_whose_lease_is_of_another_boot_can_go_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.running("ann", ttl_ms=LONG)
    assert scene.store.due(0, 10) == []
    monkeypatch.setattr(sqlite_store, "lease_now", lambda: LeaseTime(b"another!", 5))
    assert scene.store.due(0, 10) == [run.run_id]


def test_an_owner_from_before_a_restart_writes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease seems to have years to go: the clock began anew."""
    run = scene.running("ann", ttl_ms=LONG)
    restart(monkeypatch)
    assert scene.refusal(scene.advance(run)) is Guard.LEASE
    assert scene.refusal(Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=LONG)) is Guard.LEASE
    assert scene.again(run) == run


def test_a_wall_clock_that_jumps_ends_no_lease(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.running("ann", ttl_ms=LONG)
    for hours in (-5, 5):
        wrong = time.time_ns() + hours * 3_600_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda wrong=wrong: wrong)
        monkeypatch.setattr(time, "time", lambda wrong=wrong: wrong / 1e9)
        assert scene.refusal(scene.claim(run, "bob", at=wrong // 1_000_000)) is Guard.HELD
        monkeypatch.undo()
    scene.ack(scene.advance(run))


def test_the_lease_clock_counts_the_milliseconds_since_boot_suspend_included() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    now = lease_now()
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    assert before <= now.ms <= after
    assert before <= lease_ms()


def test_processes_of_one_host_agree_on_its_boot_and_clock() -> None:
    code = "from jumar.stores.clock import lease_now; now = lease_now(); print(now.boot.hex(), now.ms)"
    before = lease_ms()
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stderr == ""
    boot, ms = told.stdout.split()
    assert bytes.fromhex(boot) == BOOT
    assert before <= int(ms) <= lease_ms()


def test_a_system_without_a_boot_id_takes_the_wall_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clock, "_BOOT_ID", str(tmp_path / "none"))
    assert clock._boot() == b"wall"
