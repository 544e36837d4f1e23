"""An app whose runs wait for people, times and each other, and a folder to run its commands in."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from tests.integration.cli_helpers import SECONDS, Done, Site

STORE = ("--store", "sqlite:///runs.db")
APP = ("--app", "desk:harness")

DESK = """
import time
from pathlib import Path

from jumar import Decision, Harness, NotApplied, ToolCall, Usage

harness = Harness("sqlite:///runs.db")
quick = Harness("sqlite:///runs.db", lease_ttl=1.0)
other = Harness("sqlite:///runs.db")


def tell(line):
    with Path("sent").open("a") as file:
        print(line, file=file)


@harness.tool(effect="external", approval="always")
def pay(invoice: str, cents: int) -> str:
    tell(f"{invoice} {cents}")
    return f"receipt of {invoice}"


@harness.tool(effect="external")
def wire(cents: int) -> int:
    raise RuntimeError("the line went dead")


@harness.tool(effect="external", identity=lambda trip: f"book:{trip}", identity_scope="store")
def book(trip: str) -> str:
    raise RuntimeError("the line went dead")


@harness.tool(effect="external", retries=2)
def post(letter: str) -> str:
    raise NotApplied("come back later", retry_after=500)


@harness.tool(effect="read")
def look(page: int) -> int:
    if page % 100 == 50:
        raise ValueError(f"there is no page {page}")
    return page


@harness.tool(effect="external")
def hold(name: str) -> str:
    Path("held").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return name


@harness.tool(effect="external", approval="always", retries=1, settle=0)
def shaky(cents: int) -> int:
    tell(f"shaky {cents}")
    if not Path("mended").exists():
        raise RuntimeError("the line went dead")
    return cents


@harness.agent
def shakes(run, task):
    return run.call(shaky, 1200)


@harness.agent
def settles(run, task):
    return run.call(pay, "i-7", 1200)


@harness.agent
def settles_two(run, task):
    return list(run.gather(pay.bind("i-7", 1200), pay.bind("i-8", 300)))


@harness.agent
def settles_many(run, task):
    return run.map(pay, [(f"i-{at}", at) for at in range(30)])


@harness.agent
def settles_again(run, task):
    first = run.call(pay, "i-7", 1200)
    with run.step("late"):
        return first, run.call(pay, "i-8", 100)


@harness.agent
def settles_step(run, task):
    with run.step("night"):
        return run.call(pay, "i-7", 1200)


@harness.agent
def asks(run, task):
    choices = ["yes", "not yet", "-5", "--json", "\\x1b[31m", "\\x9bä🙂"]
    return run.ask("Restart now?\\nIt takes a minute.", choices=choices)


@harness.agent
def asks_type(run, task):
    return run.ask("日本語のサーバーは何台ですか" * 6, returns=int)


@harness.agent
def asks_of_many(run, task):
    return run.ask("Which?", choices=[f"choice {at}" for at in range(20)])


@harness.agent
def asks_until(run, task):
    return run.ask("Restart now?", choices=["yes", "no"], expires=task, default="no")


@harness.agent
def sleeps(run, task):
    run.sleep(500)
    return "awake"


@harness.agent
def wires(run, task):
    return run.call(wire, 1200)


@harness.agent
def wires_while_another_sleeps(run, task):
    return list(run.gather(wire.bind(1200), lambda: run.sleep(500)))


@harness.agent
def books(run, task):
    return run.call(book, "t-1")


@harness.agent
def posts(run, task):
    return run.call(post, "to ana")


@harness.agent
def fails_after(run, task):
    run.ask("May it fail?", choices=["yes"])
    raise ValueError("the site has no pages")


@harness.agent
def fails(run, task):
    if not Path("mended").exists():
        raise ValueError("the site has no pages")
    return "mended"


@harness.agent
def tries_again(run, task):
    return run.call(mend, "site")


@harness.tool(effect="read", retries=0)
def mend(name: str) -> str:
    if not Path("mended").exists():
        raise ValueError("no tools at hand")
    return name


@harness.agent
def looks_then_asks(run, task):
    run.call(look, 1)
    return run.ask("Go on?", choices=["yes"])


@harness.agent
def holds(run, task):
    return [run.call(hold, "a"), run.call(look, 1)]


@harness.agent
def asks_then_holds(run, task):
    run.ask("Go on?", choices=["yes"])
    return ends_in_its_own_code(run, task)


@harness.agent
def ends_in_its_own_code(run, task):
    run.call(look, 1)
    Path("held").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return "done"


@quick.agent
def holds_quick(run, task):
    return [run.call(hold, "a"), run.call(look, 1)]


@harness.agent
def holds_and_settles(run, task):
    return list(run.gather(hold.bind("a"), pay.bind("i-7", 1200)))


@harness.agent
def looks_up(run, task):
    try:
        run.map(look, range(300))
    except Exception:
        pass
    for night in range(3):
        with run.step("night"):
            run.call(look, night)


@other.agent
def elsewhere(run, task):
    return run.ask("Go on?", choices=["yes"])


@harness.loop(tools=[look, pay], max_steps=400, verify=lambda output: output == "done" or "say that it is done")
def operator(view):
    number = view.step_index
    if number <= view.task:
        calls = [ToolCall("look", {"page": number})]
        return Decision.act(calls, text=f"page {number}", usage=Usage(input_tokens=10, output_tokens=2))
    if number == view.task + 1:
        return Decision.finish("nearly", text="I think so")
    if number == view.task + 2:
        pays = ToolCall("pay", {"invoice": "x", "cents": 5})
        return Decision.act([pays, ToolCall("fly", {}), ToolCall("look", {"page": 3})])
    return Decision.finish("done")
"""


class Desk(Site):
    """A folder with the desk's app in it, where commands are run as a user runs them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "desk.py").write_text(DESK, encoding="utf-8")
        self.environment["JUMAR_APP"] = "desk:harness"

    def begin(self, agent: str, task: str = "null", code: int = 3) -> str:
        """Run an agent until it ends or waits; answers its id."""
        done = self.here("run", f"desk:{agent}" if ":" in agent else f"desk:harness:{agent}", "--input", task, "--json")
        assert done.code == code, done.out + done.err
        return str(done.json["run_id"])

    def sent(self) -> list[str]:
        """What the payments' service was sent."""
        path = self.folder / "sent"
        return path.read_text().splitlines() if path.exists() else []

    def view(self, run: str) -> Any:
        """A run, as `show --json` tells it."""
        return self.here("show", run, "--json").json

    def await_request(self, run: str) -> None:
        """Wait until a run that goes on elsewhere asks somebody something."""
        deadline = time.monotonic() + SECONDS
        while not self.view(run)["waiting_on"]:
            assert time.monotonic() < deadline, "nothing was asked"
            time.sleep(0.01)

    def await_order(self, run: str) -> None:
        """Wait until a run that goes on elsewhere has an order to obey."""
        deadline = time.monotonic() + SECONDS
        while self.view(run)["run"]["control"] == "none":
            assert time.monotonic() < deadline, "nothing was ordered"
            time.sleep(0.01)

    def set(self, statement: str, *values: Any) -> None:
        """Change the database behind everybody's back, as time or a broken disk would."""
        with sqlite3.connect(self.folder / "runs.db") as connection:
            connection.execute(statement, values)
        connection.close()


def commands(text: str, name: str = "") -> list[str]:
    """The commands that a text prints, or those of one name."""
    found = re.findall(rf"\bjumar {name}\b.*", text)
    return [command.rstrip() for command in found]


def refused(done: Done, what: str, code: int = 2) -> None:
    """The command said in three parts why not, and nothing on standard output."""
    assert done.code == code, done.out + done.err
    assert done.out == ""
    assert what in " ".join(done.err.split())
    assert "Traceback" not in done.err
