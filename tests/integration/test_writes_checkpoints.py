"""What the restore points of a run keep of its files, and when the workspace is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Decision, Run, ToolCall
from jumar.core.records import CheckpointRecord
from jumar.core.trees import EntryKind, walk
from jumar.engine import files
from tests.integration.writes_helpers import Site, furnished


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = furnished(tmp_path, waits=request.param)
    with made.harness:
        yield made


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bytes, ...]]]:
    """The scopes of all captures, in order; an empty one is a look at the whole workspace."""
    seen: list[tuple[bytes, ...]] = []
    real = files.OpenWorkspace.capture

    def capture(self: Any, request: Any) -> Any:
        seen.append(request.scope)
        return real(self, request)

    monkeypatch.setattr(files.OpenWorkspace, "capture", capture)
    yield seen


def kept(site: Site, checkpoint: CheckpointRecord) -> dict[str, str]:
    """The texts of the files that a checkpoint keeps."""
    assert checkpoint.tree is not None
    objects = site.harness._open()._engine.files.of(str(site.root.resolve())).workspace.objects
    tree = walk(objects.load, objects.get_snapshot(checkpoint.tree).root)
    return {
        os.fsdecode(path): b"".join(objects.parts(entry.digest)).decode()
        for path, entry in tree
        if entry.kind is EntryKind.FILE and entry.digest is not None
    }


def test_a_run_begins_with_a_restore_point_of_all_its_files(site: Site) -> None:
    def nothing() -> None:
        return None

    site.call(nothing, paths=["nothing"])
    first = site.checkpoints()[0]
    assert first.version == 0
    assert kept(site, first) == {
        "conf/site.ini": "port = 80\n",
        "conf/other.ini": "port = 81\n",
        "run.sh": "#!/bin/sh\n",
    }


def test_each_restore_point_has_the_files_as_they_were_then_without_another_scan(
    site: Site, scans: list[tuple[bytes, ...]]
) -> None:
    tool = site.tool(rewriting(site), paths=["conf/{name}"])

    async def awaits(run: AsyncRun, task: str) -> None:
        async with run.step("one"):
            await run.call(tool, "site.ini", "first")
        async with run.step("two"):
            await run.call(tool, "site.ini", "second")
            await run.call(tool, "new.ini", "third")
        await run.checkpoint("all written")

    def calls(run: Run, task: str) -> None:
        with run.step("one"):
            run.call(tool, "site.ini", "first")
        with run.step("two"):
            run.call(tool, "site.ini", "second")
            run.call(tool, "new.ini", "third")
        run.checkpoint("all written")

    agent: Any = site.harness.agent(name="work")(awaits if site.waits else calls)
    assert site.harness.run(agent, "x").status == "COMPLETED"
    assert scans.count(()) == 1, "the whole workspace was scanned although only declared paths were written"
    texts = [kept(site, each)["conf/site.ini"] for each in site.checkpoints()]
    assert set(texts) == {"port = 80\n", "first", "second"}
    assert texts == sorted(texts, key=["port = 80\n", "first", "second"].index)
    last = kept(site, site.checkpoints()[-1])
    assert (last["conf/site.ini"], last["conf/new.ini"], last["conf/other.ini"]) == ("second", "third", "port = 81\n")


def rewriting(site: Site) -> Any:
    """The body of a tool that writes a text into a file of a name."""

    def rewrite(name: str, text: str) -> None:
        site.write(f"conf/{name}", text)

    return rewrite


def test_reads_alone_never_have_the_files_looked_at_again(site: Site, scans: list[tuple[bytes, ...]]) -> None:
    @site.harness.tool(effect="read")
    def look(number: int) -> int:
        return number

    async def awaits(run: AsyncRun, task: str) -> None:
        for number in range(3):
            async with run.step(f"step {number}"):
                await run.call(look, number)

    def calls(run: Run, task: str) -> None:
        for number in range(3):
            with run.step(f"step {number}"):
                run.call(look, number)

    agent: Any = site.harness.agent(name="work")(awaits if site.waits else calls)
    site.harness.run(agent, "x")
    assert scans == [()]
    trees = {point.tree for point in site.checkpoints()}
    assert len(trees) == 1 and None not in trees


def test_after_an_external_call_the_files_are_looked_at_again(site: Site) -> None:
    @site.harness.tool(effect="external")
    def deploy() -> None:
        site.write("conf/site.ini", "by the deployment")

    @site.harness.agent(name="work")
    async def awaits(run: AsyncRun, task: str) -> None:
        await run.call(deploy)
        async with run.step("after"):
            await run.value("x", 1)

    @site.harness.agent(name="calls")
    def calls(run: Run, task: str) -> None:
        run.call(deploy)
        with run.step("after"):
            run.value("x", 1)

    site.harness.run(awaits if site.waits else calls, "x")
    texts = [kept(site, point)["conf/site.ini"] for point in site.checkpoints()]
    assert texts[0] == "port = 80\n"
    assert texts[-1] == "by the deployment"


def test_the_restore_point_before_a_write_has_what_a_person_changed_in_its_paths_meanwhile(site: Site) -> None:
    tool = site.tool(rewriting(site), paths=["conf/{name}"])

    @site.harness.agent(name="work")
    async def awaits(run: AsyncRun, task: str) -> None:
        await run.call(tool, "other.ini", "first")
        site.write("conf/site.ini", "by a person")
        await run.call(tool, "site.ini", "by the agent")

    @site.harness.agent(name="calls")
    def calls(run: Run, task: str) -> None:
        run.call(tool, "other.ini", "first")
        site.write("conf/site.ini", "by a person")
        run.call(tool, "site.ini", "by the agent")

    site.harness.run(awaits if site.waits else calls, "x")
    points = site.checkpoints()
    written = next(index for index, each in enumerate(points) if kept(site, each)["conf/site.ini"] == "by the agent")
    assert kept(site, points[written - 1])["conf/site.ini"] == "by a person"


def test_a_workspace_that_cannot_be_captured_whole_is_told_of_and_the_run_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.open

    def refuses(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.fsencode(path) == b"other.ini":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuses)

    def rewrite() -> str:
        site.write("conf/site.ini", "new")
        return "done"

    with caplog.at_level("WARNING", "jumar"):
        assert site.call(rewrite, paths=["conf/site.ini"]).unwrap() == "done"
    assert "the snapshot of the workspace is partial: it lacks conf/other.ini (unreadable)" in caplog.text
    assert "uncaptured" in [line.what for line in site.harness.trace("last")]


def test_a_write_is_not_sent_where_something_it_may_write_cannot_be_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuses(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.fsencode(path) == b"site.ini":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    called: list[int] = []

    def rewrite() -> None:
        called.append(1)

    monkeypatch.setattr(os, "open", refuses)
    result = site.call(rewrite, paths=["conf"])
    assert result.error_type == "CallFailed"
    assert "conf/site.ini cannot be captured (unreadable)" in str(result.error)
    assert called == []


# --- Loop agents. ----------------------------------------------------------------------------------------------------


def test_writes_of_one_decision_that_overlap_are_made_in_its_order(site: Site) -> None:
    tool = site.tool(rewriting(site), paths=["conf/{name}"])
    calls = [ToolCall("rewrite", {"name": "site.ini", "text": str(number)}) for number in range(5)]
    calls.insert(2, ToolCall("rewrite", {"name": "other.ini", "text": "beside"}))
    calls.insert(3, ToolCall("rewrite", {"name": "../x", "text": "outside"}))

    def decide(view: Any) -> Decision:
        return Decision.finish("done") if view.history else Decision.act(calls)

    async def adecide(view: Any) -> Decision:
        return decide(view)

    agent: Any = site.harness.loop(tools=[tool], name="operator")(adecide if site.waits else decide)
    assert site.harness.run(agent, "x").unwrap() == "done"
    assert (site.read("conf/site.ini"), site.read("conf/other.ini")) == ("4", "beside")
    shown = {call.call_id: (call.state, call.error) for call in site.harness.show("last").calls}
    refused = [error for state, error in shown.values() if state == "FAILED"]
    assert len(refused) == 1 and refused[0] is not None and refused[0].startswith("PathRefused")


def test_a_failed_write_of_a_loop_agent_is_put_back_and_told_to_it(site: Site) -> None:
    before = site.files()

    def rewrite(name: str, text: str) -> None:
        site.write(f"conf/{name}", text)

    tool = site.tool(rewrite, paths=["conf/{name}"], verify=lambda result, name, text: text != "", retries=0)
    seen: list[str] = []

    def decide(view: Any) -> Decision:
        seen.append(str(view.messages("openai")))
        if len(seen) == 1:
            return Decision.act([ToolCall("rewrite", {"name": "site.ini", "text": ""})])
        if len(seen) == 2:
            assert site.files() == before
            return Decision.act([ToolCall("rewrite", {"name": "site.ini", "text": "sound"})])
        return Decision.finish("done")

    async def adecide(view: Any) -> Decision:
        return decide(view)

    agent: Any = site.harness.loop(tools=[tool], name="operator")(adecide if site.waits else decide)
    assert site.harness.run(agent, "x").unwrap() == "done"
    assert "the files are not as they should be" in seen[1]
    assert site.read("conf/site.ini") == "sound"
