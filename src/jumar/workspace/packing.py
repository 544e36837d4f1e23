"""How a file's content is packed: as it is, with zstd where that makes it smaller, or in parts where it is large.

zstd at level 1 is as fast as the disk and makes text a third; one compressor serves all content.
"""

from __future__ import annotations

from collections.abc import Callable

from jumar.core.packing import PLAIN, ZSTD, unpack, zstd

__all__ = ["PARTS", "PART_BYTES", "PLAIN", "ZSTD", "packer", "unpack"]

PARTS = 2

PART_BYTES = 4 << 20  # a larger file is read, stored and given back in parts of so many bytes
_SMALLEST = 128  # below this many bytes packing gains nothing


def packer() -> Callable[[bytes], tuple[int, bytes]]:
    """A function from bytes to the packing used and the packed bytes; for one thread at a time."""
    compressor = zstd().ZstdCompressor(level=1)
    compress, whole = compressor.compress, zstd().ZstdCompressor.FLUSH_FRAME

    def pack(data: bytes) -> tuple[int, bytes]:
        if len(data) < _SMALLEST:
            return PLAIN, data
        packed = compress(data, whole)
        return (ZSTD, packed) if len(packed) < len(data) else (PLAIN, data)

    return pack
