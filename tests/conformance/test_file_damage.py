"""Damaged files of a store in a folder: the run and the file are named, other runs go on, nothing is guessed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.core.checksums import checkpoint_agrees
from jumar.core.records import RunRecord
from jumar.core.states import IdentityScope, Status
from jumar.core.store import RunFilter
from jumar.errors import IntegrityError, JumarError, SchemaMismatch
from jumar.stores.file.store import FileStore
from jumar.testing.conformance_scene import Scene, call, named
from tests.crash.file_scene import BINARY, LARGE, picture, steps

KEPT = named(b'"' + b"k" * 9000 + b'"')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store with three runs; `run-1` has files of every kind, `run-2` a store-wide name."""
    root = tmp_path / "store"
    store = FileStore(str(root))
    scene = Scene(store)
    for step in steps():
        assert isinstance(scene.write(step(scene)), Ack)
    store.close()
    return root


@pytest.fixture
def other(root: Path) -> tuple[RunRecord, tuple[Any, ...]]:
    """A run that nothing happens to, and how it looks."""
    store = FileStore(str(root))
    scene = Scene(store)
    run = scene.running(run_id="safe")
    scene.ack(scene.advance(run, calls=(call(1),), artifacts=(KEPT,)))
    seen = scene.everything(run)
    store.close()
    return run, seen


@pytest.fixture
def damage(root: Path, other: tuple[RunRecord, Any]) -> Iterator[Any]:
    """Damages a file and opens the store."""
    stores = []

    def done(file: str, how: str) -> Scene:
        _spoil(root / "runs" / file, how)
        stores.append(FileStore(str(root)))
        scene = Scene(stores[-1])
        run, seen = other
        assert scene.everything(run) == seen
        scene.ack(scene.advance(scene.again(run), calls=(call(2),)))
        return scene

    yield done
    for store in stores:
        store.close()


def _spoil(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "a bit":
        place = len(data) // 2
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    elif how == "written again":
        file.write_text(json.dumps(json.loads(data), indent=4))
    elif how == "a folder":
        file.unlink()
        file.mkdir()
    else:
        shutil.copy(file.with_name("00000001.json"), file)


@pytest.mark.parametrize("how", ["gone", "cut", "empty", "a bit", "written again", "a folder", "another entry"])
@pytest.mark.parametrize("file", ["run-1/00000002.json", "run-1/head.json"], ids=["entry", "head"])
def test_a_run_whose_files_are_damaged_is_named_with_the_file(damage: Any, file: str, how: str) -> None:
    scene: Scene = damage(file, how)
    with pytest.raises(IntegrityError, match=f"run-1.*runs/{file}"):
        scene.store.run("run-1")
    for change in (scene.claim("run-1"), scene.create(run_id="run-1")):
        [answer] = scene.store.write([change])
        assert isinstance(answer, IntegrityError)
    [listed] = [run for run in scene.store.runs(RunFilter()) if run.run_id == "run-1"]
    assert (listed.status, listed.error_type) == (Status.FAILED, "IntegrityError")
    assert file in (listed.error_message or "")
    [finding] = [found for found in scene.store.inspect().findings if found.run_id == "run-1" and found.where == "run"]
    assert file in finding.what


@pytest.mark.parametrize("how", ["gone", "cut", "a bit"])
def test_a_damaged_checkpoint_is_passed_over_and_the_run_goes_on(root: Path, damage: Any, how: str) -> None:
    [file] = (root / "runs" / "run-1" / "checkpoints").iterdir()
    scene: Scene = damage(f"run-1/checkpoints/{file.name}", how)
    run = scene.named("run-1")
    [kept] = scene.store.checkpoints(run.run_no)
    assert not checkpoint_agrees(kept)
    assert kept.version == 1
    assert scene.store.last_snapshot(run.run_no) is None
    assert scene.claimed(scene.claim(run)).run.epoch == run.epoch + 1
    [finding] = [found for found in scene.store.inspect().findings if found.where == "checkpoint 1"]
    assert file.name in finding.what


@pytest.mark.parametrize("how", ["gone", "cut", "a bit"])
def test_a_damaged_artifact_is_missed_by_those_who_need_it(root: Path, damage: Any, how: str) -> None:
    scene: Scene = damage(f"run-1/artifacts/{LARGE.digest.hex()}.json", how)
    run = scene.named("run-1")
    with pytest.raises(IntegrityError, match=LARGE.digest.hex()[:12]):
        scene.store.artifact(run.run_no, LARGE.digest)
    assert scene.store.artifact(run.run_no, BINARY.digest) == BINARY.data
    where = f"artifact {LARGE.digest.hex()[:12]}"
    [finding] = [found for found in scene.store.inspect().findings if (found.where, found.run_id) == (where, "run-1")]
    assert f"artifacts/{LARGE.digest.hex()}.json" in finding.what


def test_a_name_stays_with_a_run_that_cannot_be_read(damage: Any) -> None:
    scene: Scene = damage("run-2/head.json", "gone")
    held = scene.store.identity(IdentityScope.STORE, 0, "pay:7")
    assert held is not None
    assert held.run_id == "run-2"
    ours = scene.running()
    answer = scene.ack(scene.starting(ours, "pay:7"))
    assert answer.taken == (1,)


def test_the_number_of_a_run_that_cannot_be_read_is_not_given_away(damage: Any) -> None:
    scene: Scene = damage("run-3/head.json", "gone")
    numbers = [run.run_no for run in scene.store.runs(RunFilter())]
    assert scene.running().run_no > max(numbers)


def test_files_of_two_runs_that_changed_places_are_found(root: Path, damage: Any) -> None:
    first, second = (root / "runs" / each / "00000001.json" for each in ("run-1", "run-2"))
    first.rename(root / "aside")
    second.rename(first)
    (root / "aside").rename(second)
    scene: Scene = damage("run-3/head.json", "written again")
    for run_id in ("run-1", "run-2", "run-3"):
        with pytest.raises(IntegrityError, match=run_id):
            scene.store.run(run_id)


def test_a_damage_by_another_process_is_met_while_the_store_is_open(root: Path, other: tuple[RunRecord, Any]) -> None:
    reading, writing = FileStore(str(root)), FileStore(str(root))
    scene, run = Scene(writing), other[0]
    scene.ack(scene.advance(scene.again(run), calls=(call(2),)))
    (root / "runs" / "safe" / "00000003.json").write_bytes(b"{}")
    with pytest.raises(IntegrityError, match=r"safe/00000003\.json"):
        reading.run("safe")
    assert reading.run("run-1") is not None
    reading.close()
    writing.close()


def test_a_folder_that_went_is_missed_by_the_check(root: Path) -> None:
    store = FileStore(str(root))
    shutil.rmtree(root / "runs" / "run-1")
    [finding] = [found for found in store.inspect().findings if (found.where, found.run_id) == ("run", "run-1")]
    assert "missing" in finding.what
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_of_any_file_leads_to_anything_but_a_named_error(tmp_path: Path, root: Path, seed: int) -> None:
    random = Random(seed)
    print(f"seed {seed}")
    files = sorted(path.relative_to(root) for path in root.rglob("*.json"))
    store = FileStore(str(root))
    sound = picture(store)
    store.close()
    for number in range(12):
        place = tmp_path / str(number)
        shutil.copytree(root, place)
        file = place / random.choice(files)
        data = bytearray(file.read_bytes())
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        file.write_bytes(data[: random.randint(0, len(data))] if random.random() < 0.3 else data)
        try:
            store = FileStore(str(place))
        except (IntegrityError, SchemaMismatch):
            assert file.name == "jumar-store.json"
            continue
        try:
            seen = picture(store)
            assert seen == sound or store.inspect().findings
        except JumarError as error:
            assert isinstance(error, IntegrityError)
            assert store.inspect().findings
        finally:
            store.close()
