"""Ids and names: their format and order, and what becomes of labels that people type."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.core.naming import (
    below,
    call_id,
    check_key,
    check_label,
    check_name,
    check_run_id,
    checkpoint_name,
    entered,
    idempotency_key,
    is_storable,
    request_id,
    slug,
    step_part,
    storable,
    uuid7,
)
from jumar.core.states import Level, RequestKind
from jumar.errors import InvalidReference, UsageError

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)
SLUG = re.compile(r"[A-Za-z0-9_.-]{1,48}\Z")
RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
DIGEST = bytes(range(32))


@given(ms=st.integers(0, 2**48 - 1), random=st.binary(min_size=10, max_size=16))
def test_a_run_id_is_a_uuid_of_version_7(ms: int, random: bytes) -> None:
    text = uuid7(ms, random)
    parsed = uuid.UUID(text)
    assert str(parsed) == text == check_run_id(text)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == ms


@given(st.lists(st.tuples(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10)), min_size=2, max_size=20))
def test_run_ids_sort_by_age(made: list[tuple[int, bytes]]) -> None:
    assert [int(text[:13].replace("-", ""), 16) for text in sorted(uuid7(*each) for each in made)] == sorted(
        ms for ms, _ in made
    )


def test_ids_of_one_millisecond_differ_by_their_random_bits() -> None:
    assert len({uuid7(1, number.to_bytes(10, "big")) for number in range(4096)}) > 1000


def test_a_run_id_has_one_spelling() -> None:
    assert check_run_id(RUN.upper()) == RUN


@pytest.mark.parametrize(
    "text", ["", "last", RUN[:-1], RUN + "0", RUN + "\n", RUN.replace("-", ""), "{" + RUN + "}", "\ud800", None, 5]
)
def test_what_is_no_run_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a run id") as caught:
        check_run_id(text)
    assert "uuid" in caught.value.hint


# --- Slugs. ----------------------------------------------------------------------------------------------------------


@given(ANY_TEXT)
def test_a_slug_is_short_plain_and_never_empty(label: str) -> None:
    assert SLUG.match(slug(label))
    assert slug(slug(label)) == slug(label)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("scan", "scan"),
        ("fix the site", "fix-the-site"),
        ("v1.2_final-3", "v1.2_final-3"),
        ("  a / b  ", "a-b"),
        ("..hidden..", "hidden"),
        ("日志 scan", "scan"),
    ],
)
def test_a_slug_keeps_what_it_can(label: str, expected: str) -> None:
    assert slug(label) == expected


def test_labels_of_which_nothing_is_left_get_a_hash_of_their_own() -> None:
    labels = ["扫描日志", "修复站点", "重启", "...", "---", "", "\ud800", "\x00", "🙂"]
    hashes = [slug(label) for label in labels]
    assert all(re.fullmatch(r"[0-9a-f]{8}", each) for each in hashes)
    assert len(set(hashes)) == len(labels)


def test_long_labels_that_begin_alike_stay_apart() -> None:
    one, other = "a" * 100 + "one", "a" * 100 + "other"
    assert slug(one) != slug(other)
    assert len(slug(one)) == len(slug(other)) == 48


# --- Paths and ids of calls. -----------------------------------------------------------------------------------------


def test_a_call_id_reads_as_its_place() -> None:
    assert call_id("", "search", 1, 0) == "search.1"
    assert call_id(step_part("scan", 2), "search", 1, 0) == "scan#2.search.1"
    assert call_id(below("scan", "map#2:3"), "search", 4, 0) == "scan.map#2:3.search.4"
    assert call_id("scan#2", "search", 1, 1) == "scan#2.search.1@1"


def test_the_parts_of_a_path_hold_no_dots_of_their_own() -> None:
    assert step_part("v1.2", 1) == "v1-2"
    assert below(below("", "scan"), step_part("a.b", 3)) == "scan.a-b#3"
    assert entered("gather", 1) == "gather"


@given(ANY_TEXT, st.integers(1, 99))
def test_a_step_is_one_part_of_a_path(label: str, times: int) -> None:
    part = step_part(label, times)
    assert "." not in part
    assert ("#" in part) is (times > 1)


def test_a_key_for_a_service_is_the_same_for_one_call_and_no_other() -> None:
    key = idempotency_key(RUN, "pay.1", DIGEST)
    assert key == idempotency_key(RUN, "pay.1", DIGEST)
    assert re.fullmatch(r"jumar-[0-9a-f]{40}", key)
    others = {
        idempotency_key(RUN, "pay.2", DIGEST),
        idempotency_key(RUN, "pay.1@1", DIGEST),
        idempotency_key(RUN, "pay.1", DIGEST[::-1]),
        idempotency_key(RUN[:-1] + "8", "pay.1", DIGEST),
    }
    assert len(others | {key}) == 5


def test_the_keys_that_are_out_in_the_world_do_not_change() -> None:
    assert idempotency_key(RUN, "pay.1", DIGEST) == "jumar-0f78da8e966ff3ca98601809b935430d64ac872d"


def test_asking_twice_about_an_attempt_is_asking_the_same() -> None:
    assert request_id(RUN, 3, 2, RequestKind.RESOLVE) == f"{RUN}/3/resolve/2"


def test_a_checkpoints_name_tells_task_step_level_and_time() -> None:
    name = checkpoint_name("fix the site", "scan#2", Level.STEP, 1_700_000_000_042)
    assert name == "fix-the-site_scan-2_step_20231114T221320.042Z"
    assert checkpoint_name("fix", "", Level.TASK, 0) == "fix_start_task_19700101T000000.000Z"


@given(ANY_TEXT, ANY_TEXT, st.sampled_from(Level), st.integers(0, 4_000_000_000_000))
def test_a_checkpoints_name_holds_no_text_of_anyones(task: str, step: str, level: Level, at: int) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", checkpoint_name(task, step, level, at))


# --- What people and programs type. ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["search", "_x", "read-log", "A1", "a" * 64])
def test_a_plain_word_can_name_a_tool(name: str) -> None:
    assert check_name("a tool", name) == name


@pytest.mark.parametrize("name", ["", "1st", "a b", "a.b", "<lambda>", "搜索", "a" * 65, "a\n", "\ud800", None, 5])
def test_anything_else_cannot(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a tool") as caught:
        check_name("a tool", name)
    assert "letters, digits" in caught.value.hint


@pytest.mark.parametrize("label", ["scan", "扫描日志", "a.b#c", "x" * 200, "tab\tand\nline"])
def test_a_label_may_be_any_text_that_can_be_stored(label: str) -> None:
    assert check_label("a step", label) == label


@pytest.mark.parametrize(
    ("label", "what"),
    [
        ("", "needs a name"),
        ("  \n", "needs a name"),
        (None, "needs a name, not None"),
        (5, "needs a name, not 5"),
        (b"scan", "needs a name"),
        ("x" * 201, "has 201 characters; at most 200"),
        ("a\x00b", "cannot be stored"),
        ("half \ud800", "cannot be stored"),
    ],
)
def test_a_label_that_cannot_be_kept_is_refused(label: str, what: str) -> None:
    with pytest.raises(InvalidReference, match=what):
        check_label("a step", label)


@pytest.mark.parametrize("key", ["k", "call_1", "键", "x" * 256])
def test_a_calls_own_key_may_be_any_text_that_can_be_stored(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * 257, "a\x00", "\udc80", None, 5, b"k"])
def test_any_other_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="key="):
        check_key(key)


@given(ANY_TEXT)
def test_what_is_made_storable_can_be_stored_and_what_was_stays_as_it_is(text: str) -> None:
    assert is_storable(storable(text))
    assert is_storable(text) == (storable(text) == text)
