"""The files that an engine's runs work on: open workspaces, and who has which of their paths right now.

A workspace is opened when a run first needs it.  Its *table* says which paths the calls of this process have to
themselves; two that overlap never stand in it together, so calls that write the same file go one after the other.  Its
*lock*, the operating system's, keeps other processes out, and their threads that still run: it is taken with the first
place in the table and given back with the last.  A body that outlives its timeout keeps its place until it has ended.

What the store holds for a run that has died is another matter: see `Store.holds`.
"""

from __future__ import annotations

import os
import shutil
import threading
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jumar.core.held_paths import held_paths, named_links, overlapping
from jumar.core.limits import SnapshotLimits
from jumar.core.requests import Capture, Captured, Graft, Occupy, Place, Request, Restore
from jumar.errors import IntegrityError, JumarError, UsageError, WorkspaceBusy, WorkspaceError
from jumar.stores.opening import SQLITE

if TYPE_CHECKING:
    from jumar.core.restoring import Report
    from jumar.core.trees import Snapshot
    from jumar.workspace.collecting import Budget
    from jumar.workspace.locking import WorkspaceLock
    from jumar.workspace.objects import Objects
    from jumar.workspace.workspace import Workspace

ELSEWHERE = Place("", 0)  # whoever has the lock, in another process or under another harness
_SUFFIX = ".files"
_UNLIMITED = SnapshotLimits()


class OpenWorkspace:
    """One workspace as this process uses it.  Used from several threads at once."""

    def __init__(self, workspace: Workspace, limits: SnapshotLimits) -> None:
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

    def materialise(self, digest: bytes, folder: str) -> None:
        """Make a folder, which is not there or is empty, what a snapshot says."""
        self.workspace.materialise(self.workspace.objects.get_snapshot(digest), folder)

    def snapshot(self, digest: bytes) -> Snapshot:
        """A snapshot by its digest; IntegrityError where it is damaged or gone."""
        return self.workspace.objects.get_snapshot(digest)

    def graft(self, request: Graft) -> None:
        """The whole snapshot with the declared paths of `part` as they are there."""
        from jumar.core.trees import snapshot_digest

        known = request.known
        with self._one_at_a_time:
            if known.tree is None:
                return
            try:
                grafted = self.workspace.graft(self.snapshot(known.tree), self.snapshot(request.part))
                known.tree = snapshot_digest(grafted)
            except JumarError:
                known.tree = None


class Files:
    """The workspaces of one open store, whose address tells where the objects lie: in `<store>.files` beside it, or,
    where that would be inside the workspace, in the user's state folder; of `memory:` in a folder that goes when the
    store is closed.
    """

    def __init__(self, address: str, limits: SnapshotLimits = _UNLIMITED) -> None:
        self._limits = limits
        self._store = None if not address.startswith(SQLITE) else Path(address.removeprefix(SQLITE)).absolute()
        self._open: dict[str, OpenWorkspace] = {}
        self._objects: Objects | None = None
        self._temporary: TemporaryDirectory[str] | None = None
        self._guard = threading.Lock()

    def of(self, root: str) -> OpenWorkspace:
        """The workspace at a root; opened where it is not yet.

        RootRefused where the root is no folder any more, and the errors of `Objects`.
        """
        opened = self._open.get(root)
        if opened is not None:
            return opened
        from jumar.workspace.workspace import Workspace

        with self._guard:
            opened = self._open.get(root)
            if opened is None:
                own = () if self._store is None else (self._store,)
                opened = self._open[root] = OpenWorkspace(Workspace(root, self._kept(root), own=own), self._limits)
            return opened

    def _kept(self, root: str) -> Objects:
        from jumar.workspace.objects import Objects

        if self._objects is None:
            self._objects = Objects(self._place_of_objects(Path(root)))
        return self._objects

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


def state_folder() -> Path:
    """The user's folder for what a program keeps."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "jumar"


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
    assert isinstance(request, Graft)
    return files.of(request.root).graft(request)
