"""A store with runs of every kind, an outside world that sees what they do, and a harness for either end of a copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from jumar import Happened, Harness, NotHappened, Run, current_call
from jumar.testing.crash import Crashed, crash_at

LARGE = "длинный текст \N{SNOWMAN} " * 400  # more than 2 KiB, and well packed


class Declined(Exception):
    """What the bank says to some."""


class World:
    """One folder of files, one log of what was done outside, and harnesses that work on them through any store."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "site"
        self.root.mkdir()
        (self.root / "first.txt").write_text("zero")
        self.log = folder / "log"
        self.declines = True
        self.opened: list[Harness] = []

    def seen(self) -> list[str]:
        """What was done outside, in order."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def note(self, what: str) -> None:
        """Something was done outside."""
        with self.log.open("a") as log:
            log.write(f"{what}\n")

    def harness(self, address: str) -> Harness:
        """A harness on a store, with every agent."""
        made = Harness(address, workspace=self.root)
        declare(made, self)
        self.opened.append(made)
        return made

    def close(self) -> None:
        """Close what was opened."""
        for each in self.opened:
            each.close()


def declare(harness: Harness, world: World) -> None:
    """The tools and the agents."""

    @harness.tool(effect="read")
    def look(what: str) -> str:
        return f"{what}: {LARGE}"

    @harness.tool(effect="write", paths=["{name}.txt"])
    def put(name: str, text: str) -> int:
        (current_call().workspace / f"{name}.txt").write_text(text)
        return len(text)

    @harness.tool(effect="external", identity=lambda to: f"mail:{to}", identity_scope="store", timeout=0.2, settle=0.1)
    def mail(to: str) -> str:
        world.note(f"mail {to}")
        return f"sent to {to}"

    @mail.probe
    def _(to: str) -> Happened | NotHappened:
        return Happened(f"sent to {to}") if f"mail {to}" in world.seen() else NotHappened()

    @harness.tool(effect="external", errors=(Declined,))
    def pay(cents: int) -> str:
        if world.declines:
            raise Declined("нет")
        world.note(f"pay {cents}")
        return f"paid {cents}"

    tools = [look, put, mail, pay]

    @harness.agent(tools=tools)
    def finish(run: Run, name: str) -> list[Any]:
        return [look(name), put(name, "one"), run.checkpoint("kept"), put(name, "two"), mail(name)][:2]

    @harness.agent(tools=tools)
    def ask(run: Run, name: str) -> str:
        put(name, "asked")
        mail(name)
        return f"{run.ask('Какой?', choices=['a', 'b'])} {put(name, 'answered')}"

    @harness.agent(tools=tools)
    def nap(run: Run, name: str) -> str:
        mail(name)
        run.sleep(3600)
        return mail(f"{name} later")

    @harness.agent(tools=tools)
    def fail(run: Run, cents: int) -> str:
        mail(f"payer of {cents}")
        return pay(cents)

    @harness.agent(tools=tools)
    def same(run: Run, name: str) -> str:
        return mail(name)


def crashed(world: World, address: str, at: str, agent: str, value: Any) -> str:
    """A run whose process died at a point, long ago."""
    harness = world.harness(address)
    crash_at(harness, at)
    try:
        harness.run(agent, value)
    except Crashed:
        pass
    else:
        raise AssertionError(f"no such point: {at}")
    harness.close()
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as db, db:
        run_no, run_id = db.execute("SELECT run_no, run_id FROM run ORDER BY run_id DESC LIMIT 1").fetchone()
        db.execute("UPDATE run SET lease_until = 0 WHERE run_no = ?", (run_no,))
        db.execute("UPDATE call SET dispatch_by = 0 WHERE run_no = ? AND dispatch_by > 0", (run_no,))
    found: str = run_id
    return found


def populated(world: World, address: str) -> dict[str, str]:
    """Runs of every kind: their ids by what they are."""
    harness = world.harness(address)
    made = {
        "completed": harness.run("finish", "first").run_id,
        "asking": harness.run("ask", "second").run_id,
        "napping": harness.run("nap", "third").run_id,
        "failed": harness.run("fail", 7).run_id,
        "queued": harness.start("same", "fourth"),
        "cancelled": harness.run("ask", "fifth").run_id,
        "paused": harness.start("same", "sixth"),
        "rolled back": harness.run("finish", "seventh").run_id,
    }
    harness.cancel(made["cancelled"], by="kim")
    harness.pause(made["paused"], by="kim")
    harness.rollback(made["rolled back"], to="kept", by="kim")
    made["fork"] = harness.fork(made["completed"], at="kept")
    harness.close()
    made["died after the effect"] = crashed(world, address, "after .*Invoke.*mail", "same", "eighth")
    made["died before the effect"] = crashed(world, address, "before .*Invoke.*mail", "same", "ninth")
    return made
