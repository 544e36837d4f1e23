"""Looking: what was written comes back whole, in order and by page; damage would be seen; what is closed says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import astuple, replace

from jumar.core.changes import Create
from jumar.core.checksums import checkpoint_agrees
from jumar.core.records import CheckpointRecord, EventRecord
from jumar.core.states import CallState, EventKind, Level, Phase, Status, Storage
from jumar.core.store import RunFilter
from jumar.errors import StoreUnavailable
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import AT, Scene, call, named
from jumar.testing.conformance_suite import Suite

_SIZES = [0, 1, 511, 512, 513, 2048, 2049, 100_000, 5_000_000]


class Runs(Suite):
    """Finding runs."""

    def test_an_unknown_run_is_none(self, scene: Scene) -> None:
        assert scene.store.run(scene.new_id()) is None

    def test_text_that_is_no_id_finds_nothing(self, scene: Scene) -> None:
        scene.queued()
        for text in ("", "%", "_", "'", "\x00", "ü"):
            assert scene.store.run(text) is None

    def test_an_ending_finds_its_runs_newest_first(self, scene: Scene) -> None:
        ids = [f"0000000{number}-0000-7000-8000-{tail}" for number, tail in enumerate(("a00000000abc", "b00000000abc"))]
        ids.append("00000009-0000-7000-8000-00000000abcd")
        for run_id in ids:
            scene.ack(scene.create(run_id=run_id))
        assert scene.store.find("abc", 10) == [ids[1], ids[0]]
        assert scene.store.find("a00000000abc", 10) == [ids[0]]
        assert scene.store.find(ids[2], 10) == [ids[2]]
        assert scene.store.find("d", 10) == [ids[2]]
        assert scene.store.find("e", 10) == []

    def test_no_ending_finds_the_newest_runs(self, scene: Scene) -> None:
        assert scene.store.find("", 5) == []
        ids = [scene.queued().run_id for _ in range(4)]
        assert scene.store.find("", 2) == [ids[3], ids[2]]

    def test_an_ending_finds_at_most_so_many(self, scene: Scene) -> None:
        for number in range(5):
            scene.ack(scene.create(run_id=f"0000000{number}-0000-7000-8000-0000000000ff"))
        assert len(scene.store.find("ff", 2)) == 2

    def test_runs_are_listed_newest_first(self, scene: Scene) -> None:
        runs = [scene.queued(), scene.running(), scene.waiting()]
        assert scene.store.runs(RunFilter()) == runs[::-1]

    def test_runs_are_listed_by_status_and_agent(self, scene: Scene) -> None:
        made = {
            (agent, status): scene.queued(agent=agent, owner=owner)
            for agent in ("repair", "report")
            for status, owner in ((Status.QUEUED, None), (Status.RUNNING, "ann"))
        }
        queued = [made["report", Status.QUEUED], made["repair", Status.QUEUED]]
        repair = [made["repair", Status.RUNNING], made["repair", Status.QUEUED]]
        assert scene.store.runs(RunFilter(status=Status.QUEUED)) == queued
        assert scene.store.runs(RunFilter(agent="repair")) == repair
        assert scene.store.runs(RunFilter(status=Status.QUEUED, agent="repair")) == [queued[1]]
        assert scene.store.runs(RunFilter(status=Status.FAILED)) == []
        assert scene.store.runs(RunFilter(agent="nobody")) == []

    @pytest.mark.parametrize("which", [{}, {"agent": "repair"}, {"status": Status.QUEUED}])
    def test_pages_join_without_a_gap_or_a_double(self, scene: Scene, which: dict[str, Status | str]) -> None:
        runs = [scene.queued() for _ in range(7)]
        pages, before = [], None
        while page := scene.store.runs(RunFilter(before=before, limit=3, **which)):  # type: ignore[arg-type]
            pages.append(page)
            before = page[-1].run_id
        assert [len(page) for page in pages] == [3, 3, 1]
        assert [run for page in pages for run in page] == runs[::-1]


class Rows(Suite):
    """What belongs to a run."""

    def test_a_run_that_is_not_there_has_no_rows(self, scene: Scene) -> None:
        look = scene.store
        assert [look.calls(9), look.checkpoints(9), look.requests(9), look.events(9)] == [[], [], [], []]
        assert look.artifact(9, b"\x00" * 32) is None

    def test_calls_come_in_the_order_of_their_numbers(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(5), call(2))))
        scene.ack(scene.advance(scene.again(run), calls=(call(11), call(1))))
        assert [record.seq for record in scene.store.calls(run.run_no)] == [1, 2, 5, 11]

    def test_events_come_in_the_order_they_were_written_whatever_their_times(self, scene: Scene) -> None:
        run = scene.running()
        events = tuple(EventRecord(EventKind.RETRY, AT - n, n, 1, f"attempt {n}") for n in (1, 2, 3))
        scene.ack(scene.advance(run, events=events[:2]))
        scene.ack(scene.advance(scene.again(run), events=events[2:]))
        assert tuple(scene.store.events(run.run_no)[1:]) == events

    def test_what_is_the_same_in_two_runs_stays_apart(self, scene: Scene) -> None:
        one = scene.call_in(scene.running(), CallState.STARTED)
        two = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(laden(scene, one))
        before = scene.everything(one)
        scene.ack(laden(scene, two))
        assert scene.everything(one) == before
        assert scene.store.checkpoints(two.run_no) == before[2]

    @pytest.mark.parametrize("size", _SIZES)
    def test_an_artifact_comes_back_byte_for_byte(self, scene: Scene, size: int) -> None:
        run = scene.running()
        for pattern in (b"\x00", b'{"line": "ERROR"}, ', bytes(range(256))):
            artifact = named((pattern * (size // len(pattern) + 1))[:size])
            scene.ack(scene.advance(scene.again(run), artifacts=(artifact,)))
            assert scene.store.artifact(run.run_no, artifact.digest) == artifact.data

    def test_an_artifact_given_twice_is_kept_once(self, scene: Scene) -> None:
        run = scene.running()
        artifact = named(b'"the same"')
        kept = scene.store.inspect().artifacts
        scene.ack(scene.advance(run, artifacts=(artifact, artifact)))
        scene.ack(scene.advance(scene.again(run), artifacts=(artifact,)))
        assert scene.store.inspect().artifacts == kept + 1
        assert scene.store.artifact(run.run_no, artifact.digest) == artifact.data

    def test_an_artifact_belongs_to_its_run(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        artifact = named(b'"mine"')
        scene.ack(scene.advance(run, artifacts=(artifact,)))
        assert scene.store.artifact(other.run_no, artifact.digest) is None

    @pytest.mark.parametrize("size", [0, 2048, 4_000_000])
    def test_a_result_in_its_row_comes_back_byte_for_byte(self, scene: Scene, size: int) -> None:
        run = scene.running()
        result = (bytes(range(256)) * (size // 256 + 1))[:size]
        scene.ack(scene.advance(run, calls=(call(1, result=result),)))
        assert scene.store.calls(run.run_no)[0].result == result

    def test_text_comes_back_character_for_character(self, scene: Scene) -> None:
        text = "naïve 攀登 🧗 '\"; -- \\ \t\n"
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1, key=text, step=text, tool=text),)))
        record = scene.store.calls(run.run_no)[0]
        assert (record.key, record.step, record.tool) == (text, text, text)


class Checkpoints(Suite):
    """Restore points: at most one a version, each with the version it stands for and a checksum."""

    def test_one_stands_for_the_version_before_and_one_for_the_version_made(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(laden(scene, run))
        assert [(kept.version, kept.name) for kept in scene.store.checkpoints(run.run_no)] == [
            (1, "before"),
            (2, "after"),
        ]

    def test_a_checkpoint_comes_back_as_it_was_kept(self, scene: Scene) -> None:
        run = scene.running()
        given = CheckpointRecord(
            "fix-the-site_scan_step_20300317T174640.000Z",
            Level.TASK,
            "by-hand",
            base_version=7,
            refs=("claim:c-17", "file:index.html"),
            step=3,
            phase=Phase.VERIFYING,
            context=b"\x05" * 32,
            created_at=AT,
            tree=b"\x06" * 32,
            environment=b"\x07" * 32,
            storage=Storage.HOT,
        )
        scene.ack(scene.advance(run, after=given))
        [kept] = scene.store.checkpoints(run.run_no)
        assert replace(kept, version=-1, checksum=b"") == given
        assert None not in astuple(kept), "a field was added that this test does not set"
        assert (kept.version, len(kept.checksum)) == (1, 32)
        assert checkpoint_agrees(kept)

    def test_the_first_of_two_for_one_version_stays(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, after=CheckpointRecord("first", Level.STEP, "step-end")))
        run = scene.again(run)
        scene.ack(scene.advance(run, before=CheckpointRecord("second", Level.TASK, "by-hand")))
        assert [(kept.version, kept.name) for kept in scene.store.checkpoints(run.run_no)] == [(1, "first")]

    def test_checkpoints_come_in_the_order_of_their_versions(self, scene: Scene) -> None:
        run = scene.running()
        for name in ("one", "two", "three"):
            scene.ack(scene.advance(scene.again(run), after=CheckpointRecord(name, Level.STEP, "step-end")))
        assert [kept.name for kept in scene.store.checkpoints(run.run_no)] == ["one", "two", "three"]

    def test_the_newest_snapshot_is_that_of_the_newest_checkpoint_with_a_tree(self, scene: Scene) -> None:
        run = scene.running()
        trees = {1: None, 2: b"\x02" * 32, 3: b"\x03" * 32, 4: None}
        for version, tree in trees.items():
            scene.ack(scene.advance(scene.again(run), after=CheckpointRecord("kept", Level.STEP, "manual", tree=tree)))
            kept = scene.store.last_snapshot(run.run_no)
            newest = {1: None, 4: 3}.get(version, version)
            assert (None if kept is None else kept.version) == newest
        assert kept == scene.store.checkpoints(run.run_no)[2]

    def test_a_run_has_its_own_newest_snapshot(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.advance(run, after=CheckpointRecord("kept", Level.STEP, "manual", tree=b"\x02" * 32)))
        assert scene.store.last_snapshot(other.run_no) is None
        assert scene.store.last_snapshot(999) is None


class Care(Suite):
    """A sound store is found sound, a closed one says so, and what was acknowledged is there again."""

    def test_nothing_is_found_in_an_empty_store(self, scene: Scene) -> None:
        found = scene.store.inspect()
        assert (found.runs, found.calls, found.checkpoints, found.artifacts, found.findings) == (0, 0, 0, 0, ())

    def test_nothing_is_found_in_a_store_with_rows_of_every_kind(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        artifact = named(b"x" * 100_000)
        large = call(7, result=None, result_artifact=artifact.digest)
        scene.ack(
            replace(laden(scene, run), calls=(large, call(8, CallState.FAILED)), changes=(), artifacts=(artifact,))
        )
        found = scene.store.inspect()
        assert (found.runs, found.calls, found.checkpoints, found.artifacts) == (1, 3, 2, 2)
        assert found.findings == ()

    def test_a_call_that_does_not_agree_with_its_checksum_is_found(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1), call(2, checksum=1))))
        [finding] = scene.store.inspect().findings
        assert finding.run_id == run.run_id
        assert "scan.search.2" in finding.where

    def test_a_closed_store_says_so(self, scene: Scene) -> None:
        run = scene.running()
        scene.store.close()
        with pytest.raises(StoreUnavailable):
            scene.store.run(run.run_id)
        with pytest.raises(StoreUnavailable):
            scene.store.calls(run.run_no)
        with pytest.raises(StoreUnavailable):
            scene.store.read_back(scene.advance(run))
        with pytest.raises(StoreUnavailable):
            scene.write(scene.advance(run))

    def test_a_store_may_be_closed_twice(self, scene: Scene) -> None:
        scene.store.close()
        scene.store.close()

    def test_what_was_acknowledged_is_there_again_where_the_store_is_durable(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(laden(scene, run))
        before = scene.everything(run)
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            if self.durable:
                assert Scene(opened).everything(run) == before
            else:
                assert opened.runs(RunFilter()) == []
        finally:
            opened.close()

    def test_the_lease_clock_never_goes_back(self, scene: Scene) -> None:
        readings = [scene.store.now() for _ in range(100)]
        assert {reading.boot for reading in readings} == {readings[0].boot}
        assert [reading.ms for reading in readings] == sorted(reading.ms for reading in readings)

    def test_a_creation_that_is_asked_for_again_is_refused_after_reopening(self, scene: Scene, tmp_path: Path) -> None:
        made: Create = scene.create()
        scene.ack(made)
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            assert (opened.run(made.run_id) is not None) is self.durable
        finally:
            opened.close()
