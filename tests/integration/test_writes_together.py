"""Several writes at once: in one run, in several runs of a process, and across processes that died."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Run
from tests.integration.agents_helpers import states, until
from tests.integration.writes_helpers import Site, furnished

TTL = 0.4


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = furnished(tmp_path, waits=request.param)
    with made.harness:
        yield made


class Inside:
    """Counts how many bodies are at work at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.now -= 1


def fans(site: Site, tool: Any, word: str, items: list[str]) -> Any:
    """An agent that calls a tool for each item side by side."""
    if site.waits:

        async def awaits(run: AsyncRun, task: str) -> list[Any]:
            if word == "map":
                return await run.map(tool, items)
            return list(await run.gather(*(tool.bind(item) for item in items)))

        return site.harness.agent(name="fans")(awaits)

    def calls(run: Run, task: str) -> list[Any]:
        return run.map(tool, items) if word == "map" else list(run.gather(*(tool.bind(item) for item in items)))

    return site.harness.agent(name="fans")(calls)


@pytest.mark.parametrize("word", ["gather", "map"])
def test_writes_that_overlap_go_one_after_the_other(site: Site, word: str) -> None:
    inside = Inside()

    @site.harness.tool(effect="write", paths=["log/{name}", "log"])
    def append(name: str) -> str:
        with inside:
            place = site.root / "log"
            place.mkdir(exist_ok=True)
            there = sorted(each.name for each in place.iterdir())
            (place / name).write_text(",".join(there))
            return name

    names = [f"n{number}" for number in range(6)]
    assert site.harness.run(fans(site, append, word, names), "x").unwrap() == names
    assert inside.most == 1
    seen = sorted(len([part for part in site.read(f"log/{name}").split(",") if part]) for name in names)
    assert seen == [0, 1, 2, 3, 4, 5], "a write did not see what the one before it had written"


@pytest.mark.parametrize("word", ["gather", "map"])
def test_writes_to_different_files_go_side_by_side(site: Site, word: str) -> None:
    names = ["a", "b", "c"]
    all_there = threading.Barrier(len(names))

    @site.harness.tool(effect="write", paths=["out/{name}"])
    def make(name: str) -> str:
        all_there.wait(60.0)
        (site.root / "out").mkdir(exist_ok=True)
        (site.root / "out" / name).write_text(name)
        return name

    assert site.harness.run(fans(site, make, word, names), "x").unwrap() == names


def test_a_write_that_fails_beside_others_is_put_back_without_touching_theirs(site: Site) -> None:
    half = threading.Event()
    done = threading.Event()

    @site.harness.tool(effect="write", paths=["conf/{name}"], retries=0)
    def rewrite(name: str) -> str:
        if name == "site.ini":
            (site.root / "conf" / name).write_text("half")
            half.set()
            assert done.wait(60.0)
            raise OSError("in the middle")
        assert half.wait(60.0)
        (site.root / "conf" / name).write_text("by the other")
        done.set()
        return name

    result = site.harness.run(fans(site, rewrite, "map", ["site.ini", "other.ini"]), "x")
    assert result.error_type == "MapFailed"
    assert (site.read("conf/site.ini"), site.read("conf/other.ini")) == ("port = 80\n", "by the other")
    assert site.holds() == []


# --- Other runs. -----------------------------------------------------------------------------------------------------


def test_the_write_of_another_run_is_waited_for_and_what_it_wrote_is_seen(tmp_path: Path) -> None:
    site = furnished(tmp_path)
    begun, goes = threading.Event(), threading.Event()
    seen: list[str] = []

    def rewrite(text: str) -> str:
        seen.append(site.read("conf/site.ini"))
        if text == "first":
            begun.set()
            goes.wait(60.0)
        site.write("conf/site.ini", text)
        return text

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"]))
    with site.harness:
        first = threading.Thread(target=lambda: site.harness.run(agent, ["first"]))
        first.start()
        begun.wait(60.0)
        results: list[Any] = []
        second = threading.Thread(target=lambda: results.append(site.harness.run(agent, ["second"])))
        second.start()
        until(lambda: len(site.harness.runs()) == 2)
        goes.set()
        first.join()
        second.join()
    assert results[0].unwrap() == "second"
    assert seen == ["port = 80\n", "first"]
    assert site.read("conf/site.ini") == "second"


def test_the_files_of_a_run_that_died_in_a_write_are_kept_from_others_until_it_is_resumed(tmp_path: Path) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    seen: dict[str, list[str]] = {"dies": [], "other": []}

    def rewrite(who: str) -> str:
        seen[who].append(site.read("conf/site.ini"))
        site.write("conf/site.ini", f"half of {who}")
        if who == "dies" and len(seen["dies"]) == 1:
            raise KeyboardInterrupt
        site.write("conf/site.ini", f"all of {who}")
        return who

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"]))
    with site.harness as harness:
        with pytest.raises(KeyboardInterrupt):
            harness.run(agent, ["dies"])
        dead = harness.find("last")
        other = harness.run(agent, ["other"])
        assert (other.status, other.wake_at is not None) == ("WAITING", True)
        assert states(harness, other.run_id) == {"rewrite.1": "AWAITING"}
        assert site.read("conf/site.ini") == "half of dies"
        assert "files-held" in [line.what for line in harness.trace(other.run_id)]
        assert harness.resume(dead).unwrap() == "dies"
        until(lambda: harness.resume(other.run_id).status == "COMPLETED")
    assert seen == {"dies": ["port = 80\n", "port = 80\n"], "other": ["all of dies"]}
    assert site.read("conf/site.ini") == "all of other"


def test_a_put_back_never_takes_a_confirmed_write_of_another_run_away(tmp_path: Path) -> None:
    """The one that died is resumed last; what it declares overlaps what the other wrote, and was not its own."""
    site = furnished(tmp_path, lease_ttl=TTL)
    passed: list[int] = []

    def spoil() -> str:
        site.write("conf/site.ini", "half")
        if not passed:
            passed.append(1)
            raise KeyboardInterrupt
        return site.read("conf/other.ini")

    def confirm() -> str:
        site.write("conf/other.ini", "confirmed")
        return "done"

    dies = site.agent(site.tool(spoil, paths=["conf"]), name="dies")
    other = site.agent(site.tool(confirm, paths=["conf/other.ini"]), name="other")
    with site.harness as harness:
        with pytest.raises(KeyboardInterrupt):
            harness.run(dies, [])
        dead = harness.find("last")
        waiting = harness.run(other, [])
        assert waiting.status == "WAITING", "it wrote below a folder that an open write holds"
        assert harness.resume(dead).unwrap() == "port = 81\n"
        until(lambda: harness.resume(waiting.run_id).status == "COMPLETED")
    assert site.read("conf/other.ini") == "confirmed"


def test_writes_of_other_runs_elsewhere_go_on_meanwhile(tmp_path: Path) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)

    def spoil(name: str) -> str:
        site.write(f"conf/{name}", "half")
        if name == "site.ini":
            raise KeyboardInterrupt
        return name

    agent = site.agent(site.tool(spoil, paths=["conf/{name}"]))
    with site.harness as harness:
        with pytest.raises(KeyboardInterrupt):
            harness.run(agent, ["site.ini"])
        assert harness.run(agent, ["other.ini"]).unwrap() == "other.ini"


def test_the_same_action_asked_for_by_two_runs_writes_once(tmp_path: Path) -> None:
    site = furnished(tmp_path)
    made: list[str] = []

    def publish(page: str) -> str:
        made.append(page)
        site.write(f"pages/{page}", "published")
        return f"v{len(made)}"

    tool = site.tool(publish, paths=["pages/{page}"], identity=lambda page: f"publish:{page}", identity_scope="store")
    agent = site.agent(tool)
    with site.harness as harness:
        assert harness.run(agent, ["a"]).unwrap() == "v1"
        assert harness.run(agent, ["a"]).unwrap() == "v1"
        assert made == ["a"]
