"""A configuration bounds what a snapshot costs: past a limit it is partial and says so, and nothing is silent."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jumar import Harness, Run, current_call
from jumar.errors import CallFailed


def _limited(tmp_path: Path, limits: str) -> Harness:
    root = tmp_path / "site"
    root.mkdir()
    for number in range(6):
        (root / f"{number}.txt").write_text("some text")
    config = tmp_path / "jumar.yaml"
    config.write_text(f"snapshot_limits: {{{limits}}}\n")
    harness = Harness("memory:", workspace=root, config=config)

    @harness.tool(effect="write", paths=["*.txt"], retries=0)
    def rewrite(text: str) -> None:
        call = current_call()
        assert call is not None
        for path in call.workspace.glob("*.txt"):
            path.write_text(text)

    @harness.agent(tools=[rewrite])
    def looks(run: Run, task: str) -> int:
        run.checkpoint("here")
        return len(list(run.workspace.iterdir()))

    @harness.agent(tools=[rewrite])
    def writes(run: Run, task: str) -> str:
        with pytest.raises(CallFailed) as refused:
            rewrite(task)
        return refused.value.what

    return harness


@pytest.mark.parametrize("limits", ["files: 3", "bytes: 20"])
def test_a_snapshot_past_a_limit_is_partial_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: str
) -> None:
    with _limited(tmp_path, limits) as harness, caplog.at_level(logging.WARNING, "jumar"):
        result = harness.run("looks", "")
        assert result.unwrap() == 6
        assert "partial: it lacks" in caplog.text
        assert "(budget)" in caplog.text
        assert any(line.what == "uncaptured" for line in harness.trace(result.run_id))


def test_a_write_whose_files_do_not_fit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with _limited(tmp_path, "files: 3") as harness:
        assert "cannot be captured (budget)" in harness.run("writes", "other").unwrap()
    assert {path.read_text() for path in (tmp_path / "site").iterdir()} == {"some text"}


def test_names_that_windows_cannot_hold_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with _limited(tmp_path, "files: 100") as harness, caplog.at_level(logging.INFO, "jumar"):
        for name in ("a:b.txt", "aux.txt"):
            (tmp_path / "site" / name).write_text("text")
        assert harness.run("looks", "").unwrap() == 8
    told = [record.getMessage() for record in caplog.records if "Windows" in record.getMessage()]
    assert told == ["a:b.txt and 1 more: Windows cannot hold such names"]


def test_within_the_limits_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with _limited(tmp_path, "files: 10, bytes: 1000, seconds: 100") as harness:
        assert harness.run("looks", "").unwrap() == 6
    assert "partial" not in caplog.text
