"""An app whose runs write files and act outside, some of it to be undone, and a folder to run its commands in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.cli_helpers import Site

STORE = ("--store", "sqlite:///runs.db")

OFFICE = """
import time
from pathlib import Path

from jumar import Harness, NotApplied
from jumar.errors import CallFailed

harness = Harness("sqlite:///runs.db", workspace="site")
bare = Harness("sqlite:///runs.db")
quick = Harness("sqlite:///runs.db", workspace="site", lease_ttl=1.0)


def tell(line):
    with Path("sent").open("a") as file:
        print(line, file=file)


def reached(name):
    Path(name).touch()
    while not Path("go").exists():
        time.sleep(0.01)


@harness.tool(effect="write", paths=["conf/{name}"])
def rewrite(name: str, text: str) -> int:
    return Path("site", "conf", name).write_text(text)


@harness.tool(effect="external")
def mail(to: str) -> str:
    tell(f"mail {to}")
    return to


@harness.tool(effect="external")
def book(trip: str) -> str:
    tell(f"book {trip}")
    return f"ticket of {trip}"


@book.compensate
def _(ticket: str, trip: str) -> None:
    if Path("closed").exists():
        raise NotApplied("the office is closed")
    tell(f"give back {ticket}")


@quick.tool(effect="external")
def reserve(seat: str) -> str:
    return f"seat {seat}"


@reserve.compensate
def _(reservation: str, seat: str) -> None:
    reached("undoing")


@quick.tool(effect="write", paths=["conf/{name}"])
def note(name: str, text: str) -> int:
    return Path("site", "conf", name).write_text(text)


@quick.tool(effect="write", paths=["conf/{name}"])
def scribble(name: str) -> str:
    reached("held")
    return name


@quick.agent
def scribbles(run, task):
    return run.call(scribble, "a.ini")


@quick.agent
def notes(run, task):
    return run.call(note, "a.ini", "by the other\\n")


@quick.agent
def rides(run, task):
    run.checkpoint("at home")
    run.call(note, "trip", "Oslo\\n")
    run.call(reserve, "7a")


@harness.agent
def mends(run, task):
    with run.step("scan"):
        run.call(rewrite, "a.ini", "one\\n")
    run.checkpoint("before restart", refs=["claim:c-1"])
    with run.step("fix"):
        run.call(rewrite, "a.ini", "two\\n")
        run.call(rewrite, "b.ini", "new\\n")
    return "mended"


@harness.agent
def travels(run, task):
    run.checkpoint("at home")
    run.call(rewrite, "trip", "Oslo\\n")
    run.call(mail, "ana")
    run.call(book, "Oslo")
    return "there"


@harness.tool(effect="read")
def lose(page: str) -> str:
    raise ValueError(f"there is no {page}")


@harness.agent
def acts_late(run, task):
    try:
        run.call(lose, "page")
    except CallFailed as error:
        run.call(mail, "ana")
        raise RuntimeError("it is of no use") from error


@harness.agent
def holds(run, task):
    reached("held")
    return "held"


@bare.agent
def looks(run, task):
    run.checkpoint("at home")
    return "looked"


@harness.agent
def fails(run, task):
    run.call(rewrite, "a.ini", "one\\n")
    if not Path("mended").exists():
        raise ValueError("the site has no pages")
    return "mended"


@harness.tool(effect="write", paths=["conf/{name}"], verify=lambda size, name, text: len(text) > 1, retries=0)
def check(name: str, text: str) -> int:
    return Path("site", "conf", name).write_text(text)


@harness.agent
def spoils(run, task):
    with run.step("fix"):
        run.call(rewrite, "a.ini", "one\\n")
        run.call(check, "b.ini", "three\\n" if Path("mended").exists() else "")
    return "mended"
"""


class Office(Site):
    """A folder with the office's app and its site in it, where commands are run as a user runs them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "office.py").write_text(OFFICE, encoding="utf-8")
        self.site = folder / "site"
        (self.site / "conf").mkdir(parents=True)
        (self.site / "conf" / "a.ini").write_text("zero\n")
        self.environment["JUMAR_APP"] = "office:harness"
        self.environment["XDG_STATE_HOME"] = str(folder / "state")

    def begin(self, agent: str, code: int = 0) -> str:
        """Run an agent until it ends or waits; answers its id."""
        target = f"office:{agent}" if ":" in agent else f"office:harness:{agent}"
        done = self.here("run", target, "--json")
        assert done.code == code, done.out + done.err
        return str(done.json["run_id"])

    def sent(self) -> list[str]:
        """What was done outside."""
        path = self.folder / "sent"
        return path.read_text().splitlines() if path.exists() else []

    def view(self, run: str) -> Any:
        """A run, as `show --json` tells it."""
        return self.here("show", run, *STORE, "--json").json

    def files(self) -> dict[str, str]:
        """The site's files with what they hold."""
        found = sorted(path for path in self.site.rglob("*") if path.is_file())
        return {str(path.relative_to(self.site)): path.read_text() for path in found}
