"""What the CPU's schedules and code are steered by: every knob, with its unit and the reason for its value.

Nothing here changes a result. Facts of a processor are in its ``Machine``; what a format or a guarantee fixes (the
alignment of memory, the bound of a stack) is no knob and stands where it is kept.

A knob stands in ``knobs/``, in the class of the stage that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.loops.placement import PLACEMENT, Placement
from opendml.targets.cpu.knobs.asking import AskingKnobs
from opendml.targets.cpu.knobs.blocks import BlockKnobs
from opendml.targets.cpu.knobs.copies import CopyKnobs
from opendml.targets.cpu.knobs.filters import FilterKnobs
from opendml.targets.cpu.knobs.layouts import LayoutKnobs
from opendml.targets.cpu.knobs.matrices import MatrixKnobs
from opendml.targets.cpu.knobs.prefetches import PrefetchKnobs
from opendml.targets.cpu.knobs.programs import ProgramKnobs
from opendml.targets.cpu.knobs.recurrences import RecurrenceKnobs
from opendml.targets.cpu.knobs.scans import ScanKnobs
from opendml.targets.cpu.knobs.scatters import ScatterKnobs
from opendml.targets.cpu.knobs.sharing import SharingKnobs
from opendml.targets.cpu.knobs.statement_blocks import StatementBlockKnobs
from opendml.targets.cpu.knobs.stores import StoreKnobs
from opendml.targets.cpu.knobs.tile_costs import TileCosts
from opendml.targets.cpu.knobs.tiles import TileKnobs
from opendml.targets.cpu.knobs.vectors import VectorKnobs
from opendml.targets.cpu.knobs.waiting import WaitingKnobs
from opendml.targets.cpu.knobs.words import WordKnobs

_GRAPH: Final = replace(GRAPH_COSTS, margined_row=7)
"""Rows down to those of the last layers of networks have margins: a vector reaches four of them then."""

_PLACEMENT: Final = replace(PLACEMENT, growth=2, most_growth=4 << 20)
"""A line that another core has read takes ten times as long to write as one's own, and forty times where the two share
no cache (Zen 4): where smaller tensors lie in the places of larger ones, they pass such lines on. MNIST takes 3% less
time in batches of 8; with two threads that share no cache 13%, MobileNetV2 7%, ResNet-50 and YOLOv8n 3%. With no limit
MobileNetV2 would take 9% more where they share one: not all of it would stay there."""


@dataclass(frozen=True)
class Tuning(
    LayoutKnobs,
    ScatterKnobs,
    CopyKnobs,
    RecurrenceKnobs,
    StatementBlockKnobs,
    MatrixKnobs,
    FilterKnobs,
    WordKnobs,
    SharingKnobs,
    ScanKnobs,
    VectorKnobs,
    StoreKnobs,
    PrefetchKnobs,
    TileKnobs,
    TileCosts,
    BlockKnobs,
    WaitingKnobs,
    AskingKnobs,
    ProgramKnobs,
):
    """The knobs of all stages, one value: a stage reads ``tuning.serial_work``, wherever that stands. Another value is
    another entry of the cache: ``dataclasses.replace(TUNING, serial_work=0)``."""

    graph: GraphCosts = _GRAPH
    """What fusion weighs: a package before this one defines these knobs, since it is fusion that asks them."""

    placement: Placement = _PLACEMENT
    """How places for temporaries are looked for; likewise."""

    def but(self, **knobs: Any) -> Self:
        """What ``dataclasses.replace`` gives, which takes half a millisecond for so many fields."""
        unknown = knobs.keys() - self.__dict__.keys()
        if unknown:
            raise TypeError(f"no knobs: {', '.join(sorted(unknown))}")
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **knobs)
        return other


TUNING: Final = Tuning()
"""The knobs as they are for everybody."""
