"""Runs that are taken over on another host: their files are made anew there, and nothing happens twice."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jumar import Harness, RunResult
from jumar.core.intents import intent_of
from jumar.core.locations import root_of as root_path
from jumar.core.naming import uuid7
from jumar.core.requests import Materialise
from jumar.core.states import CallState, Status
from jumar.engine.files import Files
from jumar.engine.flows import rolling_back
from jumar.errors import IntegrityError, LeaseLost, RunEnded, WorkspaceElsewhere
from jumar.harness.working import WorkerEvent
from tests.integration.hosts_app import HALF, TTL, harness_on
from tests.workspace.files import File, Folder, Link, Tree, read, write

SITE: Tree = {
    b"bin": Folder(0o750),
    b"bin/start": File(b"#!/bin/sh\n", 0o755),
    b"conf": Folder(0o755),
    b"conf/secret": File(b"\x00\xff", 0o600),
    b"conf/site.ini": File(b"[site]\nworkers = 0\n"),
    b"current": Link(b"conf/site.ini"),
    b"empty": Folder(0o700),
}
TUNED = SITE | {b"conf/site.ini": File(b"[site]\nworkers = 1\n")}
NOTED = TUNED | {b"notes": Folder(0o755), b"notes/a b.txt": File(b"noted\n")}
DONE = NOTED | {b"conf/site.ini": File(b"[site]\nworkers = 8\n")}


class Hosts:
    """Two hosts of one store: `old`, on which runs are begun, and the one that the test is on."""

    def __init__(self, folder: Path, address: str, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.address = folder, address
        self.root = folder / "old" / "site"
        self.witness = folder / "witness"
        self._patch = patch
        self._opened: list[Harness] = []
        write(self.root, SITE)
        self.be("new")

    def be(self, host: str) -> None:
        """Be on this host from now on."""
        for name, value in self._environment(host).items():
            self._patch.setenv(name, value)

    def _environment(self, host: str) -> dict[str, str]:
        return {"JUMAR_HOST": host, "XDG_STATE_HOME": str(self.folder / host / "state")}

    def harness(self, root: Path | None = None) -> Harness:
        """A harness on the host that the test is on; its own workspace is another folder, unless it is given."""
        own = root or self.folder / os.environ["JUMAR_HOST"] / "own"
        own.mkdir(parents=True, exist_ok=True)
        made = harness_on(self.address, own, self.witness)
        self._opened.append(made)
        return made

    def process(self, host: str, run_id: str, *, stops: bool = True) -> subprocess.Popen[str]:
        """A process on a host that drives a run; see `hosts_app`."""
        app = Path(__file__).with_name("hosts_app.py")
        return subprocess.Popen(
            [sys.executable, app, self.address, self.root, self.witness, run_id, "stops" if stops else "goes on"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | self._environment(host) | {"PYTHONPATH": str(Path.cwd())},
        )  # fmt: skip

    def begun_half_way(self, host: str = "old", run_id: str | None = None) -> tuple[str, subprocess.Popen[str]]:
        """A process on a host that is in the middle of the run's last write, and the run's id; the run is taken over
        there where it is given.
        """
        identifier = run_id or new_run_id()
        child = self.process(host, identifier)
        assert child.stdout is not None
        assert child.stdout.readline() == "half\n", child.communicate()
        return identifier, child

    def killed_half_way(self, host: str = "old", run_id: str | None = None) -> str:
        """Have a process on a host begin the run's last write, and kill it there; the run's id."""
        identifier, child = self.begun_half_way(host, run_id)
        with child:
            child.kill()
        return identifier

    def execute(self, statement: str) -> None:
        """Do something to the database behind everybody's back."""
        uri, _, schema = self.address.partition("?schema=")
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(statement.replace("{schema}", schema).encode())

    def answered(self, **options: Any) -> str:
        """A run that has asked something on the old host, and may go on; its id."""
        here = os.environ["JUMAR_HOST"]
        self.be("old")
        with harness_on(self.address, self.root, self.witness, **options) as at_home:
            run_id = at_home.run("asked").run_id
            at_home.answer(run_id, "ask.1", "yes")
        self.be(here)
        return run_id

    def said(self) -> list[str]:
        """What the witness was told."""
        return self.witness.read_text().splitlines()

    def close(self) -> None:
        for each in self._opened:
            each.close()


@pytest.fixture
def hosts(tmp_path: Path, postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    made = Hosts(tmp_path, postgres_address, monkeypatch)
    yield made
    made.close()


def new_run_id() -> str:
    return uuid7(1_700_000_000_000, os.urandom(10))


def root_of(harness: Harness, run_id: str) -> Path:
    """The folder that a run works on, which is on the host that the test is on."""
    place = harness.show(run_id).run.workspace
    assert place is not None
    host, _, root = place.partition(":")
    assert host == os.environ["JUMAR_HOST"]
    return Path(root)


def completed(result: RunResult[object]) -> None:
    assert result.status == "COMPLETED", result
    assert result.unwrap() == [os.fsdecode(path) for path in sorted(DONE)]


def test_a_run_killed_in_the_middle_of_a_write_goes_on_elsewhere_with_its_files(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    assert (hosts.root / "conf" / "site.ini").read_text() == HALF
    harness = hosts.harness()
    completed(harness.resume(run_id))
    root = root_of(harness, run_id)
    assert root.is_relative_to(hosts.folder / "new" / "state")
    assert read(root) == DONE
    assert hosts.said() == ["begun", "done"]
    assert (hosts.root / "conf" / "site.ini").read_text() == HALF  # nobody was there
    store = harness.store
    run = store.run(run_id)
    assert run is not None
    assert (
        run.workspace is not None and not store.holds(run.workspace, b"") and not store.holds(f"old:{hosts.root}", b"")
    )
    assert {call.state for call in store.calls(run.run_no)} == {CallState.SUCCEEDED}
    _can_be_compared_forked_and_rolled_back(harness, run_id, hosts.folder / "new" / "fork")


def _can_be_compared_forked_and_rolled_back(harness: Harness, run_id: str, folder: Path) -> None:
    changed = {each.path for each in harness.diff(run_id, "tuned once", "now").changes}
    assert changed == {"conf/site.ini", "notes", "notes/a b.txt"}
    fork = harness.fork(run_id, at="tuned once", workspace=folder)
    assert read(root_of(harness, fork)) == TUNED
    harness.rollback(run_id, to="tuned once", force=True)
    assert read(root_of(harness, run_id)) == TUNED


@pytest.mark.sweep
def test_a_run_that_comes_back_to_its_first_host_trusts_no_file_that_it_left_there(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    hosts.killed_half_way("new", run_id)
    (hosts.root / "notes" / "a b.txt").unlink()  # as if somebody had tidied up
    hosts.be("old")
    harness = hosts.harness(hosts.root)
    completed(harness.resume(run_id))
    root = root_of(harness, run_id)
    assert (read(root), hosts.said()) == (DONE, ["begun", "done"])
    assert root.is_relative_to(hosts.folder / "old" / "state")
    assert (hosts.root / "conf" / "site.ini").read_text() == HALF


def test_a_frozen_process_that_wakes_up_on_the_old_host_touches_its_own_folder_alone(hosts: Hosts) -> None:
    run_id, frozen = hosts.begun_half_way()
    frozen.send_signal(signal.SIGSTOP)
    harness = hosts.harness()
    completed(harness.resume(run_id))
    frozen.send_signal(signal.SIGCONT)
    _, said = frozen.communicate()
    assert LeaseLost.__name__ in said
    assert (read(root_of(harness, run_id)), hosts.said()) == (DONE, ["begun", "done"])
    assert harness.show(run_id).run.status == "COMPLETED"


def test_a_run_whose_objects_are_gone_is_left_as_it_was_for_the_host_that_has_its_files(hosts: Hosts) -> None:
    run_id = hosts.answered()
    hosts.execute("DELETE FROM {schema}.object_blob WHERE size = 2")  # the secret's two bytes
    harness = hosts.harness()
    before = harness.store.run(run_id)
    with pytest.raises(IntegrityError, match=r"cannot be made anew on this host: the content .* is not in the store's"):
        harness.resume(run_id)
    assert harness.store.run(run_id) == before
    assert not list((hosts.folder / "new" / "state" / "jumar" / "runs").iterdir())
    hosts.be("old")
    at_home = hosts.harness(hosts.root)
    assert at_home.resume(run_id).unwrap() is True
    assert root_of(at_home, run_id) == hosts.root


@pytest.mark.parametrize("kind", ["blob", "node", "snapshot"])
def test_an_object_that_is_damaged_in_the_database_is_never_put_into_a_file(hosts: Hosts, kind: str) -> None:
    run_id = hosts.answered()
    hosts.execute(f"UPDATE {{schema}}.object_{kind} SET data = data || 'x'::bytea")
    harness = hosts.harness()
    with pytest.raises(IntegrityError, match="in the store's objects does not agree with its checksum"):
        harness.resume(run_id)
    assert harness.show(run_id).run.workspace == f"old:{hosts.root}"
    assert any(finding.where.startswith("files, ") for finding in harness.doctor().findings)


def test_a_partial_snapshot_is_no_place_to_go_on_from_elsewhere(hosts: Hosts) -> None:
    (hosts.folder / "limits.yaml").write_text("snapshot_limits:\n  files: 1\n")
    run_id = hosts.answered(config=hosts.folder / "limits.yaml")
    harness = hosts.harness()
    before = harness.store.run(run_id)
    with pytest.raises(WorkspaceElsewhere, match="the snapshot that is kept of them lacks"):
        harness.resume(run_id)
    assert harness.store.run(run_id) == before


def test_a_run_that_waits_elsewhere_is_moved_once_it_can_go_on(hosts: Hosts) -> None:
    hosts.be("old")
    with harness_on(hosts.address, hosts.root, hosts.witness) as at_home:
        run_id = at_home.run("asked").run_id
    hosts.be("new")
    harness = hosts.harness()
    assert harness.resume(run_id).status == "WAITING"
    assert harness.show(run_id).run.workspace == f"old:{hosts.root}"
    harness.answer(run_id, "ask.1", "yes")
    assert harness.resume(run_id).unwrap() is True
    assert read(root_of(harness, run_id)) == SITE


def test_a_run_that_was_never_begun_works_on_the_files_of_whoever_begins_it(hosts: Hosts) -> None:
    hosts.be("old")
    with harness_on(hosts.address, hosts.root, hosts.witness) as at_home:
        run_id = at_home.start("tune", 8)
    hosts.be("new")
    own = hosts.folder / "new" / "own"
    write(own, SITE)
    harness = hosts.harness(own)
    completed(harness.resume(run_id))
    assert (root_of(harness, run_id), read(own), read(hosts.root)) == (own, DONE, SITE)
    assert "materialised" not in {line.what for line in harness.trace(run_id)}, "nothing was made anew"


def test_a_failed_run_goes_back_to_where_its_step_began_on_another_host_too(hosts: Hosts) -> None:
    hosts.be("old")
    with harness_on(hosts.address, hosts.root, hosts.witness) as at_home:
        run_id = at_home.run("fail_once").run_id
    hosts.be("new")
    harness = hosts.harness()
    assert harness.resume(run_id, strategy="rollback").unwrap() == "[site]\nworkers = 1\n"
    assert (read(root_of(harness, run_id)), read(hosts.root)) == (TUNED, TUNED)


def test_files_of_a_run_on_another_host_are_not_rolled_back_from_here(hosts: Hosts) -> None:
    hosts.be("old")
    with harness_on(hosts.address, hosts.root, hosts.witness) as at_home:
        run_id = at_home.run("tune", 8).run_id
    hosts.be("new")
    harness = hosts.harness()
    with pytest.raises(WorkspaceElsewhere, match="the run's files are on the host old, in ") as refused:
        harness.rollback(run_id, to="tuned once", force=True)
    assert "jumar fork RUN --at N --workspace DIR" in refused.value.hint
    with pytest.raises(WorkspaceElsewhere):
        harness.diff(run_id, 0, "now")
    assert {each.path for each in harness.diff(run_id, 0, "tuned once").changes} == {"conf/site.ini"}
    assert read(hosts.root) == DONE
    assert harness.doctor().findings == ()


def test_of_two_hosts_that_take_a_run_over_one_has_it_and_the_other_leaves_no_folder(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = hosts.answered()
    quick, slow = hosts.harness(), hosts.harness()
    make = Files.materialised

    def overtaken(files: Files, request: Materialise) -> str:
        made = make(files, request)
        monkeypatch.setattr(Files, "materialised", make)
        assert quick.resume(run_id).unwrap() is True
        return made

    monkeypatch.setattr(Files, "materialised", overtaken)
    with pytest.raises(RunEnded):
        slow.resume(run_id)
    (folder,) = (hosts.folder / "new" / "state" / "jumar" / "runs").iterdir()
    assert folder == root_of(slow, run_id)


@pytest.mark.sweep
def test_a_folder_that_was_made_for_a_run_and_is_gone_is_made_again(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    hosts.killed_half_way("new", run_id)
    shutil.rmtree(hosts.folder / "new" / "state" / "jumar" / "runs")
    harness = hosts.harness()
    completed(harness.resume(run_id))
    assert (read(root_of(harness, run_id)), hosts.said()) == (DONE, ["begun", "done"])


def test_a_worker_on_another_host_takes_over_what_its_own_host_does_not(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    harness = hosts.harness()
    stop = threading.Event()

    def told(event: WorkerEvent) -> None:
        if event.what == "left":
            stop.set()

    assert harness.work(stop=stop, told=told).left == {"COMPLETED": 1}
    assert (read(root_of(harness, run_id)), hosts.said()) == (DONE, ["begun", "done"])


@pytest.mark.sweep
def test_what_is_due_elsewhere_is_taken_up_in_a_row_once_its_own_host_had_its_time(hosts: Hosts) -> None:
    run_id, waiting = hosts.killed_half_way(), hosts.answered()
    harness = hosts.harness()
    lost = harness.store.run(run_id)
    assert lost is not None
    assert [each.run_id for each in harness.resume_due()] == [waiting]
    watch = harness.store.watch()
    while not (taken := harness.resume_due()):
        watch.wait(0.1)
    watch.close()
    assert harness.store.now().ms >= lost.lease_until + int(TTL * 1000) // 2
    assert [each.run_id for each in taken] == [run_id]
    completed(taken[0])


@pytest.mark.sweep
def test_an_order_is_obeyed_on_any_host_and_leaves_a_half_done_write_uncertain(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    harness = hosts.harness()
    assert harness.pause(run_id, wait=True).status == "PAUSED"
    run = harness.store.run(run_id)
    assert run is not None and run.workspace == f"old:{hosts.root}"
    (held,) = harness.store.holds(run.workspace, b"")
    assert held.path == b"conf/site.ini"
    completed(harness.resume(run_id))
    assert read(root_of(harness, run_id)) == DONE


@pytest.mark.sweep
def test_an_agent_that_is_awaited_is_taken_over_with_its_files_too(hosts: Hosts) -> None:
    run_id = hosts.killed_half_way()
    harness = hosts.harness()
    completed(asyncio.run(harness.aresume(run_id)))
    assert (read(root_of(harness, run_id)), hosts.said()) == (DONE, ["begun", "done"])


@pytest.mark.parametrize(("step", "is_restored"), [("put_files_back", False), ("_headed", True)])
def test_a_rollback_that_was_cut_off_is_finished_on_another_host(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, step: str, is_restored: bool
) -> None:
    def cut_off(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    hosts.be("old")
    with harness_on(hosts.address, hosts.root, hosts.witness) as at_home:
        run_id = at_home.run("tune", 8).run_id
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(rolling_back, step, cut_off)
            at_home.rollback(run_id, to="tuned once", force=True)
    assert read(hosts.root) == (TUNED if is_restored else DONE)
    hosts.be("new")
    harness = hosts.harness()
    begun = harness.store.run(run_id)
    assert begun is not None and (intent := intent_of(begun)) is not None
    make, asked = Files.materialised, list[Materialise]()
    monkeypatch.setattr(Files, "materialised", lambda files, request: asked.append(request) or make(files, request))
    completed(harness.resume(run_id))
    run = harness.store.run(run_id)
    assert run is not None and run.generation == 1
    (request,) = asked
    assert (request.tree == intent.tree) == is_restored
    assert (read(root_of(harness, run_id)), hosts.said()) == (DONE, ["begun", "done"])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1])
def test_a_run_that_is_killed_again_and_again_on_two_hosts_ends_as_one_that_is_not(hosts: Hosts, seed: int) -> None:
    seed += int(os.environ.get("JUMAR_SEED", "0"))
    print(f"JUMAR_SEED counts from {seed}")
    draw, run_id = random.Random(seed), new_run_id()
    with hosts.harness() as harness:
        for attempt in range(40):
            host = "old" if attempt == 0 else draw.choice(["old", "new"])
            with hosts.process(host, run_id, stops=False) as child:
                try:
                    child.communicate(timeout=draw.uniform(0.3, 2.5))
                except subprocess.TimeoutExpired:
                    child.kill()
            run = harness.store.run(run_id)
            if run is not None and run.status is Status.COMPLETED:
                break
        assert run is not None and run.status is Status.COMPLETED and run.workspace is not None
        assert (read(Path(root_path(run.workspace))), hosts.said()) == (DONE, ["begun", "done"])
        assert harness.doctor().findings == ()
