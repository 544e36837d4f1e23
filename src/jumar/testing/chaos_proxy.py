"""A proxy between workers and their PostgreSQL server that breaks connections at commits.

It knows nothing of the protocol but what a request that commits has in it.  Such a request meets one of two fates, by
chance: its connection breaks before the server has seen it, or once the server has answered and nobody has heard that.
For the client the two look the same.
"""

from __future__ import annotations

import random
import re
import socket
import threading
from collections import Counter
from types import TracebackType
from typing import Self

COMMITS = re.compile(rb"COMMIT|\bSELECT\b[^\x00]*\.[a-z_]+\(")  # the end of a transaction, or a function that is one
_CHUNK = 1 << 16


class DroppingProxy:
    """Listens on a loopback port for as long as the block lasts.  `chance` is that of a commit to lose its connection;
    `dropped` counts those that did.
    """

    def __init__(self, port: int, chance: float, luck: random.Random) -> None:
        self.chance = chance
        self.dropped: Counter[str] = Counter()
        self._theirs = ("127.0.0.1", port)
        self._luck = luck
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, name="proxy", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._theirs)
            except OSError:
                client.close()
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def fate(self, data: bytes) -> str | None:
        """What becomes of a request: `unsent`, `unheard`, or nothing out of the way."""
        if not COMMITS.search(data):
            return None
        with self._lock:
            if self._luck.random() >= self.chance:
                return None
            fate = self._luck.choice(["unsent", "unheard"])
            self.dropped[fate] += 1
            return fate

    def forget(self, link: _Link) -> None:
        """A link is broken."""
        with self._lock:
            self._links.discard(link)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()


class _Link:
    """One connection, and the two threads that carry its bytes."""

    def __init__(self, proxy: DroppingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unheard = False
        self._lock = threading.Lock()
        self._carried = 2  # directions in which bytes still go
        self._threads = [
            threading.Thread(target=self._carry, args=carried, name="link", daemon=True)
            for carried in ((client, server, self._passes), (server, client, self._is_heard))
        ]

    def start(self) -> None:
        """Begin to carry."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Break the connection, and wait until nothing is carried any more."""
        self._break()
        for thread in self._threads:
            thread.join()

    def _break(self) -> None:
        for each in (self._client, self._server):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side has closed it

    def _carry(self, source: socket.socket, sink: socket.socket, may: object) -> None:
        assert callable(may)
        try:
            while (data := source.recv(_CHUNK)) and may(data):
                sink.sendall(data)
        except OSError:
            pass  # one of the sides is gone
        self._break()
        with self._lock:
            self._carried -= 1
            if self._carried:
                return
        for each in (self._client, self._server):
            each.close()
        self._proxy.forget(self)

    def _passes(self, data: bytes) -> bool:
        fate = self._proxy.fate(data)
        self._unheard = self._unheard or fate == "unheard"
        return fate != "unsent"

    def _is_heard(self, data: bytes) -> bool:
        return not self._unheard
