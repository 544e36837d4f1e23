"""Taking runs in from their folders, at opening and whenever another process has committed.

A run whose files are damaged does not keep the others from being used.  It stands in lists as a failed run that says
which file it is, and whoever asks for the run itself gets an IntegrityError.  The names that its readable entries say
it has stay its own: an action that may have been done is not free to be done again because a file was lost.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import suppress

from jumar.core.store import Finding
from jumar.errors import IntegrityError
from jumar.stores.clock import wall_ms
from jumar.stores.file.failures import Damaged
from jumar.stores.file.hints import Hints
from jumar.stores.file.image import Image, Known
from jumar.stores.file.layout import HEAD, RUNS
from jumar.stores.file.reading import (
    NOTHING,
    Flaw,
    Head,
    brought_in,
    entries,
    read_head,
    readable_entries,
)

_log = logging.getLogger("jumar")
_SENSELESS = (ValueError, KeyError, TypeError, AttributeError, sqlite3.Error)


class Intake:
    """Keeps an image in step with the folders.  Used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, image: Image, root: str, hints: Hints) -> None:
        self._connection = connection
        self._image = image
        self._root = root
        self._hints = hints
        self._expected: dict[str, int] = {}  # folders whose head is about to change, and the number of that commit
        self.damaged: dict[str, str] = {}  # run ids, and why
        self._damaged_folders: set[str] = set()
        self.broken_off: list[str] = []  # folders in which a commit was begun and not made
        self.commits = 0  # of other processes, that were taken in

    def catch_up(self, *, settled: bool = False) -> None:
        """Take in what others have committed; `settled` where the lock is held, so that nothing is on its way."""
        said = self._hints.news()
        if said is None:
            self.look_at_all()
        for folder, commit in (said or {}).items():
            self._expected[folder] = max(commit, self._expected.get(folder, 0))
        for folder, commit in list(self._expected.items()):
            is_there = self._is_there(folder, commit)
            if is_there or settled:
                del self._expected[folder]
            if not is_there and settled:
                self.broken_off.append(folder)

    def check(self, run_id: str | None) -> None:
        """IntegrityError where the run's files are damaged."""
        if run_id in self.damaged:
            raise IntegrityError(
                f"run {run_id} cannot be read: {self.damaged[run_id]}",
                hint="Restore the file from a copy, then open the store again; `jumar doctor` tells more.",
            )

    def is_newest(self, known: Known) -> bool:
        """Whether a run's head still is the one that was taken in; IntegrityError where it is damaged.

        Whoever writes asks this of the run he writes: hints may be lost, and what others have committed must not be.
        """
        try:
            return read_head(self._root, known.folder).commit == known.commit
        except Damaged as damaged:
            raise IntegrityError(f"run {self._image.run_of(known.run_no)} cannot be read: {damaged}") from None

    def _is_there(self, folder: str, commit: int) -> bool:
        known = self._image.known(folder)
        if known is not None and known.commit >= commit:
            return True
        if known is None and not os.path.isdir(f"{self._root}/{RUNS}/{folder}"):  # noqa: PTH112
            return False
        self._take_in(folder, known)
        known = self._image.known(folder)
        return known is not None and known.commit >= commit

    def look_at_all(self) -> None:
        """Look whether any head has changed."""
        there = set()
        with os.scandir(f"{self._root}/{RUNS}") as found:
            for each in sorted(found, key=lambda each: each.name):
                if not each.name.startswith(".") and each.is_dir():
                    there.add(each.name)
                    self._take_in(each.name, self._image.known(each.name))
        for known in self._image.folders():
            if known.folder not in there:
                self._set_aside(known.folder, None, Damaged(f"{RUNS}/{known.folder}", "has gone"))

    def _take_in(self, folder: str, known: Known | None) -> None:
        if folder in self._damaged_folders:
            return
        head = None
        try:
            head = read_head(self._root, folder)
            if known is not None and known.commit >= head.commit:
                return
            self._connection.execute("BEGIN")
            self._put(folder, head, known)
            self._connection.execute("COMMIT")
            self.commits += 1
        except Damaged as damaged:
            self._roll_back()
            self._set_aside(folder, head, damaged)
        except _SENSELESS as error:
            self._roll_back()
            self._set_aside(folder, head, Damaged(f"{RUNS}/{folder}", f"holds what makes no sense ({error})"))
        except BaseException:
            self._roll_back()
            raise

    def _put(self, folder: str, head: Head, known: Known | None) -> None:
        occupant = self._image.run_of(head.run_no)
        if occupant not in (None, head.run_id):
            if occupant not in self.damaged or self._image.known_by(head.run_no) is not None:
                raise Damaged(f"{RUNS}/{folder}/{HEAD}", f"has the number of run {occupant}")
            self._image.give_way(head.run_no)
        anew = known is None or (known.first, known.run_no) != (head.first, head.run_no)
        after, checksum = (head.first - 1, NOTHING) if known is None or anew else (known.entry, known.checksum)
        if known is not None and anew:
            self._image.remove(known.run_no)
        for entry in entries(self._root, folder, head, after, checksum):
            self._image.put(head.run_no, entry.commit, brought_in(self._root, folder, entry.rows))
        self._image.put_run(head.run_no, head.run)
        self._image.know(Known(folder, head.run_no, head.commit, head.first, head.entry, head.checksum))

    def _set_aside(self, folder: str, head: Head | None, damaged: Damaged) -> None:
        """Have a run told of as damaged."""
        if folder in self._damaged_folders:
            return
        found = list(readable_entries(self._root, folder, head))
        known = self._image.known(folder)
        run_id, number = folder, None if known is None else known.run_no
        for whose in (*found, *(() if head is None else (head,))):
            run_id, number = whose.run_id, whose.run_no
        self._connection.execute("BEGIN")
        try:
            if head is not None and self._image.run_of(head.run_no) in (None, head.run_id):
                with suppress(*_SENSELESS):
                    self._image.put_run(head.run_no, head.run)
            run_no = self._image.put_damaged(number, run_id, str(damaged), wall_ms())
            for entry in found:
                with suppress(*_SENSELESS):
                    self._image.put(run_no, entry.commit, brought_in(self._root, folder, entry.rows))
            last = max((each.commit for each in found), default=0)
            if number is not None:
                self._image.know(Known(folder, run_no, max(last, 0 if head is None else head.commit), 0, 0, NOTHING))
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self.damaged[run_id] = str(damaged)
        self._damaged_folders.add(folder)
        _log.warning("run %s cannot be read: %s", run_id, damaged)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def findings(self) -> list[Finding]:
        """Read all files again and say what is wrong with them."""
        found = []
        for folder in sorted({each.folder for each in self._image.folders()} | self._damaged_folders):
            known = self._image.known(folder)
            run_id = None if known is None else self._image.run_of(known.run_no)
            flaws: list[Flaw] = []
            try:
                head = read_head(self._root, folder)
                for entry in entries(self._root, folder, head, head.first - 1, NOTHING):
                    brought_in(self._root, folder, entry.rows, flaws)
            except Damaged as damaged:
                flaws.append(Flaw("run", str(damaged)))
            found += [Finding(flaw.where, flaw.what, run_id or folder) for flaw in flaws]
        return found
