"""Which processors are parts of one core, as Linux tells: a core that runs two threads at a time looks like two.

They share its units and its near caches, so that two threads of arithmetic take about as long as one does with twice
the work, and everybody waits at every barrier for more of them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from opendml.llvm.system_files import text_of

_FOLDER: Final = "sys/devices/system/cpu"
_LISTS: Final = ("core_cpus_list", "thread_siblings_list")
"""The file with the processors of a core, and what older kernels call it."""


@functools.cache
def core_count(processors: frozenset[int]) -> int:
    """The number of cores that some processors, by the system's numbers, are parts of. It is asked for once."""
    return cores_in(Path("/"), processors)


def cores_in(root: Path, processors: frozenset[int]) -> int:
    """As ``core_count``, with ``sys`` under ``root``. A processor of which nothing is known is a core."""
    folder = root / _FOLDER
    if text_of(folder / "smt/active") == "0":
        return len(processors)
    left, count = set(processors), 0
    while left:
        processor = left.pop()
        left -= _beside(folder / f"cpu{processor}/topology", left)
        count += 1
    return count


def _beside(topology: Path, others: set[int]) -> set[int]:
    """Which of the others are parts of the same core."""
    text = next(filter(None, (text_of(topology / name) for name in _LISTS)), "")
    found = set[int]()
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) <= 2 and all(end.isascii() and end.isdigit() for end in ends):
            first, last = int(ends[0]), int(ends[-1])
            found |= {other for other in others if first <= other <= last}
    return found
