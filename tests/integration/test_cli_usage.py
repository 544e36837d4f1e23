"""What a wrong command line gets: what happened, what is safe now, what to do next; and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from jumar.cli.main import cli
from tests.integration.cli_helpers import Done, Site

STORE = "sqlite:///runs.db"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [path]
    for name, command in group.commands.items():
        found += _commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", _commands(cli), ids=lambda path: " ".join(("jumar", *path)))
def test_every_command_has_help(site: Site, path: tuple[str, ...]) -> None:
    done = site.here(*path, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: jumar {' '.join(path)}".rstrip())
    assert done.err == ""
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.opts[0] in done.out
            assert option.help


def _refused(done: Done, what: str, hint: str) -> None:
    """The error has its three parts, aligned, on standard error, and nothing is on standard output."""
    assert done.code == 2
    assert done.out == ""
    lines = done.err.splitlines()
    labels = [line[:15].rstrip() for line in lines]
    assert [label for label in labels if label] == ["what happened", "safe now", "next"]
    assert what in done.err
    assert hint in "\n".join(line[15:] for line in lines[labels.index("next") :])


def test_an_unknown_command_gets_the_nearest_one_and_the_list(site: Site) -> None:
    _refused(site.here("shwo", "last"), "there is no command `jumar shwo`", "Did you mean `jumar show`?")
    _refused(
        site.here("teleport"), "there is no command `jumar teleport`", "demo, run, resume, worker, runs, requests, show"
    )
    _refused(site.here("store", "shrink"), "there is no command `jumar store shrink`", "migrate")


def test_without_a_command_the_help_is_shown(site: Site) -> None:
    done = site.here()
    assert done.code == 2
    assert "Exit codes" in done.err


def test_missing_and_unknown_parts_of_a_command_line_are_named(site: Site) -> None:
    _refused(site.here("show"), "RUN", "`jumar show --help`")
    _refused(site.here("show", "last", "--colour"), "--colour", "`jumar show --help`")
    _refused(site.here("runs", "--limit", "many"), "many", "`jumar runs --help`")
    _refused(site.here("resolve", "last", "a.1"), "--happened JSON", "null where it returns nothing")
    both = site.here("resolve", "last", "a.1", "--happened", "1", "--not-happened")
    _refused(both, "--not-happened", "null where it returns nothing")


@pytest.mark.parametrize(
    ("target", "what", "hint"),
    [
        ("nowhere:harness:fine", "there is no module nowhere", "the path of its file"),
        ("nowhere.deep:harness:fine", "there is no module nowhere", "the path of its file"),
        ("nowhere.py:harness:fine", "there is no file nowhere.py", "a module's name"),
        ("site app:harness:fine", "'site app' is no module's name", "a path ending in .py"),
        ("site_app:harnes:fine", "site_app has no harnes", "Did you mean harness? Its harnesses: harness, quick."),
        ("site_app:look:fine", "site_app:look is a function, not a Harness", "a variable that holds a Harness"),
        ("site_app:harness:fien", "has no agent fien", "Did you mean fine? Its agents: aholds, fails, fails_at_length"),
        ("site_app:harness", "'site_app:harness' is no MODULE:HARNESS:AGENT", "Name all three"),
        ("site_app", "'site_app' is no MODULE:HARNESS:AGENT", "Name all three"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(site: Site, target: str, what: str, hint: str) -> None:
    done = site.here("run", target)
    _refused(done, what, hint)
    assert "Traceback" not in done.err


def test_an_app_without_its_harness_is_refused(site: Site) -> None:
    _refused(site.here("runs", "--app", "site_app"), "'site_app' is no MODULE:HARNESS", "--app site_app:harness")


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ("def deep():\n    return 1 / 0\n\ndeep()\n", "ZeroDivisionError: division by zero", "return 1 / 0"),
        ("import not_installed_here\n", "No module named 'not_installed_here'", "import not_installed_here"),
        ("def broken(:\n    pass\n", "SyntaxError: ", "def broken(:"),
        ("import sys\nsys.exit('stop')\n", "SystemExit: stop", "sys.exit('stop')"),
        (
            "from jumar import Harness\nharness = Harness(budget=5)\n",
            "NotSupported: ",
            "harness = Harness(budget=5)",
        ),
    ],
)
def test_what_the_users_module_raises_is_shown_with_its_own_traceback(
    site: Site, source: str, said: str, line: str
) -> None:
    (site.folder / "mine.py").write_text(source)
    for target in ("mine:harness:fine", "mine.py:harness:fine"):
        done = site.here("run", target)
        assert done.code == 2
        assert f"importing mine{'.py' if '.py' in target else ''} raised" in done.err
        assert said in done.err
        assert line in done.err
        assert "mine.py" in done.err
        assert "importlib" not in done.err
        assert "jumar/cli" not in done.err
        assert done.err.count(said) == 1


def test_a_file_is_taken_by_its_path_from_another_folder(site: Site) -> None:
    jobs = site.folder / "jobs"
    jobs.mkdir()
    (jobs / "names.py").write_text("AGENT = 'fine'\n")
    (jobs / "json.py").write_text(  # named like a module that is imported already
        "from jumar import Harness\nfrom names import AGENT\n"
        "harness = Harness('sqlite:///jobs.db')\n\n"
        "@harness.agent(name='other')\ndef fine(run, task):\n    return [AGENT, task]\n"
    )
    for agent in ("fine", "other"):  # by the function's name, and by the agent's own
        done = site.here("run", f"jobs/json.py:harness:{agent}", "--input", "7", "--json")
        assert done.code == 0, done.err
        assert done.json["output"] == ["fine", 7]
    assert site.here("runs", "--app", "jobs/json.py:harness", "--json").json[0]["agent"] == "other"


@pytest.mark.parametrize("text", ["mend the site", "{'a': 1}", "", "[1, NaN]", "[" * 5000])
def test_input_that_is_no_json_gets_a_hint_about_quoting(site: Site, text: str) -> None:
    done = site.here("run", "site_app:harness:fine", "--input", text)
    _refused(done, "--input is not valid JSON", """--input '"some text"'""")
    assert not (site.folder / "runs.db").exists()


def test_input_comes_from_the_command_line_a_file_or_standard_input(site: Site) -> None:
    (site.folder / "task.json").write_text('{"deep": ["日本"]}')
    words = ("run", "site_app:harness:fine", "--json")
    assert site.here(*words).json["output"]["task"] is None
    assert site.here(*words, "--input", "@task.json").json["output"]["task"] == {"deep": ["日本"]}
    assert site.here(*words, "--input", "-", stdin="[1, 2]").json["output"]["task"] == [1, 2]
    _refused(site.here("run", "site_app:harness:fine", "--input", "@none.json"), "none.json", "after the @")


def test_input_becomes_the_type_that_the_agent_takes_or_is_refused(site: Site) -> None:
    words = ("run", "site_app:harness:typed", "--json", "--input")
    assert site.here(*words, '{"name": "home"}').json["output"] == {"name": "home", "pages": 2}
    done = site.here("run", "site_app:harness:typed", "--input", '{"pages": "many"}')
    _refused(done, "the input does not fit agent typed", "JSON of the type it takes")
    assert not site.here("runs", "--status", "running", "--json", "--store", STORE).json


def test_resume_takes_no_import_path_from_the_database(site: Site) -> None:
    site.here("run", "site_app:harness:pays")
    _refused(site.here("resume", "last", "--store", STORE), "resume needs the agent's code", "JUMAR_APP")
    assert site.here("resume", "last", JUMAR_APP="site_app:harness").code == 3


def test_the_stores_flag_beats_the_harness_and_may_stand_before_or_after_the_command(site: Site) -> None:
    words = ("run", "site_app:harness:fine", "--json")
    after = site.here(*words, "--store", "sqlite:///after.db", JUMAR_STORE="sqlite:///environment.db")
    before = site.here("--store", "sqlite:///before.db", *words)
    own = site.here(*words, JUMAR_STORE="sqlite:///environment.db")
    assert (after.code, before.code, own.code) == (0, 0, 0)
    assert not (site.folder / "environment.db").exists()
    for name, ran in (("after", after), ("before", before), ("runs", own)):
        (run,) = site.here("runs", "--json", JUMAR_STORE=f"sqlite:///{name}.db").json
        assert run["run_id"] == ran.json["run_id"]


def test_a_store_of_no_known_kind_is_refused(site: Site) -> None:
    done = site.here("runs", "--store", "runs.db")
    assert done.code == 2
    assert "Did you mean sqlite:///runs.db?" in " ".join(done.err.split())
    assert site.here("runs", "--store", "mysql://host/db").code == 2


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("sqlite:runs.db", "sqlite:///runs.db"),
        ("sqlite:/srv/runs.db", "sqlite:////srv/runs.db"),
        ("sqlite://runs.db", "sqlite:///runs.db"),
        ("postgresql:/db", None),
        ("file:", None),
        ("sqlite:///", None),
    ],
)
def test_an_address_with_too_few_slashes_is_told_with_all_of_them(site: Site, address: str, meant: str | None) -> None:
    told = " ".join(site.here("runs", "--store", address).err.split())
    assert "is no store's address" in told
    assert told.partition("Did you mean ")[2] == ("" if meant is None else f"{meant}?")


def test_the_password_in_words_for_libpq_is_not_shown(site: Site) -> None:
    for password in ("s3cr3t", "'s3c r3t'", "s3c@r3t:?x"):
        told = site.here("runs", "--store", f"host=db password={password}").err
        assert "host=db password=***" in told
        assert "s3c" not in told and "r3t" not in told and "Did you mean" not in told


def test_an_app_that_has_the_name_of_a_module_of_python_is_told_so(site: Site) -> None:
    (site.folder / "site.py").write_text("from site_app import harness\n")
    refused = " ".join(site.here("worker", "site:harness", "--once").err.split())
    assert "Python has a module site of its own. Name the file: site.py:harness, or call it otherwise." in refused
    assert site.here("worker", "site.py:harness", "--once").code == 0


def test_in_json_an_error_is_an_object_on_standard_output_and_text_on_standard_error(site: Site) -> None:
    site.here("run", "site_app:harness:fine")
    cases = [
        (("show", "abcdef", "--store", STORE), "run-not-found", 2),
        (("resume", "last", "--app", "site_app:harness"), "run-ended", 4),
        (("run", "nowhere:harness:fine"), "usage", 2),
        (("show",), "usage", 2),
        (("teleport",), "usage", 2),
    ]
    for words, code, exit_code in cases:
        done = site.here(*words, "--json")
        assert done.code == exit_code
        error = done.json["error"]
        assert set(error) == {"code", "what", "safe", "hint"}
        assert error["code"] == code
        assert all(error.values())
        assert done.err.startswith("what happened")


def test_in_json_what_the_agent_prints_goes_to_standard_error(site: Site) -> None:
    done = site.here("run", "site_app:harness:fine", "--json")
    assert done.json["status"] == "COMPLETED"
    assert "a word of the agent's own" in done.err


def test_in_json_a_failed_and_a_waiting_run_say_what_to_type_next(site: Site) -> None:
    failed = site.here("run", "site_app:harness:fails", "--json")
    assert failed.code == 1
    assert failed.json["error_message"] == "the site has no pages"
    waits = site.here("run", "site_app:harness:pays", "--json").json
    assert waits["waiting_on"][0]["call_id"] == "pay.1"
    short = waits["run_id"][-8:]
    assert waits["next"][-1] == f"jumar resume {short} --app site_app:harness"
    answered = site.here("resolve", short, "pay.1", "--not-happened", "--json", "--store", STORE).json
    assert answered["verdict"] == "not-happened"


def test_a_run_that_fails_with_an_error_of_jumars_says_what_is_safe_and_what_to_do(site: Site) -> None:
    for command in ("run site_app:harness:fails_in_a_call", "resume last --app site_app:harness"):
        done = site.here(*command.split())
        assert done.code == 1
        labels = [label for line in done.out.splitlines() if (label := line[:9].rstrip())]
        assert labels == ["run", "status", "error", "safe now", "now", "  then  j", "look"]
        assert (done.out + done.err).count("no such file: conf/site.ini") == 1, "it is told once"
        assert "jumar resume" in done.out
    in_json = site.here("run", "site_app:harness:fails_in_a_call", "--json")
    assert in_json.json["error_type"] == "CallFailed"
    assert "safe now" in in_json.err


def test_a_run_in_memory_is_not_said_to_be_there_for_other_commands(site: Site) -> None:
    for agent in ("fine", "fails", "pays"):
        done = site.here("run", f"site_app:harness:{agent}", "--store", "memory:")
        assert "jumar show" not in done.out
        assert "jumar resume" not in done.out
        assert "kept     nowhere" in done.out
    assert site.here("run", "site_app:harness:fine", "--store", "memory:", "--json").json["next"] == []


def test_the_library_and_the_command_line_load_no_more_than_they_need() -> None:
    """`import jumar` brings neither click nor rich, and the commands bring no rich until something is printed."""
    loaded = "import sys, {}; print([name for name in ('click', 'rich', 'asyncio') if name in sys.modules])"
    for module, expected in (("jumar", "[]"), ("jumar.cli.main", "['click']")):
        done = subprocess.run([sys.executable, "-c", loaded.format(module)], capture_output=True, text=True)
        assert done.stdout.strip() == expected, done.stderr
