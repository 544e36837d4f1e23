"""Values of an agent's calls, input and output: of the annotated type, and the same live and on replay."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion

from jumar import Happened, Harness, Run, register_codec
from jumar.errors import ReplayDiverged
from tests.integration.agents_helpers import Interruption, interrupted


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass(frozen=True)
class Hit:
    line: int
    when: dt.datetime
    tags: tuple[str, ...] = ()
    parent: Hit | None = None


@dataclass
class Report:
    hits: list[Hit]
    by_colour: dict[Colour, int] = field(default_factory=dict)
    raw: bytes = b""


class Options(TypedDict, total=False):
    limit: int
    deep: bool


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float | None = None


class Order(pydantic.BaseModel):
    number: int
    due: dt.date
    lines: list[Hit | None] = []


class Pair(NamedTuple):
    name: str
    size: int


class Money:
    """A class of the user's own, with a codec."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return self.cents


register_codec(Money, encode=lambda money: money.cents, decode=lambda kind, data: Money(data))

NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
CHAT = ChatCompletion.model_validate(
    {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
)
MESSAGE = Message.model_validate(
    {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
)

VALUES: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "whole number": (int, 2**60),
    "text": (str, "half a line of 日本\n\x00"),
    "bytes": (bytes, bytes(range(256))),
    "list of dataclasses": (list[Hit], [Hit(1, NOON, ("a", "b"), Hit(0, NOON))]),
    "dataclass": (Report, Report([Hit(1, NOON)], {Colour.RED: 5}, b"\x00\xff")),
    "typed dict": (Options, {"limit": 5}),
    "struct": (Point, Point(0.1)),
    "pydantic model": (Order, Order(number=5, due=dt.date(2026, 3, 1), lines=[Hit(1, NOON), None])),
    "enum": (Colour, Colour.RED),
    "whole enum": (Level, Level.HIGH),
    "datetime": (dt.datetime, NOON),
    "date and time": (tuple[dt.date, dt.time, dt.timedelta], (NOON.date(), dt.time(1, 2, 3), dt.timedelta(days=1.5))),
    "uuid and decimal": (dict[uuid.UUID, Decimal], {uuid.UUID(int=5): Decimal("0.10")}),
    "set": (set[str], {"b", "a"}),
    "named tuple": (Pair, Pair("a", 5)),
    "literal": (Literal["yes", "no"], "yes"),
    "union": (Hit | Point | str, Point(1.0)),
    "optional": (Hit | None, None),
    "numbers as keys": (dict[int, list[str]], {1: ["a"], 20: []}),
    "path": (PurePosixPath, PurePosixPath("conf/site.ini")),
    "own class": (Money, Money(1099)),
    "answer of openai": (ChatCompletion, CHAT),
    "answer of anthropic, unannotated": (None, MESSAGE),
    "plain json": (Any, {"a": [1, 2.5, None, True, {"b": "c"}]}),
    "large": (list[Hit], [Hit(number, NOON) for number in range(200)]),
}


def declared(harness: Harness, kind: Any, effect: str, value: Any) -> tuple[Callable[..., Any], list[int]]:
    called: list[int] = []

    def make() -> Any:
        called.append(1)
        return value

    if kind is not None:
        make.__annotations__ = {"return": kind}
    return harness.tool(effect=effect)(make), called


@pytest.mark.parametrize("effect", ["read", "external"])
@pytest.mark.parametrize(("kind", "value"), VALUES.values(), ids=VALUES.keys())
def test_what_the_agent_gets_is_of_its_type_live_and_on_replay(
    harness: Harness, kind: Any, value: Any, effect: str
) -> None:
    interrupt = Interruption()
    seen: list[Any] = []
    make, called = declared(harness, kind, effect, value)

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append(run.call(make))
        interrupt()

    harness.resume(interrupted(harness, agent)).unwrap()
    assert called == [1]
    assert seen == [value, value]
    assert [type(each) for each in seen] == [type(value)] * 2
    assert seen[0] is not value or not isinstance(value, (list, dict, Report, Order))


@pytest.mark.parametrize(
    ("value", "stored"),
    [((1, 2), [1, 2]), ([(1,)], [[1]]), ({"a": (1,)}, {"a": [1]})],
)
def test_an_unannotated_tuple_is_a_list_live_already(harness: Harness, value: Any, stored: Any) -> None:
    interrupt = Interruption()
    seen: list[Any] = []
    make, _ = declared(harness, None, "read", value)

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append(run.call(make))
        interrupt()

    harness.resume(interrupted(harness, agent)).unwrap()
    assert seen == [stored, stored]


def test_what_the_agent_gets_is_not_the_object_that_the_tool_keeps(harness: Harness) -> None:
    kept: list[list[int]] = []

    @harness.tool(effect="read")
    def make() -> list[int]:
        kept.append([1])
        return kept[-1]

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        got = run.call(make)
        kept[-1].append(2)
        return got

    assert harness.run(agent, "x").unwrap() == [1]


def test_the_input_is_of_the_annotated_type_live_and_on_replay(harness: Harness) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    @harness.agent
    def agent(run: Run, task: Report) -> Report:
        seen.append(task)
        interrupt()
        return task

    report = Report([Hit(1, NOON)], {Colour.RED: 5}, b"\x00")
    result = harness.resume(interrupted(harness, agent, report))
    assert seen == [report, report]
    assert result.unwrap() == report
    assert isinstance(result.output, Report)
    assert seen[0] is not report


def test_json_of_a_type_is_taken_for_the_input_of_that_type(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: Point) -> float:
        return task.x

    assert harness.run(agent, {"x": 2.5}).unwrap() == 2.5


def test_arguments_of_rich_types_match_on_replay_and_change_nothing_for_the_body(harness: Harness) -> None:
    interrupt = Interruption()
    got: list[Any] = []

    @harness.tool(effect="read")
    def look(hit: Hit, colours: set[Colour], order: Order | None = None) -> int:
        got.append((hit, colours, order))
        return len(got)

    order = Order(number=5, due=dt.date(2026, 3, 1))

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        found = [run.call(look, Hit(1, NOON), {Colour.RED}, order=order), look(Hit(2, NOON), set())]
        interrupt()
        return found

    assert harness.resume(interrupted(harness, agent)).unwrap() == [1, 2]
    assert got == [(Hit(1, NOON), {Colour.RED}, order), (Hit(2, NOON), set(), None)]


def test_types_named_inside_a_function_are_found(harness: Harness) -> None:
    @dataclass
    class Inner:
        size: int

    @harness.tool(effect="read")
    def make() -> Inner:
        return Inner(5)

    @harness.agent
    def agent(run: Run, task: Inner) -> Inner:
        assert isinstance(task, Inner)
        return run.call(make)

    assert harness.run(agent, {"size": 1}).unwrap() == Inner(5)


def test_a_persons_answer_is_of_the_tools_type(harness: Harness) -> None:
    seen: list[Any] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> Point:
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append(run.call(pay, 5))

    for answer in (Point(1.5), {"x": 1.5}):
        run_id = harness.run(agent, "x").run_id
        harness.resolve(run_id, "pay.1", Happened(answer))
        assert harness.resume(run_id).status == "COMPLETED"
        assert seen.pop() == Point(1.5)


def test_a_second_harness_on_the_same_file_reads_what_the_first_wrote(tmp_path: Path) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    def declare(harness: Harness) -> Callable[..., Any]:
        tools = [declared(harness, kind, "read", value)[0] for kind, value in [VALUES["dataclass"]]]

        @harness.agent
        def agent(run: Run, task: Order) -> Report:
            seen.append((task, run.call(tools[0])))
            interrupt()
            report: Report = seen[-1][1]
            return report

        return agent

    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as first:
        run_id = interrupted(first, declare(first), Order(number=5, due=dt.date(2026, 3, 1)))
    with Harness(address) as second:
        declare(second)
        assert second.resume(run_id).unwrap() == VALUES["dataclass"][1]
    assert seen[0] == seen[1]


def test_a_result_whose_type_has_changed_since_is_an_error_that_says_so(tmp_path: Path) -> None:
    interrupt = Interruption()

    def declare(harness: Harness, kind: Any) -> Callable[..., Any]:
        make, _ = declared(harness, kind, "read", "text")

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.call(make)
            interrupt()

        return agent

    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as first:
        run_id = interrupted(first, declare(first, str))
    with Harness(address) as second:
        declare(second, int)
        with pytest.raises(ReplayDiverged, match="is not of the type that make has now"):
            second.resume(run_id)
        assert second.show(run_id).run.status == "FAILED"
