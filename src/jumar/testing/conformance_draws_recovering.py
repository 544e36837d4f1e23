"""What the state machine draws besides: writes that hold paths, rollbacks, and forks; as `conformance_draws`.

Paths are few and lie above and below each other.
"""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from jumar.core.call_states import CALL_STATES, ENDED
from jumar.core.changes import Advance, Claim, Ending, Fork, Head, Hold
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Effect, Phase, Status, mask
from jumar.testing.conformance_draws import CHECKPOINTS, NAMES, OWNERS, TIMES, TTLS, WORKSPACES, Draw, Draws
from jumar.testing.conformance_scene import call, changed, holding

PATHS = (b"", b"a", b"a/b", b"a/b/c", b"a.b", b"b")
_INTENTS = st.sampled_from([b"{}", b'{"target":1}'])
_PATHS = st.lists(st.sampled_from(PATHS), min_size=1, max_size=2)
_LEFT = st.sampled_from([Status.PAUSED, Status.PAUSED, Status.WAITING, Status.FAILED, Status.COMPLETED])


class RecoveringDraws(Draws):
    """Draws all the changes there are."""

    def kinds(self) -> list[Draw]:
        """See `Draws.kinds`."""
        recovering: list[Draw] = [self.act, self.write, self.write_on, self.rollback, self.end_rollback, self.fork]
        return [*super().kinds(), *recovering]

    def advance(self, data: st.DataObject) -> Advance:
        """See `Draws.advance`; perhaps with what belongs to writes and rollbacks, and fits nothing."""
        drawn = super().advance(data)
        if data.draw(st.booleans()):
            return drawn
        seqs = st.integers(0, len(self.model.calls(drawn.run_no)) + 1)
        asked = [request.request_id for request in self.model.requests(drawn.run_no)]
        return replace(
            drawn,
            holds=tuple(hold for seq in data.draw(st.lists(seqs, max_size=2)) for hold in self._holds(data, seq)),
            drops=tuple(data.draw(st.lists(seqs, max_size=2))),
            withdraws=tuple(data.draw(st.lists(st.sampled_from([*asked, "never asked"]), max_size=2))),
            intent=data.draw(st.none() | st.none() | _INTENTS),
            head=data.draw(st.none() | st.none() | st.builds(Head, base=st.integers(0, 3))),
            settles=data.draw(st.sampled_from([False, False, True])),
        )

    def write(self, data: st.DataObject) -> Advance:
        """An advance that starts a write as whoever holds the run would."""
        run = self.one(data, self.held())
        seq = len(self.model.calls(run.run_no)) + 1
        record = call(seq, CallState.STARTED, epoch=run.epoch, effect=Effect.WRITE)
        return replace(self.going_on(run), calls=(record,), holds=self._holds(data, seq))

    def write_on(self, data: st.DataObject) -> Advance:
        """An advance that brings a write to its next state: once more, or to its end with its paths given up."""
        run = self.one(data, self.held())
        writes = [
            record
            for record in self.model.calls(run.run_no)
            if record.effect is Effect.WRITE and CALL_STATES[record.state]
        ]
        if not writes or data.draw(st.booleans()):
            return self.write(data)
        record = data.draw(st.sampled_from(writes))
        state = data.draw(st.sampled_from(CALL_STATES[record.state]))
        return replace(
            self.going_on(run),
            changes=(changed(record.seq, state, epoch=run.epoch),),
            holds=self._holds(data, record.seq) if state is CallState.STARTED else (),
            drops=(record.seq,) if state in ENDED else (),
        )

    def act(self, data: st.DataObject) -> Advance:
        """An advance with an action under a name that was done at once, or that undoes one."""
        run = self.one(data, self.held())
        calls = self.model.calls(run.run_no)
        done = [each for each in calls if each.state is CallState.SUCCEEDED and each.identity is not None]
        undoes: bool = data.draw(st.booleans())
        if done and undoes:
            undone = data.draw(st.sampled_from(done))
            change = changed(undone.seq, CallState.COMPENSATED, epoch=run.epoch)
            return replace(self.going_on(run), changes=(change,), frees=(undone.seq,))
        seq = len(calls) + 1
        key, scope = data.draw(NAMES)
        record = call(seq, epoch=run.epoch, identity=key, identity_scope=scope)
        return replace(self.going_on(run), calls=(record,), takes=(self.take(data, run, seq, key, scope),))

    def _holds(self, data: st.DataObject, seq: int) -> tuple[Hold, ...]:
        workspace = data.draw(st.sampled_from(WORKSPACES))
        return tuple(holding(seq, path, workspace) for path in data.draw(_PATHS))

    def rollback(self, data: st.DataObject) -> Claim:
        """A claim that begins a rollback, of a run that nobody holds or of any."""
        free = [run for run in self.now() if run not in self.held()]
        run = self.one(data, data.draw(st.sampled_from([free, free, free, []])))
        return Claim(
            run_id=run.run_id,
            owner=data.draw(st.sampled_from(OWNERS)),
            ttl_ms=data.draw(TTLS),
            at=data.draw(TIMES),
            statuses=mask(*Status),
            early=True,
            resumes=data.draw(st.booleans()),
            epoch=run.epoch,
            version=run.version + data.draw(st.sampled_from([0, 0, 0, 0, 1, -1])),
            intent=data.draw(_INTENTS),
            holds=self._holds(data, 0) if data.draw(st.booleans()) else (),
        )

    def in_rollback(self) -> list[RunRecord]:
        """The runs that somebody is rolling back."""
        return [run for run in self.held() if run.intent is not None]

    def end_rollback(self, data: st.DataObject) -> Advance:
        """An advance that ends a rollback, with a new head or without."""
        run = self.one(data, self.in_rollback())
        undone = [record.seq for record in self.model.calls(run.run_no) if record.state is CallState.SUCCEEDED]
        asked = [request.request_id for request in self.model.requests(run.run_no)]
        has_head = data.draw(st.sampled_from([True, True, False]))
        compensated = tuple(data.draw(st.lists(st.sampled_from(undone), max_size=1))) if undone else ()
        return replace(
            self.going_on(run),
            phase=data.draw(st.sampled_from(Phase)),
            changes=tuple(changed(seq, CallState.COMPENSATED, epoch=run.epoch) for seq in compensated),
            frees=compensated,
            drops=(0,),
            head=Head(base=data.draw(st.integers(0, run.version))) if has_head else None,
            settles=not has_head,
            after=data.draw(st.none() | CHECKPOINTS),
            withdraws=tuple(asked[:1]),
            ending=data.draw(st.none() | st.builds(Ending, status=_LEFT, wake_at=st.none() | TIMES)),
        )

    def fork(self, data: st.DataObject) -> Fork:
        """A new run out of one as somebody sees it, or saw it; mostly one with calls that have ended, with these."""
        full = [run for run in self.now() if self._ended(run)]
        as_it_is: bool = data.draw(st.booleans())
        run = self.one(data, full) if as_it_is else self.known(data)
        calls = self.model.calls(run.run_no)
        ended = self._ended(run)
        versions = [kept.version for kept in self.model.checkpoints(run.run_no)]
        some = st.lists(st.sampled_from(ended), unique=True) if ended else st.just([])
        return Fork(
            run_id=self.new_id(data),
            source_no=run.run_no,
            version=run.version,
            base=data.draw(st.integers(0, run.version)),
            phase=data.draw(st.sampled_from(Phase)),
            step=run.step,
            at=data.draw(TIMES),
            calls=tuple(data.draw(st.just(ended) | some | st.just([record.seq for record in calls]))),
            checkpoints=tuple(versions),
            workspace=data.draw(st.sampled_from([None, *WORKSPACES])),
        )

    def _ended(self, run: RunRecord) -> list[int]:
        return [record.seq for record in self.model.calls(run.run_no) if record.state in ENDED]
