"""A sweep pointed at agents of a user's own: it finds the faults that only a restart shows, and nothing else."""

from __future__ import annotations

import os
import random
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, NotHappened
from jumar.errors import UnknownAgent, UsageError
from jumar.testing import Restart, RestartsFailed, RestartSweep, Witness, restart_sweep
from jumar.testing.restarts_app import load

APPS = "tests.integration.restart_apps:harness"
ELSEWHERE = [
    r"after Commit\(Create",
    r"after Commit\(.*pay.1 STARTED",
    r"before Invoke\(notify",
    r"after Invoke\(settle",
]
SENT, RECORDED = r"after Invoke\(pay ", r"after Commit\(.*SUCCEEDED\)"


@pytest.fixture
def sweep(tmp_path: Path) -> Callable[..., RestartSweep]:
    """Sweeps over the agent of this name."""

    def sweep(agent: str, *args: Any, **options: Any) -> RestartSweep:
        return restart_sweep(f"{APPS}:{agent}", *args, **({"folder": tmp_path} | options))

    return sweep


def failed(sweep: Callable[..., RestartSweep], *args: Any, **options: Any) -> RestartsFailed:
    with pytest.raises(RestartsFailed) as caught:
        sweep(*args, **options)
    return caught.value


# --- Sound agents pass. --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> RestartSweep:
    """A sound agent, killed before it pays, after it has paid, and at one of its other points."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    folder = tmp_path_factory.mktemp("settled")
    at = [r"before Invoke\(pay ", SENT, random.Random(seed).choice(ELSEWHERE)]
    return restart_sweep(f"{APPS}:settle", "c-17", folder=folder, points=at, witness="ledger", seed=seed)


def test_a_sound_agent_passes_wherever_its_process_is_killed(settled: RestartSweep) -> None:
    assert len(settled.restarts) == 3 and settled.missed == ()
    assert settled.uninterrupted.kills == ()
    for restart in settled.restarts:
        assert restart.output == ["paid 700 for c-17", "told about c-17"]
        assert restart.kills[0].partition(" (number")[0] == restart.lives[0][-1]  # the last that process passed
        assert len(restart.lives) == 2


def test_a_kill_between_an_effect_and_its_record_shows_as_such(settled: RestartSweep) -> None:
    (restart,) = (each for each in settled.restarts if each.kills[0].startswith("after Invoke(pay "))
    assert restart.kills == ("after Invoke(pay of pay.pay.1, attempt 1)",)
    assert [call.state for call in restart.calls_before] == ["SUCCEEDED", "STARTED"]
    assert [line.tool for line in restart.witness_before] == ["price", "pay"]
    assert [line.tool for line in restart.witness] == ["price", "pay", "notify"]
    assert restart.call("pay.pay.1").doubts == 1
    with pytest.raises(KeyError):
        restart.call("pay.pay.2")


def test_nobody_waits_for_the_minutes_that_an_effect_needs_to_settle(settled: RestartSweep) -> None:
    (restart,) = (each for each in settled.restarts if each.kills[0].startswith("before Invoke(pay "))
    pay = restart.call("pay.pay.1")
    assert pay.attempt == 2
    assert pay.started_at - restart.calls_before[0].started_at > 600_000


def test_points_are_named_by_the_calls_they_are_about(settled: RestartSweep) -> None:
    assert "after Commit(Advance: pay.pay.1 STARTED)" in settled.points
    assert "after Commit(Advance: pay.pay.1 SUCCEEDED)" in settled.points
    assert "after Commit(Advance: notify.1 SUCCEEDED)" in settled.points
    for restart in settled.restarts:
        points = [point for life in restart.lives for point in life]
        assert not [point for point in points if "Advance: call " in point], "also by who took it over"


def test_an_async_agent_whose_calls_go_side_by_side_passes(sweep: Callable[..., RestartSweep]) -> None:
    points = [r"after Invoke\(notify of map:1", "after Commit.*map:0.*STARTED"]
    done = sweep("inform", ["a", "b"], points=points, witness="ledger")
    assert {restart.output[1] for restart in done.restarts} == {"told about b"}
    assert Witness(done.restarts[0].folder / "ledger").count("applied") == 2


def test_the_processes_that_recover_are_killed_too(sweep: Callable[..., RestartSweep]) -> None:
    done = sweep("settle", "c-17", points=SENT, again=2, seed=4, witness="ledger")
    (restart,) = done.restarts
    assert len(restart.kills) == len(restart.lives) - 1 == 3


def test_a_kill_from_outside_comes_wherever_the_process_is_by_then(sweep: Callable[..., RestartSweep]) -> None:
    done = sweep("settle", "c-17", points=SENT, exact=False, witness="ledger")
    (restart,) = done.restarts
    assert restart.kills == ("after Invoke(pay of pay.pay.1, attempt 1)",)
    assert restart.kills[0] in restart.lives[0]


def test_a_person_answers_where_the_run_waits_for_one(sweep: Callable[..., RestartSweep]) -> None:
    asked = []

    def answer(waiting: Any, folder: Path) -> Happened[str] | NotHappened:
        asked.append((waiting.call_id, waiting.kind, folder))
        sent = Witness(folder / "ledger").count("sent", "wire")
        return Happened("wired 5") if sent else NotHappened()

    done = sweep("transfer", 5, points=r"Invoke\(wire", answer=answer, witness="ledger")
    before, after = done.restarts
    assert asked == [("wire.1", "resolve", before.folder), ("wire.1", "resolve", after.folder)]
    assert before.call("wire.1").attempt == 2 and after.call("wire.1").attempt == 1


def test_a_run_that_waits_for_a_person_and_gets_no_answer_says_so(sweep: Callable[..., RestartSweep]) -> None:
    error = failed(sweep, "transfer", 5, points=r"after Invoke\(wire", answer=lambda waiting, folder: ...)
    assert "the run ended WAITING: for wire.1 (resolve), which only answer= can answer" in str(error)


def persons(waiting: Any, folder: Path) -> Any:
    """What is asked for is given, but for the question that has a default."""
    return {"How much?": 500, "How polite?": ..., None: True}[waiting.question]


def test_a_run_that_sleeps_and_asks_is_awaited_and_answered_between_its_deaths(
    sweep: Callable[..., RestartSweep],
) -> None:
    points = r"before Invoke\(refund|after Commit\(Answer\)"
    done = sweep("consults", "c-17", points=points, answer=persons, witness="ledger")
    assert [restart.output for restart in done.restarts] == [["refunded 500", "very"]] * len(done.restarts)
    *_, last = done.restarts
    assert last.calls[0].ended_at - last.calls[0].started_at >= 3_600_000
    assert last.calls[-1].ended_at - last.calls[0].started_at >= 3_600_000 + 10_000 + 86_400_000


def test_an_answer_of_the_wrong_kind_is_refused(sweep: Callable[..., RestartSweep]) -> None:
    told = refused(UsageError, sweep, "consults", "c-17", answer=lambda waiting, folder: "some")
    assert "the answer" in told and "int" in told


def test_a_loop_agent_passes(sweep: Callable[..., RestartSweep]) -> None:
    points = r"after Invoke\((operator of turn.decide.1|notify)"
    done = sweep("operator", "c-17", points=points, witness="ledger")
    assert [restart.output for restart in done.restarts] == [[700, "told about c-17"]] * 2


# --- Faults are found. ---------------------------------------------------------------------------------------------


def test_an_effect_made_outside_of_a_tool_is_found(sweep: Callable[..., RestartSweep]) -> None:
    def mails(folder: Path) -> list[str]:
        return (folder / "mails").read_text("utf-8").splitlines() if (folder / "mails").exists() else []

    error = failed(sweep, "mails", "c-17", points=[r"before Commit\(Create", RECORDED], witness=mails)
    early, late = error.sweep.restarts
    assert early.problems == ()
    assert (late.witness_before, late.witness) == (["about c-17"], ["about c-17"] * 2)
    assert "1 of 2 restarts went wrong (seed " in str(error)
    assert "killed after Commit(Advance: price.1 SUCCEEDED)" in str(error)
    assert "the witness tells ['about c-17', 'about c-17'], and ['about c-17'] of the uninterrupted run" in str(error)
    assert f"kept in {late.folder}" in str(error)


def test_a_witness_that_is_any_text_tells_by_its_lines(sweep: Callable[..., RestartSweep]) -> None:
    error = failed(sweep, "mails", "c-17", points=[r"before Commit\(Create", RECORDED], witness="mails")
    early, late = error.sweep.restarts
    assert (early.witness_before, early.witness, early.problems) == ([], ["about c-17"], ())
    assert late.witness == ["about c-17"] * 2
    assert "the witness tells ['about c-17', 'about c-17'], and ['about c-17'] of the uninterrupted run" in str(error)


def test_a_tool_that_pays_and_says_it_only_reads_is_found(sweep: Callable[..., RestartSweep]) -> None:
    error = failed(sweep, "charges", "c-17", points=[r"after Invoke\(charge ", RECORDED], witness="ledger")
    unrecorded, recorded = error.sweep.restarts
    assert unrecorded.problems == ("the witness saw charge sent 2 times, and 1 uninterrupted",)
    assert recorded.problems == ()


def test_an_output_that_a_restart_changes_is_found_unless_it_may(sweep: Callable[..., RestartSweep]) -> None:
    error = failed(sweep, "remembers", "c-17", points=RECORDED)
    assert "its output is 'again', and 'the first time' uninterrupted" in str(error)
    (again,) = sweep(
        "remembers", "c-17", points=RECORDED, same_output=False, folder=error.sweep.uninterrupted.folder / "b"
    ).restarts
    assert again.output == "again"


def test_a_process_that_ends_by_itself_while_it_recovers_is_found_with_what_it_printed(
    sweep: Callable[..., RestartSweep],
) -> None:
    error = failed(sweep, "gives_up", "c-17", points=RECORDED)
    assert "a process ended by itself, with exit code 3" in str(error)
    assert "it is all too much" in str(error)


def test_a_check_of_ones_own_sees_the_uninterrupted_run_first_and_its_error_is_the_cause(
    sweep: Callable[..., RestartSweep],
) -> None:
    seen = []

    def check(restart: Restart) -> None:
        seen.append(restart.kills)
        assert not restart.kills, "I do not like it"

    error = failed(sweep, "settle", "c-17", points=SENT, check=check)
    assert seen == [(), ("after Invoke(pay of pay.pay.1, attempt 1)",)]
    assert "check raised AssertionError: I do not like it" in str(error)
    assert isinstance(error.__cause__, AssertionError)


def test_a_check_that_the_uninterrupted_run_does_not_pass_ends_the_sweep(sweep: Callable[..., RestartSweep]) -> None:
    error = failed(sweep, "settle", "c-17", points=SENT, check=lambda restart: False)
    assert str(error).startswith("the run goes wrong even when nobody kills it\n    check answered False")
    assert error.sweep.restarts == ()


# --- Agents that cannot be swept over. -----------------------------------------------------------------------------


def refused(error: type[UsageError], sweep: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        sweep(*args, **options)
    assert type(caught.value) is error
    return str(caught.value)


def test_an_agent_that_does_not_do_the_same_twice_is_refused(
    sweep: Callable[..., RestartSweep], tmp_path: Path
) -> None:
    told = refused(UsageError, sweep, "wavers", str(tmp_path / "count"), points=RECORDED)
    assert "the agent does not do the same twice: it made the call notify.1, and the uninterrupted run did not" in told


def test_an_agent_that_fails_when_nobody_kills_it_is_refused(sweep: Callable[..., RestartSweep]) -> None:
    told = refused(UsageError, sweep, "fails", "c-17")
    assert "the run ends FAILED: ValueError: c-17 is not to be settled, and nobody had killed it" in told


def test_a_process_that_ends_by_itself_is_shown_with_what_it_printed(sweep: Callable[..., RestartSweep]) -> None:
    told = refused(UsageError, sweep, "exits", "c-17")
    assert "a process ended by itself, with exit code 7, and nobody had killed it" in told
    assert "the last words" in told


def test_a_process_that_does_not_end_is_ended_with_all_it_started(
    sweep: Callable[..., RestartSweep], tmp_path: Path
) -> None:
    told = refused(UsageError, sweep, "hangs", str(tmp_path / "pid"), deadline=5)
    assert "a process did not end within 5 s; the last point it passed was before Invoke(hangs)" in told
    (log,) = tmp_path.glob("*/processes.log")
    assert f"what it printed is in {log}" in told
    assert is_gone(int((tmp_path / "pid").read_text("utf-8")))


def is_gone(pid: int) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60.0)[0])
    finally:
        os.close(process)


def test_an_app_that_raises_is_refused_and_its_traceback_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising_shop.py").write_text("key = 'none'\nraise RuntimeError('no key')\n", "utf-8")
    told = refused(UsageError, restart_sweep, "raising_shop:harness:settle", folder=tmp_path / "sweep")
    assert "importing raising_shop raised RuntimeError: no key" in told
    assert 'raising_shop.py", line 2' in told


def test_an_agent_that_does_not_exist_is_refused_with_those_that_do(sweep: Callable[..., RestartSweep]) -> None:
    told = refused(UnknownAgent, sweep, "setle", "c-17")
    assert "has no agent setle" in told and "settle, transfer" in told


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (None, "there is no module broken_shop"),
        ("import not_there_either", "raised ModuleNotFoundError: No module named 'not_there_either'"),
        ("import sys; sys.exit(2)", "importing broken_shop raised SystemExit: 2"),
        ("", "module broken_shop has no harness"),
        ("harness = 7", "broken_shop:harness is a int, not a Harness"),
    ],
)
def test_an_app_that_is_not_there_is_told_apart_from_one_that_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, told: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if source is not None:
        (tmp_path / "broken_shop.py").write_text(source, "utf-8")
    try:
        assert told in refused(UsageError, load, "broken_shop:harness:settle")
    finally:
        sys.modules.pop("broken_shop", None)


def test_an_input_that_the_agent_does_not_take_is_refused(sweep: Callable[..., RestartSweep]) -> None:
    assert "the input does not fit agent settle" in refused(UsageError, sweep, "settle", 17)


def test_points_that_the_run_does_not_have_are_refused_with_those_it_has(sweep: Callable[..., RestartSweep]) -> None:
    told = refused(UsageError, sweep, "settle", "c-17", points=["after Invoke", "before Lunch"])
    assert "no point's name matches 'before Lunch'" in told
    assert "after Invoke(pay of pay.pay.1, attempt 1)" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"points": 0}, "points=0 is not a whole number of at least 1"),
        ({"points": True}, "points=True is not a whole number"),
        ({"points": [7]}, "points=7 is no text"),
        ({"points": "after ("}, "no regular expression"),
        ({"again": -1}, "again=-1 is not a whole number"),
        ({"deadline": 0}, "deadline=0 is not a number of seconds above 0"),
        ({"store": "memory:"}, "does not outlive a process"),
        ({"store": "runs.db"}, "is no store's address"),
        ({"check": "yes"}, "check='yes' cannot be called"),
        ({"witness": 7}, "witness=7 cannot be called"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_runs(
    sweep: Callable[..., RestartSweep], tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    assert told in refused(UsageError, sweep, "settle", "c-17", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("app", ["shop", "shop:harness", "shop:harness:", "sh op:harness:settle", 7])
def test_an_app_that_is_not_named_in_full_is_refused(tmp_path: Path, app: Any) -> None:
    assert "is no MODULE:HARNESS:AGENT" in refused(UsageError, restart_sweep, app, folder=tmp_path)
    assert "Name the module: shop," in refused(UsageError, restart_sweep, "shop.py:harness:settle", folder=tmp_path)


def test_a_folder_that_holds_a_sweep_is_not_used_for_another(
    sweep: Callable[..., RestartSweep], tmp_path: Path
) -> None:
    (tmp_path / "uninterrupted").mkdir()
    assert "holds another sweep already" in refused(UsageError, sweep, "settle", "c-17")


# --- Where a run lives. --------------------------------------------------------------------------------------------


def test_each_run_has_a_folder_prepared_for_it_and_the_environment_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "env_shop.py").write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from jumar import Harness\n"
        "harness = Harness()\n"
        "@harness.agent(name='tells')\n"
        "def tell(run, task):\n"
        "    return [os.environ['SHOP_ROOM'], str(Path.cwd()), Path('prepared').read_text(), run.id]\n",
        "utf-8",
    )
    prepared = []

    def prepare(folder: Path) -> None:
        prepared.append(folder)
        (folder / "prepared").write_text(folder.name, "utf-8")

    done = restart_sweep(
        "env_shop:harness:tell",
        folder=tmp_path / "sweep",
        env={"SHOP_ROOM": "{folder}/room"},
        prepare=prepare,
        store=f"sqlite:///{tmp_path}/shared.db",
        points=r"before Invoke\(tell\)",
        same_output=False,
    )
    runs = [done.uninterrupted, *done.restarts]
    assert prepared == [run.folder for run in runs]
    assert [run.output for run in runs] == [
        [f"{run.folder}/room", str(run.folder), run.folder.name, run.run_id] for run in runs
    ]
    assert len({run.run_id for run in runs}) == 2  # they share a store


# --- The longer ones. ----------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("agent", "task"),
    [("settle", "c-17"), ("inform", ["a", "b", "c"]), ("consults", "c-17"), ("operator", "c-17")],
)
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "from outside"])
def test_sound_agents_pass_at_every_point(
    sweep: Callable[..., RestartSweep], agent: str, task: Any, exact: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    done = sweep(agent, task, again=1, seed=seed, exact=exact, witness="ledger", answer=persons)
    chosen = [point for point in done.points if "Commit" in point or "Invoke" in point]
    assert len(done.restarts) + len(done.missed) == len(chosen)
    assert len(done.restarts) > len(chosen) // 2
