"""The objects: one file, several users, nothing half there, everything checked."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import errors
from jumar.core import trees
from jumar.core.trees import Entry, EntryKind, Snapshot
from jumar.workspace import database, packing
from jumar.workspace.objects import Objects
from tests.workspace.snapshots import in_a_fork

LARGE = random.Random(7).randbytes(packing.PART_BYTES + 5) + b"x" * packing.PART_BYTES


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    with Objects(tmp_path / "objects.db") as opened:
        yield opened


@pytest.mark.parametrize("data", [b"", b"x", b"text " * 1000, os.urandom(5000), LARGE], ids=len)
def test_a_content_comes_back_byte_for_byte(objects: Objects, data: bytes) -> None:
    digest = objects.put_blob(data)
    assert digest == trees.digest_of(data)
    assert objects.get_blob(digest) == data
    assert objects.put_blob(data) == digest
    assert all(len(part) <= packing.PART_BYTES for part in objects.parts(digest))


def test_what_is_put_is_there_for_others_at_once(objects: Objects) -> None:
    node = trees.pack_node([Entry(b"a", EntryKind.LINK, 0, target=b"b")])
    digest = trees.digest_of(node)
    blob = trees.digest_of(b"data")
    objects.put_many([(blob, b"data")], [(digest, node)])
    snapshot = Snapshot(digest, 0o755, 1)
    name = objects.put_snapshot(snapshot, pin="test")
    with Objects(objects.path) as other:
        assert other.get_blob(blob) == b"data"
        assert other.load(digest) == trees.unpack_node(node)
        assert other.get_snapshot(name) == snapshot
        assert other.pins() == {(name, "test")}
        other.unpin(name, "test")
    assert objects.pins() == set()
    objects.pin(name, "again")
    objects.pin(name, "again")
    assert objects.pins() == {(name, "again")}


@pytest.mark.parametrize("table", ["blobs", "nodes", "snapshots"])
def test_a_damaged_object_is_never_given_out(objects: Objects, table: str) -> None:
    digests = {
        "blobs": objects.put_blob(b"some text " * 100),
        "nodes": trees.EMPTY_DIGEST,
        "snapshots": objects.put_snapshot(Snapshot(trees.EMPTY_DIGEST, 0, 0), [(trees.EMPTY_DIGEST, trees.EMPTY)]),
    }
    get = {"blobs": objects.get_blob, "nodes": objects.load, "snapshots": objects.get_snapshot}[table]
    get(digests[table])
    damage = sqlite3.connect(objects.path)
    damage.execute(f"UPDATE {table} SET data = CAST(data || x'00' AS BLOB)")
    damage.commit()
    damage.close()
    with Objects(objects.path) as again, pytest.raises(errors.IntegrityError):
        {"blobs": again.get_blob, "nodes": again.load, "snapshots": again.get_snapshot}[table](digests[table])


def test_a_large_content_with_a_part_swapped_is_refused(objects: Objects) -> None:
    digest = objects.put_blob(LARGE)
    other = objects.put_blob(b"other")
    damage = sqlite3.connect(objects.path)
    damage.execute("UPDATE blobs SET data = CAST(? || substr(data, 33) AS BLOB) WHERE digest = ?", (other, digest))
    damage.commit()
    damage.close()
    with pytest.raises(errors.IntegrityError):
        objects.get_blob(digest)


def test_what_is_not_there_is_said_so(objects: Objects) -> None:
    for get in (objects.get_blob, objects.load, objects.get_snapshot):
        with pytest.raises(errors.IntegrityError, match="is not in"):
            get(bytes(32))
    assert not objects.has_blob(bytes(32))


def test_a_transaction_that_fails_leaves_nothing(objects: Objects) -> None:
    good, bad = trees.digest_of(b"good"), trees.digest_of(b"bad")
    objects.put_many([(bad, b"bad")])
    with pytest.raises(errors.StoreError):
        objects.put_many([(good, b"good")], [(bytes(32), None)])  # type: ignore[list-item]
    assert not objects.has_blob(good)
    objects.put_many([(good, b"good")])
    assert objects.get_blob(good) == b"good"


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE t (a)")
    theirs.commit()
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(errors.SchemaMismatch):
        Objects(path)
    assert path.read_bytes() == before
    (tmp_path / "text").write_text("no database at all, but long enough to look at" * 100)
    with pytest.raises(errors.IntegrityError):
        Objects(tmp_path / "text")
    with pytest.raises(errors.StoreUnavailable):
        Objects(tmp_path / "none" / "objects.db")


def test_a_newer_schema_is_refused(objects: Objects) -> None:
    objects.close()
    newer = sqlite3.connect(objects.path)
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    with pytest.raises(errors.SchemaMismatch, match="999"):
        Objects(objects.path)


def test_the_disk_is_asked_for_every_commit(objects: Objects) -> None:
    connection = database.connect(objects.path)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_what_may_wait_for_the_disk_is_there_for_others_and_a_snapshot_never_waits(objects: Objects) -> None:
    def synchronous() -> int:
        return int(objects._db.execute("PRAGMA synchronous").fetchone()[0])

    digest = trees.digest_of(b"data")
    objects.put_many([(digest, b"data")], on_disk=False)
    assert synchronous() == 1
    with Objects(objects.path) as other:
        assert other.get_blob(digest) == b"data"
    objects.put_snapshot(Snapshot(trees.EMPTY_DIGEST, 0, 0))
    assert synchronous() == 2
    objects.put_many([(digest, b"data")], on_disk=False)
    assert synchronous() == 2, "nothing was written"
    objects.pin(digest, "test")
    assert synchronous() == 2


PUTTING = """
import sys
from jumar.workspace.objects import Objects
from tests.workspace.snapshots import in_a_fork
from jumar.core import trees
objects = Objects(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 60):
    data = b"%d" % (number % 80) * 300
    objects.put_many([(trees.digest_of(data), data)])
    print(number, flush=True)
"""


def test_several_processes_make_and_fill_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PUTTING, str(path), str(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for start in (0, 40)
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "open\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        assert child.communicate()[0].count("\n") == 60
        assert child.returncode == 0
    with Objects(path) as objects:
        for number in range(80):
            data = b"%d" % number * 300
            assert objects.get_blob(trees.digest_of(data)) == data


def test_what_was_put_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    command = [sys.executable, "-c", PUTTING, str(path), "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "open\n"
        told = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
    with Objects(path) as objects:
        for number in told:
            data = b"%d" % number * 300
            assert objects.get_blob(trees.digest_of(data)) == data


def test_a_forked_process_neither_uses_nor_reopens_what_its_parent_has_open(objects: Objects) -> None:
    digest = objects.put_blob(b"kept")

    def in_child() -> list[str]:
        refused = []
        for attempt in (lambda: objects.get_blob(digest), objects.pins, lambda: Objects(objects.path)):
            with pytest.raises(errors.StoreUnavailable, match="forked") as caught:
                attempt()
            refused.append(caught.value.safe)
        objects.close()
        return refused

    assert in_a_fork(in_child) == ["Nothing was read or written."] * 2 + ["The file was not opened."]
    assert objects.get_blob(digest) == b"kept", "and the parent goes on"
    objects.close()
    with Objects(objects.path) as again:
        assert again.get_blob(digest) == b"kept"


def test_a_forked_process_opens_what_its_parent_had_closed(objects: Objects) -> None:
    digest = objects.put_blob(b"kept")
    objects.close()

    def in_child() -> bytes:
        with Objects(objects.path) as opened:
            return opened.get_blob(digest)

    assert in_a_fork(in_child) == b"kept"
