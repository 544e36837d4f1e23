"""Which machine this is, where several work on the runs of one store.

A host is where a folder of a name is the same folder.  That is not the machine alone: two containers on one machine
have folders of their own, and so has the same container when it is started anew.  What lasts as long as a host's
folders do is its state folder, so the name is drawn there once, after the hostname for people; a state folder that
several machines see has one name for each.  JUMAR_HOST says otherwise: where containers come and go and their volumes
stay, it names the volume.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from hashlib import sha256
from pathlib import Path

from jumar.errors import UsageError

VARIABLE = "JUMAR_HOST"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MACHINE = Path("/etc/machine-id")
_MOST_OF_A_NAME = 40


def state_folder() -> Path:
    """The user's folder for what a program keeps."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "jumar"


def this_host() -> str:
    """The name of this host: a slug, the same in every process.

    UsageError where JUMAR_HOST is none, or where the name cannot be kept.
    """
    given = os.environ.get(VARIABLE)
    if given:
        if not _NAME.fullmatch(given):
            raise UsageError(f"{VARIABLE}={given!r} names no host", hint="Give at most 64 of A-Z a-z 0-9 _ . -")
        return given
    folder = state_folder()
    place = folder / f"host-{sha256(_machine()).hexdigest()[:12]}"
    try:
        return _read(place) or _drawn(folder, place)
    except OSError as error:
        raise UsageError(
            f"the name of this host cannot be kept in {folder} ({error.strerror})",
            hint=f"Mend it, set XDG_STATE_HOME to a folder that can be written, or give the host a name ({VARIABLE}).",
        ) from error


def _machine() -> bytes:
    try:
        found = _MACHINE.read_bytes().strip()
    except OSError:
        found = b""
    return found or os.fsencode(socket.gethostname())


def _read(place: Path) -> str | None:
    try:
        text = place.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if _NAME.fullmatch(text) else None


def _drawn(folder: Path, place: Path) -> str:
    """A new name; where another process draws one at the same time, the first one that is there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", socket.gethostname())[:_MOST_OF_A_NAME] or "host"
    draft = folder / f".host-{secrets.token_hex(8)}"
    draft.write_text(f"{slug}-{secrets.token_hex(4)}\n")
    try:
        os.link(draft, place)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    name = _read(place)
    if name is None:
        raise UsageError(f"{place} holds no name of a host", hint="Remove it: another one is made.")
    return name
