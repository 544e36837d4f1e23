"""Options: those of later versions are refused and never ignored, and nonsense is named, before anything is done."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

import jumar
from jumar import AsyncRun, Harness, NotHappened, Run
from jumar.errors import InvalidReference, NotStorable, NotSupported, UsageError
from tests.integration.agents_helpers import ids

LATER_TOOL = {
    "budget": {"usd": 1},
    "returns": "refs",
}


@pytest.mark.parametrize("option", LATER_TOOL)
def test_a_tools_option_of_a_later_version_is_refused(harness: Harness, option: str) -> None:
    for decorate in (harness.tool, jumar.tool):
        with pytest.raises(NotSupported, match=rf"{option}=.*not in this version") as caught:
            decorate(name="t", **{option: LATER_TOOL[option]})(print)  # type: ignore[call-overload]
        assert (caught.value.exit_code, caught.value.safe) == (2, "Nothing was changed.")
        assert "Leave the option out" in caught.value.hint


def test_what_could_not_undo_a_call_is_refused(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        return cents

    with pytest.raises(UsageError, match="the compensation of pay takes"):
        pay.compensate(lambda receipt: None)
    with pytest.raises(UsageError, match="strategy='backward' is not known"):
        pay.using(strategy="backward")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"approval": "sometimes"}, "approval='sometimes' is not known"),
        ({"approval": True}, "approval=True is not known"),
        ({"identity": "pay"}, "identity='pay' is no plain function"),
        ({"identity_scope": "store"}, "has an identity_scope= and no identity="),
        ({"identity": str, "identity_scope": "world"}, "identity_scope='world' is not known"),
        ({"aproval": "always"}, "a tool has no option 'aproval'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_option_that_asks_or_names_and_cannot_is_refused(harness: Harness, options: dict, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        harness.tool(effect="external", name="pay", **options)(lambda cents: cents)


def test_a_mistyped_option_is_told_what_it_may_have_been(harness: Harness) -> None:
    with pytest.raises(UsageError) as caught:
        Harness("memory:", lease=5)
    assert "Did you mean lease_ttl=?" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        harness.loop(tools=[], max_step=3)  # type: ignore[call-overload]
    assert "Did you mean max_steps=?" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        harness.tool(effect="read", name="look")(lambda x: x).using(retrys=3)  # type: ignore[call-arg]
    assert "Did you mean retries=?" in caught.value.hint


@pytest.mark.parametrize("option", ["durability", "budget"])
def test_a_harness_option_of_a_later_version_is_refused_everywhere(harness: Harness, option: str) -> None:
    called: list[int] = []

    @harness.agent
    def agent(run: Run, task: str) -> None:
        called.append(1)

    run_id = harness.start(agent, "x")
    asked: list[Any] = [
        *([] if option == "durability" else [lambda: Harness("memory:", **{option: "x"})]),
        lambda: harness.override(store="memory:", **{option: "x"}).__enter__(),
        lambda: harness.agent(**{option: "x"}),
        lambda: harness.run(agent, "x", **{option: "x"}),
        lambda: harness.start(agent, "x", **{option: "x"}),
        lambda: harness.resume(run_id, **{option: "x"}),
    ]
    for ask in asked:
        with pytest.raises(NotSupported, match=rf"{option}=\.\.\.\) is not in this version"):
            ask()
    assert called == []
    assert [info.status for info in harness.runs()] == ["QUEUED"]


def test_a_strategy_that_is_none_is_refused(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    run_id = harness.start(agent, "x")
    with pytest.raises(UsageError, match="strategy='backward' is not known"):
        harness.resume(run_id, strategy="backward")
    assert harness.show(run_id).run.epoch == 0


def test_an_option_that_no_version_has_is_named(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    for ask in (
        lambda: Harness("memory:", colour="red"),
        lambda: harness.tool(colour="red")(print),
        lambda: harness.agent(colour="red"),
        lambda: harness.run(agent, "x", colour="red"),
        lambda: harness.tool(effect="read", name="t")(lambda: None).using(colour="red"),  # type: ignore[call-arg]
    ):
        with pytest.raises(UsageError, match="has no option 'colour'"):
            ask()
    assert harness.runs() == []


# --- Nonsense. -------------------------------------------------------------------------------------------------------

NONSENSE_TOOL: list[dict[str, Any]] = [
    *({"retries": value} for value in (-1, 1.5, "2", True, 10_000, float("nan"))),
    *({"timeout": value} for value in (0, -1, "5", True, float("nan"), float("inf"), 1e300)),
    *({"settle": value} for value in (-1, "5", float("nan"), float("inf"))),
    *({"effect": value} for value in ("", "READ", "delete", 5, ["read"])),
    *({"errors": value} for value in (["x"], "x", 5, None, [None], [ValueError, 5], BaseException)),
    *({"not_applied": value} for value in (["x"], 5, [object], [ValueError("x")])),
    *({"name": value} for value in ("a b", "a.b", "1a", "搜索", "a" * 65, "a\x00", 5, ["a"])),
]


@pytest.mark.parametrize("options", NONSENSE_TOOL, ids=repr)
def test_a_tool_with_nonsense_for_an_option_is_not_made(harness: Harness, options: dict[str, Any]) -> None:
    def search(query: str) -> str:
        return query

    with pytest.raises(UsageError) as caught:
        harness.tool(**{"effect": "read", **options})(search)
    (option,) = options
    assert option in caught.value.what or "cannot name a tool" in caught.value.what
    assert caught.value.exit_code == 2
    # Nothing is left of it: the name is free.
    harness.tool(effect="read")(search)


@pytest.mark.parametrize(
    "options",
    [
        *({"timeout": value} for value in (0, "5", -1)),
        *({"retries": value} for value in (-1, "2", None)),
        *({"key": value} for value in ("", 5, "x" * 257, "a\x00", "\ud800")),
    ],
    ids=lambda options: repr(options)[:40],
)
def test_nonsense_for_one_call_is_refused_before_it_is_made(harness: Harness, options: dict[str, Any]) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise AssertionError

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(UsageError, match=next(iter(options))):
            run.call(pay.using(**options), 5)
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"
    assert ids(harness) == []


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        *(({"lease_ttl": value}, UsageError) for value in ("x", 0, -1, None, True, 1e9, float("nan"), float("inf"))),
        *(({"stall_timeout": value}, UsageError) for value in ("x", 0, -1, None, float("nan"))),
        *(({"reference_kinds": value}, InvalidReference) for value in ("claim", 5, None, ["a b"], [5], ["x" * 33])),
        *(({"error_classes": value}, UsageError) for value in ("x", 5, {"x": "transient"}, {ValueError: "bad"})),
        *(({"error_classes": value}, UsageError) for value in ({ValueError: 5}, {ValueError: []}, {5: "transient"})),
    ],
    ids=repr,
)
def test_a_harness_with_nonsense_for_an_option_is_not_made(options: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Harness("memory:", **options)


@pytest.mark.parametrize(
    "options",
    [
        *({"limit": value} for value in (0, -1, "x", 1.5, True, None, 10**30)),
        *({"status": value} for value in ("x", "", 5, ["QUEUED"])),
        *({"agent": value} for value in (5, "\ud800", "a\x00")),
        *({"before": value} for value in (5, "\ud800")),
    ],
    ids=repr,
)
def test_a_list_of_runs_is_not_asked_for_with_nonsense(harness: Harness, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        harness.runs(**options)


@pytest.mark.parametrize("task", ["", "  ", 5, b"x", "x" * 201, "a\x00", "half \ud800"], ids=repr)
def test_a_task_label_that_cannot_be_kept_is_refused_and_no_run_is_made(harness: Harness, task: Any) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    for ask in (harness.run, harness.start):
        with pytest.raises(InvalidReference, match="a task"):
            ask(agent, "x", task=task)
    assert harness.runs() == []


# --- Tools and agents that are none. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5, "search", None, ..., [print]], ids=repr)
def test_what_is_no_function_is_no_tool_and_no_agent(harness: Harness, value: Any) -> None:
    with pytest.raises(UsageError, match="cannot be a tool: it is no function"):
        harness.tool(effect="read", name="t")(value)
    with pytest.raises(UsageError, match="cannot be an agent: it is no function"):
        harness.agent(name="a")(value)


def test_a_function_that_does_not_tell_its_arguments_is_no_tool(harness: Harness) -> None:
    with pytest.raises(UsageError, match="does not tell its arguments"):
        harness.tool(effect="read")(min)


def bad_agents() -> Iterator[Any]:
    def none() -> None: ...
    def one(run: Run) -> None: ...
    def three(run: Run, task: str, more: str) -> None: ...
    def star(*args: Any) -> None: ...
    def named(run: Run, task: str, *, speed: int) -> None: ...
    def only_named(*, run: Run, task: str) -> None: ...
    def rest(run: Run, task: str, **rest: Any) -> None: ...
    async def lone(run: AsyncRun) -> None: ...

    yield from (none, one, three, star, named, only_named, rest, lone)


@pytest.mark.parametrize("function", list(bad_agents()), ids=lambda function: function.__name__)
def test_an_agent_takes_the_run_and_one_input(harness: Harness, function: Any) -> None:
    with pytest.raises(UsageError, match=rf"{function.__name__}\(.*\).* cannot be an agent") as caught:
        harness.agent(function)
    assert "the run and one input" in caught.value.hint


def test_a_generator_is_no_agent(harness: Harness) -> None:
    def yields(run: Run, task: str) -> Any:
        yield 5

    async def awaits_and_yields(run: AsyncRun, task: str) -> Any:
        yield 5

    for function in (yields, awaits_and_yields):
        with pytest.raises(UsageError, match="is a generator"):
            harness.agent(function)


def test_two_tools_or_agents_of_one_name_are_refused(harness: Harness) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    def another(query: str) -> str:
        return query

    with pytest.raises(UsageError, match="two tools are called search") as caught:
        harness.tool(effect="read", name="search")(another)
    assert "tool(name='...')" in caught.value.hint

    def agent(run: Run, task: str) -> None: ...

    library = jumar.tool(effect="read", name="search")(another)
    with pytest.raises(UsageError, match="two tools are called search"):
        harness.agent(tools=[library])(agent)

    harness.agent(agent)
    with pytest.raises(UsageError, match="two agents are called agent") as caught:
        harness.agent(agent)
    assert "agent(name='...')" in caught.value.hint


def test_a_tool_is_not_made_of_a_tool(harness: Harness) -> None:
    search = harness.tool(effect="read", name="search")(lambda query: query)
    with pytest.raises(UsageError, match="is a tool already"):
        harness.tool(effect="read")(search)


@pytest.mark.parametrize("tools", [5, "search", [print], [None], ["search"]], ids=repr)
def test_an_agents_tools_are_a_list_of_tools(harness: Harness, tools: Any) -> None:
    with pytest.raises(UsageError, match=r"takes a list|is no tool"):
        harness.agent(tools=tools)


def test_a_type_that_can_never_be_stored_is_refused_when_the_tool_is_declared(harness: Harness) -> None:
    def lines(path: str) -> Iterator[str]:
        yield path

    def thing(path: str) -> Harness:
        return harness

    with pytest.raises(NotStorable, match="can be read only once"):
        harness.tool(effect="read")(lines)
    with pytest.raises(NotStorable, match="There is no way to store a `Harness`") as caught:
        harness.tool(effect="read")(thing)
    assert "register_codec" in caught.value.hint


def test_a_type_that_is_found_nowhere_is_named_when_the_tool_is_first_used(harness: Harness) -> None:
    def make(path: str) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return path

    tool = harness.tool(effect="read")(make)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(UsageError, match="an annotation of make names a type that cannot be found"):
            run.call(tool, "a")
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"


def test_a_probe_is_for_an_external_tool_and_of_its_kind(harness: Harness) -> None:
    read = harness.tool(effect="read", name="read")(lambda query: query)
    pay = harness.tool(effect="external", name="pay")(lambda cents: cents)

    async def probe(cents: int) -> Any: ...

    with pytest.raises(UsageError, match="read is read; only an external tool is asked"):
        read.probe(lambda query: None)
    with pytest.raises(UsageError, match="the probe of pay is async, and the tool is not"):
        pay.probe(probe)


def test_a_bound_argument_counts(harness: Harness) -> None:
    def search(where: str, query: str) -> str:
        return where + query

    tool = harness.tool(effect="read", name="search")(functools.partial(search, "logs:"))

    @harness.agent
    def agent(run: Run, task: str) -> str:
        return run.call(tool, task)

    assert harness.run(agent, "x").unwrap() == "logs:x"


def test_a_tool_that_does_not_say_what_repeating_it_would_do_is_not_made(harness: Harness) -> None:
    def search(word: str) -> str:
        return word

    for make in (harness.tool, harness.tool(), jumar.tool, jumar.tool()):
        with pytest.raises(UsageError, match="does not say what repeating it would do") as caught:
            make(search)
        assert all(effect in caught.value.hint for effect in ('"read"', '"idempotent"', '"external"'))


def test_a_probe_that_cannot_take_its_tools_arguments_is_refused_at_once(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(invoice: str, cents: int) -> int:
        return cents

    def wrong(invoice: str) -> NotHappened:
        raise AssertionError

    with pytest.raises(UsageError, match=r"the probe of pay takes \(invoice\)") as caught:
        pay.probe(wrong)
    assert "(invoice, cents)" in caught.value.hint
