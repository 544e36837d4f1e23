"""What the end of an attempt means, for every effect and every end, and how a call left uncertain is settled."""

from __future__ import annotations

from itertools import product

import pytest

from jumar.core.states import Effect
from jumar.core.uncertain import (
    JUDGEMENTS,
    RESOLUTION,
    Ended,
    Judgement,
    Resolution,
    judge,
    sure_of_not_happened_at,
)

SURE = {
    Ended.RETURNED: Judgement.SUCCEEDED,
    Ended.NOT_SENT: Judgement.RETRY,
    Ended.NOT_APPLIED: Judgement.RETRY,
    Ended.DECLARED: Judgement.FAILED,
}
OPEN = {Ended.PASSING, Ended.LASTING, Ended.TIMED_OUT}
REPEATABLE = {Ended.PASSING: Judgement.RETRY, Ended.TIMED_OUT: Judgement.RETRY, Ended.LASTING: Judgement.FAILED}


@pytest.mark.parametrize(
    ("effect", "ended"), list(product(Effect, Ended)), ids=lambda member: member.name.lower().replace("_", "-")
)
def test_every_end_of_every_effect_has_its_judgement(effect: Effect, ended: Ended) -> None:
    if ended in SURE:
        assert judge(effect, ended) is SURE[ended]
    elif effect in (Effect.READ, Effect.IDEMPOTENT):
        assert judge(effect, ended) is REPEATABLE[ended]
    else:
        assert judge(effect, ended) is Judgement.UNCERTAIN


def test_the_tables_leave_nothing_out() -> None:
    assert set(JUDGEMENTS) == set(RESOLUTION) == set(Effect)
    assert all(set(JUDGEMENTS[effect]) == set(Ended) for effect in Effect)
    assert set(SURE) | OPEN == set(Ended)


def test_an_external_call_is_sent_again_only_where_it_surely_did_not_happen() -> None:
    again = {ended for ended in Ended if judge(Effect.EXTERNAL, ended) is Judgement.RETRY}
    assert again == {Ended.NOT_SENT, Ended.NOT_APPLIED}


def test_each_effect_is_settled_in_its_own_way() -> None:
    assert RESOLUTION == {
        Effect.READ: Resolution.AGAIN,
        Effect.IDEMPOTENT: Resolution.AGAIN_SAME_KEY,
        Effect.WRITE: Resolution.PUT_BACK,
        Effect.EXTERNAL: Resolution.ASK,
    }


@pytest.mark.parametrize(
    ("ended_at", "timeout_ms", "expected"),
    [(5_000, 2_000, 5_100), (5_000, None, 5_100), (0, 2_000, 100), (None, 2_000, 3_100), (None, None, 61_100)],
    ids=["its end is known", "known, without a timeout", "known to be long over", "unknown: its timeout", "or a stall"],
)
def test_that_it_did_not_happen_is_believed_only_after_it_can_no_longer_act(
    ended_at: int | None, timeout_ms: int | None, expected: int
) -> None:
    assert (
        sure_of_not_happened_at(
            ended_at=ended_at, dispatch_by=1_000, timeout_ms=timeout_ms, stall_ms=60_000, settle_ms=100
        )
        == expected
    )
