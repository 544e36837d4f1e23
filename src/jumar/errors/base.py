"""What every error has: what happened, what is safe now, and what to do next."""

from __future__ import annotations

from typing import Any, ClassVar


class JumarError(Exception):
    """Base of every error Jumar raises.

    `what` tells what happened, `safe` what is known to be safe at this moment, `hint` what to do next; `code` is a
    stable identifier for programs and `exit_code` what the command line ends with.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    default_safe: ClassVar[str] = "Everything recorded before this stays recorded."
    default_hint: ClassVar[str] = "Look at the run with `jumar show RUN`."

    def __init__(self, what: str, *, safe: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe if safe is not None else self.default_safe
        self.hint = hint if hint is not None else self.default_hint

    def __str__(self) -> str:
        return f"{self.what}\n  Safe now: {self.safe}\n  Next: {self.hint}"

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.what, self.safe, self.hint, self.__dict__))


def _rebuild(kind: type[JumarError], what: str, safe: str, hint: str, state: dict[str, Any]) -> JumarError:
    error = kind.__new__(kind)
    JumarError.__init__(error, what, safe=safe, hint=hint)
    error.__dict__.update(state)
    return error


class UsageError(JumarError):
    """The request itself cannot be carried out as it was put."""

    code = "usage"
    exit_code = 2
    default_safe = "Nothing was changed."
    default_hint = "Correct the call and try again."
