"""The processor as a target: its facts and its knobs, one value that travels through schedules and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from opendml.llvm.host import Machine, host_machine

# Knobs, of which there are hundreds, are imported by who asks for one: programs in the disk cache need none.
if TYPE_CHECKING:
    from opendml.graph.costs import GraphCosts
    from opendml.targets.cpu.tuning import Tuning


def _measured_knobs() -> Tuning:
    from opendml.targets.cpu.tuning import TUNING

    return TUNING


@dataclass(frozen=True)
class UsualKnobs:
    """All that the usual knobs of a processor follow from: what ``tuning_of`` takes. They are made when one of them is
    first asked for, which no program from the cache does."""

    machine: Machine
    threads: int
    name: str
    caches: Mapping[int, int] = field(hash=False)

    @cached_property
    def tuning(self) -> Tuning:
        """The knobs."""
        from opendml.targets.cpu.microarchitectures import tuning_of

        return tuning_of(self.machine, self.threads, self.name, self.caches)


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """What code is generated for, and by which choices. Equal values give equal code, so the whole of it is part of the
    cache's keys, and pickled it is the same in another process.

    Experiments, and tests, replace a field: ``target.tuned(serial_work=0)``.
    """

    machine: Machine
    knobs: Tuning | UsualKnobs = field(default_factory=_measured_knobs)
    """These, or what they follow from, which takes less time to make and to print."""

    @property
    def tuning(self) -> Tuning:
        """The knobs."""
        return self.knobs.tuning if isinstance(self.knobs, UsualKnobs) else self.knobs

    @property
    def identity(self) -> str:
        """What the cache's keys have of it: the knobs, or what they follow from."""
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
        return replace(self, knobs=self.tuning.but(**knobs))


def host_target(level: str | None = None, tuning: Tuning | None = None) -> CpuTarget:
    """This process's processor, or one of an older level, with the usual knobs or others; errors are those of
    ``host_machine``."""
    return CpuTarget(host_machine(level), tuning or _measured_knobs())
