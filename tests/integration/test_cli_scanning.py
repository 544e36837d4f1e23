"""A scan of the workspace that takes long is told on the line that says what goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jumar import Harness, Run
from jumar.cli.progress import Progress
from jumar.engine.logs import SCANS
from jumar.workspace import collecting


class _Heard(Progress):
    """Keeps what was heard."""

    def __init__(self) -> None:
        super().__init__("running fix")
        self.heard: list[str] = []

    def scanned(self, text: str) -> None:
        super().scanned(text)
        line = self._scanning()
        assert line is not None
        self.heard.append(line)


def test_the_line_says_how_far_a_scan_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "QUIET_SECONDS", 0.0)
    root = tmp_path / "site"
    for number in range(40):
        (root / str(number)).mkdir(parents=True)
        (root / str(number) / "page").write_text("text")
    level = logging.getLogger(SCANS).level
    with Harness("memory:", workspace=root) as harness:

        @harness.agent
        def fix(run: Run, task: str) -> str:
            return "fixed"

        with _Heard() as progress:
            harness.run(fix, "").unwrap()
    assert progress.heard, "nothing was told of a scan that took long"
    assert progress.heard[-1].startswith("running fix, scanned ")
    assert "files (0 s)" in progress.heard[-1]
    assert logging.getLogger(SCANS).level == level
    assert not logging.getLogger(SCANS).handlers
