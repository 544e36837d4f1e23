"""Workers on a PostgreSQL store: told by the server, in time for timers, side by side, and handing runs over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jumar import Harness
from tests.integration.agents_helpers import states, until
from tests.integration.worker_helpers import Gate, Working

Make = Callable[..., Harness]


@pytest.fixture
def make(postgres_address: str) -> Iterator[Make]:
    """Makes harnesses on one store, each with connections of its own, as processes have."""
    made: list[Harness] = []

    def make(**options: Any) -> Harness:
        made.append(Harness(postgres_address, **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def test_a_worker_is_told_of_what_others_start_and_answer(make: Make) -> None:
    server, harness = make(), make()

    def asks(run: Any, task: str) -> Any:
        return run.ask(f"{task}?", choices=["yes"])

    for each in (server, harness):
        each.agent(asks)
    with Working(harness) as worker:
        run_id = server.start("asks", "Restart")
        worker.left(run_id, "WAITING")
        server.answer(run_id, "ask.1", "yes")
        assert worker.left(run_id, "COMPLETED").output == "yes"


def test_a_timer_is_waited_for_to_its_moment(make: Make) -> None:
    harness = make(lease_ttl=1.0)

    @harness.agent
    def sleeps(run: Any, seconds: float) -> str:
        run.sleep(seconds)
        return "awake"

    with Working(harness) as worker:
        run_id = harness.start(sleeps, 1.5)
        worker.left(run_id, "WAITING")
        assert worker.left(run_id, "COMPLETED").output == "awake"


def test_a_run_is_handed_over_to_a_worker_elsewhere_at_once(make: Make) -> None:
    gate, sent, harnesses = Gate(), list[int](), (make(), make())

    def pay(cents: int) -> int:
        sent.append(cents)
        gate.pause()
        return cents

    def serve(harness: Harness) -> None:
        tool = harness.tool(effect="external")(pay)

        @harness.agent
        def pays(run: Any, task: Any) -> list[int]:
            return [run.call(tool, 1), run.call(tool, 2)]

    first, second = harnesses
    serve(first)
    serve(second)
    run_id = first.start("pays", 0)
    with Working(first, grace=0) as worker:
        gate.reached()
        with Working(second) as other:
            worker.stop.set()
            worker.told("handing-over")
            gate.open()
            worker.left(run_id, "QUEUED")
            assert other.left(run_id, "COMPLETED").output == [1, 2]
    assert sent == [1, 2]
    assert set(states(first, run_id).values()) == {"SUCCEEDED"}


def test_workers_side_by_side_drive_no_run_twice(make: Make) -> None:
    sent: list[int] = []
    harnesses = [make() for _ in range(3)]
    for harness in harnesses:

        @harness.agent
        def pays(run: Any, cents: int) -> int:
            sent.append(cents)
            return cents

    runs = [harnesses[0].start("pays", cents) for cents in range(30)]
    with Working(harnesses[0]) as one, Working(harnesses[1]) as two, Working(harnesses[2]) as three:
        until(lambda: all(harnesses[0].show(run_id).run.status == "COMPLETED" for run_id in runs))
    assert Counter(sent) == Counter(range(30))
    reports = [worker.report for worker in (one, two, three)]
    assert sum(report.taken_up for report in reports if report is not None) == 30
    assert all(report is not None and report.not_driven == 0 for report in reports)
