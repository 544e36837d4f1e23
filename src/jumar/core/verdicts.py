"""What a probe or a person says of a call that may have happened."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Happened(Struct, Generic[T], frozen=True):
    """The effect took place; `result` is what the tool would have returned."""

    result: T


class NotHappened(Struct, frozen=True):
    """The effect did not take place."""


class Unknown(Struct, frozen=True):
    """It cannot be told from here."""
