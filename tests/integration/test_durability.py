"""durability="hot": an agent goes on before what it has read is on disk; all else is waited for, in order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import AsyncRun, Decision, Harness, LoopView, Run, ToolCall
from jumar.core.states import Storage
from jumar.errors import UsageError
from tests.integration.agents_helpers import Interruption, interrupted
from tests.integration.durability_helpers import Tap, on_disk, opened


@pytest.fixture
def tap() -> Iterator[Tap]:
    tap = Tap()
    yield tap
    tap.error = None
    tap.open.set()


# --- What is hot, and what is not. ---


def test_an_agent_goes_on_while_what_it_has_read_is_still_on_its_way(tmp_path: Path, tap: Tap) -> None:
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number * 2

        @harness.agent
        def agent(run: Run, task: str) -> list[int]:
            run.value("begun", 1)
            tap.hold()
            seen = [look(number) for number in range(50)]
            assert run.version == 51
            assert on_disk(tmp_path).keys() == {"begun.1"}
            tap.open.set()
            return seen

        result = harness.run(agent, "x")
        assert result.output == [number * 2 for number in range(50)]
        assert len(on_disk(tmp_path)) == 51
        assert [change.version for change in tap.advances()] == list(range(52))


def test_an_async_agent_goes_on_too_and_its_loop_turns_meanwhile(tmp_path: Path, tap: Tap) -> None:
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        async def look(number: int) -> int:
            return number * 2

        @harness.agent
        async def agent(run: AsyncRun, task: str) -> list[int]:
            await run.value("begun", 1)
            tap.hold()
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(turn())
            seen = [await run.call(look, number) for number in range(20)]
            seen += await run.gather(*[look.bind(number) for number in range(20, 50)])
            assert turns > 20
            other.cancel()
            tap.open.set()
            return seen

        assert harness.run(agent, "x").output == [number * 2 for number in range(50)]
        assert [change.version for change in tap.advances()] == list(range(52))


def test_whatever_an_effect_depends_on_is_on_disk_before_it_is_sent(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:
        found: list[dict[str, str]] = []

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            found.append(on_disk(tmp_path))
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            return sum(pay(look(number) + look(number + 1)) for number in range(0, 20, 2))

        assert harness.run(agent, "x").output == 190
    for number, calls in enumerate(found, 1):
        assert [call_id for call_id, state in calls.items() if call_id.startswith("look")] == [
            f"look.{each}" for each in range(1, 2 * number + 1)
        ]
        assert set(calls.values()) == {"SUCCEEDED", "STARTED"}


@pytest.mark.parametrize("kind", ["decision", "value", "checkpoint", "plan", "effect", "write-through"])
def test_all_but_reads_is_waited_for(tmp_path: Path, kind: str) -> None:
    with opened(tmp_path) as harness:

        @harness.tool(effect="read", durability="sync")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="idempotent")
        def put(number: int) -> int:
            return number

        @harness.agent
        def agent(run: Run, task: str) -> int:
            {
                "decision": lambda: run.decide(lambda prompt: "yes", "no?"),
                "value": lambda: run.value("number", 5),
                "checkpoint": lambda: run.checkpoint("here"),
                "plan": lambda: run.plan(["a"]),
                "effect": lambda: put(3),
                "write-through": lambda: look(3),
            }[kind]()
            return len(on_disk(tmp_path))

        assert harness.run(agent, "x").output == 1
        assert harness.stats().store.hot_ms.count == 0


def test_the_tool_and_the_call_say_it_before_the_harness_does(tmp_path: Path) -> None:
    with opened(tmp_path, durability="sync") as harness:

        @harness.tool(effect="read", durability="hot")
        def hot(number: int) -> int:
            return number

        @harness.tool(effect="read")
        def cold(number: int) -> int:
            return number

        counts: list[int] = []

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.value("begun", 1)
            for call in (hot, hot.using(durability="sync"), cold, cold.using(durability="hot"), cold):
                run.call(call, 1)
                counts.append(harness.stats().store.hot_ms.count)

        harness.run(agent, "x").unwrap()
        assert counts == [1, 1, 1, 2, 2]


def test_what_is_done_or_misspelt_cannot_be_hot(tmp_path: Path) -> None:
    harness = opened(tmp_path)
    for effect in ("write", "idempotent", "external"):
        with pytest.raises(UsageError, match=f"is for tools that only read, and pay is {effect}") as caught:
            harness.tool(effect=effect, name="pay", durability="hot")(lambda cents: cents)
        assert "it would be sent again" in caught.value.hint

    @harness.tool(effect="external", durability="sync")
    def send(cents: int) -> int:
        return cents

    with pytest.raises(UsageError, match="and send is external"):
        send.using(durability="hot")
    for wrong in ("warm", True, 5):
        with pytest.raises(UsageError, match=r"durability=.* is not known"):
            Harness("memory:", durability=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"durability=.* is not known"):
            harness.tool(effect="read", name="look", durability=wrong)(lambda cents: cents)  # type: ignore[arg-type]


def test_a_read_that_fails_is_recorded_hot_and_answers_the_same_on_replay(tmp_path: Path) -> None:
    stop = Interruption()
    made: list[int] = []
    with opened(tmp_path) as harness:

        @harness.tool(effect="read", errors=(KeyError,), retries=0)
        def look(number: int) -> int:
            made.append(number)
            raise KeyError(number)

        @harness.agent
        def agent(run: Run, task: str) -> str:
            run.value("begun", 1)
            try:
                look(3)
            except KeyError as error:
                said = repr(error)
            run.value("told", said)
            stop()
            return said

        run_id = interrupted(harness, agent)
        assert harness.resume(run_id).output == "KeyError(3)"
        assert made == [3]


def test_a_loop_agent_waits_for_its_reads_because_its_next_decision_sees_them(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        seen: list[int] = []

        @harness.loop(tools=[look])
        def agent(view: LoopView) -> Decision:
            seen.append(len(view.history))
            if view.step_index > 3:
                return Decision.finish("done")
            return Decision.act([ToolCall("look", {"number": number}, id=f"c{number}") for number in (1, 2)])

        assert harness.run(agent, "x").output == "done"
        assert seen == [0, 1, 2, 3]
        assert harness.stats().store.hot_ms.count == 0


# --- Checkpoints. ---


def configured(folder: Path, storage: str) -> str:
    file = folder / "jumar.yaml"
    file.write_text(f"checkpoint_triggers:\n  - event: manual\n    storage: {storage}\n")
    return str(file)


def test_a_hot_checkpoint_is_written_behind_and_told_with_both_times(tmp_path: Path, tap: Tap) -> None:
    with opened(tmp_path, tap, durability="sync", config=configured(tmp_path, "hot")) as harness:

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.value("begun", 1)
            tap.hold()
            run.context["x"] = 5
            run.checkpoint("here")
            assert on_disk(tmp_path).keys() == {"begun.1"}
            tap.open.set()
            run.value("on", 1)

        run_id = harness.run(agent, "x").run_id
        kept = harness.show(run_id).checkpoints
        run = harness.store.run(run_id)
        assert run is not None
        assert [point.storage for point in harness.store.checkpoints(run.run_no)] == [Storage.HOT]
        assert [point.trigger for point in kept] == ["manual"]
        told = [line for line in harness.trace(run_id) if line.what == "written-behind"]
        assert [line.call_id for line in told] == ["checkpoint.1"]
        assert re.fullmatch(r"hot [0-9.]+ ms, cold [0-9.]+ ms", told[0].detail)
        harness.rollback(run_id, to="here")


def test_a_cold_checkpoint_is_waited_for_also_where_it_rides_with_a_hot_read(tmp_path: Path, tap: Tap) -> None:
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        counts: list[int] = []

        @harness.agent
        def agent(run: Run, task: str) -> None:
            for step in ("a", "b"):
                with run.step(step):  # keeps a checkpoint, with the next advance
                    look(1)
                    counts.append(harness.stats().store.hot_ms.count)
                    look(2)
                    counts.append(harness.stats().store.hot_ms.count)

        harness.run(agent, "x").unwrap()
        assert counts == [0, 1, 1, 2]
