"""Gathering what a brief is made from: the calls on a run's line, what it asks, and the files that its writes changed.

Nothing is read from the trace.  Which files a write changed is told by its two snapshots, where the workspace's objects
can be read here; else only that it changed some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jumar.core.briefs.facts import Facts
from jumar.core.briefs.making import brief_of
from jumar.core.briefs.prose import words_in
from jumar.core.briefs.records import Brief
from jumar.core.codec import digest
from jumar.core.lines import split
from jumar.core.records import CallRecord, RunRecord
from jumar.core.requests import Flow, Load
from jumar.core.states import CallState, Effect
from jumar.core.store import Store
from jumar.engine.files import Files
from jumar.engine.flows.environment import drifted
from jumar.engine.flows.outcomes import load
from jumar.engine.live import LiveRun
from jumar.errors import JumarError

if TYPE_CHECKING:
    from jumar.engine.engine import Engine

_MOST_WRITES = 200  # whose files are told; those of earlier ones are counted
_MOST_PATHS = 200  # of one write


def brief_flow(live: LiveRun, lang: str) -> Flow[Brief]:
    """The brief of a run that is live in this process; UsageError for a language that is not known."""
    words_in(lang)
    io = live.io
    return (yield from load(live, lambda store: brief_of(live_facts(live, store, io.files), lang)))


def loop_brief(live: LiveRun, turn: int, until: int, doubts: Sequence[tuple[CallRecord, CallRecord]]) -> str:
    """What a loop agent's view tells of the turns before `turn`, whose calls have numbers before `until`; `doubts` are
    calls that may have happened when the run was taken up, as they were and as they ended.
    """
    facts = live_facts(live, live.io.store, live.io.files, turn=turn, until=until, doubts=doubts)
    return brief_of(facts).prose


def live_facts(
    live: LiveRun,
    store: Store,
    files: Files,
    *,
    turn: int | None = None,
    until: int | None = None,
    doubts: Sequence[tuple[CallRecord, CallRecord]] | None = None,
) -> Facts:
    """What is on record of a run that is live here; see `facts_of`."""
    run = store.run(live.run_id) or live.run
    facts = facts_of(store, run, files, until=until)
    return replace(facts, doubts=doubts, drift=live.drift, before=live.before, turn=turn)


def facts_of(store: Store, run: RunRecord, files: Files, *, until: int | None = None) -> Facts:
    """What is on record of a run; with `until`, of the calls with numbers before that one."""
    run_no = run.run_no
    here, leftovers = split(run, store.calls(run_no))
    if until is not None:
        here = [call for call in here if call.seq < until]

    def read(name: bytes) -> bytes | None:
        data = store.artifact(run_no, name)
        return data if data is not None and digest(data) == name else None

    requests = store.requests(run_no, unanswered=True)
    return Facts(run, here, leftovers, requests, read, _changed(run, here, files))


def stored_brief(engine: Engine, run: RunRecord, lang: str) -> Flow[Brief]:
    """The brief of a run that is only looked at.  What is outside is read now, as a resume would."""
    words_in(lang)
    live = engine.live(run, "", [], engine.io.clock(), recovered=False)
    live.close()
    drift = yield from drifted(live)
    return (yield from Load(lambda store: brief_of(replace(facts_of(store, run, engine.files), drift=drift), lang)))


def _changed(run: RunRecord, calls: Sequence[CallRecord], files: Files) -> dict[int, tuple[str, ...]]:
    """The paths that the newest writes changed, by the numbers of the calls."""
    writes = [call for call in calls if call.effect is Effect.WRITE and call.state is CallState.SUCCEEDED]
    found: dict[int, tuple[str, ...]] = {}
    if run.workspace is None:
        return found
    for call in writes[-_MOST_WRITES:]:
        if call.before is None or call.after is None or call.before == call.after:
            continue
        try:
            found[call.seq] = _between(run.workspace, call.before, call.after, files)
        except (JumarError, OSError):
            continue  # not here: the workspace, or what is kept of it, is on another host or gone
    return found


def _between(root: str, before: bytes, after: bytes, files: Files) -> tuple[str, ...]:
    from jumar.core.restoring import shown
    from jumar.core.trees import EntryKind

    paths = []
    for change in files.kept(root).diff(before, after):
        entry = change.after or change.before
        if entry is not None and entry.kind is not EntryKind.DIR:
            paths.append(shown(change.path))
        if len(paths) == _MOST_PATHS:
            break
    return tuple(paths)
