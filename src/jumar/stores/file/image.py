"""The image of a store: a SQLite database in memory that has all of its rows, and applies changes with the same guarded
statements as a store in a SQLite file.

What a change did to it is told by triggers: they note which rows it touched, and `news` reads those back as forms for
a file.  The other way round, `put` takes in the forms of an entry that this process or another one wrote.  So no
rule is written twice, and the files say what is, not what was asked for.

A name may go from one run to another in one change (see `jumar.core.changes.Take`).  It stands in the entry of the
run that took it last, under the number of that commit; numbers of commits rise through the whole store, and of what
two entries say of a name the higher number counts, also where it says that nobody has it.

The temporary tables here are part of the same transactions as the rows, so what is known of the files never gets out of
step with what is taken in from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from jumar.core.states import ErrorClass, Phase, Status
from jumar.stores.file.forms import Table, bytes_of, table, text_of
from jumar.stores.file.layout import artifact_name, checkpoint_name
from jumar.stores.packing import pack, unpack

_OWN, _STORE = "run", "store"  # how far a name reaches
_KEYS = {
    "call": ("run_no", "seq"),
    "artifact": ("run_no", "digest"),
    "checkpoint": ("run_no", "version"),
    "request": ("request_id",),
    "event": (),
}
_ARTIFACT = (
    "INSERT INTO artifact (run_no, digest, packing, data) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (run_no, digest) DO UPDATE SET packing = excluded.packing, data = excluded.data"
)
_SETUP = """
CREATE TEMP TABLE touched (what TEXT NOT NULL, a, b, c, d);
CREATE TEMP TABLE folder (name TEXT PRIMARY KEY, run_no INTEGER NOT NULL, commit_no INTEGER NOT NULL,
                          first INTEGER NOT NULL, entry INTEGER NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX temp.folder_by_commit ON folder (commit_no);
CREATE INDEX temp.folder_by_run ON folder (run_no);
CREATE TEMP TABLE named (scope_run INTEGER NOT NULL, key TEXT NOT NULL, commit_no INTEGER NOT NULL,
                         PRIMARY KEY (scope_run, key)) WITHOUT ROWID;
"""


class Known(NamedTuple):
    """What the image has taken in of a run's folder."""

    folder: str
    run_no: int
    commit: int
    first: int  # the number of the entry that the run begins with
    entry: int  # and of the last one
    checksum: str  # of that one


class News(NamedTuple):
    """What a transaction changed: one run's row, and the forms of what else it touched."""

    run_no: int
    run_id: str
    anew: bool  # the run was replaced by another of its id
    run: dict[str, Any]
    rows: dict[str, Any]


class Image:
    """The rows of a store on a connection to a database in memory, used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._run = table(connection, "run", ("run_no",))
        self._tables = {name: table(connection, name, key) for name, key in _KEYS.items()}
        connection.executescript(_SETUP)

    def watch(self) -> None:
        """Begin to note what changes touch."""
        for name in _KEYS:
            number = f"{name}_no"
            self._trigger(name, "INSERT", f"'{name}', NEW.{number}, NEW.run_no, NULL, NULL")
            self._trigger(name, "UPDATE", f"'{name}', NEW.{number}, NEW.run_no, NULL, NULL")
            self._trigger(name, "DELETE", "'gone', OLD.run_no, NULL, NULL, NULL")
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            self._trigger("run", event, f"'run', {row}.run_no, NULL, NULL, NULL")
            self._trigger("identity", event, f"'name', {row}.scope_run, {row}.key, NULL, NULL")
        for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            self._trigger("hold", event, f"'hold', {row}.workspace, {row}.path, {row}.run_no, {row}.call_seq", row)

    def _trigger(self, name: str, event: str, values: str, row: str = "") -> None:
        self._connection.execute(
            f"CREATE TEMP TRIGGER touched_{name}_{event}_{row} AFTER {event} ON {name} "
            f"BEGIN INSERT INTO touched VALUES ({values}); END"
        )

    def begin(self) -> None:
        """Note from here on."""
        self._connection.execute("DELETE FROM temp.touched")

    def news(self) -> News | None:
        """What was touched since `begin`; None for nothing.  ValueError where it was more than one run's."""
        connection = self._connection
        touched = {what for (what,) in connection.execute("SELECT DISTINCT what FROM temp.touched")}
        if not touched:
            return None
        numbers = connection.execute("SELECT DISTINCT a FROM temp.touched WHERE what = 'run'").fetchall()
        found = connection.execute(
            f"SELECT run_no, run_id, {self._run.select} FROM run WHERE run_no IN "
            "(SELECT a FROM temp.touched WHERE what = 'run')"
        ).fetchall()
        if len(found) != 1:
            raise ValueError(f"a change touched {len(numbers)} runs, and has to touch one")
        run_no, run_id, *row = found[0]
        anew = "gone" in touched
        rows: dict[str, Any] = {}
        for name, each in self._tables.items():
            if anew or name in touched:
                forms = self._forms(each, run_no, anew)
                if forms:
                    rows[name] = forms
        rows |= self._names(run_no) if "name" in touched else {}
        rows |= self._holds(run_no) if "hold" in touched else {}
        run = self._run.form(row)
        del run["reversed_id"]
        return News(run_no, run_id, anew, run, rows)

    def _forms(self, each: Table, run_no: int, anew: bool) -> list[dict[str, Any]]:
        which = "run_no = ?" if anew else f"{each.name}_no IN (SELECT a FROM temp.touched WHERE what = '{each.name}')"
        found = self._connection.execute(
            f"SELECT run_no, {each.select} FROM {each.name} WHERE {which} ORDER BY {each.name}_no",
            (run_no,) if anew else (),
        ).fetchall()
        if any(row[0] != run_no for row in found):
            raise ValueError(f"a change touched a {each.name} of another run")
        if each.name == "artifact":
            return [self._artifact(row[1:]) for row in found]
        return [each.form(row[1:]) for row in found]

    @staticmethod
    def _artifact(row: tuple[bytes, int, bytes]) -> dict[str, Any]:
        digest, packing, data = row
        return {"digest": digest.hex(), "data": unpack(packing, data)}

    def _names(self, run_no: int) -> dict[str, Any]:
        taken, freed = [], []
        for scope, key, *row in self._connection.execute(
            "SELECT DISTINCT a, b, identity.run_no, call_seq, args_digest, undone FROM temp.touched "
            "LEFT JOIN identity ON scope_run = a AND identity.key = b WHERE what = 'name'"
        ):
            reach = {"scope": _OWN if scope else _STORE, "key": key}
            if scope not in (0, run_no) and row[0] is None:
                continue  # of the run that was replaced by this one
            if row[0] is None:
                freed.append(reach)
                continue
            holder, seq, digest, undone = row
            if scope not in (0, run_no) or holder not in (0, run_no):
                raise ValueError("a change touched a name of another run")
            taken.append({**reach, "call": seq if holder else None, "args_digest": digest.hex(), "undone": undone})
        return {"names": taken, "names_freed": freed}

    def _holds(self, run_no: int) -> dict[str, Any]:
        held: list[dict[str, Any]] = []
        freed: list[dict[str, Any]] = []
        for workspace, path, holder, seq, is_held in self._connection.execute(
            "SELECT DISTINCT a, b, c, d, hold.path IS NOT NULL FROM temp.touched "
            "LEFT JOIN hold ON workspace = a AND hold.path = b AND run_no = c AND call_seq = d WHERE what = 'hold'"
        ):
            if holder == run_no:
                (held if is_held else freed).append({"workspace": workspace, "path": text_of(path), "call": seq})
        return {"paths": held, "paths_freed": freed}

    # --- The other way: from files into the image. ---

    def put(self, run_no: int, commit: int, rows: dict[str, Any]) -> None:
        """Take in what an entry says.  ValueError, KeyError or TypeError where it makes no sense."""
        for name, each in self._tables.items():
            if name == "artifact":
                self._connection.executemany(_ARTIFACT, [_packed(run_no, form) for form in rows.get(name, ())])
            elif forms := rows.get(name):
                self._connection.executemany(each.upsert, [(run_no, *each.row(form)) for form in forms])
        self.put_names(run_no, commit, rows)
        for path in rows.get("paths_freed", ()):
            self._connection.execute(
                "DELETE FROM hold WHERE workspace = ? AND path = ? AND run_no = ? AND call_seq = ?", _hold(run_no, path)
            )
        for path in rows.get("paths", ()):
            self._connection.execute("INSERT OR IGNORE INTO hold VALUES (?, ?, ?, ?)", _hold(run_no, path))

    def put_names(self, run_no: int, commit: int, rows: dict[str, Any]) -> None:
        """Take in what an entry says of names, where no later commit says something else of them."""
        for name in rows.get("names_freed", ()):
            if self._is_news(run_no, name, commit):
                self._connection.execute(
                    "DELETE FROM identity WHERE scope_run = ? AND key = ?", (_reach(run_no, name), name["key"])
                )
        for name in rows.get("names", ()):
            if self._is_news(run_no, name, commit):
                seq = name["call"]
                self._connection.execute(
                    "INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest, undone) "
                    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (scope_run, key) DO UPDATE SET run_no = excluded.run_no, "
                    "call_seq = excluded.call_seq, args_digest = excluded.args_digest, undone = excluded.undone",
                    (
                        *(_reach(run_no, name), name["key"], 0 if seq is None else run_no, seq or 0),
                        *(bytes.fromhex(name["args_digest"]), name["undone"]),
                    ),
                )

    def _is_news(self, run_no: int, name: dict[str, Any], commit: int) -> bool:
        return (
            self._connection.execute(
                "INSERT INTO temp.named VALUES (?, ?, ?) ON CONFLICT (scope_run, key) "
                "DO UPDATE SET commit_no = excluded.commit_no WHERE commit_no <= excluded.commit_no RETURNING 1",
                (_reach(run_no, name), name["key"], commit),
            ).fetchone()
            is not None
        )

    def note_names(self, run_no: int, commit: int, rows: dict[str, Any]) -> None:
        """Remember under which commit the names that are in the image already were written."""
        for name in (*rows.get("names", ()), *rows.get("names_freed", ())):
            self._is_news(run_no, name, commit)

    def put_run(self, run_no: int, form: dict[str, Any]) -> None:
        """Take in a run's row as its head has it."""
        whole = {**form, "reversed_id": form["run_id"][::-1]}
        self._connection.execute(self._run.upsert, (run_no, *self._run.row(whole)))

    def put_damaged(self, run_no: int | None, run_id: str, why: str, at: int) -> int:
        """A run that cannot be read stands in lists as a failed one that says so, and keeps its id and its number from
        being given away; answers the number.
        """
        connection = self._connection
        found = connection.execute("SELECT run_no FROM run WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            number = self._free_number() if run_no is None or self.run_of(run_no) is not None else run_no
            connection.execute(
                "INSERT INTO run (run_no, run_id, reversed_id, agent, agent_version, task, status, phase, step, "
                "version, generation, epoch, boot, lease_until, control, answers, created_at, updated_at) "
                "VALUES (?, ?, ?, '', '', '', ?, ?, 0, 0, 0, 0, x'', 0, 0, 0, ?, ?)",
                (number, run_id, run_id[::-1], int(Status.FAILED), int(Phase.IN_CODE), at, at),
            )
            found = (number,)
        connection.execute(
            "UPDATE run SET status = ?, owner = NULL, wake_at = NULL, error_class = ?, error_type = 'IntegrityError', "
            "error_message = ? WHERE run_no = ?",
            (int(Status.FAILED), int(ErrorClass.PERMANENT), why, found[0]),
        )
        return int(found[0])

    def give_way(self, run_no: int) -> None:
        """Give a run that cannot be read, and of which nothing is known, another number."""
        self._connection.execute("UPDATE run SET run_no = ? WHERE run_no = ?", (self._free_number(), run_no))

    def _free_number(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(run_no), 0) + 1 FROM run").fetchone()[0])

    def remove(self, run_no: int) -> None:
        """Forget a run, to take it in anew."""
        for name in (*_KEYS, "hold", "run"):
            self._connection.execute(f"DELETE FROM {name} WHERE run_no = ?", (run_no,))
        self._connection.execute("DELETE FROM identity WHERE run_no = ? OR scope_run = ?", (run_no, run_no))

    # --- What is known of the files. ---

    def known(self, folder: str) -> Known | None:
        """What was taken in of a run's folder, where something was."""
        row = self._connection.execute("SELECT * FROM temp.folder WHERE name = ?", (folder,)).fetchone()
        return None if row is None else Known(*row)

    def known_by(self, run_no: int) -> Known | None:
        """The same by the run's number."""
        row = self._connection.execute("SELECT * FROM temp.folder WHERE run_no = ?", (run_no,)).fetchone()
        return None if row is None else Known(*row)

    def folders(self) -> Iterable[Known]:
        """What was taken in of every folder."""
        return [Known(*row) for row in self._connection.execute("SELECT * FROM temp.folder ORDER BY run_no")]

    def know(self, known: Known) -> None:
        """Remember what was taken in of a folder."""
        self._connection.execute("INSERT OR REPLACE INTO temp.folder VALUES (?, ?, ?, ?, ?, ?)", known)

    def files_of(self, run_no: int) -> set[str]:
        """The names that the files of a run's artifacts and checkpoints have, or would have."""
        connection = self._connection
        digests = connection.execute("SELECT lower(hex(digest)) FROM artifact WHERE run_no = ?", (run_no,))
        names = {artifact_name(digest, is_text) for (digest,) in digests for is_text in (True, False)}
        kept = connection.execute("SELECT name, version FROM checkpoint WHERE run_no = ?", (run_no,))
        return names | {checkpoint_name(name, version) for name, version in kept}

    def last_commit(self) -> int:
        """The highest number of a commit so far."""
        return int(self._connection.execute("SELECT coalesce(max(commit_no), 0) FROM temp.folder").fetchone()[0])

    def run_of(self, run_no: int) -> str | None:
        """The id of a run by its number."""
        row = self._connection.execute("SELECT run_id FROM run WHERE run_no = ?", (run_no,)).fetchone()
        return None if row is None else str(row[0])


def _packed(run_no: int, form: dict[str, Any]) -> tuple[int, bytes, int, bytes]:
    return run_no, bytes.fromhex(form["digest"]), *pack(form["data"])


def _hold(run_no: int, path: dict[str, Any]) -> tuple[str, bytes, int, int]:
    return path["workspace"], bytes_of(path["path"]), run_no, path["call"]


def _reach(run_no: int, name: dict[str, Any]) -> int:
    return run_no if name["scope"] == _OWN else 0
