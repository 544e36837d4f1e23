"""`demo`: see runs survive five kills."""

from __future__ import annotations

import click

from jumar.cli.options import Options, opened, with_json
from jumar.cli.reading import short_id
from jumar.cli.times import now_ms


@click.command(short_help="See runs survive five kills.")
@click.option("--loop", "agent", flag_value="operate", help="Do it with loop agents, which decide step by step.")
@click.option("--keep", metavar="DIR", help="Keep everything in DIR, for a look with the other commands.")
@with_json
@click.pass_obj
def demo(options: Options, agent: str | None, keep: str | None) -> int:
    """See two runs survive five kills: no key, no network, under 30 seconds."""
    from jumar.cli.screen import out
    from jumar.cli.timeline import print_run
    from jumar.demo import run_demo

    screen = out()

    def show(store: str, run: str) -> None:
        of_demo = Options()
        of_demo.store = store
        with opened(of_demo) as harness:
            of_demo.run = short_id(harness, run)
            print_run(screen, harness.show(run), of_demo, now_ms())

    return run_demo(agent or "repair", json=options.json, keep=keep, show=show, console=screen.console)
