"""A damaged file: what is damaged is named, nothing is guessed from it, and no error of SQLite's or Python's own
comes out.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Change
from jumar.core.checksums import checkpoint_agrees
from jumar.core.records import CheckpointRecord, RunRecord
from jumar.core.states import CallKind, CallState, IdentityScope, Level, Status
from jumar.core.store import RunFilter, Store
from jumar.errors import IntegrityError, JumarError, StoreError
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import AT, Scene, asking, call, named, taking

PAGE = 4096
LARGE = named(b"an artifact of its own " * 1000)


def opened(file: Path) -> Store:
    return open_store(f"sqlite:///{file}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def runs(file: Path) -> list[RunRecord]:
    """Twelve runs with rows of every kind, in a closed file of a few dozen pages."""
    store = opened(file)
    scene = Scene(store)
    made = []
    for _ in range(12):
        run = scene.running()
        advance = scene.advance(
            run,
            calls=(
                *(call(seq, result=b'"%s"' % (b"x" * 300)) for seq in range(1, 9)),
                call(9, CallState.FAILED),
                call(10, CallState.UNCERTAIN),
                call(11, result=None, result_artifact=LARGE.digest),
                call(12, identity=run.run_id, identity_scope=IdentityScope.STORE),
            ),
            artifacts=(LARGE,),
            after=CheckpointRecord("kept", Level.STEP, "by-hand", refs=("claim:c-17",)),
            requests=(asking(f"{run.run_id}/10", 10),),
            takes=(taking(12, run.run_id),),
        )
        scene.ack(advance)
        made.append(scene.again(run))
    store.close()
    return made


def damage(file: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(file) as connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


def everything_read(store: Store, run: RunRecord) -> list[Callable[[], Any]]:
    number = run.run_no
    return [
        lambda: store.run(run.run_id),
        lambda: store.find("", 5),
        lambda: store.find(run.run_id[-6:], 5),
        lambda: store.runs(RunFilter()),
        lambda: store.runs(RunFilter(status=Status.RUNNING)),
        lambda: store.runs(RunFilter(agent="repair")),
        lambda: store.due(AT, 5),
        lambda: store.calls(number),
        lambda: store.call(number, 2),
        lambda: store.last_call(number, CallKind.TOOL),
        lambda: store.identity(IdentityScope.STORE, number, run.run_id),
        lambda: store.open_requests(50),
        lambda: store.artifact(number, LARGE.digest),
        lambda: store.checkpoints(number),
        lambda: store.requests(number),
        lambda: store.events(number),
    ]


class TestPages:
    """Pages overwritten at random.  The seed is the test's parameter."""

    @pytest.mark.parametrize("seed", range(25))
    def test_doctor_names_overwritten_pages_and_no_reading_guesses(
        self, file: Path, runs: list[RunRecord], seed: int
    ) -> None:
        sound = self.readings(file, runs[3])
        chance = random.Random(seed)
        with file.open("r+b") as opened_file:
            pages = file.stat().st_size // PAGE
            for page in chance.sample(range(1, pages), pages // 4):
                opened_file.seek(page * PAGE + chance.choice([0, 0, 100, 2000]))
                opened_file.write(chance.randbytes(chance.choice([8, 100, PAGE - 2000])))
        try:
            store = opened(file)
        except JumarError as error:
            assert isinstance(error, IntegrityError)
            return
        try:
            assert store.inspect().findings != ()
        finally:
            store.close()
        for seen, was in zip(self.readings(file, runs[3]), sound, strict=True):
            # A row whose index is damaged may not be found; a row that is found is whole, or refused.
            assert seen is None or isinstance(seen, IntegrityError) or type(seen) is type(was)

    @pytest.mark.parametrize("seed", range(25))
    def test_writing_into_a_damaged_file_is_an_error_of_the_stores_or_works(
        self, file: Path, runs: list[RunRecord], seed: int
    ) -> None:
        chance = random.Random(seed)
        with file.open("r+b") as opened_file:
            pages = file.stat().st_size // PAGE
            for page in chance.sample(range(1, pages), pages // 2):
                opened_file.seek(page * PAGE)
                opened_file.write(chance.randbytes(PAGE))
        try:
            store = opened(file)
        except IntegrityError:
            return
        scene = Scene(store)
        change: Change
        for run in runs:
            for change in (scene.create(run_id=run.run_id), scene.claim(run), scene.advance(run, calls=(call(20),))):
                answer = store.write([change])[0]
                assert not isinstance(answer, Exception) or isinstance(answer, (IntegrityError, StoreError))
        store.close()

    @staticmethod
    def readings(file: Path, run: RunRecord) -> list[Any]:
        store = opened(file)
        found: list[Any] = []
        for read in everything_read(store, run):
            try:
                found.append(read())
            except JumarError as error:
                found.append(error)
        store.close()
        return found

    def test_a_file_cut_short_is_an_integrity_error(self, file: Path, runs: list[RunRecord]) -> None:
        with file.open("r+b") as opened_file:
            opened_file.truncate(PAGE * 3)
        with pytest.raises(IntegrityError) as caught:
            store = opened(file)
            try:
                assert store.inspect().findings != ()
                for run in runs:
                    store.calls(run.run_no)
            finally:
                store.close()
        assert caught.value.exit_code == 5
        assert "doctor" in caught.value.hint


# A value that the column cannot hold, and what is read back through it.
_NONSENSE: dict[str, tuple[str, Any, str]] = {
    "a-status-there-is-none-of": ("UPDATE run SET status = ? WHERE run_no = 4", 99, "run"),
    "a-phase-in-words": ("UPDATE run SET phase = ? WHERE run_no = 4", "decided", "run"),
    "a-control-of-bytes": ("UPDATE run SET control = ? WHERE run_no = 4", b"\x01", "run"),
    "numbers-that-are-words": ("UPDATE run SET failed_calls = ? WHERE run_no = 4", "1 two", "run"),
    "numbers-that-are-bytes": ("UPDATE run SET failed_calls = ? WHERE run_no = 4", b"\x01", "run"),
    "no-numbers-at-all": ("UPDATE run SET failed_calls = ? WHERE run_no = 4", "", "run"),
    "a-scope-there-is-none-of": ("UPDATE call SET identity_scope = ? WHERE run_no = 4 AND seq = 12", 99, "call"),
    "a-call-state-there-is-none-of": ("UPDATE call SET state = ? WHERE run_no = 4 AND seq = 2", 99, "call"),
    "a-negative-call-state": ("UPDATE call SET state = ? WHERE run_no = 4 AND seq = 2", -1, "call"),
    "a-kind-in-words": ("UPDATE call SET kind = ? WHERE run_no = 4 AND seq = 2", "tool", "call"),
    "a-failure-that-is-no-json": ("UPDATE call SET failure = ? WHERE run_no = 4 AND seq = 9", b"{", "call"),
    "a-failure-of-another-shape": ("UPDATE call SET failure = ? WHERE run_no = 4 AND seq = 9", b'{"a":1}', "call"),
    "a-failure-that-is-a-number": ("UPDATE call SET failure = ? WHERE run_no = 4 AND seq = 9", 5, "call"),
    "a-verdict-there-is-none-of": ("UPDATE request SET verdict = ? WHERE run_no = 4", 99, "request"),
    "bytes-that-are-no-text": ("UPDATE call SET tool = CAST(? AS TEXT) WHERE run_no = 4 AND seq = 2", b"\xff", ""),
}  # fmt: skip


class TestRows:
    """Rows changed behind the store's back: `doctor` names each, and reading it is refused."""

    @pytest.mark.parametrize(("statement", "value", "where"), _NONSENSE.values(), ids=_NONSENSE.keys())
    def test_nonsense_in_a_row_is_named_and_refused(
        self, file: Path, runs: list[RunRecord], statement: str, value: Any, where: str
    ) -> None:
        damage(file, statement, value)
        store = opened(file)
        findings = store.inspect().findings
        assert [finding for finding in findings if finding.where.startswith(where)]
        with pytest.raises(IntegrityError):
            for read in everything_read(store, runs[3]):
                read()
        store.close()

    @pytest.mark.parametrize(
        ("statement", "value"),
        [
            ("UPDATE checkpoint SET level = ? WHERE run_no = 4 AND version = 3", 99),
            ("UPDATE checkpoint SET refs = ? WHERE run_no = 4 AND version = 3", b"\x05"),
            ("UPDATE checkpoint SET storage = ? WHERE run_no = 4 AND version = 3", "cellar"),
            ("UPDATE checkpoint SET name = ? WHERE run_no = 4 AND version = 3", b"\x05"),
            ("UPDATE checkpoint SET tree = ? WHERE run_no = 4 AND version = 3", b"\x07" * 32),
            ("UPDATE checkpoint SET version = ? WHERE run_no = 4 AND version = 3", "three"),
        ],
        ids=["level", "refs", "storage", "name", "tree", "version"],
    )
    def test_a_damaged_checkpoint_spoils_no_other_and_the_newest_sound_snapshot_is_the_one_before_it(
        self, file: Path, runs: list[RunRecord], statement: str, value: Any
    ) -> None:
        store = opened(file)
        scene = Scene(store)
        for number in (2, 3):
            kept = CheckpointRecord(f"files-{number}", Level.STEP, "manual", tree=bytes([number]) * 32)
            scene.ack(scene.advance(scene.again(runs[3]), after=kept))
        store.close()
        damage(file, statement, value)
        store = opened(file)
        kept_now = {each.version: checkpoint_agrees(each) for each in store.checkpoints(4)}
        assert kept_now == {1: True, 2: True, 3: False} if value != "three" else {1: True, 2: True}
        last = store.last_snapshot(4)
        assert last is not None and last.name == "files-2"
        [finding] = store.inspect().findings
        assert finding.where.startswith("checkpoint ")
        store.close()

    @pytest.mark.parametrize(
        ("statement", "value", "where"),
        [
            ("UPDATE call SET result = ? WHERE run_no = 4 AND seq = 2", b'"another"', "call scan.search.2"),
            ("UPDATE call SET args = ? WHERE run_no = 4 AND seq = 2", b'{"query":"else"}', "call scan.search.2"),
            ("UPDATE call SET args_digest = ? WHERE run_no = 4 AND seq = 2", b"\x00" * 32, "call scan.search.2"),
            ("UPDATE call SET call_id = ? WHERE run_no = 4 AND seq = 2", "scan.pay.2", "call scan.pay.2"),
            ("UPDATE call SET result_artifact = ? WHERE run_no = 4 AND seq = 11", b"\x00" * 32, "call scan.search.11"),
            ("UPDATE checkpoint SET refs = ? WHERE run_no = 4", "claim:c-18", "checkpoint 1"),
            ("UPDATE checkpoint SET step = ? WHERE run_no = 4", 5, "checkpoint 1"),
            ("UPDATE artifact SET data = ? WHERE run_no = 4 AND packing = 0", b"other", "artifact"),
            ("UPDATE artifact SET data = ? WHERE run_no = 4 AND packing = 1", b"other", "artifact"),
            ("UPDATE artifact SET packing = ? WHERE run_no = 4 AND packing = 1", 0, "artifact"),
            ("UPDATE artifact SET packing = ? WHERE run_no = 4 AND packing = 1", 77, "artifact"),
        ],
    )
    def test_what_no_longer_agrees_with_its_checksum_is_named_with_its_run(
        self, file: Path, runs: list[RunRecord], statement: str, value: Any, where: str
    ) -> None:
        damage(file, statement, value)
        store = opened(file)
        [finding] = store.inspect().findings
        assert finding.where.startswith(where)
        assert finding.run_id == runs[3].run_id
        store.close()

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM call WHERE run_no = 4 AND seq = 12",
            "UPDATE call SET identity = 'another' WHERE run_no = 4 AND seq = 12",
            "UPDATE call SET identity = NULL WHERE run_no = 4 AND seq = 12",
            "UPDATE call SET identity_scope = 0 WHERE run_no = 4 AND seq = 12",
            "UPDATE identity SET key = 'another' WHERE run_no = 4",
            "UPDATE identity SET scope_run = 4 WHERE run_no = 4",
            "UPDATE identity SET scope_run = 5 WHERE run_no = 4",
            "UPDATE identity SET call_seq = 11 WHERE run_no = 4",
            "UPDATE identity SET run_no = 999 WHERE run_no = 4",
        ],
    )
    def test_a_name_that_its_holder_does_not_carry_is_named(
        self, file: Path, runs: list[RunRecord], statement: str
    ) -> None:
        damage(file, statement)
        store = opened(file)
        [finding] = store.inspect().findings
        assert finding.where in (f"name {runs[3].run_id}", "name another")
        assert finding.run_id == (None if "999" in statement else runs[3].run_id)
        store.close()

    @pytest.mark.parametrize(
        ("statement", "where"),
        [
            ("UPDATE hold SET run_no = 999", "path conf"),
            ("UPDATE hold SET call_seq = 77", "path conf"),
            ("UPDATE hold SET call_seq = 0", "path conf"),
            ("UPDATE hold SET path = 5, call_seq = 2", "path 5"),
            ("UPDATE run SET intent = x'7b' WHERE run_no = 4", "intent"),
            ("UPDATE run SET forked_from = 'gone' WHERE run_no = 4", "origin"),
        ],
    )
    def test_what_points_to_nothing_is_named(
        self, file: Path, runs: list[RunRecord], statement: str, where: str
    ) -> None:
        store = opened(file)
        scene = Scene(store)
        scene.ack(scene.writing(scene.again(runs[3]), b"conf", seq=13))
        assert store.inspect().findings == ()
        store.close()
        damage(file, statement)
        store = opened(file)
        [finding] = store.inspect().findings
        assert finding.where == where
        assert finding.run_id == (None if "999" in statement else runs[3].run_id)
        store.close()

    def test_of_two_runs_of_a_family_the_one_with_sound_bytes_gives_an_artifact_out(
        self, file: Path, runs: list[RunRecord]
    ) -> None:
        store = opened(file)
        scene = Scene(store)
        change = scene.fork(runs[3], run_id="ffffffff-0000-7000-8000-00000000ffff")
        scene.ack(change)
        fork = scene.claimed(scene.claim(change.run_id)).run
        scene.ack(scene.advance(fork, artifacts=(LARGE,)))
        store.close()
        damage(file, "UPDATE artifact SET data = x'00' WHERE run_no = ? AND digest = ?", fork.run_no, LARGE.digest)
        store = opened(file)
        assert store.artifact(fork.run_no, LARGE.digest) == LARGE.data
        store.close()
        damage(file, "UPDATE artifact SET data = x'00' WHERE run_no = 4 AND digest = ?", LARGE.digest)
        store = opened(file)
        with pytest.raises(IntegrityError):
            store.artifact(fork.run_no, LARGE.digest)
        store.close()

    @pytest.mark.parametrize("statement", ["data = x'00'", "packing = 0", "packing = 77"])
    def test_an_artifact_that_lost_its_digest_is_not_given_out(
        self, file: Path, runs: list[RunRecord], statement: str
    ) -> None:
        damage(file, f"UPDATE artifact SET {statement} WHERE run_no = 4 AND digest = ?", LARGE.digest)
        store = opened(file)
        with pytest.raises(IntegrityError, match="artifact"):
            store.artifact(runs[3].run_no, LARGE.digest)
        assert store.artifact(runs[2].run_no, LARGE.digest) == LARGE.data
        store.close()

    def test_damage_to_one_run_leaves_the_others_readable_and_writable(self, file: Path, runs: list[RunRecord]) -> None:
        damage(file, "UPDATE call SET state = 99 WHERE run_no = ?", runs[3].run_no)
        store = opened(file)
        scene = Scene(store)
        for run in [*runs[:3], *runs[4:]]:
            assert len(store.calls(run.run_no)) == 12
            scene.ack(scene.advance(run))
        store.close()

    def test_a_line_of_the_trace_that_makes_no_sense_is_left_out_and_hurts_nothing(
        self, file: Path, runs: list[RunRecord]
    ) -> None:
        damage(file, "UPDATE event SET kind = 999 WHERE run_no = ?", runs[3].run_no)
        store = opened(file)
        assert store.events(runs[3].run_no) == []
        assert store.inspect().findings == ()
        Scene(store).ack(Scene(store).advance(replace(runs[3])))
        store.close()
