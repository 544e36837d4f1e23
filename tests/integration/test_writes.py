"""Tools that write: a call that comes to no good end leaves the files as they were, byte for byte and mode for mode."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, NotApplied, Run
from jumar.errors import CallFailed, UsageError
from tests.integration.writes_helpers import Site, furnished


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = furnished(tmp_path, waits=request.param)
    with made.harness:
        yield made


class Trouble(Exception):
    """What a body ends with."""


# --- What a call may do before it fails. -----------------------------------------------------------------------------


def overwrite(root: Path) -> None:
    (root / "conf/site.ini").write_text("")


def append_and_change_mode(root: Path) -> None:
    with (root / "conf/site.ini").open("a") as file:
        file.write("broken")
    (root / "conf/site.ini").chmod(0o777)


def delete(root: Path) -> None:
    (root / "conf/site.ini").unlink()


def rename(root: Path) -> None:
    (root / "conf/site.ini").rename(root / "conf/gone.ini")


def make_files(root: Path) -> None:
    (root / "conf/new/deep").mkdir(parents=True)
    (root / "conf/new/deep/file").write_text("new")


def replace_link(root: Path) -> None:
    (root / "conf/current.ini").unlink()
    (root / "conf/current.ini").write_text("no link")


def file_for_folder(root: Path) -> None:
    shutil.rmtree(root / "conf")
    (root / "conf").write_text("a file now")


def same_size_and_time(root: Path) -> None:
    place = root / "conf/site.ini"
    before = place.stat()
    place.write_text("port = 99\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


HARM = [
    overwrite,
    append_and_change_mode,
    delete,
    rename,
    make_files,
    replace_link,
    file_for_folder,
    same_size_and_time,
]


@pytest.mark.parametrize("declares", [["conf"], None], ids=["declared", "undeclared"])
@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_files_are_put_back_after_an_exception(
    site: Site, harm: Callable[[Path], None], declares: list[str] | None
) -> None:
    before = site.files()

    def work() -> None:
        harm(site.root)
        raise Trouble("in the middle")

    result = site.call(work, paths=declares, retries=0)
    assert (result.status, result.error_type) == ("FAILED", "CallFailed")
    assert site.files() == before
    assert site.holds() == []


def test_an_undeclared_write_is_put_back_wherever_it_wrote(site: Site) -> None:
    before = site.files()

    def work() -> None:
        (site.root / "run.sh").chmod(0o644)
        (site.root / "empty").rmdir()
        (site.root / "conf/other.ini").unlink()
        raise Trouble

    site.call(work, retries=0)
    assert site.files() == before


def test_what_a_failed_write_has_left_can_be_had_again_from_the_safety_snapshot(site: Site) -> None:
    def work() -> None:
        (site.root / "conf/site.ini").write_text("what it wrote")
        raise Trouble

    site.call(work, paths=["conf/site.ini"], retries=0)
    opened = site.harness._open()._engine.files.of(str(site.root.resolve()))
    objects = opened.workspace.objects
    (pinned,) = {digest for digest, reason in objects.pins() if reason.startswith("restore:")}
    kept = objects.load(objects.load(objects.get_snapshot(pinned).root)[0].digest or b"")
    assert [b"".join(objects.parts(each.digest or b"")) for each in kept] == [b"what it wrote"]


def test_a_write_that_fails_once_is_made_again_from_the_files_as_they_were(site: Site) -> None:
    seen: list[str] = []

    def work() -> str:
        seen.append(site.read("conf/site.ini"))
        site.write("conf/site.ini", "half")
        if len(seen) == 1:
            raise Trouble
        site.write("conf/site.ini", "whole")
        return "done"

    assert site.call(work, paths=["conf/site.ini"]).unwrap() == "done"
    assert seen == ["port = 80\n", "port = 80\n"]
    assert site.read("conf/site.ini") == "whole"
    (call,) = site.harness.show("last").calls
    assert (call.state, call.attempt) == ("SUCCEEDED", 2)
    assert [line.what for line in site.harness.trace("last")].count("put-back") == 1
    assert call.before is not None and call.after is not None and call.before != call.after


def test_the_agent_gets_the_last_failure_once_the_retries_are_used_up(site: Site) -> None:
    made: list[int] = []

    def work() -> None:
        made.append(1)
        overwrite(site.root)
        raise Trouble(f"attempt {len(made)}")

    result = site.call(work, paths=["conf/site.ini"], retries=1)
    assert len(made) == 2
    assert isinstance(result.error, CallFailed)
    assert (result.error.type_name, result.error.message) == ("Trouble", "attempt 2")
    assert site.read("conf/site.ini") == "port = 80\n"


def test_a_declared_error_is_raised_as_itself_and_not_tried_again_and_the_files_are_put_back(site: Site) -> None:
    made: list[int] = []

    def work() -> None:
        made.append(1)
        overwrite(site.root)
        raise Trouble("as declared")

    result = site.call(work, paths=["conf/site.ini"], errors=(Trouble,))
    assert len(made) == 1
    assert isinstance(result.error, Trouble)
    assert site.read("conf/site.ini") == "port = 80\n"
    assert site.holds() == []


def test_what_surely_was_not_applied_is_tried_again_without_anything_being_put_back(site: Site) -> None:
    made: list[int] = []

    def work() -> str:
        made.append(1)
        if len(made) == 1:
            raise NotApplied("busy")
        overwrite(site.root)
        return "done"

    assert site.call(work, paths=["conf/site.ini"]).unwrap() == "done"
    assert "put-back" not in [line.what for line in site.harness.trace("last")]


def test_a_result_that_cannot_be_stored_undoes_nothing_of_what_was_written(site: Site) -> None:
    def work() -> Any:
        site.write("conf/site.ini", "new")
        return print

    result = site.call(work, paths=["conf/site.ini"])
    assert result.error_type == "ResultNotStorable"
    assert site.read("conf/site.ini") == "new"
    (call,) = site.harness.show("last").calls
    assert call.state == "SUCCEEDED"


# --- verify. ---------------------------------------------------------------------------------------------------------


def test_verify_gets_the_result_and_the_arguments_and_sees_the_files_as_written(site: Site) -> None:
    asked: list[Any] = []

    def verify(result: int, name: str, text: str) -> bool:
        asked.append((result, name, text, site.read(name)))
        return True

    def rewrite(name: str, text: str) -> int:
        site.write(name, text)
        return len(text)

    assert site.call(rewrite, "conf/site.ini", "port = 82\n", paths=["{name:path}"], verify=verify).unwrap() == 10
    assert asked == [(10, "conf/site.ini", "port = 82\n", "port = 82\n")]


def test_a_write_that_verify_refuses_is_put_back_and_made_again(site: Site) -> None:
    texts = iter(["", "port = 82\n"])
    before = site.files()
    seen: list[Any] = []

    def verify(result: str) -> bool:
        seen.append((site.read("conf/site.ini"), site.files() == before))
        return site.read("conf/site.ini") != ""

    def rewrite() -> str:
        assert site.files() == before
        (site.root / "conf/site.ini").write_text(next(texts))
        return "written"

    assert site.call(rewrite, paths=["conf/site.ini"], verify=verify).unwrap() == "written"
    assert seen == [("", False), ("port = 82\n", False)]
    assert site.read("conf/site.ini") == "port = 82\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda result: False, "verify answered False"),
        (lambda result: None, "verify answered None"),
        (lambda result: "the port is missing", "the port is missing"),
        (lambda result: 1 // 0, "verify raised ZeroDivisionError"),
    ],
    ids=["false", "none", "reason", "raises"],
)
def test_a_write_that_verify_never_accepts_fails_as_polluted_with_its_files_put_back(
    site: Site, answer: Callable[[Any], Any], said: str
) -> None:
    before = site.files()
    made: list[int] = []

    def rewrite() -> None:
        made.append(1)
        overwrite(site.root)

    result = site.call(rewrite, paths=["conf/site.ini"], verify=answer, retries=1)
    assert isinstance(result.error, CallFailed)
    assert (result.error.error_class, result.error.type_name) == ("polluted", "VerificationFailed")
    assert said in result.error.message
    assert len(made) == 2
    assert site.files() == before


def test_an_async_verify_is_awaited(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    asked: list[str] = []

    async def verify(result: None) -> bool:
        asked.append(site.read("conf/site.ini"))
        return len(asked) == 2

    def rewrite() -> None:
        site.write("conf/site.ini", "new")

    with site.harness:
        assert site.call(rewrite, paths=["conf/site.ini"], verify=verify).status == "COMPLETED"
    assert asked == ["new", "new"]


# --- Other people's edits. --------------------------------------------------------------------------------------------


def test_edits_by_a_person_between_two_writes_are_what_the_second_is_put_back_to(site: Site) -> None:
    def rewrite(text: str) -> None:
        site.write("conf/site.ini", text)
        if not text:
            raise Trouble

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"], retries=0))
    assert site.harness.run(agent, ["by the agent"]).status == "COMPLETED"
    site.write("conf/site.ini", "by a person", 0o604)
    before = site.files()
    assert site.harness.run(agent, [""]).status == "FAILED"
    assert site.files() == before


# --- Approvals. ------------------------------------------------------------------------------------------------------


def test_the_paths_are_those_of_the_arguments_that_a_person_approved(site: Site) -> None:
    def rewrite(name: str) -> str:
        site.write(f"conf/{name}", "written")
        if name == "other.ini":
            raise Trouble
        return name

    agent = site.agent(site.tool(rewrite, paths=["conf/{name}"], approval="always", retries=0))
    before = site.files()
    for asked, approved, status in (("../x", "site.ini", "COMPLETED"), ("site.ini", "other.ini", "FAILED")):
        waiting = site.harness.run(agent, [asked])
        assert waiting.status == "WAITING"
        site.harness.approve(waiting.run_id, waiting.waiting_on[0].call_id, args={"name": approved})
        assert site.harness.resume(waiting.run_id).status == status
    assert site.read("conf/site.ini") == "written"
    assert site.files()[b"conf/other.ini"] == before[b"conf/other.ini"]


# --- Without a workspace. --------------------------------------------------------------------------------------------


def test_an_agent_whose_tool_writes_is_not_run_without_a_workspace() -> None:
    called: list[int] = []
    with Harness("memory:") as harness:

        @harness.tool(effect="write", paths=["{name}"])
        def rewrite(name: str) -> None:
            called.append(1)

        @harness.agent(tools=[rewrite])
        def work(run: Run, task: str) -> None:
            run.call(rewrite, task)

        for begin in (harness.run, harness.start):
            with pytest.raises(UsageError, match="rewrite writes files, and there is no workspace") as caught:
                begin(work, "x")
            assert "Harness(workspace=" in caught.value.hint
        assert harness.runs() == []

        @harness.agent
        def any_tool(run: Run, task: str) -> None:
            run.call(rewrite, task)

        result = harness.run(any_tool, "x")
        assert (result.status, result.error_type) == ("FAILED", "UsageError")
        assert called == []


def test_a_workspace_is_given_by_override_and_its_objects_go_with_a_store_in_memory(tmp_path: Path) -> None:
    site = furnished(tmp_path)
    harness = Harness("memory:")

    @harness.tool(effect="write")
    def spoil() -> None:
        shutil.rmtree(site.root / "conf")
        raise Trouble

    @harness.agent(tools=[spoil])
    def work(run: Run, task: str) -> None:
        run.call(spoil.using(retries=0))

    before = site.files()
    with harness.override(workspace=site.root):
        assert harness.workspace == str(site.root)
        assert harness.run(work, "x").status == "FAILED"
        assert site.files() == before
    assert harness.workspace is None
    assert sorted(each.name for each in tmp_path.iterdir()) == ["site"]
