"""The lease clock of a PostgreSQL store: the server's, as epoch milliseconds.

Guards read it in the server itself.  Who only looks must not pay a round trip for each look, so here it is estimated:
from this host's own clock, which counts on through suspend, and from how far the server's was from it when last heard.
The server read its clock some time before that was heard, so the estimate is never ahead: a lease that it takes for run
out has run out.  It is behind by less than the round trip, and each new reading corrects it.
"""

from __future__ import annotations

from jumar.core.records import LeaseTime
from jumar.stores.clock import lease_ns

SERVER = b"server"  # the one boot there is: the server's clock goes on where it is started anew
_MS = 1_000_000  # nanoseconds
_FRESH_NS = 5_000 * _MS


class ServerClock:
    """What is known of a server's clock.  Used from several threads at once."""

    def __init__(self) -> None:
        self._known = (0, -_FRESH_NS)  # how far ahead the server's clock is, and when that was learned on this host's

    def learn(self, server_ms: int) -> None:
        """The server has just read its clock."""
        heard = lease_ns()
        self._known = (server_ms * _MS - heard, heard)

    @property
    def is_fresh(self) -> bool:
        """Whether it was read a short while ago."""
        return 0 <= lease_ns() - self._known[1] < _FRESH_NS

    def ms(self) -> int:
        """The server's clock, as far as it is known."""
        return (lease_ns() + self._known[0]) // _MS

    def now(self) -> LeaseTime:
        """A reading of the lease clock."""
        return LeaseTime(SERVER, self.ms())
