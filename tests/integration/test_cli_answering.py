"""What people answer from the command line: approvals, questions, and whether a call happened."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.integration.cli_desk import APP, STORE, Desk, commands, refused
from tests.integration.cli_helpers import SECONDS


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _typed(command: str, **filled: str) -> list[str]:
    """A printed command as a shell would hand it over, with what it leaves open filled in."""
    words = shlex.split(command)[1:]
    return [filled.get(word, word) for word in words]


# --- Approval. ------------------------------------------------------------------------------------------------------


def test_the_commands_that_a_waiting_run_prints_lead_to_its_end_with_the_call_sent_once(desk: Desk) -> None:
    done = desk.jumar("run", "desk:harness:settles")
    assert done.code == 3
    assert "may pay.1 be sent?" in done.out
    assert 'pay {"cents":1200,"invoice":"i-7"}' in done.out
    yes, changed = commands(done.out, "approve")
    assert changed.endswith("--args JSON")
    approved = desk.jumar(*_typed(yes))
    assert approved.code == 0
    assert "may be sent" in approved.out
    assert desk.sent() == []
    (resume,) = commands(approved.out, "resume")
    resumed = desk.jumar(*_typed(resume))
    assert resumed.code == 0
    assert '"receipt of i-7"' in resumed.out
    assert desk.sent() == ["i-7 1200"]


def test_other_arguments_are_sent_and_shown_against_those_that_were_asked_for(desk: Desk) -> None:
    run = desk.begin("settles")
    words = (
        "approve",
        run,
        "pay.1",
        "--args",
        '{"invoice": "i-7", "cents": 900}',
        "--by",
        "ana",
        "--note",
        "half 半分",
    )
    approved = desk.here(*words)
    assert approved.code == 0
    assert "with     cents 900 instead of 1200" in approved.out
    assert desk.here("resume", run).code == 0
    assert desk.sent() == ["i-7 900"]
    shown = desk.here("show", run).out
    answered = shown[shown.index("answered ") :].splitlines()
    assert answered[0].startswith("answered pay.1 approved by ana, at ")
    assert answered[0].endswith(": half 半分")
    assert answered[1].strip() == "with cents 900 instead of 1200"
    (answer,) = desk.view(run)["answers"]
    assert (answer["verdict"], answer["value"], answer["by"]) == ("approve", {"cents": 900, "invoice": "i-7"}, "ana")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("{", "--args is not valid JSON"),
        ("[1]", "--args takes the arguments by name"),
        ('{"invoice": "i-7"}', "pay"),
        ('{"invoice": "i-7", "cents": "many"}', "cents"),
        ('{"invoice": "i-7", "cents": 1, "colour": "red"}', "colour"),
    ],
)
def test_arguments_that_do_not_fit_the_tool_are_refused_and_leave_the_request_open(
    desk: Desk, given: str, what: str
) -> None:
    run = desk.begin("settles")
    refused(desk.here("approve", run, "pay.1", "--args", given), what)
    assert [asked["kind"] for asked in desk.view(run)["waiting_on"]] == ["approval"]


def test_a_rejected_call_is_not_sent_and_its_note_reaches_the_agent(desk: Desk) -> None:
    run = desk.begin("settles")
    rejected = desk.here("reject", run, "pay.1", "--by", "bo", "--note", "not this month")
    assert rejected.code == 0
    assert "is rejected" in rejected.out
    resumed = desk.here("resume", run)
    assert resumed.code == 1
    assert "was rejected by bo: not this month" in resumed.out
    assert desk.sent() == []
    shown = desk.here("show", run).out
    line = next(line for line in shown.splitlines() if "▲ pay.1" in line)
    assert line.rstrip().endswith("rejected by bo: not this month")
    assert "A call that was rejected stays so" in shown


def test_several_requests_are_answered_in_any_order_and_each_answer_says_what_is_open_still(desk: Desk) -> None:
    run = desk.begin("settles_two")
    first = desk.here("approve", run, "gather:1.pay.1")
    assert "1 more request is open" in first.out
    assert commands(first.out, "show") == [f"jumar show {run[-8:]}"]
    shown = desk.here("show", run).out
    assert "It is queued" in shown
    assert "may gather:0.pay.1 be sent?" in shown
    second = desk.here("approve", run, "gather:0.pay.1", "--json")
    assert second.json["still_open"] == 0
    assert desk.here("resume", run).code == 0
    assert sorted(desk.sent()) == ["i-7 1200", "i-8 300"]


def test_an_answer_in_json_tells_the_verdict_how_the_run_stands_and_what_is_next(desk: Desk) -> None:
    run = desk.begin("settles")
    answer = desk.here("approve", run, "pay.1", "--json").json
    assert answer == {
        "run_id": run,
        "call_id": "pay.1",
        "verdict": "approve",
        "status": "QUEUED",
        "still_open": 0,
        "resume_from": None,
        "reason": None,
        "next": [f"jumar resume {run[-8:]}"],
    }


def test_a_call_is_named_by_its_id_or_a_unique_end_of_it(desk: Desk) -> None:
    nested = desk.begin("settles_step")
    assert desk.here("approve", nested, "pay.1", "--json").json["call_id"] == "night.pay.1"
    two = desk.begin("settles_two")
    refused(desk.here("approve", two, "pay.1"), "may mean any of gather:0.pay.1, gather:1.pay.1")


def test_what_is_asked_nothing_or_something_else_is_refused_with_the_command_that_answers(desk: Desk) -> None:
    run = desk.begin("settles")
    refused(desk.here("approve", run, "fly.1"), "asks nothing about fly.1")
    refused(desk.here("approve", "abcdef", "pay.1"), "no run's id ends in abcdef")
    done = desk.here("answer", run, "pay.1", "5")
    refused(done, "pay.1 asks for approval, not a question")
    assert "jumar approve" in done.err
    refused(desk.here("resolve", run, "pay.1", "--not-happened"), "pay.1 asks for approval, not whether it happened")


def test_an_answer_is_given_once_and_the_second_is_told_the_first(desk: Desk) -> None:
    run = desk.begin("settles")
    assert desk.here("reject", run, "pay.1", "--by", "bo").code == 0
    again = desk.here("approve", run, "pay.1")
    refused(again, "what was asked about pay.1 has been answered (reject by bo)")
    assert f"`jumar show {run[-8:]}`" in again.err


def test_of_approve_and_reject_at_once_from_two_processes_one_counts(desk: Desk) -> None:
    run = desk.begin("settles")
    both = [desk.start("approve", run, "pay.1", "--by", "ana"), desk.start("reject", run, "pay.1", "--by", "bo")]
    ended = [process.communicate(timeout=SECONDS) for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2]
    lost = ended[codes.index(2)][1]
    won = ["approve by ana", "reject by bo"][codes.index(0)]
    assert f"has been answered ({won})" in lost
    (answer,) = desk.view(run)["answers"]
    assert f"{answer['verdict']} by {answer['by']}" == won
    assert desk.here("resume", run).code == (0 if won == "approve by ana" else 1)
    assert desk.sent() == (["i-7 1200"] if won == "approve by ana" else [])


def test_an_answer_to_a_driven_run_says_that_its_process_takes_it_up(desk: Desk) -> None:
    process = desk.start("run", "desk:harness:holds_and_settles")
    try:
        desk.await_file("held")
        desk.await_request("last")
        assert "may gather:1.pay.1 be sent?" in desk.here("show", "last").out
        approved = desk.here("approve", "last", "gather:1.pay.1")
        assert approved.code == 0
        assert "drives it, and takes the answer up by itself" in approved.out
        assert commands(approved.out, "resume") == []
        desk.go()
        out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.communicate()
    assert desk.sent() == ["i-7 1200"]


def test_after_an_attempt_that_may_have_happened_the_next_one_is_asked_for_anew_and_says_so(desk: Desk) -> None:
    run = desk.begin("shakes")
    assert desk.here("approve", run, "shaky.1", "--args", '{"cents": 900}').code == 0
    uncertain = desk.here("resume", run)
    assert uncertain.code == 3
    assert "did shaky.1 happen?" in uncertain.out
    assert 'call          shaky {"cents":900}' in uncertain.out, "what was sent is what may have happened"
    assert desk.here("resolve", run, "shaky.1", "--not-happened").code == 0
    again = desk.here("resume", run)
    assert again.code == 3
    assert "may shaky.1 be sent?" in again.out
    assert re.search(r"attempt +2, after one of \d\d:\d\d:\d\d UTC", again.out)
    assert 'call          shaky {"cents":1200}' in again.out, "the agent's own arguments are asked about again"
    (desk.folder / "mended").touch()
    assert desk.here("approve", run, "shaky.1", "--by", "bo").code == 0
    assert desk.here("resume", run).code == 0
    assert desk.sent() == ["shaky 900", "shaky 1200"]
    shown = desk.here("show", run).out
    assert "answered shaky.1, attempt 2 approved by bo" in shown
    assert "answered shaky.1 did not happen, says" in shown


# --- Questions. -----------------------------------------------------------------------------------------------------


def test_a_choice_needs_no_quotes_and_each_has_its_command(desk: Desk) -> None:
    done = desk.here("run", "desk:harness:asks")
    assert done.code == 3
    assert "ask.1 asks: Restart now? It takes a minute." in done.out
    assert "\x1b" not in done.out and "\x9b" not in done.out
    printed = commands(done.out, "answer")
    assert len(printed) == 6
    for command, choice in zip(printed, ["yes", "not yet", "-5", "--json", "\x1b[31m", "\x9bä🙂"], strict=True):
        run = desk.begin("asks")
        _, _, call, typed = _typed(command)
        assert desk.here("answer", run, call, typed).code == 0
        assert desk.view(run)["answers"][0]["value"] == choice


def test_a_choice_is_taken_as_it_stands_or_as_json(desk: Desk) -> None:
    for typed in ("yes", '"yes"', "-5"):
        run = desk.begin("asks")
        answered = desk.here("answer", run, "ask.1", typed)
        assert answered.code == 0
        assert "call ask.1" in answered.out
        resumed = desk.here("resume", run, "--json")
        assert resumed.json["output"] == typed.strip('"')
    run = desk.begin("asks")
    done = desk.here("answer", run, "ask.1", "maybe")
    refused(done, "'maybe' is none of the choices")
    assert 'The choices are "yes", "not yet"' in done.err
    refused(desk.here("answer", run, "ask.1", "7"), "ask.1 cannot be answered so")


def test_an_answer_of_another_type_is_refused_and_one_of_the_type_ends_the_run(desk: Desk) -> None:
    run = desk.begin("asks_type")
    refused(desk.here("answer", run, "ask.1", '"five"'), "JSON of type integer")
    done = desk.here("answer", run, "ask.1", "five")
    refused(done, "the answer is not valid JSON")
    assert """'"some text"' for a text""" in done.err
    assert desk.here("answer", run, "ask.1", "-", stdin="7").code == 0
    assert desk.here("resume", run, "--json").json["output"] == 7


def test_an_unknown_flag_of_answer_is_refused(desk: Desk) -> None:
    run = desk.begin("asks")
    assert desk.here("answer", run, "ask.1", "yes", "--colour").code == 2
    assert desk.view(run)["answers"] == []


# --- A call that may have happened, in runs that have ended. ----------------------------------------------------------


def test_of_a_cancelled_run_what_may_have_happened_can_still_be_settled_and_nothing_is_resumed(desk: Desk) -> None:
    run = desk.begin("wires")
    assert desk.here("cancel", run).code == 0
    wrong = desk.here("resolve", run, "wire.1", "--happened", '"1200"')
    refused(wrong, "wire.1 cannot have come to that: `$` is not of the type `int`")
    assert "Give what wire would have returned; its signature is wire(cents: int) -> int." in wrong.err
    done = desk.here("resolve", run, "wire.1", "--happened", "1200")
    assert done.code == 0
    assert "it is cancelled: the call is settled, and nothing is resumed" in done.out
    assert commands(done.out) == []
    view = desk.view(run)
    assert (view["calls"][0]["state"], view["waiting_on"]) == ("SUCCEEDED", [])


def test_an_answer_to_a_paused_run_says_that_it_stays_paused(desk: Desk) -> None:
    run = desk.begin("settles")
    assert desk.here("pause", run).code == 0
    approved = desk.here("approve", run, "pay.1")
    assert "it is paused, and goes on only when it is resumed" in approved.out
    assert desk.here("resume", run).code == 0
    assert desk.sent() == ["i-7 1200"]


def test_without_the_app_arguments_are_taken_as_they_are_and_checked_when_the_run_goes_on(desk: Desk) -> None:
    run = desk.begin("settles")
    del desk.environment["JUMAR_APP"]
    done = desk.here("approve", run, "pay.1", *STORE)
    assert done.code == 0
    assert "--app MODULE:HARNESS" in done.out
    assert desk.here("resume", run, *APP).code == 0


def test_a_command_that_is_given_twice_answers_nothing_that_another_call_asks(desk: Desk) -> None:
    run = desk.begin("settles_again")
    assert desk.here("approve", run, "pay.1").code == 0
    assert desk.here("resume", run).code == 3
    again = desk.here("approve", run, "pay.1")
    assert again.code == 2
    assert "what was asked about pay.1 has been answered (approve by" in again.err
    assert desk.sent() == ["i-7 1200"]
    assert desk.here("approve", run, "late.pay.1").code == 0
    assert desk.here("resume", run).code == 0
    assert desk.sent() == ["i-7 1200", "i-8 100"]
