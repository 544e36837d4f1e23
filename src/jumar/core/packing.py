"""zstd, for whoever stores bytes: how they were packed stands beside them as a number, which is part of the format.

It comes with Python 3.14 and from `backports.zstd` before; it is imported where the first bytes are packed.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

PLAIN = 0
ZSTD = 1


@cache
def zstd() -> Any:
    """The zstd module."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def unpack(packing: int, data: bytes) -> bytes:
    """The bytes that were packed; ValueError where they cannot be had."""
    if packing == PLAIN:
        return data
    if packing != ZSTD:
        raise ValueError(f"packing {packing} is not known")
    try:
        unpacked: bytes = zstd().decompress(data)
    except zstd().ZstdError as error:
        raise ValueError(str(error)) from error
    return unpacked
