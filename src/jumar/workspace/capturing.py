"""Taking a snapshot: of the whole root, or of declared paths alone.

A snapshot of declared paths walks only where their globs lead, and reads every file they name, whatever its stat says.
What lies beside them is not even listed unless a glob has to see it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jumar import errors
from jumar.core import trees
from jumar.core.ignoring import GIT, Frozen, Ignoring
from jumar.core.scopes import Reach
from jumar.core.trees import RuleText, SkipReason, Snapshot, join
from jumar.workspace.collecting import Budget, Collector, Progress
from jumar.workspace.objects import Objects, StatRows
from jumar.workspace.probing import filesystem_time, stamps_folders
from jumar.workspace.reading import stat_of
from jumar.workspace.rows import Found
from jumar.workspace.scanning import FOLDER, Scanner


def capture(
    root: Path,
    objects: Objects,
    *,
    scope: Sequence[bytes] = (),
    frozen: tuple[RuleText, ...] | None = None,
    given: tuple[RuleText, ...] = (),
    own: frozenset[bytes] = frozenset(),
    slack: float,
    budget: Budget,
    progress: Callable[[Progress], None] | None,
    pin: str | None,
) -> Snapshot:
    """A snapshot of `root`, kept in `objects`; see `Workspace.capture`."""
    collector = Collector(objects, budget, progress)
    at = time.time_ns() // 1_000_000
    racy_from = filesystem_time(root, objects.path.parent) - int(slack * 1e9)
    key = os.fsencode(root)
    rows = {} if scope else objects.stat_rows(key)
    try:
        here = os.open(root, FOLDER)
    except OSError as error:
        raise errors.WorkspaceError(f"the workspace {root} can't be opened: {error.strerror}") from error
    try:
        seen = os.fstat(here)
        rules = Frozen(frozen) if frozen is not None else None
        stamps = not scope and stamps_folders(root)  # which only a scan that knows folders from before asks for
        scanner = Scanner(collector, rows, racy_from, seen.st_dev, own, given, rules, stamps)
        reach = Reach.of(scope) if scope else None
        if reach is None or reach.matched:
            digest = scanner.folder(here, b"", stat_of(seen), scanner.top)
        else:
            digest = _declared(scanner, here, b"", reach, scanner.top, hidden=False)
    finally:
        os.close(here)
    nodes, collector.nodes = collector.nodes, []
    collector.flush()
    snapshot = Snapshot(
        root=digest,
        mode=seen.st_mode & trees.MODE_BITS,
        at=at,
        complete=collector.complete,
        scope=tuple(scope),
        skipped=tuple(sorted(collector.skipped, key=lambda each: each.path)),
        torn=tuple(sorted(collector.torn)),
        rules=frozen if frozen is not None else (*collector.rules, *given),
        unportable=tuple(sorted(collector.unportable)),
        files=collector.files,
        dirs=collector.dirs,
        links=collector.links,
        size=collector.size,
    )
    learnt = None if scope else StatRows(key, scanner.changed, () if collector.spent else tuple(rows))
    objects.put_snapshot(snapshot, nodes, learnt, pin)
    return snapshot


def _declared(scanner: Scanner, here: int, path: bytes, reach: Reach, above: Ignoring, hidden: bool) -> bytes:
    """Of the open folder `here` what the scope names; `hidden` says that the rules ignore the folder itself."""
    rules = scanner.rules_in(here, path, above)
    found = Found()
    literal = reach.names
    for name in sorted(literal if literal is not None else scanner.names(here, path)):
        inner = reach.into(name)
        if inner is not None:
            _one(scanner, here, name, path, inner, rules, found, hidden, named=literal is not None)
    return scanner.keep(path, found)


def _one(
    scanner: Scanner,
    here: int,
    name: bytes,
    folder: bytes,
    reach: Reach,
    rules: Ignoring,
    found: Found,
    hidden: bool,
    named: bool,
) -> None:
    """One name that the scope leads to: all of it where a glob ends there, else what the globs find below it."""
    try:
        seen = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        scanner.missed(error, name, join(folder, name), found)
        return
    is_dir = stat.S_ISDIR(seen.st_mode)
    hidden = hidden or rules.ignores(join(folder, name), is_dir)
    if reach.matched or name == GIT or scanner.is_own(name, join(folder, name)):
        # What a glob names is captured even if it is ignored; below it rules count unless it is.
        scanner.entry(here, name, folder, stat_of(seen), None if hidden else rules, found)
    elif stat.S_ISLNK(seen.st_mode) and named:
        found.skipped.append((name, SkipReason.LINKED))
    elif is_dir:
        scanner.subfolder(
            here,
            name,
            stat_of(seen),
            join(folder, name),
            found,
            lambda inner, below: _declared(scanner, inner, below, reach, rules, hidden),
        )
