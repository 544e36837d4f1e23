"""Exceptions that are odd, and those that are no errors at all: nothing is lost, and the same is raised on replay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import CallFailed, JumarError, NotStorable, UsageError
from tests.integration.agents_helpers import Interruption, interrupted, states


class WantsMore(Exception):
    """Cannot be made of its arguments."""

    def __init__(self, *, code: int) -> None:
        super().__init__("more")
        self.code = code


class BrokenText(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class BadAttributes(Exception):
    """Holds what cannot be stored, and cannot even be looked at."""

    def __init__(self) -> None:
        super().__init__("holds things")
        self.good = 5
        self.function = lambda: 5
        self.me = self
        self.nan = float("nan")
        self.text = "\ud800"

    @property
    def response(self) -> Any:
        raise RuntimeError("gone")


class Slotted(Exception):
    """Has no place for attributes but its own."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        super().__init__("slotted")
        self.code = 5


class OddArguments(Exception):
    """Is given what is no text."""


def chained() -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = BrokenText("inner")
    return error


ODD: dict[str, Callable[[], Exception]] = {
    "wants more": lambda: WantsMore(code=5),
    "broken text": lambda: BrokenText("x"),
    "bad attributes": BadAttributes,
    "slotted": Slotted,
    "odd arguments": lambda: OddArguments(print, {1: 2}, b"x", float("nan"), "\ud800"),
    "no message": OddArguments,
    "long message": lambda: OddArguments("x" * 100_000),
    "odd text": lambda: OddArguments("a\x00b \ud800 日本"),
    "chained": chained,
    "a group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "jumar's own": lambda: JumarError("what \ud800", safe="safe \x00", hint="hint \ud800"),
    "made of nonsense": lambda: JumarError(5, hint=6),  # type: ignore[arg-type]
    "unstorable": lambda: NotStorable("inside the tool", path="$.x"),
    "stop iteration": lambda: StopIteration(5),
    "stop async iteration": StopAsyncIteration,
    "recursion": lambda: RecursionError("too deep"),
    "memory": MemoryError,
    "assertion": AssertionError,
    "a new type": lambda: type("Made", (Exception,), {})("up"),
}


def told(error: BaseException) -> tuple[Any, ...]:
    try:
        text = str(error)
    except RuntimeError:
        text = "(no text)"
    return type(error), text, sorted(vars(error)), getattr(error, "hint", None)


@pytest.mark.parametrize("is_declared", [False, True], ids=["undeclared", "declared"])
@pytest.mark.parametrize("name", ODD)
def test_an_odd_exception_is_recorded_and_raised_alike_on_replay(
    harness: Harness, name: str, is_declared: bool
) -> None:
    interrupt = Interruption()
    called: list[int] = []
    seen: list[tuple[Any, ...]] = []

    @harness.tool(effect="idempotent", errors=(Exception,) if is_declared else ())
    def work(name: str) -> int:
        called.append(1)
        raise ODD[name]()

    @harness.agent
    def agent(run: Run, task: str) -> str:
        try:
            run.call(work, name)
        except Exception as error:
            seen.append(told(error))
        interrupt()
        return "went on"

    run_id = interrupted(harness, agent)
    assert states(harness, run_id) == {"work.1": "FAILED"}
    assert harness.resume(run_id).unwrap() == "went on"
    assert (len(called), seen[0]) == (1, seen[1])
    if not is_declared:
        assert seen[0][0] is CallFailed
    assert harness.doctor().sound


@pytest.mark.parametrize("name", ODD)
def test_an_odd_exception_of_the_agent_itself_fails_the_run(harness: Harness, name: str) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        raise ODD[name]()

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", type(ODD[name]()).__name__)
    assert len(str(result.error_message)) <= 500
    assert type(result.error).__name__ == result.error_type
    assert harness.show("last").run.error_message == result.error_message


def test_the_agents_own_endless_recursion_fails_the_run(harness: Harness) -> None:
    called: list[int] = []

    @harness.tool(effect="read")
    def search(depth: int) -> int:
        called.append(depth)
        return depth

    def dig(run: Run, depth: int) -> int:
        return dig(run, depth + 1)

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.call(search, 1)
        return dig(run, 1)

    result = harness.run(agent, "x")
    assert (result.status, result.error_type, called) == ("FAILED", "RecursionError", [1])
    assert states(harness) == {"search.1": "SUCCEEDED"}


def test_a_tools_endless_recursion_is_a_failed_call(harness: Harness) -> None:
    def dig(depth: int) -> int:
        return dig(depth + 1)

    @harness.tool(effect="read")
    def search(depth: int) -> int:
        return dig(depth)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="failed with RecursionError"):
            run.call(search, 1)
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"


# --- What is no error but the end of something. ----------------------------------------------------------------------

ENDS: list[BaseException] = [SystemExit(3), KeyboardInterrupt(), GeneratorExit()]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
@pytest.mark.parametrize("where", ["agent", "read", "decision", "gather", "step"])
def test_the_end_of_the_process_leaves_the_run_to_be_resumed(harness: Harness, end: BaseException, where: str) -> None:
    once = [end]

    def strike(here: str) -> str:
        if here == where and once:
            raise once.pop()
        return here

    search = harness.tool(effect="read", name="search")(lambda: strike("read"))

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        with run.step("scan"):
            found = [strike("step"), run.call(search), run.decide(strike, "decision")]
            found += run.gather(lambda: strike("gather"), lambda: "other")
        return [*found, strike("agent")]

    with pytest.raises(type(end)):
        harness.run(agent, "x")
    run_id = harness.find("last")
    assert harness.show(run_id).run.status == "QUEUED"
    assert harness.resume(run_id).unwrap() == ["step", "read", "decision", "gather", "other", "agent"]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_the_end_of_the_process_in_an_async_run_does_so_too(harness: Harness, end: BaseException) -> None:
    once = [end]

    @harness.tool(effect="read")
    async def search(query: str) -> str:
        await asyncio.sleep(0)
        if once:
            raise once.pop()
        return query

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        return await run.call(search, task)

    with pytest.raises(type(end)):
        harness.run(agent, "x")
    run_id = harness.find("last")
    assert harness.show(run_id).run.status == "QUEUED"
    assert harness.resume(run_id).unwrap() == "x"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
@pytest.mark.parametrize("effect", ["idempotent", "external"])
def test_the_end_of_the_process_in_an_effect_leaves_it_uncertain_and_sends_nothing_twice(
    end: BaseException, effect: str
) -> None:
    sent: list[int] = []
    with Harness("memory:", lease_ttl=1.0) as harness:

        @harness.tool(effect=effect)
        def pay(cents: int) -> int:
            sent.append(cents)
            if len(sent) == 1:
                raise end
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            return run.call(pay, 5)

        with pytest.raises(type(end)):
            harness.run(agent, "x")
        run_id = harness.find("last")
        assert (harness.show(run_id).run.status, states(harness)) == ("RUNNING", {"pay.1": "STARTED"})
        result = harness.resume(run_id)
        if effect == "idempotent":
            assert (result.unwrap(), sent) == (5, [5, 5])
        else:
            assert (result.status, sent, states(harness)) == ("WAITING", [5], {"pay.1": "UNCERTAIN"})


def test_an_agent_that_swallows_an_interruption_in_an_effect_does_not_complete_over_it() -> None:
    sent: list[int] = []
    with Harness("memory:", lease_ttl=1.0) as harness:

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            sent.append(cents)
            raise KeyboardInterrupt

        @harness.agent
        def agent(run: Run, task: str) -> str:
            try:
                run.call(pay, 5)
            except BaseException:
                return "never mind"
            return "paid"

        with pytest.raises(JumarError):
            harness.run(agent, "x")
        assert states(harness) == {"pay.1": "STARTED"}
        result = harness.resume(harness.find("last"))
        assert (result.status, [each.call_id for each in result.waiting_on], sent) == ("WAITING", ["pay.1"], [5])


def test_what_ends_an_iteration_cannot_be_declared_away(harness: Harness) -> None:
    @harness.tool(effect="read", errors=(StopIteration,))
    def work(name: str) -> int:
        raise StopIteration(5)

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        found = []
        for name in ("a", "b"):
            try:
                found.append(run.call(work, name))
            except CallFailed as error:
                assert error.type_name == "StopIteration"
                found.append(-1)
        return found

    assert harness.run(agent, "x").unwrap() == [-1, -1]


def test_an_error_of_jumars_raised_by_a_tool_is_that_tools_failure_and_no_signal(harness: Harness) -> None:
    @harness.tool(effect="read")
    def work(name: str) -> int:
        raise UsageError("inside the tool", hint="mend the tool")

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="failed with UsageError: inside the tool") as caught:
            run.call(work, "x")
        return caught.value.hint

    assert harness.run(agent, "x").unwrap() == "mend the tool"
