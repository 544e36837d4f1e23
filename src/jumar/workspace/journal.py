"""The journal of a restore: one small file beside the objects, which says what is being done to a workspace right now.

It is there from before the first change until after the last, so a journal found at an open tells that a restore was
cut off.  Its stage says what to do about it:

    STAGING    slots are being filled, the files themselves are untouched: empty the slots
    APPLYING   every slot is whole; files may have changed places with them: move everything back
    DONE       everything is in its place and checked: empty the slots

It is replaced as a whole (written beside, fsync'd, renamed, and the folder fsync'd), so it is never half of anything.
"""

from __future__ import annotations

import os
from enum import IntEnum
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from jumar import errors
from jumar.core.file_operations import SLOT_PREFIX, Operation
from jumar.workspace.calls import FOLDER, READING, FileCalls

_FORMAT = b"jumar restore 1\n"
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class Stage(IntEnum):
    """How far a restore has come; see the module's head."""

    STAGING = 1
    APPLYING = 2
    DONE = 3


class Record(Struct, frozen=True):
    """What the journal says: the workspace's root, the restore's own name, two digests, and the operations in order."""

    root: bytes
    name: str
    stage: Stage
    target: bytes
    safety: bytes
    operations: tuple[Operation, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


class Journal:
    """The journal of one workspace, at `path`; only the holder of the workspace's lock may use it."""

    def __init__(self, path: Path, calls: FileCalls | None = None) -> None:
        self.path = path
        self._calls = calls or FileCalls()
        self._name = os.fsencode(path.name)

    def read(self) -> Record | None:
        """What the journal says, or None where no restore is under way.  IntegrityError where it is damaged."""
        calls = self._calls
        try:
            file = calls.open(os.fsencode(self.path), READING)
        except FileNotFoundError:
            return None
        try:
            data = b"".join(iter(lambda: calls.read(file, _CHUNK), b""))
        finally:
            calls.close(file)
        body = data[len(_FORMAT) + 32 :]
        if data != _FORMAT + sha256(body).digest() + body:
            raise self._damaged("does not agree with its checksum")
        try:
            return _decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> errors.IntegrityError:
        return errors.IntegrityError(
            f"the journal {self.path} of a restore that was cut off {why}",
            safe="What was there before the restore is in its safety snapshot, and beside each file as '.jumar-...'.",
            hint="Compare the workspace with that snapshot, then remove the journal.",
        )

    def write(self, record: Record) -> None:
        """Put `record` in the journal's place; it is on disk when this returns."""
        calls, beside = self._calls, SLOT_PREFIX + self._name
        body = _encoder.encode(record)
        folder = self._folder()
        try:
            self._draft(beside, folder, _FORMAT + sha256(body).digest() + body)
            calls.rename(beside, folder, self._name, folder)
            calls.fsync(folder)
        finally:
            calls.close(folder)

    def _draft(self, name: bytes, folder: int, data: bytes) -> None:
        calls = self._calls
        file = calls.open(name, _WRITING, folder=folder)
        try:
            calls.write_all(file, data)
            calls.fsync(file)
        except OSError:
            calls.unlink(name, folder)  # on a full disk it would only take space
            raise
        finally:
            calls.close(file)

    def clear(self) -> None:
        """No restore is under way any more."""
        folder = self._folder()
        try:
            self._calls.unlink(self._name, folder)
            self._calls.fsync(folder)
        except FileNotFoundError:
            pass
        finally:
            self._calls.close(folder)

    def _folder(self) -> int:
        return self._calls.open(os.fsencode(self.path.parent), FOLDER)
