"""References: the only outside thing a cursor or checkpoint may hold, as `kind:id`.

They are checked where they come in.  The kind must be one the harness declares; the id is 1 to 128 characters out of
`A-Z a-z 0-9 . _ -`.  Shapes of well-known secrets are refused, because a key that once entered a checkpoint stays
there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from jumar.core.limits import MAX_REFERENCE_ID, MAX_REFERENCES
from jumar.errors import InvalidReference

KINDS: frozenset[str] = frozenset(
    [
        "artifact",
        "call",
        "checkpoint",
        "claim",
        "commit",
        "doc",
        "file",
        "issue",
        "item",
        "job",
        "order",
        "record",
        "report",
        "run",
        "step",
        "task",
        "ticket",
        "url-id",
        "user",
    ]
)

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_ID = re.compile(r"[A-Za-z0-9_.-]+\Z")

# A shape counts from where a word begins: `sk-...` is a key, `task-...` is not.
_SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("an OpenAI or Anthropic API key", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}")),
    ("an AWS access key", re.compile(r"(?<![A-Za-z0-9])(AKIA|ASIA)[A-Z0-9]{16}")),
    ("a GitHub token", re.compile(r"(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})")),
    ("a GitLab token", re.compile(r"glpat-[A-Za-z0-9_-]{16,}")),
    ("a Slack token", re.compile(r"xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a Google API key", re.compile(r"AIza[A-Za-z0-9_-]{30,}")),
    ("a Stripe key", re.compile(r"(?<![A-Za-z0-9])[rsp]k_(live|test)_[A-Za-z0-9]{10,}")),
    ("a Hugging Face token", re.compile(r"hf_[A-Za-z0-9]{30,}")),
    ("a PyPI token", re.compile(r"pypi-[A-Za-z0-9_-]{30,}")),
    ("an npm token", re.compile(r"npm_[A-Za-z0-9]{30,}")),
    ("a JSON web token", re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}")),
)


_SHORTEST_SECRET = 15  # characters; of a label so short nothing needs to be searched


def secret_in(text: str) -> str | None:
    """What kind of secret the text looks like, if any."""
    if len(text) < _SHORTEST_SECRET:
        return None
    return next((what for what, shape in _SECRETS if shape.search(text)), None)


def check_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """The declared kinds with the ones every harness has; InvalidReference where one is no plain word."""
    if isinstance(kinds, (str, bytes)) or not isinstance(kinds, Iterable):
        raise InvalidReference(
            f"reference_kinds takes a list of kinds, not {type(kinds).__name__}", hint="Write reference_kinds=['kind']."
        )
    declared = frozenset(kinds)
    for kind in declared:
        if not isinstance(kind, str) or not _KIND.match(kind):
            raise InvalidReference(f"{kind!r} cannot be a kind of reference", hint="Use a short lower-case word.")
    return KINDS | declared


def check_references(references: Iterable[str], kinds: Collection[str]) -> tuple[str, ...]:
    """`references` where each may enter a checkpoint; InvalidReference names the first that may not, and why."""
    if isinstance(references, (str, bytes)) or not isinstance(references, Iterable):
        raise InvalidReference(
            f"refs takes a list of references, not {type(references).__name__}", hint="Write refs=['kind:id']."
        )
    checked = tuple(check_reference(reference, kinds) for reference in references)
    if len(checked) > MAX_REFERENCES:
        raise InvalidReference(f"{len(checked)} references in one checkpoint; at most {MAX_REFERENCES} are taken")
    return checked


def check_reference(reference: str, kinds: Collection[str]) -> str:
    """One reference, checked for shape, length, kind and likeness to a secret."""
    if not isinstance(reference, str):
        raise InvalidReference(f"a reference is text like 'claim:c-17', not {type(reference).__name__}")
    # A secret is named before anything else is said, and never repeated in the message.
    secret = secret_in(reference)
    if secret is not None:
        raise InvalidReference(
            f"a reference looks like {secret}",
            hint="Keep secrets out of checkpoints: refer to where the secret is kept.",
        )
    kind, colon, identifier = reference.partition(":")
    if not colon:
        raise InvalidReference(f"{_shown(reference)} has no kind: a reference is `kind:id`")
    if kind not in kinds:
        raise InvalidReference(
            f"{_shown(kind)} is no declared kind of reference",
            hint=f"Declare it with Harness(..., reference_kinds={{...}}). Known: {', '.join(sorted(kinds))}.",
        )
    if len(identifier) > MAX_REFERENCE_ID:
        raise InvalidReference(
            f"the id of a {kind} reference has {len(identifier)} characters; at most {MAX_REFERENCE_ID} are taken"
        )
    if not _ID.match(identifier):
        raise InvalidReference(f"{_shown(reference)} holds a character a reference may not have")
    return reference


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
