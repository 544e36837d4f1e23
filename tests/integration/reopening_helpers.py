"""What the tests of reopening act on."""

from __future__ import annotations

from typing import Any

from jumar import Harness


class Declined(Exception):
    """Promises that nothing was done."""


class Outside:
    """What the tools act on: it fails for the numbers in `down`, and counts what came."""

    def __init__(self, *down: int) -> None:
        self.down = set(down)
        self.came: list[int] = []

    def __call__(self, number: int) -> int:
        self.came.append(number)
        if number in self.down:
            raise Declined(f"{number} is down")
        return number * 10


def tool(harness: Harness, outside: Outside, effect: str = "external", name: str = "act") -> Any:
    """A tool that calls the outside once an attempt."""

    @harness.tool(effect=effect, name=name, errors=(Declined,))
    def act(number: int) -> int:
        return outside(number)

    return act
