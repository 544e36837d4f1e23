"""durability="hot": an agent goes on before what it has read is on disk; all else is waited for, in order."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from jumar import AsyncRun, Decision, Harness, LoopView, Run, ToolCall
from jumar.core.changes import Advance, Change, Claim, Outcome
from jumar.core.phases import CLAIMABLE
from jumar.core.states import Storage, mask
from jumar.core.store import Store
from jumar.errors import LeaseLost, StoreUnavailable, UsageError
from jumar.testing.crash import Crashed, World, inhabit
from tests.integration.agents_helpers import Interruption, interrupted, states, until

SOON = 60.0


class Tap(World):
    """A world whose store can be held or shut, and which notes what reached it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Change] = []
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        self.error: Callable[[], Exception] | None = None

    def around(self, store: Store) -> Store:
        return super().around(cast(Store, _Tapped(store, self)))

    def hold(self) -> None:
        """Let no write through until `open` is set."""
        self.reached.clear()
        self.open.clear()

    def advances(self) -> list[Advance]:
        return [change for change in self.written if isinstance(change, Advance)]


class _Tapped:
    def __init__(self, store: Any, tap: Tap) -> None:
        self._store, self._tap = store, tap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        self._tap.reached.set()
        assert self._tap.open.wait(SOON)
        if self._tap.error is not None:
            raise self._tap.error()
        answers: list[Outcome | Exception] = self._store.write(changes, wait=wait)
        self._tap.written += changes
        return answers


@pytest.fixture
def tap() -> Iterator[Tap]:
    tap = Tap()
    yield tap
    tap.error = None
    tap.open.set()


def opened(folder: Path, tap: Tap | None = None, **options: Any) -> Harness:
    options.setdefault("durability", "hot")
    harness = Harness(f"sqlite:///{folder / 'runs.db'}", **options)
    if tap is not None:
        inhabit(harness, tap)
    return harness


def on_disk(folder: Path) -> dict[str, str]:
    """The calls of the newest run as somebody else finds them."""
    with Harness(f"sqlite:///{folder / 'runs.db'}") as other:
        return states(other)


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
        with pytest.raises(UsageError, match="durability=.* is not known"):
            Harness("memory:", durability=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="durability=.* is not known"):
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
        assert told[0].detail.startswith("hot 0.") and ", cold " in told[0].detail
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


# --- Crashes and takeovers. ---


def test_what_was_not_on_disk_is_read_again_and_what_was_is_not(tmp_path: Path, tap: Tap) -> None:
    made: list[int] = []

    def declared(harness: Harness) -> None:
        @harness.tool(effect="read")
        def look(number: int) -> int:
            made.append(number)
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            made.append(100 + cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            first = run.value("paid", pay(look(1) + look(2)))
            if tap.error is None and not tap.dead:
                tap.error = lambda: StoreUnavailable("the process is about to be killed")
            more = look(3) + look(4)
            tap.end()
            return first + more + look(5)

    with opened(tmp_path, tap, lease_ttl=0.3) as harness:
        declared(harness)
        with pytest.raises((Crashed, StoreUnavailable)):
            harness.run("agent", "x")
    assert on_disk(tmp_path).keys() == {"look.1", "look.2", "pay.1", "paid.1"}
    assert made == [1, 2, 103, 3, 4]
    tap.dead = True
    with opened(tmp_path, lease_ttl=0.3) as harness:
        declared(harness)
        assert harness.resume("last").output == 15
    assert made == [1, 2, 103, 3, 4, 3, 4, 5]


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
def test_a_run_that_was_taken_over_meanwhile_is_latched_and_sends_nothing_more(
    tmp_path: Path, tap: Tap, waits: bool
) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        def taken(run: Any) -> None:
            tap.reached.clear()
            database = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
            database.execute("UPDATE run SET epoch = epoch + 1, owner = 'somebody else'")
            database.close()

        @harness.agent(name="agent")
        def plain(run: Run, task: str) -> int:
            look(1)
            taken(run)
            look(2)
            assert tap.reached.wait(SOON)
            try:
                pay(5)
            except Exception:  # noqa: BLE001 - an agent that takes no error for serious
                pay(6)
            return 1

        @harness.agent(name="aagent")
        async def awaited(run: AsyncRun, task: str) -> int:
            await run.call(look, 1)
            taken(run)
            await run.call(look, 2)
            assert tap.reached.wait(SOON)
            try:
                await run.call(pay, 5)
            except Exception:  # noqa: BLE001
                await run.call(pay, 6)
            return 1

        with pytest.raises(LeaseLost):
            harness.run("aagent" if waits else "agent", "x")
    assert paid == []


def test_a_hot_result_that_no_store_could_take_stops_the_run(tmp_path: Path, tap: Tap) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: ValueError("not to be written")
            look(1)
            until(lambda: harness.stats().store.lost == 1)
            tap.error = None
            return pay(look(2))

        with pytest.raises(Exception, match="a change could not be written .ValueError: not to be written"):
            harness.run(agent, "x")
        assert paid == []
        assert on_disk(tmp_path) == {"begun.1": "SUCCEEDED"}
        assert harness.show("last").run.status == "QUEUED", "what is on disk can be gone on from"


def test_ctrl_c_leaves_a_hot_run_to_be_resumed_with_all_it_has_read(tmp_path: Path) -> None:
    stop, made = Interruption(), []
    with opened(tmp_path) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            made.append(number)
            return number

        @harness.agent
        def agent(run: Run, task: str) -> int:
            seen = [look(number) for number in range(30)]
            stop()
            return sum(seen)

        run_id = interrupted(harness, agent)
        assert harness.show(run_id).run.status == "QUEUED"
        assert harness.resume(run_id).output == 435
        assert made == list(range(30))
        told = [line.detail for line in harness.trace(run_id) if line.what == "written-behind"]
        assert [line.split(",")[0] for line in told] == ["29 reads"]


# --- A slow or failing store. ---


def test_an_agent_reads_on_while_another_process_holds_the_stores_lock(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            seen = [look(number) for number in range(100)]
            assert other.execute("SELECT count(*) FROM call").fetchone() == (1,)
            other.execute("ROLLBACK")
            other.close()
            return sum(seen)

        assert harness.run(agent, "x").output == 4950
        assert len(on_disk(tmp_path)) == 101


def test_a_store_out_of_reach_for_a_while_costs_nothing_and_is_told(
    tmp_path: Path, tap: Tap, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jumar")
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: StoreUnavailable("the server went away")
            seen = [look(number) for number in range(100)]

            def mend() -> None:
                until(lambda: harness.stats().store.retried > 100)
                tap.error = None

            threading.Thread(target=mend).start()
            return pay(sum(seen))

        assert harness.run(agent, "x").output == 4950
        assert paid == [4950]
        stats = harness.stats().store
        assert (stats.pending, stats.lost) == (0, 0)
        assert stats.hot_ms.longest < stats.cold_ms.longest
        told = next(line.detail for line in harness.trace("last") if line.what == "written-behind")
        assert told.startswith("100 reads, hot ") and told.endswith(" retries")
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, text in said if "hot writes" in text] == ["WARNING", "INFO"]


def test_a_run_whose_store_stays_out_of_reach_stops_when_its_lease_cannot_be_trusted(tmp_path: Path, tap: Tap) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap, lease_ttl=0.3) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: StoreUnavailable("the server went away")
            return pay(look(1))

        with pytest.raises(StoreUnavailable):
            harness.run(agent, "x")
        assert paid == []


def test_the_figures_can_be_had_awaited_and_begin_at_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:
        assert harness.stats().store.writes == 0
        assert asyncio.run(harness.astats()) == harness.stats()
