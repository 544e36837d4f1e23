"""What can go wrong with the files that runs work on."""

from __future__ import annotations

from typing import Any

from jumar.errors.base import JumarError, UsageError


class WorkspaceError(JumarError):
    """Files could not be captured or put back.  `paths` are those in question where they are known, relative to the
    workspace.
    """

    code = "workspace"
    exit_code = 4
    default_safe = "The files are as they were before."
    default_hint = "Mend what the message names and try again."

    def __init__(self, what: str, *, paths: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(what, **rest)
        self.paths = paths


class PathRefused(WorkspaceError):
    """A path leads out of the workspace, or to something in it that is left alone."""

    code = "path-refused"
    default_safe = "Nothing was read or written."
    default_hint = "Give a relative path inside the workspace, with '/' between its segments."


class WorkspaceConflict(WorkspaceError):
    """Files changed since they were last known, so putting others back in their place would lose the change."""

    code = "workspace-conflict"
    default_safe = "No file was touched."
    default_hint = "Look at them; then leave them out (skip), or put them back all the same (force): it can be undone."


class RestoreFailed(WorkspaceError):
    """A file could not be put back, so those put back before it were taken back as well."""

    code = "restore-failed"
    default_hint = "Mend what the message names and try again, or leave those files out (skip)."


class WorkspaceBusy(WorkspaceError):
    """Another process, or another thread of this one, holds the workspace's lock."""

    code = "workspace-busy"
    default_safe = "No file was touched."
    default_hint = "Wait until it has finished; the lock ends with the process that holds it."


class WorkspaceElsewhere(WorkspaceError):
    """The files of a run are on another host, and are not to be had here."""

    code = "workspace-elsewhere"
    default_safe = "Nothing was touched; the run is as it was."
    default_hint = "Do it on the host that has the files."


class RootRefused(UsageError):
    """A folder that is no workspace: `/`, a home directory or what contains one, or no directory at all."""

    code = "root-refused"


class BudgetExceeded(WorkspaceError):
    """The workspace holds more than a capture may cost, in files, bytes or seconds."""

    code = "budget-exceeded"
    default_safe = "No snapshot was made; no file was touched."
    default_hint = "Ignore what is generated, raise the budget, or accept a partial snapshot."
