"""Being told by the server that runs may have become due.

Whatever makes a run due sends a notification with its transaction.  A thread of the watch's own listens for them, on a
connection of its own, and rings a bell.  After each connecting it rings too: something may have been missed meanwhile.

Through a transaction pooler a LISTEN succeeds and nothing ever arrives.  So the thread has a notification sent to
itself by another connection; as long as that is not heard, and while there is no connection, whoever waits is told to
look every half second.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from contextlib import suppress
from threading import Event, Thread

import psycopg

from jumar.database import forks
from jumar.errors import JumarError
from jumar.stores.postgres.connecting import Connection, Connections, close
from jumar.stores.watching import Bell

_LOOK_SECONDS = 0.5
_PROBE_SECONDS = 5.0  # after which a connection on which nothing was heard is made anew
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_CONNECT_SECONDS = 10.0
_PROBE = "probe "


class PostgresWatch:
    """One who waits for notifications on `channel`; see `jumar.core.store.Watch` for the methods."""

    def __init__(self, connections: Connections, channel: str) -> None:
        self._connections = connections
        self._channel = channel
        self._bell = Bell()
        self._hears = Event()
        self._probe = ""
        self._stop, self._stopped = socket.socketpair()
        self._closed = False
        first = self._listening()  # from now on nothing is missed
        self._thread = Thread(target=self._run, args=(first,), name="jumar-watch", daemon=True)
        self._thread.start()
        forks.watch(self, PostgresWatch._forked)

    def wait(self, seconds: float) -> bool:
        """See `Watch.wait`."""
        give_up = time.monotonic() + seconds
        while True:
            left = give_up - time.monotonic()
            if self._bell.wait(min(left, _LOOK_SECONDS)):
                return True
            if left <= _LOOK_SECONDS:
                return False
            if not self._hears.is_set():
                return True

    def wake(self) -> None:
        """See `Watch.wake`."""
        self._bell.ring()

    def close(self) -> None:
        """See `Watch.close`."""
        if not self._closed:
            self._closed = True
            self._stop.close()
            self._thread.join(timeout=2.0)  # longer only where it is just connecting to a server that does not answer
        self._bell.ring()

    def _forked(self) -> None:
        """The thread and its connection are the parent's; here nothing is heard."""
        forks.keep((self._stop, self._stopped, self._thread))
        self._closed = True
        self._hears = Event()
        self._bell = Bell()

    def _run(self, connection: Connection | None) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            if connection is not None:
                with suppress(psycopg.Error, JumarError, OSError):
                    self._listen(connection)
                close(connection)
            if self._hears.is_set():
                pause = _FIRST_PAUSE
            self._hears.clear()
            self._pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            connection = None if self._closed else self._listening()
            self._bell.ring()  # for what was missed meanwhile
        if connection is not None:
            close(connection)
        self._stopped.close()

    def _listening(self) -> Connection | None:
        with suppress(psycopg.Error, OSError):
            connection = self._connections.once(_CONNECT_SECONDS)
            try:
                connection.execute(f"LISTEN {self._channel}")
                return connection
            except psycopg.Error:
                close(connection)
        return None

    def _pause(self, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(self._stopped.fileno(), select.POLLIN)
        waiting.poll(seconds * 1000)

    def _listen(self, connection: Connection) -> None:
        self._probe = _PROBE + secrets.token_hex(8)
        with self._connections.lent() as other:
            other.execute("SELECT pg_notify(%s, %s)", (self._channel, self._probe))
        give_up = time.monotonic() + _PROBE_SECONDS
        waiting = select.poll()
        waiting.register(connection.pgconn.socket, select.POLLIN)
        waiting.register(self._stopped.fileno(), select.POLLIN)
        while not self._closed:
            left = None if self._hears.is_set() else max(0.0, give_up - time.monotonic()) * 1000
            if not waiting.poll(left):
                return
            self._hear(connection)

    def _hear(self, connection: Connection) -> None:
        pgconn = connection.pgconn
        pgconn.consume_input()
        pgconn.is_busy()  # has libpq take apart what has arrived
        while (told := pgconn.notifies()) is not None:
            said = told.extra.decode()
            if said == self._probe:
                self._hears.set()
            elif not said.startswith(_PROBE):
                self._bell.ring()
