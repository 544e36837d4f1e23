"""Rolling a run back: what was done outside is undone where that can be, stands where it cannot, and is never done
again by itself; what is undone does not answer as done."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, Run
from jumar.errors import CannotRollBack, CheckpointNotFound, LeaseHeld, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.rollback_helpers import Outside, declare_tools, done, states
from tests.integration.waits_helpers import asked, both_kinds, clock, in_memory, scripted, sleeping_on

__all__ = ["clock"]

Steps = Generator[Any, Any, Any]


def traveller(harness: Harness, outside: Outside, waits: bool) -> Any:
    """An agent that looks, keeps a checkpoint, books a room and sends a mail."""
    mail, book, look = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def travel(run: Any, task: str) -> Steps:
        with run.step("think"):
            yield run.call(look, task)
        yield run.checkpoint("before it")
        with run.step("do"):
            receipt = yield run.call(book, "12")
            told = yield run.call(mail, "ada")
        return [receipt["receipt"], told]

    return travel


@both_kinds
def test_mail_that_was_not_undone_is_not_sent_again_and_a_room_that_was_is_booked_anew(
    harness: Harness, waits: bool
) -> None:
    outside = Outside()
    travel = traveller(harness, outside, waits)
    run_id = harness.run(travel, "task").run_id
    rolled = harness.rollback(run_id, to="before it")
    assert (rolled.status, rolled.undone, [each.call_id for each in rolled.not_undone]) == (
        "PAUSED",
        ("do.book.1",),
        ["do.mail.1"],
    )
    assert outside.seen[-1] == ("cancel", "12", "r-12")
    assert outside.booked() == []
    assert done(harness.resume(run_id)) == ["r-12", "sent to ada"]
    assert outside.mailed() == ["ada"]
    assert outside.booked() == ["12"]
    assert outside.seen.count(("look", "task")) == 1  # it is before the checkpoint, and answers as recorded
    assert states(harness, run_id) == {
        "think.look.1": "SUCCEEDED",
        "checkpoint.1": "SUCCEEDED",
        "do.book.1": "COMPENSATED behind",
        "do.mail.1": "SUCCEEDED behind",
        "do.book.1.undo": "SUCCEEDED behind",
        "do.book.1@1": "SUCCEEDED",
    }
    keys = dict(zip(outside.seen, outside.keys, strict=True))
    assert len(set(outside.keys)) == len(keys) + 1  # the second booking is another one for the service


@both_kinds
def test_mail_in_other_words_waits_for_a_person_while_the_first_stands(harness: Harness, waits: bool) -> None:
    outside, to = Outside(), ["ada", "bob"]
    mail, _, _ = declare_tools(harness, outside)

    @scripted(harness, waits)
    def write(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        told = yield run.call(mail, to[0])
        return told

    run_id = harness.run(write, "x").run_id
    harness.rollback(run_id, to="start")
    to.reverse()  # the model decides otherwise
    result = harness.resume(run_id)
    assert asked(result) == [("mail.2@1", "approval", 1)]
    assert outside.mailed() == ["ada"]
    harness.approve(run_id, result.waiting_on[0].call_id)
    assert done(harness.resume(run_id)) == "sent to bob"
    assert outside.mailed() == ["ada", "bob"]


@both_kinds
def test_what_a_person_refuses_after_a_rollback_is_not_sent(harness: Harness, waits: bool) -> None:
    outside, to = Outside(), ["ada", "bob"]
    mail, _, _ = declare_tools(harness, outside)

    @scripted(harness, waits)
    def write(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        told = yield run.call(mail, to[0])
        return told

    run_id = harness.run(write, "x").run_id
    harness.rollback(run_id, to="start")
    to.reverse()
    result = harness.resume(run_id)
    harness.reject(run_id, result.waiting_on[0].call_id, note="they have one already")
    failed = harness.resume(run_id)
    assert (failed.status, failed.error_type) == ("FAILED", "CallRejected")
    assert outside.mailed() == ["ada"]


@both_kinds
def test_a_leftover_answers_once_and_the_same_mail_again_is_another_one(harness: Harness, waits: bool) -> None:
    outside, times = Outside(), [1]
    mail, _, _ = declare_tools(harness, outside)

    @scripted(harness, waits)
    def write(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        for _ in range(times[0]):
            yield run.call(mail, "ada")
        return times[0]

    run_id = harness.run(write, "x").run_id
    harness.rollback(run_id, to="start")
    times[0] = 2
    assert done(harness.resume(run_id)) == 2  # the first is answered, and nothing is left that stands unmatched
    assert outside.mailed() == ["ada", "ada"]
    harness.rollback(run_id, to="start")
    assert done(harness.resume(run_id)) == 2
    assert outside.mailed() == ["ada", "ada"]


@both_kinds
def test_several_are_undone_the_newest_first_with_what_they_returned(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        for room in ("1", "2", "3"):
            yield run.call(book, room)

    run_id = harness.run(stay, "x").run_id
    assert harness.rollback(run_id, to="start").undone == ("book.3", "book.2", "book.1")
    assert outside.seen[3:] == [("cancel", "3", "r-3"), ("cancel", "2", "r-2"), ("cancel", "1", "r-1")]


@both_kinds
def test_what_a_person_has_changed_in_the_arguments_is_what_is_undone(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, approval="always")

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")

    run_id = harness.run(stay, "x").run_id
    harness.approve(run_id, "book.1", args={"room": "7"})
    done(harness.resume(run_id))
    harness.rollback(run_id, to="start")
    assert outside.seen == [("book", "7"), ("cancel", "7", "r-7")]


@both_kinds
def test_a_dry_run_tells_all_and_touches_nothing(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(traveller(harness, outside, waits), "task").run_id
    before, seen = harness.show(run_id), list(outside.seen)
    planned = harness.rollback(run_id, to="before it", dry_run=True)
    assert planned.dry_run
    assert (planned.undone, [(each.call_id, each.why) for each in planned.not_undone]) == (
        ("do.book.1",),
        [("do.mail.1", "mail has no compensation")],
    )
    assert harness.show(run_id) == before
    assert outside.seen == seen


# --- From whatever a run has come to. --------------------------------------------------------------------------------


@both_kinds
def test_a_failed_run_goes_back_and_on(harness: Harness, waits: bool) -> None:
    outside, broken = Outside(), [True]
    _, book, _ = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        if broken[0]:
            raise ValueError("no bed")
        return "slept"

    result = harness.run(stay, "x")
    assert result.status == "FAILED"
    rolled = harness.rollback(result.run_id, to="start")
    info = harness.show(result.run_id).run
    assert (rolled.status, info.error_type, info.generation) == ("PAUSED", None, 1)
    broken[0] = False
    assert done(harness.resume(result.run_id)) == "slept"
    assert outside.booked() == ["1"]


@both_kinds
def test_a_waiting_run_is_no_longer_asked_what_it_left_behind(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def ask(run: Any, task: str) -> Steps:
        first = yield run.ask("One?")
        yield run.checkpoint("asked once")
        second = yield run.ask("Two?")
        return [first, second]

    run_id = harness.run(ask, "x").run_id
    harness.answer(run_id, "ask.1", 1)
    assert asked(harness.resume(run_id)) == [("ask.2", "ask", 1)]
    rolled = harness.rollback(run_id, to="asked once")
    assert (rolled.withdrawn, harness.requests()) == (("ask.2",), [])
    assert harness.doctor().sound
    result = harness.resume(run_id)
    assert [each.question for each in result.waiting_on] == ["Two?"]
    harness.answer(run_id, result.waiting_on[0].call_id, 2)
    assert done(harness.resume(run_id)) == [1, 2]


@both_kinds
def test_a_question_from_before_the_point_stays_open(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def ask(run: Any, task: str) -> Steps:
        answer = yield run.ask("One?")
        return answer

    run_id = harness.run(ask, "x").run_id
    version = harness.show(run_id).run.version
    with pytest.raises(CheckpointNotFound, match=f"no checkpoint was kept at version {version}"):
        harness.rollback(run_id, to=version)
    assert harness.rollback(run_id, to=0).withdrawn == ("ask.1",)
    result = harness.resume(run_id)
    harness.answer(run_id, result.waiting_on[0].call_id, 5)
    assert done(harness.resume(run_id)) == 5


@both_kinds
def test_a_paused_run_stays_paused_at_its_new_head(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        answer = yield run.ask("And?")
        return answer

    run_id = harness.run(stay, "x").run_id
    harness.pause(run_id)
    assert harness.rollback(run_id, to="start").status == "PAUSED"
    assert outside.booked() == []
    result = harness.resume(run_id)
    assert (result.status, outside.booked()) == ("WAITING", ["1"])


@both_kinds
def test_a_cancelled_run_lives_again(harness: Harness, waits: bool) -> None:
    outside = Outside()
    _, book, _ = declare_tools(harness, outside, waits=waits)

    @scripted(harness, waits)
    def stay(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(book, "1")
        answer = yield run.ask("And?")
        return answer

    run_id = harness.run(stay, "x").run_id
    harness.cancel(run_id)
    assert harness.rollback(run_id, to="start").undone == ("book.1",)
    result = harness.resume(run_id)
    harness.answer(run_id, result.waiting_on[0].call_id, "fine")
    assert done(harness.resume(run_id)) == "fine"
    assert outside.booked() == ["1"]


@both_kinds
def test_a_run_goes_back_to_its_very_beginning(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(traveller(harness, outside, waits), "task").run_id
    harness.rollback(run_id, to=0)
    assert done(harness.resume(run_id)) == ["r-12", "sent to ada"]
    assert outside.seen.count(("look", "task")) == 2  # a read leaves nothing that answers
    assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])


@both_kinds
def test_two_rollbacks_in_a_row_each_leave_their_own_behind(harness: Harness, waits: bool) -> None:
    outside = Outside()
    run_id = harness.run(traveller(harness, outside, waits), "task").run_id
    for generation in (1, 2, 3):
        rolled = harness.rollback(run_id, to="before it")
        undone = "do.book.1" if generation == 1 else f"do.book.1@{generation - 1}"
        assert rolled.undone == (undone,)
        assert harness.show(run_id).run.generation == generation
        assert done(harness.resume(run_id)) == ["r-12", "sent to ada"]
        assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])
    harness.rollback(run_id, to=0)
    assert done(harness.resume(run_id)) == ["r-12", "sent to ada"]
    assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])
    assert harness.doctor().sound


# --- What it is refused for. -----------------------------------------------------------------------------------------


@in_memory
def test_a_run_that_is_driven_is_refused(harness: Harness) -> None:
    found: list[BaseException] = []

    @harness.tool(effect="read")
    def meddle(run_id: str) -> None:
        with pytest.raises(LeaseHeld, match="is driven by") as caught:
            harness.rollback(run_id, to=0)
        found.append(caught.value)

    @harness.agent
    def agent(run: Run, task: str) -> None:
        meddle(run.id)

    done(harness.run(agent, "x"))
    assert len(found) == 1


@both_kinds
def test_a_call_that_may_have_happened_is_settled_first(harness: Harness, waits: bool) -> None:
    outside = Outside()

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        outside.note("pay", cents)
        raise TimeoutError("who knows")

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        yield run.call(pay, 5)

    run_id = harness.run(agent, "x").run_id
    before = harness.show(run_id)
    with pytest.raises(CannotRollBack, match=r"whether pay\.1 happened is not known"):
        harness.rollback(run_id, to="start")
    assert harness.show(run_id) == before


@both_kinds
def test_what_a_rollback_left_behind_is_no_place_to_go(harness: Harness, waits: bool) -> None:
    outside = Outside()
    mail, _, _ = declare_tools(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("one")
        yield run.call(mail, "ada")
        yield run.checkpoint("two")

    run_id = harness.run(agent, "x").run_id
    two = next(
        each.version for each in harness.show(run_id).checkpoints if each.trigger == "manual" and each.version > 1
    )
    harness.rollback(run_id, to="one")
    for place in ("two", two):
        with pytest.raises(CannotRollBack, match="was left behind by a rollback"):
            harness.rollback(run_id, to=place)
    done(harness.resume(run_id))
    harness.rollback(run_id, to="two")  # there is one of this name on the line again
    assert harness.show(run_id).run.generation == 2


@both_kinds
def test_a_name_that_is_not_there_or_twice_there_is_refused(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("same")
        yield run.checkpoint("same")

    run_id = harness.run(agent, "x").run_id
    with pytest.raises(CheckpointNotFound, match="has no checkpoint 'other'"):
        harness.rollback(run_id, to="other")
    with pytest.raises(CheckpointNotFound, match="has several checkpoints 'same'") as caught:
        harness.rollback(run_id, to="same")
    versions = [each.version for each in harness.show(run_id).checkpoints if each.trigger == "manual"]
    assert caught.value.hint == f"Give the version: {', '.join(map(str, versions))}."
    assert harness.rollback(run_id, to=versions[1], dry_run=True).target == versions[1]


@in_memory
@pytest.mark.parametrize("to", [None, True, "", 1.5, "\x00"], ids=repr)
def test_what_is_neither_a_version_nor_a_name_is_refused(harness: Harness, to: Any) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    run_id = harness.start(agent, "x")
    with pytest.raises(UsageError, match="is neither a version nor the name of a checkpoint"):
        harness.rollback(run_id, to=to)
    with pytest.raises(UsageError, match="is neither a version nor the name of a checkpoint"):
        harness.fork(run_id, at=to)


@in_memory
@pytest.mark.parametrize("to", [-1, 99])
def test_a_version_that_never_was_is_refused(harness: Harness, to: int) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    run_id = harness.run(agent, "x").run_id
    with pytest.raises(CheckpointNotFound, match=f"has no version {to}"):
        harness.rollback(run_id, to=to)


def test_a_damaged_checkpoint_gives_way_to_the_newest_sound_one_before_it(tmp_path: Path) -> None:
    path, outside = tmp_path / "runs.db", Outside()
    with Harness(f"sqlite:///{path}") as harness:
        run_id = harness.run(traveller(harness, outside, False), "task").run_id
        kept = [each.version for each in harness.show(run_id).checkpoints]
        wanted = harness.rollback(run_id, to="before it", dry_run=True).target
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE checkpoint SET step = step + 1 WHERE version = ?", (wanted,))
        rolled = harness.rollback(run_id, to="before it")
        assert (rolled.target, rolled.damaged) == (max(each for each in kept if each < wanted), (wanted,))
        assert done(harness.resume(run_id)) == ["r-12", "sent to ada"]
        assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])


@in_memory
def test_a_tool_that_is_not_known_here_keeps_its_call_from_being_rolled_back_unless_forced(
    harness: Harness, tmp_path: Path
) -> None:
    address, outside = f"sqlite:///{tmp_path / 'shared.db'}", Outside()
    with Harness(address) as first:
        run_id = first.run(traveller(first, outside, False), "task").run_id
    with Harness(address) as bare:
        with pytest.raises(UsageError, match=r"no tool (book|mail) is known here"):
            bare.rollback(run_id, to="before it")
        planned = bare.rollback(run_id, to="before it", dry_run=True)
        assert {each.why for each in planned.not_undone} == {"no tool book is known here", "no tool mail is known here"}
        bare.rollback(run_id, to="before it", force=True)
    assert outside.booked() == ["12"]
    with Harness(address) as again:
        traveller(again, outside, False)
        assert done(again.resume(run_id)) == ["r-12", "sent to ada"]  # both stand, and answer
    assert (outside.mailed(), outside.booked()) == (["ada"], ["12"])


@both_kinds
def test_a_reopened_run_makes_only_the_calls_again_that_are_on_its_line(
    harness: Harness, waits: bool, clock: StoppedClock
) -> None:
    sleeping_on(harness, clock)
    outside, broken = Outside(), [True]
    mail, _, _ = declare_tools(harness, outside)

    @harness.tool(effect="read", retries=0)
    def fetch() -> str:
        outside.note("fetch", "")
        if broken[0]:
            raise ValueError("down")
        return "got"

    @scripted(harness, waits)
    def agent(run: Any, task: str) -> Steps:
        yield run.checkpoint("start")
        got = yield run.call(fetch)
        told = yield run.call(mail, "ada")
        return [got, told]

    run_id = harness.run(agent, "x").run_id
    harness.rollback(run_id, to="start")
    assert harness.resume(run_id).status == "FAILED"
    broken[0] = False
    assert done(harness.resume(run_id)) == ["got", "sent to ada"]
    assert outside.mailed() == ["ada"]
