"""What goes wrong under a worker stays with the run that it happened to."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.core.store import Store
from jumar.errors import StoreUnavailable
from jumar.harness.working import WorkerEvent
from tests.integration.agents_helpers import until
from tests.integration.worker_helpers import PATIENCE, Gate, Working


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
@pytest.mark.parametrize("how", [SystemExit, KeyboardInterrupt], ids=lambda how: how.__name__)
def test_an_agent_that_would_end_its_process_fails_alone(
    harness: Harness, how: type[BaseException], waits: bool
) -> None:
    if waits:

        @harness.agent(name="leaves")
        async def aleaves(run: Any, task: Any) -> None:
            raise how
    else:

        @harness.agent
        def leaves(run: Any, task: Any) -> None:
            raise how

    @harness.agent
    def fine(run: Any, task: Any) -> str:
        return "fine"

    with Working(harness, concurrency=1) as worker:
        left, other = harness.start("leaves"), harness.start(fine)
        result = worker.left(left, "FAILED")
        assert (result.error_type, result.error_message) == ("AgentExited", f"the agent left by {how.__name__}")
        assert worker.left(other, "COMPLETED").output == "fine"


def test_a_run_whose_record_is_damaged_is_told_and_left_alone_and_keeps_no_other_from_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Harness(f"sqlite:///{path}") as harness:

        @harness.tool(effect="read")
        def look(page: int) -> int:
            return page

        @harness.agent
        def looks(run: Any, task: Any) -> Any:
            return run.call(look, 1), run.ask("Go on?", choices=["yes"])

        damaged, sound = harness.run(looks, 1).run_id, harness.run(looks, 2).run_id
        for run_id in (damaged, sound):
            harness.answer(run_id, "ask.1", "yes")
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE call SET result = x'32' WHERE run_no = 1 AND tool = 'look'")
        report = harness.work(until_idle=True, concurrency=1, told=(events := []).append)
    assert (report.left, report.not_driven) == ({"COMPLETED": 1}, 1)
    wrong = [event for event in events if event.what == "not-driven"]
    assert [(event.run_id, type(event.error).__name__) for event in wrong] == [(damaged, "IntegrityError")]


class Outage:
    """Steps in between a harness and its store, as a watcher may: while it lasts, the store cannot be reached."""

    def __init__(self) -> None:
        self.lasts = False
        self.refused = threading.Event()

    def around(self, store: Store) -> Store:
        outage = self

        class Cut:
            def __getattr__(self, name: str) -> Any:
                if outage.lasts and name not in ("now", "close"):
                    outage.refused.set()
                    raise StoreUnavailable("the database is out of reach")
                return getattr(store, name)

        return Cut()  # type: ignore[return-value]

    def before(self, request: Any) -> None:
        """Let it pass."""

    def after(self, request: Any, answer: Any) -> None:
        """Let it pass."""


def test_a_store_that_cannot_be_reached_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        harness._watcher = outage

        @harness.agent
        def fine(run: Any, task: Any) -> str:
            return "fine"

        with caplog.at_level(logging.INFO, "jumar"), Working(harness, poll=0.01) as worker:
            worker.left(harness.start(fine), "COMPLETED")
            outage.lasts = True
            assert outage.refused.wait(PATIENCE)
            outage.lasts = False
            worker.left(harness.start(fine), "COMPLETED")
            until(lambda: any("can be used again" in record.getMessage() for record in caplog.records))
    said = [record.getMessage() for record in caplog.records if "the store" in record.getMessage()]
    assert said == [
        "the store cannot be used, and is tried again: the database is out of reach",
        "the store can be used again",
    ]


def test_whoever_is_told_and_raises_ends_no_work(harness: Harness) -> None:
    heard: list[WorkerEvent] = []

    @harness.agent
    def fine(run: Any, task: Any) -> str:
        return "fine"

    def told(event: WorkerEvent) -> None:
        heard.append(event)
        raise RuntimeError("nobody listens")

    runs = [harness.start(fine) for _ in range(3)]
    assert harness.work(until_idle=True, told=told).left == {"COMPLETED": 3}
    assert {event.run_id for event in heard} == set(runs)


def test_a_run_that_hangs_keeps_its_place_until_its_lease_is_given_up(tmp_path: Path) -> None:
    gate = Gate()
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", lease_ttl=0.6, stall_timeout=0.2) as harness:

        @harness.agent
        def hangs(run: Any, task: Any) -> None:
            gate.pause()

        @harness.agent
        def fine(run: Any, task: Any) -> str:
            return "fine"

        with Working(harness, concurrency=1, poll=0.05) as worker:
            hanging = harness.start(hangs)
            gate.reached()
            other = harness.start(fine)
            worker.told("given-up", hanging)
            assert not any(event.run_id == other for event in worker.heard)
            worker.left(other, "COMPLETED")
            gate.open()
            worker.left(hanging, "COMPLETED")
        assert harness.show(hanging).run.epoch == 2


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A worker that has let go has no thread of a run any more."""
    yield
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("jumar-run-")])
