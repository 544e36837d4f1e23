"""What the commands say of a run that needs somebody: the known reason, one way out, and no command that misleads."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.integration.cli_desk import Desk, commands, refused
from tests.integration.cli_helpers import Done

SHOP = """
import time
from pathlib import Path

from jumar import Decision, Harness, NotHappened, ToolCall

harness = Harness("sqlite:///runs.db", lease_ttl=5.0)


class RateLimited(Exception):
    retry_after = 500


@harness.tool(effect="external", timeout=20, settle=0)
def pay(cents: int) -> int:
    with Path("sent").open("a") as file:
        print(cents, file=file)
    raise ValueError("declined: the limit is 100")


@pay.probe
def _(cents):
    return None


@harness.tool(effect="external", timeout=20, settle=400)
def wire(cents: int) -> int:
    raise ValueError("declined: the limit is 100")


@wire.probe
def _(cents):
    return NotHappened()


@harness.tool(effect="external", timeout=0.05, settle=400)
def slow(cents: int) -> int:
    while not Path("go").exists():
        time.sleep(0.01)


@slow.probe
def _(cents):
    return NotHappened()


@harness.tool(effect="idempotent")
def note(text: str) -> str:
    return text


@harness.tool(effect="read", retries=3)
def search(query: str) -> str:
    raise RateLimited("429: too many requests")


@harness.tool(effect="read")
def hold(name: str) -> str:
    Path(name).touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return name


def model(prompt):
    raise RateLimited("429: too many requests")


@harness.agent
def pays(run, task):
    return run.call(pay, 100)


@harness.agent
def wires(run, task):
    return run.call(wire, 100)


@harness.agent
def does_three_things(run, task):
    return list(run.gather(wire.bind(100), lambda: run.ask("How much?", choices=["half"]), search.bind("x")))


@harness.agent
def slows(run, task):
    return run.call(slow, 100)


@harness.agent
def searches(run, task):
    return run.call(search, "x")


@harness.agent
def decides(run, task):
    return run.decide(model, task)


@harness.agent
def asks(run, task):
    return run.ask("How much?", choices=["half", "full"])


@harness.agent
def signs(run, task):
    run.decide(lambda task: "all of them", task)
    run.call(note, "x")
    run.checkpoint("half way")
    run.ask("How much?", choices=["half"])
    run.sleep(0.01)
    return run.call(pay, 100)


@harness.agent
def notes(run, task):
    run.call(note, Path("text").read_text())
    raise KeyError("nothing there")


@harness.loop(tools=[search], max_steps=1)
def endless(view):
    return Decision.act([ToolCall("fly", {})])


@harness.loop(tools=[], verify=lambda output: "say more", verify_limit=1)
def terse(view):
    return Decision.finish(1)


@harness.loop(tools=[])
def mute(view):
    raise KeyError("no model")


@harness.loop(tools=[hold, pay])
def holds(view):
    return Decision.act([ToolCall("hold", {"name": "held"}), ToolCall("pay", {"cents": 1})])
"""


class Shop(Desk):
    """A folder with the shop's app in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")
        self.environment["JUMAR_APP"] = "shop:harness"

    def begun(self, agent: str, code: int = 3) -> Done:
        """What running an agent says."""
        done = self.here("run", agent)
        assert done.code == code, done.out + done.err
        return done


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# --- What is asked about a call that may have happened. ---------------------------------------------------------------


def test_whoever_is_asked_whether_a_call_happened_is_told_what_it_ended_with_and_what_the_probe_said(
    shop: Shop,
) -> None:
    for told in (shop.begun("pays").out, shop.here("show", "last").out, shop.here("requests").out):
        assert re.search(r"^  reason +ValueError: declined: the limit is 100$", told, re.M)
        assert re.search(r"^  probe +answered no verdict, at \d\d:\d\d:\d\d UTC", told, re.M)
        assert "where ValueError means that nothing was done, list it in pay's errors= or not_applied=" in told
    (asked,) = shop.view("last")["waiting_on"]
    assert (asked["reason"], asked["probed"]) == ("ValueError: declined: the limit is 100", "answered no verdict")
    told = shop.here("resolve", "last", "pay.1", "--happened", "100").out
    assert re.search(r"^reason +ValueError: declined: the limit is 100$", told, re.M)


def test_an_attempt_that_may_go_on_gets_no_advice_about_exceptions(shop: Shop) -> None:
    told = shop.begun("slows", 6).out
    shop.go()
    assert "TimeoutError: slow did not end within 0.05 s" in told
    assert "not_applied=" not in told
    assert "the attempt itself may go on (for its timeout, 0.05 s), and after that" in told


def test_a_call_that_did_not_happen_can_be_left_at_that_by_the_command_that_is_shown(shop: Shop) -> None:
    (command,) = commands(shop.begun("pays").out, "reject")
    done = shop.here(*shlex.split(command)[1:], "--note", "call the customer")
    assert done.code == 0
    assert "pay.1 of run" in done.out and "did not happen, and is not made again" in done.out
    failed = shop.here("resume", "last")
    assert failed.code == 1
    assert "CallRejected" in failed.out
    assert shop.sent() == ["100"], "it is not made again"


def test_of_a_cancelled_run_nothing_is_offered_that_would_make_a_call_again_or_not(shop: Shop) -> None:
    shop.begun("pays")
    told = shop.here("cancel", "last").out
    assert [command.split()[1] for command in commands(told)] == ["resolve", "resolve"]
    assert [command.split()[1] for command in commands(shop.here("requests").out)] == ["resolve", "resolve"]


def test_what_goes_on_by_itself_is_said_to_by_every_command_with_how_to_say_otherwise(shop: Shop) -> None:
    told = shop.begun("wires", 6).out
    for text in (told, shop.here("show", "last").out, shop.here("requests").out):
        said = " ".join(text.split())
        assert "and then goes on by itself, with nobody's answer: it did not happen so far, says the probe, at" in said
        assert "what it sent may still act (for settle, 400 s)" in said
        assert "two lease_ttl" not in said
        assert "did wire.1 happen?" not in said
        assert [command.split()[1] for command in commands(text) if "resume" not in command] == ["resolve", "reject"]
    assert "two lease_ttl by default" in shop.here("show", "last", "--store", "sqlite:///runs.db").out
    (request,) = shop.here("requests", "--json").json
    assert [command.split()[1] for command in request["next"]] == ["resolve", "reject"]


def test_of_several_things_only_what_needs_a_person_is_asked(shop: Shop) -> None:
    told = shop.begun("does_three_things").out
    for text in (told, shop.here("show", "last").out, shop.here("requests").out):
        assert "did gather:0.wire.1 happen?" not in text
        assert "about gather:0.wire.1 until" in text
        assert "How much?" in text
        assert ("gather:2.search.1 is tried again: it is rate-limited" in text) is (not text.startswith("request"))


# --- An answer to something else. ------------------------------------------------------------------------------------


def test_a_second_answer_is_told_the_first_whatever_it_says(shop: Shop) -> None:
    shop.begun("asks")
    assert shop.here("answer", "last", "ask.1", "half", "--by", "ana").code == 0
    refused(shop.here("answer", "last", "ask.1", "full"), 'about ask.1 has been answered ("half" by ana)')


def test_an_answer_to_a_call_that_asks_nothing_names_those_that_do(shop: Shop) -> None:
    shop.begun("asks")
    done = shop.here("answer", "last", "ask.2", "full")
    refused(done, "asks nothing about ask.2")
    assert "It asks about ask.1: `jumar show" in done.err
    for words in (("approve", "last", "fly.1"), ("resolve", "last", "fly.1", "--happened", "no json")):
        done = shop.here(*words)
        refused(done, "asks nothing about fly.1")
        assert "It asks about ask.1" in done.err


def test_an_answer_to_a_run_that_has_ended_says_that_it_has(shop: Shop) -> None:
    shop.begun("asks")
    shop.here("cancel", "last")
    done = shop.here("answer", "last", "ask.1", "full")
    refused(done, "is cancelled, and asks nothing about ask.1 any more")
    assert "It asks nobody anything" in done.err


def test_an_answer_of_the_wrong_kind_gets_the_commands_that_do_answer_as_they_are_to_be_typed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.begin("settles")
    del desk.environment["JUMAR_APP"]
    done = desk.here("answer", run, "pay.1", "full", "--app", "desk:harness")
    refused(done, "pay.1 asks for approval, not a question")
    printed = re.findall(r"`(jumar [^`]+)`", done.err)
    assert [command.split()[1] for command in printed] == ["approve", "approve", "reject"]
    assert desk.here(*shlex.split(printed[0])[1:]).code == 0


def test_an_order_to_a_run_that_has_ended_does_not_speak_of_an_output(shop: Shop) -> None:
    shop.begun("asks")
    shop.here("cancel", "last")
    for words in (("cancel", "last"), ("pause", "last"), ("resume", "last")):
        done = shop.here(*words)
        refused(done, "is cancelled", code=4)
        assert "output" not in done.err
    shop.begun("mute", 1)
    done = shop.here("pause", "last")
    refused(done, "is failed, so there is nothing to pause", code=4)
    printed = re.findall(r"`(jumar [^`]+)`", done.err)
    assert [command.split()[1] for command in printed] == ["resume", "cancel"]
    assert shop.here(*shlex.split(printed[1])[1:]).code == 0


# --- A run that has failed. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "error", "way"),
    [
        ("endless", "StepsExhausted: ", "Raise max_steps= in the agent's code, then resume it"),
        ("terse", "VerificationFailed: ", "Raise verify_limit= in the agent's code"),
        ("mute", "KeyError: 'no model'", "Mend the agent's own function, then resume it: turn.decide.1 is asked for"),
    ],
)
def test_a_failed_run_tells_its_error_once_and_one_way_out(shop: Shop, agent: str, error: str, way: str) -> None:
    begun = shop.begun(agent, 1)
    assert (begun.out + begun.err).count(error) == 1
    for text in (begun.out, shop.here("show", "last").out):
        assert text.count(f"now      {way}") == 1
        assert text.count("hint  ") == text.count("Next: ") == 0
        looks = ("show", "rollback")  # beside the way out, with each of its restore points
        assert [name for command in commands(text) if (name := command.split()[1]) not in looks] == ["resume"]


def test_a_run_whose_code_has_changed_is_to_be_resumed_with_the_code_it_had(shop: Shop) -> None:
    (shop.folder / "text").write_text("one")
    begun = shop.begun("notes", 1)
    assert "Mend the cause. Then resume it: the agent's code runs again" in begun.out
    (shop.folder / "text").write_text("two")
    done = shop.here("resume", "last")
    assert (done.code, done.out) == (4, "")
    assert "next           Resume the run with the code that recorded it" in done.err
    text = shop.here("show", "last").out
    assert "FAILED  ReplayDiverged: " in text or "error    ReplayDiverged: " in text
    assert "now      Resume the run with the code that recorded it" in text
    assert "Mend the cause" not in text and "hint  " not in text


# --- Lists. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "call"), [("searches", "search.1"), ("decides", "model.1")])
def test_a_run_that_backs_off_says_why(shop: Shop, agent: str, call: str) -> None:
    told = shop.begun(agent, 6).out
    assert f"when {call} is tried again: it is rate-limited (RateLimited: 429: too many requests)" in told
    assert f"rate-limited by {call}, can go on in " in shop.here("runs").out


def test_what_is_under_way_or_planned_for_the_first_time_is_not_said_to_be_tried_again(shop: Shop) -> None:
    process = shop.start("run", "holds")
    try:
        shop.await_file("held")
        rows = shop.here("show", "last", COLUMNS="120").out.splitlines()
        (held,) = [row for row in rows if "hold.1" in row]
        assert held.rstrip().endswith("under way")
        assert not [row for row in rows if "tried again" in row]
    finally:
        process.kill()
        process.communicate()
    shop.set("UPDATE run SET lease_until = 0")  # what time would do
    text = shop.here("show", "last", COLUMNS="120").out
    (held,) = [row for row in text.splitlines() if "hold.1" in row]
    assert held.rstrip().endswith("planned")


@pytest.mark.parametrize("columns", [30, 80])
def test_what_the_signs_mean_fits_the_screen(shop: Shop, columns: int) -> None:
    shop.begun("signs")
    shop.here("answer", "last", "ask.1", "half")
    assert shop.here("resume", "last").code == 3
    lines = shop.here("show", "last", COLUMNS=str(columns)).out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("◆ decision"))
    told = lines[at : lines.index("", at)]
    assert max(map(cell_len, told)) <= columns
    assert "question, sleep" in "  ".join(told) and "acts outside" in "  ".join(told)


def test_where_nothing_is_due_it_is_said_what_will_be_and_what_waits_for_whom(shop: Shop) -> None:
    shop.begun("wires", 6)
    run = shop.view("last")["run"]["run_id"]
    shop.begun("pays")
    shop.begun("asks")
    process = shop.start("run", "holds")
    try:
        shop.await_file("held")
        done = shop.here("resume", "--due")
        assert shop.here("resume", "--due", "--json").json == []
    finally:
        process.kill()
        process.communicate()
    assert done.code == 0
    nothing, coming, asking, driven = done.out.splitlines()
    assert nothing == "No run of this app can go on by itself."
    assert re.fullmatch(rf"next     \d\d:\d\d:\d\d UTC \(in \d+ (s|min)\): run {run[-8:]} of wires", coming)
    assert asking == "asking   2 runs wait for a person: jumar requests"
    assert driven == "driven   1 run is under a live lease"


# --- Which store, and which app. --------------------------------------------------------------------------------------


def test_a_store_of_the_environment_that_the_app_does_not_use_is_said_not_to_be_used(shop: Shop) -> None:
    shop.begun("asks")
    done = shop.here("runs", "--json", JUMAR_STORE="sqlite:///other.db")
    assert len(done.json) == 1
    (line,) = done.err.splitlines()
    assert "the store is the app's own, sqlite:///runs.db; JUMAR_STORE (sqlite:///other.db) is not used" in line
    for words, environment in [
        ((), {"JUMAR_STORE": f"sqlite:///{shop.folder}/runs.db"}),
        (("--store", "sqlite:///runs.db"), {"JUMAR_STORE": "sqlite:///other.db"}),
        ((), {"JUMAR_STORE": ""}),
    ]:
        assert shop.here("runs", *words, **environment).err == ""


def test_an_agent_alone_is_one_of_the_app_that_is_named_otherwise(shop: Shop) -> None:
    assert shop.here("run", "asks").code == 3
    del shop.environment["JUMAR_APP"]
    assert shop.here("run", "asks", "--app", "shop:harness").code == 3
    assert shop.here("--app", "shop:harness", "run", "asks").code == 3
    refused(shop.here("run", "askes", "--app", "shop:harness"), "has no agent askes")
    done = shop.here("run", "asks")
    refused(done, "'asks' is no MODULE:HARNESS:AGENT")
    assert "the agent alone beside --app or JUMAR_APP" in done.err


def test_where_the_app_is_broken_looking_is_said_to_need_the_store_alone(shop: Shop) -> None:
    shop.begun("asks")
    (shop.folder / "shop.py").write_text("import not_installed_here\n")
    for words in (("runs",), ("show", "last"), ("requests",)):
        done = shop.here(*words, JUMAR_STORE="sqlite:///runs.db")
        assert done.code == 2
        assert "--store ADDRESS (here --store sqlite:///runs.db) is enough: it needs no app" in done.err
    assert shop.here("show", "last", "--store", "sqlite:///runs.db").code == 0
    assert "is enough" not in shop.here("resume", "last").err
