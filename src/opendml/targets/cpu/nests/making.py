"""What all parts of a Compute's nest are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Fold, Tensor
from opendml.expression.rewriting import Rewriter
from opendml.loops.nest import ElementStore
from opendml.loops.rewriting import simplify
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.target import CpuTarget

Stores = tuple[ElementStore, ...]


@dataclass(slots=True)
class Making:
    """A nest on its way: the kernel; the axes that are ``known`` to stand somewhere outside of the vector axis; how
    many steps of a fold are written out here at most; the folds that are computed ``ahead`` of the loops that they are
    the same along; the rows of memory so far, by number, type and size; and whether there are loops over long results,
    which are not to be written out."""

    kernel: ComputeKernel
    target: CpuTarget
    known: frozenset[Axis]
    unrolled: int
    ahead: frozenset[Fold] = frozenset()
    dependencies: Dependencies = field(default_factory=Dependencies)
    rows: dict[tuple[int, str, int], Tensor] = field(default_factory=dict)
    rolled: bool = False


class Piece:
    """A part of an axis, and what is stored there. An edge is one vector, some of whose lanes conditions leave out."""

    def __init__(self, stores: Stores, axis: Axis, first: int, last: int, is_edge: bool = False) -> None:
        self.first, self.last, self.is_edge = first, last, is_edge
        self.stores = rewritten(stores, simplify({axis: (first, last - 1)}))

    @property
    def size(self) -> int:
        """Points of the axis."""
        return self.last - self.first


def rewritten(stores: Stores, rewrite: Rewriter) -> Stores:
    """The stores with their addresses and values rewritten."""
    return tuple(ElementStore(s.tensor, s.address.rebuilt(rewrite), rewrite(s.value)) for s in stores)
