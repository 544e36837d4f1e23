"""Globs as git understands them (its `wildmatch`), written as regular expressions.

`*` and `?` never match a `/`, nor does a class; `[!x]` and `[^x]` negate, ranges and `[:alpha:]` work, a backslash
takes what follows literally.  `**` is any number of folders where it stands alone between slashes, and a `*` elsewhere.
"""

from __future__ import annotations

import re

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_PIECE = re.compile(r"(?P<stars>\*+)|\?|\[|\\(?P<literal>.?)|[^*?\[\\]+", re.DOTALL)


def literal(glob: str) -> str | None:
    """The one name that a glob without wildcards stands for, its escapes undone; None where it has wildcards."""
    if not any(mark in glob for mark in "*?[\\"):
        return glob
    plain = re.sub(r"\\(.)", "", glob, flags=re.DOTALL)
    if any(mark in plain for mark in "*?[\\"):
        return None
    return re.sub(r"\\(.)", r"\1", glob, flags=re.DOTALL)


def segment(glob: str) -> str | None:
    """A glob for one segment as a regular expression for a full match; None where it can match nothing."""
    out, at = "", 0
    while at < len(glob):
        piece = _PIECE.match(glob, at)
        assert piece is not None  # its last branch takes what the others leave
        at = piece.end()
        if piece[0] == "[":
            found = _class(glob, at)
            if found is None:
                return None
            text, at = found
            out += text
        elif piece["stars"]:
            out += "[^/]*"
        elif piece[0] == "?":
            out += "[^/]"
        elif piece["literal"] == "":
            return None  # a backslash with nothing after it
        else:
            out += re.escape(piece["literal"] or piece[0])
    return out


def path(glob: str) -> str | None:
    """A glob of several segments as a regular expression for a full match; None where it can match nothing."""
    parts = glob.split("/")
    out = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            # Before the last segment it may stand for no folder at all; as the last one it stands for something.
            out += ".+" if last else "(?:[^/]+/)*"
            continue
        regex = segment(part)
        if regex is None:
            return None
        out += regex + ("" if last else "/")
    return out


def _class(glob: str, at: int) -> tuple[str, int] | None:
    """A bracket expression that begins before `at`: its regular expression, and where it ends."""
    negated = glob[at : at + 1] in ("!", "^")
    at += negated
    inner, first = "", at
    while True:
        char = glob[at : at + 1]
        if not char or char == "/":
            return None
        if char == "]" and at > first:
            break
        named = re.compile(r"\[:(\w*):\]").match(glob, at)
        if named is not None:
            if named[1] not in _CLASSES:
                return None
            inner, at = inner + _CLASSES[named[1]], named.end()
            continue
        low, at = _member(glob, at)
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(glob, at + 1)
            inner += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            inner += re.escape(low)
    if not inner:
        return ("[^/]" if negated else r"(?!)"), at + 1
    return (f"[^/{inner}]" if negated else f"(?!/)[{inner}]"), at + 1


def _member(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        return glob[at + 1], at + 2
    return glob[at], at + 1
