"""The words of a brief, in English and in Chinese.

Both languages say the same things in the same order; only what there is to say is said.  Texts from outside stand in
quotation marks of the language, which they themselves do not hold.  Where the whole would be too long, fewer entries of
each list are told, and how many are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from jumar.core.briefs.chinese import Chinese
from jumar.core.briefs.english import English
from jumar.core.briefs.records import Asked, Brief, DoneStep, Doubt, Drift, Standing, Trouble
from jumar.errors import UsageError

T = TypeVar("T")

MOST_PROSE = 4000  # characters
_FEWER = (20, 12, 8, 5, 3, 2, 1)  # entries of each list, until the whole is short enough


class Words(Protocol):
    """One language."""

    def heading(self, brief: Brief) -> str: ...
    def rolled_back(self, version: int, forked_from: str | None) -> str: ...
    def finished(self, brief: Brief, count: int) -> str: ...
    def finished_step(self, brief: Brief, step: DoneStep) -> str: ...
    def plan(self, steps: Sequence[str], missing: int) -> str: ...
    def planned_step(self, number: int, name: str, state: str) -> str: ...
    def files(self, names: Sequence[str], missing: int, *, changed: bool) -> str: ...
    def unnamed(self, count: int) -> str: ...
    def error(self, error: Trouble) -> str: ...
    def advice(self, error_class: str, *, of_call: bool) -> str: ...
    def standing(self) -> str: ...
    def standing_call(self, call: Standing) -> str: ...
    def doubt(self, doubt: Doubt) -> str: ...
    def waiting(self) -> str: ...
    def asked(self, asked: Asked) -> str: ...
    def drift(self) -> str: ...
    def drifted(self, drift: Drift) -> str: ...
    def earlier(self, count: int) -> str: ...
    def more(self, count: int) -> str: ...
    def instruction(self, brief: Brief) -> str: ...


LANGUAGES: dict[str, Words] = {"en": English(), "zh": Chinese()}


def prose(brief: Brief, lang: str = "en") -> str:
    """A brief as text, at most `MOST_PROSE` characters; UsageError for a language that is not known."""
    words, text = words_in(lang), ""
    for most in _FEWER:
        text = "\n".join(_lines(brief, words, most))
        if len(text) <= MOST_PROSE:
            return text
    return text[: MOST_PROSE - 1] + "…"


def words_in(lang: str) -> Words:
    """The words of a language; UsageError for one that is not known."""
    words = LANGUAGES.get(lang) if isinstance(lang, str) else None
    if words is None:
        raise UsageError(f"lang={lang!r} is not known", hint=f"Use one of {', '.join(map(repr, LANGUAGES))}.")
    return words


def _lines(brief: Brief, words: Words, most: int) -> Iterable[str]:
    yield words.heading(brief)
    if brief.rolled_back_to is not None:
        yield words.rolled_back(brief.rolled_back_to, brief.forked_from)
    total = len(brief.done) + brief.left_out.get("done", 0)
    if total:
        yield words.finished(brief, total)
        yield from _newest(brief, "done", brief.done, most, words, lambda step: words.finished_step(brief, step))
    if brief.planned:
        yield _plan(brief, words, most)
    for name, changed in (("files_changed", True), ("files_to_change", False)):
        files: tuple[str, ...] = getattr(brief, name)
        if files:
            missing = max(0, len(files) - most) + brief.left_out.get(name, 0)
            yield words.files(files[:most], missing, changed=changed)
    if brief.unnamed_changes:
        yield words.unnamed(brief.unnamed_changes)
    if brief.last_error is not None:
        yield words.error(brief.last_error)
    yield from _newest(brief, "doubts", brief.doubts, most, words, words.doubt)
    if brief.standing:
        yield words.standing()
        yield from _newest(brief, "standing", brief.standing, most, words, words.standing_call)
    if brief.waiting_on:
        yield words.waiting()
        yield from _oldest(brief, "waiting_on", brief.waiting_on, most, words, words.asked)
    if brief.drift:
        yield words.drift()
        yield from _oldest(brief, "drift", brief.drift, most, words, words.drifted)
    yield words.instruction(brief)


def _newest(
    brief: Brief, name: str, entries: Sequence[T], most: int, words: Words, told: Callable[[T], str]
) -> Iterable[str]:
    missing = max(0, len(entries) - most) + brief.left_out.get(name, 0)
    if missing:
        yield words.earlier(missing)
    yield from map(told, entries[-most:])


def _oldest(
    brief: Brief, name: str, entries: Sequence[T], most: int, words: Words, told: Callable[[T], str]
) -> Iterable[str]:
    missing = max(0, len(entries) - most) + brief.left_out.get(name, 0)
    yield from map(told, entries[:most])
    if missing:
        yield words.more(missing)


def _plan(brief: Brief, words: Words, most: int) -> str:
    """The plan around the step to go on with."""
    planned = brief.planned
    now = next((place for place, step in enumerate(planned) if step.state == "now"), len(planned))
    start = max(0, min(now - most // 2, len(planned) - most))
    told = planned[start : start + most]
    missing = len(planned) - len(told) + brief.left_out.get("planned", 0)
    return words.plan([words.planned_step(step.number, step.name, step.state) for step in told], missing)
