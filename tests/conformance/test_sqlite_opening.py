"""What a SQLite store is opened on: paths of every kind, fresh and old files, and files that are none of its own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.core.store import RunFilter
from jumar.errors import IntegrityError, JumarError, SchemaMismatch, StoreUnavailable, UsageError
from jumar.stores.opening import open_store
from jumar.stores.sqlite.connection import APPLICATION_ID, newest_schema
from jumar.testing.conformance_scene import Scene


def address(path: Path | str) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def kept(file: Path) -> Iterator[str]:
    """The id of a run that a closed store keeps in `file`."""
    store = open_store(address(file))
    run = Scene(store).running()
    store.close()
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["runs.db"]
    return run.run_id


def settings_of(file: Path) -> dict[str, object]:
    names = ("user_version", "application_id", "journal_mode")
    with sqlite3.connect(file) as connection:
        found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
    connection.close()
    return found


class TestPaths:
    @pytest.mark.parametrize(
        "name",
        [
            "two words.db",
            "naïve-攀登-🧗.db",
            "what?.db",
            "what?mode=memory",
            "50%.db",
            "%41.db",
            "a#b.db",
            "semi;colon&and=.db",
            "quote'and\"quote.db",
            "-dash.db",
            "back\\slash.db",
            "tab\tand\nline.db",
            "no-suffix",
        ],
    )
    def test_any_name_that_a_file_can_have_is_taken_letter_for_letter(self, tmp_path: Path, name: str) -> None:
        store = open_store(address(tmp_path / name))
        run = Scene(store).running()
        store.close()
        assert [entry.name for entry in tmp_path.iterdir()] == [name]
        again = open_store(address(tmp_path / name))
        assert again.run(run.run_id) == run
        again.close()

    @pytest.mark.parametrize("name", ["file:runs.db", "file:runs.db?mode=memory", "FILE:x", "file%3Aruns.db"])
    def test_a_name_like_a_uri_is_a_name_all_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = open_store(address(name))
        Scene(store).running()
        store.close()
        assert [entry.name for entry in tmp_path.iterdir()] == [name]

    def test_a_name_that_is_no_text_is_kept_byte_for_byte(self, tmp_path: Path) -> None:
        store = open_store(address(tmp_path / "caf\udce9.db"))
        store.close()
        assert [os.fsencode(entry.name) for entry in tmp_path.iterdir()] == [b"caf\xe9.db"]

    def test_a_relative_path_is_taken_from_the_folder_one_is_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        open_store("sqlite:///runs.db").close()
        open_store("sqlite:///../up.db").close()
        assert (tmp_path / "sub" / "runs.db").is_file()
        assert (tmp_path / "up.db").is_file()

    def test_a_store_stays_at_its_file_when_the_process_changes_its_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = open_store("sqlite:///runs.db")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        Scene(store).running()
        store.close()
        assert list((tmp_path / "elsewhere").iterdir()) == []

    def test_a_link_to_a_file_leads_to_it(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link.db").symlink_to(tmp_path / "real" / "runs.db")
        store = open_store(address(tmp_path / "link.db"))
        run = Scene(store).running()
        store.close()
        again = open_store(address(tmp_path / "real" / "runs.db"))
        assert again.run(run.run_id) == run
        again.close()

    def test_a_missing_folder_is_named_and_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable, match="does not exist") as caught:
            open_store(address(tmp_path / "no" / "such" / "runs.db"))
        assert str(tmp_path / "no" / "such") in caught.value.hint
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable, match="is a folder"):
            open_store(address(tmp_path))

    def test_a_file_for_a_folder_is_refused(self, file: Path, kept: str) -> None:
        with pytest.raises(StoreUnavailable):
            open_store(address(file / "runs.db"))

    def test_a_name_too_long_for_a_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable):
            open_store(address(tmp_path / ("x" * 300)))

    def test_a_link_that_leads_round_in_a_circle_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(StoreUnavailable):
            open_store(address(tmp_path / "a"))
        with pytest.raises(StoreUnavailable):
            open_store(address(tmp_path / "a" / "runs.db"))

    @pytest.mark.parametrize(
        "text", ["", "sqlite:", "sqlite://runs.db", "sqlite:///", "mysql://x", "memory", "a\0b", "file:", "file:a\0b"]
    )
    def test_what_is_no_address_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="no store's address"):
            open_store(text)


class TestFreshFiles:
    def test_a_fresh_file_is_in_wal_mode_and_says_whose_it_is(self, file: Path, kept: str) -> None:
        assert settings_of(file) == {
            "user_version": newest_schema(),
            "application_id": APPLICATION_ID,
            "journal_mode": "wal",
        }

    def test_an_empty_file_is_as_good_as_none(self, file: Path) -> None:
        file.touch()
        open_store(address(file)).close()
        assert settings_of(file)["user_version"] == newest_schema()

    def test_every_commit_is_flushed(self, file: Path) -> None:
        store = open_store(address(file))
        # The setting belongs to the writing connection and can be seen nowhere else.
        assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)  # type: ignore[attr-defined]
        store.close()

    def test_opening_again_migrates_nothing(self, file: Path, kept: str) -> None:
        before = file.read_bytes()
        store = open_store(address(file))
        assert store.migrated == (newest_schema(), newest_schema())  # type: ignore[attr-defined]
        store.close()
        assert file.read_bytes() == before

    def test_a_store_killed_without_closing_is_there_again(self, file: Path) -> None:
        store = open_store(address(file))
        run = Scene(store).running()
        assert file.with_name("runs.db-wal").stat().st_size > 0
        beside = open_store(address(file))
        assert beside.run(run.run_id) == run
        beside.close()
        store.close()


NO_DATABASES = {
    "words": b"not a database, just words",
    "zeros": b"\x00" * 8192,
    "the-first-words-only": b"SQLite format 3\x00",
    "nonsense-after-the-first-words": b"SQLite format 3\x00" + b"\xff" * 5000,
}


class TestOtherPeoplesFiles:
    """They are refused before a byte of them is changed."""

    def refused(self, file: Path, error: type[JumarError], match: str) -> JumarError:
        before = file.read_bytes()
        with pytest.raises(error, match=match) as caught:
            open_store(address(file))
        assert file.read_bytes() == before
        assert sorted(entry.name for entry in file.parent.iterdir()) == [file.name]
        assert caught.value.hint
        return caught.value

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    @pytest.mark.parametrize("mark", ["tables", "application_id", "user_version"])
    def test_a_database_of_another_program_is_left_as_it_is(self, file: Path, mode: str, mark: str) -> None:
        with sqlite3.connect(file) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("CREATE TABLE bookmarks (url TEXT)")
            if mark != "tables":
                connection.execute("DROP TABLE bookmarks")
                connection.execute(f"PRAGMA {mark} = 1")
        connection.close()
        error = self.refused(file, SchemaMismatch, "another program")
        assert error.exit_code == 4
        assert settings_of(file)["journal_mode"] == mode

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    def test_a_newer_schema_is_left_as_it_is(self, file: Path, kept: str, mode: str) -> None:
        with sqlite3.connect(file) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute(f"PRAGMA user_version = {newest_schema() + 1}")
        connection.close()
        error = self.refused(file, SchemaMismatch, f"schema {newest_schema() + 1}")
        assert f"up to {newest_schema()}" in error.what

    @pytest.mark.parametrize("content", NO_DATABASES.values(), ids=NO_DATABASES.keys())
    def test_a_file_that_is_no_database_is_left_as_it_is(self, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        error = self.refused(file, IntegrityError, "damaged or no SQLite database")
        assert error.exit_code == 5

    def test_a_device_is_no_database(self) -> None:
        with pytest.raises(JumarError):
            open_store("sqlite:////dev/full")

    def test_a_refused_file_can_be_replaced_and_opened(self, file: Path) -> None:
        file.write_bytes(b"not a database")
        self.refused(file, IntegrityError, "no SQLite database")
        file.unlink()
        store = open_store(address(file))
        assert store.runs(RunFilter()) == []
        store.close()
