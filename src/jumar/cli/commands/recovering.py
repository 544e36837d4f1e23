"""`rollback` and `fork`: go back to a checkpoint, or go on from it in another run."""

from __future__ import annotations

from functools import partial

import click

from jumar.cli.commands.comparing import paths_option, point_of
from jumar.cli.exits import DONE
from jumar.cli.messages import Interrupted, write_json
from jumar.cli.options import (
    Options,
    opened,
    prints_aside,
    with_app,
    with_config,
    with_json,
    with_store,
    with_workspace,
)
from jumar.cli.progress import Progress
from jumar.cli.reading import check_workspace, info_of, is_there, short_id
from jumar.cli.signals import interruptible
from jumar.cli.times import lasted
from jumar.errors import WorkspaceConflict
from jumar.harness.harness import Harness

_run = click.argument("run", metavar="RUN")


@click.command(short_help="Go back to a checkpoint: files first, then what was done outside.")
@_run
@click.option(
    "--to",
    metavar="N|NAME",
    required=True,
    help="The checkpoint: its version, name or label, as show lists them.  files:DIGEST undoes a restore of files.",
)
@paths_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--force",
    is_flag=True,
    help="Put files back that somebody else has changed since, too, and leave calls as they are whose tool is not "
    "known here.",
)
@click.option("--by", metavar="NAME", help="Who orders it; by default the user's name here.")
@click.option("--note", metavar="TEXT", help="A remark to keep with the order.")
@with_store
@with_app
@with_workspace
@with_config
@with_json
@click.pass_obj
def rollback(
    options: Options,
    run: str,
    to: str,
    paths: tuple[str, ...],
    dry_run: bool,
    force: bool,
    by: str | None,
    note: str | None,
) -> int:
    """Go back to a checkpoint of a run that no process drives, and leave it PAUSED there.

    Files go back first; then the calls made after it are undone, the newest first, where their tools say how. What
    cannot be undone is listed. A file that somebody else has changed since refuses all of it, unless --force is given;
    what that overwrites is kept. With --paths only files change, and the run stays where it is. Nothing is asked, and
    nothing recorded is lost.
    """
    from jumar.cli.rolled_back import refused, report  # which print, with what that takes

    with opened(options, code=options.wanted_app() is not None) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        check_workspace(harness, options, run_id)
        target = point_of(to)
        go = partial(harness.rollback, run_id, to=target, paths=paths or None, force=force, by=by, note=note)
        try:
            with (
                interruptible(partial(_interrupted, harness, run_id, options)),
                prints_aside(options),
                Progress(f"rolling run {options.run} back to {to}"),
            ):
                done = go(dry_run=dry_run)
        except WorkspaceConflict as error:
            narrowed = tuple(word for path in paths for word in ("--paths", path))
            again = options.command("rollback", options.run, "--to", to, *narrowed, "--force")
            return refused(options, error, again, partial(go, dry_run=True))
        return report(harness, options, done)


@click.command(short_help="Go on from a checkpoint in a run of its own.")
@_run
@click.option(
    "--at", metavar="N|NAME", required=True, help="The checkpoint: its version, name or label, as show lists them."
)
@click.option("--workspace", "folder", metavar="DIR", help="Put the files as they were then into this new folder.")
@with_store
@with_app
@with_json
@click.pass_obj
def fork(options: Options, run: str, at: str, folder: str | None) -> int:
    """Make a new run that goes on from a checkpoint of another one, and leave it PAUSED.

    The other run stays as it is. With --workspace the new run works on a folder of its own, made as the files were at
    the checkpoint; without it, on the same files as the other one.
    """
    with opened(options) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        with Progress(f"forking run {options.run}"):
            made = harness.fork(run_id, at=point_of(at), workspace=folder)
        short = short_id(harness, made)
        told = info_of(harness, made)
        assert told is not None
        commands = (
            ("go on", options.command("resume", short)),
            ("look", options.command("show", short, app=False)),
        )
    if options.json:
        write_json(
            {
                "run_id": made,
                "forked_from": run_id,
                "status": told.status,
                "workspace": told.workspace,
                "next": [command for _, command in commands],
            }
        )
        return DONE
    from rich.text import Text

    from jumar.cli.lines import line
    from jumar.cli.results import print_status
    from jumar.cli.screen import out

    screen = out()
    print_status(screen, told)
    line(screen, "from", Text(run_id))
    if told.workspace is not None:
        line(screen, "files", Text(screen.clean(told.workspace)))
    for label, command in commands:
        line(screen, label, Text(screen.clean(command), "cyan"))
    return DONE


def _interrupted(harness: Harness, run_id: str, options: Options, kind: type[Interrupted]) -> Interrupted:
    run = is_there(harness, run_id)
    if run is None or run.rolling_back_to is None:
        return kind(
            f"{kind.code}; run {options.run} is in no rollback",
            hint=f"`{options.command('show', options.run or run_id, app=False)}` shows how it stands.",
        )
    lease = f", once this process's lease has run out ({lasted(run.lease_seconds * 1000)})" if run.lease_seconds else ""
    return kind(
        f"{kind.code} while run {options.run} was being rolled back",
        safe="What is begun is recorded, and nothing else is done with the run before it is finished.",
        hint=f"`{options.command('resume', options.run or run_id)}` finishes it{lease}.",
    )
