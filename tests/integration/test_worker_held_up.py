"""A worker that is told to stop while it waits: for a store that does not answer, and for something to be due."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from jumar import Harness, Run
from jumar.engine import working
from jumar.testing.tcp_proxy import TcpProxy
from tests.concurrency.postgres_beside import SECONDS, port_of, through

APP = """
import os
from jumar import Harness
import jumar.cli.working

jumar.cli.working._LEAVE_SECONDS = 0.1
harness = Harness(os.environ["JUMAR_STORE"])

@harness.agent()
def rest(run, task):
    return task
"""


def test_a_second_signal_ends_it_at_once_although_the_store_does_not_answer(
    tmp_path: Path, postgres_address: str
) -> None:
    (tmp_path / "held_up.py").write_text(APP)
    silent, over = Event(), Event()
    with TcpProxy(port_of(postgres_address)) as proxy:

        def meet() -> None:
            silent.set()
            over.wait()

        proxy.meet(b"WITH queued AS", meet)
        worker = subprocess.Popen(
            [sys.executable, "-m", "jumar", "worker", "held_up:harness"],
            cwd=tmp_path,
            env={**os.environ, "JUMAR_STORE": through(postgres_address, proxy.port)},
            stdout=subprocess.DEVNULL,
        )
        try:
            assert silent.wait(SECONDS)
            worker.send_signal(signal.SIGTERM)
            worker.send_signal(signal.SIGINT)
            assert worker.wait(SECONDS) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        finally:
            over.set()
            worker.kill()
            worker.wait()


def test_a_stop_of_which_nobody_tells_is_looked_at_more_often_than_the_store(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    with Harness(postgres_address) as harness:

        @harness.agent
        def rest(run: Run, task: str) -> str:
            return task

        class Asked:
            times = 0

            def is_set(self) -> bool:
                self.times += 1
                return self.times > 6

        monkeypatch.setattr(working, "_STOP_SECONDS", 0.02)
        due = harness.store.due

        def counted(wall_ms: int, limit: int, agents: Sequence[str] | None = None) -> list[str]:
            looked.append(limit)
            return due(wall_ms, limit, agents)

        monkeypatch.setattr(harness.store, "due", counted)
        assert harness.work(stop=Asked(), poll=3600.0).taken_up == 0
    assert len(looked) < 6, "it looked for runs as often as for its end"
