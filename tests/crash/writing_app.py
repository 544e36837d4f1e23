"""The agent that writes and is crashed, as an app that processes of their own import: plain and asyncio."""

from __future__ import annotations

from pathlib import Path

from tests.crash.writing_agents import opened

# Each life has a folder of its own as its working directory.
plain = opened(Path.cwd(), waits=False)
waiting = opened(Path.cwd(), waits=True)
