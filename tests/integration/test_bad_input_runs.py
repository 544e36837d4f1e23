"""Runs that cannot be driven as asked: unknown, ended, of changed code; and stores that cannot be opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, Harness, Run
from jumar.errors import (
    IntegrityError,
    JumarError,
    NotStorable,
    ReplayDiverged,
    RunEnded,
    RunNotFound,
    SchemaMismatch,
    StoreUnavailable,
    UsageError,
)
from tests.integration.agents_helpers import Interruption, ids, interrupted, states


def says(error: JumarError, exit_code: int) -> None:
    """Every error says what happened, what is safe now and what to do next."""
    assert error.exit_code == exit_code
    assert error.what and error.safe and error.hint
    assert str(error).splitlines()[-2:] == [f"  Safe now: {error.safe}", f"  Next: {error.hint}"]


UNKNOWN = [
    "01890a5d-ac96-774b-bcce-b302099a8057",
    "abc",
    "last",
    "",
    "nonsense",
    "\ud800",
    "a\x00b",
    "%",
    "'--",
    None,
    5,
]


@pytest.mark.parametrize("run_id", UNKNOWN, ids=repr)
def test_a_run_that_is_not_there_is_not_found_by_anyone(harness: Harness, run_id: Any) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    asked: list[Callable[[], Any]] = [
        lambda: harness.resume(run_id),
        lambda: harness.show(run_id),
        lambda: harness.trace(run_id),
        lambda: harness.find(run_id),
        lambda: harness.resolve(run_id, "pay.1", Happened(5)),
    ]
    for ask in asked:
        with pytest.raises(RunNotFound) as caught:
            ask()
        says(caught.value, 2)
    assert harness.runs() == []


def test_an_end_that_fits_two_runs_names_none(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    for number in (1, 2):
        harness.run(agent, "x", run_id=f"00000000-0000-7000-8000-0000000{number}aaaa")
    with pytest.raises(RunNotFound, match="more than one run's id ends in aaaa") as caught:
        harness.show("aaaa")
    assert "more of the id" in caught.value.hint


@pytest.mark.parametrize("run_id", ["x", "", "abc", "\ud800", 5, "01890a5d-ac96-774b-bcce-b302099a805"], ids=repr)
def test_a_run_is_not_started_under_what_is_no_id(harness: Harness, run_id: Any) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    with pytest.raises(UsageError, match="is not a run id") as caught:
        harness.run(agent, "x", run_id=run_id)
    says(caught.value, 2)
    assert harness.runs() == []


def test_a_finished_run_is_not_resumed_and_keeps_its_output(harness: Harness) -> None:
    called: list[int] = []

    @harness.agent
    def agent(run: Run, task: str) -> int:
        called.append(1)
        return 5

    run_id = harness.run(agent, "x").run_id
    with pytest.raises(RunEnded, match=f"run {run_id} is completed") as caught:
        harness.resume(run_id)
    says(caught.value, 4)
    assert (called, harness.show(run_id).output) == ([1], 5)


def test_a_failed_run_goes_on_once_its_cause_is_mended_and_repeats_nothing(harness: Harness) -> None:
    paid: list[int] = []
    broken = [True]

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        cents = run.call(pay, 42)
        if broken:
            raise ValueError("no good")
        return cents

    failed = harness.run(agent, "x")
    assert (failed.status, failed.error_message) == ("FAILED", "no good")
    broken.clear()
    assert harness.resume(failed.run_id).unwrap() == 42
    assert paid == [42]
    assert harness.show(failed.run_id).run.error_message is None


# --- Changed code. ---------------------------------------------------------------------------------------------------


def changed(harness: Harness, before: Callable[[Run], Any], after: Callable[[Run], Any]) -> tuple[str, ReplayDiverged]:
    """Resume a run with other code than it was recorded by."""
    interrupt = Interruption()

    @harness.agent
    def agent(run: Run, task: str) -> None:
        if not run.recovered:
            before(run)
            interrupt()
        after(run)

    run_id = interrupted(harness, agent)
    with pytest.raises(ReplayDiverged) as caught:
        harness.resume(run_id)
    return run_id, caught.value


@pytest.mark.parametrize("effect", ["idempotent", "external"])
def test_another_effect_than_the_recorded_one_is_not_sent(harness: Harness, effect: str) -> None:
    sent: list[Any] = []

    @harness.tool(effect=effect)
    def pay(invoice: str, cents: int) -> int:
        sent.append((invoice, cents))
        return cents

    run_id, error = changed(harness, lambda run: run.call(pay, "i-7", 5), lambda run: run.call(pay, "i-7", 6))
    says(error, 4)
    assert error.recorded == 'pay.1("cents":5,"invoice":"i-7")'
    assert error.asked == 'pay.2("cents":6,"invoice":"i-7")'
    assert "  Recorded: " + error.recorded in error.what
    assert "  Asked:    " + error.asked in error.what
    assert sent == [("i-7", 5)]
    run = harness.show(run_id).run
    assert (run.status, run.error_type) == ("FAILED", "ReplayDiverged")
    assert error.recorded in str(run.error_message) and error.asked in str(run.error_message)
    assert states(harness, run_id) == {"pay.1": "SUCCEEDED"}
    with pytest.raises(ReplayDiverged):
        harness.resume(run_id)
    assert sent == [("i-7", 5)]


def test_a_diverged_run_goes_on_with_the_code_that_recorded_it(harness: Harness) -> None:
    sent: list[int] = []
    cents = 5

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        paid = run.call(pay, cents)
        if not run.recovered:
            raise KeyboardInterrupt
        return paid

    run_id = interrupted(harness, agent)
    cents = 6
    with pytest.raises(ReplayDiverged):
        harness.resume(run_id)
    cents = 5
    assert harness.resume(run_id).unwrap() == 5
    assert sent == [5]


def test_an_effect_that_is_not_asked_for_again_diverges_at_the_agents_end(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        return cents

    run_id, error = changed(harness, lambda run: run.call(pay, 5), lambda run: None)
    assert error.recorded == 'pay.1("cents":5)'
    assert error.asked == "the agent's end, without this call"
    assert harness.show(run_id).run.status == "FAILED"


def test_a_renamed_tool_is_not_paid_again(harness: Harness) -> None:
    sent: list[int] = []

    def body(cents: int) -> int:
        sent.append(cents)
        return cents

    pay = harness.tool(effect="external", name="pay")(body)
    other = harness.tool(effect="external", name="pay-invoice")(body)
    changed(harness, lambda run: run.call(pay, 5), lambda run: run.call(other, 5))
    assert sent == [5]


def test_long_arguments_are_cut_where_both_sides_are_shown(harness: Harness) -> None:
    @harness.tool(effect="external")
    def send(text: str) -> int:
        return len(text)

    run_id, error = changed(harness, lambda run: run.call(send, "a" * 5000), lambda run: run.call(send, "b" * 5000))
    assert "bbbb" in error.what
    assert len(error.what) < 500
    assert harness.show(run_id).run.error_message == error.what


def test_a_read_that_has_changed_just_runs(harness: Harness) -> None:
    interrupt = Interruption()
    searched: list[str] = []
    words = iter(["old", "new"])

    @harness.tool(effect="read")
    def search(query: str) -> str:
        searched.append(query)
        return query

    @harness.agent
    def agent(run: Run, task: str) -> str:
        found = run.call(search, next(words))
        interrupt()
        return found

    assert harness.resume(interrupted(harness, agent)).unwrap() == "new"
    assert searched == ["old", "new"]


def test_a_strict_harness_refuses_a_changed_prompt() -> None:
    with Harness("memory:", strict=True) as harness:
        prompts = iter(["old", "new"])
        interrupt = Interruption()

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.decide(lambda prompt: prompt, next(prompts))
            interrupt()

        run_id = interrupted(harness, agent)
        with pytest.raises(ReplayDiverged, match=r"the prompt of decision lambda\.1 is not the one"):
            harness.resume(run_id)
        assert harness.show(run_id).run.status == "FAILED"


def test_the_signal_of_a_divergence_passes_an_agents_except_exception(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    def careless(run: Run) -> None:
        for cents in (6, 7):
            try:
                run.call(pay, cents)
            except Exception:
                continue

    changed(harness, lambda run: run.call(pay, 5), careless)
    assert sent == [5]


def test_an_agent_whose_input_type_has_changed_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"

    def old(run: Run, task: str) -> None: ...

    def new(run: Run, task: int) -> None: ...

    with Harness(address) as first:
        first.agent(name="agent")(old)
        run_id = first.start("agent", "text")
    with Harness(address) as second:
        second.agent(name="agent")(new)
        with pytest.raises(NotStorable, match="is not of the type `int`"):
            second.resume(run_id)
        assert second.show(run_id).run.status == "QUEUED"
    with Harness(address) as third:
        third.agent(name="agent")(old)
        assert third.resume(run_id).status == "COMPLETED"
        assert ids(third, run_id) == []


# --- Stores. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        *("", "memory", ":memory:", "MEMORY:", " memory:", "mysql://x", "runs.db", 5),
        *("sqlite", "sqlite://", "sqlite:///", "sqlite://runs.db", "sqlite:///a\x00b", "sqlite:///\ud800"),
    ],
    ids=repr,
)
def test_what_is_no_address_of_a_store_is_refused_when_it_is_given(
    address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError) as caught:
        Harness(address)
    says(caught.value, 2)
    with Harness("memory:") as harness, pytest.raises(UsageError), harness.override(store=address):
        pass
    if address and isinstance(address, str) and "\x00" not in address and address.isprintable():
        monkeypatch.setenv("JUMAR_STORE", address)
        with pytest.raises(UsageError):
            Harness().runs()


@pytest.mark.parametrize("schema", ["", "Runs", "9lives", "a-b", "a;DROP", "pg_mine", "x" * 42, "ä"])
def test_what_can_be_no_schema_is_refused_before_anybody_connects(schema: str) -> None:
    with pytest.raises(UsageError, match="cannot be the schema") as caught:
        Harness(f"postgresql://nobody:secret@nowhere.invalid/x?schema={schema}")
    says(caught.value, 2)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_repeated_to_whoever_mistyped_the_rest_of_an_address() -> None:
    for address in ("postgres:/me:secret@host/db", "postgre://me:secret@host/db", "me:secret@host/db"):
        with pytest.raises(UsageError) as caught:
            Harness(address)
        says(caught.value, 2)
        assert "secret" not in str(caught.value)
    assert repr(Harness("postgresql://me:sec/r@et@host/db?sslpassword=secret")) == (
        "<Harness on postgresql://me:***@host/db?sslpassword=***>"
    )


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist") as caught:
        Harness(f"sqlite:///{tmp_path / 'no' / 'runs.db'}").runs()
    assert str(tmp_path / "no") in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder"):
        Harness(f"sqlite:///{tmp_path}").runs()


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"these are my notes, and no database at all\n" * 100)
    before = path.read_bytes()
    with pytest.raises(IntegrityError, match="is damaged or no SQLite database") as caught:
        Harness(f"sqlite:///{path}").runs()
    says(caught.value, 5)
    assert path.read_bytes() == before


def ask(path: Path, statement: str) -> list[Any]:
    """Do something to a database without Jumar."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    ask(path, "CREATE TABLE notes (text TEXT)")
    with pytest.raises(SchemaMismatch, match="belongs to another program") as caught:
        Harness(f"sqlite:///{path}").runs()
    says(caught.value, 4)
    assert ask(path, "SELECT name FROM sqlite_master") == [("notes",)]


def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Harness(f"sqlite:///{path}") as harness:
        harness.runs()
    ask(path, "PRAGMA user_version = 999")
    with pytest.raises(SchemaMismatch, match="has schema 999; this version of Jumar knows") as caught:
        Harness(f"sqlite:///{path}").runs()
    says(caught.value, 4)
    assert ask(path, "PRAGMA user_version") == [(999,)]
