"""A provider on loopback that speaks both wire formats, says what a script tells it to, and forgets nothing.

It lives in the test's own process, and so outlives the processes that a test kills.  Every request is appended to a
file before it is answered, with the turn of the script it asks for and what it gets; a request that breaks a rule of
the provider's is refused with status 400 and remembered as a fault.  Which turn is asked for is told by the request
itself: as many assistant messages as it holds have been said.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from tests.integration.providers import rules, wire
from tests.integration.providers.wire import Event, Say

PATIENCE = 60.0
_END = b"0\r\n\r\n"


class Refuse(NamedTuple):
    """Trouble: the request is refused with this status."""

    status: int
    retry_after: float | None = None


class Break(NamedTuple):
    """Trouble: the stream ends after so many events.

    `how`: "cut" closes the connection in the middle of the transfer; "closed" ends it in good order, too early;
    "told" sends an error as an event, after the status 200 of the beginning.
    """

    after: int
    how: str = "cut"


class Hold(NamedTuple):
    """Trouble: the answer, or the stream after so many events, waits at the server until it is let go."""

    reached: threading.Event
    let_go: threading.Event
    after: int = 0

    def wait(self) -> None:
        """Stand still here."""
        self.reached.set()
        self.let_go.wait(PATIENCE)


Trouble = Refuse | Break | Hold


class Request(NamedTuple):
    """One request that arrived."""

    path: str
    turn: int
    answer: str  # "said", or the trouble it ran into, or "fault"
    body: dict[str, Any]


class Provider:
    """The server.  `script` is what the model says, turn by turn; `troubles` befall its first requests, one each (None:
    this one goes well).  With `repeats_ids` the tool calls of each turn have the same ids again.
    """

    def __init__(
        self, folder: Path, script: Sequence[Say], troubles: Iterable[Trouble | None] = (), *, repeats_ids: bool = False
    ) -> None:
        self.script = script
        self.faults: list[str] = []
        self._journal = folder / "requests.jsonl"
        self._troubles = deque(troubles)
        self._repeats_ids = repeats_ids
        self._lock = threading.Lock()
        self._number = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is: the base_url of Anthropic's client; OpenAI's adds `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def requests(self) -> list[Request]:
        """Every request that arrived, in order."""
        if not self._journal.exists():
            return []
        with self._journal.open(encoding="utf-8") as lines:
            return [Request(**json.loads(line)) for line in lines]

    def answers(self) -> list[tuple[int, str]]:
        """The turn that each request asked for, and what it got."""
        return [(request.turn, request.answer) for request in self.requests()]

    def trouble(self, *troubles: Trouble | None) -> None:
        """These befall the next requests."""
        with self._lock:
            self._troubles.extend(troubles)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)

    def take(self, path: str, body: dict[str, Any], fault: str | None) -> tuple[int, int, Trouble | None]:
        """Journal a request that arrived; answers its number, its turn, and what befalls it."""
        said = sum(message.get("role") == "assistant" for message in body.get("messages", ()))
        with self._lock:
            number, self._number = self._number, self._number + 1
            trouble = self._troubles.popleft() if self._troubles and fault is None else None
            if fault is not None:
                self.faults.append(fault)
            answer = "fault" if fault is not None else "said" if trouble is None else type(trouble).__name__.lower()
            line = json.dumps({"path": path, "turn": said, "answer": answer, "body": body})
            with self._journal.open("a", encoding="utf-8") as journal:
                journal.write(line + "\n")
        return number, said, trouble

    def ids(self, say: Say, number: int) -> list[str]:
        """Ids for the tool calls of a turn."""
        tag = "" if self._repeats_ids else f"{number}_"
        return [f"call_{tag}{index}" for index in range(len(say.calls))]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    provider: Provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or that left in the middle, is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = PATIENCE
    server: _Server
    formats: ClassVar[dict[str, Any]] = {
        "/v1/chat/completions": (rules.openai_fault, wire.chat_completion, wire.chat_chunks),
        "/v1/responses": (rules.responses_fault, wire.response, wire.response_events),
        "/v1/messages": (rules.anthropic_fault, wire.message, wire.message_events),
    }

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        fault_of, whole, events = self.formats[path]
        provider = self.server.provider
        fault = fault_of(body)
        number, turn, trouble = provider.take(path, body, fault)
        if fault is not None:
            return self._refuse(Refuse(400), "invalid_request_error", fault)
        if isinstance(trouble, Refuse):
            return self._refuse(
                trouble, "rate_limit_error" if trouble.status == 429 else "api_error", "come back later"
            )
        if isinstance(trouble, Hold) and not trouble.after:
            trouble.wait()
        say = provider.script[turn]
        ids = provider.ids(say, number)
        if not body.get("stream"):
            return self._send(200, whole(say, ids, number))
        usage = path != "/v1/chat/completions" or (body.get("stream_options") or {}).get("include_usage")
        told = [event for event in events(say, ids, number) if usage or not (event[1] and "usage" in event[1])]
        if isinstance(trouble, Break):
            return self._broken_stream(told[: trouble.after], trouble.how)
        return self._stream(told, trouble if isinstance(trouble, Hold) else None)

    def _refuse(self, refusal: Refuse, kind: str, words: str) -> None:
        headers = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
        self._send(refusal.status, {"type": "error", "error": {"type": kind, "message": words}}, headers)

    def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: list[Event], hold: Hold | None) -> None:
        self._begin("transfer-encoding", "chunked")
        for number, event in enumerate(events):
            if hold is not None and number == hold.after:
                hold.wait()
            self._event(event, chunked=True)
        self.wfile.write(_END)

    def _broken_stream(self, events: list[Event], how: str) -> None:
        chunked = how != "closed"
        self._begin(*(("transfer-encoding", "chunked") if chunked else ("connection", "close")))
        for event in events:
            self._event(event, chunked)
        if how == "told":
            self._event(("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), chunked)
            self.wfile.write(_END)
            return
        self.close_connection = True
        if how == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)

    def _begin(self, *framing: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header(*framing)
        self.end_headers()

    def _event(self, event: Event, chunked: bool) -> None:
        name, data = event
        text = data if isinstance(data, str) else json.dumps(data)
        line = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
        sent = line.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent) if chunked else sent)


@pytest.fixture
def provide(tmp_path: Path) -> Iterator[Callable[..., Provider]]:
    """Starts providers; a request that one of them had to refuse as malformed fails the test."""
    opened: list[Provider] = []

    def provide(script: Sequence[Say], *troubles: Trouble | None, **options: Any) -> Provider:
        folder = tmp_path / f"provider-{len(opened)}"
        folder.mkdir()
        opened.append(Provider(folder, script, troubles, **options))
        return opened[-1]

    yield provide
    for provider in opened:
        provider.close()
    assert [provider.faults for provider in opened] == [[] for _ in opened]
