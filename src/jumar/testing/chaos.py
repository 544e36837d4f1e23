"""A storm over workers: many runs at once, in processes that are killed and frozen while they work, on a store whose
server is restarted and whose connections break.

    with PostgresServer() as server, fresh_schema(server) as address:
        aftermath = live_through(Terms(address, folder), Storm(runs=200), seed=17, server=server)
        assert not aftermath.problems

Runs are started all the while.  Every so often a blow falls, drawn by the seed: a worker is killed (SIGKILL) and
another one started in its place; one is frozen (SIGSTOP) for longer than a lease lasts, and thawed; a connection is
ended by the server; the server stops at once and starts again.  In between a proxy breaks connections at commits,
before they reach the server or once they have.  A person answers what is asked about calls that nobody else can settle,
by what the witness tells, and says that one did not happen only when it can no longer happen.

When the storm is over the workers may finish in peace.  Then all is held against what the runs should have come to, by
`chaos_judge`.
"""

from __future__ import annotations

import random
import sched
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.states import Status
from jumar.core.store import RunFilter
from jumar.errors import JumarError, RunExists
from jumar.harness.harness import Harness
from jumar.testing.chaos_app import AGENT, Terms, build
from jumar.testing.chaos_fleet import Fleet
from jumar.testing.chaos_judge import Aftermath, judge, run_id_of
from jumar.testing.chaos_person import Person
from jumar.testing.chaos_proxy import DroppingProxy

_LOOK = 0.3  # seconds between two looks at how far it is, and at what is asked
_AGAIN = 0.3  # seconds until something is tried again that the store refused


class Server(Protocol):
    """A server that may be stopped and started; `jumar.testing.postgres.PostgresServer` is one."""

    address: str
    port: int

    def restart(self) -> None: ...


class Storm(Struct, frozen=True):
    """How many runs, workers and blows.  Times are seconds: how long runs are started and blows fall, how often one
    falls, and by when all must have ended.  `drops` is the chance that a commit loses its
    connection.
    """

    runs: int = 200
    workers: int = 4
    seconds: float = 40.0
    every: float = 0.6
    bound: float = 120.0
    restarts: int = 1
    drops: float = 0.003


def live_through(terms: Terms, storm: Storm, *, seed: int, server: Server | None = None) -> Aftermath:
    """Let it storm, and tell what is left.  Without a `server` nothing befalls the store itself."""
    terms.files.mkdir(parents=True)
    Path(terms.folder, "witness").mkdir()
    with ExitStack() as stack:
        weather = _Weather(terms, storm, random.Random(seed), server, stack)
        weather.rage()
        weather.calm()
        return judge(weather.harness, terms, storm.runs, seed, weather.blows, weather.notes())


class _Weather:
    """One storm."""

    def __init__(
        self, terms: Terms, storm: Storm, luck: random.Random, server: Server | None, stack: ExitStack
    ) -> None:
        self._terms, self._storm, self._luck, self._server = terms, storm, luck, server
        self.blows: Counter[str] = Counter()
        self._agenda = sched.scheduler(time.monotonic, time.sleep)
        self._begun = 0.0
        self._over = self._is_calm = False
        self._proxy: DroppingProxy | None = None
        theirs = terms
        if server is not None:
            self._proxy = stack.enter_context(DroppingProxy(server.port, storm.drops, random.Random(luck.random())))
            theirs = replace(terms, address=terms.address.replace(f":{server.port}/", f":{self._proxy.port}/"))
        self.harness: Harness = stack.enter_context(build(replace(terms, mutation=None)))
        self._fleet = stack.enter_context(Fleet(theirs, storm.workers))
        self._person = Person(self.harness, terms)

    def rage(self) -> None:
        """Start the runs while blows fall, and go on until all have ended or time is up."""
        storm = self._storm
        self._fleet.assemble()
        self._begun = time.monotonic()
        for number in range(storm.runs):
            self._in(storm.seconds * 0.9 * number / storm.runs, self._start_run, number)
        for turn in range(storm.restarts if self._server is not None else 0):
            self._in(storm.seconds * (turn + 0.5) / storm.restarts, self._restart)
        kinds = ["kill", "freeze"] if self._server is None else ["kill", "freeze", "terminate"]
        for turn in range(int(storm.seconds / storm.every)):
            if turn % len(kinds) == 0:
                self._luck.shuffle(kinds)
            self._in((turn + self._luck.random()) * storm.every, self._blow, kinds[turn % len(kinds)])
        self._in(storm.seconds, self._let_up)
        self._in(_LOOK, self._look)
        while not self._over:
            self._agenda.run(blocking=False)
            # The next thing that is due, or a worker that has died.
            self._fleet.wait(0.05)

    def calm(self) -> None:
        """Let the workers end in good order."""
        self._fleet.dismiss()

    def notes(self) -> list[str]:
        """What went wrong before anything was looked at."""
        return [*self._fleet.problems, *self._person.problems]

    def _in(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> None:
        self._agenda.enterabs(self._begun + seconds, 1, action, arguments)

    def _later(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> None:
        self._agenda.enter(seconds, 1, action, arguments)

    def _start_run(self, number: int) -> None:
        try:
            self.harness.start(AGENT, number, run_id=run_id_of(number))
        except RunExists:
            pass  # its commit had got through
        except JumarError:
            self._later(_AGAIN, self._start_run, number)

    def _look(self) -> None:
        try:
            self._person.look()
            done = self.harness.store.runs(RunFilter(status=Status.COMPLETED, limit=self._storm.runs + 1))
        except JumarError:
            done = []
        self._over = len(done) >= self._storm.runs or time.monotonic() - self._begun > self._storm.bound
        self._later(_LOOK, self._look)

    # --- Blows. ---

    def _blow(self, kind: str) -> None:
        """Let a blow fall; where there is nobody whom it could hit just now, a little later."""
        if getattr(self, f"_{kind}")():
            self.blows[kind] += 1
        elif not self._is_calm:
            self._later(_AGAIN, self._blow, kind)

    def _kill(self) -> bool:
        return self._fleet.kill(self._luck)

    def _freeze(self) -> bool:
        return self._fleet.freeze(self._luck, self._luck.uniform(self._terms.ttl, self._terms.frozen))

    def _terminate(self) -> bool:
        """End one of the server's connections, as an administrator would."""
        import psycopg

        assert self._server is not None
        try:
            with psycopg.connect(self._server.address, autocommit=True) as connection:
                pids = [row[0] for row in connection.execute(_BACKENDS)]
                if not pids:
                    return False
                connection.execute("SELECT pg_terminate_backend(%s)", (self._luck.choice(pids),))
        except psycopg.OperationalError:
            return False
        return True

    def _restart(self) -> None:
        assert self._server is not None
        self._server.restart()
        self.blows["restart"] += 1

    def _let_up(self) -> None:
        self._is_calm = True
        self._fleet.thaw_all()
        if self._proxy is not None:
            self._proxy.chance = 0.0
            self.blows.update(self._proxy.dropped)


_BACKENDS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    " AND pid <> pg_backend_pid() ORDER BY pid"
)
