"""A proxy that cuts connections at a message of the test's choice.

It stands between a client and a server on this host and hands on what either says.  A `Cut` names bytes to look for in
what clients send.  The connection on which they come is broken either before the server gets them, or once the server
has answered and the answer was thrown away: to the client both look the same.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

IDLE_AGAIN = b"Z\x00\x00\x00\x05I"  # PostgreSQL's last word of an answer: no transaction is open any more
_CHUNK = 1 << 16
_SECONDS = 30.0


class Cut:
    """Break the next connections on which clients send these bytes, so many `times`."""

    def __init__(self, containing: bytes, *, forwarded: bool, times: int, answered: bytes) -> None:
        self.containing = containing
        self.forwarded = forwarded
        self.answered = answered
        self.left = times
        self._done = threading.Event()

    def note(self) -> None:
        """One was broken."""
        if self.left == 0:
            self._done.set()

    def wait(self, seconds: float = _SECONDS) -> None:
        """Wait until as many as asked for are broken."""
        assert self._done.wait(seconds), f"nobody sent {self.containing!r}"


class TcpProxy:
    """Listens on `port` of the loopback address, and hands on to `target_port`."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._lock = threading.Lock()
        self._cuts: list[Cut] = []
        self._meetings: list[tuple[bytes, Callable[[], object]]] = []
        self._links: set[_Link] = set()
        self.accepted = 0  # how many connections there have been
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self, containing: bytes, *, forwarded: bool = False, times: int = 1, answered: bytes = IDLE_AGAIN) -> Cut:
        """Break the connection at the next message that contains these bytes: before it is handed on, or, where it is
        to be `forwarded`, once the server's answer has come to an end with the bytes `answered`."""
        made = Cut(containing, forwarded=forwarded, times=times, answered=answered)
        with self._lock:
            self._cuts.append(made)
        return made

    def meet(self, containing: bytes, act: Callable[[], object]) -> None:
        """Do something, once, before the next message that contains these bytes is handed on."""
        with self._lock:
            self._meetings.append((containing, act))

    def cut_all(self) -> None:
        """Break every connection there is."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def close(self) -> None:
        """Break every connection and take no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends the accept that is under way
        self._listening.close()
        self.cut_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def found(self, data: bytes) -> Cut | None:
        """The cut that these bytes are met by, which thereby has one time less left."""
        with self._lock:
            for cut in self._cuts:
                if cut.left and cut.containing in data:
                    cut.left -= 1
                    return cut
        return None

    def met(self, data: bytes) -> None:
        """Do what was to be done before these bytes are handed on."""
        with self._lock:
            due = [each for each in self._meetings if each[0] in data]
            self._meetings = [each for each in self._meetings if each not in due]
        for _, act in due:
            act()

    @property
    def longest(self) -> int:
        """How many bytes have to be kept to find what comes in two parts."""
        with self._lock:
            wanted = [cut.containing for cut in self._cuts] + [each[0] for each in self._meetings]
            return max((len(each) - 1 for each in wanted), default=0)

    def gone(self, link: _Link) -> None:
        """A link is no more."""
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()  # as a server that is away does, but for a moment later
                continue
            link = _Link(self, client, server)
            with self._lock:
                self.accepted += 1
                self._links.add(link)
            link.start()


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._cut: Cut | None = None  # whose answer is awaited, to be thrown away
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        threading.Thread(target=self._run, args=(self._to_server, self._client), name="proxy", daemon=True).start()
        threading.Thread(target=self._run, args=(self._to_client, self._server), name="proxy", daemon=True).start()

    def _run(self, hand_on: Callable[[], None], source: socket.socket) -> None:
        with suppress(OSError):
            hand_on()
        self.cut()
        source.close()  # which nobody else reads
        self._proxy.gone(self)

    def cut(self) -> None:
        """Break it, in both directions."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _to_server(self) -> None:
        tail = b""
        while data := self._client.recv(_CHUNK):
            self._proxy.met(tail + data)
            cut = self._proxy.found(tail + data)
            if cut is not None and not cut.forwarded:
                return self._end(cut)
            if cut is not None:
                self._cut = cut
            self._server.sendall(data)
            longest = self._proxy.longest
            tail = (tail + data)[-longest:] if longest else b""

    def _to_client(self) -> None:
        answer = b""
        while data := self._server.recv(_CHUNK):
            if self._cut is None:
                self._client.sendall(data)
                continue
            answer += data
            if answer.endswith(self._cut.answered):
                return self._end(self._cut)

    def _end(self, cut: Cut) -> None:
        self.cut()
        cut.note()
