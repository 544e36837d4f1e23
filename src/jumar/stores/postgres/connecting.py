"""A store's connections: lent out one at a time, made anew where they were lost.

No thread looks after them.  One that is given back waits on a stack, and whoever borrows it looks first whether
something has arrived on it: on a connection that nobody has asked anything that is the server's farewell, or the end of
the stream.  So one that was cut between two statements costs a reconnection and nothing else.  Only a connection that
is lost while a statement is under way leaves open whether that was carried out, and what that means is the borrower's
to know: a read is made again, a write is read back.

While no connection can be made, the attempts go on with growing, random pauses until the borrower's patience ends.  An
error that waiting cannot mend, as a wrong password, ends it at once.

A transaction pooler may stand between: nothing here outlives a transaction, neither settings nor prepared statements.
"""

from __future__ import annotations

import math
import random
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import local
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus

from jumar import errors
from jumar.database import forks
from jumar.stores.postgres.address import PostgresAddress
from jumar.stores.postgres.failures import is_coming_up, is_lost, may_pass, not_connected, translated

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")
Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]

WAIT_SECONDS = 30.0  # how long a server that is away is waited for, unless the address has connect_timeout
OPENING_SECONDS = 5.0  # the same at the opening of a store, where an address may just be wrong
# How long an answer is waited for.  Far longer than any statement takes, with all that it may have to wait for itself:
# it is for a server that stands still, or went away behind a proxy, while whoever is at the other end lives on.
# The thread of an event loop has other things to do: what became of its statement is then asked elsewhere.
ANSWER_SECONDS, LOOP_ANSWER_SECONDS = 120.0, 1.0
_MOST = 10  # connections of one store in one process
_LONGEST_IDLE = 60.0  # seconds; the server has better uses for it, and a firewall may have forgotten it
_OK, _IDLE, _NO_PIPELINE = ConnStatus.OK.value, TransactionStatus.IDLE.value, PipelineStatus.OFF.value
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
# Without these, a peer that vanished without a word would be waited for until the system's own two hours are over.
_DEFAULTS = {
    "application_name": "jumar",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "client_encoding": "utf8",
}
# The same for the server's side.  A half of a transaction may have come through before the network was cut, and until
# the server misses its client that half holds its locks.
_FOR_THE_SERVER = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
_NOT_TAKEN = "unsupported startup parameter"  # what poolers say, who see to their servers themselves


class _Answering(psycopg.Connection[Row]):
    """A connection that counts as lost where the server gives no answer for so long."""

    answer_seconds: float = ANSWER_SECONDS

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """See psycopg, whose every statement waits here."""
        return super().wait(self._answered(gen), *args, **options)

    def _answered(self, gen: PQGen[T]) -> PQGen[T]:
        give_up = time.monotonic() + self.answer_seconds
        try:
            waits_for = next(gen)
            while True:
                ready = yield waits_for
                if not ready and time.monotonic() >= give_up:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server gave no answer in {self.answer_seconds:g} s")
                waits_for = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """In the block an answer may take as long as it takes: migrating a large store does."""
    assert isinstance(connection, _Answering)
    connection.answer_seconds = math.inf
    try:
        yield
    finally:
        _answer_within(connection, may_wait=True)


class Patience:
    """How long attempts to connect go on, and the pauses between them."""

    def __init__(self, seconds: float, where: str) -> None:
        self._where = where
        self._began = time.monotonic()
        self._seconds = seconds
        self._pause = _FIRST_PAUSE

    @property
    def left(self) -> float:
        """How many seconds are left."""
        return self._began + self._seconds - time.monotonic()

    def pause(self, error: psycopg.Error) -> None:
        """Wait a little before the next attempt after this error; raises it as a person sees it where there is none."""
        if is_coming_up(error):
            self._seconds = max(self._seconds, WAIT_SECONDS)
        if not may_pass(error) or self.left <= self._pause:
            raise not_connected(error, self._where) from error
        time.sleep(random.uniform(self._pause / 2, self._pause))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class Connections:
    """The connections of one store to its database.  Used from several threads at once."""

    def __init__(self, address: PostgresAddress) -> None:
        self.where = address.shown
        try:
            self._parameters: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(address.uri)}
        except psycopg.Error as error:
            raise not_connected(error, self.where) from None  # what libpq says may quote a part of the password
        if _is_garbled(self._parameters):
            raise not_connected(psycopg.ProgrammingError(), self.where)
        given = self._parameters.pop("connect_timeout", None)
        self.seconds, self.opening_seconds = (
            (WAIT_SECONDS, OPENING_SECONDS) if given is None else (_seconds(given, self.where),) * 2
        )
        self._options = {"options": f"{_FOR_THE_SERVER} {self._parameters.get('options', '')}".rstrip()}
        self._idle: list[tuple[Connection, float]] = []
        self._places = _places()
        self._hurry = local()
        self._is_open = True
        forks.watch(self, Connections._forked)

    def _forked(self) -> None:
        """Leave the parent's connections alone; see `jumar.database.forks`."""
        forks.keep(self._idle)
        self._idle = []
        self._places = _places()

    def lent(self, *, wait: bool = True, patience: Patience | None = None) -> _Loan:
        """A connection in autocommit mode for the block; at its end it is given back, or closed where it cannot be used
        again.

        With `wait=False` StoreBusy is raised where none is at hand.  Errors of the connection that is lent are left as
        they are; where none can be made, StoreUnavailable is raised.
        """
        return _Loan(self, wait, patience)

    def borrow(self, wait: bool, patience: Patience | None) -> Connection:
        """A connection, for which one of the places is taken."""
        may_wait = wait and not self._is_hurried
        try:
            self._places.get(may_wait)
        except Empty:
            raise self._none_at_hand() from None
        try:
            connection = self._idle_one()
            if connection is None and may_wait:
                connection = self._made(patience)
            if connection is None:
                raise self._none_at_hand()
            _answer_within(connection, may_wait)
            return connection
        except BaseException:
            self._places.put(None)
            raise

    def give_back(self, connection: Connection) -> None:
        """The borrowed connection, and with it its place."""
        try:
            self.give(connection)
        finally:
            self._places.put(None)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """In the block, StoreBusy is raised in this thread wherever it would have to wait for a connection."""
        self._hurry.on = True
        try:
            yield
        finally:
            self._hurry.on = False

    @property
    def _is_hurried(self) -> bool:
        return getattr(self._hurry, "on", False)

    def _none_at_hand(self) -> errors.StoreBusy:
        return errors.StoreBusy(f"no connection to {self.where} is at hand, and this thread may not wait for one")

    def tried(self, work: Callable[[Connection], T]) -> T:
        """Do work that may be done twice; again where the connection was lost.  Errors are the store's."""
        patience: Patience | None = None
        while True:
            with self.lent(patience=patience) as connection:
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if not is_lost(error):
                        raise translated(error, self.where) from error
                    close(connection)
                    lost = error
            if self._is_hurried:
                raise self._none_at_hand()
            patience = patience or Patience(self.seconds, self.where)
            patience.pause(lost)

    @contextmanager
    def lent_translating(self) -> Iterator[Connection]:
        """`lent`, whose errors are the store's."""
        with self.lent() as connection:
            try:
                yield connection
            except psycopg.Error as error:
                if is_lost(error):
                    close(connection)
                raise translated(error, self.where) from error

    def open_one(self, patience: Patience) -> Connection:
        """A connection of the caller's own."""
        return self._made(patience)

    def once(self, timeout: float) -> Connection:
        """A connection of the caller's own, by one attempt; raises psycopg's errors."""
        # psycopg counts whole seconds, for each host of the address, and takes 0 for no limit.
        parameters = {**self._parameters, **self._options, "connect_timeout": max(2, int(timeout))}
        try:
            return _Answering.connect(autocommit=True, prepare_threshold=None, **parameters)
        except psycopg.OperationalError as error:
            if not self._options or _NOT_TAKEN not in str(error):
                raise
        self._options = {}
        return self.once(timeout)

    def close(self) -> None:
        """Close those that are not lent out, and the others when they are given back."""
        self._is_open = False
        while (connection := self._pop()) is not None:
            close(connection)

    def _idle_one(self) -> Connection | None:
        if not self._is_open:
            raise errors.StoreUnavailable(f"{self.where} is closed", hint="Open a new Harness.")
        while (connection := self._pop()) is not None:
            if is_quiet(connection):
                return connection
            close(connection)
        return None

    def _pop(self, place: int = -1) -> Connection | None:
        try:
            return self._idle.pop(place)[0]
        except IndexError:
            return None  # lent out meanwhile

    def give(self, connection: Connection) -> None:
        """Take in a connection that came from `open_one`."""
        if not self._is_open or not is_free(connection):
            close(connection)
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        oldest = self._idle[:1]
        if oldest and now - oldest[0][1] > _LONGEST_IDLE and (unused := self._pop(0)) is not None:
            close(unused)

    def _made(self, patience: Patience | None) -> Connection:
        patience = patience or Patience(self.seconds, self.where)
        while True:
            try:
                return self.once(patience.left)
            except psycopg.Error as error:
                patience.pause(error)


class _Loan:
    """A borrowed connection; a class, since a generator as context manager would cost a statement's tenth."""

    __slots__ = ("_connection", "_owner", "_patience", "_wait")

    def __init__(self, owner: Connections, wait: bool, patience: Patience | None) -> None:
        self._owner = owner
        self._wait = wait
        self._patience = patience

    def __enter__(self) -> Connection:
        self._connection = self._owner.borrow(self._wait, self._patience)
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One that was interrupted may be in the middle of anything.
        if error is not None and (is_lost(error) or not isinstance(error, Exception)):
            close(self._connection)
        self._owner.give_back(self._connection)


def _places() -> SimpleQueue[None]:
    """A token for each connection there may be.  Unlike a semaphore, getting one cannot be interrupted half-way."""
    places: SimpleQueue[None] = SimpleQueue()
    for _ in range(_MOST):
        places.put(None)
    return places


def _answer_within(connection: Connection, may_wait: bool) -> None:
    assert isinstance(connection, _Answering)
    connection.answer_seconds = _Answering.answer_seconds if may_wait else LOOP_ANSWER_SECONDS


def close(connection: Connection) -> None:
    """Close a connection, whatever state it is in."""
    with suppress(psycopg.Error):
        connection.close()


def is_free(connection: Connection) -> bool:
    """Whether nothing is under way on a connection."""
    pgconn = connection.pgconn
    return pgconn.status == _OK and pgconn.transaction_status == _IDLE and pgconn.pipeline_status == _NO_PIPELINE


def is_quiet(connection: Connection) -> bool:
    """Whether a connection is there and nothing has arrived on it unasked."""
    pgconn = connection.pgconn
    if pgconn.status != _OK:
        return False
    waiting = select.poll()
    waiting.register(pgconn.socket, select.POLLIN)
    return not waiting.poll(0)


def _is_garbled(parameters: dict[str, Any]) -> bool:
    """Whether a part of the password has come to stand where host and port should: an @ or a / in it does that."""
    ports, hosts = str(parameters.get("port", "")), str(parameters.get("host", ""))
    return "@" in hosts.lstrip("@") or not all(port.isdigit() for port in ports.split(",") if port)


def _seconds(text: Any, where: str) -> float:
    """libpq's connect_timeout, which here is the time for all attempts together; 0 is none given."""
    try:
        seconds = float(text)
    except ValueError:
        raise errors.UsageError(f"connect_timeout={text} in {where} is no number of seconds") from None
    return seconds if seconds > 0 else WAIT_SECONDS
