"""What every command may be told: which store, which app, and whether to answer in JSON; and, where one drives a run or
touches its files, which config and which workspace.

`--store`, `--app` and `--config` may stand before the command or after it.  A flag beats what a harness was made with,
and that beats JUMAR_STORE.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from jumar.cli.apps import load_agent, load_harness
from jumar.cli.settling import Timing
from jumar.errors import UsageError
from jumar.harness.harness import Harness
from jumar.stores.opening import is_there, path_of, shown_address

C = TypeVar("C", bound=Callable[..., Any])

_APP_VARIABLE = "JUMAR_APP"
_STORE_VARIABLE = "JUMAR_STORE"
_TAKE_CONFIG = frozenset({"run", "resume", "rollback"})
_TAKE_WORKSPACE = frozenset({"run", "resume", "rollback", "diff"})


class Options:
    """The options of one invocation, and which run it is about once that is known."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.app: str | None = None
        self.config: str | None = None
        self.workspace: str | None = None
        self.json = False
        self.run: str | None = None
        self.harness: Harness | None = None

    def timing(self, tool: str) -> Timing | None:
        """How long an attempt of a tool is reckoned with; None where the tool is not known here."""
        spec = None if self.harness is None else self.harness.tools.get(tool)
        if self.harness is None or spec is None:
            return None
        settings = self.harness.settings
        return Timing(spec.policy.timeout, settings.stall_timeout, spec.policy.settle_ms(settings) / 1000)

    def wanted_app(self) -> str | None:
        """The app to use: the flag's, else JUMAR_APP."""
        return self.app or os.environ.get(_APP_VARIABLE) or None

    def command(self, *words: str, app: bool = True) -> str:
        """A command to type next, with the flags that lead to the same store and app as this one.

        Where `app` is needed and none is known, its place is held by the words MODULE:HARNESS.
        """
        parts = ["jumar", *(word if word == "JSON" else shlex.quote(word) for word in words)]
        known = self.wanted_app()
        if known is not None and known != os.environ.get(_APP_VARIABLE):
            parts += ["--app", shlex.quote(known)]
        elif known is None and app:
            parts += ["--app", "MODULE:HARNESS"]
        if self.store is not None and (self.store != os.environ.get(_STORE_VARIABLE) or known is not None):
            parts += ["--store", shlex.quote(shown_address(self.store))]
        if self.config is not None and words[0] in _TAKE_CONFIG:
            parts += ["--config", shlex.quote(self.config)]
        if self.workspace is not None and words[0] in _TAKE_WORKSPACE:
            parts += ["--workspace", shlex.quote(self.workspace)]
        return " ".join(parts)

    @property
    def overrides(self) -> dict[str, str]:
        """What the flags put in place of what the harness was made with."""
        flags = {"store": self.store, "config": self.config, "workspace": self.workspace}
        return {name: value for name, value in flags.items() if value is not None}


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.ensure_object(Options), name, value)

    return callback


def _kept(name: str, metavar: str, told: str) -> Callable[[C], C]:
    """The option of this name, which a command's Options keep instead of being handed on to the command."""
    return click.option(f"--{name}", metavar=metavar, expose_value=False, callback=_keep(name), help=told)


def with_store(command: C) -> C:
    """Add `--store`."""
    told = "The store: sqlite:///PATH, file:DIR, postgresql://... or memory:. "
    told += "Default: the app's, else JUMAR_STORE, else sqlite:///jumar.db."
    return _kept("store", "ADDRESS", told)(command)


def with_app(command: C) -> C:
    """Add `--app`."""
    told = "Where the harness is, as shop:harness or jobs/shop.py:harness. Default: JUMAR_APP."
    return _kept("app", "MODULE:HARNESS", told)(command)


def with_config(command: C) -> C:
    """Add `--config`."""
    told = "A YAML file that says when checkpoints are kept. Default: the app's own, else built in."
    return _kept("config", "FILE", told)(command)


def with_workspace(command: C) -> C:
    """Add `--workspace`."""
    told = "The folder whose files the run works on. Default: the run's own, else the app's."
    return _kept("workspace", "DIR", told)(command)


def with_json(command: C) -> C:
    """Add `--json`."""
    decorate = click.option(
        "--json", is_flag=True, expose_value=False, callback=_keep("json"), help="Answer in JSON, errors included."
    )
    return decorate(command)


@contextmanager
def opened(options: Options, *, code: bool = False, makes: bool = False) -> Iterator[Harness]:
    """The harness a command works on: the app's, else a bare one.

    `code` says that the command needs the user's agents or tools; a command that only looks does not import an app
    where `--store` tells it where to look.  Unless the command `makes` a database, one that is not there is an error: a
    mistyped path must not leave an empty file behind.
    """
    app = options.wanted_app()
    if app is None or (options.store is not None and not code):
        harness = Harness(options.store)
    else:
        with prints_aside(options), _store_will_do(needed=code or makes):
            harness = load_harness(app)
    with using_store(harness, options):
        if not makes:
            _require_database(harness)
        yield harness


@contextmanager
def _store_will_do(*, needed: bool) -> Iterator[None]:
    """Where the code is not needed, an error of the app says how to look without it."""
    try:
        yield
    except UsageError as error:
        if not needed:
            address = os.environ.get(_STORE_VARIABLE)
            known = f" (here --store {shlex.quote(shown_address(address))})" if address else ""
            error.hint += f" To look at runs, --store ADDRESS{known} is enough: it needs no app."
        raise


@contextmanager
def agent_of(options: Options, target: str) -> Iterator[tuple[Harness, str]]:
    """The harness and the agent's name of `MODULE:HARNESS:AGENT`, whose app the next commands will name; `AGENT` alone
    is one of the app that is wanted.
    """
    app = options.wanted_app()
    if app is not None and ":" not in target:
        target = f"{app}:{target}"
    with prints_aside(options):
        options.app, harness, agent = load_agent(target)
    with using_store(harness, options):
        yield harness, agent


@contextmanager
def prints_aside(options: Options) -> Iterator[None]:
    """With `--json`, send what the user's own code prints to standard error: standard output is one JSON document."""
    if not options.json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def using_store(harness: Harness, options: Options) -> Iterator[None]:
    """Let the flags win over what the harness was made with, and close what was opened."""
    options.harness = harness
    try:
        if options.store is None:
            _tell_of_other_store(harness)
        if not options.overrides:
            yield
            return
        with harness.override(**options.overrides):
            yield
    finally:
        harness.close()


def _tell_of_other_store(harness: Harness) -> None:
    """Say which store is used where the app's own is, and JUMAR_STORE names another."""
    named, used = os.environ.get(_STORE_VARIABLE), harness.address
    if not named or _place(named) == _place(used):
        return
    used, named = shown_address(used), shown_address(named)
    note = f"note: the store is the app's own, {used}; JUMAR_STORE ({named}) is not used, --store would be"
    click.echo(note.encode("utf-8", "backslashreplace").decode(), err=True)


def _place(address: str) -> str:
    path = path_of(address)
    return address if path is None else str(Path(path).resolve())


def _require_database(harness: Harness) -> None:
    address = harness.address
    if is_there(address):
        return
    raise UsageError(
        f"there is no store at {path_of(address) or shown_address(address)}",
        safe="Nothing was made.",
        hint="Check --store, --app, JUMAR_STORE and the folder you are in; `jumar store migrate` makes one there.",
    )
