"""Whether a path lies on a network filesystem is decided from the mount table's text.

No network filesystem can be mounted where these tests run, so the decision itself is tested, on tables in the format
that the kernel writes; only the last test reads the real table.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jumar.database import mounts
from jumar.database.mounts import NETWORK, filesystem_of, network_filesystem
from jumar.errors import StoreUnavailable
from jumar.stores.opening import open_store
from jumar.workspace.objects import Objects

ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"


def table(*lines: str) -> str:
    return "\n".join([ROOT, *lines, ""])


def mount(number: int, point: str, kind: str, parent: int = 27, rest: str = "shared:5") -> str:
    return f"{number} {parent} 0:{number} / {point} rw,relatime {rest} - {kind} source rw,vers=4.2"


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_a_path_below_a_network_mount_lies_on_it(kind: str) -> None:
    assert filesystem_of("/srv/team/runs.db", table(mount(40, "/srv", kind))) == kind


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_the_kinds_that_people_meet_are_refused(kind: str) -> None:
    assert kind in NETWORK


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk", "fuse.gocryptfs"])
def test_a_local_filesystem_is_not(kind: str) -> None:
    assert kind not in NETWORK
    assert filesystem_of("/srv/runs.db", table(mount(40, "/srv", kind))) == kind


def test_a_path_beside_a_mount_lies_on_the_root() -> None:
    text = table(mount(40, "/srv/team", "nfs4"))
    for path in ("/srv/runs.db", "/srv/team2/runs.db", "/srv/teams", "/"):
        assert filesystem_of(path, text) == "ext4"


def test_the_mount_point_itself_lies_on_its_mount() -> None:
    assert filesystem_of("/srv/team", table(mount(40, "/srv/team", "nfs4"))) == "nfs4"


def test_the_deepest_mount_on_the_way_counts() -> None:
    text = table(mount(40, "/srv", "nfs4"), mount(41, "/srv/local", "xfs", 40), mount(42, "/srv/local/far", "cifs", 41))
    assert filesystem_of("/srv/runs.db", text) == "nfs4"
    assert filesystem_of("/srv/local/runs.db", text) == "xfs"
    assert filesystem_of("/srv/local/far/runs.db", text) == "cifs"


def test_a_later_mount_over_the_same_point_hides_the_earlier_one() -> None:
    text = table(mount(40, "/srv", "nfs4"), mount(41, "/srv", "xfs", 40))
    assert filesystem_of("/srv/runs.db", text) == "xfs"


def test_a_later_mount_further_up_hides_what_is_below_it() -> None:
    text = table(mount(40, "/srv/team", "xfs"), mount(41, "/srv", "nfs4"))
    assert filesystem_of("/srv/team/runs.db", text) == "nfs4"
    text = table(mount(40, "/srv/team", "nfs4"), mount(41, "/srv", "xfs"))
    assert filesystem_of("/srv/team/runs.db", text) == "xfs"


def test_a_bind_mount_of_a_network_folder_is_on_the_network_too() -> None:
    text = table(mount(40, "/mnt/far", "nfs4"), "41 27 0:40 /exports/runs /home/kim/runs rw - nfs4 server:/exports rw")
    assert filesystem_of("/home/kim/runs/runs.db", text) == "nfs4"


def test_a_bind_mount_of_a_single_file_counts_for_that_file() -> None:
    text = table(mount(40, "/data/runs.db", "nfs4"))
    assert filesystem_of("/data/runs.db", text) == "nfs4"
    assert filesystem_of("/data/other.db", text) == "ext4"


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        (r"/srv/our\040team", "/srv/our team"),
        (r"/srv/tab\011here", "/srv/tab\there"),
        (r"/srv/two\012lines", "/srv/two\nlines"),
        (r"/srv/back\134slash", "/srv/back\\slash"),
        (r"/srv/like\134040an\134134escape", "/srv/like\\040an\\134escape"),
    ],
)
def test_escaped_characters_of_a_mount_point_are_read(written: str, folder: str) -> None:
    assert filesystem_of(f"{folder}/runs.db", table(mount(40, written, "nfs4"))) == "nfs4"


@pytest.mark.parametrize("name", ["caf\u00e9", "line\u2028separator", "next\u0085line", "form\x0cfeed"])
def test_unusual_characters_of_a_mount_point_split_no_line(name: str) -> None:
    assert filesystem_of(f"/srv/{name}/runs.db", table(mount(40, f"/srv/{name}", "nfs4"))) == "nfs4"


@pytest.mark.parametrize("rest", ["", "shared:1", "shared:1 master:2 propagate_from:3"])
def test_any_number_of_optional_fields_is_read_over(rest: str) -> None:
    assert filesystem_of("/srv/runs.db", table(mount(40, "/srv", "nfs4", rest=rest).replace("  ", " "))) == "nfs4"


def test_a_container_whose_table_begins_in_the_middle_is_read() -> None:
    text = "900 880 0:50 / / rw - overlay overlay rw\n901 900 0:51 / /data rw - nfs4 server:/data rw\n"
    assert filesystem_of("/app/runs.db", text) == "overlay"
    assert filesystem_of("/data/runs.db", text) == "nfs4"
    chroot = "901 900 0:51 / /data rw - nfs4 server:/data rw\n902 900 0:52 / /logs rw - ext4 /dev/vdb rw\n"
    assert filesystem_of("/data/runs.db", chroot) == "nfs4"
    assert filesystem_of("/app/runs.db", chroot) is None


def test_the_kernels_first_root_under_the_real_one_is_no_riddle() -> None:
    text = "1 1 0:1 / / rw - rootfs rootfs rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n" + mount(40, "/srv", "cifs")
    assert filesystem_of("/srv/runs.db", text) == "cifs"
    assert filesystem_of("/home/runs.db", text) == "ext4"


@pytest.mark.parametrize("text", ["", "\n\n", "no dash at all\n", "1 2 - x\n", " - \n"])
def test_a_table_that_says_nothing_refuses_nothing(text: str) -> None:
    assert filesystem_of("/srv/runs.db", text) is None


class TestOpening:
    """A store there is refused before its file is touched."""

    @pytest.fixture
    def far(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder that the mount table, as these tests give it, says is on a network filesystem."""
        folder = tmp_path / "far away"
        folder.mkdir()
        written = str(folder.resolve()).replace(" ", r"\040")
        listed = tmp_path / "mountinfo"
        listed.write_text(table(mount(40, written, "nfs4")), encoding="utf-8")
        monkeypatch.setattr(mounts, "_TABLE", listed)
        return folder

    def test_a_store_on_a_network_filesystem_is_refused_and_no_file_made(self, far: Path) -> None:
        with pytest.raises(StoreUnavailable, match="network filesystem") as caught:
            open_store(f"sqlite:///{far / 'runs.db'}")
        assert "nfs4" in caught.value.what
        assert "local disk" in caught.value.hint
        assert list(far.iterdir()) == []

    def test_a_workspaces_objects_there_are_refused_too_and_no_file_made(self, far: Path) -> None:
        with pytest.raises(StoreUnavailable, match="network filesystem"):
            Objects(far / "runs.db.files")
        assert list(far.iterdir()) == []

    def test_a_link_that_leads_there_is_refused(self, far: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(far)
        (far / "runs.db").touch()
        (tmp_path / "runs.db").symlink_to(far / "runs.db")
        for path in (tmp_path / "link" / "runs.db", tmp_path / "runs.db"):
            with pytest.raises(StoreUnavailable, match="network filesystem"):
                open_store(f"sqlite:///{path}")
        assert (far / "runs.db").read_bytes() == b""

    def test_a_store_beside_it_is_opened(self, far: Path) -> None:
        open_store(f"sqlite:///{far.parent / 'runs.db'}").close()
        assert (far.parent / "runs.db").exists()

    def test_a_system_without_the_table_refuses_nothing(self, far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mounts, "_TABLE", far / "no such table")
        assert network_filesystem(far / "runs.db") is None


def test_the_real_table_knows_where_proc_is() -> None:
    assert filesystem_of("/proc/self/status", os.fsdecode(Path("/proc/self/mountinfo").read_bytes())) == "proc"
