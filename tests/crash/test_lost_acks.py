"""A commit whose acknowledgement is lost: on disk or not, the run finds out by reading back, and goes on as if
nothing had happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from jumar.core.changes import Advance, Change, Outcome
from jumar.core.store import CommitUnknown, Store
from jumar.testing.crash_clock import StoppedClock
from tests.crash.worlds import Life, Story, Unbroken, judge


class Doubtful:
    """A store that once, at the write that holds a certain change, does not say how it ended: the changes have
    landed, or they have not, or (`unseen`) they have and the first look does not see them yet."""

    def __init__(self, store: Any, at: str, how: str) -> None:
        self._store = store
        self._at = at
        self._how = how
        self._unseen = False
        self._names: dict[int, str] = {}
        self.kinds: list[str] = []
        self.doubted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """Write, and perhaps keep silent about it."""
        kinds = [kind for change in changes for kind in self._kinds_of(change)]
        self.kinds += kinds
        if self._at not in kinds or self.doubted:
            return cast(list[Outcome | Exception], self._store.write(changes, wait=wait))
        self.doubted = True
        if self._how != "lost":
            self._store.write(changes, wait=True)
        self._unseen = self._how == "unseen"
        raise CommitUnknown("the line broke during COMMIT")

    def read_back(self, change: Change) -> Outcome | None:
        """Look whether a change has landed."""
        if self._unseen:
            self._unseen = False
            return None
        return cast(Outcome | None, self._store.read_back(change))

    def _kinds_of(self, change: Change) -> list[str]:
        """What a change does, in a few words, and the same in every run."""
        if not isinstance(change, Advance):
            return [type(change).__name__]
        self._names.update((record.seq, record.call_id) for record in change.calls)
        states = [(each.seq, each.state.name) for each in (*change.calls, *change.changes)]
        words = [f"{self._names.get(seq, seq)} {state}" for seq, state in states]
        if change.ending is not None:
            words.append(change.ending.status.name)
        return [*words, *(f"{request.call_id} asked" for request in change.requests)]


class DoubtfulLife(Life):
    """A life on such a store."""

    def __init__(self, story: Story, at: str, how: str) -> None:
        super().__init__(story, None)
        self._doubt = (at, how)

    def around(self, store: Store) -> Store:
        """The store that keeps silent once."""
        self.store = Doubtful(super().around(store), *self._doubt)
        return cast(Store, self.store)


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture
def unbroken(folder: Path, clock: StoppedClock, waits: bool) -> Unbroken:
    """The run whose every commit is acknowledged."""
    (folder / "unbroken").mkdir()
    return Unbroken(folder / "unbroken", clock, waits=waits)


@pytest.fixture(params=["landed", "lost", "unseen"])
def how(request: pytest.FixtureRequest) -> str:
    """What became of the commit whose acknowledgement is lost."""
    return str(request.param)


def test_a_new_run_goes_on_whichever_acknowledgement_is_lost(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool, how: str
) -> None:
    (folder / "first").mkdir()
    met = doubted_everywhere(Story(folder / "first", clock, waits=waits), unbroken, how)
    assert met >= {"Create", "STARTED", "SUCCEEDED", "FAILED", "PLANNED", "COMPLETED"}


def test_a_recovery_goes_on_whichever_acknowledgement_is_lost(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool, how: str
) -> None:
    (folder / "first").mkdir()
    first = Story(folder / "first", clock, waits=waits)
    # The wire is sent and not recorded, so that the second life claims, asks, waits, is answered and claims again.
    assert first.live(unbroken.points - 7) is None
    assert first.trail == ["after Invoke(wire of wire.1, attempt 1)"]
    met = doubted_everywhere(first, unbroken, how)
    assert met >= {"Claim", "asked", "WAITING", "Answer", "SUCCEEDED", "COMPLETED"}


def doubted_everywhere(first: Story, unbroken: Unbroken, how: str) -> set[str]:
    """Lose the acknowledgement of each change of the story's next life in turn; answers which there were."""
    kinds = list(dict.fromkeys(doubted(first, unbroken, "", "").kinds))
    for kind in kinds:
        assert doubted(first, unbroken, kind, how).doubted, f"the run made no {kind}"
    return {kind.split()[-1] for kind in kinds}


def doubted(first: Story, unbroken: Unbroken, at: str, how: str) -> Doubtful:
    """Live a copy of the story to its end with one doubt in it, and judge it."""
    story = first.copy_to(first.folder.with_name(f"doubt {at}"))
    world = DoubtfulLife(story, at, how)
    try:
        judge(story, story.live(world=world), unbroken)
    except BaseException as error:
        error.add_note(f"in doubt was: {at}")
        raise
    return world.store
