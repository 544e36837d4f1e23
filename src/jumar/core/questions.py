"""What a run asks a person, as it is recorded: the question, its choices, the JSON type of its answer, its default.

The answer may be given in a process that does not know the agent's code, so what can be checked there without it stands
with the question.  Whether an answer is of the annotated type shows when the run goes on; one that is not is asked
for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.core.naming import is_storable
from jumar.errors import UsageError

MAX_QUESTION = 4000  # characters
MAX_CHOICES = 100

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def check_question(question: object) -> str:
    """A text of 1 to 4,000 characters; UsageError otherwise."""
    if isinstance(question, str) and question.strip() and len(question) <= MAX_QUESTION and is_storable(question):
        return question
    raise UsageError(f"ask takes a question of 1 to {MAX_QUESTION} characters, not {type(question).__name__}")


def check_choices(choices: object) -> list[str] | None:
    """Different texts, at least one; UsageError otherwise."""
    if choices is None:
        return None
    if isinstance(choices, (str, bytes)) or not isinstance(choices, Sequence):
        raise UsageError(f"choices= is a list of texts, not {type(choices).__name__}")
    texts = list(choices)
    sound = all(isinstance(text, str) and text and is_storable(text) for text in texts)
    if not texts or len(texts) > MAX_CHOICES or not sound or len(set(texts)) != len(texts):
        raise UsageError(f"choices={texts!r} are not 1 to {MAX_CHOICES} different texts")
    return texts


def misfit(details: dict[str, Any], value: Any) -> str | None:
    """Why `value` (JSON) cannot answer the question with these recorded details; None where it may."""
    choices = details.get("choices")
    if choices is not None:
        return None if value in choices else f"the answer is one of {', '.join(map(repr, choices))}, not {value!r}"
    wanted = details.get("type")
    kinds = _TYPES.get(wanted) if isinstance(wanted, str) else None
    if kinds is None:
        return None
    if isinstance(value, bool) and bool not in kinds:
        return f"the answer is JSON of type {wanted}, not a boolean"
    return None if isinstance(value, kinds) else f"the answer is JSON of type {wanted}, not {value!r}"
