"""What a program's own code does where Jumar looks at it: errors, usage, logging and cancellations of its own making.

None of it may break a run, or hide that a call was sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.core.failures import classify, retry_after
from jumar.core.usage import usage_by, usage_of
from jumar.engine import logs
from jumar.errors import CallFailed, MapFailed
from tests.integration.agents_helpers import states

NEVER = 60.0  # seconds; what waits so long waits to be cancelled


class Unreadable:
    """Fails in whatever way it is looked at."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("lazy")


class Refusal(Exception):
    """What an HTTP client raises."""

    def __init__(self, asked: Any) -> None:
        super().__init__("503")
        self.status_code = 503
        self.headers = {"Retry-After": asked}


async def inner_task_cancelled() -> None:
    """A client awaits a task of its own that it cancels itself."""
    task = asyncio.ensure_future(asyncio.sleep(NEVER))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task


# --- Cancellations that nobody sent. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, NEVER])
def test_a_cancellation_that_leaks_out_of_a_plain_tool_is_a_failure_now_and_on_replay(
    harness: Harness, timeout: float | None
) -> None:
    goes_on = False

    @harness.tool(effect="read", timeout=timeout)
    def fetch() -> None:
        asyncio.run(inner_task_cancelled())

    @harness.agent
    def agent(run: Run, _: str) -> str:
        with pytest.raises(CallFailed, match="CancelledError"):
            run.call(fetch)
        if not goes_on:
            raise KeyboardInterrupt
        return "done"

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    goes_on = True
    assert harness.resume(harness.find("last")).output == "done"
    assert states(harness) == {"fetch.1": "FAILED"}


@pytest.mark.parametrize("timeout", [None, NEVER])
def test_a_cancellation_that_leaks_out_of_an_async_tool_is_a_failure_now_and_on_replay(
    harness: Harness, timeout: float | None
) -> None:
    goes_on = False

    @harness.tool(effect="read", timeout=timeout)
    async def fetch() -> None:
        await inner_task_cancelled()

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> str:
        with pytest.raises(CallFailed, match="CancelledError"):
            await run.call(fetch)
        if not goes_on:
            raise RuntimeError("not yet")
        return "done"

    assert harness.run(agent, "x").status == "FAILED"
    goes_on = True
    assert harness.resume(harness.find("last")).output == "done"
    assert states(harness) == {"fetch.1": "FAILED"}


def test_an_agent_whose_own_task_was_cancelled_fails(harness: Harness) -> None:
    @harness.agent
    async def agent(run: AsyncRun, _: str) -> None:
        await inner_task_cancelled()

    assert harness.run(agent, "x").status == "FAILED"


def test_a_call_that_the_agent_cancels_is_still_given_up(harness: Harness) -> None:
    @harness.tool(effect="read", timeout=NEVER)
    async def fetch() -> None:
        await asyncio.sleep(NEVER)

    @harness.tool(effect="read")
    async def look() -> str:
        return "seen"

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.call(fetch), 0.05)
        return await run.call(look)

    assert harness.run(agent, "x").output == "seen"
    kept = {call.call_id: call.error for call in harness.show("last").calls}
    assert "CancelledError" in str(kept["fetch.1"])


def test_a_call_given_up_while_its_timed_out_body_ends_is_recorded_as_given_up(harness: Harness) -> None:
    cancelled = asyncio.Event()
    release = asyncio.Event()

    @harness.tool(effect="external", timeout=0.05)
    async def pay() -> str:
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError:  # the timeout; a client that closes its connection takes a while
            cancelled.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
        return "receipt"

    @harness.tool(effect="read")
    async def look() -> str:
        return "seen"

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> str:
        paying = asyncio.create_task(run.call(pay))
        await cancelled.wait()
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        release.set()
        return await run.call(look)

    result = harness.run(agent, "x")
    assert result.status == "WAITING"
    assert states(harness) == {"pay.1": "UNCERTAIN", "look.1": "SUCCEEDED"}


# --- Foreign objects. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [lambda: "Wed, 21 Oct 99999999999999999999 07:28:00 GMT", Unreadable])
def test_a_retry_after_that_cannot_be_read_hides_nothing(harness: Harness, kind: Callable[[], Any]) -> None:
    asked = kind()

    @harness.tool(effect="external")
    def pay() -> None:
        raise Refusal(asked)

    @harness.agent
    def agent(run: Run, _: str) -> None:
        run.call(pay)

    assert harness.run(agent, "x").status == "WAITING"
    assert states(harness) == {"pay.1": "UNCERTAIN"}
    assert retry_after(Refusal(asked), 0) is None


def test_an_error_with_a_class_that_cannot_be_hashed_is_sorted_all_the_same() -> None:
    class Unhashable(type):
        __hash__ = None  # type: ignore[assignment]

    class Odd(Exception, metaclass=Unhashable):
        pass

    assert not classify(Odd(), {}, 0).retried


class LazyUsage:
    """Usage of which a part cannot be looked at."""

    prompt_tokens_details = Unreadable()
    input_tokens = 3


class LazyAnswer(dict[str, Any]):
    """A dict that reads itself from a connection."""

    def get(self, *args: Any) -> Any:
        raise ConnectionError("lazy")


def test_usage_that_cannot_be_read_is_left_out() -> None:
    found = usage_of({"usage": LazyUsage()})
    assert found is not None and found.input_tokens == 3
    assert usage_of(LazyAnswer(a=1)) is None
    assert usage_by(LazyAnswer, {"input_tokens": 3}) is None


def test_an_answer_that_is_no_plain_dict_is_kept_without_its_usage(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, _: str) -> Any:
        return run.decide(lambda prompt: LazyAnswer(a=1), "p")

    assert harness.run(agent, "x").output == {"a": 1}


class Declined(Exception):
    """A declared error whose text needs what only its constructor sets."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response

    def __str__(self) -> str:
        return f"declined with {self.response.code}"


def test_map_tells_everybodys_results_even_where_an_error_has_no_text(harness: Harness) -> None:
    @harness.tool(effect="external", errors=(Declined,))
    def pay(number: int) -> int:
        if number == 1:
            raise Declined(object())
        return number

    @harness.agent
    def agent(run: Run, _: str) -> list[str]:
        with pytest.raises(MapFailed) as caught:
            run.map(pay, [0, 1, 2])
        return [type(result).__name__ for result in caught.value.results]

    assert harness.run(agent, "x").output == ["int", "Declined", "int"]


def test_gather_says_which_error_an_empty_iterator_was(harness: Harness) -> None:
    def empty() -> Any:
        return next(iter([]))

    @harness.agent
    def agent(run: Run, _: str) -> None:
        run.gather(empty)

    result = harness.run(agent, "x")
    assert result.status == "FAILED" and "an item of gather raised StopIteration" in str(result.error)


# --- Logging. --------------------------------------------------------------------------------------------------------


class Broken(logging.Filter):
    """A filter of the program's that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self.asked += 1
        raise RuntimeError("the formatting service is down")


@pytest.fixture
def broken() -> Iterator[Broken]:
    """The filter, on a handler of Jumar's own logger."""
    handler, added = logging.StreamHandler(), Broken()
    handler.addFilter(added)
    logger = logging.getLogger("jumar")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield added
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_a_logging_filter_that_fails_does_not_touch_a_run(harness: Harness, broken: Broken) -> None:
    @harness.tool(effect="external")
    def pay() -> None:
        raise ValueError("500")

    @harness.agent
    def agent(run: Run, _: str) -> None:
        run.call(pay)

    assert harness.run(agent, "x").status == "WAITING"
    assert broken.asked >= 2
    logs.log(logs.WARNING, "run", None, "a message with %d", "no number")


# --- Coroutines that plain functions answer. -------------------------------------------------------------------------


def ways(harness: Harness, client: Callable[[str], Any]) -> Callable[[AsyncRun, str], Any]:
    """An agent that calls `client`, which answers a coroutine, in each way that takes a worker thread."""

    @harness.tool(effect="external", timeout=NEVER)
    def pay(what: str) -> Any:
        return client(what)

    @harness.tool(effect="external")
    def send(what: str) -> Any:
        return client(what)

    def model(prompt: str) -> Any:
        return client(prompt)

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> list[Any]:
        decided = await run.decide(model, "decided", timeout=NEVER)
        return [decided, await run.call(pay, "paid"), *await run.map(send, ["sent"])]

    return agent


def test_a_coroutine_that_a_plain_function_answers_is_awaited(harness: Harness) -> None:
    seen: list[str] = []

    async def client(what: str) -> str:
        await asyncio.sleep(0)
        seen.append(what)
        return f"{what}!"

    result = harness.run(ways(harness, client), "x")
    assert result.output == ["decided!", "paid!", "sent!"]
    assert seen == ["decided", "paid", "sent"]


def test_a_coroutine_that_a_plain_function_answers_has_the_functions_timeout(harness: Harness) -> None:
    ended: list[str] = []

    async def client() -> None:
        try:
            await asyncio.sleep(NEVER)
        finally:
            ended.append("cancelled")

    @harness.tool(effect="read", timeout=0.2, retries=0)
    def look() -> Any:
        return client()

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> None:
        await run.call(look)

    result = harness.run(agent, "x")
    assert result.status == "FAILED" and "did not end within" in str(result.error)
    assert ended == ["cancelled"]
