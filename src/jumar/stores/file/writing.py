"""Writing a commit into a run's folder.

First comes the hint for other processes (see `jumar.stores.file.hints`).  Then what the commit adds: artifacts and
checkpoints in files of their own, then the entry that names them, all flushed with their folders; then the new head
under another name.  Its rename is the commit: before it nothing names what was written, after it, and once the folder
is flushed, all of it stays.  A new run is made beside the others, head and all, and the rename of its folder is the
commit.

What a killed process left is told by a hint that did not come true: whoever next has the lock removes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from jumar.stores.file.disk import TEMPORARY, Disk
from jumar.stores.file.failures import surely_not_done
from jumar.stores.file.forms import document, text_of
from jumar.stores.file.image import Known, News
from jumar.stores.file.layout import (
    ARTIFACTS,
    CHECKPOINTS,
    HEAD,
    NEW,
    RUNS,
    artifact_name,
    checkpoint_name,
    entry_name,
    folder_of,
)
from jumar.stores.file.reading import NOTHING

INLINE = 4096  # an artifact of more bytes than this has a file of its own


class Unsure(Exception):
    """A commit's outcome is not known; `folder` has to be flushed before it is read back."""

    def __init__(self, folder: str, error: OSError) -> None:
        super().__init__(str(error))
        self.folder = folder


class Writer:
    """Writes commits into one store's folder, under its lock."""

    def __init__(self, disk: Disk, root: str, hint: Callable[[str, int], None]) -> None:
        self._disk = disk
        self._runs = f"{root}/{RUNS}"
        self._hint = hint

    def commit(self, news: News, known: Known | None, commit: int) -> Known:
        """Write what is new of a run; answers what is known of its folder then.  OSError where it was not written."""
        folder = folder_of(news.run_id) if known is None else known.folder
        home = f"{self._runs}/{folder if known is not None else NEW}"
        self._hint(folder, commit)
        first, entry, checksum = (1, 0, NOTHING) if known is None else (known.first, known.entry, known.checksum)
        if known is None:
            self._make(home)
        if news.rows or known is None or news.anew:
            entry += 1
            if news.anew:
                first, checksum = entry, NOTHING
            checksum = self._write_entry(home, news, commit, entry, checksum)
            self._disk.flush(home)
        done = Known(folder, news.run_no, commit, first, entry, checksum)
        self._write_head(home, news, done)
        if known is None:
            self._disk.rename(f"{home}/{HEAD}{TEMPORARY}", f"{home}/{HEAD}")
            self._disk.flush(home)
            self._settle(home, f"{self._runs}/{folder}", self._runs)
        else:
            self._settle(f"{home}/{HEAD}{TEMPORARY}", f"{home}/{HEAD}", home)
        return done

    def flush(self, folder: str) -> None:
        """Have a commit whose outcome was not known on disk, if it was made."""
        self._disk.flush(folder)

    def remove_leftovers(self, folder: str, last_entry: int, named: set[str]) -> None:
        """Remove what a commit that was not made left in a run's folder.  `named` are the run's own files in folders
        below; entries up to the last are its own too, or were, and somebody may be reading them.
        """
        home = f"{self._runs}/{folder}"
        for below in ("", f"{ARTIFACTS}/", f"{CHECKPOINTS}/"):
            with suppress(OSError):  # no such folder, or no way to remove it: it is in nobody's way
                for name in os.listdir(f"{home}/{below}"):  # noqa: PTH208
                    number = name.removesuffix(".json")
                    is_later = not below and number.isdigit() and int(number) > last_entry
                    is_unnamed = below and f"{below}{name}" not in named
                    if name.endswith(TEMPORARY) or is_later or is_unnamed:
                        self._disk.remove(f"{home}/{below}{name}")

    def _settle(self, old: str, new: str, folder: str) -> None:
        """The rename that is the commit."""
        try:
            self._disk.rename(old, new)
        except OSError as error:
            if surely_not_done(error):
                raise
            raise Unsure(folder, error) from error
        try:
            self._disk.flush(folder)
        except OSError as error:
            raise Unsure(folder, error) from error

    def _make(self, home: str) -> None:
        try:
            self._disk.mkdir(home)
        except FileExistsError:  # left by a process that was killed while it made a run
            self._disk.remove_tree(home)
            self._disk.mkdir(home)

    def _write_head(self, home: str, news: News, done: Known) -> None:
        content = {
            "run_id": news.run_id,
            "run_no": news.run_no,
            "commit": done.commit,
            "first": done.first,
            "entry": done.entry,
            "checksum": done.checksum,
            "run": news.run,
        }
        self._disk.write_flushed(f"{home}/{HEAD}{TEMPORARY}", document("head", content)[0])

    def _write_entry(self, home: str, news: News, commit: int, number: int, previous: str) -> str:
        rows = dict(news.rows)
        if "artifact" in rows:
            rows["artifact"] = self._artifacts(home, rows["artifact"])
        if "checkpoint" in rows:
            rows["checkpoint"] = self._checkpoints(home, rows["checkpoint"])
        whose = {"run_id": news.run_id, "run_no": news.run_no, "number": number, "commit": commit}
        data, checksum = document("entry", {**whose, "previous": previous, **rows})
        self._disk.put(f"{home}/{entry_name(number)}", data)
        return checksum

    def _artifacts(self, home: str, forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Artifacts as the entry has them: small ones as they are, the others as the names of their files."""
        written, set_aside = [], False
        for form in forms:
            data: bytes = form["data"]
            text = text_of(data)
            if len(data) <= INLINE:
                written.append({"digest": form["digest"], "data": text})
                continue
            if sha256(data).hexdigest() != form["digest"]:
                raise ValueError(f"artifact {form['digest'][:12]} does not agree with its digest")
            file = artifact_name(form["digest"], isinstance(text, str))
            self._put_below(home, ARTIFACTS, file, data)
            written.append({"digest": form["digest"], "bytes": len(data), "file": file})
            set_aside = True
        if set_aside:
            self._disk.flush(f"{home}/{ARTIFACTS}")
        return written

    def _checkpoints(self, home: str, forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
        written = []
        for form in forms:
            file = checkpoint_name(form["name"], form["version"])
            data, checksum = document("checkpoint", form)
            self._put_below(home, CHECKPOINTS, file, data)
            written.append({"version": form["version"], "name": form["name"], "file": file, "sha256": checksum})
        self._disk.flush(f"{home}/{CHECKPOINTS}")
        return written

    def _put_below(self, home: str, folder: str, file: str, data: bytes) -> None:
        try:
            self._disk.put(f"{home}/{file}", data)
        except FileNotFoundError:  # the first of its kind
            self._disk.mkdir(f"{home}/{folder}")
            self._disk.put(f"{home}/{file}", data)
