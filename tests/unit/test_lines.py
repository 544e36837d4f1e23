"""Which versions are the past of a run's head, and what of the rest still stands."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from jumar.core.checksums import checksum_of
from jumar.core.lines import Heads, is_doubtful, is_leftover, is_on_line, left_by
from jumar.core.records import CallRecord, Failure
from jumar.core.states import CallKind, CallState, Effect, ErrorClass


def line_of(heads: Heads, newest: int) -> list[int]:
    """The versions on the line, by walking back from the head one step at a time."""
    base_of = dict(heads)
    found, version = [], newest
    while version >= 0:
        found.append(version)
        version = base_of.get(version, version - 1)
    return sorted(found)


def test_the_example_of_the_page() -> None:
    heads = ((13, 7), (31, 9))
    assert [version for version in range(40) if is_on_line(heads, version)] == [
        *range(8),
        *range(8, 10),
        *range(31, 40),
    ]


def test_the_line_is_what_is_found_by_walking_back() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(500):
        heads: Heads = ()
        newest = 0
        for _ in range(chance.randrange(6)):
            newest += chance.randint(1, 8)
            base = chance.choice(line_of(heads, newest))
            newest += 1
            heads = (*heads, (newest, base))
        newest += chance.randrange(5)
        here = set(line_of(heads, newest))
        assert {version for version in range(newest + 1) if is_on_line(heads, version)} == here, (heads, newest)
        for version in here:
            after = left_by(heads, version)
            past = {each for each in here if each <= version}
            assert {each for each in range(newest + 1) if is_on_line(after, each)} == past


def call(effect: Effect, state: CallState, ended: int = 8, **fields: object) -> CallRecord:
    values = {"ended_version": ended, "started_version": ended - 1, **fields}
    attempt = values.pop("attempt", 1)
    kind = values.pop("kind", CallKind.TOOL)
    made = CallRecord(1, "pay.1", "", "", 1, kind, "pay", effect, state, attempt, 1, 0, b"", **values)  # type: ignore[arg-type]
    return replace(made, checksum=checksum_of(made))


HEADS = ((10, 5),)


@pytest.mark.parametrize("effect", list(Effect), ids=lambda effect: effect.label)
@pytest.mark.parametrize("state", list(CallState), ids=lambda state: state.label)
def test_what_stands_of_what_was_left_behind_is_what_was_done_outside(effect: Effect, state: CallState) -> None:
    outside = effect in (Effect.EXTERNAL, Effect.IDEMPOTENT) and state is CallState.SUCCEEDED
    assert is_leftover(HEADS, call(effect, state)) is outside
    assert not is_leftover(HEADS, call(effect, state, ended=4))
    assert not is_leftover(HEADS, call(effect, state, ended=11))


def test_what_did_nothing_itself_and_what_only_undid_something_is_no_leftover() -> None:
    assert not is_leftover(HEADS, call(Effect.EXTERNAL, CallState.SUCCEEDED, attempt=0))
    assert not is_leftover(HEADS, call(Effect.EXTERNAL, CallState.SUCCEEDED, kind=CallKind.COMPENSATION))


def test_a_failed_call_that_its_service_may_know_of_is_in_doubt() -> None:
    timeout = Failure("TimeoutError", "no answer", ErrorClass.TRANSIENT)
    refused = Failure("NotApplied", "busy", ErrorClass.TRANSIENT)
    assert is_doubtful(HEADS, call(Effect.IDEMPOTENT, CallState.FAILED, failure=timeout))
    assert not is_doubtful(HEADS, call(Effect.IDEMPOTENT, CallState.FAILED, failure=refused))
    assert not is_doubtful(HEADS, call(Effect.IDEMPOTENT, CallState.FAILED, failure=timeout, identity="pay:7"))
    assert not is_doubtful(HEADS, call(Effect.IDEMPOTENT, CallState.FAILED, ended=4, failure=timeout))
    assert not is_doubtful(HEADS, call(Effect.EXTERNAL, CallState.FAILED, failure=timeout))


@pytest.mark.parametrize("state", [CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED, CallState.UNCERTAIN])
def test_a_call_outside_whose_row_is_damaged_is_in_doubt_whatever_it_says(state: CallState) -> None:
    sound = call(Effect.EXTERNAL, state)
    assert not is_doubtful(HEADS, sound)
    assert is_doubtful(HEADS, replace(sound, checksum=sound.checksum + 1))
    assert not is_doubtful((), replace(sound, checksum=sound.checksum + 1)), "it is on the line"
