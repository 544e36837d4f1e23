"""Checking the options that tools, agents and calls are given; each error names the option and its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from jumar.core.states import Effect, IdentityScope, Strategy
from jumar.errors import NotSupported, UsageError

EFFECTS = {each.label: each for each in (Effect.READ, Effect.WRITE, Effect.IDEMPOTENT, Effect.EXTERNAL)}

_MEANINGS = (
    '"read" where repeating changes nothing, "write" where only files of the workspace are changed, "idempotent" where '
    'it changes nothing more given the same key, "external" where it is done twice'
)


def effect_named(name: Any, whose: str) -> Effect:
    """The effect of this name.  There is no default: a tool taken for harmless would be repeated after a crash."""
    if name is None:
        raise UsageError(f"{whose} does not say what repeating it would do", hint=f"Give it effect=...: {_MEANINGS}.")
    if not isinstance(name, str) or name not in EFFECTS:
        raise UsageError(f"effect={name!r} is not known", hint=f"Use {_MEANINGS}.")
    return EFFECTS[name]


def approval_named(policy: Any) -> bool:
    """Whether a person is asked before each call."""
    if policy is None:
        return False
    if policy == "always":
        return True
    if callable(policy):
        raise NotSupported("approval= by a function is not in this version", hint='Use approval="always".')
    raise UsageError(f"approval={policy!r} is not known", hint='Use approval="always", or leave it out.')


STRATEGIES = {each.label: each for each in Strategy}


def strategy_named(name: Any) -> Strategy | None:
    """What is done about a failure, None where its class says so."""
    if name == "auto":
        return None
    if isinstance(name, str) and name in STRATEGIES:
        return STRATEGIES[name]
    raise UsageError(f"strategy={name!r} is not known", hint='Use "auto", "rollback", "retry" or "forward".')


def drift_named(policy: Any) -> bool:
    """Whether a resume is refused where something outside has changed."""
    if isinstance(policy, str) and policy in ("warn", "refuse"):
        return policy == "refuse"
    raise UsageError(f"drift={policy!r} is not known", hint='Use "warn" or "refuse".')


def scope_named(scope: Any) -> IdentityScope:
    """How far an identity reaches: its run, where nothing is said."""
    known = {each.label: each for each in IdentityScope}
    if scope is None:
        return IdentityScope.RUN
    if not isinstance(scope, str) or scope not in known:
        raise UsageError(f"identity_scope={scope!r} is not known", hint='Use "run" or "store".')
    return known[scope]


def whole(name: str, value: Any, least: int = 0, most: int = 1000) -> int:
    """A whole number within bounds."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise UsageError(f"{name}={value!r} is not a whole number from {least} to {most}")


MOST_SECONDS = 1e9  # some thirty years; no number of seconds reaches it


def seconds(name: str, value: Any, *, zero: bool) -> float | None:
    """A number of seconds, or None."""
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and (value > 0 or (zero and value == 0)) and value < MOST_SECONDS:
        return float(value)
    raise UsageError(f"{name}={value!r} is not a number of seconds")


def exception_types(name: str, value: Any) -> tuple[type[BaseException], ...]:
    """Exception types, from one or from several."""
    if not isinstance(value, (type, Iterable)):
        raise UsageError(f"{name}={value!r} is no list of exception types")
    kinds = (value,) if isinstance(value, type) else tuple(value)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise UsageError(f"{name}= lists {kind!r}, which is no exception type")
    return kinds


def several(name: str, value: Any) -> list[Any]:
    """The members of something given as a list; a text is no list of its letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UsageError(f"{name} takes a list, not {type(value).__name__}")
    return list(value)


def durability_named(name: Any) -> bool:
    """Whether what only reads is recorded without waiting for it."""
    if isinstance(name, str) and name in ("sync", "hot"):
        return name == "hot"
    raise UsageError(f"durability={name!r} is not known", hint='Use "sync" or "hot".')


def hot_named(name: Any, effect: Effect, whose: str) -> bool | None:
    """The same of one tool, None where it does not say; only what may be made again can be written hot."""
    if name is None:
        return None
    hot = durability_named(name)
    if hot and effect is not Effect.READ:
        raise UsageError(
            f"durability='hot' is for tools that only read, and {whose} is {effect.label}",
            hint="What it did must be on disk before the agent goes on: after a crash it would be sent again.",
        )
    return hot


_LATER = frozenset({"durability", "budget"})  # of a run or an agent


def refuse_later(where: str, options: dict[str, Any], taker: Callable[..., Any]) -> None:
    """Refuse every option: those that are to come as not supported, any other as unknown to what would take it."""
    for option in options:
        if option in _LATER:
            raise NotSupported(f"{where}({option}=...) is not in this version")
        parameters = signature(taker).parameters.values()
        known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        raise UsageError(f"{where} has no option {option!r}", hint=did_you_mean(option, known))


def did_you_mean(option: str, known: Iterable[str]) -> str | None:
    """A hint that names what may have been meant, and all there is."""
    from difflib import get_close_matches

    names = sorted(known)
    if not names:
        return None
    close = get_close_matches(option, names, 1)
    guess = f"Did you mean {close[0]}=? " if close else ""
    return f"{guess}Its options: {', '.join(names)}."
