"""Failed runs with parallel branches, taken up again: what of them is made again, and what forbids it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jumar import Harness
from jumar.errors import CannotReopen, MapFailed
from tests.integration.agents_helpers import states, until
from tests.integration.reopening_helpers import Declined, Outside, tool
from tests.integration.waits_helpers import both_kinds, every_kind, scripted


@every_kind
@pytest.mark.parametrize("effect", ["read", "external"])
def test_of_a_failed_map_only_the_failed_items_are_made_again(harness: Harness, waits: bool, effect: str) -> None:
    outside = Outside(2, 4)
    act = tool(harness, outside, effect)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.map(act, range(1, 6)))

    result = harness.run(agent, "x")
    assert (result.error_type, sorted(outside.came)) == ("MapFailed", [1, 2, 3, 4, 5])
    outside.came.clear()
    outside.down.remove(2)
    assert harness.resume(result.run_id).error_type == "MapFailed"
    assert sorted(outside.came) == [2, 4]
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == [10, 20, 30, 40, 50]
    assert sorted(outside.came) == [2, 4, 4]


@every_kind
def test_of_a_failed_gather_all_failed_items_are_made_again(harness: Harness, waits: bool) -> None:
    outside = Outside(2, 3)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(*[act.bind(number) for number in (1, 2, 3)]))

    result = harness.run(agent, "x")
    assert result.error_message == "2 is down"
    outside.down.clear()
    outside.came.clear()
    assert harness.resume(result.run_id).unwrap() == [10, 20, 30]
    assert sorted(outside.came) == [2, 3]


@both_kinds
def test_catching_a_failed_map_closes_it(harness: Harness, waits: bool) -> None:
    outside = Outside(2)
    act, broken = tool(harness, outside), True

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.map(act, [1, 2])
        except MapFailed as error:
            found = [str(each) for each in error.results]
        if broken:
            raise RuntimeError("a bug")
        return found

    result = harness.run(agent, "x")
    outside.down.clear()
    broken = False
    assert harness.resume(result.run_id).unwrap() == ["10", "2 is down"]
    assert sorted(outside.came) == [1, 2]


@every_kind
def test_what_a_sibling_branch_did_after_the_failure_does_not_forbid_it(harness: Harness, waits: bool) -> None:
    outside = Outside(1)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        def waits_for_the_failure() -> None:
            if not run.recovered:
                until(lambda: states(harness).get("gather:0.act.1") == "FAILED")

        def plain() -> Any:
            waits_for_the_failure()
            return [run.call(act, 2), run.call(act, 3)]

        async def awaited() -> Any:
            await asyncio.to_thread(waits_for_the_failure)
            return [await run.call(act, 2), await run.call(act, 3)]

        return (yield run.gather(act.bind(1), awaited if waits else plain))

    result = harness.run(agent, "x")
    assert (result.status, outside.came) == ("FAILED", [1, 2, 3])
    outside.down.clear()
    assert harness.resume(result.run_id).unwrap() == [10, [20, 30]]
    assert outside.came == [1, 2, 3, 1]


@both_kinds
def test_what_the_branch_around_or_a_branch_inside_did_after_the_failure_forbids_it(
    harness: Harness, waits: bool
) -> None:
    outside = Outside(1)
    act = tool(harness, outside)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        if task == "around":
            try:
                yield run.gather(act.bind(1), act.bind(2))
            except Declined as error:
                yield run.call(act, 3)
                raise RuntimeError("wrapped") from error

        def plain() -> Any:
            try:
                run.call(act, 1)
            except Declined:
                run.map(act, [3])
                raise

        async def awaited() -> Any:
            try:
                await run.call(act, 1)
            except Declined:
                await run.map(act, [3])
                raise

        yield run.gather(awaited if waits else plain)

    for task, later in (("around", "act.1"), ("inside", "gather:0.map:0.act.1")):
        result = harness.run(agent, task)
        with pytest.raises(CannotReopen) as caught:
            harness.resume(result.run_id)
        assert f"and {later} (external) was begun after it" in caught.value.what
