"""The store in a folder of JSON files, which a person can look at with any editor.

Each run has a folder of its own (`jumar.stores.file.layout`): files that never change, each with what one commit
added, and a small head, with the run's row and the number of the last of them.  The rename of a head is a commit;
nothing that no head names counts.  Each file carries its checksum and that of the one before it.  What a commit costs
does not grow with the run.

This process has an image of the store in memory (`jumar.stores.file.image`), which is a SQLite database with the
tables and statements of a SQLite store: its guards are the same to the letter, and so is what can be asked of it.  A
change is made under the store's lock (`jumar.stores.file.lock`), in four steps: take in what other processes have
committed since; apply the change to the image in a transaction; write what that touched into the run's folder
(`jumar.stores.file.writing`); commit the image.  Whatever fails before the head's rename rolls the image back.  After
it, the image follows by itself, since what the folders say always counts.  Reading takes no lock, only a look whether
others have committed.

All runs are read when the store is opened, and kept in memory, results and all: some tens of microseconds for each
commit that was ever made.  A store that keeps many thousands of calls is better off in a SQLite file.

The changes of one batch that are about the same run, one after the other, are one commit; those of other runs are
others.  So of a batch that was cut short by a crash the first changes are made and the rest are not, each as a whole.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from threading import Lock
from typing import TypeVar

from msgspec.structs import replace

from jumar import errors
from jumar.core.changes import Adopt, Change, Fork, Outcome
from jumar.core.records import RunRecord
from jumar.core.store import CommitUnknown, Inspection
from jumar.database import forks
from jumar.database.opening import MEMORY
from jumar.stores.file import layout
from jumar.stores.file.disk import Disk
from jumar.stores.file.failures import translated
from jumar.stores.file.hints import Hints
from jumar.stores.file.image import Image, News
from jumar.stores.file.intake import Intake
from jumar.stores.file.lock import StoreLock
from jumar.stores.file.writing import Unsure, Writer
from jumar.stores.sqlite.store import SQLiteStore
from jumar.stores.sqlite.writes import apply
from jumar.stores.watching import Watching

T = TypeVar("T")


class _Behind(Exception):
    """Another process has committed something of this run that no hint told of."""


class FileStore(SQLiteStore):
    """A store in the folder at `path`, which is made where there is none.  See `jumar.core.store.Store` for its
    methods.
    """

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        root = os.path.abspath(path)  # noqa: PTH100 - a path is text here
        disk = Disk() if disk is None else disk
        self._lock = StoreLock(f"{root}/{layout.LOCK}", path)
        self._hints = Hints(disk, f"{root}/{layout.HINTS}")
        self._gone: str | None = None  # why nothing can be done with it any more
        self._turn = Lock()  # who of this process may write
        self._unsure: set[str] = set()
        migrated = layout.prepare(disk, root, self._lock)
        super().__init__(MEMORY)
        self.path = self._where = path
        self.migrated = migrated
        self._image = Image(self._writer)
        self._intake = Intake(self._writer, self._image, root, self._hints)
        self._files = Writer(disk, root, self._hints.add)
        self._watching = Watching(self._version)
        forks.watch(self, FileStore._forked)
        try:
            with self._said():
                self._intake.catch_up()
            self._image.watch()
        except BaseException:
            self.close()
            raise

    def _forked(self) -> None:
        """The lock is the parent's: this copy of its file would keep it locked after the parent's end."""
        self._gone = f"{self._where} was opened in the process that this one was forked from"
        self._lock.close()
        self._hints.close()

    def _written(self, changes: Sequence[Change], wait: bool) -> list[Outcome | Exception]:
        written = super()._written

        def work() -> list[Outcome | Exception]:
            answers: list[Outcome | Exception] = []
            for _, group in groupby(changes, _run_of):
                answers += written(list(group), True)
            return answers

        return self._exclusively(work, wait)

    def read_back(self, change: Change) -> Outcome | None:
        """See `Store.read_back`."""
        read_back = super().read_back
        return self._exclusively(lambda: read_back(change), True)

    def _exclusively(self, work: Callable[[], T], wait: bool) -> T:
        """Do this with the store's lock, and the image as the folders say.

        An interrupt can come between any two steps here, so the lock is taken within what gives it back, and that is
        done again where it was interrupted.
        """
        if self._gone is not None:
            raise errors.StoreUnavailable(self._gone, hint="Open a new Harness.")
        with self._turn:
            try:
                self._lock.acquire(wait)
                with self._writing:
                    self._roll_back()
                    for folder in tuple(self._unsure):
                        self._files.flush(folder)
                        self._unsure.discard(folder)
                    self._intake.catch_up(settled=True)
                    self._remove_leftovers()
                    return work()
            except OSError as error:
                raise translated(error, self._where) from error
            finally:
                try:
                    self._lock.release()
                finally:
                    self._lock.release()

    def _remove_leftovers(self) -> None:
        while self._intake.broken_off:
            known = self._image.known(self._intake.broken_off.pop())
            if known is not None and self._image.run_of(known.run_no) not in self._intake.damaged:
                self._files.remove_leftovers(known.folder, known.entry, self._image.files_of(known.run_no))

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Errors of the filesystem as a person is told of them."""
        try:
            yield
        except OSError as error:
            raise translated(error, self._where) from error

    def _transaction(self, changes: Sequence[Change], wait: bool) -> list[Outcome | Exception]:
        """All of the changes, which are about one run, or none."""
        try:
            return self._applied(changes)
        except _Behind:
            self._intake.look_at_all()
            return self._applied(changes)

    def _applied(self, changes: Sequence[Change]) -> list[Outcome | Exception]:
        connection = self._writer
        self._roll_back()
        try:
            connection.execute("BEGIN")
            self._check(changes)
            self._image.begin()
            outcomes: list[Outcome | Exception] = [apply(connection, change) for change in changes]
            news = self._image.news()
            if news is not None:
                self._commit(news)
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, Unsure):
                self._unsure.add(error.folder)
                raise CommitUnknown(str(error)) from error
            if isinstance(error, OSError):
                raise translated(error, self._where) from error
            raise
        return outcomes

    def _commit(self, news: News) -> None:
        commit = self._image.last_commit() + 1
        known = self._image.known(layout.folder_of(news.run_id))
        if known is not None and not self._intake.is_newest(known):
            raise _Behind(news.run_id)
        self._image.know(self._files.commit(news, known, commit))
        self._image.note_names(news.run_no, commit, news.rows)

    def _check(self, changes: Sequence[Change]) -> None:
        if not self._intake.damaged:
            return
        for change in changes:
            numbers = [change.source_no] if isinstance(change, Fork) else [getattr(change, "run_no", None)]
            for run_id in (_id_of(change), *(self._image.run_of(each) for each in numbers if each is not None)):
                self._intake.check(run_id)

    def run(self, run_id: str) -> RunRecord | None:
        """See `Store.run`."""
        run = super().run(run_id)
        self._intake.check(run_id)
        return run

    def inspect(self) -> Inspection:
        """See `Store.inspect`; all files are read again."""
        inspection = super().inspect()
        with self._said(), self._reading:
            found = self._intake.findings()
        told = {(finding.where, finding.run_id) for finding in found}
        others = (each for each in inspection.findings if (each.where, each.run_id) not in told)
        return replace(inspection, findings=(*found, *others))

    def close(self) -> None:
        """See `Store.close`."""
        if self._gone is not None:
            return
        with self._turn, self._writing:
            self._gone = f"{self._where} is closed"
            self._lock.close()
            self._hints.close()
            super().close()

    def _version(self) -> int:
        """A number that changes with every commit of another process."""
        return self._read(lambda _: self._intake.commits)

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._said(), self._reading:
            if self._gone is not None:
                raise errors.StoreUnavailable(self._gone, hint="Open a new Harness.")
            self._roll_back()
            self._intake.catch_up()
            return super()._read(read)


def _run_of(change: Change) -> str | int:
    """What tells the changes of one run from those of others."""
    run_id = _id_of(change)
    if run_id is not None:
        return run_id
    number: int = getattr(change, "run_no")  # noqa: B009 - all that name no id have it
    return number


def _id_of(change: Change) -> str | None:
    if isinstance(change, Adopt):
        return change.export.run.run_id
    return getattr(change, "run_id", None)
