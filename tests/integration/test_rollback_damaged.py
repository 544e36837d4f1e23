"""A call that acted outside is not made again, without a person, because its row was damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jumar import Harness, Run
from tests.integration.rollback_helpers import Outside, declare_tools


@pytest.mark.parametrize("state", ["failed", "rejected"])
def test_a_damaged_row_that_a_rollback_left_behind_sends_nothing_twice(tmp_path: Path, state: str) -> None:
    outside, path = Outside(), tmp_path / "runs.db"
    with Harness(f"sqlite:///{path}") as harness:
        mail, _, _ = declare_tools(harness, outside)

        @harness.agent(name="writes", tools=[mail])
        def writes(run: Run, task: str) -> str:
            run.checkpoint("start")
            return run.call(mail, "Ann")

        run_id = harness.run(writes, "").run_id
        assert outside.mailed() == ["Ann"]
        with closing(sqlite3.connect(path)) as database, database:
            number = {"failed": 4, "rejected": 6}[state]
            database.execute("UPDATE call SET state = ? WHERE tool = 'mail'", (number,))
        harness.rollback(run_id, to="start")
        result = harness.resume(run_id)
        assert (result.status, [each.kind for each in result.waiting_on]) == ("WAITING", ["approval"])
        assert outside.mailed() == ["Ann"]
