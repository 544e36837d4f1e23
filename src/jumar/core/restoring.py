"""What it takes to put files back: a three-way comparison, told path by path before anything is touched.

For each path there are three entries: in the *target* snapshot, in the snapshot that was last *known*, and *current*,
captured just now.  Current as in the target: nothing to do.  Current as last known: nobody but the run touched it, so
it is written or deleted.  Anything else is a conflict: somebody changed it since, and putting the target there would
lose that change.  A path that the target lacks is deleted only where the target would have captured it: what its ignore
rules, its scope or a failed reading left out is none of its business.  So is what has been ignored since then.

Conflicts refuse a restore as a whole unless they are skipped or forced.  What can't be forced is *blocked*: a FIFO that
stands where a file was holds nothing that could be saved first.  `settle` draws the consequences: a folder that holds
something that stays can't go, and nothing can be put into a folder that can't be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct, structs

from jumar.core.trees import Entry, EntryKind, Load, Snapshot, join


class Verdict(StrEnum):
    """What is to be done about a path that is not as in the target."""

    WRITE = "write"
    DELETE = "delete"
    CONFLICT = "conflict"
    BLOCKED = "blocked"  # a conflict that force does not lift
    UNCAPTURED = "uncaptured"  # left alone: the target does not know what belongs there


class Step(Struct, frozen=True):
    """One path, relative and `/`-separated (the root is empty), its three entries and the verdict on it."""

    path: bytes
    verdict: Verdict
    target: Entry | None
    known: Entry | None
    current: Entry | None
    reason: str = ""


class Coverage(Struct, frozen=True):
    """Which paths a restore is about, as questions; the first two are asked with whether the path is a folder's.

    `wants`: the target would have captured it, by its own frozen rules and scope, and it was asked for.  `ignored`: the
    rules of the last known snapshot leave it out.  `named`: it is in the scope itself, and not just on the way to what
    is; a folder on the way comes and goes with what it holds, but its mode is none of the restore's business.
    """

    wants: Callable[[bytes, bool], bool]
    ignored: Callable[[bytes, bool], bool]
    named: Callable[[bytes], bool]


class Outcome(StrEnum):
    """What became of a path."""

    RESTORED = "restored"
    DELETED = "deleted"
    CONFLICT = "conflict"
    UNCAPTURED = "uncaptured"
    FAILED = "failed"


class PathOutcome(Struct, frozen=True):
    """What became of one path, and why where it is not as in the target."""

    path: bytes
    outcome: Outcome
    reason: str = ""

    @property
    def text(self) -> str:
        """The path for people."""
        return shown(self.path)


class Report(Struct, frozen=True):
    """What a restore did: one entry for each path that was not as in the target, sorted by path.

    `safety` is the digest of the pinned snapshot of the files as they were before; None where nothing was to be done.
    """

    target: bytes
    safety: bytes | None
    paths: tuple[PathOutcome, ...] = ()

    def of(self, outcome: Outcome) -> tuple[str, ...]:
        """The paths with this outcome, for people."""
        return tuple(each.text for each in self.paths if each.outcome is outcome)

    @property
    def complete(self) -> bool:
        """Whether every path that the target knows is now as it is there."""
        return not any(each.outcome in (Outcome.CONFLICT, Outcome.FAILED) for each in self.paths)


def shown(path: bytes) -> str:
    """A path for people; bytes that are no UTF-8 are made visible, and the root is a dot."""
    return path.decode("utf-8", "backslashreplace") or "."


def same(a: Entry | None, b: Entry | None) -> bool:
    """Whether two entries mean the same thing at one path, whatever lies below them."""
    if a is None or b is None:
        return a is b
    if a.kind is not b.kind or a.mode != b.mode:
        return False
    return a.kind is EntryKind.DIR or same_content(a, b)


def same_content(a: Entry, b: Entry) -> bool:
    """Whether two entries are of one kind and hold the same, be their modes what they may."""
    return a.kind is b.kind and a.digest == b.digest and a.target == b.target


def compare(
    load: Load, target: Snapshot, known: Snapshot | None, current: Snapshot, coverage: Coverage
) -> Iterator[Step]:
    """The steps from `current` to `target`, a folder before what it holds; paths that need nothing are not told.

    `current` must have been captured by the target's rules and scope.  Subtrees that are equal in both are not opened.
    """
    judge = _Judge(target, current, coverage)
    step = judge.of(b"", *(_root_entry(each) for each in (target, known, current)))
    if step is not None:
        yield step
    waiting: list[tuple[bytes, bytes | None, bytes | None, bytes | None]] = [
        (b"", target.root, None if known is None else known.root, current.root)
    ]
    while waiting:
        folder, wanted, last, now = waiting.pop()
        if wanted == now:
            continue
        here, before, after = (_by_name(load, digest) for digest in (now, last, wanted))
        for name in sorted(here.keys() | after.keys()):
            path, then, past, present = join(folder, name), after.get(name), before.get(name), here.get(name)
            step = judge.of(path, then, past, present)
            if step is not None:
                yield step
            if step is None or step.verdict is not Verdict.UNCAPTURED:
                waiting.append((path, _folder(then), _folder(past), _folder(present)))


def _root_entry(snapshot: Snapshot | None) -> Entry | None:
    return None if snapshot is None else Entry(b"", EntryKind.DIR, snapshot.mode, digest=snapshot.root)


def _by_name(load: Load, digest: bytes | None) -> dict[bytes, Entry]:
    return {} if digest is None else {entry.name: entry for entry in load(digest)}


def _folder(entry: Entry | None) -> bytes | None:
    return entry.digest if entry is not None and entry.kind is EntryKind.DIR else None


class _Judge:
    """The verdict on one path after another; knows what the snapshots could not capture."""

    def __init__(self, target: Snapshot, current: Snapshot, coverage: Coverage) -> None:
        self._coverage = coverage
        self._missing = {each.path: f"not captured then ({each.reason.value})" for each in target.skipped}
        self._missing |= dict.fromkeys(target.torn, "it was being changed while it was captured")
        self._unseen = {each.path: each.reason.value for each in current.skipped}

    def of(self, path: bytes, target: Entry | None, known: Entry | None, current: Entry | None) -> Step | None:
        found = self._verdict(path, target, known, current)
        return found and Step(path, found[0], target, known, current, found[1])

    def _verdict(
        self, path: bytes, target: Entry | None, known: Entry | None, current: Entry | None
    ) -> tuple[Verdict, str] | None:
        if same(target, current):
            return None
        either = target or current
        missing = _lookup(self._missing, path, above=target is None)
        if missing is not None and either is not None:
            return Verdict.UNCAPTURED, missing
        if either is None or not self._coverage.wants(path, either.kind is EntryKind.DIR):
            return None
        if _is_folder(target) and _is_folder(current) and not self._coverage.named(path):
            return None
        unseen = _lookup(self._unseen, path, above=current is None)
        if unseen is not None:
            return Verdict.BLOCKED, f"what is there now can't be captured ({unseen})"
        if target is None and known is None and self._coverage.ignored(path, either.kind is EntryKind.DIR):
            return Verdict.UNCAPTURED, "ignored by the rules of today"
        if same(known, current):
            return (Verdict.DELETE if target is None else Verdict.WRITE), ""
        return Verdict.CONFLICT, _changed(known, current)


def _lookup(reasons: dict[bytes, str], path: bytes, *, above: bool) -> str | None:
    """The reason given for a path or, with `above`, for a folder it lies in: a skipped folder stands for all below."""
    if not reasons or path in reasons or not above:
        return reasons.get(path)
    return next((reasons[folder] for folder in (*parents(path), b"") if folder in reasons), None)


def _changed(known: Entry | None, current: Entry | None) -> str:
    if current is None:
        return "it was removed since"
    if known is None:
        return "it appeared since"
    if known.kind is EntryKind.DIR or same_content(known, current):
        return "its mode was changed since" if known.kind is current.kind else "it was replaced since"
    return "it was changed since"


def settle(steps: Iterable[Step], current: Snapshot, *, force: bool) -> tuple[Step, ...]:
    """The steps with what follows from each for the others, sorted by path; with `force` conflicts become work.

    Afterwards every WRITE and DELETE can be carried out; CONFLICT and BLOCKED are what refuses the restore or, where
    they are skipped, stays as it is.
    """
    settled = {step.path: _forced(step) if force else step for step in steps}
    stuck = Verdict.BLOCKED if force else Verdict.CONFLICT
    held = {each.path for each in current.skipped}
    held |= {path for path, step in settled.items() if not _is_work(step) and step.current is not None}
    holding = {folder for path in held for folder in parents(path)}
    for path, step in settled.items():
        if not _is_work(step) or not _is_folder(step.current) or _is_folder(step.target) or path not in holding:
            continue
        if step.verdict is Verdict.DELETE:
            settled[path] = _become(step, Verdict.UNCAPTURED, "it holds files that stay")
        else:
            settled[path] = _become(step, stuck, "it holds files that stay")
    for path in sorted(settled):
        step = settled[path]
        above = [settled[folder] for folder in parents(path) if folder in settled]
        if _is_work(step) and any(_refuses_below(folder) for folder in above):
            settled[path] = _become(step, stuck, "its folder can't be put back")
    return tuple(settled[path] for path in sorted(settled))


def parents(path: bytes) -> Iterator[bytes]:
    """The folders above a path, the nearest first, without the root."""
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _forced(step: Step) -> Step:
    if step.verdict is not Verdict.CONFLICT:
        return step
    return _become(step, Verdict.DELETE if step.target is None else Verdict.WRITE, step.reason)


def _become(step: Step, verdict: Verdict, reason: str) -> Step:
    return structs.replace(step, verdict=verdict, reason=reason)


def _is_work(step: Step) -> bool:
    return step.verdict in (Verdict.WRITE, Verdict.DELETE)


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is EntryKind.DIR


def _refuses_below(folder: Step) -> bool:
    """Whether a folder that is not put back keeps what is below it from being put back."""
    return (
        not _is_work(folder) and folder.target is not None and _is_folder(folder.target) != _is_folder(folder.current)
    )
