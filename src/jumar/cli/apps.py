"""From what a person types to a harness: `MODULE:HARNESS` and `MODULE:HARNESS:AGENT`.

MODULE is imported with the current folder on `sys.path`, as `python -m` does; a path such as `jobs/site.py` is run as
that file, with its folder on `sys.path`.  An import path comes from the command line or JUMAR_APP, never out of a
database.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from jumar.errors import JumarError, UsageError
from jumar.harness.harness import Harness

_APP = "MODULE:HARNESS"
_AGENT = "MODULE:HARNESS:AGENT"


class ImportRaised(UsageError):
    """The user's module raised while it was being imported; `trace` is the traceback, without our own frames, and
    `short` says the same as the error without the message, in which the traceback ends.
    """

    code = "import-raised"
    default_hint = "Mend the module; the traceback above shows where it failed."

    def __init__(self, what: str, *, trace: str, short: str, hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.trace = trace
        self.short = short


def load_harness(app: str) -> Harness:
    """The harness that `MODULE:HARNESS` names; UsageError where there is none."""
    module, _, name = app.rpartition(":")
    if not module or not name:
        raise UsageError(f"{app!r} is no {_APP}", hint=f"Name both, as in `--app {app or 'site'}:harness`.")
    return _harness(_imported(module), module, name)


def load_agent(target: str) -> tuple[str, Harness, str]:
    """The app's own name, the harness and the agent's name that `MODULE:HARNESS:AGENT` names."""
    app, _, agent = target.rpartition(":")
    if not agent or ":" not in app:
        raise UsageError(
            f"{target!r} is no {_AGENT}",
            hint="Name all three, as in `jumar run shop:harness:repair`, or the agent alone beside --app or JUMAR_APP.",
        )
    harness = load_harness(app)
    return app, harness, _agent(harness, app, agent)


def _agent(harness: Harness, app: str, name: str) -> str:
    """An agent by its own name, or by the name its function has in the module."""
    agents = harness.agents
    if name in agents:
        return name
    function = getattr(sys.modules.get(harness_module(app)), name, None)
    found = next((spec.name for spec in agents.values() if function is not None and spec.function is function), None)
    if found is not None:
        return found
    known = ", ".join(sorted(agents)) or "none; decorate a function with @harness.agent"
    raise UsageError(
        f"the harness of {app} has no agent {name}", hint=f"{_did_you_mean(name, agents)}Its agents: {known}."
    )


def harness_module(app: str) -> str:
    """The name under which an app's module is known once it is imported."""
    module = app.rpartition(":")[0]
    return _file_module(Path(module)) if _is_path(module) else module


def _harness(module: ModuleType, where: str, name: str) -> Harness:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(module).items() if isinstance(value, Harness)]
            kept = f"Its harnesses: {', '.join(known)}." if known else _why_none(module, where, name)
            raise UsageError(f"{where} has no {name}", hint=_did_you_mean(name, known) + kept)
        found = getattr(found, part)
    if not isinstance(found, Harness):
        raise UsageError(
            f"{where}:{name} is a {type(found).__name__}, not a Harness", hint="Name a variable that holds a Harness."
        )
    return found


def _why_none(module: ModuleType, where: str, name: str) -> str:
    """Why a module has no harness: it may be another one of that name, like the standard library's `site`."""
    here, loaded = Path.cwd() / f"{where}.py", getattr(module, "__file__", None)
    if here.is_file() and str(here) != loaded:
        return f"Python has a module {where} of its own. Name the file: {where}.py:{name}, or call it otherwise."
    return f"{where} holds no harness at its top level."


def _did_you_mean(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {close[0]}? " if close else ""


# --- Importing. ----------------------------------------------------------------------------------------------------


def _imported(module: str) -> ModuleType:
    if _is_path(module):
        return _from_file(Path(module))
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{module!r} is no module's name", hint="Use dots between packages, or a path ending in .py.")
    _first_on_path(Path.cwd())
    return _guarded(module, lambda: importlib.import_module(module))


def _is_path(module: str) -> bool:
    return module.endswith(".py") or "/" in module


def _file_module(file: Path) -> str:
    """A file's module name is its stem, as for any import; one that is taken already gets a name of its own."""
    known = sys.modules.get(file.stem)
    if known is None or getattr(known, "__file__", None) == str(file.resolve()):
        return file.stem
    return f"jumar_app_{file.stem}"


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint="Give the path of a Python file, or a module's name.")
    file = file.resolve()
    name = _file_module(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is no Python file", hint="Give a file that ends in .py.")
    _first_on_path(file.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader

    def execute() -> ModuleType:
        loader.exec_module(module)
        return module

    try:
        return _guarded(str(file.name), execute)
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _guarded(module: str, importing: Callable[[], ModuleType]) -> ModuleType:
    """Import, and turn whatever the user's module raises into an error that says so and shows where."""
    try:
        return importing()
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {error.name}",
                hint="Run this in the folder the module lies in, or give the path of its file.",
            ) from None
        raise _raised(module, error) from error
    except (Exception, SystemExit) as error:
        raise _raised(module, error) from error


def _raised(module: str, error: BaseException) -> ImportRaised:
    said = error.what if isinstance(error, JumarError) else str(error).partition("\n")[0]
    short = f"importing {module} raised {type(error).__name__}"
    what = f"{short}: {said}" if said else short
    hint = error.hint if isinstance(error, JumarError) else None
    return ImportRaised(what, trace=users_traceback(error), short=short, hint=hint)


def users_traceback(error: BaseException) -> str:
    """A traceback that begins in the user's own code, without frames of the import machinery or of Jumar's."""
    told = traceback.TracebackException.from_exception(error)
    _without_ours(told)
    if not isinstance(error, JumarError):
        return "".join(told.format()).rstrip("\n")
    lines = ["Traceback (most recent call last):\n", *told.stack.format()] if told.stack else []
    return "".join([*lines, f"{type(error).__name__}: {error.what}"])  # what is safe and next is told below it


def _without_ours(told: traceback.TracebackException | None) -> None:
    while told is not None:
        frames = [frame for frame in told.stack if not _is_ours(frame.filename)]
        told.stack = traceback.StackSummary.from_list(frames)
        if told.__cause__ is not None:
            _without_ours(told.__cause__)
        told = told.__context__


def _is_ours(filename: str) -> bool:
    package = str(Path(__file__).resolve().parents[1])
    return filename.startswith(("<frozen", package)) or filename == importlib.__file__
