"""What tells serialised DML graphs from other files."""

from __future__ import annotations

import struct

__all__ = ["recognises"]


def recognises(data: bytes) -> bool:
    """Whether a file, of which these are the first bytes, begins as a FlatBuffer of few fields does.

    The format has no mark of its own: the first number leads to the graph's table, whose first one leads to its layout,
    which is a few numbers long and lies before the table.
    """
    if len(data) < 12:
        return False
    root: int = struct.unpack_from("<I", data)[0]
    if not 4 <= root <= len(data) - 4:
        return False
    layout: int = root - struct.unpack_from("<i", data, root)[0]
    if not 4 <= layout <= len(data) - 4:
        return False
    sizes: tuple[int, int] = struct.unpack_from("<2H", data, layout)
    layout_size, table_size = sizes
    return 4 <= layout_size <= 64 and layout_size % 2 == 0 and 4 <= table_size <= 256
