"""The docs say what is so: drawings agree with the tables, examples run, commands exist."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"\bjumar ((?:store )?[a-z]+)\b")


def _diagrams():
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "docs" / "diagrams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawings_are_made_from_the_tables_as_they_are():
    diagrams = _diagrams()
    page = diagrams.PAGE.read_text(encoding="utf-8")
    assert diagrams.redrawn(page) == page, "run: python docs/diagrams.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    for number, match in enumerate(PYTHON_BLOCK.finditer(page.read_text(encoding="utf-8"))):
        script = tmp_path / (match[1] or f"example_{number}.py")
        script.write_text(match[2], encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_readme_shows_what_its_example_prints(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "shop.py").write_text(re.search(r"<!-- file: shop.py -->\n```python\n(.*?)```", readme, re.DOTALL)[1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"$ python shop.py\n{done.stdout}" in readme


def test_every_command_that_a_page_names_is_there():
    from jumar.cli.main import cli

    known = set(cli.commands)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        spoken = "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text))
        for named in COMMAND.findall(spoken):
            assert named.split()[0] in known, f"{page.name} names `jumar {named}`"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_configuration_that_is_shown_is_what_holds_without_one(tmp_path):
    from jumar.core.triggers import DEFAULTS
    from jumar.harness.config import read_config

    page = (ROOT / "docs" / "triggers.md").read_text(encoding="utf-8")
    path = tmp_path / "jumar.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    assert list(read_config(path).triggers.items()) == list(DEFAULTS.items())


def test_every_configuration_that_a_page_shows_can_be_used(tmp_path):
    from jumar.harness.config import read_config

    shown = [
        block
        for page in PAGES
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert shown
    for number, block in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block, encoding="utf-8")
        read_config(path)
