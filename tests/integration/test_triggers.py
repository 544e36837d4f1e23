"""A configuration file says which events keep checkpoints, and how often calls are tried again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness, LoopView, NotApplied, Run, ToolCall
from jumar.core.states import Level, Storage
from jumar.core.triggers import DEFAULTS, LEVELS, Trigger
from jumar.errors import CallFailed, ConfigError, UsageError
from tests.integration.agents_helpers import Interruption, interrupted

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a configuration file; answers where it is."""

    def written(text: str) -> Path:
        path = tmp_path / "jumar.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def listed(*triggers: str) -> str:
    """A file with these triggers, each as a flow mapping."""
    return "checkpoint_triggers:\n" + "".join(f"  - {{{trigger}}}\n" for trigger in triggers)


def kept(harness: Harness, run_id: str = "last") -> list[tuple[int, str, str]]:
    """Version, level and event of each checkpoint."""
    return [(point.version, point.level, point.trigger) for point in harness.show(run_id).checkpoints]


# --- Reading a file. -------------------------------------------------------------------------------------------------


def test_a_file_says_event_level_storage_and_retries(write: Write) -> None:
    path = write(
        "# risky things only\n"
        "checkpoint_triggers:\n"
        "  - event: before_external_call\n"
        "    level: step\n"
        "    storage: hot\n"
        "    max_retries: 5\n"
        "  - event: after_planning\n"
    )
    with Harness("memory:", config=path) as harness:
        assert dict(harness.settings.triggers) == {
            "before_external_call": Trigger("before_external_call", Level.STEP, Storage.HOT, 5),
            "after_planning": Trigger("after_planning", Level.TASK),
            "manual": Trigger("manual", Level.STEP),
        }


def test_every_event_can_be_listed_with_every_level_and_storage(write: Write) -> None:
    for level in Level:
        for storage in Storage:
            lines = [
                f"event: {event}, level: {level.label}, storage: {storage.label}, max_retries: 3" for event in LEVELS
            ]
            triggers = Harness("memory:", config=str(write(listed(*lines)))).settings.triggers
            assert set(triggers) == set(LEVELS)
            assert {(each.level, each.storage, each.max_retries) for each in triggers.values()} == {(level, storage, 3)}


def test_without_a_file_the_defaults_hold_and_no_yaml_is_loaded() -> None:
    assert dict(Harness("memory:").settings.triggers) == dict(DEFAULTS)
    program = (
        "import sys, jumar; jumar.Harness('memory:'); assert 'yaml' not in sys.modules and 'asyncio' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


WRONG = {
    "unknown event": (listed("event: after_tol"), 2, "event", "'after_tol' is not known", "Did you mean after_tool? "),
    "unknown level": (listed("event: manual, level: job"), 2, "level", "'job' is not known", "task, step, tool"),
    "unknown storage": (listed("event: manual, storage: warm"), 2, "storage", "'warm' is not known", "cold, hot"),
    "storage as a list": (listed("event: manual, storage: [hot]"), 2, "storage", "it is a list", "cold, hot"),
    "event as a mapping": (listed("event: {a: b}"), 2, "event", "it is a mapping", "after_tool"),
    "a boolean": (listed("event: on"), 2, "event", "'on' is not known", "on_task_start"),
    "no event": (listed("level: tool"), 2, "event", "a trigger has no event", "after_tool"),
    "an event twice": (
        listed("event: manual", "event: after_tool", "event: manual"), 4, "event",
        "there is a trigger for manual already, in line 2", "Keep one of them.",
    ),
    "unknown key": (listed("event: manual, retries: 3"), 2, "", "'retries' is no key here", "max_retries"),
    "merge key": (listed("<<: {event: manual}"), 2, "", "'<<' is no key here", "event, level, storage"),
    "key twice": (listed("event: manual, event: after_tool"), 2, "event", "it is given twice", "Keep one"),
    "key that is a list": (listed("[a]: b"), 2, "", "it is a list", "event, level"),
    "unknown key above": ("triggers: []\n", 1, "", "'triggers' is no key here", "checkpoint_triggers"),
    "second key above": ("checkpoint_triggers: []\nworkspace: site\n", 2, "", "'workspace' is no key", "checkpoint"),
    "key above twice": (
        "checkpoint_triggers: []\ncheckpoint_triggers: []\n", 2, "checkpoint_triggers", "it is given twice", "Keep one",
    ),
    "retries as text": (listed("event: manual, max_retries: '3'"), 2, "max_retries", "'3' cannot be used", "0 to 1000"),
    "negative retries": (listed("event: manual, max_retries: -1"), 2, "max_retries", "'-1' cannot", "0 to 1000"),
    "half a retry": (listed("event: manual, max_retries: 1.5"), 2, "max_retries", "'1.5' cannot", "0 to 1000"),
    "too many retries": (listed("event: manual, max_retries: 1001"), 2, "max_retries", "'1001' cannot", "0 to 1000"),
    "endless retries": (listed("event: manual, max_retries: " + "9" * 5000), 2, "max_retries", "9…' can", "0 to"),
    "retries as a time": (listed("event: manual, max_retries: 1:30"), 2, "max_retries", "'1:30' cannot", "0 to 1000"),
    "retries in another script": (listed("event: manual, max_retries: ٣"), 2, "max_retries", "cannot be", "0 to 1000"),
    "no retries": (listed("event: manual, max_retries:"), 2, "max_retries", "'' cannot be used", "0 to 1000"),
    "retries as a list": (listed("event: manual, max_retries: [3]"), 2, "max_retries", "it is a list", "0 to 1000"),
    "a list above": ("- event: manual\n", 1, "", "the file is a list, and has to be a mapping", "checkpoint_triggers"),
    "a text above": ("manual\n", 1, "", "the file is a single value, and has to be a mapping", "checkpoint_triggers"),
    "a mapping of triggers": (
        "checkpoint_triggers:\n  manual: step\n", 2, "checkpoint_triggers", "it is a mapping", "- event:",
    ),
    "nothing listed": ("checkpoint_triggers:\n", 1, "checkpoint_triggers", "it is empty, and has to be a list", "`[]`"),
    "a word listed": ("checkpoint_triggers:\n  - manual\n", 2, "", "a trigger is a single value", "event, level"),
    "a tab": ("checkpoint_triggers:\n\t- event: manual\n", 2, "", "found character '\\t'", "Indent with spaces."),
    "two documents": ("checkpoint_triggers: []\n---\na: b\n", 2, "", "another document", "Correct the file"),
    "an unclosed list": ("checkpoint_triggers: [\n", 2, "", "it is not YAML", "Correct the file"),
    "an unknown alias": ("checkpoint_triggers: *a\n", 1, "", "undefined alias", "Correct the file"),
    "empty": ("", 0, "", "it is empty", "checkpoint_triggers"),
    "only a comment": ("# nothing\n\n", 0, "", "it is empty", "checkpoint_triggers"),
    "limits as a list": ("snapshot_limits: [files]\n", 1, "", "snapshot_limits is a list, and has to be", "files, "),
    "an unknown limit": ("snapshot_limits:\n  file: 3\n", 2, "", "'file' is no key here", "Did you mean files?"),
    "no limit": ("snapshot_limits:\n  files: 0\n", 2, "files", "'0' cannot be used", "from 1 to"),
    "half a second": ("snapshot_limits:\n  seconds: 0.5\n", 2, "seconds", "'0.5' cannot be used", "from 1 to"),
    "nested too deeply": ("a: " + "[" * 4000, 0, "", "it is nested too deeply", "Correct the file"),
    "too large": ("# " + "x" * 70_000, 0, "", "it has more than 64 KiB", "Correct the file"),
    "a control character": ("a: \x07\n", 0, "", "it is not YAML: special characters are not allowed", "Correct"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_cannot_be_used_says_where_and_what_may_stand_there(write: Write, case: str) -> None:
    text, line, key, what, hint = WRONG[case]
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        Harness("memory:", config=path)
    error = caught.value
    assert (error.path, error.line, error.key, error.exit_code) == (str(path), line, key, 2)
    assert error.what.startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert what in error.what
    assert hint in error.hint
    assert len(error.what) < 400


def test_what_a_file_asks_to_be_constructed_is_never_constructed(write: Write, tmp_path: Path) -> None:
    marked = tmp_path / "made"
    path = write(f"checkpoint_triggers: !!python/object/apply:os.mkdir ['{marked}']\n")
    with pytest.raises(ConfigError, match="a trigger is a single value"):
        Harness("memory:", config=path)
    assert not marked.exists()


def test_a_small_file_cannot_grow_into_a_large_value(write: Write) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 200)]
    with pytest.raises(ConfigError, match="'a0' is no key here"):
        Harness("memory:", config=write("\n".join([*lines, "checkpoint_triggers: *a199"])))
    path = write("checkpoint_triggers:\n  - &a {event: manual}\n" + "  - *a\n" * 5000)
    with pytest.raises(ConfigError, match="there is a trigger for manual already, in line 2"):
        Harness("memory:", config=path)


def test_a_file_that_is_not_there_or_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: it is not there"):
        Harness("memory:", config=tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="it is no file"):
        Harness("memory:", config=tmp_path)
    path = tmp_path / "latin.yaml"
    path.write_bytes("checkpoint_triggers: [] # gr\xfc\xdfe".encode("latin-1"))
    with pytest.raises(ConfigError, match="it is not YAML"):
        Harness("memory:", config=path)


@pytest.mark.parametrize(
    "config", [5, "", ["a.yaml"], {"checkpoint_triggers": []}], ids=["5", "nothing", "list", "dict"]
)
def test_what_is_no_path_is_refused(config: Any) -> None:
    with pytest.raises(UsageError, match="is no file"):
        Harness("memory:", config=config)


def test_another_file_can_be_used_within_a_block(write: Write) -> None:
    path = write(listed("event: after_tool"))
    with Harness("memory:") as harness:
        with harness.override(store="memory:", config=path):
            assert set(harness.settings.triggers) == {"after_tool", "manual"}
            with harness.override(store="memory:"):
                assert set(harness.settings.triggers) == {"after_tool", "manual"}
        assert dict(harness.settings.triggers) == dict(DEFAULTS)


# --- Which checkpoints are kept. -------------------------------------------------------------------------------------


def shop(harness: Harness) -> Any:
    """An agent with a plan, a read, two effects and a checkpoint by hand."""

    @harness.tool(effect="read")
    def look(what: str) -> str:
        return what

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.plan(["scan", "settle"])
        with run.step("scan"):
            run.call(look, "a")
        with run.step("settle"):
            run.call(look, "b")
            paid = run.call(pay, 5)
            run.call(look, "c")
        run.checkpoint("by hand")
        run.call(look, "d")
        return paid

    return agent


def test_the_defaults_keep_the_task_its_steps_and_its_risks(harness: Harness) -> None:
    harness.run(shop(harness), "x").unwrap()
    assert kept(harness) == [
        (0, "task", "on_task_received"),
        (1, "task", "after_planning"),
        (2, "step", "before_planning_step"),  # and the end of the step before, which is the same version
        (3, "tool", "before_external_call"),
        (5, "tool", "after_tool"),
        (6, "step", "after_planning_step"),
        (7, "step", "manual"),
        (8, "task", "on_task_end"),
    ]


def test_only_what_a_file_lists_is_kept_and_what_is_asked_for_by_hand(write: Write) -> None:
    for events, expected in {
        (): [(7, "step", "manual")],
        ("after_tool",): [(5, "tool", "after_tool"), (7, "step", "manual")],
        ("after_planning_step", "on_task_start"): [
            (0, "task", "on_task_start"),
            (2, "step", "after_planning_step"),
            (6, "step", "after_planning_step"),
            (7, "step", "manual"),
        ],
    }.items():
        text = listed(*(f"event: {event}" for event in events)) if events else "checkpoint_triggers: []\n"
        with Harness("memory:", config=write(text)) as harness:
            harness.run(shop(harness), "x").unwrap()
            assert kept(harness) == expected


def test_the_level_that_a_file_gives_decides_which_of_two_stays(write: Write) -> None:
    text = listed(
        "event: before_planning_step, level: tool",
        "event: after_planning_step, level: task",
        "event: manual, level: task",
    )
    with Harness("memory:", config=write(text)) as harness:
        harness.run(shop(harness), "x").unwrap()
        assert kept(harness) == [
            (1, "tool", "before_planning_step"),
            (2, "task", "after_planning_step"),
            (6, "task", "after_planning_step"),
            (7, "task", "manual"),
        ]
        assert harness.show("last").checkpoints[3].name.startswith("agent_start_task_")


def test_hot_storage_is_kept_in_the_record(write: Write) -> None:
    with Harness("memory:", config=write(listed("event: after_tool, storage: hot"))) as harness:
        run_id = harness.run(shop(harness), "x").run_id
        run = harness.store.run(run_id)
        assert run is not None
        found = {point.trigger: point.storage for point in harness.store.checkpoints(run.run_no)}
        assert found == {"after_tool": Storage.HOT, "manual": Storage.COLD}
        assert harness.doctor().sound


def test_a_passing_error_keeps_where_the_run_stood(harness: Harness) -> None:
    tried: list[int] = []

    @harness.tool(effect="read")
    def look(what: str) -> str:
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError("once")
        return what

    @harness.agent
    def agent(run: Run, task: str) -> str:
        run.value("first", 1)
        return run.call(look, "a")

    harness.run(agent, "x").unwrap()
    assert kept(harness)[1] == (1, "tool", "on_retryable_error")


def test_a_context_that_cannot_be_stored_keeps_no_error_from_being_tried_again(harness: Harness) -> None:
    runs: list[Run] = []

    @harness.tool(effect="external", not_applied=(ConnectionError,))
    def pay(cents: int) -> int:
        if len(runs) == 1:
            runs.append(runs[0])
            runs[0].context["f"] = print
            raise NotApplied("busy", retry_after=0.0)
        runs[0].context["f"] = print
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        runs.append(run)
        return run.call(pay, 5)

    result = harness.run(agent, "x")
    assert result.status == "FAILED"
    assert "run.context" in str(result.error)  # what is to be sent again needs a restore point first
    assert "on_retryable_error" not in [point.trigger for point in harness.show("last").checkpoints]


def test_what_was_received_is_kept_although_the_first_process_died_before_its_first_call(harness: Harness) -> None:
    interrupt = Interruption()

    @harness.agent
    def agent(run: Run, task: str) -> int:
        interrupt()
        return run.value("one", 1)

    run_id = interrupted(harness, agent)
    harness.resume(run_id).unwrap()
    assert (0, "task", "on_task_received") not in kept(harness)[1:]
    assert [event for _, _, event in kept(harness)][-1] == "on_task_end"


def test_a_run_that_fails_has_no_end(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.value("one", 1)
        raise ValueError("no")

    harness.run(agent, "x")
    assert kept(harness) == [(0, "task", "on_task_received")]


@pytest.mark.parametrize("after", [False, True], ids=["starts", "ends"])
def test_a_loop_agents_turns_are_steps(write: Write, after: bool) -> None:
    event = "after_planning_step" if after else "before_planning_step"
    with Harness("memory:", config=write(listed(f"event: {event}"))) as harness:

        @harness.tool(effect="read")
        def look(what: str) -> str:
            return what

        @harness.loop(tools=[look])
        def operator(view: LoopView) -> Decision:
            if view.step_index == 3:
                return Decision.finish("done")
            return Decision.act([ToolCall("look", {"what": str(view.step_index)})])

        harness.run(operator, "x").unwrap()
        points = harness.show("last").checkpoints
        steps = [point.name.split("_")[1] for point in points]
        assert {point.trigger for point in points} == {event}
        assert steps == (["turn", "turn-2"] if after else ["turn", "turn-2", "turn-3"])


# --- How often a call is tried again. --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triggers", "own", "tries"),
    [
        ([], None, 3),
        (["event: before_external_call, max_retries: 1"], None, 2),
        (["event: before_external_call, max_retries: 0"], None, 1),
        (["event: before_external_call, max_retries: 0"], 1, 2),
        (["event: before_planning_step, max_retries: 1"], None, 2),
        (["event: on_retryable_error, max_retries: 0"], None, 1),
        (["event: before_write_operation, max_retries: 0"], None, 3),
    ],
    ids=["default", "one", "none", "the tool's own", "of a step", "of errors", "of other calls"],
)
def test_a_call_is_tried_again_as_often_as_its_tool_or_else_the_triggers_say(
    write: Write, triggers: list[str], own: int | None, tries: int
) -> None:
    path = write(listed(*triggers) if triggers else "checkpoint_triggers: []\n")
    with Harness("memory:", config=path) as harness:
        sent: list[int] = []

        @harness.tool(effect="external", retries=own)
        def pay(cents: int) -> int:
            sent.append(cents)
            raise NotApplied("busy", retry_after=0.0)

        @harness.agent
        def agent(run: Run, task: str) -> None:
            with run.step("paying"), pytest.raises(CallFailed):
                run.call(pay, 5)

        harness.run(agent, "x").unwrap()
        assert len(sent) == tries
