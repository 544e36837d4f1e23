"""From the JSON of a model, or of a person, to the typed arguments of a function.

Each parameter is decoded by its annotation, as a recorded result is; one without an annotation takes any JSON.  What
does not fit is told in words that a model can act on: which argument, what was wrong, and the signature.

The canonical form is read like any other.  It holds what `*rest` took as a list under that name, and what `**more` took
as an object.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from jumar.core.codec import codec_for, encode_arguments
from jumar.errors import NotStorable, UsageError
from jumar.harness.binding import Binder

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ONLY_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY,)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Arguments:
    """Reads the arguments of one function."""

    def __init__(self, name: str, binder: Binder, hints: dict[str, Any]) -> None:
        self._name = name
        self._binder = binder
        self._hints = hints
        parameters = binder.signature.parameters.values()
        self._codecs = {each.name: codec_for(hints.get(each.name, Any)) for each in parameters}
        self._rest = _named(parameters, inspect.Parameter.VAR_POSITIONAL)
        self._more = _named(parameters, inspect.Parameter.VAR_KEYWORD)

    def __call__(self, data: bytes) -> tuple[Sequence[Any], dict[str, Any], bytes]:
        """The positional arguments, those by name, and all of them as canonical JSON, from a JSON object by name.

        UsageError where it is no object, or an argument is unknown, missing, or not of its type.
        """
        try:
            given = _decode(data)
        except msgspec.DecodeError as error:
            raise self._unfit(f"the arguments are no JSON object ({error})") from None
        parameters = self._binder.signature.parameters
        unknown = [name for name in given if name not in parameters and self._more is None]
        if unknown:
            raise self._unfit(f"there is no argument {unknown[0]!r}")
        rest, more = self._taken_by_rest(given), self._taken_by_more(given)
        values = {
            name: self._value(name, name if name in parameters else self._more, raw) for name, raw in given.items()
        }
        positional = self._positional(values, rest)
        for name in more.keys() & values.keys():
            raise self._unfit(f"argument {name!r} is given twice")
        values |= more
        try:
            bound = self._binder.bind(positional, values)
        except TypeError as error:
            raise self._unfit(str(error)) from None
        return positional, values, encode_arguments(bound)

    def _value(self, name: str, typed_as: str | None, raw: msgspec.Raw) -> Any:
        assert typed_as is not None
        codec = self._codecs[typed_as]
        try:
            return codec.decode(bytes(raw))
        except NotStorable as error:
            raise self._unfit(f"argument {name!r}: {error.what}") from None

    def _taken_by_rest(self, given: dict[str, msgspec.Raw]) -> list[Any]:
        """Takes out of `given` what is listed under the name of `*rest`."""
        name = self._rest
        if name is None or name not in given:
            return []
        try:
            listed = _decode_list(given.pop(name))
        except msgspec.DecodeError:
            raise self._unfit(f"argument {name!r} is no list") from None
        return [self._value(name, name, raw) for raw in listed]

    def _taken_by_more(self, given: dict[str, msgspec.Raw]) -> dict[str, Any]:
        """Takes out of `given` what an object under the name of `**more` holds."""
        name = self._more
        if name is None or not bytes(given.get(name, b"")).startswith(b"{"):
            return {}
        return {key: self._value(key, name, raw) for key, raw in _decode(given.pop(name)).items()}

    def _positional(self, values: dict[str, Any], rest: list[Any]) -> list[Any]:
        """Takes out of `values` what can only be given by its place: before what `*rest` takes, that is everything."""
        positional: list[Any] = []
        skipped: list[Any] = []
        for parameter in self._binder.signature.parameters.values():
            if parameter.kind not in (_BY_PLACE if rest else _ONLY_BY_PLACE):
                break
            if parameter.name in values:
                positional += [*skipped, values.pop(parameter.name)]
                skipped = []
            elif parameter.default is parameter.empty:
                raise self._unfit(f"missing a required argument: {parameter.name!r}")
            else:
                skipped.append(parameter.default)
        return [*positional, *skipped, *rest] if rest else positional

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


def _named(parameters: Iterable[inspect.Parameter], kind: Any) -> str | None:
    """The name of the parameter of this kind."""
    return next((parameter.name for parameter in parameters if parameter.kind is kind), None)
