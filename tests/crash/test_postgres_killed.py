"""Real processes, really killed, on a real server: at points drawn from the run and from its recoveries, and in the
proof that a result which was recorded is never asked for again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jumar import Harness, Run
from jumar.testing import Witness
from tests.concurrency.workers import Line, Worker, start
from tests.crash.test_sigkill import swept

__all__ = ["start"]

RUN = "01a00000-0000-7000-8000-00000000000a"
TTL = 1.0


def test_a_run_whose_processes_are_killed_over_and_over_ends_as_if_nothing_had_happened(
    tmp_path: Path, postgres_address: str
) -> None:
    swept(tmp_path, waits=False, exact=True, points=1, again=1, store=postgres_address)


@pytest.mark.sweep
@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
@pytest.mark.parametrize("exact", [True, False], ids=["at the point", "soon after it"])
def test_a_run_that_is_killed_at_a_sample_of_its_points_ends_as_if_nothing_had_happened(
    tmp_path: Path, postgres_address: str, waits: bool, exact: bool
) -> None:
    swept(tmp_path, waits=waits, exact=exact, points=2, again=2, store=postgres_address)


# --- A result that is on disk is never asked for again. ---


def made(address: str, folder: str, at_work: Callable[[], None]) -> Harness:
    """A harness whose agent searches and then orders by what it found; `at_work` is called in the body of the order."""
    harness, witness = Harness(address, lease_ttl=TTL), Witness(Path(folder, "witness"))

    @harness.tool(effect="read")
    def search(query: str) -> list[str]:
        witness.note("read", "search")
        return [f"{query} in a.log"]

    @harness.tool(effect="idempotent", retries=9)
    def order(what: str) -> str:
        at_work()
        witness.apply("order")
        return f"{what} ordered"

    @harness.agent(tools=[search, order])
    def repair(run: Run, task: str) -> str:
        return run.call(order, run.call(search, task)[0])

    return harness


def begin(line: Line, address: str, folder: str) -> None:
    """A process that starts the run, and comes as far as the order."""
    with made(address, folder, lambda: line.pause("ordering")) as harness:
        harness.run("repair", "ERROR", run_id=RUN)


def take_over(line: Line, address: str, folder: str) -> str:
    """A process that takes the run over once its lease has run out, and drives it to its end."""
    with made(address, folder, lambda: None) as harness:
        return str(harness.resume(RUN).unwrap())


def test_a_result_on_disk_is_not_asked_for_again_by_who_takes_over_from_a_killed_process(
    tmp_path: Path, postgres_address: str, start: Callable[..., Worker]
) -> None:
    first = start(begin, postgres_address, str(tmp_path))
    first.expect("ordering")
    with Harness(postgres_address) as looking:
        before = looking.show(RUN)
    assert [(call.tool, call.state) for call in before.calls] == [("search", "SUCCEEDED"), ("order", "STARTED")]
    first.kill()
    assert start(take_over, postgres_address, str(tmp_path)).ends() == "ERROR in a.log ordered"
    with Harness(postgres_address) as looking:
        after = looking.show(RUN)
        told = [line.what for line in looking.trace(RUN)]
    assert (after.run.status, after.run.epoch) == ("COMPLETED", before.run.epoch + 1), told
    assert [(call.tool, call.attempt) for call in after.calls] == [("search", 1), ("order", 2)]
    witness = Witness(tmp_path / "witness")
    assert (witness.count("read", "search"), witness.count("applied", "order")) == (1, 1)
