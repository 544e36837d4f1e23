"""Runs and calls for the tests of briefs, as a store would answer them."""

from __future__ import annotations

from typing import Any

import msgspec

from jumar.core.codec import digest
from jumar.core.records import CallRecord, Failure, RequestRecord, RunRecord
from jumar.core.states import CallKind, CallState, Control, Effect, ErrorClass, Phase, RequestKind, Status

encode = msgspec.json.Encoder().encode


def run_record(**more: Any) -> RunRecord:
    """A run of the agent `repair` that was taken up once."""
    usual: dict[str, Any] = {
        "run_no": 1,
        "run_id": "01890000-0000-7000-8000-000000000001",
        "agent": "repair",
        "agent_version": "1",
        "task": "fix-the-site",
        "status": Status.RUNNING,
        "phase": Phase.IN_CODE,
        "step": 0,
        "version": 9,
        "generation": 0,
        "owner": "host/1",
        "epoch": 2,
        "boot": b"",
        "lease_until": 0,
        "control": Control.NONE,
        "answers": 0,
        "wake_at": None,
        "waiting_on": None,
        "input_digest": None,
        "output_digest": None,
        "error_class": None,
        "error_type": None,
        "error_message": None,
        "created_at": 0,
        "updated_at": 0,
    }
    return RunRecord(**{**usual, **more})


class Calls:
    """Makes calls one after the other, each under the next number."""

    def __init__(self) -> None:
        self.made: list[CallRecord] = []

    def add(
        self,
        step: str,
        tool: str,
        args: Any = None,
        result: Any = None,
        *,
        kind: CallKind = CallKind.TOOL,
        effect: Effect = Effect.READ,
        state: CallState = CallState.SUCCEEDED,
        **more: Any,
    ) -> CallRecord:
        """Make a call; its arguments and result are any JSON."""
        seq = len(self.made) + 1
        data = encode({} if args is None else args)
        number = 1 + sum(each.step == step and each.tool == tool for each in self.made)
        call_id = f"{step}.{tool}.{number}" if step else f"{tool}.{number}"
        recorded = None if state is not CallState.SUCCEEDED else encode(result)
        attempt = more.pop("attempt", 1)
        record = CallRecord(
            seq, call_id, "", step, number, kind, tool, effect, state, attempt, 1, 0, digest(data), data,
            **{"result": recorded, "started_version": seq, "ended_version": seq, **more},
        )  # fmt: skip
        self.made.append(record)
        return record

    def plan(self, steps: list[str], files: list[str]) -> CallRecord:
        """Say what is intended."""
        return self.add("", "plan", {"steps": steps, "files": files}, kind=CallKind.PLAN)

    def turn(self, number: int, *tools: tuple[str, Any, Any]) -> None:
        """A loop agent's turn, with calls of these tools, arguments and results."""
        step = "turn" if number == 1 else f"turn#{number}"
        self.add(step, "decide", {"turn": number}, {"calls": []}, kind=CallKind.DECISION)
        for tool, args, result in tools:
            self.add(step, tool, args, result)


def asked(call: CallRecord, kind: RequestKind) -> RequestRecord:
    """An open request about a call."""
    attempt = call.attempt + (kind is RequestKind.APPROVAL)
    return RequestRecord(f"{call.call_id}/{kind.label}", call.seq, call.call_id, attempt, kind, 0)


def failure(message: str, sort: ErrorClass = ErrorClass.PERMANENT, **more: Any) -> Failure:
    """A recorded ValueError."""
    return Failure("ValueError", message, sort, **more)
