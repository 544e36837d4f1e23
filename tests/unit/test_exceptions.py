"""An exception as a recorded failure and back: of its own type where that is declared, CallFailed where it is not."""

from __future__ import annotations

import builtins
import json
from typing import Any

import httpx2
import openai
import pydantic
import pytest

from jumar.core.checksums import failure_bytes
from jumar.core.exceptions import failure_of, raised, unstorable_result
from jumar.core.limits import INLINE_BYTES, MAX_MESSAGE
from jumar.core.records import Failure
from jumar.core.states import ErrorClass
from jumar.errors import CallFailed, JumarError, NotApplied, NotStorable, ResultNotStorable

PERMANENT = ErrorClass.PERMANENT


def back(error: Exception, *declared: type[BaseException]) -> Any:
    """What the agent gets for an exception of a tool that declares these types."""
    failure = failure_of(error, PERMANENT, declared)
    assert failure_bytes(failure)
    return raised(failure, "pay.1", declared)


class Declined(Exception):
    """Its constructor wants what nobody can give it later."""

    def __init__(self, *, code: int, secret: object) -> None:
        super().__init__(f"declined with code {code}")
        self.code = code
        self.details = {"try": ["later", 5]}
        self.secret = secret


def test_a_declared_exception_comes_back_without_its_constructor() -> None:
    error = back(Declined(code=51, secret=object()), Declined)
    assert type(error) is Declined
    assert str(error) == "declined with code 51"
    assert error.args == ("declined with code 51",)
    assert (error.code, error.details) == (51, {"try": ["later", 5]})
    assert not hasattr(error, "secret")


def test_one_that_is_not_declared_comes_back_as_call_failed() -> None:
    error = back(Declined(code=51, secret=None), KeyError)
    assert type(error) is CallFailed
    assert (error.call_id, error.type_name, error.message) == ("pay.1", "Declined", "declined with code 51")
    assert error.error_class == "permanent"
    assert error.what == "call pay.1 failed with Declined: declined with code 51"
    assert error.hint


def test_nothing_but_the_message_is_kept_of_one_that_is_not_declared() -> None:
    failure = failure_of(Declined(code=51, secret="s3cret"), PERMANENT, ())
    assert (failure.args, failure.state) == (None, None)
    assert b"s3cret" not in (failure_bytes(failure) or b"")


class Below(Declined):
    """A type below a declared one."""


def test_a_type_below_a_declared_one_comes_back_as_itself() -> None:
    assert type(back(Below(code=1, secret=None), Declined)) is Below
    assert type(back(Below(code=1, secret=None), Exception)) is Below


BUILTIN = [
    ValueError("no"),
    ValueError(),
    ValueError("no", 5, None),
    KeyError("name"),
    OSError(2, "No such file", "conf/site.ini"),
    FileNotFoundError(2, "No such file", "conf/site.ini"),
    ConnectionResetError(104, "reset"),
    OSError("plain"),
    ZeroDivisionError("division by zero"),
    RecursionError("too deep"),
    UnicodeError("odd"),
]


@pytest.mark.parametrize("error", BUILTIN, ids=repr)
def test_a_built_in_exception_comes_back_as_it_was(error: Exception) -> None:
    again = back(error, Exception)
    assert type(again) is type(error)
    assert (again.args, str(again)) == (error.args, str(error))
    for name in ("errno", "strerror", "filename"):
        assert getattr(again, name, None) == getattr(error, name, None)


class FromDisk(OSError):
    """A type below OSError with a constructor of its own."""

    def __init__(self, path: str) -> None:
        super().__init__(28, "No space left", path)
        self.path = path


def test_an_os_error_with_a_constructor_of_its_own_keeps_its_number_and_file() -> None:
    error = back(FromDisk("/x"), FromDisk)
    assert (type(error), error.errno, error.filename, error.path) == (FromDisk, 28, "/x", "/x")


def test_what_json_cannot_hold_is_left_out_and_the_message_stays() -> None:
    error = back(ValueError(b"bytes", {1: 2}), ValueError)
    assert type(error) is ValueError
    assert error.args == ("(b'bytes', {1: 2})",)


def test_an_exception_of_a_real_client_keeps_what_is_plain() -> None:
    request = httpx2.Request("POST", "http://localhost")
    response = httpx2.Response(429, request=request)
    error = back(openai.RateLimitError("slow down", response=response, body={"code": "x"}), openai.RateLimitError)
    assert type(error) is openai.RateLimitError
    assert (str(error), error.status_code, error.body) == ("slow down", 429, {"code": "x"})
    assert not hasattr(error, "response")


class Model(pydantic.BaseModel):
    """For an exception that only pydantic can make."""

    size: int


def test_an_exception_that_nobody_else_can_make_comes_back_as_call_failed() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Model.model_validate({"size": "x"})
    error = back(caught.value, pydantic.ValidationError)
    assert type(error) is CallFailed
    assert error.type_name == "ValidationError"
    error = back(ExceptionGroup("several", [ValueError("one")]), ExceptionGroup)
    assert (type(error), error.type_name) == (CallFailed, "ExceptionGroup")


@pytest.mark.parametrize("error", [StopIteration(5), StopAsyncIteration()])
def test_what_would_end_a_generator_comes_back_as_call_failed(error: Exception) -> None:
    assert type(back(error, Exception)) is CallFailed


class BrokenText(Exception):
    """Fails when it is shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_that_cannot_be_shown_is_kept_all_the_same() -> None:
    failure = failure_of(BrokenText("x"), PERMANENT, (BrokenText,))
    assert failure.message == "(its message could not be read)"
    error = raised(failure, "pay.1", (BrokenText,))
    assert (type(error), error.args) == (BrokenText, ("x",))
    assert "its message could not be read" in str(back(BrokenText("x")))


class Odd(Exception):
    """Made by a __new__ that wants more than anyone has later."""

    def __new__(cls, one: str, two: str) -> Odd:
        return super().__new__(cls, one)

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


def test_a_types_own_new_is_not_asked_either() -> None:
    error = back(Odd("a", "b"), Odd)
    assert (type(error), error.args, error.two) == (Odd, ("a",), "b")


def test_text_that_no_row_holds_is_made_visible() -> None:
    failure = failure_of(NotApplied("half \ud800", hint="\x00"), PERMANENT, ())
    assert (failure.message, failure.hint) == ("half \\ud800", "\\x00")
    assert json.loads(failure_bytes(failure) or b"")["message"] == "half \\ud800"


def test_large_attributes_are_left_out_and_the_others_kept() -> None:
    error = Declined(code=51, secret="x" * INLINE_BYTES)
    error.note = "kept"  # type: ignore[attr-defined]
    again = back(error, Declined)
    assert (again.code, again.note) == (51, "kept")
    assert not hasattr(again, "secret")


def test_a_message_is_bounded() -> None:
    failure = failure_of(ValueError("x" * 10_000), PERMANENT, (ValueError,))
    assert len(failure.message) == MAX_MESSAGE


# --- Two types of one name. ------------------------------------------------------------------------------------------


class ConnectionError(OSError):
    """Called as a built-in is, as a well-known client's is."""


def test_of_two_types_of_one_name_the_one_that_was_raised_comes_back() -> None:
    assert type(back(ConnectionError("x"), OSError)) is ConnectionError
    assert type(back(builtins.ConnectionError("x"), OSError)) is not ConnectionError


def test_a_type_whose_module_has_another_name_now_is_found_by_its_own() -> None:
    failure = Failure("Declined", "no", PERMANENT, module="__main__")
    assert type(raised(failure, "pay.1", (ValueError, Declined))) is Declined
    assert type(raised(failure, "pay.1", (ValueError,))) is CallFailed


# --- Jumar's own. ----------------------------------------------------------------------------------------------------


class Throttled(NotApplied):
    """A client's own word for what was not applied."""


def test_a_declared_error_of_jumars_keeps_what_it_says() -> None:
    error = back(Throttled("too fast", retry_after=3.0, hint="slow down", safe="all of it"), Throttled)
    assert (type(error), error.what, error.retry_after) == (Throttled, "too fast", 3.0)
    assert (error.hint, error.safe) == ("slow down", "all of it")


def test_the_hint_of_jumars_own_errors_is_handed_on() -> None:
    assert back(JumarError("broken", hint="mend it")).hint == "mend it"


def test_a_result_that_could_not_be_stored_names_its_place() -> None:
    failure = unstorable_result(NotStorable("`$.a` is a function.", path="$.a", hint="Return data."))
    error = raised(failure, "pay.1", ())
    assert isinstance(error, ResultNotStorable)
    assert (error.path, error.call_id, error.hint) == ("$.a", "pay.1", "Return data.")
    assert error.what == "call pay.1 happened, but its result cannot be used: `$.a` is a function."
    assert "not sent again" in error.safe
