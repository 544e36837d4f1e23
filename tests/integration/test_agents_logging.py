"""Logging: run and call ids in a program's own records, and what Jumar logs itself."""

from __future__ import annotations

import asyncio
import io
import logging
import logging.config
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.logs import RunContextFilter
from tests.integration.agents_helpers import Interruption, interrupted

Records = list[logging.LogRecord]


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: Records = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, name: str) -> list[tuple[str, str, str]]:
        """Run, call and message of each record of one logger."""
        found = [record for record in self.records if record.name == name]
        return [(vars(record)["run_id"], vars(record)["call_id"], record.getMessage()) for record in found]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler with the filter, on the root logger."""
    handler = Kept()
    handler.addFilter(RunContextFilter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


log = logging.getLogger("shop")


def test_whatever_an_agent_or_tool_logs_knows_its_run_and_call(harness: Harness, kept: Kept) -> None:
    @harness.tool(effect="read", timeout=30)
    def search(query: str) -> str:
        log.info("searching %s", query)
        return query

    @harness.agent
    def agent(run: Run, task: str) -> None:
        log.info("agent")
        with run.step("scan"):
            search("a")
        run.map(search, ["b"])
        run.gather(lambda: log.info("branch"))
        run.decide(lambda: log.info("model"))

    log.info("before")
    run_id = harness.run(agent, "x").run_id
    log.info("after")
    assert kept.of("shop") == [
        ("-", "-", "before"),
        (run_id, "-", "agent"),
        (run_id, "scan.search.1", "searching a"),
        (run_id, "map:0.search.1", "searching b"),
        (run_id, "-", "branch"),
        (run_id, "lambda.1", "model"),
        ("-", "-", "after"),
    ]


def test_the_records_of_runs_side_by_side_are_told_apart(harness: Harness, kept: Kept) -> None:
    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        log.info("%s", url)
        return url

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> None:
        await run.gather(fetch.bind(task + "1"), fetch.bind(task + "2"))

    async def main() -> dict[str, str]:
        results = await asyncio.gather(*(harness.arun(agent, task) for task in "ab"))
        return dict(zip("ab", (result.run_id for result in results), strict=True))

    runs = asyncio.run(main())
    assert sorted(kept.of("shop")) == sorted(
        (runs[task], f"gather:{index}.fetch.1", f"{task}{index + 1}") for task in "ab" for index in range(2)
    )


def test_jumar_tells_of_a_runs_start_and_end(harness: Harness, kept: Kept) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        if task == "fail":
            raise ValueError("no good")

    done, failed = harness.run(agent, "x").run_id, harness.run(agent, "fail").run_id
    assert kept.of("jumar") == [
        (done, "-", "a run of agent has started"),
        (done, "-", "the run is completed"),
        (failed, "-", "a run of agent has started"),
        (failed, "-", "the run has failed: ValueError: no good"),
    ]
    assert {record.levelno for record in kept.records if record.name == "jumar"} == {logging.INFO}


def test_jumar_tells_of_resumptions_retries_and_calls_that_may_have_happened(harness: Harness, kept: Kept) -> None:
    interrupt = Interruption()
    attempts: list[int] = []

    @harness.tool(effect="read", retries=1)
    def search(query: str) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("cut")
        return query

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise RuntimeError("no answer")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        search("a")
        interrupt()
        pay(5)

    run_id = interrupted(harness, agent)
    harness.resume(run_id)
    told = kept.of("jumar")
    assert {run for run, _, _ in told} == {run_id}
    assert [(call, message.partition("; the next")[0]) for _, call, message in told] == [
        ("-", "a run of agent has started"),
        ("search.1", "attempt 1 failed (ConnectionError: cut)"),
        ("-", "the run is left, to be resumed"),
        ("-", "a run of agent is resumed, with 1 recorded calls (epoch 2)"),
        ("pay.1", "attempt 1 ended without saying whether it happened (RuntimeError: no answer)"),
        ("-", "the run waits: nobody knows yet whether call pay.1 happened"),
    ]
    warned = [vars(record)["call_id"] for record in kept.records if record.levelno == logging.WARNING]
    assert warned == ["search.1", "pay.1"]


def test_jumar_tells_of_a_takeover_and_of_each_call_it_finds_uncertain(tmp_path: Path, kept: Kept) -> None:
    interrupt = Interruption()
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", lease_ttl=1.0) as harness:

        @harness.tool(effect="idempotent")
        def put(name: str) -> str:
            interrupt()
            return name

        @harness.agent
        def agent(run: Run, task: str) -> str:
            return put(task)

        run_id = interrupted(harness, agent)
        harness.resume(run_id).unwrap()
    assert kept.of("jumar")[-3:] == [
        (run_id, "-", "a run of agent is taken over, with 1 recorded calls (epoch 2)"),
        (run_id, "put.1", "the call was sent, and whether it happened is not recorded"),
        (run_id, "-", "the run is completed"),
    ]


def test_a_call_that_goes_well_logs_nothing(harness: Harness, kept: Kept) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.map(pay, range(10))

    logging.getLogger().setLevel(logging.DEBUG)
    harness.run(agent, "x").unwrap()
    assert [message for _, _, message in kept.of("jumar")] == ["a run of agent has started", "the run is completed"]


def test_what_a_program_set_itself_stays(kept: Kept) -> None:
    log.info("mine", extra={"run_id": "r", "call_id": "c"})
    assert kept.of("shop") == [("r", "c", "mine")]


def test_the_filter_is_named_in_a_dict_of_settings(harness: Harness) -> None:
    stream = io.StringIO()
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"run": {"()": "jumar.logs.RunContextFilter"}},
        "formatters": {"plain": {"format": "%(levelname)s [%(run_id)s %(call_id)s] %(message)s"}},
        "handlers": {
            "out": {"class": "logging.StreamHandler", "stream": stream, "filters": ["run"], "formatter": "plain"}
        },
        "loggers": {"dict-shop": {"handlers": ["out"], "level": "INFO"}},
    }
    logging.config.dictConfig(settings)

    @harness.tool(effect="read")
    def search(query: str) -> str:
        logging.getLogger("dict-shop").info("looking")
        return query

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.call(search, "a")

    run_id = harness.run(agent, "x").run_id
    logging.getLogger("dict-shop").warning("outside")
    assert stream.getvalue() == f"INFO [{run_id} search.1] looking\nWARNING [- -] outside\n"


SILENT = """
from jumar import Harness
harness = Harness("memory:")

@harness.tool(effect="external")
def pay(cents: int) -> int:
    raise RuntimeError("no answer")

@harness.agent
def agent(run, task):
    return run.call(pay, 5)

print(harness.run(agent, "x").status)
"""


def test_a_program_that_sets_no_logging_up_gets_nothing_on_its_screen() -> None:
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("WAITING\n", "", 0)
