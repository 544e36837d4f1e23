"""A run that takes its process with it each time is given up, whole.

Its files are back, a person is asked about what may have happened, and it goes on when somebody resumes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.testing.crash_clock import StoppedClock, stopped_clock
from tests.integration.agents_helpers import interrupted, states
from tests.integration.worker_helpers import Working


@pytest.fixture
def clock() -> Iterator[StoppedClock]:
    with stopped_clock() as stopped:
        yield stopped


class Dying:
    """A tool's body that ends as if its process did, for as long as it is not mended."""

    def __init__(self) -> None:
        self.mended = False
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        if not self.mended:
            raise KeyboardInterrupt


def _looking(harness: Harness, body: Callable[[], None]) -> Any:
    """An agent that makes one idempotent call."""

    @harness.tool(effect="idempotent")
    def look(page: int) -> int:
        body()
        return page

    @harness.agent
    def looks(run: Any, task: Any) -> int:
        return int(run.call(look, 1))

    return looks


def _gone(clock: StoppedClock) -> None:
    """The process's lease has run out."""
    clock.move(31)


def _die(harness: Harness, agent: Any, clock: StoppedClock, times: int) -> str:
    """Start a run whose process ends so many times."""
    run_id = interrupted(harness, agent)
    _gone(clock)
    for _ in range(times - 1):
        with pytest.raises(KeyboardInterrupt):
            harness._open().resume_if_free(harness.agents[agent.__name__], run_id)
        _gone(clock)
    return run_id


def _worked(harness: Harness, **options: Any) -> list[Any]:
    events: list[Any] = []
    harness.work(until_idle=True, told=events.append, **options)
    return [event.result for event in events if event.what == "left"]


def test_a_run_is_tried_so_many_times_and_not_once_more(clock: StoppedClock) -> None:
    body = Dying()
    with Harness("memory:", max_crashes=3) as harness:
        looks = _looking(harness, body)
        run_id = _die(harness, looks, clock, 3)
        assert body.times == 3
        (result,) = _worked(harness)
        assert (result.run_id, result.status, result.error_type) == (run_id, "FAILED", "WorkerCrashed")
        assert result.error_message.startswith("the process that drove the run ended, or lost its lease, 3 times")
        assert "in call look.1" in result.error_message
        assert (_worked(harness), harness.resume_due(), body.times) == ([], [], 3)
        body.mended = True
        assert harness.resume(run_id).unwrap() == 1
        record = harness.store.run(run_id)
        assert record is not None and record.crashes == 0


def test_resume_due_gives_a_run_up_as_a_worker_does(clock: StoppedClock) -> None:
    body = Dying()
    with Harness("memory:", max_crashes=2) as harness:
        looks = _looking(harness, body)
        _die(harness, looks, clock, 2)
        (result,) = harness.resume_due()
        assert (result.status, result.error_type, body.times) == ("FAILED", "WorkerCrashed", 2)


def test_a_run_that_somebody_asked_for_is_never_given_up(clock: StoppedClock) -> None:
    body = Dying()
    with Harness("memory:", max_crashes=1) as harness:
        looks = _looking(harness, body)
        run_id = interrupted(harness, looks)
        for _ in range(3):
            _gone(clock)
            with pytest.raises(KeyboardInterrupt):
                harness.resume(run_id)
        assert body.times == 4


def test_what_an_external_call_may_have_done_is_asked_about(clock: StoppedClock) -> None:
    body = Dying()
    with Harness("memory:", max_crashes=1) as harness:

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            body()
            return cents

        @harness.agent
        def pays(run: Any, task: Any) -> int:
            return int(run.call(pay, 5))

        run_id = _die(harness, pays, clock, 1)
        (result,) = _worked(harness)
        assert (result.status, states(harness, run_id)) == ("FAILED", {"pay.1": "UNCERTAIN"})
        assert [(asked.asked.call_id, asked.asked.kind) for asked in harness.requests()] == [("pay.1", "resolve")]
        assert "in call pay.1" in result.error_message
        from jumar import Happened

        harness.resolve(run_id, "pay.1", Happened(5))
        assert _worked(harness) == []
        assert harness.resume(run_id).unwrap() == 5
        assert body.times == 1


def test_files_that_were_being_written_are_put_back(tmp_path: Path, clock: StoppedClock) -> None:
    body = Dying()
    site = tmp_path / "site"
    site.mkdir()
    (site / "site.ini").write_text("as it was")
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", workspace=site, max_crashes=1) as harness:

        @harness.tool(effect="write", paths=["site.ini"])
        def rewrite(text: str) -> None:
            (site / "site.ini").write_text("half of it")
            body()
            (site / "site.ini").write_text(text)

        @harness.agent
        def writes(run: Any, task: Any) -> None:
            run.call(rewrite, "all of it")

        run_id = _die(harness, writes, clock, 1)
        assert (site / "site.ini").read_text() == "half of it"
        (result,) = _worked(harness)
        assert (result.status, result.error_type) == ("FAILED", "WorkerCrashed")
        assert (site / "site.ini").read_text() == "as it was"
        assert harness.store.holds(str(site), b"") == []
        body.mended = True
        harness.resume(run_id).unwrap()
        assert (site / "site.ini").read_text() == "all of it"


def test_where_putting_files_back_ends_the_process_too_they_are_left_as_they_are(
    tmp_path: Path, clock: StoppedClock
) -> None:
    body = Dying()
    site = tmp_path / "site"
    site.mkdir()
    (site / "site.ini").write_text("as it was")
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", workspace=site, max_crashes=1) as harness:

        @harness.tool(effect="write", paths=["site.ini"])
        def rewrite(text: str) -> None:
            (site / "site.ini").write_text("half of it")
            body()

        @harness.agent
        def writes(run: Any, task: Any) -> None:
            run.call(rewrite, "all of it")

        run_id = _die(harness, writes, clock, 1)
        with _dies_while_restoring(harness), pytest.raises(KeyboardInterrupt):
            harness._open().resume_if_free(harness.agents["writes"], run_id)
        _gone(clock)
        (result,) = _worked(harness)
        assert (result.status, result.error_type) == ("FAILED", "WorkerCrashed")
        assert (states(harness, run_id), (site / "site.ini").read_text()) == (
            {"rewrite.1": "UNCERTAIN"},
            "half of it",
        )
        body.mended = True
        harness.resume(run_id)
        assert body.times == 2


@contextlib.contextmanager
def _dies_while_restoring(harness: Harness) -> Iterator[None]:
    """The process ends when files are to be put back."""
    files = harness._open().files
    carry_out: Callable[..., Any] = type(files.of(str(harness.workspace)).workspace).restore

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    workspace = type(files.of(str(harness.workspace)).workspace)
    workspace.restore = dies  # type: ignore[method-assign]
    try:
        yield
    finally:
        workspace.restore = carry_out  # type: ignore[method-assign]


@pytest.mark.parametrize("strategy", ["auto", "rollback"])
def test_a_rollback_that_ends_its_process_is_given_up_and_finished_when_somebody_resumes_the_run(
    clock: StoppedClock, strategy: str
) -> None:
    body, undone = Dying(), list[int]()
    with Harness("memory:", max_crashes=1) as harness:

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            return cents

        @pay.compensate
        def _(receipt: int, cents: int) -> None:
            body()
            undone.append(cents)

        @harness.agent
        def pays(run: Any, task: Any) -> str:
            run.checkpoint("before paying")
            run.call(pay, 5)
            return str(run.ask("Go on?", choices=["yes"]))

        run_id = harness.run(pays, "x").run_id
        with pytest.raises(KeyboardInterrupt):
            harness.rollback(run_id, to="before paying")
        assert harness.show(run_id).run.rolling_back_to is not None
        _gone(clock)
        (result,) = _worked(harness)
        assert (result.status, result.error_type) == ("FAILED", "WorkerCrashed")
        assert "while the run was being rolled back" in result.error_message
        assert [request.asked.kind for request in harness.requests()] == ["ask"], "what is undone is not asked about"
        assert (harness.show(run_id).run.rolling_back_to is not None, undone) == (True, [])
        body.mended = True
        asked = next(each for each in harness.resume(run_id, strategy=strategy).waiting_on if each.kind != "ask")
        assert asked.kind == "undo", "nobody knows whether it was undone"
        harness.approve(run_id, asked.call_id)
        assert harness.resume(run_id).waiting_on[0].kind == "ask"
        assert (harness.show(run_id).run.rolling_back_to, undone) == (None, [5])


@pytest.mark.parametrize("order", ["pause", "cancel"])
def test_an_order_to_a_run_that_would_be_given_up_is_obeyed_instead(clock: StoppedClock, order: str) -> None:
    body = Dying()
    with Harness("memory:", max_crashes=1) as harness:
        looks = _looking(harness, body)
        run_id = interrupted(harness, looks)
        getattr(harness, order)(run_id)  # which its process, being gone, cannot see
        _gone(clock)
        with Working(harness) as worker:
            worker.left(run_id, "PAUSED" if order == "pause" else "CANCELLED")
        assert body.times == 1
