"""How an artifact's bytes are packed: as they are, or with zstd where that makes them smaller.

zstd at level 1 packs JSON about threefold and costs less than the disk write it saves.
"""

from __future__ import annotations

from jumar.core.packing import PLAIN, ZSTD, unpack, zstd

__all__ = ["PLAIN", "ZSTD", "pack", "unpack"]

_SMALLEST = 512  # below this many bytes packing gains nothing


def pack(data: bytes) -> tuple[int, bytes]:
    """The packing used and the packed bytes."""
    if len(data) < _SMALLEST:
        return PLAIN, data
    packed = zstd().compress(data, level=1)
    return (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)
