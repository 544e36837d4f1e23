"""A copy that dies between any two things it asks of the stores: the same copy once more finishes it, nothing is lost,
and at no moment may a run go on in both stores."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.carrying import unlike
from jumar.core.changes import Change, Outcome
from jumar.core.moving import is_elsewhere
from jumar.core.phases import FINAL
from jumar.core.records import RunExport
from jumar.core.states import EventKind, Status
from jumar.core.store import CommitUnknown, Store
from jumar.harness.copying import Copying, CopyReport, End
from jumar.stores.opening import open_store
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.conformance_moving import full
from jumar.testing.conformance_scene import ROOT, Scene, holding
from tests.conformance.one_schema import TABLES

Point = tuple[int, str]


class Died(BaseException):
    """The process is gone."""


class Mortality:
    """Counts what is asked of stores, and ends the process at a point: before it is done or after."""

    def __init__(self, at: int | None, when: str = "before") -> None:
        self.count = 0
        self._at = at
        self._when = when

    def asked(self, ask: Callable[[], Any]) -> Any:
        """Do it, unless the process dies before."""
        self.count += 1
        here = self.count == self._at
        if here and self._when == "before":
            raise Died
        answer = ask()
        if here:
            raise Died
        return answer


class MortalStore:
    """A store as long as the process lives."""

    def __init__(self, store: Store, mortality: Mortality) -> None:
        self._store = store
        self._mortality = mortality

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return lambda *args, **kwargs: self._mortality.asked(lambda: method(*args, **kwargs))


def fill(store: Store) -> None:
    """Runs that have ended, that wait, and one whose process died in the middle of calls."""
    scene = Scene(store)
    full(scene)
    scene.ended(Status.COMPLETED)
    scene.queued()
    run = scene.running(workspace=ROOT)
    scene.ack(replace(scene.starting(run, "pay:9"), holds=(holding(1, b"other"),), ttl_ms=0))
    scene.until_expired(scene.again(run))


class Ends:
    """Two stores, made anew for each copy: of the first a fresh copy, of the second an empty one."""

    def __init__(self, folder: Path, target: str | None) -> None:
        self._filled = folder / "filled.db"
        self._folder = folder
        self._number = 0
        self._target = target
        with closing(open_store(f"sqlite:///{self._filled}")) as store:
            fill(store)
            self.before = exports(store)

    def fresh(self) -> tuple[str, str]:
        """The addresses of two such stores."""
        self._number += 1
        source = self._folder / f"{self._number}.db"
        shutil.copy(self._filled, source)
        target = self._target or f"sqlite:///{self._folder / f'{self._number}-copy.db'}"
        if self._target is not None:
            self._empty(self._target)
        return f"sqlite:///{source}", target

    def _empty(self, address: str) -> None:
        with closing(PostgresStore(address)) as store, store.connected() as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {store.schema}.{table}")


def exports(store: Store) -> dict[str, RunExport]:
    """Everything in a store, by the runs' ids."""
    found = {run_id: store.export(run_id) for run_id in store.find("", 100)}
    return {run_id: export for run_id, export in found.items() if export is not None}


def copied(source: str, target: str, mortality: Mortality) -> CopyReport:
    """Copy, in a process that may die."""
    with closing(open_store(source)) as first, closing(open_store(target)) as second:
        ends = [End(source, MortalStore(first, mortality)), End(target, MortalStore(second, mortality))]  # type: ignore[arg-type]
        return Copying(*ends).run()


def judge_moment(source: str, target: str) -> None:
    """No run that can go on is in both, and none is in neither."""
    with closing(open_store(source)) as first, closing(open_store(target)) as second:
        for run_id, here in exports(first).items():
            there = second.run(run_id)
            lives_there = there is not None and not is_elsewhere(there)
            if here.run.status in FINAL and not is_elsewhere(here.run):
                continue
            assert lives_there + (not is_elsewhere(here.run)) <= 1
            assert lives_there or there is not None or not is_elsewhere(here.run)


def judge_end(source: str, target: str, before: dict[str, RunExport]) -> None:
    """Every run is in the target as it was in the source."""
    judge_moment(source, target)
    with closing(open_store(target)) as store:
        after = exports(store)
        assert list(after) == list(before)
        for run_id, export in before.items():
            came = after[run_id]
            events = tuple(line for line in came.events if line.kind is not EventKind.ARRIVED)
            assert len(came.events) - len(events) == (export.run.status not in FINAL), "it arrived more than once"
            run = replace(came.run, epoch=export.run.epoch)
            assert unlike(export, replace(came, run=run, events=events)) is None
        assert store.inspect().findings == ()


def points(ends: Ends) -> int:
    """How many things a copy asks for that nothing disturbs."""
    source, target = ends.fresh()
    mortality = Mortality(None)
    report = copied(source, target, mortality)
    assert (report.copied, report.moved, report.left) == (1, 3, ())
    judge_end(source, target, ends.before)
    return mortality.count


def died_at(ends: Ends, *deaths: Point) -> None:
    """Copy in processes that die at these points, and then in one that does not."""
    source, target = ends.fresh()
    for at, when in deaths:
        mortality = Mortality(at, when)
        try:
            copied(source, target, mortality)
        except Died:
            judge_moment(source, target)
            continue
        assert mortality.count < at
    assert copied(source, target, Mortality(None)).left == ()
    judge_end(source, target, ends.before)


def test_a_copy_that_dies_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    ends = Ends(tmp_path, None)
    died_at(ends, (1, "before"))
    for at in range(1, points(ends) + 1):
        died_at(ends, (at, "after"))


@pytest.mark.sweep
def test_a_copy_that_dies_twice_is_finished_by_the_next(tmp_path: Path) -> None:
    ends = Ends(tmp_path, None)
    count = points(ends)
    for at in range(1, count + 1, 2):
        for again in range(1, count + 1, 3):
            died_at(ends, (at, "after"), (again, "before"))


def test_a_copy_into_postgres_that_dies_while_it_writes_is_finished_by_the_next(
    tmp_path: Path, postgres_address: str
) -> None:
    ends = Ends(tmp_path, postgres_address)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chosen = random.Random(seed).sample(range(1, points(ends) + 1), 8)
    for at in chosen:
        died_at(ends, (at, "after"))


class LosingAcks:
    """A store that loses the connection right after each commit, or before it."""

    def __init__(self, store: Store, lands: bool) -> None:
        self._store = store
        self._lands = lands
        self._lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """Lose every second answer."""
        self._lost += 1
        if self._lost % 2 == 0:
            return self._store.write(changes, wait=wait)
        if self._lands:
            self._store.write(changes, wait=wait)
        raise CommitUnknown("the connection was lost")


@pytest.mark.parametrize("lands", [True, False], ids=["landed", "did not land"])
def test_a_commit_of_unknown_outcome_is_read_back(tmp_path: Path, lands: bool) -> None:
    ends = Ends(tmp_path, None)
    source, target = ends.fresh()
    with closing(open_store(source)) as first, closing(open_store(target)) as second:
        losing = [End(source, LosingAcks(first, lands)), End(target, LosingAcks(second, lands))]  # type: ignore[arg-type]
        report = Copying(*losing).run()
    assert (report.copied, report.moved, report.left) == (1, 3, ())
    judge_end(source, target, ends.before)


def test_two_copies_at_once_move_each_run_once(tmp_path: Path) -> None:
    ends = Ends(tmp_path, None)
    for at in range(1, points(ends) + 1, 3):
        source, target = ends.fresh()
        beside = partial(copied, source, target, Mortality(None))
        report = copied(source, target, Interrupting(at, beside))
        assert report.left == ()
        judge_end(source, target, ends.before)


class Interrupting(Mortality):
    """Something happens before the n-th thing that is asked for."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        super().__init__(None)
        self._turn = at
        self._act = act

    def asked(self, ask: Callable[[], Any]) -> Any:
        """Let it happen, then do it."""
        self.count += 1
        if self.count == self._turn:
            self._act()
        return ask()
