"""Answering what a run asks: whether a call happened, whether it may be made, or a question.

Each answer is a compare-and-set on the one open request about a call: of two that are given at once one counts, and the
other is told so.
"""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from jumar.core.changes import Ack, Answer, Guard, Refusal
from jumar.core.codec import TypedCodec, codec_for
from jumar.core.leaving import settled_by
from jumar.core.limits import MAX_LABEL, check_size
from jumar.core.moving import elsewhere, is_elsewhere
from jumar.core.naming import is_storable, meant, storable
from jumar.core.open_requests import is_open
from jumar.core.questions import misfit
from jumar.core.records import CallRecord, RequestRecord, RunRecord
from jumar.core.states import RequestKind, Verdict
from jumar.core.uncertain import over_at
from jumar.core.verdicts import Happened, NotHappened
from jumar.engine.engine import Engine
from jumar.errors import NotStorable, RequestNotFound, UsageError
from jumar.harness.tools import ToolSpec

_ASKED = {
    RequestKind.RESOLVE: "whether it happened",
    RequestKind.APPROVAL: "for approval",
    RequestKind.ASK: "a question",
    RequestKind.BUDGET: "for a larger budget",
    RequestKind.UNDO: "whether to try again to undo it",
}
_ANSWERED_BY = {
    RequestKind.RESOLVE: "jumar resolve RUN CALL --happened JSON|--not-happened",
    RequestKind.APPROVAL: "jumar approve RUN CALL, or jumar reject RUN CALL",
    RequestKind.ASK: "jumar answer RUN CALL JSON",
    RequestKind.BUDGET: "jumar show RUN",
    RequestKind.UNDO: "jumar approve RUN CALL, or jumar reject RUN CALL; jumar resolve RUN CALL --happened null",
}


class Answering:
    """Answers to the requests of one run."""

    def __init__(self, engine: Engine, run: RunRecord, tools: Mapping[str, ToolSpec]) -> None:
        self._engine = engine
        self._store = engine.store
        self._run = run
        self._tools = tools

    def resolve(self, call_id: str, verdict: Happened[Any] | NotHappened, by: str | None, note: str | None) -> None:
        """Say whether a call that may have happened did; one that undoes another is tried again where it did not."""
        request, call = self._open(call_id, RequestKind.RESOLVE, RequestKind.UNDO)
        if isinstance(verdict, Happened):
            result = self._result(call, verdict.result) if request.kind is RequestKind.RESOLVE else None
            self._answer(request, call, Verdict.HAPPENED, result, by, note)
        elif isinstance(verdict, NotHappened):
            self._answer(request, call, Verdict.NOT_HAPPENED, None, by, note)
        else:
            raise UsageError(f"{verdict!r} is no verdict", hint="Give Happened(result) or NotHappened().")

    def approve(self, call_id: str, args: Mapping[str, Any] | None, by: str | None, note: str | None) -> None:
        """Let a call be sent, with other arguments where they are given; or try (again) to undo one."""
        request, call = self._open(call_id, RequestKind.APPROVAL, RequestKind.UNDO)
        if request.kind is RequestKind.UNDO and args is not None:
            raise UsageError(f"{call.call_id} undoes a call as that was made; args= changes nothing there")
        value = None if args is None else self._arguments(call, args)
        self._answer(request, call, Verdict.APPROVE, value, by, note)

    def reject(self, call_id: str, by: str | None, note: str | None) -> None:
        """Keep a call from being sent, or from being sent again where it may have happened and did not; or leave one
        as it is that could not be undone.
        """
        request, call = self._open(call_id, RequestKind.APPROVAL, RequestKind.RESOLVE, RequestKind.UNDO)
        self._answer(request, call, Verdict.REJECT, None, by, note)

    def answer(self, call_id: str, value: Any, by: str | None, note: str | None) -> None:
        """Answer a question."""
        request, call = self._open(call_id, RequestKind.ASK)
        data = codec_for(Any).encode(value)
        check_size(data, "the answer has")
        reason = misfit(self._details(call), msgspec.json.decode(data))
        if reason is not None:
            raise UsageError(f"{call.call_id} cannot be answered so: {reason}")
        self._answer(request, call, Verdict.VALUE, data, by, note)

    # --- Which request is meant. ---

    def _open(self, call_id: str, kind: RequestKind, *others_too: RequestKind) -> tuple[RequestRecord, CallRecord]:
        """The open request of a kind, or of another one that will do, about a call; the call is named by its id or, as
        for runs, by a unique end of it.
        """
        if not isinstance(call_id, str):
            raise RequestNotFound(f"{call_id!r} names no call", hint="Give a call's id, as `jumar show RUN` prints it.")
        kinds = (kind, *others_too)
        unanswered = self._store.requests(self._run.run_no, unanswered=True)
        still = self._still_open(request for request in unanswered if request.call_id == call_id)
        meant = [(request, call) for request, call in still if request.kind in kinds]
        if meant:
            return meant[0]
        # Not the whole id of a call that is asked about.  An end of an id must be the only one among all that was ever
        # asked: else the same words, said twice, would answer one call and then another.
        found = self._named(call_id)
        still = self._still_open(found)
        meant = [(request, call) for request, call in still if request.kind in kinds]
        if meant:
            return meant[0]
        raise self._not_asked(call_id, kinds, found, [request for request, _ in still])

    def _named(self, call_id: str) -> list[RequestRecord]:
        """All that was ever asked about the call of this id, or else about the only one whose id ends so."""
        asked = self._store.requests(self._run.run_no)
        names = meant(call_id, (request.call_id for request in asked))
        return [request for request in asked if request.call_id in names]

    def _still_open(self, requests: Iterable[RequestRecord]) -> list[tuple[RequestRecord, CallRecord]]:
        """Those that are still asked, each with its call."""
        calls = ((each, self._store.call(self._run.run_no, each.call_seq)) for each in requests if each.verdict is None)
        return [(each, call) for each, call in calls if call is not None and is_open(each, call, self._run.status)]

    def _not_asked(
        self, call_id: str, kinds: tuple[RequestKind, ...], found: list[RequestRecord], others: list[RequestRecord]
    ) -> RequestNotFound:
        if is_elsewhere(self._run):
            return RequestNotFound(f"{elsewhere(self._run)}, and asks there")
        if others:
            other = others[0].kind
            command = _ANSWERED_BY[other].replace("RUN", self._run.run_id).replace("CALL", others[0].call_id)
            return RequestNotFound(
                f"{call_id} asks {_ASKED[other]}, not {_ASKED[kinds[0]]}", hint=f"Answer it: {command}"
            )
        same = [request for request in found if request.kind in kinds]
        if not same:
            return RequestNotFound(f"run {self._run.run_id} asks nothing about {call_id}")
        last = max(same, key=lambda request: request.attempt)
        if last.verdict is None:
            return RequestNotFound(f"what was asked about {call_id} is settled")
        who = f" by {last.by}" if last.by else ""
        return RequestNotFound(f"what was asked about {call_id} has been answered ({last.verdict.label}{who})")

    # --- What is answered. ---

    def _result(self, call: CallRecord, result: Any) -> bytes:
        """A person's result as JSON of the tool's type, where the tool is known here."""
        spec = self._tools.get(call.tool)
        codec: Any = codec_for(Any) if spec is None else spec.policy.codec
        try:
            value = as_json(codec, result)
        except NotStorable as error:
            error.what = f"{call.call_id} cannot have come to that: {error.what}"
            if spec is not None:
                error.hint = (
                    f"Give what {spec.name} would have returned; its signature is {spec.name}{spec.binder.signature}."
                )
            raise
        check_size(value, "the result has")
        return value

    def _arguments(self, call: CallRecord, args: Mapping[str, Any]) -> bytes:
        """A person's arguments as JSON, checked by the tool's signature where the tool is known here."""
        if not isinstance(args, Mapping) or not all(isinstance(name, str) for name in args):
            raise UsageError("args= are arguments by name, as a dict")
        data = codec_for(Any).encode(dict(args))
        check_size(data, "the arguments have")
        spec = self._tools.get(call.tool)
        return data if spec is None else spec.arguments(data)[2]

    def _details(self, call: CallRecord) -> dict[str, Any]:
        data = call.args
        if data is None and call.args_artifact is not None:
            data = self._store.artifact(self._run.run_no, call.args_artifact)
        details = msgspec.json.decode(data) if data else {}
        return details if isinstance(details, dict) else {}

    def _answer(
        self,
        request: RequestRecord,
        call: CallRecord,
        verdict: Verdict,
        value: bytes | None,
        by: str | None,
        note: str | None,
    ) -> None:
        check_note("by", by)
        check_note("note", note)
        at = self._engine.io.wall()
        given = msgspec.structs.replace(request, verdict=verdict, value=value, by=by, note=note)
        settles = settled_by(call, given, at) if request.kind is RequestKind.RESOLVE else None
        answer = Answer(
            run_no=self._run.run_no,
            request_id=request.request_id,
            verdict=verdict,
            value=value,
            by=by or user(),
            note=note,
            at=at,
            settles=settles,
            frees=verdict in (Verdict.NOT_HAPPENED, Verdict.REJECT) and self._can_no_longer_act(call),
        )
        outcome = self._engine.io.queue.submit(answer)
        if isinstance(outcome, Refusal):
            if outcome.guard is Guard.ANSWERED:  # somebody was quicker
                raise self._not_asked(
                    call.call_id, (request.kind,), self._store.requests(self._run.run_no, call.seq), []
                )
            raise outcome.error()
        assert isinstance(outcome, Ack)

    def _can_no_longer_act(self, call: CallRecord) -> bool:
        """Whether the attempt, and whatever it sent, is surely over; only then is the name of its action given up."""
        spec, now = self._tools.get(call.tool), self._store.now()
        if spec is None:
            return False
        settings = self._engine.settings
        return spec.policy.sure_at(settings, over_at(call, now.boot), call.dispatch_by or 0) <= now.ms


def check_note(name: str, text: object) -> None:
    """UsageError where `text` is no short text that can be stored; None is fine."""
    if text is not None and not (isinstance(text, str) and len(text) <= MAX_LABEL and is_storable(text)):
        raise UsageError(f"{name}= is no text of at most {MAX_LABEL} characters that can be stored")


def as_json(codec: TypedCodec, result: Any) -> bytes:
    """`result` as JSON of a type; plain JSON that reads as a value of it is taken too."""
    try:
        data, _ = codec.round_trip(result)
        return data
    except NotStorable:
        data = codec_for(Any).encode(result)
        with contextlib.suppress(NotStorable):
            return codec.round_trip(codec.decode(data))[0]
        raise


def user() -> str:
    """Who is at the keyboard."""
    try:
        return storable(getpass.getuser())[:MAX_LABEL]
    except (OSError, KeyError, ImportError):
        return "someone"
