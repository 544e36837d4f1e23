"""When the name of an action is given up, and what can be one."""

from __future__ import annotations

import pytest

from jumar.core.identities import check_identity, did_nothing, is_freed
from jumar.core.limits import MAX_KEY
from jumar.core.records import Failure
from jumar.core.states import Effect, ErrorClass
from jumar.core.uncertain import Ended
from jumar.errors import UsageError

NOT_APPLIED = Failure("NotApplied", "busy", ErrorClass.TRANSIENT)
CUT = Failure("ConnectionError", "cut", ErrorClass.TRANSIENT)


@pytest.mark.parametrize("ended", list(Ended))
def test_a_failed_attempt_gives_the_name_up_unless_the_service_may_know_of_it(ended: Ended) -> None:
    assert is_freed(Effect.EXTERNAL, ended) and is_freed(Effect.WRITE, ended)
    assert is_freed(Effect.IDEMPOTENT, ended) is (ended in (Ended.NOT_APPLIED, Ended.NOT_SENT))


@pytest.mark.parametrize("failure", [None, NOT_APPLIED, CUT])
@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_only_an_idempotent_call_that_was_sent_may_have_done_something(attempt: int, failure: Failure | None) -> None:
    for effect in (Effect.READ, Effect.WRITE, Effect.EXTERNAL):
        assert did_nothing(effect, attempt, failure)
    surely_not = attempt == 0 or (attempt == 1 and failure is NOT_APPLIED)
    assert did_nothing(Effect.IDEMPOTENT, attempt, failure) is surely_not


@pytest.mark.parametrize("name", ["pay:1", "x" * MAX_KEY, " ", "\u00e4"])
def test_a_text_can_be_an_identity(name: str) -> None:
    assert check_identity("pay", name) == name


@pytest.mark.parametrize("name", ["", "x" * (MAX_KEY + 1), "a\x00", "\ud800", None, 5, b"pay", ["pay"]])
def test_anything_else_cannot(name: object) -> None:
    with pytest.raises(UsageError) as caught:
        check_identity("pay", name)
    assert caught.value.what.startswith("the identity of pay is ") and len(caught.value.what) < 120
