"""`diff`: compare a run's files at two of its points."""

from __future__ import annotations

import click

from jumar.cli.exits import DONE
from jumar.cli.messages import write_json
from jumar.cli.options import Options, opened, with_app, with_json, with_store, with_workspace
from jumar.cli.progress import Progress
from jumar.cli.reading import check_workspace, short_id

paths_option = click.option(
    "--paths", metavar="GLOB", multiple=True, help="Only these paths, and what is below them; may be given repeatedly."
)


def point_of(text: str) -> int | str:
    """What a person means by a version or a name."""
    return int(text) if text.isascii() and text.isdigit() else text


@click.command(short_help="Compare a run's files at two points.")
@click.argument("run", metavar="RUN")
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", default="now")
@paths_option
@click.option("--text", "texts", is_flag=True, help="Show which lines of small texts differ.")
@with_store
@with_app
@with_workspace
@with_json
@click.pass_obj
def diff(options: Options, run: str, a: str, b: str, paths: tuple[str, ...], texts: bool) -> int:
    """Compare a run's files at two points.

    A and B are versions or names of checkpoints, as `show` lists them, or `now`, which B is by default.
    """
    with opened(options) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        check_workspace(harness, options, run_id)
        with Progress(f"comparing the files of run {options.run}"):
            found = harness.diff(run_id, point_of(a), point_of(b), paths=paths or None, text=texts)
    if options.json:
        write_json(found)
        return DONE
    from jumar.cli.differences import print_diff
    from jumar.cli.screen import out

    print_diff(out(), found, texts=texts)
    return DONE
