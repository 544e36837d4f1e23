"""The facts of the machine that figures belong to, and where on it the databases go."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from jumar.database.mounts import filesystem_of

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_PAGE = b"\x5a" * 4096


def facts(directory: Path, flushes: int) -> dict[str, str]:
    """What the figures depend on, by name."""
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores, {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "filesystem": filesystem(directory) or "unknown",
        "fsync": f"{_flush_us(directory, os.fsync, flushes):.0f} us after a write of 4 KiB",
        "fdatasync": f"{_flush_us(directory, _fdatasync, flushes):.0f} us after a write of 4 KiB",
    }


def filesystem(directory: Path) -> str | None:
    """The type of the filesystem that holds a directory, where the system tells."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return filesystem_of(os.path.realpath(directory), table)


def is_in_memory(directory: Path) -> bool:
    """Whether what is written there never reaches a disk, so that a commit costs next to nothing."""
    return filesystem(directory) in _IN_MEMORY


def default_directory() -> Path:
    """Where databases go unless told: the place for temporary files, or the current directory where that is in
    memory.
    """
    temporary = Path(tempfile.gettempdir())
    return Path.cwd() if is_in_memory(temporary) else temporary


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _flush_us(directory: Path, flush: Callable[[int], None], count: int) -> float:
    """The median of so many flushes, each after appending a page."""
    taken = []
    descriptor, name = tempfile.mkstemp(dir=directory)
    try:
        for _ in range(count):
            os.write(descriptor, _PAGE)
            began = perf_counter()
            flush(descriptor)
            taken.append(perf_counter() - began)
    finally:
        os.close(descriptor)
        Path(name).unlink()
    return median(taken) * 1e6


def _fdatasync(descriptor: int) -> None:
    if sys.platform == "darwin":
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)
