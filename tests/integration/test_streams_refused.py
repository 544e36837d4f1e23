"""What `decide` does not take for an answer, consumers that fail, and that no stream is left open."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run, current_call
from jumar.errors import CallFailed, NotStorable, ResultNotStorable
from tests.integration.agents_helpers import ids, until
from tests.integration.providers.asking import NAMES, OPENING, WAYS, agent_asking, run, talk_to
from tests.integration.providers.server import Hold, Provider, provide
from tests.integration.providers.wire import Say

__all__ = ["provide"]

Provide = Callable[..., Provider]
SAYS = [Say("all is well, and has been for a while")]

every_way = pytest.mark.parametrize("way", WAYS, ids=NAMES)
each_sdk = pytest.mark.parametrize("name", ["openai", "anthropic"])


@pytest.fixture
def harness() -> Iterator[Harness]:
    """One kind of store is enough here."""
    with Harness("memory:") as opened:
        yield opened


# --- Generators. -----------------------------------------------------------------------------------------------------


def spelled(word: str) -> Generator[str, None, dict[str, str]]:
    """A model's function that yields what it hears and returns the whole."""
    yield from word
    return {"heard": word}


def test_a_generator_hands_on_what_it_yields_and_answers_what_it_returns(harness: Harness) -> None:
    heard: list[Any] = []

    def on_event(letter: str) -> None:
        call = current_call()
        assert call is not None
        heard.append((letter, call.call_id))

    @harness.agent
    def agent(run: Run, task: str) -> Any:
        return run.decide(spelled, task, on_event=on_event)

    assert harness.run(agent, "ab").unwrap() == {"heard": "ab"}
    assert heard == [("a", "spelled.1"), ("b", "spelled.1")]


def test_a_generator_may_be_followed_by_an_async_consumer(harness: Harness) -> None:
    heard: list[str] = []

    async def on_event(letter: str) -> None:
        await asyncio.sleep(0)
        heard.append(letter)

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> Any:
        return [await run.decide(spelled, task, on_event=on_event, timeout=limit) for limit in (None, 30)]

    assert asyncio.run(harness.arun(agent, "ab")).unwrap() == [{"heard": "ab"}] * 2
    assert heard == ["a", "b"] * 2


def test_what_a_generator_returns_has_the_type_that_it_is_annotated_with(harness: Harness) -> None:
    def wrong() -> Generator[str, None, int]:
        yield "a"
        return "five"  # type: ignore[return-value]

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable, match="int"):
            run.decide(wrong)
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"


def test_the_generator_of_an_attempt_that_fails_is_closed(harness: Harness) -> None:
    closed: list[str] = []

    def model(prompt: str) -> Generator[str, None, str]:
        try:
            yield "first"
            return "never"
        finally:
            closed.append(prompt)

    def on_event(event: str) -> None:
        raise LookupError(event)

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.decide(model, task, on_event=on_event)

    assert harness.run(agent, "x").status == "FAILED"
    assert closed == ["x"]


# --- What is no answer. ----------------------------------------------------------------------------------------------


def silent(prompt: str) -> Any:
    """A generator that returns nothing."""
    yield prompt


async def asynchronous(prompt: str) -> Any:
    """An async generator, which cannot return anything."""
    yield prompt


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (silent, "a generator without a return value"),
        (asynchronous, "`async_generator`"),
        (lambda prompt: iter([prompt]), "`list_iterator`"),
    ],
    ids=["a generator that returns nothing", "an async generator", "an iterator"],
)
@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
def test_what_can_be_read_only_once_and_sums_up_to_nothing_is_refused_and_the_hint_tells_what_to_return(
    harness: Harness, model: Callable[[str], Any], named: str, waits: bool
) -> None:
    refusal: list[CallFailed] = []

    @harness.agent(name="plain")
    def plain(run: Run, task: str) -> None:
        with pytest.raises(CallFailed) as caught:
            run.decide(model, task)
        refusal.append(caught.value)

    @harness.agent(name="async")
    async def waiting(run: AsyncRun, task: str) -> None:
        with pytest.raises(CallFailed) as caught:
            await run.decide(model, task)
        refusal.append(caught.value)

    run(harness, waiting if waits else plain, waits).unwrap()
    assert refusal[0].type_name == "NotStorable"
    assert f"a stream cannot be recorded: the model's function gave {named}" in str(refusal[0])
    assert "get_final_message" in refusal[0].hint and "a generator whose return value" in refusal[0].hint


@every_way
def test_a_raw_stream_is_refused_and_its_connection_closed(harness: Harness, provide: Provide, way: Any) -> None:
    talk = talk_to(provide(SAYS, Hold(threading.Event(), let_go := threading.Event(), after=2)).url, way)
    streams: list[Any] = []

    def model(messages: list[Any]) -> Any:
        streams.append(talk.endpoint.create(messages=messages, stream=True, **talk.options))
        return streams[-1]

    async def amodel(messages: list[Any]) -> Any:
        streams.append(await talk.endpoint.create(messages=messages, stream=True, **talk.options))
        return streams[-1]

    result = run(harness, agent_asking(harness, amodel if talk.waits else model, talk.waits), talk.waits)
    let_go.set()
    assert result.error is not None
    kind = "AsyncStream" if talk.waits else "Stream"
    assert f"a stream cannot be recorded: the model's function gave `{kind}`" in str(result.error)
    assert streams[0].response.is_closed


@each_sdk
def test_a_tool_that_returns_a_stream_is_told_what_to_return_instead(
    harness: Harness, provide: Provide, name: str
) -> None:
    talk = talk_to(provide(SAYS).url, (name, False))
    streams: list[Any] = []

    @harness.tool(effect="read")
    def ask() -> Any:
        streams.append(talk.endpoint.create(messages=OPENING, stream=True, **talk.options))
        return streams[-1]

    @harness.agent(tools=[ask])
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable, match=r"is a raw stream \(`Stream`\)") as caught:
            run.call(ask)
        return caught.value.hint

    assert "Return what the stream sums up to (`get_final_message()`" in harness.run(agent, "x").unwrap()
    streams[0].close()


@each_sdk
def test_an_answer_with_its_connection_is_no_data(harness: Harness, provide: Provide, name: str) -> None:
    talk = talk_to(provide(SAYS).url, (name, False))

    def model(messages: list[Any]) -> Any:
        return talk.endpoint.with_raw_response.create(messages=messages, **talk.options)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable, match="an answer with its connection; return its data"):
            run.decide(model, OPENING)
        return "told"

    assert harness.run(agent, "x").unwrap() == "told"


def test_a_function_whose_annotation_is_a_stream_is_refused_before_it_is_asked(harness: Harness) -> None:
    asked: list[str] = []

    def model(prompt: str) -> Iterator[str]:
        asked.append(prompt)
        yield prompt

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(NotStorable, match="can be read only once"):
            run.decide(model, task)
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"
    assert (asked, ids(harness)) == ([], [])


@each_sdk
def test_a_plain_agent_with_an_async_client_is_told_so(harness: Harness, provide: Provide, name: str) -> None:
    provider = provide(SAYS)
    talk = talk_to(provider.url, (name, True), streams=False)

    def model(messages: list[Any]) -> Any:
        return talk.acreate(messages)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="something to await, and this agent is a plain one"):
            run.decide(model, OPENING)
        return "told"

    assert harness.run(agent, "x").unwrap() == "told"
    assert provider.answers() == []


# --- Consumers. ------------------------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("error", [ValueError("no such screen"), ConnectionError("the screen is gone")], ids=repr)
def test_a_consumer_that_fails_is_told_as_its_own_bug_and_the_model_is_not_asked_again(
    harness: Harness, provide: Provide, way: Any, error: Exception
) -> None:
    provider = provide(SAYS)
    talk = talk_to(provider.url, way)

    def on_event(event: Any) -> None:
        raise error

    result = run(harness, agent_asking(harness, talk.ask, talk.waits, on_event=on_event), talk.waits)
    assert result.error is not None
    assert f"on_event raised {type(error).__name__}: {error}" in str(result.error)
    (call,) = harness.show("last").calls
    assert (call.state, call.result, provider.answers()) == ("FAILED", None, [(0, "said")])


def test_an_async_consumer_needs_an_async_agent(harness: Harness) -> None:
    async def on_event(event: Any) -> None:
        raise AssertionError("never awaited")

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="on_event is async, and this agent is a plain one"):
            run.decide(spelled, task, on_event=on_event)
        return "told"

    assert harness.run(agent, "x").unwrap() == "told"


# --- Closing. --------------------------------------------------------------------------------------------------------


@every_way
def test_a_stream_is_closed_when_its_consumer_fails(harness: Harness, provide: Provide, way: Any) -> None:
    talk = talk_to(provide(SAYS).url, way)
    opened: list[Any] = []

    def on_event(event: Any) -> None:
        raise LookupError

    result = run(harness, agent_asking(harness, _opening(talk, opened), talk.waits, on_event=on_event), talk.waits)
    assert result.status == "FAILED"
    assert _response(opened[0]).is_closed


def _opening(talk: Any, opened: list[Any]) -> Callable[[list[Any]], Any]:
    """A model's function that opens its stream by itself, and so can tell the connection that it uses."""

    def model(messages: list[Any]) -> Any:
        stream = talk.stream(messages).__enter__()
        opened.append(stream)
        return stream

    async def amodel(messages: list[Any]) -> Any:
        stream = await talk.stream(messages).__aenter__()
        opened.append(stream)
        return stream

    return amodel if talk.waits else model


def _response(stream: Any) -> Any:
    return stream.response if hasattr(stream, "response") else stream._response


@each_sdk
def test_a_stream_that_goes_on_past_the_timeout_in_its_thread_hands_on_nothing_more_and_is_closed(
    harness: Harness, provide: Provide, name: str
) -> None:
    hold = Hold(threading.Event(), threading.Event(), after=3)
    talk = talk_to(provide(SAYS, hold).url, (name, False))
    opened: list[Any] = []
    heard: list[Any] = []
    begun: list[float] = []

    def model(messages: list[Any]) -> Any:
        begun.append(time.monotonic())
        return _opening(talk, opened)(messages)

    agent = agent_asking(harness, model, False, on_event=heard.append, timeout=0.3, retries=0)
    result = harness.run(agent, "x")
    assert result.error is not None and "did not end within 0.3 s" in str(result.error)
    in_time = len(heard)
    until(lambda: time.monotonic() > begun[0] + 0.3)
    hold.let_go.set()
    until(lambda: bool(_response(opened[0]).is_closed))
    assert len(heard) == in_time


@each_sdk
@pytest.mark.parametrize("limit", [None, 30.0], ids=["in the agent's task", "in a task of its own"])
def test_a_stream_is_closed_when_the_agent_gives_its_decision_up(
    harness: Harness, provide: Provide, name: str, limit: float | None
) -> None:
    hold = Hold(threading.Event(), threading.Event(), after=3)
    talk = talk_to(provide(SAYS, hold).url, (name, True))
    opened: list[Any] = []

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        begun = asyncio.Event()
        decision = asyncio.ensure_future(
            run.decide(_opening(talk, opened), OPENING, on_event=lambda event: begun.set(), timeout=limit)
        )
        await begun.wait()
        decision.cancel()
        with pytest.raises(asyncio.CancelledError):
            await decision
        return "given up"

    assert asyncio.run(harness.arun(agent, "x")).unwrap() == "given up"
    hold.let_go.set()
    assert _response(opened[0]).is_closed
