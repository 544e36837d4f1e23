"""What `doctor` looks at in a PostgreSQL store: its rows.  Of pages on its disks the server takes care (data_checksums,
amcheck), with rights that a store's role does not have.
"""

from __future__ import annotations

from jumar.core.store import Inspection
from jumar.errors import IntegrityError
from jumar.stores import inspection

_KEYS: inspection.Keys = {
    "every_artifact": (0, b""),
    "every_identity": (-1, ""),
    "every_hold": inspection.FIRST_HOLD,
}


def inspect(rows: inspection.Rows) -> Inspection:
    """Read the whole store once and report what does not agree."""
    return inspection.inspect(rows, _KEYS, (), IntegrityError)
