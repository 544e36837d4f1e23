"""A tool and an agent are told where the files of their run are."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar import Harness, Run, current_call
from jumar.errors import UsageError


def _noting(store: str, root: Path) -> Harness:
    harness = Harness(store, workspace=root)

    @harness.tool(
        effect="write", paths=["{name}"], verify=lambda size, name, text: (_here() / name).stat().st_size == size
    )
    def note(name: str, text: str) -> int:
        return (_here() / name).write_text(text)

    @harness.agent(name="notes", tools=[note])
    def notes(run: Run, task: str) -> str:
        run.checkpoint("start")
        note("note.txt", task)
        return str(run.workspace)

    return harness


def _is_whole(size: int, name: str, text: str) -> bool:
    return (_here() / name).stat().st_size == size


def _here() -> Path:
    call = current_call()
    assert call is not None
    return call.workspace


def test_a_tool_and_an_agent_are_told_the_folder_of_the_run(tmp_path: Path) -> None:
    root = tmp_path / "site"
    root.mkdir()
    with _noting("memory:", root) as harness:
        assert harness.run("notes", "hello").unwrap() == str(root)
    assert (root / "note.txt").read_text() == "hello"


def test_a_fork_with_a_folder_of_its_own_writes_there(tmp_path: Path) -> None:
    root, other = tmp_path / "site", tmp_path / "other"
    root.mkdir()
    with _noting(f"sqlite:///{tmp_path / 'runs.db'}", root) as harness:
        first = harness.run("notes", "hello")
        (root / "note.txt").write_text("mine now")
        forked = harness.fork(first.run_id, at="start", workspace=str(other))
        assert harness.resume(forked).unwrap() == str(other)
    assert (root / "note.txt").read_text() == "mine now"
    assert (other / "note.txt").read_text() == "hello"


def test_a_run_without_a_workspace_says_so() -> None:
    with Harness("memory:") as harness:

        @harness.tool(effect="read")
        def look() -> str:
            return str(_here())

        @harness.agent(name="looks", tools=[look])
        def looks(run: Run, task: str) -> str:
            with pytest.raises(UsageError, match="no workspace"):
                _ = run.workspace
            return look()

        ended = harness.run("looks", "")
        assert ended.status == "FAILED"
        assert "no workspace" in (ended.error_message or "")
