"""Names that Windows can't hold."""

from __future__ import annotations

import warnings
from pathlib import PureWindowsPath

import pytest

from jumar.core.portable import trouble, unportable

FINE = [
    b"a", b"a.py", b"README", b".gitignore", b"con_sole", b"console.log", b"com10", b"lpt", b"x.aux", b"a b",
    b"a" * 255, "Grüße.txt".encode(), "日本".encode(), b"aux-1.txt", b"COM", b"-", b"_.x",
]  # fmt: skip
BAD = [
    b"aux", b"AUX", b"aux.txt", b"con.tar.gz", b"COM1", b"com9.log", b"lpt1", b"nul", b"PRN.x", b"conin$", b"CONOUT$.a",
    "com\u00b9".encode(), "LPT\u00b3.txt".encode(), b"nul .txt",
]  # fmt: skip
FORBIDDEN = [
    b"a:b",
    b"a?",
    b"*",
    b'"',
    b"<",
    b">",
    b"|",
    b"a\\b",
    b"a\nb",
    b"\x01",
    b"end.",
    b"end ",
    b"...",
    b"\xff",
    b"a" * 256,
]


@pytest.mark.parametrize("name", FINE)
def test_a_plain_name_is_fine(name: bytes) -> None:
    assert trouble(name) is None
    assert unportable([name]) == []


@pytest.mark.parametrize("name", [*BAD, *FORBIDDEN])
def test_a_name_that_windows_refuses_is_named(name: bytes) -> None:
    assert trouble(name) is not None
    assert unportable([b"before", name, b"zz"]) == [name]


@pytest.mark.parametrize("name", [*FINE, *BAD])
def test_device_names_are_those_of_the_standard_library(name: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        reserved = PureWindowsPath(name.decode()).is_reserved()
    assert reserved is (trouble(name) == "is the name of a device")


@pytest.mark.parametrize("name", [*FINE, *BAD])
def test_a_name_with_a_drive_or_a_separator_is_never_fine(name: bytes) -> None:
    for made in (b"c:" + name, name + b"\\" + name):
        assert PureWindowsPath(made.decode()).name != made.decode()
        assert trouble(made) is not None


def test_names_that_differ_in_case_alone_cannot_stand_side_by_side() -> None:
    assert unportable([b"A", b"a", b"b"]) == [b"a"]
    assert unportable(sorted(["straße".encode(), b"STRASSE"])) == ["straße".encode()]
