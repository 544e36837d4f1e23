"""What the site's files are at some moment, seen by the process that runs no agent.

Each look is a line of a file that Jumar has no part in, so what is told of the files can be read again afterwards.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jumar.demo.stage import append

GONE = "gone"
_SHORT = 8  # hexadecimal digits of a hash that a person is shown


@dataclass(frozen=True)
class Look:
    """The site at one moment: what was seen of each path below it.

    A file is seen as its mode and the SHA-256 of its bytes, `0640 9f86d0...`, a folder as its mode alone.
    """

    when: str
    seen: dict[str, str]

    def at(self, path: str) -> str:
        """What was seen at a path."""
        return self.seen.get(path, GONE)

    def short(self, path: str) -> str:
        """The same for a person: of a hash its beginning."""
        mode, _, digest = self.at(path).partition(" ")
        return f"{mode} {digest[:_SHORT]}".strip()

    def other_than(self, earlier: Look) -> set[str]:
        """The paths at which something else is seen than in an earlier look."""
        return {path for path in self.seen.keys() | earlier.seen.keys() if self.at(path) != earlier.at(path)}


def take_look(site: Path, when: str, to: Path) -> Look:
    """Look at the site now, and append what is seen to the file `to`."""
    look = Look(when, {str(path.relative_to(site)): _seen(path) for path in sorted(site.rglob("*"))})
    append(str(to), {"when": look.when, "seen": look.seen})
    return look


def looks_in(lines: list[dict[str, Any]]) -> tuple[Look, ...]:
    """The looks out of the lines of such a file."""
    return tuple(Look(line["when"], line["seen"]) for line in lines)


def _seen(path: Path) -> str:
    found = path.lstat()
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    return f"{mode} {sha256(path.read_bytes()).hexdigest()}" if stat.S_ISREG(found.st_mode) else mode
