"""A fork is another run from a checkpoint on: both go on, each does its own, and what the first had done outside by
then stands in both."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Decision, Harness
from jumar.errors import CannotRollBack, CheckpointNotFound, UsageError, WorkspaceError
from tests.integration.loops_helpers import Script, act, call, declare
from tests.integration.rollback_helpers import Outside, declare_tools, done, states
from tests.integration.waits_helpers import asked, both_kinds, scripted
from tests.workspace.files import read

Steps = Generator[Any, Any, Any]


def traveller(harness: Harness, outside: Outside, waits: bool) -> Any:
    """Looks, keeps a checkpoint, mails, and asks before it books."""
    mail, book, look = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def travel(run: Any, task: str) -> Steps:
        seen = yield run.call(look, task)
        yield run.checkpoint("looked")
        told = yield run.call(mail, "ada")
        room = yield run.ask("Which room?")
        receipt = yield run.call(book, room)
        return [seen, told, receipt["receipt"]]

    return travel


@both_kinds
def test_both_runs_go_on_and_do_each_thing_once(harness: Harness, waits: bool) -> None:
    outside = Outside()
    first = harness.run(traveller(harness, outside, waits), "map").run_id
    second = harness.fork(first, at="looked")
    info = harness.show(second).run
    assert (info.status, info.forked_from, info.generation) == ("PAUSED", first, 1)
    assert states(harness, second) == {
        "look.1": "SUCCEEDED",
        "checkpoint.1": "SUCCEEDED",
        "mail.1": "SUCCEEDED behind",
    }
    assert asked(harness.resume(second)) == [("ask.1@1", "ask", 1)]
    for run_id, room in ((first, "1"), (second, "2")):
        harness.answer(run_id, "ask.1" if run_id == first else "ask.1@1", room)
        assert done(harness.resume(run_id)) == ["map seen", "sent to ada", f"r-{room}"]
    assert outside.seen == [("look", "map"), ("mail", "ada"), ("book", "1"), ("book", "2")]


@both_kinds
def test_a_fork_that_wants_other_mail_needs_a_person(harness: Harness, waits: bool) -> None:
    outside, to = Outside(), ["ada"]
    mail, _, _ = declare_tools(harness, outside)

    @scripted(harness, waits)
    def write(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        told = yield run.call(mail, to[0])
        return told

    first = harness.run(write, "x").run_id
    second = harness.fork(first, at="start")
    to[0] = "bob"
    result = harness.resume(second)
    assert [(each.kind, each.tool) for each in result.waiting_on] == [("approval", "mail")]
    harness.approve(second, result.waiting_on[0].call_id)
    assert done(harness.resume(second)) == "sent to bob"
    assert outside.mailed() == ["ada", "bob"]


@both_kinds
def test_a_fork_of_a_fork_finds_what_the_first_one_recorded(harness: Harness, waits: bool) -> None:
    outside = Outside()

    @harness.tool(effect="read")
    def large(what: str) -> str:
        outside.note("large", what)
        return what * 5000  # which is kept apart from its call

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        text = yield run.call(large, "x")
        yield run.checkpoint("read")
        return len(text)

    runs = [harness.run(agent, "go").run_id]
    for _ in range(3):
        runs.append(harness.fork(runs[-1], at="read"))
        assert done(harness.resume(runs[-1])) == 5000
    assert len(outside.seen) == 1
    assert len({harness.show(run_id).run.forked_from for run_id in runs}) == 4


@both_kinds
def test_a_booking_that_a_fork_has_too_is_not_undone_without_a_person(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        yield run.checkpoint("booked")

    first = harness.run(stay, "x").run_id
    second = harness.fork(first, at="booked")
    for run_id in (first, second):
        rolled = harness.rollback(run_id, to="start")
        assert [(each.call_id, each.kind) for each in rolled.waiting_on] == [("book.1.undo", "undo")]
        harness.reject(run_id, "book.1.undo")
        assert [each.status for each in harness.resume_due()] == ["PAUSED"]
    assert outside.booked() == ["1"]


@both_kinds
def test_what_a_person_changed_is_what_a_fork_undoes(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, waits=waits, approval="always")

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        yield run.checkpoint("booked")

    first = harness.run(stay, "x").run_id
    harness.approve(first, "book.1", args={"room": "7"})
    done(harness.resume(first))
    fork_of_fork = harness.fork(harness.fork(first, at="booked"), at="booked")
    harness.rollback(fork_of_fork, to="start")
    harness.approve(fork_of_fork, "book.1.undo")
    assert [each.status for each in harness.resume_due()] == ["PAUSED"]
    assert outside.seen == [("book", "7"), ("cancel", "7", "r-7")]


@both_kinds
def test_a_fork_is_refused_where_something_is_in_flight_or_nothing_is_meant(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise TimeoutError("who knows")

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        if task == "pay":
            yield run.call(pay, 5)

    paid = harness.run(agent, "pay").run_id
    with pytest.raises(CannotRollBack, match=r"cannot be forked: whether pay\.1 happened is not known"):
        harness.fork(paid, at="start")
    run_id = harness.run(agent, "rest").run_id
    with pytest.raises(CheckpointNotFound):
        harness.fork(run_id, at="nowhere")
    with pytest.raises(UsageError, match="is no path"):
        harness.fork(run_id, at="start", workspace="")
    assert len(harness.runs()) == 2


@both_kinds
def test_a_loop_agent_is_forked_between_its_turns(harness: Harness, waits: bool) -> None:
    outside = Outside()
    script = Script(act(call("look", what="map")), act(call("mail", to="ada")), Decision.finish("there"))
    agent = declare(harness, waits, script, tools=declare_tools(harness, outside))
    first = harness.run(agent, "go").run_id
    version = next(each.version for each in harness.show(first).checkpoints if "_turn-2_step_" in each.name)
    second = harness.fork(first, at=version)
    assert len(harness.view(second).history) == 1
    assert done(harness.resume(second)) == "there"
    assert outside.seen == [("look", "map"), ("mail", "ada")]


# --- Files. ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def test_a_fork_with_a_folder_of_its_own_works_on_the_files_as_they_were(tmp_path: Path, waits: bool) -> None:
    root, other = tmp_path / "site", tmp_path / "other"
    root.mkdir()
    (root / "a").write_text("1\n")
    (root / "a").chmod(0o640)
    (root / "empty").mkdir()
    before = read(root)
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", workspace=root) as harness:

        @harness.tool(effect="write", paths=["a"])
        def put(folder: str, text: str) -> None:
            (Path(folder) / "a").write_text(text)

        folder = [str(root)]

        @scripted(harness, waits)
        def agent(run: Any, task: str) -> Steps:
            yield run.checkpoint("start")
            yield run.call(put, folder[0], task)
            return task

        first = harness.run(agent, "2\n").run_id
        after = read(root)
        with pytest.raises(WorkspaceError, match="is there and not empty"):
            harness.fork(first, at="start", workspace=root)
        second = harness.fork(first, at="start", workspace=other)
        assert read(other) == before
        assert harness.show(second).run.workspace == str(other.resolve())
        folder[0] = str(other)
        assert done(harness.resume(second)) == "2\n"
        assert (read(root), (other / "a").read_text()) == (after, "2\n")
        harness.rollback(second, to=0)
        assert (read(root), read(other)) == (after, before)
        harness.rollback(first, to="start")
        assert (read(root), read(other)) == (before, before)


def test_a_fork_without_files_has_none_to_put_anywhere(tmp_path: Path) -> None:
    with Harness("memory:") as harness:

        @harness.agent
        def agent(run: Any, task: str) -> None:
            run.checkpoint("start")

        run_id = harness.run(agent, "x").run_id
        with pytest.raises((CannotRollBack, UsageError)):
            harness.fork(run_id, at="start", workspace=tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_every_method_can_be_awaited() -> None:
    async def everything() -> None:
        async with Harness("memory:") as harness:

            @harness.agent
            async def agent(run: AsyncRun, task: str) -> str:
                await run.checkpoint("start")
                return task

            run_id = (await harness.arun(agent, "x")).run_id
            forked = await harness.afork(run_id, at="start")
            assert (await harness.aresume(forked)).output == "x"
            assert (await harness.arollback(run_id, to="start")).status == "PAUSED"
            assert harness.doctor().sound
            assert (await harness.aresume(run_id, strategy="auto")).output == "x"

    asyncio.run(everything())
