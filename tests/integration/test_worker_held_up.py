"""A worker whose own thread is held up by a store that does not answer: told twice, it leaves all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

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
