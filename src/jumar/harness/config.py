"""Reading a configuration file: which events keep checkpoints, and what a snapshot may cost.

    checkpoint_triggers:
      - event: before_external_call
        level: tool          # task, step or tool; the event's own level where it is left out
        storage: cold        # or hot
        max_retries: 3       # of calls whose tool does not say so itself
    snapshot_limits:         # past one of them a snapshot is partial, and says so
      files: 100000
      bytes: 2000000000
      seconds: 60

The file is composed into nodes, which know their lines, and read from those: nothing of it is ever constructed.  An
alias stands for the node it names and is not copied, so that a small file cannot grow into a large value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from jumar.core.failures import short_message
from jumar.core.limits import SnapshotLimits
from jumar.core.states import Level, Storage
from jumar.core.triggers import DEFAULTS, LEVELS, Trigger, Triggers, table
from jumar.errors import ConfigError

MAX_BYTES = 64 << 10  # of a file; one with every trigger in it has less than 2 KiB
MAX_RETRIES = 1000
MAX_LIMIT = 10**15
_TRIGGERS = "checkpoint_triggers"
_LIMITS = "snapshot_limits"
_LIMITED = ("files", "bytes", "seconds")
_KEYS = ("event", "level", "storage", "max_retries")
_KINDS = {"scalar": "a single value", "sequence": "a list", "mapping": "a mapping (`key: value`)"}


class Config(Struct, frozen=True):
    """What a configuration file says."""

    triggers: Triggers
    snapshot_limits: SnapshotLimits = SnapshotLimits()


def read_config(path: str | os.PathLike[str]) -> Config:
    """What a file says; ConfigError where it cannot be read, or says what is not known."""
    return _Reader(os.fsdecode(path)).read()


class _Reader:
    """Reads one file; its errors say where in it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> Config:
        root = self._composed(self._data())
        if root is None:
            raise self._error("it is empty", hint=f"Give it {_TRIGGERS}: or {_LIMITS}:, or leave the file out.")
        pairs = self._pairs(root, (_TRIGGERS, _LIMITS), "the file")
        triggers = table(self._triggers(pairs[_TRIGGERS])) if _TRIGGERS in pairs else DEFAULTS
        return Config(triggers, self._limits(pairs[_LIMITS]) if _LIMITS in pairs else SnapshotLimits())

    def _limits(self, node: Any) -> SnapshotLimits:
        pairs = self._pairs(node, _LIMITED, _LIMITS)
        return SnapshotLimits(**{key: self._number(value, key, 1, MAX_LIMIT) for key, value in pairs.items()})

    # --- From a file to nodes. ---

    def _data(self) -> bytes:
        if not os.path.isfile(self._path):  # noqa: PTH113 - a harness has no use for pathlib otherwise
            there = "is no file" if os.path.exists(self._path) else "is not there"  # noqa: PTH110
            raise self._error(f"it {there}", hint="Give the path of a YAML file.")
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise self._error(f"it cannot be read ({error.strerror})") from error
        if len(data) > MAX_BYTES:
            raise self._error(f"it has more than {MAX_BYTES // 1024} KiB")
        return data

    def _composed(self, data: bytes) -> Any:
        import yaml  # which a harness without a file never loads

        try:
            return yaml.compose(data, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._unreadable(error.problem or error.context or "", mark.line + 1 if mark else 0) from error
        except yaml.reader.ReaderError as error:
            raise self._unreadable(f"{error.reason} at position {error.position}", 0) from error
        except RecursionError as error:
            raise self._error("it is nested too deeply") from error
        except (yaml.YAMLError, ValueError) as error:
            raise self._unreadable(short_message(error), 0) from error

    def _unreadable(self, why: str, line: int) -> ConfigError:
        hint = "Indent with spaces." if "'\\t'" in why else None
        return ConfigError(self._where(line, f"it is not YAML: {why}"), path=self._path, line=line, hint=hint)

    # --- From nodes to triggers. ---

    def _triggers(self, node: Any) -> Iterator[Trigger]:
        if node.id != "sequence":
            hint = "Write a list: each trigger begins with `- event: ...`; `[]` for none."
            raise self._error(f"it is {_kind(node)}, and has to be a list", node, _TRIGGERS, hint)
        lines: dict[str, int] = {}
        for item in node.value:
            trigger = self._trigger(item)
            if trigger.event in lines:
                why = f"there is a trigger for {trigger.event} already, in line {lines[trigger.event]}"
                raise self._error(why, item, "event", "Keep one of them.")
            lines[trigger.event] = _line(item)
            yield trigger

    def _trigger(self, node: Any) -> Trigger:
        pairs = self._pairs(node, _KEYS, "a trigger")
        if "event" not in pairs:
            raise self._error("a trigger has no event", node, "event", _one_of(LEVELS))
        event = self._word(pairs["event"], "event", LEVELS)
        level, storage = LEVELS[event], Storage.COLD
        if "level" in pairs:
            levels = {each.label: each for each in Level}
            level = levels[self._word(pairs["level"], "level", levels)]
        if "storage" in pairs:
            storages = {each.label: each for each in Storage}
            storage = storages[self._word(pairs["storage"], "storage", storages)]
        retries = self._number(pairs["max_retries"], "max_retries") if "max_retries" in pairs else None
        return Trigger(event, level, storage, retries)

    def _pairs(self, node: Any, known: Iterable[str], what: str) -> dict[str, Any]:
        """The values of a mapping by their keys, each a known one, and once."""
        if node.id != "mapping":
            hint = f"Write `key: value`. Keys: {', '.join(known)}."
            raise self._error(f"{what} is {_kind(node)}, and has to be a mapping", node, hint=hint)
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._word(key, "", known)
            if name in found:
                raise self._error("it is given twice", key, name, "Keep one of them.")
            found[name] = value
        return found

    def _word(self, node: Any, key: str, allowed: Iterable[str]) -> str:
        """A text that is one of those allowed."""
        if node.id != "scalar":
            raise self._error(f"it is {_kind(node)}", node, key, _one_of(allowed))
        text: str = node.value
        if text in list(allowed):
            return text
        what = "is not known" if key else "is no key here"
        raise self._error(f"{_shown(text)} {what}", node, key, _meant(text, allowed))

    def _number(self, node: Any, key: str, least: int = 0, most: int = MAX_RETRIES) -> int:
        hint = f"Give a whole number from {least} to {most}, without quotes."
        if node.id != "scalar":
            raise self._error(f"it is {_kind(node)}", node, key, hint)
        text: str = node.value
        is_number = node.tag == "tag:yaml.org,2002:int" and text.isascii() and text.isdigit()
        if not is_number or len(text) > len(str(most)) + 1 or not least <= int(text) <= most:
            raise self._error(f"{_shown(text)} cannot be used", node, key, hint)
        return int(text)

    # --- What is wrong, and where. ---

    def _error(self, why: str, node: Any = None, key: str = "", hint: str | None = None) -> ConfigError:
        line = 0 if node is None else _line(node)
        what = self._where(line, f"{key}: {why}" if key else why)
        return ConfigError(what, path=self._path, line=line, key=key, hint=hint)

    def _where(self, line: int, why: str) -> str:
        return f"{self._path}, line {line}: {why}" if line else f"{self._path}: {why}"


def _line(node: Any) -> int:
    number: int = node.start_mark.line
    return number + 1


def _kind(node: Any) -> str:
    return "empty" if node.id == "scalar" and not node.value else _KINDS[node.id]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _one_of(allowed: Iterable[str]) -> str:
    return f"Use one of {', '.join(allowed)}."


def _meant(text: str, allowed: Iterable[str]) -> str:
    close = get_close_matches(text.lower().replace("-", "_"), list(allowed), 1)
    return (f"Did you mean {close[0]}? " if close else "") + _one_of(allowed)
