"""What is known of some processors that no list of instruction sets tells: the knobs that fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class _Knobs:
    """The knobs of processors where at most so many threads run; with more, memory is what all of them wait for."""

    most_threads: int
    tuning: Tuning


_STORED: Final = _Knobs(8, replace(TUNING, streamed_bytes=1 << 62, stored_prefetch_distance=1024))
"""Up to that many threads each is limited by the lines that its core has under way, about ten: 8 GB/s a core read, in
virtual machines less. A store past the caches keeps one of these for longer than an ordinary one whose line was asked
for, and memory has bandwidth left for reading what is written. (Beyond, that is a third of the traffic.)"""

_KNOBS: Final[Mapping[str, _Knobs]] = dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), _STORED)
"""By LLVM's names of processors."""


def tuning_of(machine: Machine, threads: int) -> Tuning:
    """The knobs for a processor on which programs have ``threads`` threads at most."""
    found = _KNOBS.get(machine.cpu_name)
    tuning = TUNING if found is None or threads > found.most_threads else found.tuning
    return replace(tuning, blocks_of_channels=tuning.blocks_of_channels * threads // tuning.many_threads)
