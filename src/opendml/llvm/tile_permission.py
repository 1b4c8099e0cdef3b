"""Leave to use the tile registers of x86's AMX, which Linux gives to processes that ask for it.

Their state is 8 KiB for each thread that uses them, so the system only keeps it for processes that have asked
("Dynamically-enabled XSTATE features", docs.kernel.org/arch/x86/xstate.html). It refuses where a thread's signal stack
is too small for it. What is given holds for all threads of the process, and its children.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Final

_ARCH_PRCTL: Final = 158
_REQUEST: Final = 0x1023
_TILE_DATA: Final = 18


@functools.cache
def may_use_tiles() -> bool:
    """Whether this process has leave; asks for it. False on other systems, whose ways are not known here."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "syscall", None)
    return call is not None and call(_ARCH_PRCTL, _REQUEST, ctypes.c_ulong(_TILE_DATA)) == 0
