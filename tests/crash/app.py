"""The agent that is crashed at every point, as an app that processes of their own import: plain and asyncio."""

from __future__ import annotations

from jumar.testing import Witness
from tests.crash.agents import build

# Each life has a folder of its own as its working directory.
plain = build("sqlite:///run.db", Witness("witness"), waits=False)
waiting = build("sqlite:///run.db", Witness("witness"), waits=True)
