"""How an artifact's bytes are packed: as they are, or with zstd where that makes them smaller.

zstd at level 1 packs JSON about threefold and costs less than the disk write it saves.  It comes with Python 3.14 and
from `backports.zstd` before; it is imported at the first artifact, since most runs have none.
"""

from __future__ import annotations

import sys
from typing import Any

PLAIN = 0
ZSTD = 1

_SMALLEST = 512  # below this many bytes packing gains nothing


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def pack(data: bytes) -> tuple[int, bytes]:
    """The packing used and the packed bytes."""
    if len(data) < _SMALLEST:
        return PLAIN, data
    packed = _zstd().compress(data, level=1)
    return (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)


def unpack(packing: int, data: bytes) -> bytes:
    """The bytes that were packed; ValueError where they cannot be had."""
    if packing == PLAIN:
        return data
    if packing != ZSTD:
        raise ValueError(f"packing {packing} is not known")
    zstd = _zstd()
    try:
        unpacked: bytes = zstd.decompress(data)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
    return unpacked
