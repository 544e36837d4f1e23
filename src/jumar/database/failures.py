"""What SQLite's error codes mean to a person."""

from __future__ import annotations

import sqlite3

from jumar import errors

_NO_TEXT = "Could not decode to UTF-8"  # sqlite3's own words for damaged text, with no code

BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _extended_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) or 0


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code, without its extension; 0 where SQLite gave none."""
    return _extended_code(error) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock this one wanted."""
    return primary_code(error) in BUSY_CODES


def translated(error: sqlite3.Error | UnicodeDecodeError, where: str) -> errors.JumarError:
    """The error a person sees for an error of SQLite's on the database `where`."""
    if isinstance(error, UnicodeDecodeError):  # from a message of SQLite's that quotes a damaged schema
        return errors.IntegrityError(f"the schema of {where} is damaged")
    code = primary_code(error)
    said = str(error)
    if code in BUSY_CODES:
        return errors.StoreBusy(f"other processes kept {where} locked for too long")
    if code == sqlite3.SQLITE_FULL or _extended_code(error) == sqlite3.SQLITE_IOERR_SHMSIZE:
        return errors.StoreFull(f"there is no room left for {where}")
    if code == sqlite3.SQLITE_READONLY:
        return errors.StoreReadOnly(f"{where} cannot be written ({said})")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or said.startswith(_NO_TEXT):
        return errors.IntegrityError(
            f"{where} is damaged or no SQLite database ({said})",
            hint="Run `jumar doctor`; restore the file from a copy where it cannot be read.",
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return errors.StoreUnavailable(f"{where} cannot be opened ({said})")
    if code == sqlite3.SQLITE_IOERR:
        return errors.StoreUnavailable(
            f"the disk under {where} reported an error ({said})", hint="Check the disk and its free space, then resume."
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in said:
        return errors.StoreUnavailable(f"{where} is closed", hint="Open a new Harness.")
    return errors.StoreError(f"{where} refused a statement ({said})")
