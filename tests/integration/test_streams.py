"""Streams of the official SDKs, read inside a decision: what is recorded, and what becomes of a stream that breaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion, ParsedChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from jumar import Harness, Run, Usage, current_call
from jumar.errors import CallFailed
from tests.integration.agents_helpers import Interruption
from tests.integration.providers.asking import NAMES, OPENING, WAYS, agent_asking, resume, run, talk_to
from tests.integration.providers.server import Break, Provider, provide
from tests.integration.providers.wire import Say

__all__ = ["provide"]

Provide = Callable[..., Provider]
SAYS = [Say("let me look", (("search", {"word": "error"}), ("note", {"text": "äöü"})))]
BREAKS = [Break(3, "cut"), Break(3, "closed"), Break(3, "told"), Break(0, "cut"), Break(0, "closed")]

every_way = pytest.mark.parametrize("way", WAYS, ids=NAMES)


@every_way
def test_a_stream_is_recorded_as_the_answer_it_sums_up_to_and_that_answers_a_replay(
    harness: Harness, provide: Provide, way: Any
) -> None:
    provider, interrupt = provide(SAYS), Interruption()
    talk = talk_to(provider.url, way)
    events: list[Any] = []
    answers: list[Any] = []

    def then(answer: Any) -> None:
        answers.append(answer)
        interrupt()

    agent = agent_asking(harness, talk.ask, talk.waits, then, on_event=events.append)
    with pytest.raises(KeyboardInterrupt):
        run(harness, agent, talk.waits)
    passed_on = len(events)
    assert resume(harness, harness.find("last"), talk.waits).status == "COMPLETED"
    assert provider.answers() == [(0, "said")]
    assert len(events) == passed_on > 5
    assert {type(answer) for answer in answers} <= {ChatCompletion, Message}
    assert answers[0] == answers[1]
    assert [call.name for call in talk.calls(answers[1])] == ["search", "note"]
    (call,) = harness.show("last").calls
    assert call.usage is not None
    assert (call.usage["input_tokens"], call.usage["output_tokens"]) == (100, 10)


@every_way
def test_a_streamed_answer_is_the_same_as_one_in_one_piece(harness: Harness, provide: Provide, way: Any) -> None:
    outputs: list[Any] = []
    for streams in (True, False):
        talk = talk_to(provide(SAYS).url, way, streams=streams)
        outputs.append(run(harness, agent_asking(harness, talk.ask, talk.waits), talk.waits).unwrap())
    said = [output["choices"][0] if "choices" in output else output["content"] for output in outputs]
    assert _told(said[0]) == _told(said[1])


def _told(data: Any) -> Any:
    """Some JSON without its nulls: an SDK writes down what a stream did not tell."""
    if isinstance(data, list):
        return [_told(item) for item in data]
    return {key: _told(item) for key, item in data.items() if item is not None} if isinstance(data, dict) else data


@every_way
@pytest.mark.parametrize("broken", BREAKS, ids=[f"{broken.how}-after-{broken.after}" for broken in BREAKS])
def test_a_broken_stream_is_a_failed_attempt_and_the_next_begins_anew(
    tmp_path: Path, provide: Provide, way: Any, broken: Break
) -> None:
    provider = provide([Say("all-is-well and nothing is on fire")], broken)
    talk = talk_to(provider.url, way)
    attempts: list[int] = []

    def on_event(event: Any) -> None:
        call = current_call()
        assert call is not None
        attempts.append(call.attempt)

    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        run(harness, agent_asking(harness, talk.ask, talk.waits, on_event=on_event), talk.waits).unwrap()
        (call,) = harness.show("last").calls
    assert provider.answers() == [(0, "break"), (0, "said")]
    assert (call.state, call.attempt) == ("SUCCEEDED", 2)
    assert attempts == sorted(attempts)
    assert attempts.count(2) > attempts.count(1)
    assert (attempts.count(1) > 0) == (broken.after > 0)


@every_way
def test_nothing_of_streams_that_broke_is_stored(tmp_path: Path, provide: Provide, way: Any) -> None:
    provider = provide([Say("SECRET-HALF and the rest")], *[Break(5, "cut")] * 3)
    talk = talk_to(provider.url, way)
    seen: list[str] = []
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}") as harness:
        agent = agent_asking(harness, talk.ask, talk.waits, on_event=lambda event: seen.append(str(event)))
        result = run(harness, agent, talk.waits)
        (call,) = harness.show("last").calls
    assert "SECRET" in "".join(seen)
    assert result.status == "FAILED"
    assert (call.state, call.result) == ("FAILED", None)
    assert provider.answers() == [(0, "break")] * 3
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("runs.db*"))
    assert b"SECRET" not in stored


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_function_that_reads_its_stream_by_itself_is_held_to_the_same(
    harness: Harness, provide: Provide, name: str
) -> None:
    provider = provide([Say("all is well")], Break(3, "closed"))
    talk = talk_to(provider.url, (name, False))
    final = "get_final_completion" if name == "openai" else "get_final_message"

    def model(messages: list[Any]) -> Any:
        with talk.stream(messages) as stream:
            for _ in stream:
                pass
            return getattr(stream, final)()

    answer = run(harness, agent_asking(harness, model, waits=False), waits=False).unwrap()
    assert "all is well" in json.dumps(answer)
    assert provider.answers() == [(0, "break"), (0, "said")]


def test_a_final_message_may_have_its_usage_beside_it(harness: Harness, provide: Provide) -> None:
    provider = provide([Say("all is well")], Break(3, "closed"))
    talk = talk_to(provider.url, ("anthropic", False))

    def model(messages: list[Any]) -> Any:
        with talk.stream(messages) as stream:
            return stream.get_final_message(), Usage(7, 8, usd=0.5)

    answer = run(harness, agent_asking(harness, model, waits=False), waits=False).unwrap()
    (call,) = harness.show("last").calls
    assert (answer["type"], provider.answers()) == ("message", [(0, "break"), (0, "said")])
    assert call.usage is not None and call.usage["usd"] == 0.5


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    "broken", [None, Break(4, "cut"), Break(4, "closed"), Break(4, "told"), Break(0, "closed")], ids=str
)
def test_a_response_of_the_newer_kind_is_summed_up_and_held_to_the_same(
    harness: Harness, provide: Provide, waits: bool, broken: Break | None
) -> None:
    provider = provide(SAYS, broken)
    client = talk_to(provider.url, ("openai", waits)).client
    answers: list[Any] = []

    def model(messages: list[Any]) -> Any:
        return client.responses.stream(model="m", input=messages)

    run(harness, agent_asking(harness, model, waits, answers.append), waits).unwrap()
    assert provider.answers() == [(0, "said")] if broken is None else [(0, "break"), (0, "said")]
    assert type(answers[0]) is Response
    assert answers[0].output_text == "let me look"
    assert [item.name for item in answers[0].output if item.type == "function_call"] == ["search", "note"]
    assert "parsed" not in answers[0].to_json()
    (call,) = harness.show("last").calls
    assert call.usage is not None and call.usage["output_tokens"] == 10


def test_a_response_that_reached_its_limit_is_an_answer_that_says_so(harness: Harness, provide: Provide) -> None:
    provider = provide([Say("word " * 100)])
    client = talk_to(provider.url, ("openai", False)).client

    def model(messages: list[Any]) -> Any:
        return client.responses.stream(model="m", input=messages)

    answer = run(harness, agent_asking(harness, model, waits=False), waits=False).unwrap()
    assert (answer["status"], provider.answers()) == ("incomplete", [(0, "said")])


class Verdict(BaseModel):
    healthy: bool


def test_what_the_sdk_parsed_is_kept_where_the_annotation_says_so(harness: Harness, provide: Provide) -> None:
    talk = talk_to(provide([Say('{"healthy": true}')]).url, ("openai", False))
    interrupt = Interruption()
    parsed: list[Any] = []

    def model(messages: list[Any]) -> ParsedChatCompletion[Verdict]:
        with talk.endpoint.stream(model="m", messages=messages, response_format=Verdict) as stream:
            answer: ParsedChatCompletion[Verdict] = stream.get_final_completion()
            return answer

    @harness.agent
    def agent(run: Run, task: str) -> None:
        parsed.append(run.decide(model, OPENING).choices[0].message.parsed)
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    harness.resume(harness.find("last")).unwrap()
    assert parsed == [Verdict(healthy=True)] * 2


def test_the_whole_of_a_stream_may_be_the_json_of_a_type(harness: Harness, provide: Provide) -> None:
    talk = talk_to(provide([Say('{"healthy": true}')]).url, ("anthropic", False))

    def model(messages: list[Any]) -> Any:
        with talk.stream(messages) as stream:
            yield from stream
            return stream.get_final_text()

    @harness.agent
    def agent(run: Run, task: str) -> bool:
        return run.decide(model, OPENING, returns=Verdict).healthy

    assert harness.run(agent, "x").unwrap() is True


def test_when_every_stream_breaks_the_agent_is_told_that(harness: Harness, provide: Provide) -> None:
    talk = talk_to(provide([Say("all is well")], *[Break(3, "closed")] * 2).url, ("anthropic", False))

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="the stream ended before its answer was whole, after the event") as caught:
            run.decide(talk.ask, OPENING, retries=1)
        return caught.value.error_class

    assert harness.run(agent, "x").unwrap() == "transient"
