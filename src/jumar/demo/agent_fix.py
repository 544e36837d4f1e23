"""The agent of `jumar demo`'s second act: it changes a config of the site, so that visitors get the maintenance page.

Read it as an example.  What `rewrite` may change is declared, so Jumar keeps those files as they were before each call:
where `verify` refuses what was written, or nobody knows how far it came, they are put back.  The model's first answer
is worth nothing; the agent asks again, with the brief of what has happened so far.

What is special to the demonstration is `look`, `moment` and `witness`, from `stage`.
"""

from __future__ import annotations

from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

from jumar import Run
from jumar.demo import model_fix
from jumar.demo.agent import SITE, harness, search
from jumar.demo.stage import look, moment, witness
from jumar.errors import CallFailed

CONFIG = "shop"


@dataclass(frozen=True)
class Config:
    """A config as the model wants it; what an answer lacks that was cut off has a default."""

    text: str = ""
    mode: str = "0644"


@dataclass(frozen=True)
class Fixed:
    """What the agent reports: the file that was changed, its size in bytes, and which page visitors get."""

    file: str
    size: int
    page: str


def says_where_to_serve(size: int, name: str, text: str = "", mode: str = "") -> bool | str:
    """Whether the shop could start with the config that has been written; asked after each call of `rewrite`."""
    look("written")
    config = ConfigParser()
    config.read(f"{SITE}/config/{name}.ini", encoding="utf-8")
    return config.has_option("server", "bind") or f"{name}.ini does not say where to serve"


@harness.tool(effect="write", paths=["config/{name}.ini", "config/{name}.d"], verify=says_where_to_serve, retries=0)
def rewrite(name: str, text: str = "", mode: str = "0644") -> int:
    """Write a config of the site anew, with its mode in octal; answers its size in bytes."""
    file, extras = Path(SITE, "config", f"{name}.ini"), Path(SITE, "config", f"{name}.d")
    look("writing")
    witness("writing", f"{name}.ini, {len(text)} characters")
    if extras.name not in text:
        extras.rmdir()  # which the config has no use for any more
    file.unlink()
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text[: len(text) // 2])
        opened.flush()
        if text:
            moment("half written")
        opened.write(text[len(text) // 2 :])
    file.chmod(int(mode, 8))
    return file.stat().st_size


@harness.agent(tools=[search, rewrite])
def fix(run: Run, site: str) -> Fixed:
    """Have the site show its maintenance page."""
    run.plan(["look", "rewrite"], files=[f"config/{CONFIG}.ini"])
    with run.step("look"):
        config = run.call(search, f"{site}/config/{CONFIG}.ini", "")
    with run.step("rewrite"):
        wanted = run.decide(model_fix.maintenance, config, "", returns=Config)
        try:
            size = run.call(rewrite, CONFIG, wanted.text, wanted.mode)
        except CallFailed:
            brief = run.value("brief", lambda: run.brief().prose)
            wanted = run.decide(model_fix.maintenance, config, brief, returns=Config)
            size = run.call(rewrite, CONFIG, wanted.text, wanted.mode)
    return Fixed(f"config/{CONFIG}.ini", size, "maintenance")
