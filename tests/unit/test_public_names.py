"""The public names, pinned: adding or dropping one is a decision, and this list is where it is made."""

from __future__ import annotations

import subprocess
import sys

import jumar
import jumar.logs

NAMES = [
    "AsyncRun",
    "CurrentCall",
    "Decision",
    "Happened",
    "Harness",
    "LoopView",
    "NotApplied",
    "NotHappened",
    "Run",
    "RunResult",
    "Tool",
    "ToolCall",
    "Unknown",
    "Usage",
    "current_call",
    "errors",
    "register_codec",
    "tool",
]


def test_jumar_exports_these_names_and_no_others() -> None:
    assert jumar.__all__ == NAMES


def test_each_name_can_be_imported_and_is_seen_by_a_star() -> None:
    found: dict[str, object] = {}
    exec("from jumar import *", found)
    assert {name: found[name] for name in NAMES} == {name: getattr(jumar, name) for name in NAMES}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(jumar, "nonsense")


def test_the_log_filter_has_a_module_of_its_own() -> None:
    assert jumar.logs.__all__ == ["RunContextFilter"]


def test_importing_jumar_starts_no_event_loop_library_and_no_logging() -> None:
    code = "import sys, jumar; print([name for name in ('asyncio', 'logging', 'sqlite3') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
