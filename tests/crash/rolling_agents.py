"""The agent that is rolled back and crashed at every point of that, and a person who says truthfully what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar import AsyncRun, Decision, Happened, Harness, NotHappened, Run, RunResult, ToolCall
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.places import address_of

TASK = "go"


def opened(folder: Path, *, waits: bool, by: str = "", world: World | None = None, loops: bool = False) -> Harness:
    """A harness on the folder's database and workspace."""
    root = folder / "site"
    witness = Witness(folder / "witness", by=by, world=world)
    harness = Harness(address_of(folder), workspace=root, lease_ttl=TTL)
    tools = make_tools(harness, root, witness)
    if loops:
        make_loop(harness, list(tools.values()), waits)
    else:
        make_agent(harness, tools, waits)
    return harness


def furnish(root: Path) -> None:
    """The workspace as the run finds it."""
    (root / "conf").mkdir(parents=True)
    (root / "conf/site.ini").write_text("port = 80\n")
    (root / "conf/site.ini").chmod(0o640)
    (root / "empty").mkdir(mode=0o711)


def make_tools(harness: Harness, root: Path, witness: Witness) -> dict[str, Any]:
    @harness.tool(effect="read")
    def look(what: str) -> str:
        return f"{what} seen"

    @harness.tool(effect="write", paths=["conf/{file}"])
    def put(file: str, text: str) -> int:
        (root / "conf" / file).write_text(text)
        (root / "conf" / file).chmod(0o604)
        return len(text)

    @harness.tool(effect="idempotent", identity=lambda room: f"book:{room}")
    def book(room: str) -> str:
        """A service that honours keys, and so does its cancellation."""
        witness.apply(f"book {room}")
        return f"r-{room}"

    @book.compensate
    def cancel(receipt: str, room: str) -> None:
        assert receipt == f"r-{room}"
        witness.apply(f"cancel {room}")

    @harness.tool(effect="external", settle=0)
    def pay(cents: int) -> int:
        """A service that does what it is sent, however often."""
        witness.send("pay")
        return cents

    @pay.compensate
    def refund(receipt: int, cents: int) -> None:
        assert receipt == cents
        witness.send("refund")

    @harness.tool(effect="external", settle=0)
    def mail(to: str) -> str:
        """Nothing takes this back."""
        witness.send("mail")
        return f"sent to {to}"

    return {"look": look, "put": put, "book": book, "pay": pay, "mail": mail}


def make_agent(harness: Harness, tools: dict[str, Any], waits: bool) -> None:
    look, put, book, pay, mail = tools.values()
    if waits:

        @harness.agent(name="work")
        async def awaited(run: AsyncRun, task: str) -> list[Any]:
            done: list[Any] = [await run.call(look, task)]
            await run.checkpoint("start")
            with run.step("do"):
                done += [await run.call(put, "site.ini", "port = 81\n"), await run.call(book, "12")]
                done += [await run.call(mail, "ada"), await run.call(pay, 5), await run.call(put, "new.ini", "new\n")]
            return done

        return

    @harness.agent(name="work")
    def plain(run: Run, task: str) -> list[Any]:
        done: list[Any] = [look(task)]
        run.checkpoint("start")
        with run.step("do"):
            done += [put("site.ini", "port = 81\n"), book("12"), mail("ada"), pay(5), put("new.ini", "new\n")]
        return done


TURNS = (
    [ToolCall("look", {"what": TASK})],
    [ToolCall("put", {"file": "site.ini", "text": "port = 81\n"}), ToolCall("book", {"room": "12"})],
    [ToolCall("mail", {"to": "ada"}), ToolCall("pay", {"cents": 5})],
    [ToolCall("put", {"file": "new.ini", "text": "new\n"})],
)


def make_loop(harness: Harness, tools: list[Any], waits: bool) -> None:
    def decide(view: Any) -> Decision:
        assert len(view.history) == view.step_index - 1
        if view.step_index <= len(TURNS):
            return Decision.act(TURNS[view.step_index - 1])
        return Decision.finish([result.value for turn in view.history for result in turn.results])

    if waits:

        @harness.loop(tools=tools, name="work")
        async def awaited(view: Any) -> Decision:
            return decide(view)

        return

    @harness.loop(tools=tools, name="work")
    def plain(view: Any) -> Decision:
        return decide(view)


def answer(harness: Harness, run_id: str, result: RunResult[Any], witness: Witness) -> None:
    """A person who looks at the service's own log says what happened."""
    for asked in result.waiting_on:
        sent = any(line.key == asked.idempotency_key and line.what == "sent" for line in witness.lines())
        harness.resolve(run_id, asked.call_id, Happened(_returned(asked.tool, asked.kind)) if sent else NotHappened())


def _returned(tool: str, kind: str) -> Any:
    if kind == "undo":
        return None
    return {"mail": "sent to ada", "pay": 5}[tool]
