"""Which file names Windows can't hold, so that a snapshot taken elsewhere says what would be lost there.

A name is refused there for its characters, for a dot or a space at its end, for being a device's (`aux`, `com1.log`),
for not being Unicode, or for its length; two names of one folder that differ in case alone can't stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_HARMLESS = re.compile(rb"[A-Za-z0-9_.-]{5,200}(?<!\.)").fullmatch  # long enough to be no device's name by itself
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]').search
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
).fullmatch
_MOST_UNITS = 255  # UTF-16 code units


def trouble(name: bytes) -> str | None:
    """Why Windows can't hold a file of this name (one segment), or None."""
    if _HARMLESS(name) and name.find(b".", 3, 8) == -1:
        return None
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return "is not Unicode"
    if _FORBIDDEN(text):
        return "has a character that Windows forbids"
    if text.endswith((".", " ")):
        return "ends with a dot or a space"
    if _DEVICE(text.partition(".")[0].rstrip(" ")):
        return "is the name of a device"
    if len(text.encode("utf-16-le")) > 2 * _MOST_UNITS:
        return "is too long"
    return None


def unportable(names: Iterable[bytes]) -> Iterator[bytes]:
    """Those of one folder's names that Windows can't hold; of names that differ in case alone all but the first."""
    seen: set[str] = set()
    for name in names:
        folded = name.decode("utf-8", "surrogateescape").casefold()
        if folded in seen or trouble(name) is not None:
            yield name
        seen.add(folded)
