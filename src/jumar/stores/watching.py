"""Being told that runs may have become due: by this process's own writes, and by looking whether others have written.

A bell is made of a queue whose `put` takes no lock that its own thread could hold already, so it may be rung in a
signal handler whatever the interrupted thread was doing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Lock

from jumar.core.changes import Change, Refusal
from jumar.core.working import may_make_due

_LOOK_SECONDS = 0.05  # how often it is looked whether another process has written


class Bell:
    """Ends the wait of another thread, or the next one where nobody waits."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._rung = False

    def ring(self) -> None:
        """End the wait; rings before anybody has heard the first count as one."""
        if self._rung:
            return
        self._rung = True
        self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether it was rung."""
        try:
            self._rings.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        self._rung = False  # whoever rang until now is heard: what he tells of was there before he rang
        return True


class Watching:
    """Who waits at one store of this process."""

    def __init__(self, version: Callable[[], int] | None = None) -> None:
        self._version = version
        self._lock = Lock()
        self._watches: tuple[StoreWatch, ...] = ()

    def watch(self) -> StoreWatch:
        """One more who waits."""
        made = StoreWatch(self._version, self._leave)
        with self._lock:
            self._watches += (made,)
        return made

    def tell(self, changes: Sequence[Change], answers: Sequence[object]) -> None:
        """Wake who waits where one of these changes, which were just written, may have made a run due."""
        if not self._watches:
            return
        for change, answer in zip(changes, answers, strict=True):
            if may_make_due(change) and not isinstance(answer, (Refusal, Exception)):
                for watch in self._watches:
                    watch.wake()
                return

    def _leave(self, watch: StoreWatch) -> None:
        with self._lock:
            self._watches = tuple(each for each in self._watches if each is not watch)


class StoreWatch:
    """One who waits.  `version` reads a number that changes with every commit of another connection; without it there
    is none.  See `jumar.core.store.Watch` for the methods.
    """

    def __init__(self, version: Callable[[], int] | None, leave: Callable[[StoreWatch], None]) -> None:
        self._bell = Bell()
        self._version = version
        self._leave = leave
        self._seen = 0 if version is None else version()

    def wait(self, seconds: float) -> bool:
        """See `Watch.wait`."""
        if self._version is None:
            return self._bell.wait(seconds)
        give_up = time.monotonic() + seconds
        while True:
            left = give_up - time.monotonic()
            if self._bell.wait(min(left, _LOOK_SECONDS)):
                return True
            seen = self._version()
            if seen != self._seen:
                self._seen = seen
                return True
            if left <= _LOOK_SECONDS:
                return False

    def wake(self) -> None:
        """See `Watch.wake`."""
        self._bell.ring()

    def close(self) -> None:
        """See `Watch.close`."""
        self._leave(self)
