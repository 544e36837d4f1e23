"""A transaction pooler of the harshest kind: every transaction of a client lands on another connection to the server.

It is to PostgreSQL what PgBouncer is in its transaction mode, reduced to what a test needs.  A client is greeted
without a server; from the first message of a transaction to the ReadyForQuery that ends it, one of the pooled
connections is the client's, and then the one that has waited longest is next.  So whatever a client leaves in its
session, a setting, a prepared statement, an advisory lock, a LISTEN, it does not find there again.  Notifications that
arrive between transactions are lost, as they are there, and settings for a session are refused in a greeting.  The
server must ask for no password.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

_PROTOCOL = 196608  # 3.0
_WANTS_TLS = frozenset({80877103, 80877104})  # SSLRequest and GSSENCRequest, which are declined
_CANCEL = 80877102
_NOT_TAKEN = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
_GREETING = {
    "server_version": "16.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
}
_ENDS_A_TURN = b"SQ"  # Sync and Query: each is answered by one ReadyForQuery


class TransactionPooler:
    """Listens on `port` of the loopback address; its `backends` connections to the server go in turn."""

    def __init__(
        self, target_port: int, *, backends: int = 3, user: str = "postgres", database: str = "postgres"
    ) -> None:
        self._target = ("127.0.0.1", target_port)
        self._startup = _message(b"", struct.pack("!i", _PROTOCOL) + _texts("user", user, "database", database, ""))
        self._there = threading.Condition()
        self._waiting: deque[_Stream] = deque(self._backend() for _ in range(backends))
        self._clients: set[_Stream] = set()
        self.transactions = 0  # how many have gone through
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="pooler", daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._there:
            streams = [*self._clients, *self._waiting]
        for stream in streams:
            stream.end()
        for stream in self._waiting:
            stream.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _backend(self) -> _Stream:
        stream = _Stream(socket.create_connection(self._target))
        stream.socket.sendall(self._startup)
        while stream.message()[0] != b"Z":
            pass
        return stream

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(_Stream(accepted),), name="pooler", daemon=True).start()

    def _serve(self, client: _Stream) -> None:
        with self._there:
            self._clients.add(client)
        with suppress(OSError, EOFError):
            if _greeted(client):
                while self._transaction(client):
                    pass
        with self._there:
            self._clients.discard(client)
        client.socket.close()

    def _transaction(self, client: _Stream) -> bool:
        """See one transaction through; False where the client says goodbye instead."""
        first = client.message()
        if first[0] == b"X":
            return False
        with self._there:
            self._there.wait_for(lambda: len(self._waiting) > 0)
            backend = self._waiting.popleft()
        try:
            _see_through(client, backend, first)
        except (OSError, EOFError):
            backend.socket.close()  # in the middle of something
            with suppress(OSError, EOFError):
                backend = self._backend()
            raise
        finally:
            with self._there:
                self.transactions += 1
                self._waiting.append(backend)
                self._there.notify()
        return True


class _Stream:
    """One side's messages."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def message(self) -> tuple[bytes, bytes]:
        """The next message: its letter, and the whole of it."""
        head = self.exactly(5)
        (length,) = struct.unpack("!i", head[1:])
        return head[:1], head + self.exactly(length - 4)

    @property
    def has_more(self) -> bool:
        """Whether a part of the next message is here."""
        return bool(self._read)

    def exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._read += data
        taken, self._read = self._read[:size], self._read[size:]
        return taken

    def end(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _greeted(client: _Stream) -> bool:
    """Let a client believe that it has logged in; False for one that only came to cancel another's statement."""
    while True:
        (length, code) = struct.unpack("!ii", client.exactly(8))
        given = client.exactly(length - 8)
        if code == _CANCEL:
            return False
        if b"options\0" in given:
            client.socket.sendall(_message(b"E", _NOT_TAKEN))
            return False
        if code not in _WANTS_TLS:
            break
        client.socket.sendall(b"N")
    told = [_message(b"R", struct.pack("!i", 0))]
    told += [_message(b"S", _texts(name, value)) for name, value in _GREETING.items()]
    told += [_message(b"K", struct.pack("!ii", 0, 0)), _message(b"Z", b"I")]
    client.socket.sendall(b"".join(told))
    return True


def _see_through(client: _Stream, backend: _Stream, first: tuple[bytes, bytes]) -> None:
    """Hand messages on until everything is answered and no transaction is open."""
    letter, whole = first
    while True:
        turns = int(letter in _ENDS_A_TURN)
        backend.socket.sendall(whole)
        while not turns or client.has_more:
            letter, whole = client.message()
            if letter == b"X":
                raise EOFError
            turns += letter in _ENDS_A_TURN
            backend.socket.sendall(whole)
        status = b""
        while turns:
            letter, whole = backend.message()
            if letter == b"A":
                continue
            client.socket.sendall(whole)
            if letter == b"Z":
                turns -= 1
                status = whole[-1:]
        if status == b"I":
            return
        letter, whole = client.message()
        if letter == b"X":
            raise EOFError


def _message(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


def _texts(*texts: str) -> bytes:
    return b"".join(text.encode() + b"\0" for text in texts)
