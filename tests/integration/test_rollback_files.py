"""Rolling files back with a run: byte for byte and mode for mode as they were, and nobody else's change lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness
from jumar.core import trees
from jumar.core.restoring import Outcome
from jumar.errors import CheckpointNotFound, RestoreFailed, UsageError, WorkspaceConflict
from tests.integration.loops_helpers import Script, act, call, declare
from tests.integration.rollback_helpers import done
from tests.integration.waits_helpers import scripted
from tests.workspace.files import Tree, read

Steps = Generator[Any, Any, Any]


class Place:
    """A workspace, a harness on it, a tool that writes one declared file, and one that may write anything."""

    def __init__(self, folder: Path, *, waits: bool) -> None:
        self.folder, self.waits = folder, waits
        self.root = folder / "site"
        self.root.mkdir()
        (self.root / "conf").mkdir()
        (self.root / "conf/a.ini").write_text("a = 1\n")
        (self.root / "conf/a.ini").chmod(0o640)
        (self.root / "empty").mkdir(mode=0o700)
        (self.root / "readme").write_text("read me\n")
        self.address = f"sqlite:///{folder / 'runs.db'}"
        self.harness = self.opened()

    def opened(self) -> Harness:
        """A harness on the store and the workspace, as another process would have."""
        return Harness(self.address, workspace=self.root)

    def files(self) -> Tree:
        """All there is in the workspace."""
        return read(self.root)

    def tools(self, harness: Harness) -> tuple[Any, Any]:
        """`put`, which declares what it writes, and `sweep`, which does not."""

        @harness.tool(effect="write", paths=["conf/{file}"])
        def put(file: str, text: str) -> int:
            place = self.root / "conf" / file
            place.write_text(text)
            place.chmod(0o600)
            return len(text)

        @harness.tool(effect="write")
        def sweep() -> None:
            (self.root / "readme").unlink()
            (self.root / "empty").rmdir()

        return put, sweep

    def agent(self, harness: Harness) -> Any:
        """Writes twice, with a checkpoint before each."""
        put, sweep = self.tools(harness)

        @scripted(harness, self.waits)
        def work(run: Any, task: str) -> Steps:
            yield run.checkpoint("first")
            yield run.call(put, "a.ini", "a = 2\n")
            yield run.checkpoint("second")
            yield run.call(put, "b.ini", "b = 1\n")
            yield run.checkpoint("third")
            yield run.call(sweep)
            return "written"

        return work


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A workspace, for a plain agent and for an async one."""
    return Place(tmp_path, waits=bool(request.param))


def test_files_and_head_go_back_together_and_are_made_again_on_resume(place: Place) -> None:
    harness, before = place.harness, place.files()
    run_id = harness.run(place.agent(harness), "x").run_id
    after = place.files()
    rolled = harness.rollback(run_id, to="first")
    assert rolled.report is not None
    assert rolled.report.of(Outcome.RESTORED) == ("conf/a.ini", "empty", "readme")
    assert rolled.report.of(Outcome.DELETED) == ("conf/b.ini",)
    assert place.files() == before
    assert done(harness.resume(run_id)) == "written"
    assert place.files() == after


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_each_checkpoint_has_the_files_of_its_moment(place: Place, name: str) -> None:
    harness, seen = place.harness, dict[str, Tree]()
    put, sweep = place.tools(harness)

    @scripted(harness, place.waits)
    def work(run: Any, task: str) -> Steps:
        for number, label in enumerate(("first", "second", "third")):
            seen[label] = place.files()
            yield run.checkpoint(label)
            yield run.call(put, f"{label}.ini", f"{number}\n")
        yield run.call(sweep)

    run_id = harness.run(work, "x").run_id
    harness.rollback(run_id, to=name)
    assert place.files() == seen[name]


def test_a_change_of_somebody_elses_refuses_it_all_and_force_can_be_undone(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    (place.root / "conf/a.ini").write_text("mine\n")
    touched, view = place.files(), harness.show(run_id)
    with pytest.raises(WorkspaceConflict) as caught:
        harness.rollback(run_id, to="first")
    assert caught.value.paths == ("conf/a.ini",)
    assert (place.files(), harness.show(run_id)) == (touched, view)
    planned = harness.rollback(run_id, to="first", dry_run=True)
    assert planned.report is not None
    assert planned.report.of(Outcome.CONFLICT) == ("conf/a.ini",)
    forced = harness.rollback(run_id, to="first", force=True)
    assert (place.root / "conf/a.ini").read_text() == "a = 1\n"
    assert forced.report is not None and forced.report.safety is not None
    stands = harness.show(run_id).run
    undone = harness.rollback(run_id, to=f"files:{forced.report.safety.hex()[:12]}")
    assert undone.report is not None and undone.report.complete
    assert place.files() == touched
    after = harness.show(run_id).run
    assert (after.status, after.generation) == (stands.status, stands.generation), "only files went back"


def test_an_undo_of_an_undo_can_be_undone_as_well_and_touches_no_other_workspace(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    written = place.files()
    first = harness.rollback(run_id, to="first").report
    back = place.files()
    assert first is not None and first.safety is not None
    second = harness.rollback(run_id, to=f"files:{first.safety.hex()}").report
    assert place.files() == written
    assert second is not None and second.safety is not None
    harness.rollback(run_id, to=f"files:{second.safety.hex()}")
    assert place.files() == back
    elsewhere = harness.fork(run_id, at="first", workspace=place.folder / "other")
    with pytest.raises(CheckpointNotFound, match="no snapshot of the files before a restore"):
        harness.rollback(elsewhere, to=f"files:{first.safety.hex()}")
    with pytest.raises(CheckpointNotFound) as caught:
        harness.rollback(run_id, to="files:abc")
    assert f"files:{second.safety.hex()[:12]}" in caught.value.hint


def test_a_file_that_somebody_else_made_stays(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    (place.root / "notes").write_text("mine\n")
    with pytest.raises(WorkspaceConflict, match="notes"):  # it is not the run's, and the target would have had it
        harness.rollback(run_id, to="first")
    assert (place.root / "notes").read_text() == "mine\n"


def test_with_paths_only_these_files_go_back_and_the_run_stays_where_it_is(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    rolled = harness.rollback(run_id, to="first", paths=["conf/a.ini"])
    assert (rolled.status, rolled.undone) == ("COMPLETED", ())
    info = harness.show(run_id).run
    assert (info.generation, info.phase, info.rolling_back_to) == (0, "STOPPED", None)
    assert (place.root / "conf/a.ini").read_text() == "a = 1\n"
    assert (place.root / "conf/b.ini").exists()
    assert not (place.root / "readme").exists()
    harness.rollback(run_id, to="second")  # what was put back is the run's own doing, and no conflict
    assert (place.root / "conf/a.ini").read_text() == "a = 2\n"
    assert not (place.root / "conf/b.ini").exists()


def test_a_failed_run_stays_as_it_failed_where_only_files_go_back(place: Place) -> None:
    harness = place.harness
    put, _ = place.tools(harness)

    @scripted(harness, place.waits)
    def work(run: Any, task: str) -> Steps:
        yield run.checkpoint("first")
        yield run.call(put, "a.ini", "a = 2\n")
        raise ValueError("no")

    failed = harness.run(work, "x")
    before = harness.show(failed.run_id).run
    harness.rollback(failed.run_id, to="first", paths="conf")
    after = harness.show(failed.run_id).run
    assert (place.root / "conf/a.ini").read_text() == "a = 1\n"
    kept = ("status", "error_type", "error_message", "phase", "generation")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]


def test_a_dry_run_tells_what_each_file_would_come_to(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    after = place.files()
    planned = harness.rollback(run_id, to="second", dry_run=True)
    assert planned.report is not None
    assert planned.report.of(Outcome.RESTORED) == ("empty", "readme")
    assert planned.report.of(Outcome.DELETED) == ("conf/b.ini",)
    assert place.files() == after


def test_paths_say_nothing_of_a_run_without_files(tmp_path: Path) -> None:
    with Harness("memory:") as harness:

        @harness.agent
        def agent(run: Any, task: str) -> None: ...

        run_id = harness.run(agent, "x").run_id
        with pytest.raises(UsageError, match="no snapshot of any files was kept"):
            harness.rollback(run_id, to=0, paths=["conf"])
        for wrong in ([], [""], ["a", 5]):
            with pytest.raises(UsageError, match="path"):
                harness.rollback(run_id, to=0, paths=wrong)  # type: ignore[arg-type]


def test_another_process_without_a_workspace_of_its_own_puts_the_runs_files_back(place: Place) -> None:
    before = place.files()
    with place.harness as harness:
        run_id = harness.run(place.agent(harness), "x").run_id
    with Harness(place.address) as other:
        place.agent(other)
        other.rollback(run_id, to="first")
        assert place.files() == before
        assert done(other.resume(run_id)) == "written"


def test_two_rollbacks_in_a_row_each_find_their_files(place: Place) -> None:
    harness, before = place.harness, place.files()
    run_id = harness.run(place.agent(harness), "x").run_id
    after = place.files()
    for _ in range(2):
        harness.rollback(run_id, to="second")
        harness.rollback(run_id, to="first")
        assert place.files() == before
        done(harness.resume(run_id))
        assert place.files() == after
        harness.rollback(run_id, to="third")
        done(harness.resume(run_id))
        assert place.files() == after


def test_a_rollback_of_a_loop_agent_takes_turns_and_files_back_together(place: Place) -> None:
    harness, before = place.harness, place.files()
    put, sweep = place.tools(harness)
    script = Script(act(call("put", file="a.ini", text="a = 2\n")), act(call("sweep")), Decision.finish("written"))
    run_id = harness.run(declare(harness, place.waits, script, tools=[put, sweep]), "x").run_id
    after = place.files()
    turns = [each.version for each in harness.show(run_id).checkpoints if "_turn-2_step_" in each.name]
    harness.rollback(run_id, to=turns[-1])
    assert place.files() != before
    assert (place.root / "readme").exists()
    assert (place.root / "conf/a.ini").read_text() == "a = 2\n"
    assert len(harness.view(run_id).history) == 1
    assert done(harness.resume(run_id)) == "written"
    assert place.files() == after
    harness.rollback(run_id, to=0)
    assert place.files() == before
    assert len(harness.view(run_id).history) == 0
    assert done(harness.resume(run_id)) == "written"


def test_a_content_that_is_damaged_refuses_a_rollback_before_it_begins(place: Place) -> None:
    harness = place.harness
    run_id = harness.run(place.agent(harness), "x").run_id
    harness.close()
    after, damaged = place.files(), trees.digest_of(b"a = 1\n")
    with closing(sqlite3.connect(place.folder / "runs.db.files")) as db, db:
        assert db.execute("UPDATE blobs SET data = x'00' WHERE digest = ?", (damaged,)).rowcount == 1
    with place.opened() as again:
        place.agent(again)
        planned = again.rollback(run_id, to="first", dry_run=True)
        assert planned.report is not None
        assert planned.report.of(Outcome.FAILED) == ("conf/a.ini",)
        for force in (False, True):
            with pytest.raises(RestoreFailed, match=r"conf/a\.ini cannot be put back .*does not agree") as refused:
                again.rollback(run_id, to="first", force=force)
            assert refused.value.paths == ("conf/a.ini",)
        assert (again.show(run_id).run.status, again.show(run_id).run.rolling_back_to) == ("COMPLETED", None)
        assert place.files() == after
        again.rollback(run_id, to="second")
        assert (place.root / "readme").read_text() == "read me\n"


def failing(place: Place, harness: Harness, broken: list[bool]) -> Callable[..., Any]:
    """Writes two files in one step; the second write is found to be wrong while it is broken."""
    put, _ = place.tools(harness)

    @harness.tool(effect="write", paths=["conf/{name}"], verify=lambda length, name, text: not broken[0], retries=0)
    def check(name: str, text: str) -> int:
        (place.root / "conf" / name).write_text(text)
        return len(text)

    @scripted(harness, place.waits)
    def work(run: Any, task: str) -> Steps:
        with run.step("before"):
            yield run.call(put, "b.ini", "b = 1\n")
        with run.step("fix"):
            yield run.call(put, "a.ini", "a = 2\n")
            yield run.call(check, "c.ini", "c = 1\n")
        return "fixed"

    return work


def test_a_run_polluted_by_a_write_goes_back_to_the_start_of_its_step_when_it_is_resumed(place: Place) -> None:
    harness, broken = place.harness, [True]
    failed = harness.run(failing(place, harness, broken), "x")
    assert failed.status == "FAILED"
    assert (place.root / "conf/a.ini").read_text() == "a = 2\n"
    assert not (place.root / "conf/c.ini").exists()  # which the call itself has put back
    broken[0] = False
    assert done(harness.resume(failed.run_id)) == "fixed"
    names = [call.call_id for call in harness.show(failed.run_id).calls if not call.left_behind]
    assert names == ["before.put.1", "fix.put.1@1", "fix.check.1@1"]
