"""The file that says when checkpoints are kept, and the folder that a run works on, given on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_desk import commands, refused
from tests.integration.cli_files import Office

CONFIG = """
checkpoint_triggers:
  - event: on_task_end
    level: task
    storage: hot
"""


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_config_says_which_events_keep_checkpoints_and_may_stand_before_the_command(office: Office) -> None:
    (office.folder / "few.yaml").write_text(CONFIG)
    assert office.here("--config", "few.yaml", "run", "office:harness:mends").code == 0
    points = office.view("last")["checkpoints"]
    assert [point["trigger"] for point in points] == ["manual", "on_task_end"]
    assert (points[-1]["storage"], points[-1]["asked"]) == ("cold", "hot")
    assert office.here("run", "office:harness:mends", "--config", "few.yaml").code == 0
    assert len(office.view("last")["checkpoints"]) == 2
    assert office.here("run", "office:harness:mends").code == 0
    assert len(office.view("last")["checkpoints"]) > 2


def test_the_commands_to_go_on_with_name_the_config_and_the_workspace(office: Office) -> None:
    (office.folder / "few.yaml").write_text(CONFIG)
    (office.folder / "copy" / "conf").mkdir(parents=True)
    flags = ("--config", "few.yaml", "--workspace", "copy")
    done = office.here("run", "office:harness:fails", *flags)
    assert done.code == 1
    (command,) = commands(done.out, "resume")
    assert command.endswith("--config few.yaml --workspace copy")
    assert office.view("last")["run"]["workspace"] == str(office.folder / "copy")


def test_a_config_that_cannot_be_used_names_the_file_the_line_and_what_may_stand_there(office: Office) -> None:
    (office.folder / "bad.yaml").write_text(CONFIG.replace("on_task_end", "on_lunch"))
    done = office.here("run", "office:harness:mends", "--config", "bad.yaml")
    refused(done, "bad.yaml")
    assert "3" in done.err
    assert "on_lunch" in done.err
    assert "on_task_end" in done.err
    refused(office.here("run", "office:harness:mends", "--config", "none.yaml"), "none.yaml")


def test_a_folder_that_cannot_be_a_workspace_is_refused(office: Office) -> None:
    refused(office.here("run", "office:harness:mends", "--workspace", "/"), "is the root of the filesystem")
    refused(office.here("run", "office:harness:mends", "--workspace", "nowhere"), "nowhere is no directory")
    refused(office.here("resume", "--due", "--workspace", "site"), "--workspace goes with RUN")
