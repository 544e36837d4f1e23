"""Loop agents: what a turn costs, and what a resume costs before the first view, however many turns there are.

The blocks of a floor run inside the agent's function, between two of its decisions, so both sides see the same seconds
of the same disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from benchmarks.floors import RESULT
from benchmarks.loop_floors import Turns
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import Decision, Harness, LoopView, ToolCall

BARE, JUMAR = "bare", "jumar"
_NO_LIMIT = 1_000_000  # steps
_FIRST_VIEW_MS = 10.0
_GROWTH = 1.5  # times the share of early turns that a late turn may take for itself


class _Left(BaseException):
    """The process is told to stop, as by Ctrl-C: the run is left to be resumed."""


class _Agent:
    """A loop agent that makes one call of `tool` a turn, and what it does with a view before it decides."""

    def __init__(self, path: Path, tool: str) -> None:
        self.harness = Harness(f"sqlite:///{path}")
        self.look: Callable[[LoopView], None] = lambda view: None

        @self.harness.tool(effect="read")
        def read(number: int) -> str:
            return RESULT

        @self.harness.tool(effect="external")
        def send(number: int) -> str:
            return RESULT

        @self.harness.loop(tools=[read, send], max_steps=_NO_LIMIT)
        def operate(view: LoopView) -> Decision:
            self.look(view)
            return Decision.act([ToolCall(tool, {"number": view.step_index})])

    def start(self) -> str:
        """Run it until its look leaves the run; answers the run's id."""
        with suppress(_Left):
            self.harness.run("operate", 0)
        return self.harness.find("last")


def _leave_after(turns: int) -> Callable[[LoopView], None]:
    def look(view: LoopView) -> None:
        if view.step_index > turns:
            raise _Left

    return look


# --- What a turn costs. ----------------------------------------------------------------------------------------------


def measure_turns(directory: Path, sizes: Sizes) -> list[Figure]:
    """A turn with a read, and one with an external call, over their bare transactions."""
    return [
        _turn_figure(
            "loop-turn", "a loop agent's turn with a read, over its two bare transactions", directory, "read", sizes
        ),
        _turn_figure(
            "loop-turn-external",
            "a loop agent's turn with an external call, over its three bare transactions",
            directory,
            "send",
            sizes,
        ),
    ]


def _turn_figure(row: str, what: str, directory: Path, tool: str, sizes: Sizes) -> Figure:
    turns = (sizes.rounds + 1) * sizes.turn_block
    recorded = directory / f"{row}-recorded.db"
    run_id = record_turns(recorded, tool, turns)
    floor = Turns(directory / f"{row}-bare.db", recorded, run_id)
    blocks = Blocks(BARE, JUMAR)
    _turn_by_turn(directory / f"{row}.db", tool, floor, blocks, sizes)
    floor.close()
    return compared(row, what, None, blocks, JUMAR, BARE)


def record_turns(path: Path, tool: str, turns: int) -> str:
    """A run of so many turns, left at the next; answers its id."""
    agent = _Agent(path, tool)
    agent.look = _leave_after(turns)
    with agent.harness:
        return agent.start()


def _turn_by_turn(path: Path, tool: str, floor: Turns, blocks: Blocks, sizes: Sizes) -> None:
    """Blocks of bare turns between blocks of the agent's."""

    def going() -> Iterator[None]:
        """Goes on at each decision; a block of the agent's ends where the turn after its last one begins."""
        for side in blocks.turns(sizes.rounds):
            if side == BARE:
                prepared = floor.prepare(sizes.turn_block)
                with blocks.timed(BARE, sizes.turn_block):
                    floor.work(prepared)
                continue
            with blocks.timed(JUMAR, sizes.turn_block):
                for _ in range(sizes.turn_block):
                    yield
        raise _Left

    agent, decisions = _Agent(path, tool), going()
    agent.look = lambda view: next(decisions)
    with agent.harness:
        agent.start()


# --- What a resume costs. --------------------------------------------------------------------------------------------


class _First(NamedTuple):
    """Seconds from `resume` to the first view, and then for its history and its messages."""

    view: float
    history: float
    messages: float


def measure_loop_resume(directory: Path, sizes: Sizes) -> list[Figure]:
    """To the first view, after few turns and after many."""
    found = {turns: _resumed(directory / f"{turns}.db", turns, sizes.resumes) for turns in sizes.turns}
    slowest = max(first.view for first in found.values()) * 1e3
    notes = tuple(
        f"{turns:,} turns: first view after {first.view * 1e3:.1f} ms, its history {first.history * 1e3:.1f} ms, "
        f"its messages {first.messages * 1e3:.1f} ms"
        for turns, first in found.items()
    )
    what = f"resume of a loop agent of up to {max(sizes.turns):,} turns, to its first view"
    return [Figure("loop-resume", what, "ms", _FIRST_VIEW_MS, slowest, jumar_us=slowest * 1e3, notes=notes)]


def _resumed(path: Path, turns: int, resumes: int) -> _First:
    agent, firsts, began = _Agent(path, "read"), [], 0.0

    def look(view: LoopView) -> None:
        reached = perf_counter()
        if len(view.history) != turns:
            raise AssertionError(f"{len(view.history)} turns are in the history, not {turns}")
        read = perf_counter()
        view.messages("openai")
        firsts.append(_First(reached - began, read - reached, perf_counter() - read))
        raise _Left

    agent.look = _leave_after(turns)
    with agent.harness:
        run_id = agent.start()
        agent.look = look
        for _ in range(resumes + 1):
            began = perf_counter()
            with suppress(_Left):
                agent.harness.resume(run_id)
    return _First(*map(median, zip(*firsts[1:], strict=True)))  # the first was to warm up


# --- What the messages of a view cost. -------------------------------------------------------------------------------


def measure_messages(directory: Path, sizes: Sizes) -> list[Figure]:
    """The share of `view.messages` that is the newest turn's own, late in a run over early in it."""
    turns = min(sizes.turns)
    own, copied = _shares(directory / "messages.db", turns)
    part = max(turns // 5, 1)
    early, late = median(own[part : 2 * part]), median(own[-part:])
    notes = (
        f"a turn's own share is {early * 1e6:.0f} us early on and {late * 1e6:.0f} us after {turns:,} turns",
        f"the copy of the list, for the caller to change, takes {median(copied[-part:]) * 1e6:,.0f} us then",
    )
    what = f"a turn's own share of a view's messages, after {turns:,} turns over early on"
    return [Figure("loop-messages", what, "x", _GROWTH, late / early, None, early * 1e6, late * 1e6, notes)]


def _shares(path: Path, turns: int) -> tuple[list[float], list[float]]:
    """Processor seconds at each turn: for what is new in the messages, and for copying all of them."""
    agent, leave = _Agent(path, "read"), _leave_after(turns)
    own: list[float] = []
    copied: list[float] = []

    def look(view: LoopView) -> None:
        leave(view)
        both, copy = _processor(view), _processor(view)
        own.append(both - copy)
        copied.append(copy)

    agent.look = look
    with agent.harness:
        agent.start()
    return own, copied


def _processor(view: LoopView) -> float:
    began = process_time()
    view.messages("openai")
    return process_time() - began
