"""A history with rows of every kind for a store in a folder, and pictures of the whole store to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from jumar.core.changes import Ack, Change, Claimed, Ending
from jumar.core.records import Artifact, CheckpointRecord, RunRecord
from jumar.core.states import CallState, Control, Effect, IdentityScope, Level, Status
from jumar.core.store import Finding, RunFilter, Store
from jumar.testing.conformance_scene import AT, Scene, answering, asking, call, changed, holding, named, taking

LARGE = named(b'"' + b"x" * 5000 + b'"')
BINARY = named(bytes(range(256)) * 20)

Step = Callable[[Scene], Change]


def _run(scene: Scene, place: int) -> RunRecord:
    return scene.named(sorted(run.run_id for run in scene.store.runs(RunFilter()))[place])


def _checkpoint(name: str) -> CheckpointRecord:
    return CheckpointRecord(name, Level.STEP, "step", refs=("claim:c-17",), created_at=AT, tree=LARGE.digest)


def _kept(*artifacts: Artifact) -> dict[str, Any]:
    return {"artifacts": artifacts, "after": _checkpoint("fix_scan_step_20300101T000000Z")}


def steps() -> Iterator[Step]:
    """Each makes a change from how the store stands.  The second run takes the name that the first one had."""
    yield lambda scene: scene.create(run_id="run-1", owner="ann")
    yield lambda scene: scene.advance(_run(scene, 0), calls=(call(1),), **_kept(LARGE, BINARY, named(b"{}")))
    yield lambda scene: scene.create(run_id="run-2", owner="bob", input=LARGE)
    yield lambda scene: scene.starting(_run(scene, 0), "pay:7", seq=2)
    yield lambda scene: scene.advance(_run(scene, 0), changes=(changed(2, CallState.UNCERTAIN),))
    yield lambda scene: scene.advance(
        _run(scene, 1),
        calls=(
            call(1, CallState.STARTED, identity="pay:7", identity_scope=IdentityScope.STORE),
            call(2, CallState.STARTED, effect=Effect.WRITE),
        ),
        takes=(taking(1, "pay:7", instead_of=(_run(scene, 0).run_no, 2)),),
        holds=(holding(2, b"conf/\xff"), holding(2, b"site")),
        requests=(asking("r1", 1),),
    )
    yield lambda scene: scene.advance(_run(scene, 0), frees=(2,), changes=(changed(2, CallState.FAILED),))
    yield lambda scene: answering(_run(scene, 1), "r1", value=b"\x00\xff")
    yield lambda scene: scene.order(_run(scene, 1), Control.PAUSE, note="wait")
    yield lambda scene: scene.advance(_run(scene, 0), ending=Ending(status=Status.FAILED, error_message="no"))
    yield lambda scene: scene.fork(_run(scene, 0), run_id="run-3", calls=(1,), checkpoints=(1,), base=1)
    yield lambda scene: scene.advance(
        _run(scene, 1), changes=(changed(2, CallState.SUCCEEDED, result=b"1"),), drops=(2,)
    )


def made(scene: Scene, change: Change) -> bool:
    """Whether the change is made now."""
    return isinstance(scene.write(change), Ack | Claimed)


def picture(store: Store) -> Any:
    """All there is in a store and what is wrong with it, but for leases, whose deadlines are another time each time."""
    scene, shown = Scene(store), []
    for run in store.runs(RunFilter()):
        run_no = run.run_no
        artifacts = [store.artifact(run_no, each.digest) for each in (LARGE, BINARY, named(b"{}"))]
        _, *rows = scene.everything(run)
        shown.append((replace(run, lease_until=0, boot=b""), rows, artifacts))
    names = store.identity(IdentityScope.STORE, 1, "pay:7"), store.holds("/srv/site", b"")
    return shown, names, _files(store.inspect().findings)


def _files(findings: tuple[Finding, ...]) -> list[Finding]:
    """What is wrong; that calls changed without a new checksum do not agree with theirs is this scene's own doing."""
    return [finding for finding in findings if not finding.where.startswith("call ")]
