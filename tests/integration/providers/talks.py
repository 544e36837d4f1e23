"""How an agent talks with a model through each SDK: one conversation, in four ways for each provider.

A `Talk` asks in one piece or by a stream, with the plain client or the async one; the rest (what the assistant said,
the calls in it, their results) is the same for all four.  Requests are made exactly as the SDKs' own guides do:
messages of the SDK go back into the history as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import httpx2

from jumar import Decision

TOOLS = {
    "search": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    "note": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class Asked(NamedTuple):
    """A call that the model asks for."""

    ident: str
    name: str
    arguments: dict[str, Any]


class Talk:
    """Talking with a provider at `url`; `streams` and `waits` say how."""

    def __init__(self, url: str, *, streams: bool, waits: bool, max_retries: int = 0) -> None:
        self.url = url
        self.streams = streams
        self.waits = waits
        self.max_retries = max_retries

    @property
    def ask(self) -> Callable[[list[Any]], Any]:
        """What `run.decide` gets: a function of the messages."""
        if self.streams:
            return self.stream
        return self.acreate if self.waits else self.create

    def create(self, messages: list[Any]) -> Any:
        """Ask for an answer in one piece."""
        return self.endpoint.create(messages=messages, **self.options)

    async def acreate(self, messages: list[Any]) -> Any:
        """The same with the async client."""
        return await self.endpoint.create(messages=messages, **self.options)

    def stream(self, messages: list[Any]) -> Any:
        """Ask for a stream: the SDK's own manager of one, of the plain client or the async one alike."""
        return self.endpoint.stream(messages=messages, **self.options)

    endpoint: Any
    options: ClassVar[dict[str, Any]]

    def _client(self, sdk: Any, url: str) -> Any:
        kinds = ("AsyncOpenAI", "AsyncAnthropic") if self.waits else ("OpenAI", "Anthropic")
        http_kind = sdk.DefaultAsyncHttpxClient if self.waits else sdk.DefaultHttpxClient
        # No connection outlives its request, so that none is left open when an event loop ends.
        http = http_kind(trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))
        client = next(getattr(sdk, kind) for kind in kinds if hasattr(sdk, kind))
        return client(api_key="no-key", base_url=url, max_retries=self.max_retries, http_client=http)


class OpenAITalk(Talk):
    """Chat completions."""

    name = "openai"
    options: ClassVar[dict[str, Any]] = {
        "model": "scripted",
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": parameters}}
            for name, parameters in TOOLS.items()
        ],
    }

    @cached_property
    def client(self) -> Any:
        """The SDK's client."""
        import openai

        return self._client(openai, f"{self.url}/v1")

    @property
    def endpoint(self) -> Any:
        """The part of it that answers."""
        return self.client.chat.completions

    def stream(self, messages: list[Any]) -> Any:
        """As above, with the usage, which OpenAI sends only when it is asked to."""
        return self.endpoint.stream(messages=messages, stream_options={"include_usage": True}, **self.options)

    @staticmethod
    def final(stream: Any) -> Any:
        """What a stream sums up to."""
        return stream.get_final_completion()

    @staticmethod
    def decision(answer: Any) -> Decision:
        """What a loop agent makes of the answer."""
        return Decision.from_openai(answer)

    @staticmethod
    def said(answer: Any) -> Any:
        """The answer as a message of the conversation."""
        return answer.choices[0].message

    @staticmethod
    def text(answer: Any) -> str | None:
        """What was said in words."""
        text: str | None = answer.choices[0].message.content
        return text

    @staticmethod
    def calls(answer: Any) -> list[Asked]:
        """The calls that were asked for."""
        calls = answer.choices[0].message.tool_calls or []
        return [Asked(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls]

    @staticmethod
    def results(calls: list[Asked], results: list[Any]) -> list[Any]:
        """The messages that tell the results."""
        return [
            {"role": "tool", "tool_call_id": call.ident, "content": json.dumps(result)}
            for call, result in zip(calls, results, strict=True)
        ]

    @staticmethod
    def continued(messages: list[Any], words: str) -> list[Any]:
        """The conversation with something more from its user."""
        return [*messages, {"role": "user", "content": words}]


class AnthropicTalk(Talk):
    """Messages."""

    name = "anthropic"
    options: ClassVar[dict[str, Any]] = {
        "model": "scripted",
        "max_tokens": 1000,
        "tools": [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()],
    }

    @cached_property
    def client(self) -> Any:
        """The SDK's client."""
        import anthropic

        return self._client(anthropic, self.url)

    @property
    def endpoint(self) -> Any:
        """The part of it that answers."""
        return self.client.messages

    @staticmethod
    def final(stream: Any) -> Any:
        """What a stream sums up to."""
        return stream.get_final_message()

    @staticmethod
    def decision(answer: Any) -> Decision:
        """What a loop agent makes of the answer."""
        return Decision.from_anthropic(answer)

    @staticmethod
    def said(answer: Any) -> Any:
        """The answer as a message of the conversation."""
        return {"role": "assistant", "content": answer.content}

    @staticmethod
    def text(answer: Any) -> str | None:
        """What was said in words."""
        return "".join(block.text for block in answer.content if block.type == "text") or None

    @staticmethod
    def calls(answer: Any) -> list[Asked]:
        """The calls that were asked for."""
        return [Asked(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"]

    @staticmethod
    def results(calls: list[Asked], results: list[Any]) -> list[Any]:
        """The message that tells the results."""
        blocks = [
            {"type": "tool_result", "tool_use_id": call.ident, "content": json.dumps(result)}
            for call, result in zip(calls, results, strict=True)
        ]
        return [{"role": "user", "content": blocks}]

    @staticmethod
    def continued(messages: list[Any], words: str) -> list[Any]:
        """The conversation with something more from its user, which joins what the user's last message told."""
        *before, last = messages
        if last["role"] != "user":
            return [*messages, {"role": "user", "content": words}]
        told = last["content"] if isinstance(last["content"], list) else [{"type": "text", "text": last["content"]}]
        return [*before, {"role": "user", "content": [*told, {"type": "text", "text": words}]}]


TALKS: dict[str, type[Any]] = {"openai": OpenAITalk, "anthropic": AnthropicTalk}
