"""Fingerprints: the state of things outside, read with each restore point and compared when a run is taken up.

A fingerprint is a function of the user's.  It is asked like a call's body, with a time limit; whatever it does, the run
goes on, and what could not be read is told as unknown.  Asked more than once at the same version of the run, as when
an agent is taken through its steps again, it is read once.
"""

from __future__ import annotations

from collections.abc import Mapping

from jumar.core.briefs.records import Drift
from jumar.core.checksums import checkpoint_agrees
from jumar.core.codec import digest
from jumar.core.environments import Environment, drift, environment_of, packed, reading, unpacked
from jumar.core.lines import is_on_line
from jumar.core.records import Artifact, RunRecord
from jumar.core.requests import Attempt, Flow, Load, Look
from jumar.core.states import CallKind, Effect, EventKind
from jumar.core.store import Store
from jumar.engine.live import LiveRun
from jumar.engine.logs import WARNING, log
from jumar.engine.policy import Fingerprint
from jumar.engine.scope import CurrentCall, Scope
from jumar.errors import EnvironmentDrifted, JumarError

_KEPT = 200  # characters of names on the trace


def look(live: LiveRun) -> Flow[None]:
    """Read the fingerprints for the restore point that is about to be kept."""
    if live.looked_at == live.lane.version:
        return
    now = yield from _read(live, live.settings.fingerprints)
    _keep(live, now)


def compare(live: LiveRun) -> Flow[None]:
    """Find out what has changed outside since the run's newest restore point that says how it was.

    What has is told on the trace and in the brief.  EnvironmentDrifted where the harness refuses to go on then.
    """
    live.drift = yield from drifted(live)
    if not live.drift:
        return
    names = tuple(each.name for each in live.drift)
    live.ride_event(EventKind.DRIFTED, None, ", ".join(names)[:_KEPT])
    log(WARNING, live.run_id, None, "what the run relies on has changed outside: %s", ", ".join(names))
    _refuse(live, live.drift)


def drifted(live: LiveRun) -> Flow[tuple[Drift, ...]]:
    """What has changed outside since the run's newest restore point that says how it was."""
    run = live.run
    if not live.settings.fingerprints:
        return ()
    before = yield from Load(lambda store: newest(store, run))
    if before is None:
        return ()
    now = yield from _read(live, live.settings.fingerprints)
    _keep(live, now)
    return drift(before, now)


def _refuse(live: LiveRun, found: tuple[Drift, ...]) -> None:
    """Raise EnvironmentDrifted where something has surely changed and the harness does not go on then."""
    changed = tuple(each for each in found if each.now is not None)
    if not changed or not live.settings.refuses_drift:
        return
    told = "; ".join(f"{each.name} was {each.before} and is {each.now}" for each in changed)
    raise EnvironmentDrifted(
        f"what run {live.run_id} relies on has changed outside since it was last driven: {told}",
        names=tuple(each.name for each in changed),
    )


def newest(store: Store, run: RunRecord) -> Environment | None:
    """What the fingerprints were at the newest sound restore point on the run's line that says so."""
    for point in reversed(store.checkpoints(run.run_no)):
        name = point.environment
        if name is None or not is_on_line(run.line, point.version) or not checkpoint_agrees(point):
            continue
        try:
            data = store.artifact(run.run_no, name)
            if data is not None and digest(data) == name:
                return unpacked(data)
        except JumarError:
            continue  # an older one still tells something
    return None


def _keep(live: LiveRun, now: Environment) -> None:
    data = packed(now)
    live.environment, live.looked_at = Artifact(digest(data), data), live.lane.version


def _read(live: LiveRun, fingerprints: Mapping[str, Fingerprint]) -> Flow[Environment]:
    readings: dict[str, bytes | None] = {}
    for name, fingerprint in list(fingerprints.items()):
        # As a value's body: a tool that reads, called in it, just runs, and one that acts is refused.
        asked = CurrentCall(
            live.run_id, f"fingerprint.{name}", b"", CallKind.VALUE, name, Effect.READ, 1, _root=live.run.workspace
        )
        scope = Scope(live, live.root, asked)
        ended = yield from Look(fingerprint.read, scope, fingerprint.timeout)
        live.progress_at = live.clock()
        readings[name] = None if ended.timed_out or ended.error is not None else reading(ended.value)
        if readings[name] is None:
            log(WARNING, live.run_id, None, "the fingerprint %s is not known: it %s", name, _why(ended))
    return environment_of(readings)


def _why(ended: Attempt) -> str:
    if ended.timed_out:
        return "took too long"
    if ended.error is not None:
        return f"raised {type(ended.error).__name__}"
    return "answered no small JSON"
