"""What is true of an OpenCL device, and the knobs of code for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from opendml.graph.costs import GRAPH_COSTS, GraphCosts


@dataclass(frozen=True, slots=True)
class OpenClMachine:
    """What a device says of itself.

    The names of its ``platform``, of the ``device`` and of its ``driver``; for float32: whether it has denormal numbers
    (``has_denormals``), infinities and NaN (``has_specials``), whether it ``rounds_to_nearest``, and whether division
    and square root are correctly rounded (``divides_exactly``); whether it has float64, whose arithmetic OpenCL
    specifies whole.
    """

    platform: str
    device: str
    driver: str
    has_denormals: bool
    has_specials: bool
    rounds_to_nearest: bool
    is_little_endian: bool
    divides_exactly: bool
    has_float64: bool

    @property
    def can_divide(self) -> bool:
        """Whether there are correctly rounded quotients of float32: its own, or those of float64 rounded again."""
        return self.divides_exactly or self.has_float64


FEATURES: Final = {
    "has_denormals": "denormal numbers of float32",
    "has_specials": "infinities and NaN",
    "rounds_to_nearest": "rounding to nearest",
    "is_little_endian": "the order of bytes of this program",
    "can_divide": "correctly rounded division",
}
"""What a device must have, by its machine's attributes: results are the same on every target, bit for bit."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The knobs of OpenCL devices."""

    graph: GraphCosts = field(default=GRAPH_COSTS)
    """What fusion weighs."""

    group: int = 64
    """Threads of a group: the number of threads started is a multiple of it, so that devices have a choice."""
