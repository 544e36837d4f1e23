"""A run that fails while somebody waits to take it up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from jumar import Harness

RUN = "01a00000-0000-7000-8000-000000000009"


def opened(path: Path, tried: list[str], inside: threading.Event, may_end: threading.Event) -> Harness:
    harness = Harness(f"sqlite:///{path}")

    @harness.tool(effect="read", retries=0)
    def look() -> int:
        tried.append("look")
        inside.set()
        assert may_end.wait(60)
        if len(tried) == 1:
            raise ValueError("broken")
        return len(tried)

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.call(look)

    return harness


def test_what_it_failed_with_is_made_again_by_the_one_who_waited(tmp_path: Path) -> None:
    tried: list[str] = []
    inside, may_end = threading.Event(), threading.Event()
    driver = opened(tmp_path / "run.db", tried, inside, may_end)
    other = opened(tmp_path / "run.db", tried, inside, may_end)
    found: list[Any] = []

    def drive() -> None:
        found.append(driver.run("agent", run_id=RUN).status)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        assert inside.wait(60)
        result = other.resume(RUN, waiting=lambda left: may_end.set())
        assert (result.unwrap(), tried) == (2, ["look", "look"])
    finally:
        may_end.set()
        thread.join(60)
        driver.close()
        other.close()
    assert found == ["FAILED"]
