"""The files that an engine's runs work on: open workspaces, and who has which of their paths right now.

A workspace is opened when a run first needs it.  Its *table* says which paths the calls of this process have to
themselves; two that overlap never stand in it together, so calls that write the same file go one after the other.  Its
*lock*, the operating system's, keeps other processes out, and their threads that still run: it is taken with the first
place in the table and given back with the last.  A body that outlives its timeout keeps its place until it has ended.

What the store holds for a run that has died is another matter: see `Store.holds`.

Where several hosts work on the runs of one store, a workspace is named by its host and its root, and the objects are
the store's: what needs no folder (to compare two snapshots, to make a folder of one) is done wherever it is asked for.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jumar.core.held_paths import held_paths, named_links, overlapping
from jumar.core.limits import SnapshotLimits
from jumar.core.locations import Location, located
from jumar.core.requests import Capture, Captured, Graft, Materialise, Occupy, Place, Request, Restore
from jumar.engine.hosts import state_folder, this_host
from jumar.errors import (
    IntegrityError,
    JumarError,
    UsageError,
    WorkspaceBusy,
    WorkspaceElsewhere,
    WorkspaceError,
)
from jumar.stores.opening import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jumar.core.objects import SharedObjects
    from jumar.core.restoring import Report
    from jumar.core.trees import Change, Snapshot
    from jumar.workspace.collecting import Budget
    from jumar.workspace.locking import WorkspaceLock
    from jumar.workspace.objects import Objects
    from jumar.workspace.workspace import Workspace

ELSEWHERE = Place("", 0)  # whoever has the lock, in another process or under another harness
_SUFFIX = ".files"
_RUNS = "runs"  # in the state folder: the folders of runs that were begun on other hosts
_UNLIMITED = SnapshotLimits()


class Kept:
    """What is kept of workspaces, wherever these are: their snapshots."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def snapshot(self, digest: bytes) -> Snapshot:
        """A snapshot by its digest; IntegrityError where it is damaged or gone."""
        return self.objects.get_snapshot(digest)

    def diff(self, a: bytes, b: bytes) -> Iterator[Change]:
        """What differs between two snapshots."""
        from jumar.core import trees

        return trees.diff(self.objects.load, self.snapshot(a).root, self.snapshot(b).root)

    def materialise(self, digest: bytes, folder: str) -> None:
        """Make a folder, which is not there or is empty, what a snapshot says."""
        from jumar.workspace.materialising import materialise

        snapshot = self.snapshot(digest)
        self.objects.bring(snapshot)
        materialise(snapshot, Path(folder), self.objects)

    def grafted(self, whole: Snapshot, part: Snapshot) -> Snapshot:
        """The whole snapshot with the declared paths of `part` as they are there; kept like any other."""
        from jumar.core.grafting import graft

        snapshot, nodes = graft(self.objects.load, whole, part)
        self.objects.put_snapshot(snapshot, nodes)
        return snapshot

    def graft(self, request: Graft) -> None:
        """Bring what is known of the whole up to date."""
        from jumar.core.trees import snapshot_digest

        known = request.known
        if known.tree is None:
            return
        try:
            grafted = self.grafted(self.snapshot(known.tree), self.snapshot(request.part))
            known.tree = snapshot_digest(grafted)
        except JumarError:
            known.tree = None


class OpenWorkspace(Kept):
    """One workspace as this process uses it.  Used from several threads at once."""

    def __init__(self, workspace: Workspace, limits: SnapshotLimits) -> None:
        super().__init__(workspace.objects)
        self.workspace = workspace
        self._limits = limits
        self._table: list[Place] = []
        self._lasting: set[Place] = set()
        self._lock: WorkspaceLock | None = None
        self._guard = threading.Lock()
        self._one_at_a_time = threading.Lock()  # a capture must not meet a restore's journal, nor two restores

    # --- Places. ---

    def occupy(self, place: Place, snapshot: bytes | None = None) -> Place | None:
        """Put a place into the table; answers who is in the way, or None."""
        if snapshot is not None:
            place.paths = held_paths(self.workspace.objects.get_snapshot(snapshot).scope)
        with self._guard:
            for other in self._table:
                if overlapping(place.paths, other.paths):
                    return other
            if self._lock is None:
                lock = self.workspace.lock()
                try:
                    lock.acquire()
                except WorkspaceBusy:
                    return ELSEWHERE
                self._lock = lock
            self._table.append(place)
            return None

    def vacate(self, place: Place) -> None:
        """Take a place out of the table; one that is not there is taken for gone."""
        with self._guard:
            self._lasting.discard(place)
            if place in self._table:
                self._table.remove(place)
            self._unlock_if_empty()

    def lasts(self, place: Place) -> None:
        """A body goes on in this place although nobody waits for it any more; `vacate` is called at its end."""
        with self._guard:
            self._lasting.add(place)

    def close(self) -> None:
        """Give all places back but those of bodies that still go on."""
        with self._guard:
            self._table = [place for place in self._table if place in self._lasting]
            self._unlock_if_empty()

    def _unlock_if_empty(self) -> None:
        if not self._table and self._lock is not None:
            lock, self._lock = self._lock, None
            lock.release()

    # --- Files. ---

    def capture(self, request: Capture) -> Captured:
        """A snapshot of the files as they are now."""
        from jumar.core.trees import snapshot_digest

        with self._one_at_a_time:
            known, changes = request.known, request.known.changes
            try:
                snapshot = self.workspace.capture(request.scope, budget=self._budget(), progress=request.tell)
            except OSError as error:
                raise WorkspaceError(f"the workspace cannot be captured ({error})") from error
            digest = snapshot_digest(snapshot)
            if not request.scope:
                known.tree, known.seen = digest, changes
                return Captured(digest, snapshot)
            return Captured(digest, snapshot, tuple(named_links(self.workspace.objects.load, snapshot)))

    def _budget(self) -> Budget:
        from jumar.workspace.collecting import Budget

        limits = self._limits
        return Budget(limits.files, limits.bytes, limits.seconds, partial=True)

    def restore(self, request: Restore) -> Report:
        """Put files back; under the lock of this process where it has it."""
        objects = self.workspace.objects
        target = objects.get_snapshot(request.target)
        try:
            known = None if request.known is None else objects.get_snapshot(request.known)
        except IntegrityError:
            known = None  # nobody knows any more what was changed since, so all that differs is in the way
        with self._one_at_a_time:
            plan = self.workspace.plan(target, known, paths=request.paths)
            if request.dry:
                return self.workspace.foresee(plan, force=request.force)
            return self.workspace.restore(plan, force=request.force, skip=request.skip, held=self._lock)

    def graft(self, request: Graft) -> None:
        """Bring what is known of the whole up to date, while nobody scans it."""
        with self._one_at_a_time:
            super().graft(request)


class Files:
    """The workspaces of one open store.  The store's objects are `shared`, and in the user's state folder is what this
    host has read of them; or, where it has none, its address tells where they lie: in `<store>.files` beside it, or,
    where that would be inside the workspace, in the user's state folder; of `memory:` in a folder that goes when the
    store is closed.

    A workspace is given as it stands in a run's row: see `jumar.core.locations`.
    """

    def __init__(self, address: str, limits: SnapshotLimits = _UNLIMITED, shared: SharedObjects | None = None) -> None:
        self._limits = limits
        self._shared = shared
        self._host: str | None = None
        path = path_of(address)
        self._store = None if path is None else Path(path).absolute()
        self._open: dict[str, OpenWorkspace] = {}
        self._objects: Objects | None = None
        self._temporary: TemporaryDirectory[str] | None = None
        self._guard = threading.Lock()

    # --- Where workspaces are. ---

    @property
    def are_shared(self) -> bool:
        """Whether several hosts share the objects, so that a run can be taken over with its files."""
        return self._shared is not None

    @property
    def host(self) -> str | None:
        """This host, where several work on the runs of the store."""
        if self._shared is not None and self._host is None:
            self._host = this_host()
        return self._host

    def located(self, root: str) -> str:
        """A root on this host as it stands in a run's row."""
        return Location(self.host, root).text

    def is_here(self, workspace: str) -> bool:
        """Whether the folder of a workspace is on this host."""
        location = located(workspace)
        return location.host == self.host and os.path.isdir(location.root)  # noqa: PTH112 - asked by every run

    def is_elsewhere(self, workspace: str) -> bool:
        """Whether the folder of a workspace is not on this host, though what is kept of it may be had."""
        return self._shared is not None and not self.is_here(workspace)

    def root(self, workspace: str) -> str:
        """The path of a workspace; WorkspaceElsewhere where that is another host's."""
        location = located(workspace)
        if location.host != self.host:
            raise _elsewhere(location, are_shared=self.are_shared)
        return location.root

    def of(self, workspace: str) -> OpenWorkspace:
        """A workspace on this host; opened where it is not yet.

        WorkspaceElsewhere where it is another host's, RootRefused where its root is no folder any more, and the errors
        of `Objects`.
        """
        opened = self._open.get(workspace)
        if opened is not None:
            return opened
        from jumar.workspace.workspace import Workspace

        root = self.root(workspace)
        with self._guard:
            opened = self._open.get(workspace)
            if opened is None:
                own = () if self._store is None else (self._store,)
                opened = OpenWorkspace(Workspace(root, self._kept(root), own=own), self._limits)
                self._open[workspace] = opened
            return opened

    def kept(self, workspace: str) -> Kept:
        """What is kept of a workspace, on whatever host that is."""
        if not self.is_elsewhere(workspace):
            return self.of(workspace)
        return Kept(self.objects())

    def materialised(self, request: Materialise) -> str:
        """Make a folder of this host's own for a run; see `Materialise`."""
        from jumar.core.trees import snapshot_digest

        kept = Kept(self.objects())
        whole = kept.snapshot(request.tree)
        for part in request.parts:
            whole = kept.grafted(whole, kept.snapshot(part))
        if not whole.complete:
            raise _partial(whole)
        folder = state_folder() / _RUNS / f"{request.run_id}-{request.move}-{secrets.token_hex(3)}"
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"{folder.parent} can't be made ({error.strerror})") from error
        kept.materialise(snapshot_digest(whole), str(folder))
        return self.located(checked_root(folder))

    def discard(self, workspace: str) -> None:
        """Remove a folder that was made for a run, and that the run did not get."""
        shutil.rmtree(self.root(workspace), ignore_errors=True)

    # --- The objects. ---

    def objects(self, root: str = "") -> Objects:
        """The objects; made where there are none yet, outside of the workspace at `root`."""
        with self._guard:
            return self._kept(root)

    def _kept(self, root: str) -> Objects:
        if self._objects is None:
            self._objects = self._opened(root)
        return self._objects

    def _opened(self, root: str) -> Objects:
        if self._shared is None:
            from jumar.workspace.objects import Objects

            return Objects(self._place_of_objects(Path(root)))
        from jumar.workspace.sharing import CachedObjects

        place = state_folder() / f"{self._shared.identity()}{_SUFFIX}"
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return CachedObjects(place, self._shared, f"{self.host}:")

    def _place_of_objects(self, root: Path) -> Path:
        if self._store is None:
            self._temporary = TemporaryDirectory(prefix="jumar-")
            return Path(self._temporary.name) / f"objects{_SUFFIX}"
        beside, aside = objects_beside(self._store), _objects_aside(self._store)
        if aside.exists() or (not beside.exists() and root in beside.resolve().parents):
            aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return aside
        return beside

    def looked_at(self) -> Objects | None:
        """The objects, for a look at them that touches no workspace; None where none have been kept."""
        from jumar.workspace.objects import Objects

        with self._guard:
            if self._shared is not None:
                return self._kept("")
            if self._objects is None and self._store is not None:
                places = (_objects_aside(self._store), objects_beside(self._store))
                place = next((each for each in places if each.exists()), None)
                self._objects = None if place is None else Objects(place)
            return self._objects

    def close(self) -> None:
        """Give back all locks but those of bodies that still go on, and close the objects."""
        with self._guard:
            for opened in self._open.values():
                opened.close()
            self._open.clear()
            objects, self._objects = self._objects, None
            temporary, self._temporary = self._temporary, None
        if objects is not None:
            objects.close()
        if temporary is not None:
            shutil.rmtree(temporary.name, ignore_errors=True)
            temporary.cleanup()


def objects_beside(store: Path) -> Path:
    """Where the objects of a store lie, unless that is inside a workspace."""
    return store.with_name(store.name + _SUFFIX)


def _objects_aside(store: Path) -> Path:
    """Where they lie then."""
    return state_folder() / f"{sha256(os.fsencode(store.resolve())).hexdigest()[:32]}{_SUFFIX}"


def _elsewhere(location: Location, *, are_shared: bool) -> WorkspaceElsewhere:
    """The error for files that are on another host."""
    there = (
        "Do it there; or, while the run has not ended, resume it here, which makes its files anew (`jumar resume RUN`)"
    )
    return WorkspaceElsewhere(
        f"the run's files are on the host {location.host or 'that the store was copied from'}, in {location.root}",
        hint=f"{there if are_shared else 'Bring the store to that host'}; or make a new run of it here: "
        "`jumar fork RUN --at N --workspace DIR`.",
    )


def _partial(snapshot: Snapshot) -> WorkspaceElsewhere:
    from jumar.core.restoring import shown
    from jumar.core.trees import LACKING

    lacking = [f"{shown(each.path)} ({each.reason.value})" for each in snapshot.skipped if each.reason in LACKING]
    lacking += [f"{shown(path)} (it was being changed)" for path in snapshot.torn]
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    first = lacking[0] if lacking else "something"
    return WorkspaceElsewhere(
        f"its files are on another host, and the snapshot that is kept of them lacks {first}{more}",
        hint="Resume the run on the host that has the files.",
    )


def checked_root(workspace: str | os.PathLike[str]) -> str:
    """A workspace as it is kept in a run's row: the real path of its root, as text."""
    from jumar.workspace import roots

    root = str(roots.checked(Path(workspace)))
    try:
        root.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the path of the workspace {workspace!r} is no UTF-8, so it cannot be recorded") from error
    return root


def carry_out(request: Request[Any], files: Files) -> Any:
    """Do what a request about files asks; it may take long, and blocks."""
    if isinstance(request, Occupy):
        return files.of(request.root).occupy(request.place, request.snapshot)
    if isinstance(request, Capture):
        return files.of(request.root).capture(request)
    if isinstance(request, Restore):
        return files.of(request.root).restore(request)
    if isinstance(request, Materialise):
        return files.materialised(request)
    assert isinstance(request, Graft)
    return files.kept(request.root).graft(request)
