"""`doctor`, `store migrate` and `store copy`: the store itself."""

from __future__ import annotations

import click

from jumar.cli.exits import DAMAGED, DONE, REFUSED
from jumar.cli.groups import Commands
from jumar.cli.messages import write_json
from jumar.cli.options import Options, opened, with_app, with_json, with_store
from jumar.cli.progress import Progress
from jumar.errors import UsageError
from jumar.stores.opening import shown_address


@click.command(short_help="Check the store and the files it keeps for damage.")
@with_store
@with_app
@with_json
@click.pass_obj
def doctor(options: Options) -> int:
    """Check every checksum in the store and in the files kept for its runs, and have the databases check themselves.

    Nothing is repaired.  For each damaged run it is told what recovery would use: the newest sound checkpoint before
    the damage, and the command that goes back there where one is needed.
    """
    from jumar.cli.health import examined, print_health, recovery

    with opened(options) as harness, Progress("checking the store"):
        report = examined(harness)
        advice = recovery(options, report)
    if options.json:
        import msgspec

        write_json({**msgspec.to_builtins(report), "sound": report.sound, "recovery": advice})
    else:
        from jumar.cli.screen import out

        print_health(out(), report, advice)
    return DONE if report.sound else DAMAGED


@click.group(cls=Commands)
@with_store
@with_app
def store() -> None:
    """Look after the store."""


@store.command(short_help="Bring the store's schema up to date.")
@with_store
@with_app
@with_json
@click.pass_obj
def migrate(options: Options) -> int:
    """Bring the store's schema up to date; makes the database where there is none.

    Every command does this when it opens a store; this one does nothing else, and says what it did.
    """
    with opened(options, makes=True) as harness:
        address = shown_address(harness.address)
        before, after = getattr(harness.store, "migrated", (0, 0))
    if options.json:
        write_json({"store": address, "before": before, "after": after})
        return DONE
    from rich.text import Text

    from jumar.cli.lines import line
    from jumar.cli.screen import out

    screen = out()
    line(screen, "store", Text(screen.clean(address)))
    line(screen, "schema", Text(f"{before} -> {after}" if before != after else f"{after}, as it was"))
    return DONE


@store.command(short_help="Move a store's runs to another store.")
@click.argument("source")
@click.argument("target")
@with_json
@click.pass_obj
def copy(options: Options, source: str, target: str) -> int:
    """Move the runs of the store at the address SOURCE to the one at TARGET, with the files that were kept for them.

    A run that has ended is copied.  Any other goes on in the target alone: SOURCE keeps it as one that has moved.  What
    was copied is read back and compared first.  A run that somebody drives at the moment stays where it is, and so does
    one that is damaged, or of which the target has something else.  The same command again finishes what broke off, and
    fetches what came since.
    """
    from jumar.cli.copies import print_report, read_report
    from jumar.harness.copying import copy_store
    from jumar.stores.opening import check_address, is_there

    if not is_there(check_address(source)):
        raise UsageError(
            f"there is no store at {shown_address(source)}",
            safe="Nothing was made.",
            hint="Look at the address of SOURCE.",
        )
    with Progress("copying the store") as progress:
        report = copy_store(source, target, tell=lambda number, of: progress.scanned(f"{number:,} of {of:,} runs"))
    if options.json:
        write_json(read_report(report))
    else:
        from jumar.cli.screen import out

        print_report(out(), report)
    if report.damaged:
        return DAMAGED
    return REFUSED if report.left else DONE
