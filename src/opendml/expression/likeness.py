"""Statements that are the same but for the tensors they touch, and where: one kernel serves them all.

A kernel's function takes pointers to the first elements that it touches, so nothing in its text says which tensors
these are of. ``likeness`` finds that out before a statement is scheduled and written: statements whose likeness has the
same key have the same schedule and the same text, and pointers that lie as far from each other as their ``bases`` do.
The key holds all that scheduling and writing may ask for: axes, tensors and bound variables by the order in which they
are met, with their sizes, types and layouts; every constant, but for those that the caller calls free; and the order in
which a kernel takes its pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from opendml.expression.affine import Affine, affine, always_inside
from opendml.expression.ir import Axis, Const, Expression, Fold, Index, Load, Tensor, Variable
from opendml.expression.rewriting import inner_first, walk
from opendml.expression.statements import Compute

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What statements have in common, and what one has alone: its ``tensors``, and their ``bases``, elements from which
    on its addresses are counted; its free ``constants``."""

    key: Key
    tensors: tuple[Tensor, ...]
    bases: tuple[int, ...]
    constants: tuple[Const, ...]


def likeness(
    compute: Compute, repeats: Sequence[Axis], order: Mapping[Tensor, int], free: Set[Const] = frozenset()
) -> Likeness:
    """What a statement inside of ``repeats`` has in common with others; kernels take pointers in the ``order`` given.

    Addresses are counted from the first one in each tensor where all of them are sums of axes and there is no fold,
    whose schedule may ask where the elements are that it reads; else from the beginning of the tensor. Of ``free``
    constants the key holds the types only.
    """
    return _Describer(compute, repeats, free).likeness(order)


class _Describer:
    def __init__(self, compute: Compute, repeats: Sequence[Axis], free: Set[Const]) -> None:
        self._compute = compute
        self._repeats = repeats
        self._free = free
        self._constants: list[Const] = []
        self._axes: dict[Axis, int] = {}
        self._bound: dict[int, int] = {}  # variables, and the ways in which folds combine, by identity
        self._nodes: dict[Expression, int] = {}
        self._tensors: dict[Tensor, int] = {}
        self._bases: list[int] = []
        self._parts: list[object] = []
        self._is_movable = _is_movable(compute)

    def likeness(self, order: Mapping[Tensor, int]) -> Likeness:
        """The description of the whole statement."""
        compute = self._compute
        for axis in (*self._repeats, *compute.axes):
            self._axis(axis)
        for store in compute.stores:
            value = self._number(store.value)
            self._parts.append(("store", self._access(store.tensor, store.coordinates), value))
        tensors = tuple(self._tensors)
        facts = tuple((t.type.name, t.sizes, t.strides, t.offset, t.role) for t in tensors)
        ranks = tuple(sorted(range(len(tensors)), key=lambda number: order[tensors[number]]))
        outer = (len(self._repeats), len(compute.axes))
        sizes = tuple(axis.size for axis in self._axes)
        key = (self._is_movable, outer, sizes, facts, ranks, tuple(self._parts))
        return Likeness(key, tensors, tuple(self._bases), tuple(self._constants))

    def _axis(self, axis: Axis) -> int:
        return self._axes.setdefault(axis, len(self._axes))

    def _number(self, expression: Expression) -> int:
        """The number of an expression among all different ones, those inside of it first."""
        for e in inner_first(expression, self._nodes, self._inside):
            inside = tuple([self._nodes[part] for part in self._inside(e)])
            self._parts.append((type(e).__name__, e.type.name, self._own(e), inside))
            self._nodes[e] = len(self._nodes)
        return self._nodes[expression]

    def _inside(self, e: Expression) -> Sequence[Expression]:
        if isinstance(e, Fold):
            return (*e.children, *e.combine.left, *e.combine.right, *e.combine.result, *(e.combine.merge or ()))
        return () if isinstance(e, Load) and self._is_movable else e.children

    def _own(self, e: Expression) -> object:
        """What tells an expression from others of its kind with the same parts."""
        if isinstance(e, Index):
            return self._axis(e.axis)
        if isinstance(e, Load):
            return self._access(e.tensor, e.coordinates), always_inside(e, {})
        if isinstance(e, Variable):
            return self._bound.setdefault(id(e), len(self._bound))
        if isinstance(e, Fold):
            combine = e.combine
            ways = (len(combine.result), None if combine.merge is None else len(combine.merge))
            number = self._bound.setdefault(id(combine), len(self._bound))
            axes = tuple(map(self._axis, e.axes))
            return number, ways, axes, len(e.initial), len(e.elements), e.where is None, e.partials, e.contract
        if isinstance(e, Const) and e in self._free:
            self._constants.append(e)
            return None
        return e.own

    def _access(self, tensor: Tensor, coordinates: Sequence[Expression]) -> Key:
        """Which element of which tensor."""
        if not self._is_movable:
            return self._tensor(tensor, 0), tuple(map(self._number, coordinates))
        forms = [affine(c) for c in coordinates]
        place = sum(form.constant * stride for form, stride in zip(forms, tensor.strides, strict=True))
        number = self._tensor(tensor, place)
        return number, tuple(map(self._terms, forms)), place - self._bases[number]

    def _tensor(self, tensor: Tensor, base: int) -> int:
        number = self._tensors.setdefault(tensor, len(self._bases))
        if number == len(self._bases):
            self._bases.append(base)
        return number

    def _terms(self, form: Affine) -> Key:
        return tuple([(self._axis(term), factor) for term, factor in form.terms if isinstance(term, Axis)])


def _is_movable(compute: Compute) -> bool:
    """Whether a kernel for this statement does not depend on where in its tensors it begins."""
    for store in compute.stores:
        if not _are_sums(store.coordinates):
            return False
        for e in walk(store.value):
            if isinstance(e, Fold) or (isinstance(e, Load) and not _are_sums(e.coordinates)):
                return False
    return True


def _are_sums(coordinates: Sequence[Expression]) -> bool:
    return all(affine(c).is_pure for c in coordinates)
