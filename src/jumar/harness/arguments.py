"""From the JSON of a model, or of a person, to the typed arguments of a function.

Each parameter is decoded by its annotation, as a recorded result is; one without an annotation takes any JSON.  What
does not fit is told in words that a model can act on: which argument, what was wrong, and the signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

from jumar.core.codec import codec_for, encode_arguments
from jumar.errors import NotStorable, UsageError
from jumar.harness.binding import Binder

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class Arguments:
    """Reads the arguments of one function."""

    def __init__(self, name: str, binder: Binder, hints: dict[str, Any]) -> None:
        self._name = name
        self._binder = binder
        self._hints = hints
        self._codecs = {
            parameter.name: codec_for(hints.get(parameter.name, Any))
            for parameter in binder.signature.parameters.values()
        }

    def __call__(self, data: bytes) -> tuple[Sequence[Any], dict[str, Any], bytes]:
        """The positional arguments, those by name, and all of them as canonical JSON, from a JSON object by name.

        UsageError where it is no object, or an argument is unknown, missing, or not of its type.
        """
        try:
            given = _decode(data)
        except msgspec.DecodeError as error:
            raise self._unfit(f"the arguments are no JSON object ({error})") from None
        parameters = self._binder.signature.parameters
        takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        unknown = [name for name in given if name not in parameters and not takes_any]
        if unknown:
            raise self._unfit(f"there is no argument {unknown[0]!r}")
        values = {name: self._value(name, bytes(raw)) for name, raw in given.items()}
        positional = self._positional(values)
        try:
            bound = self._binder.bind(positional, values)
        except TypeError as error:
            raise self._unfit(str(error)) from None
        return positional, values, encode_arguments(bound)

    def _value(self, name: str, data: bytes) -> Any:
        codec = self._codecs.get(name) or codec_for(Any)
        try:
            return codec.decode(data)
        except NotStorable as error:
            raise self._unfit(f"argument {name!r}: {error.what}") from None

    def _positional(self, values: dict[str, Any]) -> list[Any]:
        """Takes out of `values` what can only be given by its place."""
        positional: list[Any] = []
        for parameter in self._binder.signature.parameters.values():
            if parameter.kind not in _POSITIONAL or parameter.name not in values:
                continue
            value = values.pop(parameter.name)
            positional.extend(value if parameter.kind is inspect.Parameter.VAR_POSITIONAL else [value])
        return positional

    def _unfit(self, why: str) -> UsageError:
        # With the types themselves: an annotation may be a text, which a model need not see in quotes.
        signature, hints = self._binder.signature, self._hints
        parameters = [
            each.replace(annotation=hints.get(each.name, each.annotation)) for each in signature.parameters.values()
        ]
        shown = signature.replace(
            parameters=parameters, return_annotation=hints.get("return", signature.return_annotation)
        )
        return UsageError(f"{self._name}: {why}", hint=f"Its signature is {self._name}{shown}.")
