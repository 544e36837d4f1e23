"""What an approval and the resume after it read does not grow with the approvals that a run has had."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Harness
from jumar.core.records import RequestRecord
from jumar.core.requests import Request
from jumar.core.store import Store
from jumar.errors import RequestNotFound
from tests.integration.waits_helpers import asked, in_memory


class Reads:
    """A watcher that counts the requests read from the store."""

    def __init__(self) -> None:
        self.rows = 0
        self._store: Any = None

    def around(self, store: Store) -> Any:
        """The store, its reads counted."""
        self._store = store
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def requests(self, *args: Any, **options: Any) -> list[RequestRecord]:
        """A run's requests, counted."""
        found: list[RequestRecord] = self._store.requests(*args, **options)
        self.rows += len(found)
        return found

    def before(self, request: Request[Any]) -> None:
        """Nothing."""

    def after(self, request: Request[Any], answer: Any) -> None:
        """Nothing."""

    def since(self) -> int:
        """How many were read since this was asked last."""
        rows, self.rows = self.rows, 0
        return rows


@in_memory
def test_an_approval_and_a_resume_read_as_little_after_three_hundred_approvals_as_after_none(harness: Harness) -> None:
    reads = harness._watcher = Reads()

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        return cents

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        many = run.gather(*[pay.bind(cents) for cents in range(task)])
        with run.step("late"):
            run.call(pay, 1)
            return len(many), run.call(pay, 2)

    read: dict[int, list[int]] = {}
    for many in (0, 300):
        run_id = harness.run(agent, many).run_id
        for number in range(many):
            harness.approve(run_id, f"gather:{number}.pay.1")
        harness.resume(run_id)
        reads.since()
        harness.approve(run_id, "late.pay.1")
        read[many] = [reads.since()]
        assert asked(harness.resume(run_id)) == [("late.pay.2", "approval", 1)]
        read[many].append(reads.since())
        with pytest.raises(RequestNotFound, match=r"late\.pay\.1 has been answered \(approve by "):
            harness.approve(run_id, "late.pay.1")
        reads.since()
        harness.approve(run_id, "late.pay.2")
        read[many].append(reads.since())
        assert harness.resume(run_id).unwrap() == [many, 2]
    assert read[0][0] == read[0][2] == 1
    assert read[300] == read[0]
