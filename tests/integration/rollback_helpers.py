"""What the tests of rollbacks share: an outside world with mail, which cannot be taken back, and rooms, which can."""

from __future__ import annotations

from typing import Any

from jumar import Harness, RunResult, current_call


class Outside:
    """Everything done outside, in order, as somebody there would have seen it; and what fails there."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.keys: list[str] = []
        self.failures: list[BaseException] = []  # of the next cancellations of a room

    def mailed(self) -> list[str]:
        """To whom mail was sent."""
        return [each[1] for each in self.seen if each[0] == "mail"]

    def booked(self) -> list[str]:
        """The rooms that are booked now."""
        rooms: list[str] = []
        for what, room, *_ in self.seen:
            if what == "book":
                rooms.append(room)
            elif what == "cancel":
                rooms.remove(room)
        return rooms

    def note(self, *what: Any) -> None:
        """Something was done."""
        self.seen.append(what)
        call = current_call()
        self.keys.append("" if call is None else call.idempotency_key)


def declare_tools(harness: Harness, outside: Outside, *, waits: bool = False, **of_book: Any) -> tuple[Any, Any, Any]:
    """`mail`, `book` with a compensation (async where `waits`), and `look`, which only reads."""

    @harness.tool(effect="external")
    def mail(to: str) -> str:
        outside.note("mail", to)
        return f"sent to {to}"

    @harness.tool(effect="external", **of_book)
    def book(room: str) -> dict[str, str]:
        outside.note("book", room)
        return {"receipt": f"r-{room}"}

    def cancel(receipt: dict[str, str], room: str) -> None:
        if outside.failures:
            raise outside.failures.pop(0)
        outside.note("cancel", room, receipt["receipt"])

    async def cancel_async(receipt: dict[str, str], room: str) -> None:
        cancel(receipt, room)

    book.compensate(cancel_async if waits else cancel)

    @harness.tool(effect="read")
    def look(what: str) -> str:
        outside.note("look", what)
        return f"{what} seen"

    return mail, book, look


def states(harness: Harness, run_id: str) -> dict[str, str]:
    """The state of each call, with a mark where a rollback left it behind."""
    return {call.call_id: f"{call.state}{' behind' if call.left_behind else ''}" for call in harness.show(run_id).calls}


def done(result: RunResult[Any]) -> Any:
    """The output of a run that must be COMPLETED."""
    assert result.status == "COMPLETED", result
    return result.output
