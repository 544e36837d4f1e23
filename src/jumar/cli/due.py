"""`resume --due`: every run that can go on by itself, one line each as it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.cli.exits import exit_code, worst
from jumar.cli.lines import STATUS_STYLES
from jumar.cli.messages import AgentLeft, Interrupted, write_json
from jumar.cli.notes import note_of
from jumar.cli.options import Options, prints_aside
from jumar.cli.progress import Progress
from jumar.cli.reading import info_of, output_json, short_id, waits_of
from jumar.cli.signals import interruptible
from jumar.cli.times import lasted, now_ms
from jumar.errors import JumarError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult

if TYPE_CHECKING:
    from rich.text import Text

    from jumar.cli.screen import Screen

_SHORT, _AGENT, _STATUS = 8, 20, 9
_LONGEST_OUTPUT = 2000  # bytes; `show` has all of it


def resume_due(harness: Harness, options: Options, limit: int) -> int:
    """Resume them, tell of each, and answer the exit code of all."""
    ended = _Ended(harness, options)
    try:
        with interruptible(ended.interrupted), prints_aside(options), Progress("resuming what is due") as progress:
            ended.progress = progress
            harness.resume_due(limit, told=ended.tell)
    except SystemExit as error:
        hint = f"Take it out of the agent, then go on with `{options.command('resume', '--due')}`."
        raise AgentLeft("an agent left by SystemExit", hint=hint) from error
    if options.json:
        write_json(ended.found)
    elif not ended.codes:
        from jumar.cli.idle import print_idle

        print_idle(harness, options, now_ms())
    return worst(ended.codes)


class _Ended:
    """What has become of the runs so far."""

    def __init__(self, harness: Harness, options: Options) -> None:
        self._harness = harness
        self._options = options
        self.progress: Progress | None = None
        self.codes: list[int] = []
        self.found: list[dict[str, Any]] = []

    def tell(self, result: RunResult[Any]) -> None:
        """One run has ended, or must wait."""
        run = info_of(self._harness, result.run_id)
        assert run is not None
        error = result.error if isinstance(result.error, JumarError) and result.status != "FAILED" else None
        self.codes.append(error.exit_code if error is not None else exit_code(run, result.waiting_on))
        if self._options.json:
            self.found.append(result_json(self._harness, run, result))
            return
        assert self.progress is not None
        with self.progress.aside():
            from jumar.cli.screen import out

            screen = out()
            line = result_line(screen, self._harness, run, result)
            screen.print(screen.crop(line) if screen.is_terminal else line)

    def interrupted(self, kind: type[Interrupted]) -> Interrupted:
        """Ctrl-C: what is done is told already."""
        done = f"{len(self.codes)} run{'' if len(self.codes) == 1 else 's'}"
        return kind(
            f"{kind.code} after {done}; the one under way is left to be resumed",
            hint=f"Go on with `{self._options.command('resume', '--due')}`.",
        )


def result_json(harness: Harness, run: RunInfo, result: RunResult[Any]) -> dict[str, Any]:
    """How a run was left, for a program."""
    import msgspec

    output = output_json(harness, run.run_id) if result.status == "COMPLETED" else None
    error = result.error if isinstance(result.error, JumarError) else None
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "status": result.status,
        "output": msgspec.Raw(output if output is not None else b"null"),
        "waiting_on": result.waiting_on,
        "wake_at": result.wake_at,
        "error_type": result.error_type or (type(error).__name__ if error else None),
        "error_message": result.error_message or (error.what if error else None),
    }


def result_line(screen: Screen, harness: Harness, run: RunInfo, result: RunResult[Any]) -> Text:
    """How a run was left, on one line."""
    from rich.text import Text

    data = output_json(harness, run.run_id) if result.status == "COMPLETED" else None
    output = "" if data is None else data[:_LONGEST_OUTPUT].decode("utf-8", "replace")
    text, style = note_of(run, waits_of(harness, run), now_ms())
    if result.error is not None and result.status != "FAILED":
        what = result.error.what if isinstance(result.error, JumarError) else str(result.error)
        text, style = f"{type(result.error).__name__}: {what}", "red"
    return Text.assemble(
        *run_columns(screen, short_id(harness, run.run_id), run.agent),
        (screen.pad(result.status.lower(), _STATUS), STATUS_STYLES.get(result.status, "")),
        (f"  after {lasted(run.updated_at - run.created_at)}  ", "dim"),
        (screen.clean(output or text), "" if output else style),
    )


def run_columns(screen: Screen, short: str, agent: str) -> tuple[tuple[str, str], str]:
    """What a line about a run begins with."""
    return (screen.pad(short, _SHORT + 2), "bold"), screen.pad(screen.clean(agent), _AGENT) + "  "
