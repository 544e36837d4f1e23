"""What a host is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jumar.engine.hosts import state_folder, this_host
from jumar.errors import UsageError

_TELL = "from jumar.engine.hosts import this_host; print(this_host())"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("JUMAR_HOST", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_name_is_drawn_once_and_is_every_processs_from_then_on(state: Path) -> None:
    told = [subprocess.Popen([sys.executable, "-c", _TELL], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    names = {each.communicate()[0].strip() for each in told}
    assert names == {this_host()}
    assert len(list((state / "jumar").iterdir())) == 1


def test_another_state_folder_is_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = this_host()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert this_host() != first


def test_a_name_that_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMAR_HOST", "volume-7")
    assert this_host() == "volume-7"
    monkeypatch.setenv("JUMAR_HOST", "a:b")
    with pytest.raises(UsageError, match="names no host"):
        this_host()


def test_a_name_that_cannot_be_kept_is_refused_and_one_that_is_damaged_too(state: Path) -> None:
    this_host()
    (place,) = state_folder().iterdir()
    place.write_text("no host: at all\n")
    with pytest.raises(UsageError, match="holds no name of a host"):
        this_host()
    place.unlink()
    state_folder().rmdir()
    state_folder().touch()
    with pytest.raises(UsageError, match="cannot be kept"):
        this_host()
