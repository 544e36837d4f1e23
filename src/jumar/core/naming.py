"""Ids and names: run ids, call ids, scope paths, slugs and checkpoint names.

A run id is a UUIDv7: 48 bits of Unix milliseconds, then random bits, so that ids sort by age.  A call id reads like
`scan#2.search.1`: the second entry of step `scan`, the first call of `search` in it.  A branch of a gather or map
adds a part such as `gather:0` or `map#2:3`: item 3 of the second map.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from jumar.core.limits import MAX_KEY, MAX_LABEL, MAX_SLUG
from jumar.core.references import secret_in
from jumar.core.states import IdentityScope, Level, RequestKind
from jumar.errors import InvalidReference, RequestNotFound, UsageError

_SLUG = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def uuid7(unix_ms: int, random: bytes) -> str:
    """The UUIDv7 of a wall-clock millisecond and 10 random bytes (RFC 9562, section 5.7)."""
    number = int.from_bytes(unix_ms.to_bytes(6, "big") + random[:10], "big")
    number = number & ~(0xF << 76) | 7 << 76
    number = number & ~(0b11 << 62) | 0b10 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def check_run_id(text: str) -> str:
    """`text` as a run id in its one spelling; UsageError where it is not a UUID."""
    lowered = text.lower() if isinstance(text, str) else ""
    if not _UUID.match(lowered):
        raise UsageError(
            f"{text!r} is not a run id", hint="Leave run_id out, or give a UUID such as uuid.uuid4() makes."
        )
    return lowered


def check_name(kind: str, name: str) -> str:
    """`name` where it can name a tool or an agent; UsageError otherwise."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise UsageError(
        f"{name!r} cannot name {kind}",
        hint="Use letters, digits, '_' and '-', beginning with a letter or '_', at most 64 of them.",
    )


def check_label(kind: str, label: str) -> str:
    """`label` where a person may give it to a step or checkpoint: text of 1 to 200 characters that UTF-8 can hold.

    It enters the names of checkpoints, so what looks like a secret is refused, and not repeated in the message.
    """
    if not isinstance(label, str) or not label.strip():
        raise InvalidReference(f"{kind} needs a name, not {label!r}", hint="Give it a short text.")
    if len(label) > MAX_LABEL:
        raise InvalidReference(
            f"the name of {kind} has {len(label)} characters; at most {MAX_LABEL} are taken", hint="Shorten it."
        )
    if not is_storable(label):
        raise InvalidReference(f"the name of {kind} holds a character that cannot be stored", hint="Leave it out.")
    secret = secret_in(label)
    if secret is not None:
        raise InvalidReference(
            f"the name of {kind} looks like {secret}", hint="Names enter checkpoints: keep secrets out of them."
        )
    return label


def check_key(key: str) -> str:
    """`key` where a call may be known by it: text of 1 to 256 characters that UTF-8 can hold; UsageError otherwise."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        shown = f"{key[:40]!r}... ({len(key)} characters)" if isinstance(key, str) and key else repr(key)
        raise UsageError(f"key={shown} is not a text of 1 to {MAX_KEY} characters")
    if not is_storable(key):
        raise UsageError(f"key={key!r} holds a character that cannot be stored")
    return key


def is_storable(text: str) -> bool:
    """Whether a row can hold the text: neither NUL nor half a surrogate pair is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def storable(text: str) -> str:
    """`text` with what a row cannot hold made visible."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def slug(label: str) -> str:
    """`label` reduced to `[A-Za-z0-9_.-]`, bounded; a short hash where nothing of it is left or it had to be cut."""
    reduced = _SLUG.sub("-", label).strip("-.")
    if not reduced:
        return hashlib.sha256(label.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    if len(reduced) > MAX_SLUG:
        return f"{reduced[: MAX_SLUG - 9]}-{hashlib.sha256(label.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"
    return reduced


def entered(name: str, times: int) -> str:
    """The path part of the `times`-th entry of something: `scan`, then `scan#2`."""
    return name if times == 1 else f"{name}#{times}"


def step_part(label: str, times: int) -> str:
    """The path part of the `times`-th entry of a step; without dots, which separate the parts of a path."""
    return entered(slug(label).replace(".", "-"), times)


def is_in_step(path: str) -> bool:
    """Whether a scope path names a step, and not only items of a `gather` or `map`."""
    return bool(path) and any(":" not in part for part in path.split("."))


def below(path: str, part: str) -> str:
    """`part` under a scope path; the root's path is empty."""
    return f"{path}.{part}" if path else part


def call_id(step: str, tool: str, ordinal: int, generation: int) -> str:
    """The id of the `ordinal`-th call of `tool` in a step; after a rollback it carries the generation."""
    base = f"{step}.{tool}.{ordinal}" if step else f"{tool}.{ordinal}"
    return f"{base}@{generation}" if generation else base


def undo_id(call: str) -> str:
    """The id of the call that undoes another one."""
    return f"{call}.undo"


def meant(text: str, ids: Iterable[str]) -> set[str]:
    """Which of these call ids a person means: the very one, or else the only one that ends so; empty where there is
    none, RequestNotFound where there are several.
    """
    known = set(ids)
    found = {text} & known or {each for each in known if each.endswith(f".{text}")}
    if len(found) > 1:
        raise RequestNotFound(f"{text} may mean any of {', '.join(sorted(found))}", hint="Give the whole id.")
    return found


def checkpoint_name(task: str, step: str, level: Level, unix_ms: int) -> str:
    """`{task}_{step}_{level}_{UTC time}`, out of slugs, for people."""
    moment = datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{slug(task)}_{slug(step or 'start')}_{level.label}_{moment}.{unix_ms % 1000:03d}Z"


def idempotency_key(
    run_id: str,
    call: str,
    args_digest: bytes,
    identity: str | None = None,
    scope: IdentityScope | None = None,
    undone: int = 0,
) -> str:
    """The key a service is given to recognise a repeated request: stable over retries and takeovers of one call; and,
    where the action has an identity, over all calls that ask for it with the same arguments.

    Of a fork `run_id` is its origin's.  What was done and `undone` so many times is another request from then on.
    """
    if identity is None:
        named = f"{run_id}/{call}/"
    else:
        named = f"identity/{'' if scope is IdentityScope.STORE else run_id}/{identity}/"
    if undone:
        named += f"undone {undone}/"
    return "jumar-" + hashlib.sha256(named.encode() + args_digest).hexdigest()[:40]


def request_id(run_id: str, call_seq: int, attempt: int, kind: RequestKind) -> str:
    """The id of what is asked about one attempt of one call; asking twice is asking the same."""
    return f"{run_id}/{call_seq}/{kind.label}/{attempt}"
