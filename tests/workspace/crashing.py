"""File calls that stop the world: before or after the n-th of them, or with a write half done."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from jumar.workspace.calls import FileCalls

_NEVER_STOPPED = {"close", "write_all"}  # the first is what the system does for the dead, the second only calls write


class Crash(BaseException):
    """The process is gone."""


class Counting(FileCalls):
    """The real calls, counted; `made` are their names in order."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in _NEVER_STOPPED or not callable(found):
            return found

        def counted(*args: Any, **rest: Any) -> Any:
            self.made.append(name)
            return self._step(len(self.made) - 1, name, found, *args, **rest)

        return counted

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        return call(*args, **rest)


class Crashing(Counting):
    """Raises Crash at call number `at`: before it, or with `after` once it is done; a write is then half done.

    Whatever is called afterwards raises Crash as well: a dead process cleans nothing up.
    """

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self._at = at
        self._after = after

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        if number > self._at or (number == self._at and not self._after):
            raise Crash
        if number == self._at and name == "write":
            file, data = args
            call(file, data[: len(data) // 2])
            raise Crash
        answer = call(*args, **rest)
        if number == self._at:
            raise Crash
        return answer


class FailingThenCrashing(Crashing):
    """One call fails, before it does anything or, with `done`, after it did; later the world stops as well."""

    def __init__(self, failing: int, at: int, *, done: bool, after: bool) -> None:
        super().__init__(at, after=after)
        self._failing = failing
        self._done = done

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        if number == self._failing:
            if self._done:
                call(*args, **rest)
            raise OSError(errno.EIO, "the disk is broken")
        return super()._step(number, name, call, *args, **rest)


class WithoutRenameat2:
    """To be mixed in: a system that can neither exchange two names nor refuse to replace one."""

    def rename_new(self, *names: Any) -> bool:
        return False

    def exchange(self, *names: Any) -> bool:
        return False


class Meddling(Counting):
    """Does something behind the restore's back, once: right before, or with `after` right after, a call it is told of.

    `when` is asked with the call's name and how many of that name were made before.
    """

    def __init__(self, when: Callable[[str, int], bool], act: Callable[[], None], *, after: bool = False) -> None:
        super().__init__()
        self._when = when
        self._act = act
        self._after = after
        self.acted = False

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        now = not self.acted and self._when(name, self.made[:-1].count(name))
        if now and not self._after:
            self.acted = True
            self._act()
        answer = call(*args, **rest)
        if now and self._after:
            self.acted = True
            self._act()
        return answer
