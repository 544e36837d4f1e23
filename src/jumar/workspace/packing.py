"""How a file's content is packed: as it is, with zstd where that makes it smaller, or in parts where it is large.

zstd at level 1 is as fast as the disk and makes text a third.  It comes with Python 3.14 and from `backports.zstd`
before; it is imported at the first content that is packed, and one compressor serves them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

PLAIN = 0
ZSTD = 1
PARTS = 2

PART_BYTES = 4 << 20  # a larger file is read, stored and given back in parts of so many bytes
_SMALLEST = 128  # below this many bytes packing gains nothing


@cache
def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def packer() -> Callable[[bytes], tuple[int, bytes]]:
    """A function from bytes to the packing used and the packed bytes; for one thread at a time."""
    zstd = _zstd()
    compressor = zstd.ZstdCompressor(level=1)
    compress, whole = compressor.compress, zstd.ZstdCompressor.FLUSH_FRAME

    def pack(data: bytes) -> tuple[int, bytes]:
        if len(data) < _SMALLEST:
            return PLAIN, data
        packed = compress(data, whole)
        return (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)

    return pack


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
