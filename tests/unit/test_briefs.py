"""What a recovered agent is told: the whole of it in both languages, and which steps it calls finished."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jumar.core.briefs.facts import Facts
from jumar.core.briefs.making import brief_of
from jumar.core.briefs.records import Brief, Drift
from jumar.core.records import RunRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Phase, RequestKind, Status
from jumar.errors import UsageError
from tests.unit.briefs_scene import Calls, asked, failure, run_record

EXTERNAL, WRITE = Effect.EXTERNAL, Effect.WRITE


def rich() -> Facts:
    """A run with something of everything: finished and planned steps, files, an error, effects, doubts, requests."""
    calls = Calls()
    calls.plan(["scan", "fix the site", "restart"], ["conf/site.ini", "conf/db.ini"])
    calls.add("scan", "search", {"query": "ERROR"}, ["line 5", "line 9"])
    calls.add("scan", "search", {"query": "WARN"}, [])
    written = calls.add(
        "fix-the-site", "rewrite", {"name": "site", "text": "x"}, 4, effect=WRITE, before=b"1", after=b"2"
    )
    calls.add("fix-the-site", "pay", {"invoice": "i-7", "cents": 500}, "receipt 7", effect=EXTERNAL)
    calls.add("fix-the-site", "mail", {"to": "ana"}, effect=EXTERNAL, state=CallState.UNCERTAIN)
    asking = calls.add("fix-the-site", "ask", {"question": "Restart now?"}, kind=CallKind.ASK, state=CallState.AWAITING)
    calls.add("fix-the-site", "check", state=CallState.FAILED, failure=failure("no such file: db.ini"))
    behind = Calls().add("restart", "book", {"trip": "t-1"}, 1, effect=EXTERNAL)
    return Facts(
        run_record(epoch=4, line=((8, 5),)),
        calls.made,
        [replace(behind, seq=99)],
        [asked(asking, RequestKind.ASK)],
        files={written.seq: ("conf/site.ini", "conf/extra.ini")},
        drift=(Drift("schema", "5", "6"), Drift("release", '"v1"', None)),
    )


ENGLISH = """\
This run (agent repair, task fix-the-site) goes on after an interruption; it has been taken up 3 times so far.
It was rolled back to version 5: what was done after that no longer counts, but for what is listed below as standing.
Finished steps (1), recorded with their results:
- 1. scan: 2 calls; search with “WARN” gave “[]”
The plan: 1. “scan” (done); 2. “fix the site” (now); 3. “restart” (not yet).
Files changed so far: “conf/site.ini”, “conf/extra.ini”.
Files that the plan names and no write has changed yet: “conf/db.ini”.
What went wrong last in call fix-the-site.check.1: ValueError: “no such file: db.ini” (permanent). \
The same call would fail again: change its arguments, or do something else.
It is not known whether call fix-the-site.mail.1 (mail) happened; that is settled before anything else is sent.
Done outside and on record; it stands, and is not to be done again:
- restart.book.1: book with “t-1” gave “1” (done after the point that the run goes on from, and it stands)
- fix-the-site.pay.1: pay with “{"cents":500,"invoice":"i-7"}” gave “receipt 7”
It waits for:
- an answer to “Restart now?” (call fix-the-site.ask.1)
Changed outside since the last snapshot; look before you rely on it:
- schema: was “5”, is “6”
- release: was “"v1"”, is not known
Continue with step 2 (“fix the site”); do not repeat step 1."""

CHINESE = """\
本次运行（代理 repair，任务 fix-the-site）在中断之后继续，到目前为止已被接手 3 次。
它曾被回滚到版本 5：在那之后所做的事不再算数，但下文列为“仍然有效”的除外。
已完成 1 个步骤，结果均有记录：
- 1. scan：2 次调用；search（参数「WARN」）得到「[]」
计划：1. 「scan」（已完成）；2. 「fix the site」（当前）；3. 「restart」（未开始）。
已经改动的文件：「conf/site.ini」、「conf/extra.ini」。
计划要改、但尚未被任何写操作改动的文件：「conf/db.ini」。
上次出错的原因（调用 fix-the-site.check.1）：ValueError：「no such file: db.ini」，属于永久性错误。\
原样重试仍会失败：请修改参数，或者换一种做法。
目前不知道调用 fix-the-site.mail.1（mail）是否已经发生；这一点会在发出任何新调用之前先弄清楚。
以下操作已在外部生效并有记录，仍然有效，请勿重做：
- restart.book.1：book（参数「t-1」）得到「1」（发生在本次运行所接续的版本之后，仍然有效）
- fix-the-site.pay.1：pay（参数「{"cents":500,"invoice":"i-7"}」）得到「receipt 7」
它正在等待：
- 有人回答问题「Restart now?」（调用 fix-the-site.ask.1）
自上次快照以来，外部环境有以下变化，使用前请先核实：
- schema：原为「5」，现为「6」
- release：原为「"v1"」，现为未知
请从第 2 步（「fix the site」）继续，不要重复第 1 步。"""


def test_the_whole_brief_in_english() -> None:
    assert brief_of(rich()).prose == ENGLISH


def test_the_whole_brief_in_chinese() -> None:
    assert brief_of(rich(), "zh").prose == CHINESE


def test_a_brief_is_the_same_data_in_both_languages() -> None:
    english, chinese = brief_of(rich()), brief_of(rich(), "zh")
    assert str(chinese) == CHINESE
    assert english.last_error is not None and chinese.last_error is not None
    assert english.last_error.advice.startswith("The same call would fail again")
    assert chinese.last_error.advice.startswith("原样重试仍会失败")
    unworded: dict[str, Any] = {"lang": "", "prose": "", "instruction": "", "last_error": None}
    assert replace(english, **unworded) == replace(chinese, **unworded)
    assert english.instruction == ENGLISH.splitlines()[-1]


def test_a_brief_can_be_sent_as_json() -> None:
    data = msgspec.json.encode(brief_of(rich()))
    assert msgspec.json.decode(data, type=Brief) == brief_of(rich())


@pytest.mark.parametrize("lang", ["fr", "", "EN", None, 5, ["en"]], ids=str)
def test_no_other_language_is_known(lang: Any) -> None:
    with pytest.raises(UsageError, match="is not known") as caught:
        brief_of(rich(), lang)
    assert "'en', 'zh'" in caught.value.hint


LOOP_ENGLISH = """\
This run (agent operator, task fix-the-site) goes on after an interruption; it has been taken up once so far.
Finished turns (2), recorded with their results:
- turn 1: 1 call; search with “ERROR” gave “line 5”
- turn 2: 2 calls; look gave “null”
It was not known whether call turn#2.send.1 (send) had happened; it had, and it is recorded.
It was not known whether call turn#2.send.1 (send) had happened; it was sent again, and its result is recorded.
It was not known whether call turn#2.send.1 (send) had happened; it came to this: \
“ValueError: no such file. Look elsewhere”.
It was not known whether call turn#2.send.1 (send) had happened; somebody ruled it out: “ValueError: not today”.
Continue from turn 3; do not repeat turns 1, 2."""

LOOP_CHINESE = """\
本次运行（代理 operator，任务 fix-the-site）在中断之后继续，到目前为止已被接手 1 次。
已完成 2 轮，结果均有记录：
- 第 1 轮：1 次调用；search（参数「ERROR」）得到「line 5」
- 第 2 轮：2 次调用；look 得到「null」
中断时曾不知道调用 turn#2.send.1（send）是否已经发生；现已确认它发生过，结果已有记录。
中断时曾不知道调用 turn#2.send.1（send）是否已经发生；它已被重新发出，结果已有记录。
中断时曾不知道调用 turn#2.send.1（send）是否已经发生；最终结果是失败：「ValueError: no such file. Look elsewhere」。
中断时曾不知道调用 turn#2.send.1（send）是否已经发生；有人裁定不再执行：「ValueError: not today」。
请从第 3 轮继续，不要重复第 1、2 轮。"""


def loop() -> Facts:
    """A loop agent's run whose newest turn had a call in doubt, which ended in each of four ways."""
    calls = Calls()
    calls.turn(1, ("search", {"query": "ERROR"}, "line 5"))
    calls.turn(2, ("look", None, None), ("look", None, None))
    found = Calls().add("turn#2", "send", effect=EXTERNAL, state=CallState.UNCERTAIN)
    ends = [
        replace(found, state=CallState.SUCCEEDED),
        replace(found, state=CallState.SUCCEEDED, attempt=2),
        replace(found, state=CallState.FAILED, failure=failure("no such file", hint="Look elsewhere.")),
        replace(found, state=CallState.REJECTED, failure=failure("not today")),
    ]
    run = run_record(agent="operator", phase=Phase.READY_TO_DECIDE)
    return Facts(run, calls.made, doubts=[(found, ended) for ended in ends], turn=3)


def test_a_loop_agent_is_told_its_turns_and_how_each_doubt_ended() -> None:
    assert brief_of(loop()).prose == LOOP_ENGLISH
    assert brief_of(loop(), "zh").prose == LOOP_CHINESE


def test_a_run_that_nobody_interrupted_says_so() -> None:
    facts = Facts(run_record(epoch=1), [])
    assert brief_of(facts).prose == (
        "This run (agent repair, task fix-the-site) has not been interrupted so far. Nothing is recorded yet.\n"
        "Continue with step 1."
    )
    assert brief_of(facts, "zh").prose == (
        "本次运行（代理 repair，任务 fix-the-site）到目前为止没有中断过。目前还没有任何记录。\n请从第 1 步继续。"
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("status", Status, ids=lambda status: status.label)
def test_every_status_has_its_words(status: Status, lang: str) -> None:
    calls = Calls()
    calls.add("", "look")
    heading = brief_of(Facts(run_record(status=status), calls.made), lang).prose.splitlines()[0]
    told = {"en": "so far.", "zh": "1 次。"}[lang]
    assert heading.endswith(told) == (status is Status.RUNNING)
    assert heading.count(told) == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("sort", ErrorClass, ids=lambda sort: sort.label)
def test_every_class_of_error_has_an_advice_of_its_own(sort: ErrorClass, lang: str) -> None:
    def advice(of: ErrorClass) -> str:
        calls = Calls()
        calls.add("", "look", state=CallState.FAILED, failure=failure("no", of))
        brief = brief_of(Facts(run_record(), calls.made), lang)
        assert brief.last_error is not None and brief.last_error.advice in brief.prose
        assert brief.last_error.error_class == of.label
        return brief.last_error.advice

    assert len(advice(sort)) > 10
    assert all(advice(sort) != advice(other) for other in ErrorClass if other is not sort)


@pytest.mark.parametrize(
    ("kind", "state", "english", "chinese"),
    [
        (RequestKind.APPROVAL, CallState.AWAITING, "a person's approval of call pay.1", "有人批准调用 pay.1"),
        (
            RequestKind.RESOLVE,
            CallState.UNCERTAIN,
            "somebody's word on whether call pay.1 happened",
            "有人确认调用 pay.1 是否真的发生过",
        ),
        (RequestKind.ASK, CallState.AWAITING, "an answer to “Now?” (call pay.1)", "有人回答问题「Now?」（调用 pay.1）"),
        (RequestKind.BUDGET, CallState.AWAITING, "a larger budget (call pay.1)", "有人追加预算（调用 pay.1）"),
        (
            RequestKind.UNDO,
            CallState.UNCERTAIN,
            "somebody's word on whether to undo that again (call pay.1)",
            "有人决定是否重新撤销（调用 pay.1）",
        ),
    ],
    ids=lambda value: value.label if isinstance(value, RequestKind) else "",
)
def test_what_a_run_waits_for_is_told(kind: RequestKind, state: CallState, english: str, chinese: str) -> None:
    calls = Calls()
    made = CallKind.ASK if kind is RequestKind.ASK else CallKind.TOOL
    call = calls.add("", "pay", {"question": "Now?"}, kind=made, effect=EXTERNAL, state=state)
    facts = Facts(run_record(status=Status.WAITING), calls.made, requests=[asked(call, kind)])
    assert f"It waits for:\n- {english}\n" in brief_of(facts).prose
    assert f"它正在等待：\n- {chinese}\n" in brief_of(facts, "zh").prose


# --- Which steps are finished. ---------------------------------------------------------------------------------------


def told_of(calls: Calls, run: RunRecord | None = None) -> tuple[list[str], int, str | None]:
    """Names of the finished steps, and number and name of the one to go on with."""
    brief = brief_of(Facts(run_record() if run is None else run, calls.made))
    return [step.name for step in brief.done], brief.step_number, brief.step_name


def test_the_step_of_the_newest_call_is_never_called_finished() -> None:
    calls = Calls()
    calls.add("scan", "look")
    assert told_of(calls) == ([], 1, "scan")
    calls.add("fix.deep", "look")
    assert told_of(calls) == (["scan"], 2, "fix")


def test_a_call_outside_of_every_step_finishes_the_one_before() -> None:
    calls = Calls()
    calls.add("scan", "look")
    calls.add("gather:0", "look")
    assert told_of(calls) == (["scan"], 2, None)


def test_a_step_with_an_open_call_is_gone_on_with_whatever_came_after_it() -> None:
    calls = Calls()
    calls.add("scan", "look")
    calls.add("fix", "send", effect=EXTERNAL, state=CallState.UNCERTAIN)
    calls.add("restart", "look")
    calls.add("", "look")
    assert told_of(calls) == (["scan", "restart"], 2, "fix")
    assert "do not repeat steps 1, 3." in brief_of(Facts(run_record(), calls.made)).prose


def test_a_step_that_is_entered_again_is_another_one() -> None:
    calls = Calls()
    for step in ("scan", "scan#2", "scan#3"):
        calls.add(step, "look")
    assert told_of(calls) == (["scan", "scan#2"], 3, "scan#3")


def test_of_a_run_that_has_ended_everything_is_finished_and_nothing_is_left() -> None:
    calls = Calls()
    calls.add("scan", "look")
    run = run_record(status=Status.COMPLETED, phase=Phase.STOPPED)
    assert told_of(calls, run) == (["scan"], 2, None)
    assert brief_of(Facts(run, calls.made)).prose.endswith("Nothing is left to be done in this run.")


def test_the_newest_plan_says_where_the_run_stands() -> None:
    calls = Calls()
    calls.plan(["nothing"], [])
    calls.plan(["scan", "修复", "restart"], [])
    assert told_of(calls) == ([], 1, "scan")
    calls.add("scan", "look")
    calls.add("unplanned", "look")
    assert told_of(calls) == (["scan"], 2, "修复")
    brief = brief_of(Facts(run_record(), calls.made))
    assert [step.state for step in brief.planned] == ["done", "now", "to do"]
    assert brief.instruction == "Continue with step 2 (“修复”); do not repeat step 1."


def test_a_plan_that_is_done_leaves_what_comes_after_it() -> None:
    calls = Calls()
    calls.plan(["scan"], [])
    calls.add("scan", "look")
    calls.add("", "look")
    assert told_of(calls) == (["scan"], 2, None)


def test_a_plan_that_is_done_is_said_to_be_done_instead_of_counting_on() -> None:
    calls = Calls()
    calls.plan(["scan", "fix"], [])
    calls.add("scan", "look")
    calls.add("fix", "look")
    calls.add("", "look")
    facts = Facts(run_record(), calls.made)
    assert brief_of(facts).prose.endswith(
        "All steps of the plan are done: do not repeat them, and go on with what comes after."
    )
    assert brief_of(facts, "zh").prose.endswith("计划中的步骤均已完成：不要重复，请继续其后的工作。")


def test_no_step_of_a_plan_is_under_way_in_a_run_that_is_completed() -> None:
    calls = Calls()
    calls.plan(["scan", "fix the site"], [])
    calls.add("scan", "look")
    calls.add("fix", "look")  # by another name than the plan has it
    run = run_record(status=Status.COMPLETED, phase=Phase.STOPPED)
    brief = brief_of(Facts(run, calls.made))
    assert [step.state for step in brief.planned] == ["done", "to do"]
    assert brief.step_name is None


def test_a_fork_is_not_said_to_have_been_rolled_back() -> None:
    run = replace(run_record(), line=((8, 5),), forked_from="f-1")
    brief = brief_of(Facts(run, []))
    assert (brief.rolled_back_to, brief.forked_from) == (5, "f-1")
    assert "It was forked from run f-1 and goes on from version 5: what was done after" in brief.prose
    assert "它由运行 f-1 分叉而来，从版本 5 继续：" in brief_of(Facts(run, []), "zh").prose


def test_an_error_of_the_agents_own_code_is_not_taken_for_one_of_a_call() -> None:
    run = run_record(status=Status.FAILED, phase=Phase.STOPPED)
    run = replace(run, error_type="KeyError", error_message="a", error_class=ErrorClass.PERMANENT)
    advice = [brief_of(Facts(run, []), lang).last_error.advice for lang in ("en", "zh")]  # type: ignore[union-attr]
    assert advice == ["It would fail so again until the cause is mended.", "原因消除之前，重来仍会同样失败。"]


def test_a_loop_agents_open_turn_is_the_one_to_go_on_from() -> None:
    calls = Calls()
    calls.turn(1, ("look", None, 1))
    run = run_record(phase=Phase.DECISION_RECORDED)
    assert told_of(calls, run) == (["turn"], 2, None)
    calls.turn(2)
    calls.add("turn#2", "send", effect=EXTERNAL, state=CallState.PLANNED, attempt=0)
    assert told_of(calls, run) == (["turn"], 2, None)
    ended = replace(run, status=Status.COMPLETED, phase=Phase.STOPPED)
    assert brief_of(Facts(ended, calls.made)).unit == "turn"


def test_a_function_agent_that_decided_first_has_steps_all_the_same() -> None:
    calls = Calls()
    calls.add("plan", "decide", kind=CallKind.DECISION)
    ended = run_record(status=Status.COMPLETED, phase=Phase.STOPPED)
    assert brief_of(Facts(ended, calls.made)).unit == "step"


# --- Results and errors. ---------------------------------------------------------------------------------------------


def test_of_a_step_the_last_effect_and_the_last_result_are_told() -> None:
    calls = Calls()
    calls.add("scan", "look", {"at": "a"}, "first")
    calls.add("scan", "pay", {"cents": 5}, "paid", effect=EXTERNAL)
    calls.add("scan", "look", {"at": "b"}, "middle")
    calls.add("scan", "look", {"at": "c"}, state=CallState.FAILED, failure=failure("gone"))
    calls.add("", "look")
    (step,) = brief_of(Facts(run_record(), calls.made)).done
    assert [(each.tool, each.args, each.result, each.failed) for each in step.results] == [
        ("pay", "5", "paid", False),
        ("look", "c", "ValueError: gone", True),
    ]
    assert step.calls == 4


def test_a_large_result_is_read_from_its_artifact_and_a_lost_one_is_none() -> None:
    calls = Calls()
    calls.add("scan", "look", result_artifact=b"name")
    calls.made[0] = replace(calls.made[0], result=None)
    calls.add("", "look")
    facts = Facts(
        run_record(), calls.made, load=lambda name: b'{"$jumar":"T","value":"much"}' if name == b"name" else None
    )
    assert brief_of(facts).done[0].results[0].result == "much"
    assert brief_of(replace(facts, load=lambda name: None)).done[0].results[0].result == "null"
    assert brief_of(replace(facts, load=lambda name: b"\xff{")).done[0].results[0].result == "null"


def test_an_error_that_was_got_over_is_not_the_last_one() -> None:
    calls = Calls()
    calls.add("", "look", state=CallState.FAILED, failure=failure("gone"))
    assert brief_of(Facts(run_record(), calls.made)).last_error is not None
    calls.plan(["a"], [])
    assert brief_of(Facts(run_record(), calls.made)).last_error is not None
    calls.add("", "look")
    assert brief_of(Facts(run_record(), calls.made)).last_error is None


def test_why_a_run_failed_is_told_also_once_it_is_taken_up_again() -> None:
    calls = Calls()
    calls.add("scan", "look", state=CallState.PLANNED)
    failed = run_record(
        status=Status.FAILED,
        error_class=ErrorClass.TRANSIENT,
        error_type="CallFailed",
        error_message="call scan.look.1 failed with ConnectionError: cut: twice",
        failed_calls=(1,),
    )
    for facts in (Facts(failed, calls.made), Facts(run_record(), calls.made, before=failed)):
        error = brief_of(facts).last_error
        assert error is not None
        assert (error.type, error.message, error.call_id) == ("ConnectionError", "cut: twice", "scan.look.1")
        assert error.advice == "It may pass: the same call can be made again."


def test_what_was_undone_or_only_read_does_not_stand() -> None:
    calls = Calls()
    calls.add("", "look", {"at": "a"}, 1)
    calls.add("", "book", {"trip": "t"}, 1, effect=EXTERNAL, state=CallState.COMPENSATED)
    calls.add("", "book", {"trip": "t"}, 1, effect=EXTERNAL, kind=CallKind.COMPENSATION)
    calls.add("", "put", {"key": "k"}, 1, effect=Effect.IDEMPOTENT)
    assert [each.call_id for each in brief_of(Facts(run_record(), calls.made)).standing] == ["put.1"]


def test_writes_whose_files_cannot_be_named_are_counted() -> None:
    calls = Calls()
    for before, after in ((b"1", b"2"), (b"2", b"3"), (b"3", b"3")):
        calls.add("", "rewrite", effect=WRITE, before=before, after=after)
    calls.add("", "rewrite", effect=WRITE, before=b"3", after=b"4", state=CallState.FAILED)
    facts = Facts(run_record(), calls.made, files={1: ("a", "b")})
    brief = brief_of(facts)
    assert (brief.files_changed, brief.unnamed_changes) == (("a", "b"), 1)
    assert "1 write may have changed files whose names cannot be told here." in brief.prose
    assert "另有 1 次写操作可能改动了文件，但在这里无法给出文件名。" in brief_of(facts, "zh").prose
