"""Which paths a write may have: told from its arguments and from what is there, before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jumar
from jumar import Harness
from jumar.errors import CallFailed, PathRefused, UsageError
from tests.integration.writes_helpers import Site, furnished


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = furnished(tmp_path, waits=request.param)
    with made.harness:
        yield made


OUTSIDE = ["../../x", "..", "a/../../x", "/etc/passwd", "C:x", "a\\b", "", "a\x00b", "conf/.git/config", "x" * 300, 5.0]


@pytest.mark.parametrize("name", OUTSIDE, ids=lambda name: repr(name)[:20])
@pytest.mark.parametrize("template", ["conf/{name}", "{name:path}"])
def test_an_argument_that_leads_out_of_the_workspace_fails_the_call_before_anything_is_sent(
    site: Site, name: Any, template: str
) -> None:
    called: list[Any] = []

    def rewrite(name: Any) -> None:
        called.append(name)

    result = site.call(rewrite, name, paths=[template])
    assert isinstance(result.error, PathRefused)
    assert called == []
    (call,) = site.harness.show("last").calls
    assert (call.state, call.attempt, call.before) == ("FAILED", 0, None)
    assert site.holds() == []


def test_a_refused_path_is_a_failure_that_the_agent_can_deal_with_alike_on_every_replay(site: Site) -> None:
    def rewrite(name: str) -> str:
        site.write(f"conf/{name}", "new")
        return name

    tool = site.tool(rewrite, paths=["conf/{name}"])
    died: list[int] = []
    told: list[str] = []

    async def deals(run: Any, task: str) -> str:
        try:
            await run.call(tool, "../x")
        except PathRefused as error:
            told.append(str(error))
        name: str = await run.call(tool, "x")
        if not died:
            died.append(1)
            raise KeyboardInterrupt
        return name

    def deals_plainly(run: Any, task: str) -> str:
        try:
            run.call(tool, "../x")
        except PathRefused as error:
            told.append(str(error))
        name: str = run.call(tool, "x")
        if not died:
            died.append(1)
            raise KeyboardInterrupt
        return name

    agent: Any = site.harness.agent(name="deals")(deals if site.waits else deals_plainly)
    with pytest.raises(KeyboardInterrupt):
        site.harness.run(agent, "x")
    assert site.harness.resume(site.harness.find("last")).unwrap() == "x"
    assert told[0] == told[1]
    assert "'../x'" in told[0]


def test_wildcards_of_an_argument_are_letters_of_a_name(site: Site) -> None:
    before = site.files()

    def spoil(name: str) -> None:
        (site.root / "conf" / name).write_text("spoilt")
        (site.root / "conf/other.ini").write_text("not declared")
        raise OSError("in the middle")

    site.call(spoil, "*", paths=["conf/{name}"], retries=0)
    after = site.files()
    assert b"conf/*" not in after
    assert after.keys() == before.keys()
    assert site.read("conf/other.ini") == "not declared", "the star of an argument has widened what was declared"


def test_globs_of_the_template_itself_name_many_files(site: Site) -> None:
    before = site.files()

    def spoil() -> None:
        for name in ("site.ini", "other.ini", "third.ini"):
            (site.root / "conf" / name).write_text("spoilt")
        raise OSError("in the middle")

    site.call(spoil, paths=["conf/*.ini"], retries=0)
    assert site.files() == before


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["../conf"], "has a segment '..'"),
        (["/etc/x"], "is absolute"),
        (["conf/{nam}"], "'nam', which is no parameter"),
        (["conf/{name"], "in braces is meant"),
        (["conf/.git/x"], "left alone"),
        ([], "name nothing"),
        ("conf", "takes a list"),
        ([5], "is a text"),
    ],
    ids=["up", "absolute", "unknown", "brace", "git", "empty", "text", "number"],
)
def test_templates_that_make_no_sense_are_refused_where_the_tool_is_declared(paths: Any, said: str) -> None:
    for decorate in (jumar.tool, Harness("memory:").tool):
        with pytest.raises(UsageError, match=said):
            decorate(effect="write", name="t", paths=paths)(lambda name: None)


@pytest.mark.parametrize("option", [{"paths": ["x"]}, {"verify": lambda result: True}], ids=["paths", "verify"])
@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_only_a_tool_that_writes_has_paths_and_verify(effect: str, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="does not write"):
        jumar.tool(effect=effect, name="t", **option)(lambda: None)  # type: ignore[call-overload]


async def _async_verify(result: None) -> bool:
    return True


@pytest.mark.parametrize(
    ("verify", "said"),
    [(5, "is no function"), (_async_verify, "is async, and the tool is not"), (lambda: True, r"takes \(\)")],
    ids=["number", "async", "too-few"],
)
def test_a_verify_that_could_not_be_asked_is_refused_where_the_tool_is_declared(verify: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        jumar.tool(effect="write", name="t", verify=verify)(lambda: None)


# --- Links. ----------------------------------------------------------------------------------------------------------


def test_a_path_through_a_link_is_refused(site: Site, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (site.root / "aside").symlink_to(tmp_path / "elsewhere")
    result = _written(site, "aside/x")
    assert isinstance(result.error, PathRefused)
    assert "aside is a symbolic link" in str(result.error)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def _written(site: Site, name: str, *, fails: bool = False) -> Any:
    def rewrite(name: str) -> None:
        (site.root / name).write_text("written")
        if fails:
            raise OSError("in the middle")

    return site.call(rewrite, name, paths=["{name:path}"], retries=0)


@pytest.mark.parametrize("target", ["/etc/hostname", "../../outside", "../../site/../outside", ".git/config"])
def test_a_link_that_leads_out_of_the_workspace_is_not_written_through(site: Site, target: str) -> None:
    if target == ".git/config":
        (site.root / "conf/.git").mkdir()
    (site.root / "conf/way-out").symlink_to(target)
    result = _written(site, "conf/way-out")
    assert isinstance(result.error, PathRefused)
    assert "conf/way-out is a symbolic link that leads out of the workspace" in str(result.error)
    assert not (site.folder / "outside").exists()


@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
def test_what_is_written_through_a_link_is_put_back_with_the_link(site: Site, absolute: bool) -> None:
    to = site.root.resolve() / "conf/other.ini" if absolute else Path("other.ini")
    (site.root / "conf/second.ini").symlink_to(to)
    (site.root / "conf/first.ini").symlink_to("second.ini")
    before = site.files()
    result = _written(site, "conf/first.ini", fails=True)
    assert isinstance(result.error, CallFailed)
    assert site.files() == before


def test_links_that_lead_to_each_other_are_captured_as_they_are(site: Site) -> None:
    (site.root / "one").symlink_to("two")
    (site.root / "two").symlink_to("one")
    before = site.files()

    def replace(name: str) -> None:
        (site.root / name).unlink()
        (site.root / name).write_text("a file")
        raise OSError("in the middle")

    site.call(replace, "one", paths=["{name}"], retries=0)
    assert site.files() == before


def test_a_file_made_through_a_link_to_nothing_is_gone_again(site: Site) -> None:
    (site.root / "conf/latest").symlink_to("made-later")
    before = site.files()
    _written(site, "conf/latest", fails=True)
    assert site.files() == before


# --- What could not be put back. -------------------------------------------------------------------------------------


def make_pipe(site: Site) -> None:
    os.mkfifo(site.root / "conf/odd")


def make_device_of_a_kind(site: Site) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(site.root / "conf")
        try:
            listening.bind("odd")
        finally:
            os.chdir(here)


@pytest.mark.parametrize("make", [make_pipe, make_device_of_a_kind], ids=["fifo", "socket"])
def test_what_can_not_be_captured_is_not_written(site: Site, make: Callable[[Site], None]) -> None:
    make(site)
    called: list[str] = []

    def replace(name: str) -> None:
        called.append(name)

    result = site.call(replace, "odd", paths=["conf/{name}"])
    assert isinstance(result.error, CallFailed)
    assert "conf/odd cannot be captured" in result.error.message
    assert called == []
    assert site.holds() == []


def test_a_path_that_something_stands_in_the_way_of_keeps_the_run_waiting_until_it_is_put_back(site: Site) -> None:
    before = site.files()

    def replace() -> None:
        (site.root / "conf/site.ini").unlink()
        os.mkfifo(site.root / "conf/site.ini")
        raise OSError("in the middle")

    result = site.call(replace, paths=["conf/site.ini"], retries=0)
    assert (result.status, result.wake_at is not None) == ("WAITING", True)
    (call,) = site.harness.show("last").calls
    assert call.state == "UNCERTAIN"
    assert [hold.path for hold in site.holds()] == [b"conf/site.ini"]
    (site.root / "conf/site.ini").unlink()
    site.harness.cancel(site.harness.find("last"))
    assert site.files() == before
    assert site.holds() == []
