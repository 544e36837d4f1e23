"""Path templates: which files a tool's call writes, told from its arguments before it runs.

`conf/{name}` names one file for each call: `{name}` stands for exactly one segment of a path, `{name:path}` for a
relative path of any depth.  Globs (`*`, `?`, `[...]` and `**`) count only where they stand in the template itself:
whatever an argument brings is taken letter for letter, and escaped, so that no model can widen what a tool declares.

What an argument can never do is leave the workspace or reach into a `.git`.  That is checked here as text; where the
files are opened it is checked once more, one directory at a time and without following links, because a path that
looks harmless may lead anywhere through a link.  `./a//b` is the same path as `a/b` for the tool that opens it, and is
taken for it; `..` is refused even where it would stay inside, for with links nobody can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from msgspec import Struct

from jumar.errors import PathRefused, UsageError

MAX_SEGMENT = 255  # bytes; what the usual filesystems hold
MAX_PATH = 4096

_TOO_DEEP = "is more than one segment"
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:path)?\Z")
_SPECIAL = re.compile(r"([\\*?\[\]!^-])")
_DRIVE = re.compile(r"[A-Za-z]:")


class Field(Struct, frozen=True):
    """A place in a template that an argument fills: one segment, or with `path` any number of them."""

    name: str
    path: bool


class Template(Struct, frozen=True):
    """A parsed template: its text, and its parts in order, plain text (which may hold globs) and fields."""

    text: str
    parts: tuple[str | Field, ...]

    @property
    def names(self) -> frozenset[str]:
        """The arguments the template needs."""
        return frozenset(part.name for part in self.parts if isinstance(part, Field))


def parse(text: str, names: Set[str] | None = None) -> Template:
    """`text` as a template.  With `names`, the tool's parameters, a field that is none of them is refused.

    `{{` and `}}` stand for braces.  UsageError where the text is no relative path or has a field that is misspelt.
    """
    if not isinstance(text, str):
        raise UsageError(f"a path template is a text, not {text!r}")
    template = Template(text, tuple(_parts(text)))
    unknown = sorted(template.names - names) if names is not None else []
    if unknown:
        raise UsageError(
            f"the path template {text!r} names {unknown[0]!r}, which is no parameter of the tool",
            hint=f"Use one of: {', '.join(sorted(names or ()))}.",
        )
    _check_shape(template)
    return template


def _parts(text: str) -> Iterable[str | Field]:
    plain, end = "", 0
    for found in _FIELD.finditer(text):
        plain += text[end : found.start()]
        end = found.end()
        if found[0] in ("{{", "}}"):
            plain += found[0][0]
            continue
        field = _NAME.match(found[1]) if found[1] is not None else None
        if field is None:
            raise UsageError(
                f"the path template {text!r} has {found[0]!r} where a parameter's name in braces is meant",
                hint="Write {name} for one segment, {name:path} for a relative path, {{ and }} for braces.",
            )
        if plain:
            yield plain
        plain = ""
        yield Field(field[1], field[2] is not None)
    if plain + text[end:]:
        yield plain + text[end:]


def _check_shape(template: Template) -> None:
    """The template's own text must be a path of its own; its fields are tried with a harmless value."""
    tried = "".join(part if isinstance(part, str) else "xx" for part in template.parts)
    trouble = _trouble_of_path(tried) or next(filter(None, map(_trouble_of_segment, tried.split("/"))), None)
    if trouble is not None:
        raise UsageError(f"the path template {template.text!r} {trouble}", hint="Write a path below the workspace.")
    if template.text.replace("\\", "") != template.text:
        raise UsageError(f"the path template {template.text!r} has a backslash", hint="Separate segments with '/'.")
    for before, part, after in zip(("/", *template.parts), template.parts, (*template.parts[1:], "/"), strict=False):
        if isinstance(part, Field) and part.path and not (_ends(before, "/", -1) and _ends(after, "/", 0)):
            raise UsageError(
                f"in the path template {template.text!r} {{{part.name}:path}} is only a part of a segment",
                hint="Put '/' between a path and what stands beside it.",
            )


def _ends(part: str | Field, mark: str, at: int) -> bool:
    return isinstance(part, str) and part[at] == mark


def resolve(template: Template, arguments: Mapping[str, Any]) -> bytes:
    """The glob that the template stands for in a call with these arguments, relative and `/`-separated.

    Arguments are texts, whole numbers, or paths (`os.PathLike`).  PathRefused where one is anything else, or where the
    path would be absolute, leave the workspace, have a drive or a NUL, or lead into a `.git`.
    """
    text = "".join(
        part if isinstance(part, str) else _SPECIAL.sub(r"\\\1", _filled(template, part, arguments))
        for part in template.parts
    )
    plain = "".join(part if isinstance(part, str) else _filled(template, part, arguments) for part in template.parts)
    trouble = _trouble_of_path(plain) or next(filter(None, map(_trouble_of_segment, plain.split("/"))), None)
    if trouble is not None:
        raise PathRefused(f"the path {plain!r}, from the template {template.text!r}, {trouble}")
    return text.encode("utf-8", "surrogateescape")


def _filled(template: Template, field: Field, arguments: Mapping[str, Any]) -> str:
    """One argument as text that may stand in the field's place."""
    where = f"argument {field.name!r} of the path template {template.text!r}"
    if field.name not in arguments:
        raise PathRefused(f"{where} is missing")
    value = _as_text(arguments[field.name], where)
    trouble = _trouble_of_path(value)
    if field.path:
        value = "/".join(segment for segment in value.split("/") if segment not in ("", "."))
        trouble = trouble or ("names no file" if not value else None)
    trouble = trouble or next(filter(None, map(_trouble_of_segment, value.split("/"))), None)
    if trouble is None and not field.path and "/" in value:
        trouble = _TOO_DEEP
    if trouble is not None:
        deeper = f"Give a plain name; or, where it may lie deeper, write {{{field.name}:path}} in the template."
        raise PathRefused(f"{where} is {value!r}, which {trouble}", hint=deeper if trouble is _TOO_DEEP else None)
    return value


def _as_text(value: Any, where: str) -> str:
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise PathRefused(f"{where} is {value!r}, which is no text")
    return str(value)


def _trouble_of_path(text: str) -> str | None:
    """What is wrong with a whole path, or None."""
    if text.startswith("/"):
        return "is absolute"
    if _DRIVE.match(text):
        return "has a drive"
    if "\x00" in text:
        return "has a NUL"
    if "\\" in text:
        return "has a backslash"  # a separator elsewhere: `..\\x` must not wait for the day it is read there
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "has a character that no file name can hold"
    return f"is longer than {MAX_PATH} bytes" if size > MAX_PATH else None


def _trouble_of_segment(segment: str) -> str | None:
    """What is wrong with one segment of a path, or None."""
    if segment == "":
        return "has an empty segment"
    if segment == ".":
        return "has a segment '.'"
    if segment == "..":
        return "has a segment '..'"
    if segment.lower() == ".git":
        return "leads into a '.git', which is left alone"
    if len(segment.encode("utf-8", "surrogateescape")) > MAX_SEGMENT:
        return f"has a segment longer than {MAX_SEGMENT} bytes"
    return None
