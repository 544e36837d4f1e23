"""Short words for making runs and changes, shared by the conformance tests and by whatever else needs a store with
rows.

Leases need time to pass.  A test that needs an expired one makes it last no time at all and reads the store's own
lease clock until it has gone past; nothing sleeps, and no wall clock is trusted.
"""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Any

from msgspec.structs import replace

from jumar.core.changes import (
    Ack,
    Advance,
    Answer,
    CallChange,
    Change,
    Claim,
    Claimed,
    Create,
    Ending,
    Fork,
    Guard,
    Head,
    Hold,
    Order,
    Outcome,
    Take,
)
from jumar.core.changes import Refusal as RefusalAnswer
from jumar.core.checksums import checksum_of
from jumar.core.intents import Former, Intent, pack_intent
from jumar.core.phases import CLAIMABLE
from jumar.core.records import Artifact, CallRecord, Failure, RequestRecord, RunRecord
from jumar.core.states import (
    CallKind,
    CallState,
    Control,
    Effect,
    ErrorClass,
    IdentityScope,
    Phase,
    RequestKind,
    Status,
    Verdict,
    mask,
)
from jumar.core.store import Store

LONG = 600_000  # milliseconds of a lease that outlives any test
AT = 1_900_000_000_000  # a wall-clock moment
ANYTHING_UNFINISHED = mask(*CLAIMABLE)
ANYTHING = mask(*Status)
INTENT = pack_intent(Intent(1, Phase.IN_CODE, 0, Former(Status.FAILED)))  # a rollback to version 1
ROOT = "/srv/site"  # a workspace; no store looks at it

# How a call is brought into a state by legal steps only.
_WAYS: dict[CallState, tuple[CallState, ...]] = {
    CallState.REJECTED: (CallState.AWAITING, CallState.REJECTED),
    CallState.COMPENSATED: (CallState.SUCCEEDED, CallState.COMPENSATED),
}


def named(data: bytes) -> Artifact:
    """Bytes with their digest."""
    return Artifact(hashlib.sha256(data).digest(), data)


class Scene:
    """One store and the short words of the tests."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._numbers = count(1)

    def new_id(self) -> str:
        """A run id; each sorts after the one before."""
        number = next(self._numbers)
        return f"{number:08x}-0000-7000-8000-{number:012x}"

    # --- Writing, and what comes of it. ---

    def write(self, change: Change) -> Outcome:
        """One change's answer; an error is raised."""
        answer = self.store.write([change])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ack(self, change: Change) -> Ack:
        """The acknowledgement of a change that must be made."""
        answer = self.write(change)
        assert isinstance(answer, Ack), answer
        return answer

    def claimed(self, change: Claim) -> Claimed:
        """The answer to a claim that must succeed."""
        answer = self.write(change)
        assert isinstance(answer, Claimed), answer
        return answer

    def refusal(self, change: Change) -> Guard:
        """The guard that refused a change that must not be made."""
        answer = self.write(change)
        assert isinstance(answer, RefusalAnswer), answer
        assert answer.detail
        return answer.guard

    # --- Runs. ---

    def create(self, **fields: Any) -> Create:
        """A new run's creation: QUEUED, unless an owner is given."""
        given: dict[str, Any] = {
            "run_id": self.new_id(),
            "agent": "repair",
            "agent_version": "1",
            "task": "fix-the-site",
            "phase": Phase.IN_CODE,
            "input": named(b'"fix the site"'),
            "at": AT,
            "ttl_ms": LONG,
        }
        return Create(**(given | fields))

    def queued(self, **fields: Any) -> RunRecord:
        """A new run that nobody holds."""
        change = self.create(**fields)
        self.ack(change)
        return self.named(change.run_id)

    def running(self, owner: str = "ann", **fields: Any) -> RunRecord:
        """A new run under its first owner's lease."""
        return self.queued(owner=owner, **fields)

    def abandoned(self, **fields: Any) -> RunRecord:
        """A running run whose lease has run out."""
        run = self.running(**(fields | {"ttl_ms": 0}))
        self.until_expired(run)
        return run

    def waiting(self, **ending: Any) -> RunRecord:
        """A run that waits."""
        run = self.running()
        self.ack(self.advance(run, ending=Ending(status=Status.WAITING, **ending)))
        return self.again(run)

    def ended(self, status: Status, **ending: Any) -> RunRecord:
        """A run that has left RUNNING for this status."""
        run = self.running()
        self.ack(self.advance(run, ending=Ending(status=status, **ending)))
        return self.again(run)

    def named(self, run_id: str) -> RunRecord:
        """A run that must be there."""
        run = self.store.run(run_id)
        assert run is not None
        return run

    def again(self, run: RunRecord) -> RunRecord:
        """The run as it stands now."""
        return self.named(run.run_id)

    def until_expired(self, run: RunRecord) -> None:
        """Let the store's lease clock go past a lease of next to no time."""
        while (now := self.store.now()).boot == run.boot and now.ms < run.lease_until:
            assert run.lease_until - now.ms < 1000, "only a short lease is waited for"

    def everything(self, run: RunRecord) -> tuple[Any, ...]:
        """All the rows of a run, for comparing."""
        number = run.run_no
        look = self.store
        return self.again(run), look.calls(number), look.checkpoints(number), look.requests(number), look.events(number)

    # --- Changes. ---

    def claim(self, run: RunRecord | str, owner: str = "bob", **fields: Any) -> Claim:
        """Another owner's claim of any run that is not finished."""
        run_id = run if isinstance(run, str) else run.run_id
        given: dict[str, Any] = {"ttl_ms": LONG, "at": AT, "statuses": ANYTHING_UNFINISHED}
        return Claim(run_id=run_id, owner=owner, **(given | fields))

    def advance(self, run: RunRecord, **fields: Any) -> Advance:
        """An advance of a run as its owner would make it, from the run as it was read."""
        given: dict[str, Any] = {
            "run_no": run.run_no,
            "owner": run.owner,
            "epoch": run.epoch,
            "phase": run.phase,
            "step": run.step,
            "ttl_ms": LONG,
            "at": AT,
            "version": run.version,
            "control": run.control,
            "answers": run.answers,
        }
        return Advance(**(given | fields))

    def leave(self, run: RunRecord, status: Status, **ending: Any) -> Advance:
        """An advance that takes a run out of RUNNING."""
        return self.advance(run, ending=Ending(status=status, **ending))

    def order(self, run: RunRecord | str, control: Control, **fields: Any) -> Order:
        """An operator's order."""
        run_id = run if isinstance(run, str) else run.run_id
        given: dict[str, Any] = {"at": AT + 8, "by": "kim"}
        return Order(run_id=run_id, control=control, **(given | fields))

    def starting(
        self, run: RunRecord, key: str, seq: int = 1, *, scope: IdentityScope = IdentityScope.STORE, **fields: Any
    ) -> Advance:
        """An advance that starts a new call under the name of its action."""
        record = call(seq, CallState.STARTED, epoch=run.epoch, identity=key, identity_scope=scope)
        return self.advance(run, calls=(record,), takes=(taking(seq, key, scope=scope, **fields),))

    def holder(self, run: RunRecord, key: str, scope: IdentityScope = IdentityScope.STORE) -> tuple[str, int] | None:
        """The run and the call that hold a name, as seen from a run."""
        held = self.store.identity(scope, run.run_no, key)
        return None if held is None else (held.run_id, held.call_seq)

    def writing(self, run: RunRecord, *paths: bytes, seq: int = 1, workspace: str = ROOT, **fields: Any) -> Advance:
        """An advance that starts a new write call which holds these paths."""
        record = call(seq, CallState.STARTED, epoch=run.epoch, effect=Effect.WRITE)
        holds = tuple(holding(seq, path, workspace) for path in paths)
        return self.advance(run, **({"calls": (record,), "holds": holds} | fields))

    def holders(self, path: bytes = b"", workspace: str = ROOT) -> list[tuple[bytes, str, int]]:
        """Who holds a path, one above or one below it: (path, run id, call number)."""
        return [(held.path, held.run_id, held.call_seq) for held in self.store.holds(workspace, path)]

    def rollback(self, run: RunRecord, **fields: Any) -> Claim:
        """A claim that begins a rollback of a run as it was read."""
        given: dict[str, Any] = {
            "statuses": ANYTHING,
            "early": True,
            "epoch": run.epoch,
            "version": run.version,
            "intent": b"{}",
        }
        return self.claim(run, **(given | fields))

    def rolling_back(self, run: RunRecord | None = None, **fields: Any) -> RunRecord:
        """A run in the middle of a rollback, under its owner's lease."""
        return self.claimed(self.rollback(self.ended(Status.FAILED) if run is None else run, **fields)).run

    def heading(self, run: RunRecord, base: int = 0, **fields: Any) -> Advance:
        """An advance that ends a rollback with a new head."""
        return self.advance(run, **({"head": Head(base=base), "drops": (0,)} | fields))

    def fork(self, run: RunRecord, base: int = 0, **fields: Any) -> Fork:
        """A new run out of this one as it was read."""
        given: dict[str, Any] = {"run_id": self.new_id(), "phase": run.phase, "step": 0, "at": AT + 7}
        return Fork(source_no=run.run_no, version=run.version, base=base, **(given | fields))

    def findings_of_names(self) -> list[str]:
        """What a check of the whole store found of names."""
        return [found.where for found in self.store.inspect().findings if found.where.startswith("name ")]

    def call_in(self, run: RunRecord, state: CallState, seq: int = 1, **fields: Any) -> RunRecord:
        """Give a run a call that stands in this state; answers the run as it is then."""
        first, *rest = _WAYS.get(state, (state,))
        self.ack(self.advance(run, calls=(call(seq, first, epoch=run.epoch, **fields),)))
        for next_state in rest:
            self.ack(self.advance(self.again(run), changes=(changed(seq, next_state, epoch=run.epoch),)))
        return self.again(run)

    def asked(self, run: RunRecord, request_id: str, seq: int = 1, attempt: int = 1) -> RunRecord:
        """Give a run a request; answers the run as it is then."""
        self.ack(self.advance(run, requests=(asking(request_id, seq, attempt),)))
        return self.again(run)


def call(seq: int, state: CallState = CallState.SUCCEEDED, **fields: Any) -> CallRecord:
    """A call with a checksum that holds."""
    args = fields.pop("args", b'{"query":"ERROR %d"}' % seq)
    given: dict[str, Any] = {
        "seq": seq,
        "call_id": f"scan.search.{seq}",
        "branch": "",
        "step": "scan",
        "ordinal": seq,
        "kind": CallKind.TOOL,
        "tool": "search",
        "effect": Effect.EXTERNAL,
        "state": state,
        "attempt": 1,
        "epoch": 1,
        "generation": 0,
        "args_digest": hashlib.sha256(args or b"").digest(),
        "args": args,
        "started_at": AT + seq,
    }
    if state is CallState.SUCCEEDED:
        given |= {"result": b'["hit %d"]' % seq, "ended_at": AT + seq + 1}
    if state is CallState.FAILED:
        given |= {"failure": Failure("Declined", "no", ErrorClass.PERMANENT), "ended_at": AT + seq + 1}
    record = CallRecord(**(given | fields))
    return record if "checksum" in fields else replace(record, checksum=checksum_of(record))


def changed(seq: int, state: CallState, **fields: Any) -> CallChange:
    """A call's next state."""
    return CallChange(**({"seq": seq, "state": state, "attempt": 1, "epoch": 1} | fields))


def taking(seq: int, key: str, **fields: Any) -> Take:
    """The wish for the name of an action."""
    given: dict[str, Any] = {"scope": IdentityScope.STORE, "args_digest": hashlib.sha256(key.encode()).digest()}
    return Take(seq=seq, key=key, **(given | fields))


def holding(seq: int, path: bytes, workspace: str = ROOT) -> Hold:
    """The wish for a path."""
    return Hold(seq=seq, workspace=workspace, path=path)


def asking(request_id: str, seq: int = 1, attempt: int = 1) -> RequestRecord:
    """A request for somebody's verdict on a call."""
    return RequestRecord(request_id, seq, f"scan.search.{seq}", attempt, RequestKind.RESOLVE, AT)


def answering(run: RunRecord, request_id: str, **fields: Any) -> Answer:
    """Somebody's answer."""
    given: dict[str, Any] = {"verdict": Verdict.HAPPENED, "value": b'"paid"', "by": "kim", "note": None, "at": AT + 9}
    return Answer(run_no=run.run_no, request_id=request_id, **(given | fields))
