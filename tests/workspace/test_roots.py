"""Folders that may not be a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar import errors
from jumar.workspace import roots


def test_the_root_of_the_filesystem_is_refused() -> None:
    with pytest.raises(errors.RootRefused, match="root of the filesystem"):
        roots.checked("/")


def test_a_home_directory_and_what_contains_it_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "me"
    (home / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    for refused in (home, home.parent, tmp_path, tmp_path / "link", home / "project" / ".."):
        with pytest.raises(errors.RootRefused, match="home directory"):
            roots.checked(refused)
    assert roots.checked(home / "project") == home / "project"


def test_the_systems_own_list_of_homes_counts_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("~").expanduser()
    monkeypatch.setenv("HOME", "/nowhere")
    with pytest.raises(errors.RootRefused):
        roots.checked(home)


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for refused in (tmp_path / "file", tmp_path / "none"):
        with pytest.raises(errors.RootRefused, match="no directory"):
            roots.checked(refused)


def test_a_root_given_through_a_link_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert roots.checked(tmp_path / "link") == tmp_path / "real"


def test_own_files_are_told_relative_to_the_root_with_what_sqlite_keeps_beside_them(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "link").symlink_to("root")
    own = roots.own_paths(root, [tmp_path / "link" / "a.db", tmp_path / "outside.db", root / "sub" / "b"])
    assert {b"a.db", b"a.db-wal", b"a.db-shm", b"sub/b"} <= own
    assert not any(b"outside" in path for path in own)
