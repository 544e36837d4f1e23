"""What the commands ask of a harness beside its public methods: short ids, one run's facts, values as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from jumar.cli.notes import Waits
from jumar.cli.options import Options
from jumar.cli.times import now_ms
from jumar.core.records import CallRecord
from jumar.core.states import CallKind
from jumar.core.uncertain import sure_of_not_happened_at
from jumar.errors import JumarError, NotStorable, RunNotFound, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import CallView, RunInfo, WaitingOn
from jumar.harness.views import run_info, waiting_on

_SHORT = 8  # characters; the last twelve of an id are random


def short_id(harness: Harness, run_id: str) -> str:
    """The shortest end of a run's id, of at least eight characters, that names this run alone."""
    for length in (_SHORT, 12):
        try:
            if harness.find(run_id[-length:]) == run_id:
                return run_id[-length:]
        except RunNotFound:
            continue
    return run_id


def info_of(harness: Harness, run_id: str) -> RunInfo | None:
    """One run's facts without its calls; None where there is no such run."""
    store = harness.store
    record = store.run(run_id)
    return None if record is None else run_info(record, store)


def check_workspace(harness: Harness, options: Options, run_id: str) -> None:
    """UsageError where `--workspace` names another folder than the one that a run has worked on from its beginning."""
    if options.workspace is None:
        return
    run = info_of(harness, run_id)
    own = None if run is None else run.workspace
    if own is not None and own == harness._open().files.located(str(Path(options.workspace).resolve())):
        return
    works = "works on no files" if own is None else f"works on the files of {own}"
    at = options.command("fork", options.run or run_id, "--at", "VERSION", "--workspace", options.workspace, app=False)
    raise UsageError(
        f"run {options.run or run_id} {works}, and not of {options.workspace}",
        hint=f"Leave --workspace out; or let a new run go on from a checkpoint of this one there: `{at}`.",
    )


def open_requests(harness: Harness, run_id: str) -> list[WaitingOn]:
    """What a run asks somebody, oldest first."""
    store = harness.store
    record = store.run(run_id)
    return [] if record is None else waiting_on(record, store)


def waits_of(harness: Harness, run: RunInfo) -> Waits:
    """What a run waits for; its calls are read only where they must tell."""
    if run.status not in ("WAITING", "CANCELLED"):
        return Waits()
    store = harness.store
    record = store.run(run.run_id)
    if record is None:
        return Waits()
    asked = waiting_on(record, store)
    if asked or run.wake_at is None:
        return Waits(asked)
    names = set((run.waiting_on or "").split(", "))
    sleep = store.last_call(record.run_no, CallKind.SLEEP)
    if sleep is not None and sleep.call_id in names:
        return Waits(sleeps=True)
    calls = harness.show(run.run_id).calls
    if run.waiting_on is None:
        return Waits(again=next(iter(tried_again(calls)), None))
    return Waits(holder=next((call.held_by for call in calls if call.held_by and call.call_id in names), None))


def tried_again(calls: Iterable[CallView]) -> list[CallView]:
    """The calls whose last attempt came to nothing, and that are to be tried again."""
    return [call for call in calls if call.state == "PLANNED" and call.error is not None]


def answered_call(harness: Harness, run_id: str, call: str) -> CallRecord | None:
    """The call about which somebody has just answered, by its id or a unique end of it."""
    store = harness.store
    run = store.run(run_id)
    if run is None:
        return None
    named = [each for each in store.requests(run.run_no) if f".{each.call_id}".endswith(f".{call}")]
    asked = max(named, key=lambda each: (each.call_id == call, each.answered_at or 0), default=None)
    return next((each for each in store.calls(run.run_no) if asked and each.seq == asked.call_seq), None)


def not_happened_from(harness: Harness, call: CallRecord) -> int | None:
    """From when on (ms since 1970) "it did not happen" is acted upon; None where the call's tool is not known here."""
    spec = harness.tools.get(call.tool)
    if spec is None:
        return None
    policy, settings, clock = spec.policy, harness.settings, harness.store.now()
    sure = sure_of_not_happened_at(
        ended_at=call.over_at if call.boot == clock.boot else 0,  # the host was started anew since: the attempt is over
        dispatch_by=call.dispatch_by or 0,
        timeout_ms=None if policy.timeout is None else int(policy.timeout * 1000),
        stall_ms=int(settings.stall_timeout * 1000),
        settle_ms=policy.settle_ms(settings),
    )
    return now_ms() + max(0, sure - clock.ms)


def output_json(harness: Harness, run_id: str) -> bytes | None:
    """A finished run's output as it is stored; None where it has none."""
    store = harness.store
    record = store.run(run_id)
    if record is None or record.output_digest is None:
        return None
    return store.artifact(record.run_no, record.output_digest)


def json_argument(option: str, text: str) -> bytes:
    """The JSON that an option gives: itself, `@FILE`, or `-` for standard input.  UsageError where it is no JSON."""
    data = _bytes_of(option, text)
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{option} is not valid JSON: {error}",
            hint=f"""Quote it for the shell: {option} '"some text"' for a text, {option} '{{"key": 1}}' for an """
            f"object; or give {option} @FILE, or {option} - to read it from standard input.",
        ) from None
    return data


def _bytes_of(option: str, text: str) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{option}: the file {text[1:]} cannot be read ({error.strerror})", hint="Check the path after the @."
        ) from None


def typed_input(harness: Harness, agent: str, data: bytes) -> object:
    """JSON as the input an agent takes; UsageError where it does not fit the annotated type."""
    codec = harness.agents[agent].plan.input_codec
    try:
        return codec.decode(data)
    except NotStorable as error:
        raise UsageError(
            f"the input does not fit agent {agent}: {error.what}", hint="Give --input JSON of the type it takes."
        ) from error


def is_there(harness: Harness, run_id: str) -> RunInfo | None:
    """`info_of`, where a store that cannot be read counts as not knowing."""
    try:
        return info_of(harness, run_id)
    except JumarError:
        return None
