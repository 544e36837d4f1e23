"""The harness: opening and closing, starting and resuming, looking, and which store it takes."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotHappened, Run
from jumar.errors import RunExists, RunFailed, RunNotFinished, UnknownAgent, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted


def agents(harness: Harness) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A plain and an async agent that do the same."""

    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query.upper()

    @harness.agent
    def plain(run: Run, task: str) -> str:
        return run.call(search, task)

    @harness.agent
    async def awaited(run: AsyncRun, task: str) -> str:
        return await run.call(search, task)

    return plain, awaited


# --- Plain and async. ------------------------------------------------------------------------------------------------


def test_a_plain_program_runs_async_agents_and_an_async_one_plain_agents(harness: Harness) -> None:
    plain, awaited = agents(harness)
    assert harness.run(plain, "a").unwrap() == "A"
    assert harness.run(awaited, "b").unwrap() == "B"

    async def main() -> list[str]:
        results = await asyncio.gather(harness.arun(plain, "c"), harness.arun(awaited, "d"))
        return [result.unwrap() for result in results]

    assert asyncio.run(main()) == ["C", "D"]


def test_a_plain_agent_of_an_async_program_does_not_block_its_loop(harness: Harness) -> None:
    loop_goes_on = threading.Event()

    @harness.agent
    def waits(run: Run, task: str) -> bool:
        return loop_goes_on.wait(60)

    async def main() -> bool:
        running = asyncio.ensure_future(harness.arun(waits, "x"))
        while not harness.runs():
            await asyncio.sleep(0.005)
        loop_goes_on.set()
        return (await running).unwrap()

    assert asyncio.run(main()) is True


def test_an_async_agent_is_not_run_from_inside_a_loop_but_awaited(harness: Harness) -> None:
    _, awaited = agents(harness)

    async def main() -> str:
        with pytest.raises(UsageError, match="runs an event loop already") as caught:
            harness.run(awaited, "a")
        assert "harness.arun" in caught.value.hint
        return (await harness.arun(awaited, "b")).unwrap()

    assert asyncio.run(main()) == "B"
    assert len(harness.runs()) == 1


def test_a_run_that_was_interrupted_is_resumed_by_either_kind_of_program(harness: Harness) -> None:
    interrupt = Interruption()

    @harness.agent
    def plain(run: Run, task: str) -> str:
        interrupt("plain")
        return "plain done"

    @harness.agent
    async def awaited(run: AsyncRun, task: str) -> str:
        interrupt("awaited")
        return "awaited done"

    first, second = interrupted(harness, plain), interrupted(harness, awaited)
    assert asyncio.run(harness.aresume(first)).unwrap() == "plain done"
    assert harness.resume(second).unwrap() == "awaited done"


def test_every_operators_method_has_a_twin_to_be_awaited(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise ConnectionError("cut")

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        return await run.call(pay, 5)

    async def main() -> None:
        run_id = await harness.astart(agent, "x", task="pay it")
        assert await harness.afind("last") == run_id
        assert (await harness.aresume(run_id)).status == "WAITING"
        await harness.aresolve(run_id, "pay.1", Happened(7))
        assert (await harness.aresume(run_id)).unwrap() == 7
        assert (await harness.ashow(run_id)).run.status == "COMPLETED"
        assert [info.run_id for info in await harness.aruns()] == [run_id]
        assert "completed" in [line.what for line in await harness.atrace(run_id)]
        assert (await harness.adoctor()).sound
        await harness.aclose()

    asyncio.run(main())


# --- Starting, resuming, looking. ------------------------------------------------------------------------------------


def test_a_started_run_waits_for_whoever_resumes_it(harness: Harness) -> None:
    plain, _ = agents(harness)
    run_id = harness.start(plain, "a", task="fix the site")
    info = harness.show(run_id).run
    assert (info.status, info.task, info.agent, info.epoch, info.owner) == ("QUEUED", "fix-the-site", "plain", 0, None)
    assert harness.resume(run_id).unwrap() == "A"
    assert [line.what for line in harness.trace(run_id)] == ["created", "claimed", "started", "succeeded", "completed"]


def test_a_run_takes_the_id_it_is_given_once(harness: Harness) -> None:
    plain, _ = agents(harness)
    given = str(uuid.uuid4())
    result = harness.run(plain, "a", run_id=given.upper())
    assert result.run_id == given
    with pytest.raises(RunExists, match=given):
        harness.run(plain, "a", run_id=given)
    with pytest.raises(RunExists):
        harness.start(plain, "a", run_id=given)
    assert len(harness.runs()) == 1


def test_a_run_is_known_by_its_id_an_end_of_it_or_as_the_last(harness: Harness) -> None:
    plain, _ = agents(harness)
    first = harness.run(plain, "a", run_id="00000000-0000-7000-8000-00000000aaaa").run_id
    second = harness.run(plain, "b", run_id="00000000-0000-7000-8000-00000000bbaa").run_id
    assert harness.find(first) == harness.find(first.upper()) == harness.find("aaaa") == first
    assert harness.find("bbaa") == harness.find("last") == harness.find(" LAST ") == second
    assert harness.show("bbaa").output == "B"


def test_runs_are_listed_newest_first_by_pages_and_filters(harness: Harness) -> None:
    plain, awaited = agents(harness)
    made = [harness.run(plain, "a").run_id, harness.run(awaited, "b").run_id, harness.start(plain, "c")]
    newest_first = made[::-1]
    assert [info.run_id for info in harness.runs()] == newest_first
    assert [info.run_id for info in harness.runs(limit=2)] == newest_first[:2]
    assert [info.run_id for info in harness.runs(limit=2, before=newest_first[1])] == newest_first[2:]
    assert [info.run_id for info in harness.runs(status="queued")] == [made[2]]
    assert [info.run_id for info in harness.runs(agent="plain", status="COMPLETED")] == [made[0]]
    assert harness.runs(agent="nobody") == []


def test_show_tells_input_output_and_calls(harness: Harness) -> None:
    plain, _ = agents(harness)
    harness.run(plain, "a")
    view = harness.show("last")
    assert (view.input, view.output, view.run.status, view.run.phase) == ("a", "A", "COMPLETED", "STOPPED")
    (call,) = view.calls
    assert (call.tool, call.args, call.result, call.state, call.error) == (
        "search",
        {"query": "a"},
        "A",
        "SUCCEEDED",
        None,
    )
    assert 0 < call.started_at <= (call.ended_at or 0) <= int(time.time() * 1000)


def test_unwrap_gives_the_output_or_says_why_there_is_none(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Run, task: str) -> int | None:
        if task == "fail":
            raise ValueError("no")
        return run.call(pay, 5) if task == "wait" else None

    assert harness.run(agent, "x").unwrap() is None
    with pytest.raises(RunFailed, match="is FAILED: ValueError: no") as failed:
        harness.run(agent, "fail").unwrap()
    assert isinstance(failed.value.__cause__, ValueError)
    with pytest.raises(RunNotFinished, match="is WAITING") as waiting:
        harness.run(agent, "wait").unwrap()
    assert (failed.value.exit_code, waiting.value.exit_code) == (1, 3)


def test_an_agent_is_named_by_itself_or_by_its_name(harness: Harness) -> None:
    plain, _ = agents(harness)

    def stranger(run: Run, task: str) -> None: ...

    assert harness.run("plain", "a").unwrap() == "A"
    for unknown in (stranger, "stranger", 5, None):
        with pytest.raises(UnknownAgent, match="this harness has no agent") as caught:
            harness.run(unknown, "a")  # type: ignore[call-overload]
        assert "awaited, plain" in caught.value.hint
    assert harness.run(plain, "b").unwrap() == "B"


def test_a_run_of_an_agent_that_is_not_declared_here_is_left_alone(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as first:
        plain, _ = agents(first)
        run_id = first.start(plain, "a")
    with Harness(address) as second:
        with pytest.raises(UnknownAgent, match="no agent plain"):
            second.resume(run_id)
        assert second.show(run_id).run.status == "QUEUED"


def test_a_person_says_that_it_did_not_happen_and_it_is_sent_again_once_it_can_no_longer_act() -> None:
    sent: list[int] = []
    with Harness("memory:", lease_ttl=1.0) as harness:

        @harness.tool(effect="external", timeout=0.2, settle=0)
        def pay(cents: int) -> int:
            sent.append(cents)
            if len(sent) == 1:
                raise ConnectionError("cut")
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            return run.call(pay, 5)

        waiting = harness.run(agent, "x")
        assert [(each.call_id, each.kind, each.attempt) for each in waiting.waiting_on] == [("pay.1", "resolve", 1)]
        harness.resolve(waiting.run_id, "pay.1", NotHappened(), by="ops", note="looked it up")
        assert harness.resume(waiting.run_id).unwrap() == 5
        assert sent == [5, 5]
        assert harness.show(waiting.run_id).calls[0].attempt == 2


# --- Opening and closing. --------------------------------------------------------------------------------------------


def test_a_harness_opens_its_store_at_first_use_and_again_after_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    harness = Harness(f"sqlite:///{path}")
    plain, _ = agents(harness)
    assert not path.exists()
    with harness as opened:
        assert opened is harness
        harness.run(plain, "a").unwrap()
    assert path.exists()
    assert len(harness.runs()) == 1
    harness.close()
    harness.close()


def test_an_async_program_closes_it_with_async_with(tmp_path: Path) -> None:
    async def main() -> str:
        async with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
            _, awaited = agents(harness)
            return (await harness.arun(awaited, "a")).unwrap()

    assert asyncio.run(main()) == "A"


def test_a_store_in_memory_ends_when_it_is_closed() -> None:
    harness = Harness("memory:")
    plain, _ = agents(harness)
    harness.run(plain, "a")
    harness.close()
    assert harness.runs() == []
    harness.close()


def test_an_override_lasts_for_its_block(tmp_path: Path) -> None:
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        plain, _ = agents(harness)
        harness.run(plain, "outside")
        with harness.override(store="memory:") as overridden:
            assert overridden is harness
            assert harness.runs() == []
            harness.run(plain, "inside")
            with harness.override(store=f"sqlite:///{tmp_path / 'other.db'}"):
                assert harness.runs() == []
            assert [harness.show(info.run_id).input for info in harness.runs()] == ["inside"]
        assert [harness.show(info.run_id).input for info in harness.runs()] == ["outside"]


def test_an_override_ends_with_an_error_in_its_block_too(tmp_path: Path) -> None:
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        plain, _ = agents(harness)
        harness.run(plain, "outside")
        with pytest.raises(ValueError, match="inside"), harness.override(store="memory:"):
            raise ValueError("inside")
        assert len(harness.runs()) == 1


def test_an_override_beats_the_constructor_which_beats_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUMAR_STORE", f"sqlite:///{tmp_path / 'environment.db'}")
    with Harness() as harness:
        agents(harness)
        harness.runs()
    assert (tmp_path / "environment.db").exists()
    with Harness(f"sqlite:///{tmp_path / 'given.db'}") as harness:
        harness.runs()
        with harness.override(store=f"sqlite:///{tmp_path / 'override.db'}"):
            harness.runs()
    monkeypatch.delenv("JUMAR_STORE")
    with Harness() as harness:
        harness.runs()
    assert sorted(path.name for path in tmp_path.glob("*.db")) == [
        "environment.db",
        "given.db",
        "jumar.db",
        "override.db",
    ]


def test_two_harnesses_on_one_file_see_the_same_runs(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as one, Harness(address) as other:
        (plain, _), _ = agents(one), agents(other)
        run_id = one.run(plain, "a").run_id
        assert other.show(run_id).output == "A"
        assert ids(other, run_id) == ["search.1"]
