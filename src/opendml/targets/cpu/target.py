"""The processor as a target: its facts and its knobs, one value that travels through schedules and code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from opendml.llvm.host import Machine, host_machine

# Knobs, of which there are hundreds, are imported by who asks for one: programs in the disk cache need none.
if TYPE_CHECKING:
    from opendml.graph.costs import GraphCosts
    from opendml.targets.cpu.tuning import Tuning


def _usual_knobs() -> Tuning:
    from opendml.targets.cpu.tuning import TUNING

    return TUNING


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """What code is generated for, and by which choices. Equal values give equal code, so the whole of it is part of the
    cache's keys, and pickled it is the same in another process.

    Experiments, and tests, replace a field: ``target.tuned(serial_work=0)``.
    """

    machine: Machine
    tuning: Tuning = field(default_factory=_usual_knobs)

    @property
    def identity(self) -> str:
        """What the cache's keys have of it."""
        return repr(self)

    @property
    def costs(self) -> GraphCosts:
        """What fusion weighs: rows have margins where stores leave lanes out."""
        graph = self.tuning.graph
        return graph if self.machine.masks_vectors else replace(graph, margined_row=None)

    @property
    def has_few_registers(self) -> bool:
        """Whether it has hardly more registers than the sums of a tile take."""
        return self.machine.vector_registers < self.tuning.many_registers

    def tuned(self, **knobs: Any) -> Self:
        """The target with other values of some knobs."""
        return replace(self, tuning=replace(self.tuning, **knobs))


def host_target(level: str | None = None, tuning: Tuning | None = None) -> CpuTarget:
    """This process's processor, or one of an older level, with the usual knobs or others; errors are those of
    ``host_machine``."""
    return CpuTarget(host_machine(level), tuning or _usual_knobs())
