"""Async twins: for every operator's method `x` a coroutine `ax` that does the same work in a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def aside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same work in a thread, so that no event loop blocks."""
    import asyncio

    return await asyncio.to_thread(work, *args, **kwargs)


def twin(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The async twin of an operator's method: the same work in a thread, so that no event loop blocks."""

    @wraps(method)
    async def awaited(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await aside(method, self, *args, **kwargs)

    awaited.__name__ = f"a{method.__name__}"
    awaited.__doc__ = f"`{method.__name__}`, to be awaited."
    return awaited
