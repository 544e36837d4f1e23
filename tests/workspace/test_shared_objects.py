"""Objects that several hosts share: what one captures the other can make anew, and the store has all of it first."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jumar import errors
from jumar.core import trees
from jumar.core.objects import Kind, ObjectRows
from jumar.core.trees import Snapshot, snapshot_digest
from jumar.stores.postgres.objects import PostgresObjects
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.postgres import PostgresServer, with_schema
from jumar.workspace import database, packing
from jumar.workspace.inspection import inspect, safety_snapshots
from jumar.workspace.sharing import CachedObjects
from jumar.workspace.workspace import Workspace
from tests.workspace import files
from tests.workspace.files import File, Folder, Link, Tree

LARGE = random.Random(7).randbytes(packing.PART_BYTES + 5)
SITE: Tree = {
    b"conf": Folder(0o750),
    b"conf/a": File(b"a" * 999, 0o600),
    b"conf/deep": Folder(),
    b"conf/deep/b": File(b"", 0o755),
    b"empty": Folder(0o700),
    b"large": File(LARGE),
    b"link": Link(b"../nowhere"),
    b"same": File(b"a" * 999),
    "täglich\n".encode(): File(b"\x00\xff"),
}


class Host:
    """A host with a workspace of its own and its file of what the store has."""

    def __init__(self, folder: Path, store: PostgresStore) -> None:
        self.folder = folder
        self.root = folder / "site"
        self.root.mkdir(parents=True)
        self.objects = CachedObjects(folder / "objects.db", store.objects, f"{folder.name}:")
        self.workspace = Workspace(self.root, self.objects)

    def captured(self, tree: Tree) -> Snapshot:
        """A snapshot of these files."""
        files.write(self.root, tree)
        return self.workspace.capture()

    def made(self, snapshot: Snapshot, name: str = "made") -> Tree:
        """What a folder holds that was made of a snapshot."""
        self.objects.bring(snapshot)
        self.workspace.materialise(snapshot, self.folder / name)
        return files.read(self.folder / name)


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(postgres_address)
    yield opened
    opened.close()


@pytest.fixture
def hosts(tmp_path: Path, store: PostgresStore) -> Iterator[tuple[Host, Host]]:
    made = Host(tmp_path / "one", store), Host(tmp_path / "other", store)
    yield made
    for each in made:
        each.objects.close()


def test_what_one_host_captured_another_makes_anew_byte_for_byte(hosts: tuple[Host, Host]) -> None:
    one, other = hosts
    snapshot = one.captured(SITE)
    found = other.objects.get_snapshot(snapshot_digest(snapshot))
    assert found == snapshot
    assert other.made(found) == SITE


def test_what_is_not_brought_along_at_once_is_fetched_when_it_is_read(hosts: tuple[Host, Host]) -> None:
    one, other = hosts
    snapshot = one.captured(SITE)
    other.workspace.materialise(snapshot, other.folder / "lazily")
    assert files.read(other.folder / "lazily") == SITE


def test_the_store_has_everything_before_this_host_has_it(hosts: tuple[Host, Host], store: PostgresStore) -> None:
    one, _ = hosts
    put: list[ObjectRows] = []
    keep = PostgresObjects.put

    class Watched(PostgresObjects):
        def put(self, rows: ObjectRows) -> None:
            with one.objects.using() as db:
                for table, found in (("blobs", rows.blobs), ("nodes", rows.nodes), ("snapshots", rows.snapshots)):
                    here = {bytes(name) for (name,) in db.execute(f"SELECT digest FROM {table}")}
                    assert not here & {row[0] for row in found}
            keep(self, rows)
            put.append(rows)

    one.objects.shared = Watched(store._connections, store.schema)
    snapshot = one.captured(SITE)
    sent = {row[0] for rows in put for part in (rows.blobs, rows.nodes, rows.snapshots) for row in part}
    assert snapshot_digest(snapshot) in sent
    for kind in ("blob", "node", "snapshot"):
        digests = [digest for digest, _, _ in one.objects.every(kind)]
        assert digests and set(digests) <= sent and store.objects.missing(kind, digests) == []


def test_a_snapshot_of_few_files_costs_two_round_trips_and_one_without_changes_one(
    hosts: tuple[Host, Host], store: PostgresStore
) -> None:
    one, _ = hosts
    one.captured(SITE)
    asked: list[str] = []
    tried = store._connections.tried

    def counted(work: Callable[..., object]) -> object:
        asked.append("once")
        return tried(work)

    store._connections.tried = counted  # type: ignore[method-assign, assignment]
    one.workspace.capture()
    assert len(asked) == 1  # the snapshot itself, which says when it was taken
    (one.root / "same").write_bytes(b"other")
    one.workspace.capture()
    assert len(asked) == 1 + 2


def test_of_many_files_that_another_host_has_sent_only_names_are(hosts: tuple[Host, Host]) -> None:
    one, other = hosts
    tree: Tree = {f"f{number:04}".encode(): File(random.Random(number).randbytes(400)) for number in range(1500)}
    one.captured(tree)
    sent: list[int] = []

    class Weighed:
        def __init__(self, shared: PostgresObjects) -> None:
            self._shared = shared

        def put(self, rows: ObjectRows) -> None:
            sent.append(sum(len(row[3]) for row in rows.blobs))
            self._shared.put(rows)

        def missing(self, kind: Kind, digests: Sequence[bytes]) -> list[bytes]:
            return self._shared.missing(kind, digests)

    shared = other.objects.shared
    assert isinstance(shared, PostgresObjects)
    other.objects.shared = Weighed(shared)  # type: ignore[assignment]
    other.captured(tree)
    assert sum(sent) == 0


@pytest.mark.parametrize("kind", ["blob", "node", "snapshot"])
def test_what_is_damaged_in_this_hosts_file_is_fetched_again(hosts: tuple[Host, Host], kind: Kind) -> None:
    one, _ = hosts
    snapshot = one.captured(SITE)
    with one.objects.using() as db:
        assert db.execute(f"UPDATE {kind}s SET data = x'00' WHERE length(data) % 32 <> 0").rowcount
    one.objects.load.cache_clear()
    assert one.objects.get_snapshot(snapshot_digest(snapshot)) == snapshot
    assert one.made(snapshot) == SITE


@pytest.mark.parametrize("kind", ["blob", "node", "snapshot"])
def test_what_is_damaged_in_the_store_is_refused_and_not_kept(
    hosts: tuple[Host, Host], store: PostgresStore, kind: Kind
) -> None:
    one, other = hosts
    snapshot = one.captured(SITE)
    with store.connected() as connection:
        connection.execute(f"UPDATE {store.schema}.object_{kind} SET data = '\\x00'::bytea".encode())
    with pytest.raises(errors.IntegrityError):
        other.made(other.objects.get_snapshot(snapshot_digest(snapshot)))
    assert list(other.objects.every(kind)) == []
    assert not (other.folder / "made").exists()
    told = inspect(other.objects.inspected())
    assert {finding.where for finding in told.findings} >= {{"blob": "content", "node": "folder"}.get(kind, kind)}


def test_a_check_looks_at_all_that_the_store_has(hosts: tuple[Host, Host], store: PostgresStore) -> None:
    one, other = hosts
    snapshot = one.captured(SITE)
    told = inspect(other.objects.inspected())
    assert (told.contents, told.folders, told.snapshots, told.findings) == (4 + 2, 4, 1, ())
    assert told.size > len(LARGE)
    gone = trees.digest_of(b"")
    with store.connected() as connection:
        connection.execute(f"DELETE FROM {store.schema}.object_blob WHERE digest = %b".encode(), (gone,))
    (finding,) = inspect(one.objects.inspected()).findings
    assert finding.what.startswith(snapshot_digest(snapshot).hex()) and gone.hex() in finding.what


def test_the_files_before_a_restore_are_told_of_ones_own_workspace_alone(hosts: tuple[Host, Host]) -> None:
    one, other = hosts
    for host in hosts:  # as if both had it at one path
        host.workspace._restorer._root = b"/srv/site"
    target = one.captured(SITE)
    (one.root / "same").write_bytes(b"else")
    one.workspace._restorer._root = str(one.root).encode()
    report = one.workspace.restore(one.workspace.plan(target, None), force=True)
    assert [each.digest for each in safety_snapshots(one.objects, str(one.root))] == [report.safety]
    assert safety_snapshots(other.objects, str(one.root)) == ()
    assert len(safety_snapshots(other.objects)) == 1


def test_what_another_server_has_lost_is_sent_to_it_again(
    hosts: tuple[Host, Host], store: PostgresStore, tmp_path: Path
) -> None:
    one, other = hosts
    snapshot = one.captured(SITE)
    with one.objects.using() as db, database.transaction(db):  # as if it had been used with another server
        assert db.execute("UPDATE pins SET reason = 'with:7-1' WHERE reason GLOB 'with:*'").rowcount == 1
    with store.connected() as connection:
        for table in ("blob", "node", "snapshot"):
            connection.execute(f"DELETE FROM {store.schema}.object_{table}".encode())
    one.objects.close()
    CachedObjects(one.objects.path, store.objects).close()
    assert other.made(other.objects.get_snapshot(snapshot_digest(snapshot))) == SITE
    assert inspect(other.objects.inspected()).findings == ()


def test_two_hosts_that_put_the_same_at_once_do_not_stand_in_each_others_way(hosts: tuple[Host, Host]) -> None:
    blobs = [(trees.digest_of(data), data) for data in (b"%d" % number for number in range(2000))]
    failed: list[BaseException] = []
    start = threading.Barrier(2)

    def put(host: Host, seed: int) -> None:
        mixed = random.Random(seed).sample(blobs, len(blobs))
        start.wait()
        try:
            for at in range(0, len(mixed), 200):
                host.objects.put_many(mixed[at : at + 200])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=put, args=(host, seed)) for seed, host in enumerate(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert all(host.objects.missing([digest for digest, _ in blobs]) == [] for host in hosts)


def test_a_server_that_restarts_in_the_middle_of_a_snapshot_costs_it_nothing_but_time(tmp_path: Path) -> None:
    with PostgresServer() as server:
        store = PostgresStore(with_schema(server.address, "restarted"))
        one, other = Host(tmp_path / "one", store), Host(tmp_path / "other", store)
        put = store.objects.put
        restarted: list[int] = []

        def interrupted(rows: ObjectRows) -> None:
            if rows.blobs and not restarted:
                restarted.append(len(rows.blobs))
                server.restart("immediate")
            put(rows)

        store.objects.put = interrupted  # type: ignore[method-assign]
        snapshot = one.captured(SITE)
        assert restarted
        assert other.made(other.objects.get_snapshot(snapshot_digest(snapshot))) == SITE
        for each in (one, other):
            each.objects.close()
        store.close()


def test_a_connection_that_is_cut_while_objects_are_sent_is_made_again(
    hosts: tuple[Host, Host], store: PostgresStore
) -> None:
    one, other = hosts
    cut: list[int] = []
    tried = store._connections.tried

    def cutting(work: Callable[..., object]) -> object:
        def cut_first(connection: object) -> object:
            if not cut:
                cut.append(1)
                with store._connections.lent() as another:
                    pid = connection.info.backend_pid  # type: ignore[attr-defined]
                    another.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            return work(connection)

        return tried(cut_first)

    store._connections.tried = cutting  # type: ignore[method-assign, assignment]
    snapshot = one.captured(SITE)
    assert cut
    assert other.made(snapshot) == SITE
