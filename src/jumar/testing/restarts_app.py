"""From `MODULE:HARNESS:AGENT` to a harness and the name of its agent, in the process that drives it."""

from __future__ import annotations

import importlib
import traceback
from types import ModuleType
from typing import Any

from jumar.errors import UnknownAgent, UsageError
from jumar.harness.harness import Harness


def parts_of(app: str) -> tuple[str, str, str]:
    """Module, harness and agent as they are named; UsageError where that is not what `app` is."""
    parts = app.split(":") if isinstance(app, str) else []
    if len(parts) != 3 or not all(name.isidentifier() for part in parts for name in part.split(".")):
        raise UsageError(f"{app!r} is no MODULE:HARNESS:AGENT", hint='Name all three, as in "shop:harness:settle".')
    if parts[0].endswith(".py"):
        raise UsageError(
            f"{app!r} names a file",
            hint=f"Name the module: {parts[0].removesuffix('.py')}, with its folder on sys.path.",
        )
    return parts[0], parts[1], parts[2]


def load(app: str) -> tuple[Harness, str]:
    """Import the module, and find the harness and the agent's own name; UsageError where one of them is not there."""
    module, where, agent = parts_of(app)
    imported = _imported(module)
    harness: Any = imported
    for part in where.split("."):
        if not hasattr(harness, part):
            known = ", ".join(name for name, value in vars(imported).items() if isinstance(value, Harness)) or "none"
            raise UsageError(f"module {module} has no {where}", hint=f"The harnesses at its top level: {known}.")
        harness = getattr(harness, part)
    if not isinstance(harness, Harness):
        raise UsageError(f"{module}:{where} is a {type(harness).__name__}, not a Harness")
    return harness, _agent(harness, imported, agent)


def _imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {error.name}",
                hint="It is looked for where this process finds its modules: on its sys.path.",
            ) from None
        raise _raised(module, error) from error
    except (Exception, SystemExit) as error:
        raise _raised(module, error) from error


def _raised(module: str, error: BaseException) -> UsageError:
    traceback.print_exception(error)
    said = traceback.format_exception_only(error)[-1].partition("\n")[0]
    return UsageError(f"importing {module} raised {said}", hint="Mend the module.")


def _agent(harness: Harness, module: ModuleType, name: str) -> str:
    """The agent of this name, or the one whose function has this name in the module."""
    function = getattr(module, name, None)
    for spec in harness.agents.values():
        if spec.name == name or (function is not None and spec.function is function):
            return spec.name
    known = ", ".join(sorted(harness.agents)) or "none"
    raise UnknownAgent(f"{module.__name__} has no agent {name}", hint=f"The agents of its harness: {known}.")
