"""The agent that writes and is crashed at every point, in the middle of its bodies as well.

What its tools write depends on their arguments and on what they find there, so that an attempt made on top of another's
leavings would show: `log` appends, `count` adds one, `tidy` moves files about without saying which.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jumar import AsyncRun, Harness, Run
from jumar.core.requests import Now
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.places import address_of

Between = Callable[[], None]


class Declined(Exception):
    """What the tool `spoil` declares."""


def opened(folder: Path, *, waits: bool, by: str = "", world: World | None = None, **rest: Any) -> Harness:
    """A harness on the folder's database and on the workspace in it, which is furnished where it is not there yet."""
    root = folder / "site"
    furnish(root)
    witness = Witness(folder / "witness", by=by, world=world)
    harness = Harness(address_of(folder), workspace=root, **({"lease_ttl": TTL} | rest))
    tools = make_tools(harness, root, witness, lambda: _passes(world))
    (make_async_agent if waits else make_agent)(harness, tools)
    return harness


def furnish(root: Path) -> None:
    """The workspace as the run finds it."""
    if root.exists():
        return
    being_made = root.with_name("being-made")
    (being_made / "conf").mkdir(parents=True)
    (being_made / "empty").mkdir(mode=0o711)
    for name, text, mode in (("conf/site.ini", "port = 80\n", 0o640), ("log", "begin\n", 0o600), ("n", "0", 0o644)):
        (being_made / name).write_text(text)
        (being_made / name).chmod(mode)
    (being_made / "current").symlink_to("conf/site.ini")
    being_made.rename(root)


def _passes(world: World | None) -> None:
    """A point in the middle of a body, as there is one before and after each request."""
    if world is not None:
        world.before(Now())


def write(place: Path, text: str, between: Between) -> None:
    """Write a text in two halves."""
    with place.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        between()
        file.write(text[len(text) // 2 :])


def make_tools(harness: Harness, root: Path, witness: Witness, between: Between) -> SimpleNamespace:
    @harness.tool(effect="write", paths=["conf/{name}"])
    def rewrite(name: str, text: str) -> int:
        write(root / "conf" / name, text, between)
        (root / "conf" / name).chmod(0o604)
        return len(text)

    @harness.tool(effect="write", paths=["log"])
    def log(line: str) -> str:
        with (root / "log").open("a") as file:
            file.write(line[:1])
            file.flush()
            between()
            file.write(f"{line[1:]}\n")
        return (root / "log").read_text()

    @harness.tool(effect="write", paths=["n"])
    def count() -> int:
        number = int((root / "n").read_text()) + 1
        (root / "n").unlink()
        between()
        (root / "n").write_text(str(number))
        return number

    @harness.tool(effect="write")
    def tidy() -> list[str]:
        (root / "conf").rename(root / "settings")
        (root / "empty").rmdir()
        between()
        (root / "current").unlink()
        (root / "current").symlink_to("settings/site.ini")
        return sorted(each.name for each in root.iterdir())

    @harness.tool(effect="write", paths=["settings/site.ini"], errors=(Declined,))
    def spoil() -> None:
        write(root / "settings/site.ini", "spoilt", between)
        raise Declined("as declared")

    def is_sound(result: str) -> bool:
        return (root / "settings/fixed").read_text() != ""

    @harness.tool(effect="write", paths=["settings/fixed"], verify=is_sound, retries=9)
    def fix() -> str:
        assert not (root / "settings/fixed").exists(), "an earlier attempt's file is still there"
        first = witness.count("tried", "fix") == 0
        if first:
            witness.note("tried", "fix")
        write(root / "settings/fixed", "" if first else "sound", between)
        return "fixed"

    @harness.tool(effect="write", paths=["pages/{name}"])
    def page(name: str) -> str:
        (root / "pages").mkdir(exist_ok=True)
        write(root / "pages" / name, f"page {name}", between)
        return name

    @harness.tool(effect="write", paths=["pages"])
    def index(word: str) -> list[str]:
        names = sorted(each.name for each in (root / "pages").iterdir())
        shutil.copytree(root / "pages", root / "pages" / word)
        between()
        return names

    return SimpleNamespace(
        rewrite=rewrite, log=log, count=count, tidy=tidy, spoil=spoil, fix=fix, page=page, index=index
    )


def make_agent(harness: Harness, tools: SimpleNamespace) -> None:
    @harness.agent
    def work(run: Run, task: str) -> list[Any]:
        done: list[Any] = []
        with run.step("first"):
            done += [tools.rewrite("site.ini", "port = 82\n"), tools.log("one"), tools.count()]
        with run.step("second"):
            done += [tools.count(), tools.tidy(), tools.log("two")]
            try:
                tools.spoil()
            except Declined as error:
                done.append(repr(error))
        done.append(tools.fix())
        with run.step("third"):
            done.append(run.map(tools.page, ["a", "b"]))
            done.append(tools.index("copy"))
        run.checkpoint("before the end")
        return done


def make_async_agent(harness: Harness, tools: SimpleNamespace) -> None:
    @harness.agent
    async def work(run: AsyncRun, task: str) -> list[Any]:
        done: list[Any] = []
        async with run.step("first"):
            done.append(await run.call(tools.rewrite, "site.ini", "port = 82\n"))
            done += [await run.call(tools.log, "one"), await run.call(tools.count)]
        async with run.step("second"):
            done += [await run.call(tools.count), await run.call(tools.tidy), await run.call(tools.log, "two")]
            try:
                await run.call(tools.spoil)
            except Declined as error:
                done.append(repr(error))
        done.append(await run.call(tools.fix))
        async with run.step("third"):
            done.append(await run.map(tools.page, ["a", "b"]))
            done.append(await run.call(tools.index, "copy"))
        await run.checkpoint("before the end")
        return done
