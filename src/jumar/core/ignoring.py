"""What belongs to a snapshot: gitignore's rules, frozen into it, together with its scope.

Rules are read as git reads them.  An entry is judged by itself once its folder is known not to be ignored (an ignored
folder is never entered); of all rules that match it the last decides.  Texts count in their order in the snapshot:
outer folders first, and last of all, so that they win, the rules that were given to the workspace itself.  They are
frozen into the snapshot, text by text with the folder each speaks about, and whoever asks later asks the frozen ones.
`Ignoring` is the stack of texts that speak about one folder; its key is equal exactly where the stack is, so what was
decided under a key need not be decided again.

What a scope's glob names is covered even if the rules ignore it, for it was named; below it the rules count again,
unless it was ignored itself.  The folders above it belong to the tree as well, without their other content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from jumar.core import globs
from jumar.core.scopes import Reach
from jumar.core.trees import RuleText, Snapshot, join

GIT = b".git"  # left alone, wherever it is and whatever it is
IGNORE_FILE = b".gitignore"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Line(Struct, frozen=True, gc=False):
    """One pattern.  `whole` ones are matched against the path below the text's folder, others against the name."""

    pattern: re.Pattern[str]
    ignores: bool
    only_dirs: bool
    whole: bool


class _Text:
    """The patterns of one ignore file, the last first; `_any` finds out quickly that none of them matches."""

    def __init__(self, text: bytes) -> None:
        raw = text.removeprefix(_BYTE_ORDER_MARK).decode("latin-1")  # git compares bytes
        found = [line for line in map(_line, raw.split("\n")) if line is not None]
        self._lines = tuple(reversed(found))
        self._any_name, self._any_path = (
            _either(line for line in found if line.whole == whole) for whole in (False, True)
        )

    def told(self, path: str, is_dir: bool) -> bool | None:
        """Whether the entry is ignored, or None where no pattern speaks of it."""
        name = path.rpartition("/")[2]
        if not self._any_name(name) and not self._any_path(path):
            return None
        for line in self._lines:
            if (is_dir or not line.only_dirs) and line.pattern.fullmatch(path if line.whole else name):
                return line.ignores
        return None


def _either(lines: Iterator[_Line]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(f"(?:{line.pattern.pattern})" for line in lines) or "(?!)", re.DOTALL).fullmatch


def _line(text: str) -> _Line | None:
    """A line of an ignore file; None where it is a comment or can match nothing."""
    text = text.removesuffix("\r")
    if text.startswith("#"):
        return None
    text = re.sub(r"(?<!\\)((?:\\\\)*) +\Z", r"\1", text) if text.endswith(" ") else text
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    only_dirs = text.endswith("/")
    text = text.removesuffix("/")
    whole = "/" in text
    regex = globs.path(text.removeprefix("/")) if whole else globs.segment(text)
    if not regex:
        return None
    return _Line(re.compile(regex, re.DOTALL), ignores, only_dirs, whole)


_compiled = lru_cache(maxsize=1024)(_Text)


class Ignoring:
    """The rules that speak about the entries of one folder: those read from ignore files, then those given."""

    __slots__ = ("_given", "_read", "key")

    def __init__(self, read: tuple[RuleText, ...] = (), given: tuple[RuleText, ...] = ()) -> None:
        self._read = read
        self._given = given
        self.key = _key((*read, *given))

    def below(self, texts: tuple[RuleText, ...]) -> Ignoring:
        """The stack with the texts of one folder further down."""
        return Ignoring((*self._read, *texts), self._given) if texts else self

    def ignores(self, path: bytes, is_dir: bool) -> bool:
        """Whether the entry at `path` is ignored, its folder not being so."""
        for rule in (*reversed(self._given), *reversed(self._read)):
            inner = path[len(rule.folder) + 1 :] if rule.folder else path
            told = _compiled(rule.text).told(inner.decode("latin-1"), is_dir)
            if told is not None:
                return told
        return False

    def __bool__(self) -> bool:
        """Whether there are any rules."""
        return bool(self._read or self._given)


def _key(rules: Sequence[RuleText]) -> bytes:
    """Eight bytes that tell one stack of rules from another."""
    digest = hashlib.sha256()
    for rule in rules:
        digest.update(b"%d,%d:%s%s" % (len(rule.folder), len(rule.text), rule.folder, rule.text))
    return digest.digest()[:8]


class Frozen:
    """The rules of a snapshot, asked instead of being read from ignore files."""

    def __init__(self, rules: tuple[RuleText, ...]) -> None:
        # Rules about the root at the end are those given to the workspace, which come before all others; a text of
        # the root's own ignore file stands at the start, or alone, where the place makes no difference.
        count = len(rules)
        while count and not rules[count - 1].folder:
            count -= 1
        self._texts: dict[bytes, tuple[RuleText, ...]] = {}
        for rule in rules[:count]:
            self._texts[rule.folder] = (*self._texts.get(rule.folder, ()), rule)
        self.given = rules[count:]
        self.at = cache(self._at)

    def texts(self, folder: bytes) -> tuple[RuleText, ...]:
        """The texts that lie in this very folder."""
        return self._texts.get(folder, ())

    def _at(self, folder: bytes) -> Ignoring:
        above = self.at(folder.rpartition(b"/")[0]) if folder else Ignoring((), self.given)
        return above.below(self.texts(folder))

    def ignores(self, path: bytes, is_dir: bool) -> bool:
        """Whether `path` is ignored, by itself or because a folder above it is."""
        folder = path.rpartition(b"/")[0]
        return (bool(folder) and self.ignores(folder, True)) or self.at(folder).ignores(path, is_dir)


class Boundary:
    """What a snapshot would have captured, had it been there."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rules = Frozen(snapshot.rules)
        self._reach = Reach.of(snapshot.scope) if snapshot.scope else None
        self._skipped = {each.path for each in snapshot.skipped}

    def would_capture(self, path: bytes, is_dir: bool) -> bool:
        """Whether a file (or with `is_dir` a folder) at `path` would be in the snapshot's tree.

        False for what lies in a `.git`, outside the scope, at or below something that was skipped, or is ignored by
        the snapshot's own rules.  The folders above a declared path are part of the tree, and so is the root, b"".
        """
        reach = self._reach
        named = reach is None or reach.matched  # from here on everything below is covered
        lifted = False  # ... whatever the rules say
        folder = b""
        names = path.split(b"/") if path else []
        for depth, name in enumerate(names, 1):
            here = join(folder, name)
            is_folder = is_dir or depth < len(names)
            if name == GIT or here in self._skipped:
                return False
            if named:
                if not lifted and self._rules.at(folder).ignores(here, is_folder):
                    return False
            else:
                reach = reach.into(name) if reach is not None else None
                if reach is None:
                    return False
                named = reach.matched
                lifted = named and self._rules.ignores(here, is_folder)
            folder = here
        return b"" not in self._skipped and (named or is_dir)
