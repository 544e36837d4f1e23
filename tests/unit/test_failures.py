"""How errors are sorted, and how long is waited: with the exceptions that real clients raise, built for real."""

from __future__ import annotations

import socket
from email.message import Message
from typing import Any
from urllib.error import HTTPError, URLError

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.core.failures import RETRIED, backoff, classify, retry_after, short_message, status_code
from jumar.core.limits import MAX_MESSAGE, MAX_RETRY_AFTER
from jumar.core.states import ErrorClass
from jumar.errors import CallFailed, NotApplied

WALL_MS = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT
REQUEST = httpx2.Request("POST", "http://localhost/v1")
TRANSIENT, PERMANENT, LIMITED = ErrorClass.TRANSIENT, ErrorClass.PERMANENT, ErrorClass.RATE_LIMITED


def response(status: int, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, request=REQUEST)


def of_status(status: int, **headers: str) -> Exception:
    return httpx2.HTTPStatusError("refused", request=REQUEST, response=response(status, **headers))


def message_of(pairs: dict[str, str]) -> Message:
    message = Message()
    for name, value in pairs.items():
        message[name] = value
    return message


def http_error(status: int, **headers: str) -> HTTPError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPError("http://localhost", status, "refused", message_of(named), None)


REAL = {
    "openai.RateLimitError": (openai.RateLimitError("slow", response=response(429), body=None), LIMITED),
    "openai.InternalServerError": (openai.InternalServerError("oh", response=response(500), body=None), TRANSIENT),
    "openai.BadRequestError": (openai.BadRequestError("no", response=response(400), body=None), PERMANENT),
    "openai.AuthenticationError": (openai.AuthenticationError("no", response=response(401), body=None), PERMANENT),
    "openai.APITimeoutError": (openai.APITimeoutError(REQUEST), TRANSIENT),
    "openai.APIConnectionError": (openai.APIConnectionError(request=REQUEST), TRANSIENT),
    "anthropic.RateLimitError": (anthropic.RateLimitError("slow", response=response(429), body=None), LIMITED),
    "anthropic.OverloadedError": (anthropic.OverloadedError("busy", response=response(529), body=None), TRANSIENT),
    "anthropic.NotFoundError": (anthropic.NotFoundError("no", response=response(404), body=None), PERMANENT),
    "anthropic.APITimeoutError": (anthropic.APITimeoutError(REQUEST), TRANSIENT),
    "httpx.ReadTimeout": (httpx2.ReadTimeout("slow", request=REQUEST), TRANSIENT),
    "httpx.ConnectError": (httpx2.ConnectError("no", request=REQUEST), TRANSIENT),
    "httpx.RemoteProtocolError": (httpx2.RemoteProtocolError("cut", request=REQUEST), TRANSIENT),
    "httpx.DecodingError": (httpx2.DecodingError("junk", request=REQUEST), PERMANENT),
    "urllib's 503": (http_error(503), TRANSIENT),
    "urllib's 404": (http_error(404), PERMANENT),
    "urllib's URLError": (URLError("refused"), TRANSIENT),
    "socket.gaierror": (socket.gaierror(-3, "try again"), TRANSIENT),
    "TimeoutError": (TimeoutError(), TRANSIENT),
    "ConnectionResetError": (ConnectionResetError(), TRANSIENT),
    "ValueError": (ValueError("no"), PERMANENT),
    "FileNotFoundError": (FileNotFoundError("no"), PERMANENT),
    "NotApplied": (NotApplied(), TRANSIENT),
}


@pytest.mark.parametrize(("error", "expected"), REAL.values(), ids=REAL.keys())
def test_a_real_exception_is_sorted(error: Exception, expected: ErrorClass) -> None:
    found = classify(error, {}, WALL_MS)
    assert found.error_class is expected
    assert found.retried is (expected in (TRANSIENT, LIMITED))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, PERMANENT) for status in (400, 401, 403, 404, 409, 410, 422, 499)),
        *((status, TRANSIENT) for status in (408, 425, 500, 502, 503, 504, 529, 599)),
        (429, LIMITED),
    ],
)
def test_an_http_status_decides(status: int, expected: ErrorClass) -> None:
    assert classify(of_status(status), {}, WALL_MS).error_class is expected


@pytest.mark.parametrize("name", ["status_code", "status", "code"])
def test_a_status_is_found_under_the_usual_names(name: str) -> None:
    error = RuntimeError("refused")
    setattr(error, name, 503)
    assert status_code(error) == 503


@pytest.mark.parametrize("value", ["503", None, 200, 302, 600, 0, -1, 4.29])
def test_what_is_no_error_status_is_not_taken_for_one(value: Any) -> None:
    error = RuntimeError("refused")
    error.code = value  # type: ignore[attr-defined]
    assert status_code(error) is None
    assert classify(error, {}, WALL_MS).error_class is PERMANENT


class Hostile(Exception):
    """Fails at whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("response", "status_code", "status", "code", "headers", "retry_after"):
            raise RuntimeError(f"no {name}")
        return super().__getattribute__(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_that_fails_when_it_is_looked_at_is_sorted_all_the_same() -> None:
    assert classify(Hostile(), {}, WALL_MS).error_class is PERMANENT
    assert short_message(Hostile()) == "(its message could not be read)"


def test_the_users_table_wins_and_of_it_the_most_derived_type() -> None:
    table = {Exception: PERMANENT, ValueError: LIMITED, TimeoutError: PERMANENT}
    assert classify(UnicodeError("x"), table, WALL_MS).error_class is LIMITED
    assert classify(KeyError("x"), table, WALL_MS).error_class is PERMANENT
    assert classify(TimeoutError(), table, WALL_MS).error_class is PERMANENT
    assert classify(of_status(503), {httpx2.HTTPError: ErrorClass.BUDGET}, WALL_MS).error_class is ErrorClass.BUDGET


def test_only_what_passes_by_itself_is_tried_again() -> None:
    assert {TRANSIENT, LIMITED} == RETRIED


# --- Retry-After. ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("-4", 0.0),
        ("Tue, 14 Nov 2023 22:14:00 GMT", 40.0),
        ("Tue, 14 Nov 2023 22:14:00 -0000", 40.0),
        ("Tue, 14 Nov 2023 23:14:00 +0100", 40.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", MAX_RETRY_AFTER),
        ("1e300", MAX_RETRY_AFTER),
        ("Fri, 14 Nov 2053 22:14:00 GMT", MAX_RETRY_AFTER),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str, expected: float | None) -> None:
    assert retry_after(of_status(429, Retry_After=header), WALL_MS) == expected


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
@pytest.mark.parametrize("holder", [dict, httpx2.Headers, message_of])
def test_the_headers_name_is_found_in_any_case_and_any_kind_of_headers(name: str, holder: Any) -> None:
    error = RuntimeError("refused")
    error.headers = holder({name: "9"})  # type: ignore[attr-defined]
    assert retry_after(error, WALL_MS) == 9.0


def test_what_urllib_raises_tells_how_long_to_wait() -> None:
    assert classify(http_error(429, Retry_After="11"), {}, WALL_MS).retry_after == 11.0


def test_what_the_sdks_raise_tells_how_long_to_wait() -> None:
    for sdk in (openai, anthropic):
        error = sdk.RateLimitError("slow", response=response(429, retry_after="13"), body=None)
        assert classify(error, {}, WALL_MS).retry_after == 13.0


@pytest.mark.parametrize(
    ("own", "expected"),
    [(2, 2.0), (0, 0.0), (float("inf"), MAX_RETRY_AFTER), (10**400, MAX_RETRY_AFTER), (-1, None), ("2", None)],
)
def test_an_exceptions_own_retry_after_is_taken_where_it_makes_sense(own: Any, expected: float | None) -> None:
    assert classify(NotApplied(retry_after=own), {}, WALL_MS).retry_after == expected


def test_headers_of_no_known_shape_tell_nothing() -> None:
    error = RuntimeError("refused")
    for headers in (None, "Retry-After: 3", 5, ["x"], {1: "3"}):
        error.headers = headers  # type: ignore[attr-defined]
        assert retry_after(error, WALL_MS) is None


# --- Backoff. --------------------------------------------------------------------------------------------------------


@given(attempt=st.integers(1, 10_000), jitter=st.floats(0, 1), asked=st.none() | st.floats(0, 1e6))
def test_a_wait_stays_within_its_bounds(attempt: int, jitter: float, asked: float | None) -> None:
    ceiling = min(60.0, 0.25 * 2 ** min(attempt - 1, 30))
    wait = backoff(attempt, asked, jitter)
    assert ceiling / 2 <= backoff(attempt, None, jitter) <= ceiling
    assert wait == max(backoff(attempt, None, jitter), asked or 0.0)


@given(attempt=st.integers(1, 100), jitter=st.floats(0, 1))
def test_a_later_attempt_never_waits_less_for_the_same_jitter(attempt: int, jitter: float) -> None:
    assert backoff(attempt + 1, None, jitter) >= backoff(attempt, None, jitter)


def test_the_first_waits_double() -> None:
    assert [backoff(attempt, None, 0.0) for attempt in (1, 2, 3, 9, 10)] == [0.25, 0.5, 1.0, 60.0, 60.0]


# --- Messages. -------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=()), max_size=2_000))
def test_a_kept_message_is_bounded_and_can_be_stored(text: str) -> None:
    for error in (RuntimeError(text), NotApplied(text)):
        kept = short_message(error)
        assert len(kept) <= MAX_MESSAGE
        assert "\x00" not in kept
        kept.encode()


def test_a_message_keeps_what_happened_without_the_advice() -> None:
    assert short_message(CallFailed("it broke", hint="mend it")) == "it broke"
    assert short_message(KeyError("name")) == "'name'"
    assert short_message(RuntimeError("half \ud800 and \x00")) == "half \\ud800 and \\x00"


def test_a_message_that_is_no_text_hides_nothing() -> None:
    assert short_message(NotApplied(17)) == "(its message could not be read)"  # type: ignore[arg-type]
