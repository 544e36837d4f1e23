"""The tree of errors: each says what happened, what is safe and what to do next, and survives being handed on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from jumar import errors
from jumar.errors import CallFailed, JumarError, MapFailed, NotStorable, ReplayDiverged, Stopped

EXIT_CODES = {
    "UsageError": 2,
    "Refused": 4,
    "StoreError": 4,
    "IntegrityError": 5,
    "WorkspaceError": 4,
    "RunFailed": 1,
    "RunNotFinished": 3,
    "CallFailed": 1,
    "MapFailed": 1,
    "NotApplied": 1,
}


def below(kind: type[JumarError]) -> Iterator[type[JumarError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == "jumar.errors":
            yield from below(each)


ALL = list(below(JumarError))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_says_three_things(kind: type[JumarError]) -> None:
    error = kind("it broke")
    assert (error.what, error.safe, error.hint) == ("it broke", kind.default_safe, kind.default_hint)
    assert str(error) == f"it broke\n  Safe now: {kind.default_safe}\n  Next: {kind.default_hint}"
    assert kind.__doc__
    sharper = kind("it broke", safe="all of it", hint="mend it")
    assert str(sharper) == "it broke\n  Safe now: all of it\n  Next: mend it"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_ends_the_command_line_as_its_family_does(kind: type[JumarError]) -> None:
    family = next((name for name in (each.__name__ for each in kind.__mro__) if name in EXIT_CODES), "")
    assert kind.exit_code == EXIT_CODES.get(family, 1)


def test_programs_tell_errors_apart_by_a_code_of_their_own() -> None:
    codes = [kind.code for kind in ALL]
    assert len(set(codes)) == len(codes)
    assert all(code == code.lower() and " " not in code for code in codes)


def test_every_error_has_its_home_in_one_module() -> None:
    assert all(getattr(errors, kind.__name__) is kind for kind in ALL)


@pytest.mark.parametrize(
    "error",
    [
        JumarError("what", safe="safe", hint="hint"),
        NotStorable("what", path="$.a"),
        ReplayDiverged("what", recorded="pay.1", asked="pay.2"),
        CallFailed("what", call_id="pay.1", type_name="ValueError", message="no", error_class="permanent"),
        errors.ResultNotStorable("what", path="$.b", call_id="pay.1"),
        errors.NotApplied("what", retry_after=2.5),
        MapFailed("what", results=[1, ValueError("no")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_in_another_process(error: JumarError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert {name: repr(value) for name, value in vars(again).items()} == {
            name: repr(value) for name, value in vars(error).items()
        }


def test_the_stopping_signal_is_no_error_that_anyone_catches_by_mistake() -> None:
    assert not issubclass(Stopped, Exception)
    assert not issubclass(Stopped, JumarError)
    signal = Stopped("the run waits")
    assert (str(signal), signal.reason, signal.error) == ("the run waits", "the run waits", None)
