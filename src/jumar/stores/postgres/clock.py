"""The lease clock of a PostgreSQL store: the server's, as epoch milliseconds.

Guards read it in the server itself.  Who only looks must not pay a round trip for each look, so here it is estimated:
from this host's own clock, which counts on through suspend, and from how far the server's was from it when last heard.
That is no worse than half the round trip then, and each new reading corrects it.
"""

from __future__ import annotations

from jumar.core.records import LeaseTime
from jumar.stores.clock import lease_ms

SERVER = b"server"  # the one boot there is: the server's clock goes on where it is started anew
_FRESH_MS = 5_000


class ServerClock:
    """What is known of a server's clock.  Used from several threads at once."""

    def __init__(self) -> None:
        self._known = (0, -_FRESH_MS)  # how far ahead the server's clock is, and when that was learned on this host's

    def learn(self, server_ms: int, sent_ms: int) -> None:
        """The server read its clock between `sent_ms` on this host's and now."""
        heard_ms = lease_ms()
        self._known = (server_ms - (sent_ms + heard_ms) // 2, heard_ms)

    @property
    def is_fresh(self) -> bool:
        """Whether it was read a short while ago."""
        return 0 <= lease_ms() - self._known[1] < _FRESH_MS

    def ms(self) -> int:
        """The server's clock, as far as it is known."""
        return lease_ms() + self._known[0]

    def now(self) -> LeaseTime:
        """A reading of the lease clock."""
        return LeaseTime(SERVER, self.ms())
