"""Which file names Windows can't hold, so that a snapshot taken elsewhere says what would be lost there.

A name is refused there for its characters, for a dot or a space at its end, for being a device's (`aux`, `com1.log`),
for not being Unicode, or for its length; two names of one folder that differ in case alone can't stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Names, with '/' between, that need no closer look: plain letters, no device's, not too long, no dot at the end.
_PLAIN = rb"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|\Z))[a-z0-9_.-]{1,200}(?<!\.)"
_ALL_PLAIN = re.compile(rb"(?:%s/)*%s" % (_PLAIN, _PLAIN), re.IGNORECASE).fullmatch
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]').search
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
).fullmatch
_MOST_UNITS = 255  # UTF-16 code units


def trouble(name: bytes) -> str | None:
    """Why Windows can't hold a file of this name (one segment), or None."""
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


def unportable(names: Sequence[bytes]) -> list[bytes]:
    """Those of one folder's names that Windows can't hold; of names that differ in case alone all but the first."""
    together = b"/".join(names)
    if _ALL_PLAIN(together) and len(set(together.lower().split(b"/"))) == len(names):
        return []
    seen: set[str] = set()
    found = []
    for name in names:
        folded = name.decode("utf-8", "surrogateescape").casefold()
        if folded in seen or trouble(name) is not None:
            found.append(name)
        seen.add(folded)
    return found
