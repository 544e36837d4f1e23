"""Moving a store's runs: every kind of run goes on in the other store as it would have gone on in the first."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar import Harness
from jumar.core.carrying import unlike
from jumar.core.changes import Claim, Claimed, Depart
from jumar.core.moving import is_elsewhere
from jumar.core.phases import CLAIMABLE
from jumar.core.records import RunExport, RunRecord
from jumar.core.states import EventKind, Status, mask
from jumar.core.store import Store
from jumar.engine.hosts import this_host
from jumar.errors import RunEnded, UsageError
from jumar.harness.copying import Copying, End, Fate, copy_store, shown
from jumar.stores.opening import open_store
from tests.integration.copying_helpers import World, populated
from tests.integration.worker_helpers import Working

ONE = "01a00000-0000-7000-8000-000000000001"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def first(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'first.db'}"


@pytest.fixture
def second(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'second.db'}"


def exports(address: str) -> dict[str, RunExport]:
    """Everything in a store, by the runs' ids."""
    store = open_store(address)
    try:
        found = {run_id: store.export(run_id) for run_id in store.find("", 1000)}
        return {run_id: export for run_id, export in found.items() if export is not None}
    finally:
        store.close()


def without_moves(export: RunExport) -> RunExport:
    """The export of a run as if it had never moved."""
    events = tuple(line for line in export.events if line.kind is not EventKind.ARRIVED)
    return replace(export, run=replace(export.run, epoch=0), events=events)


def resumed(world: World, address: str, ids: dict[str, str]) -> dict[str, Any]:
    """The outputs of the runs that can go on."""
    world.declines = False
    with world.harness(address) as harness:
        harness.answer(ids["asking"], "ask.1", "a", by="kim")
        names = ("asking", "failed", "queued", "paused", "died after the effect", "died before the effect")
        return {name: completed(harness, ids[name]) for name in names}


def completed(harness: Harness, run_id: str) -> Any:
    """The output of a run, once nobody need wait any more for what its dead process may still have done."""
    result = harness.resume(run_id)
    give_up = time.monotonic() + 60
    while result.status == "WAITING":
        assert time.monotonic() < give_up, result
        result = harness.resume(run_id)
    return result.unwrap()


def judge(world: World, address: str, ids: dict[str, str]) -> None:
    """Go on with everything in this store, and have each thing done once."""
    results = resumed(world, address, ids)
    assert results["asking"] == "a 8"
    assert results["failed"] == "paid 7"
    assert results["queued"] == "sent to fourth"
    assert results["paused"] == "sent to sixth"
    assert results["died after the effect"] == "sent to eighth"
    assert results["died before the effect"] == "sent to ninth"
    seen = world.seen()
    assert sorted(seen) == sorted(set(seen)), "something was done twice"
    assert {f"mail {name}" for name in ("first", "second", "fourth", "sixth", "eighth", "ninth")} < set(seen)


def test_every_kind_of_run_goes_on_in_postgres(world: World, first: str, postgres_address: str) -> None:
    ids = populated(world, first)
    report = copy_store(first, postgres_address)
    assert (report.copied, report.moved, report.left, report.lost) == (2, 9, (), ())
    judge(world, postgres_address, ids)


def test_every_row_comes_back_through_postgres_as_it_was(
    world: World, first: str, second: str, postgres_address: str
) -> None:
    ids = populated(world, first)
    before = exports(first)
    copy_store(first, postgres_address)
    report = copy_store(postgres_address, second)
    assert (report.copied, report.moved, report.left, report.lost) == (2, 9, (), ())
    after = exports(second)
    assert list(after) == list(before)
    for run_id, export in before.items():
        assert unlike(without_moves(export), without_moves(after[run_id])) is None
        assert after[run_id].run.workspace == export.run.workspace
        assert {held.workspace for held in after[run_id].holds} == {held.workspace for held in export.holds}
    with Harness(second) as harness:
        assert harness.doctor().findings == ()
    judge(world, second, ids)


def test_the_same_copy_again_finds_all_there_and_changes_nothing(world: World, first: str, second: str) -> None:
    populated(world, first)
    copy_store(first, second)
    before = exports(first), exports(second)
    report = copy_store(first, second)
    counts = (report.copied, report.moved, report.there, report.elsewhere, report.left, report.snapshots)
    assert counts == (0, 0, 2, 9, (), 0)
    assert (exports(first), exports(second)) == before


def test_what_went_on_in_the_target_comes_back_and_stays_there(world: World, first: str, second: str) -> None:
    ids = populated(world, first)
    copy_store(first, second)
    judge(world, second, ids)
    report = copy_store(second, first)
    assert (report.copied, report.moved, report.there, report.left) == (6, 3, 2, ())
    with world.harness(first) as harness:
        assert harness.show(ids["failed"]).output == "paid 7"
        assert harness.show(ids["napping"]).run.status == "WAITING"
        assert harness.doctor().findings == ()


def test_who_asks_for_a_run_that_has_moved_is_told_where_it_is(world: World, first: str, second: str) -> None:
    ids = populated(world, first)
    copy_store(first, second)
    with world.harness(first) as harness:
        with pytest.raises(RunEnded, match=r"has moved to sqlite:.*second\.db"):
            harness.resume(ids["queued"])
        with pytest.raises(RunEnded, match="has moved to"):
            harness.cancel(ids["asking"])
        assert harness.requests() == []
        assert harness.due() == []


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres"])
def test_the_files_of_a_run_can_be_put_back_where_it_is_now(
    world: World, first: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    second = f"file:{tmp_path / 'second'}" if kind == "file" else f"sqlite:///{tmp_path / 'second.db'}"
    if kind == "postgres":
        second = request.getfixturevalue("postgres_address")
    with world.harness(first) as harness:
        run_id = harness.run("finish", "x").run_id
    copy_store(first, second)
    assert (world.root / "x.txt").read_text() == "two"
    with world.harness(second) as harness:
        harness.rollback(run_id, to="kept", by="kim")
        assert (world.root / "x.txt").read_text() == "one"
        assert harness.doctor().findings == ()
        assert harness.show(run_id).run.workspace == (f"{this_host()}:" if kind == "postgres" else "") + str(world.root)


def test_a_run_that_somebody_drives_stays(world: World, first: str, second: str) -> None:
    ids = populated(world, first)
    store = open_store(first)
    claimed = hold(store, ids["queued"])
    try:
        report = copy_store(first, second)
        assert [(move.run_id, move.fate) for move in report.left] == [(ids["queued"], Fate.BUSY)]
        assert "kim/1" in report.left[0].why
        assert (report.copied, report.moved) == (2, 8)
        assert claimed == store.run(ids["queued"])
    finally:
        store.close()


def test_nothing_moves_away_from_a_driven_run_whose_actions_are_named_in_the_whole_store(
    world: World, first: str, second: str
) -> None:
    with world.harness(first) as harness:
        driven = harness.run("nap", "x").run_id
        queued, ended = harness.start("same", "x"), harness.run("same", "y").run_id
    store = open_store(first)
    try:
        hold(store, driven)
        report = copy_store(first, second)
        assert {move.run_id: move.fate for move in report.left} == {driven: Fate.BUSY, queued: Fate.BUSY}
        assert driven in report.left[-1].why
        assert list(exports(second)) == [ended]
    finally:
        store.close()
    with world.harness(first) as harness:
        assert harness.resume(queued).unwrap() == "sent to x"
    assert world.seen() == ["mail x", "mail y"]


def test_a_run_that_is_claimed_while_it_is_copied_stays_with_whoever_claimed_it(
    world: World, first: str, second: str
) -> None:
    with world.harness(first) as harness:
        run_id = harness.start("same", "x")
    source, target = open_store(first), open_store(second)
    try:
        meddling = Meddling(source, lambda: hold(source, run_id))
        copying = copying_of(meddling, target)
        assert [(move.run_id, move.fate) for move in copying.run().left] == [(run_id, Fate.BUSY)]
        adopted = target.run(run_id)
        assert adopted is not None and is_elsewhere(adopted)
    finally:
        source.close()
        target.close()


def test_a_run_that_went_on_while_it_was_copied_is_copied_as_it_is_then(world: World, first: str, second: str) -> None:
    with world.harness(first) as harness:
        run_id = harness.start("same", "x")
        source, target = open_store(first), open_store(second)
        try:
            meddling = Meddling(source, once(lambda: harness.resume(run_id)))
            report = copying_of(meddling, target).run()
            assert (report.copied, report.moved, report.left) == (1, 0, ())
            export, copy = source.export(run_id), target.export(run_id)
            assert export is not None and copy is not None and unlike(export, copy) is None
            assert copy.run.status is Status.COMPLETED
        finally:
            source.close()
            target.close()
    assert world.seen() == ["mail x"]


def test_an_answer_that_comes_while_a_run_is_copied_is_not_lost(world: World, first: str, second: str) -> None:
    with world.harness(first) as harness:
        run_id = harness.run("ask", "x").run_id
        source, target = open_store(first), open_store(second)
        try:
            meddling = Meddling(source, once(lambda: harness.answer(run_id, "ask.1", "b", by="kim")))
            assert copying_of(meddling, target).run().moved == 1
        finally:
            source.close()
            target.close()
    with world.harness(second) as harness:
        assert harness.resume(run_id).unwrap() == "b 8"


def test_runs_that_a_worker_drives_meanwhile_do_each_thing_once_wherever_they_end(
    world: World, first: str, second: str
) -> None:
    harness = world.harness(first)
    ids = [harness.start("same", f"number {number}") for number in range(12)]
    with Working(harness, concurrency=2) as working:
        working.left(ids[0], "COMPLETED")
        for _ in range(5):
            assert all(move.fate is Fate.BUSY for move in copy_store(first, second).left)
    assert copy_store(first, second).left == ()
    with world.harness(second) as there:
        for run_id in ids:
            if there.show(run_id).run.status != "COMPLETED":
                completed(there, run_id)
    assert sorted(world.seen()) == sorted(f"mail number {number}" for number in range(12))


def test_different_runs_of_one_id_are_told_and_stay_as_they_are(world: World, first: str, second: str) -> None:
    for address, value in ((first, "x"), (second, "y")):
        with world.harness(address) as harness:
            harness.run("same", value, run_id=ONE)
    before = exports(first), exports(second)
    report = copy_store(first, second)
    assert [(move.run_id, move.fate) for move in report.left] == [(ONE, Fate.CONFLICT)]
    assert (exports(first), exports(second)) == before


def test_a_run_that_did_what_another_has_done_in_the_target_stays(world: World, first: str, second: str) -> None:
    ids = []
    for address in (first, second):
        with world.harness(address) as harness:
            ids.append(harness.run("same", "x").run_id)
    report = copy_store(first, second)
    assert [(move.run_id, move.fate) for move in report.left] == [(ids[0], Fate.CONFLICT)]
    assert ids[1] in report.left[0].why and "mail:x" in report.left[0].why
    assert list(exports(second)) == [ids[1]]


def test_a_damaged_run_is_told_and_left_out_and_the_others_move(world: World, first: str, second: str) -> None:
    ids = populated(world, first)
    with sqlite3.connect(first.removeprefix("sqlite:///")) as db:
        where = "WHERE call_id = 'mail.1' AND run_no = (SELECT run_no FROM run WHERE run_id = ?)"
        db.execute(f"UPDATE call SET result = '\"lies\"' {where}", (ids["asking"],))
    report = copy_store(first, second)
    assert [(move.run_id, move.fate) for move in report.left] == [(ids["asking"], Fate.DAMAGED)]
    assert "mail.1" in report.left[0].why
    assert (report.copied, report.moved) == (2, 8)


def test_a_run_whose_very_row_is_damaged_is_told_and_left_out(world: World, first: str, second: str) -> None:
    with world.harness(first) as harness:
        ids = [harness.start("same", name) for name in ("x", "y", "z")]
    with sqlite3.connect(first.removeprefix("sqlite:///")) as db:
        db.execute("UPDATE run SET phase = 99 WHERE run_id = ?", (ids[1],))
    report = copy_store(first, second)
    assert [(move.run_id, move.fate) for move in report.left] == [(ids[1], Fate.DAMAGED)]
    assert sorted(exports(second)) == sorted([ids[0], ids[2]])


def test_a_fork_finds_what_it_has_from_its_origin_although_that_one_stays(
    world: World, first: str, second: str
) -> None:
    with world.harness(first) as harness:
        origin = harness.run("finish", "x").run_id
        fork = harness.fork(origin, at="kept")
    with sqlite3.connect(first.removeprefix("sqlite:///")) as db:
        newest = "(SELECT max(seq) FROM call WHERE run_no = 1)"
        db.execute(f"UPDATE call SET args_digest = x'00' WHERE run_no = 1 AND seq = {newest}")
    report = copy_store(first, second)
    assert [(move.run_id, move.fate) for move in report.left] == [(origin, Fate.DAMAGED)]
    store = open_store(second)
    try:
        record = store.run(fork)
        assert record is not None
        named = [call.result_artifact for call in store.calls(record.run_no) if call.result_artifact is not None]
        assert named and all(store.artifact(record.run_no, name) is not None for name in named)
    finally:
        store.close()


def test_snapshots_that_are_lost_are_told_and_their_runs_move(world: World, first: str, second: str) -> None:
    with world.harness(first) as harness:
        run_id = harness.run("finish", "x").run_id
    with sqlite3.connect(first.removeprefix("sqlite:///") + ".files") as db:
        db.execute("DELETE FROM blobs")
    report = copy_store(first, second)
    assert (report.copied, report.left) == (1, ())
    assert [move.run_id for move in report.lost] == [run_id]


@pytest.mark.parametrize(
    ("source", "target"),
    [("memory:", "sqlite:///x.db"), ("sqlite:///x.db", "memory:"), ("sqlite:///x.db", "sqlite:///./x.db"), ("x", "y")],
    ids=["from memory", "into memory", "one store", "no addresses"],
)
def test_what_cannot_be_a_copy_is_said_before_anything_is_opened(
    source: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        copy_store(source, target)
    assert list(tmp_path.iterdir()) == []


def test_how_far_it_is_is_told_after_each_run(world: World, first: str, second: str) -> None:
    populated(world, first)
    told: list[tuple[int, int]] = []
    copy_store(first, second, tell=lambda number, of: told.append((number, of)))
    assert told == [(number, 11) for number in range(1, 12)]


def test_a_password_stays_out_of_the_report() -> None:
    address = "postgresql://kim:geheim@localhost/db?schema=jumar"
    assert shown(address) == "postgresql://kim:***@localhost/db?schema=jumar"


class Meddling:
    """A store in which something happens each time right before a run is to depart."""

    def __init__(self, store: Store, act: Callable[[], object]) -> None:
        self._store = store
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: list[Any], *, wait: bool = True) -> Any:
        if any(isinstance(change, Depart) for change in changes):
            self._act()
        return self._store.write(changes, wait=wait)


def once(act: Callable[[], object]) -> Callable[[], object]:
    """Do it the first time, and nothing the next times."""
    left = [act]
    return lambda: left and left.pop()()


def copying_of(source: Any, target: Any) -> Copying:
    """A copy between two open stores that keep no files."""
    return Copying(End("sqlite:///first.db", source), End("sqlite:///second.db", target))


def hold(store: Store, run_id: str) -> RunRecord:
    """Hold a run for as long as the test lasts."""
    statuses = mask(*CLAIMABLE)
    claim = Claim(run_id=run_id, owner="kim/1", ttl_ms=600_000, at=1, statuses=statuses, early=True)
    (answer,) = store.write([claim])
    assert isinstance(answer, Claimed)
    return answer.run
