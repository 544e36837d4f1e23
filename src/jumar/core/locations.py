"""Where the files of a run are, as its row says it.

In a store of one host that is the absolute path of their root: `/srv/site`.  In a store that several hosts share the
host comes first: `web-3-4f2a9c:/srv/site`; the path alone would not tell whose folder is meant.  Paths held by writes
are kept under the whole text, so two hosts' folders of one path are never in each other's way.
"""

from __future__ import annotations

from msgspec import Struct

_SEPARATOR = ":"


class Location(Struct, frozen=True):
    """The root of a run's files, and the host it is on; None where the store is one host's alone."""

    host: str | None
    root: str

    @property
    def text(self) -> str:
        """As a run's row has it."""
        return self.root if self.host is None else f"{self.host}{_SEPARATOR}{self.root}"


def located(text: str) -> Location:
    """A location from a run's row."""
    if text.startswith("/"):
        return Location(None, text)
    host, separator, root = text.partition(_SEPARATOR)
    return Location(host, root) if separator else Location(None, text)


def root_of(text: str) -> str:
    """The path of the root alone, for people and for tools; on which host it is, is not asked."""
    return located(text).root
