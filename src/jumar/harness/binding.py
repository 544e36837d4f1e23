"""From the arguments of one call to their names and values, with defaults applied.

`inspect.Signature.bind` costs several microseconds, so the common shape (no `*args`, no `**kwargs`, and nothing given
twice) is bound by hand; everything else, mistakes included, goes to `bind`, which also words the error.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Any

_EMPTY = inspect.Parameter.empty
_SIMPLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


class Binder:
    """Binds calls of one function."""

    __slots__ = ("_count", "_defaults", "_names", "_simple", "signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self._simple = all(parameter.kind in _SIMPLE for parameter in parameters)
        self._names = tuple(parameter.name for parameter in parameters)
        self._count = len(parameters)
        self._defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not _EMPTY
        }

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name; TypeError where they do not fit."""
        if not self._simple or kwargs:
            return self._bound(args, kwargs)
        given = len(args)
        if given == self._count:
            return dict(zip(self._names, args))  # noqa: B905 - they are as many, and asking for it doubles the cost
        values = dict(zip(self._names, args, strict=False))
        for name in self._names[given:]:
            if name not in self._defaults:
                return self._bound(args, kwargs)
            values[name] = self._defaults[name]
        return values if given < self._count else self._bound(args, kwargs)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


def has_signature(function: Callable[..., Any]) -> bool:
    """Whether the function tells its arguments; some that are written in C do not."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


def hints_of(function: Callable[..., Any], names: dict[str, Any] | None) -> dict[str, Any] | None:
    """The function's annotations as types; `names` helps with those written as text inside another function.

    None where a name cannot be found yet.
    """
    target = inspect.unwrap(function)
    if not hasattr(target, "__annotations__"):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - an instance that is called: its class's method
    try:
        return typing.get_type_hints(target, localns=_closure(target) | (names or {}) or None, include_extras=True)
    except NameError:
        return None
    except TypeError:
        return {}


def _closure(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def caller_names(depth: int) -> dict[str, Any]:
    """The local names where a decorator was applied, `depth` frames up: types defined inside a function are found
    there.
    """
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
