"""How large the system says that a processor's caches are.

Linux lists them in ``/sys/devices/system/cpu/cpu0/cache``, a folder each ("Documentation/ABI/testing/
sysfs-devices-system-cpu"). Virtual machines say what they like there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_FOLDER: Final = "sys/devices/system/cpu/cpu0/cache"
_LEVEL: Final = re.compile("[1-4]", re.ASCII)
_SIZE: Final = re.compile("([1-9][0-9]{0,8})K", re.ASCII)


@functools.cache
def system_caches() -> Mapping[int, int]:
    """Bytes of the caches that the first processor has data in, by level; empty where nobody says. Asked for once."""
    return caches_in(Path("/"))


def caches_in(root: Path) -> Mapping[int, int]:
    """As ``system_caches``, with ``sys`` under ``root``."""
    found: dict[int, int] = {}
    for folder in (root / _FOLDER).glob("index[0-9]"):
        kind, level, size = (_text(folder / name) for name in ("type", "level", "size"))
        number = _SIZE.fullmatch(size)
        if kind in ("Data", "Unified") and _LEVEL.fullmatch(level) and number:
            found[int(level)] = int(number[1]) << 10
    return found


def _text(file: Path) -> str:
    try:
        with file.open(encoding="ascii") as opened:
            return opened.read(64).strip()
    except (OSError, UnicodeError):
        return ""
