"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Counts of everything that is repeated."""

    rounds: int  # of blocks, one of each side
    block: int  # calls in a block
    runs: int  # side by side
    run_steps: int  # recorded reads in each of them
    run_rounds: int
    recorded: int  # calls that a resume goes through
    resumes: int
    turns: tuple[int, ...]  # of loop agents that are resumed
    turn_block: int  # turns in a block
    write_block: int  # calls that write in a block
    disk_steps: tuple[int, ...]
    imports: int  # pairs of fresh interpreters
    flushes: int  # of a file, to know the disk
    files: int  # in the workspace that snapshots are taken of
    first_snapshots: int  # pairs of them, with nothing known before
    snapshots: int
    restored: int  # files put back at once
    restores: int
    rollbacks: int  # and as many times with git and cp
    workers: tuple[int, ...]  # processes at once
    worker_rounds: int
    worker_runs: int
    worker_steps: int  # recorded reads in each of them
    kills: int  # of a worker
    killed_runs: int  # that it drives
    ttl: float  # of their leases, in seconds
    peer_rounds: int  # of blocks of another library


FULL = Sizes(
    40, 250, 50, 20, 15, 10_000, 15, (1_000, 10_000), 60, 40, (200, 1_000, 10_000), 40, 300, 50_000, 2, 11, 1_000, 3, 5,
    (1, 2, 3, 4), 3, 80, 60, 6, 20, 2.0, 6,
)  # fmt: skip
QUICK = Sizes(
    12, 100, 50, 20, 4, 2_000, 7, (200, 1_000), 40, 20, (200, 1_000), 12, 100, 10_000, 1, 5, 200, 2, 3,
    (1, 2, 3, 4), 1, 40, 30, 2, 20, 2.0, 2,
)  # fmt: skip
TINY = Sizes(2, 5, 3, 2, 2, 20, 2, (5, 10), 3, 2, (10, 20), 2, 5, 60, 1, 2, 20, 1, 1, (1, 2), 1, 4, 2, 1, 2, 0.6, 1)
