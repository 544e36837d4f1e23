"""Path templates: what an argument may stand for, and what it can never reach."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.core.path_templates import parse, resolve
from jumar.core.scopes import Reach
from jumar.errors import PathRefused, UsageError

NEVER = ["../../x", "..", ".", "", "/etc/passwd", "a\x00b", "\ud800", 3.5, None]
NO_PATHS = ["/etc/{name}", "../{name}", "a/../b", "./a", "a//b", "a/", "", "C:/x", "a\\b", ".git/{name}", "a\x00b"]


def resolved(text: str, **arguments: Any) -> bytes:
    return resolve(parse(text, set(arguments)), arguments)


def named(glob: bytes, path: str) -> bool:
    """Whether the glob names this very path, by the rules that snapshots go by."""
    reach: Reach | None = Reach.of([glob])
    for name in path.encode("utf-8", "surrogateescape").split(b"/"):
        reach = reach.into(name) if reach is not None else None
    return reach is not None and reach.matched


@pytest.mark.parametrize(
    ("template", "arguments", "path"),
    [
        ("conf/{name}", {"name": "site.ini"}, "conf/site.ini"),
        ("conf/{name}.d/{number}", {"name": "site", "number": 7}, "conf/site.d/7"),
        ("out/{path:path}", {"path": "a/b/c.txt"}, "out/a/b/c.txt"),
        ("{path:path}", {"path": pathlib.PurePosixPath("a/b")}, "a/b"),
        ("{path:path}", {"path": "./a//b/"}, "a/b"),
        ("{{{name}}}.txt", {"name": "x"}, "{x}.txt"),
        ("{name}", {"name": "näme 中文"}, "näme 中文"),
        ("{name}", {"name": b"\xff\xfe"}, "\udcff\udcfe"),
        ("{name}", {"name": "..."}, "..."),
        ("{name}", {"name": "~"}, "~"),
        ("plain.txt", {}, "plain.txt"),
    ],
)
def test_a_template_names_the_path_that_its_arguments_make(template: str, arguments: dict[str, Any], path: str) -> None:
    assert named(resolved(template, **arguments), path)


@pytest.mark.parametrize(
    "name",
    [*NEVER, "a/b", "C:evil", "c:", "..\\x", "\\\\host\\x", ".git", ".GIT", "x" * 256, True, ["a"]],
    ids=repr,
)
def test_a_name_is_one_segment_that_stays_inside(name: Any) -> None:
    with pytest.raises(PathRefused) as refused:
        resolved("conf/{name}", name=name)
    assert "'name'" in refused.value.what


@pytest.mark.parametrize(
    "path",
    [
        *NEVER,
        "a/../b",
        "a/..",
        "//x",
        "./",
        "C:/x",
        "a\\..\\b",
        ".git/config",
        "sub/.git",
        "sub/.Git/x",
        "a/" * 3000 + "b",
    ],
    ids=lambda path: repr(path)[:20],
)
def test_a_path_is_relative_and_stays_inside(path: Any) -> None:
    with pytest.raises(PathRefused):
        resolved("{path:path}", path=path)


def test_whoever_gives_a_deeper_path_for_a_name_is_told_how_a_template_takes_one() -> None:
    with pytest.raises(PathRefused, match="is more than one segment") as refused:
        resolved("conf/{name}", name="de/site.ini")
    assert "{name:path}" in refused.value.hint
    with pytest.raises(PathRefused) as climbing:
        resolved("conf/{name}", name="../site.ini")
    assert "{name:path}" not in climbing.value.hint


@pytest.mark.parametrize(
    ("template", "name"), [(".{name}", "."), (".{name}", "git"), ("{name}:x", "c"), ("{name}..", "")]
)
def test_what_is_harmless_alone_is_refused_where_the_template_makes_it_dangerous(template: str, name: str) -> None:
    with pytest.raises(PathRefused):
        resolved(template, name=name)


def test_a_glob_counts_only_in_the_template_itself() -> None:
    glob = resolved("logs/{name}-*.log", name="*")
    assert named(glob, "logs/*-1.log")
    assert not named(glob, "logs/app-1.log")
    deep = resolved("{path:path}", path="**")
    assert named(deep, "**")
    assert not named(deep, "a/b")
    within = resolved("[{name}]", name="a-z")
    assert not named(within, "m")


@given(st.text(st.characters(exclude_characters="/\\\x00", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_an_argument_never_names_anything_but_itself(name: str) -> None:
    try:
        glob = resolved("a/{name}", name=name)
    except PathRefused:
        assert name in (".", "..") or name.lower() == ".git" or name[1:2] == ":"
        return
    assert named(glob, f"a/{name}")
    for other in ("x", "a", "..", f"{name}x", "*", "?"):
        assert named(glob, f"a/{other}") == (other == name)


@pytest.mark.parametrize(
    "template",
    [
        *NO_PATHS,
        "{name",
        "name}",
        "{}",
        "{na-me}",
        "{name:int}",
        "{name!r}",
        "{other}",
        "a{name:path}",
        "{name:path}b",
        7,
    ],
    ids=repr,
)
def test_a_template_that_is_no_relative_path_is_refused_when_it_is_declared(template: Any) -> None:
    with pytest.raises(UsageError):
        parse(template, {"name"})


def test_a_misspelt_parameter_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        parse("conf/{nmae}", {"name", "text"})
    assert "'nmae'" in refused.value.what
    assert refused.value.hint == "Use one of: name, text."


def test_an_argument_that_is_not_given_is_named() -> None:
    with pytest.raises(PathRefused, match="'name'"):
        resolve(parse("conf/{name}"), {})
