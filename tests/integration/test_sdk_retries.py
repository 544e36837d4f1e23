"""Providers that refuse for a while: what Jumar tries again, and what an SDK does by itself inside one attempt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jumar import AsyncRun, Harness, LoopView, Run
from jumar.errors import CallFailed
from tests.integration.providers.asking import NAMES, OPENING, WAYS, agent_asking, run, talk_to
from tests.integration.providers.server import Break, Provider, Refuse, provide
from tests.integration.providers.wire import Say

__all__ = ["provide"]

Provide = Callable[..., Provider]
SAYS = [Say("all is well")]

every_way = pytest.mark.parametrize("way", WAYS, ids=NAMES)
each_sdk = pytest.mark.parametrize("name", ["openai", "anthropic"])


@pytest.fixture
def harness() -> Iterator[Harness]:
    """One kind of store is enough here."""
    with Harness("memory:") as opened:
        yield opened


@every_way
@pytest.mark.parametrize("refusal", [Refuse(429), Refuse(500), Refuse(529)], ids=lambda refusal: str(refusal.status))
def test_a_provider_that_is_busy_is_asked_again_in_a_new_attempt(
    harness: Harness, provide: Provide, way: Any, refusal: Refuse
) -> None:
    provider = provide(SAYS, refusal)
    talk = talk_to(provider.url, way)
    run(harness, agent_asking(harness, talk.ask, talk.waits), talk.waits).unwrap()
    (call,) = harness.show("last").calls
    assert (call.attempt, provider.answers()) == (2, [(0, "refuse"), (0, "said")])


@every_way
def test_a_run_waits_for_the_time_that_a_provider_asked_for_and_is_not_held_up_in_place(
    harness: Harness, provide: Provide, way: Any
) -> None:
    provider = provide(SAYS, Refuse(429, retry_after=3600))
    talk = talk_to(provider.url, way)
    began = time.time()
    result = run(harness, agent_asking(harness, talk.ask, talk.waits), talk.waits)
    assert (result.status, provider.answers()) == ("WAITING", [(0, "refuse")])
    assert result.wake_at is not None
    assert result.wake_at >= (began + 3600) * 1000


@each_sdk
def test_a_request_that_is_wrong_is_not_made_again(harness: Harness, provide: Provide, name: str) -> None:
    provider = provide(SAYS, Refuse(400))
    talk = talk_to(provider.url, (name, False))

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="BadRequestError") as caught:
            run.decide(talk.create, OPENING)
        return caught.value.error_class

    assert harness.run(agent, "x").unwrap() == "permanent"
    assert provider.answers() == [(0, "refuse")]


@each_sdk
def test_retries_of_an_sdk_happen_inside_one_attempt_and_multiply_those_of_the_decision(
    harness: Harness, provide: Provide, name: str
) -> None:
    provider = provide(SAYS, *[Refuse(500, retry_after=0.001)] * 4)
    talk = talk_to(provider.url, (name, False), max_retries=1)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="InternalServerError"):
            run.decide(talk.create, OPENING, retries=1)
        return "given up"

    assert harness.run(agent, "x").unwrap() == "given up"
    (call,) = harness.show("last").calls
    assert call.attempt == 2  # what is recorded knows of two attempts, and the provider was asked four times
    assert provider.answers() == [(0, "refuse")] * 4


@each_sdk
def test_no_sdk_tries_a_stream_again_that_has_begun(harness: Harness, provide: Provide, name: str) -> None:
    provider = provide(SAYS, Break(3), Break(3))
    talk = talk_to(provider.url, (name, False), max_retries=5)
    harness.run(agent_asking(harness, talk.ask, waits=False), "x").unwrap()
    (call,) = harness.show("last").calls
    assert (call.attempt, provider.answers()) == (3, [(0, "break"), (0, "break"), (0, "said")])


@every_way
@pytest.mark.parametrize("broken", [Break(4, "cut"), Break(4, "closed"), Break(4, "told")], ids=lambda each: each.how)
def test_a_loop_agent_decides_by_no_stream_that_broke(
    harness: Harness, provide: Provide, way: Any, broken: Break
) -> None:
    provider = provide([Say("all is well, and not only half of it")], broken)
    talk = talk_to(provider.url, way)
    heard: list[Any] = []

    @harness.loop(tools=[], name="plain", on_event=heard.append)
    def plain(view: LoopView) -> Any:
        with talk.stream(view.messages(talk.name)) as stream:
            yield from stream
            return talk.decision(talk.final(stream))

    @harness.loop(tools=[], name="async")
    async def waiting(view: LoopView) -> Any:
        async with talk.stream(view.messages(talk.name)) as stream:
            return talk.decision(await talk.final(stream))

    result = run(harness, waiting if talk.waits else plain, talk.waits)
    assert result.unwrap() == "all is well, and not only half of it"
    assert provider.answers() == [(0, "break"), (0, "said")]
    assert talk.waits or len(heard) > 8


@each_sdk
def test_many_decisions_at_once_share_one_async_client(harness: Harness, provide: Provide, name: str) -> None:
    provider = provide(SAYS, *[Refuse(429), Break(2)] * 3)
    talk = talk_to(provider.url, (name, True))

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        def model(messages: list[Any], number: int) -> Any:
            return talk.ask(messages)

        answers = await run.gather(*[lambda each=each: run.decide(model, OPENING, each) for each in range(12)])
        return len([answer for answer in answers if talk.text(answer) == "all is well"])

    assert asyncio.run(harness.arun(agent, "x")).unwrap() == 12
    assert sorted(answer for _, answer in provider.answers()) == ["break"] * 3 + ["refuse"] * 3 + ["said"] * 12
