"""Sums of products of 8-bit integers laid out for the instructions that multiply and add several of them at once.

A sum of ``(x - zx) * (y - zy)`` over an axis of the fold becomes one over words of 32 bits: ``dot4`` of four bytes
each, or, where there is no such instruction, ``dot2`` of two numbers of 16 bits. The zero points are taken out of the
sum, ``sum(x * y) - zy * sum(x) - zx * sum(y) + n * zx * zy``. Both factors are copied, packed along the axis and padded
with zeros. Integers are exact modulo 2^32, so the sums have the same bits in any order. Expressions in, expressions
out: the interpreter can check what really runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opendml.expression.affine import Affine, Dependencies, affine
from opendml.expression.element_types import I8, I32, U8, U32
from opendml.expression.folds import simple_combine
from opendml.expression.ir import (
    Axis,
    Expression,
    Fold,
    Load,
    Part,
    binary,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Store
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import Factor, Sum


def words(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """A sum laid out in words, if it can be and is worth it on this target. What is fixed is packed once."""
    target, fold = surroundings.target, found.fold
    instructions = machine_instructions(target.machine)
    operation = next((name for name in ("dot4", "dot2") if instructions.find(name, I32)), "")
    is_plain = fold.partials == 1 and fold.where is None and fold.type is I32
    if not operation or not is_plain or not all(map(_is_of_bytes, (found.left, found.right))):
        return None
    products = math.prod(axis.size for axis in (*found.compute.axes, *fold.axes))
    tensors = (found.left.load.tensor, found.right.load.tensor)
    largest = max((math.prod(tensor.sizes) for tensor in tensors if tensor not in surroundings.fixed), default=0)
    if products < largest * target.tuning.packed_uses:
        return None
    for axis in fold.axes:
        if axis.size >= target.tuning.packed_steps:
            packed = [_words(f.load, axis, int(operation[-1])) for f in (found.left, found.right)]
            if all(packed):
                return _Packing(found, axis, operation, surroundings).refinement()
    return None


def _is_of_bytes(factor: Factor) -> bool:
    return factor.inside is None and factor.load.type in (I8, U8)


@dataclass(frozen=True, slots=True)
class _Words:
    """Where the words of a tensor are: the ``dimension`` that is packed has ``groups`` runs of the axis, each of which
    becomes ``count`` words; ``rest`` is the coordinate there without the axis."""

    dimension: int
    groups: int
    count: int
    rest: Affine


def _words(source: Load, axis: Axis, per_word: int) -> _Words | None:
    """How a load's tensor is packed along an axis, if it lies along one dimension in whole runs."""
    forms = [affine(c) for c in source.coordinates]
    if not all(form.is_pure for form in forms):
        return None
    along = [d for d, form in enumerate(forms) if form.coefficient(axis)]
    if len(along) != 1 or forms[along[0]].coefficient(axis) != 1:
        return None
    (d,) = along
    rest = forms[d].plus(Affine(((axis, 1),), 0), -1)
    numbers = [c for _, c in rest.terms] + [rest.constant, source.tensor.sizes[d]]
    if any(n % axis.size for n in numbers):
        return None
    return _Words(d, source.tensor.sizes[d] // axis.size, -(-axis.size // per_word), rest)


class _Packing:
    """One statement, and what it takes to compute it in words."""

    def __init__(self, packed: Sum, axis: Axis, operation: str, surroundings: Surroundings) -> None:
        self.compute, self.fold, self.axis, self.operation = packed.compute, packed.fold, axis, operation
        self.left, self.right = packed.left, packed.right
        self.per_word = int(operation[-1])
        self.word = Axis("w", -(-axis.size // self.per_word))
        self.axes = tuple(self.word if a is axis else a for a in packed.fold.axes)
        self.found = Refinement()
        self.fixed = surroundings.fixed
        self.in_tiles = bool(machine_instructions(surroundings.target.machine).find("tiles of signed rows", I32))

    def refinement(self) -> Refinement:
        """The copies, the sums of the factors alone, and the statement itself."""
        rewrite = substitute({Part(self.fold, 0): self._total()})
        stores = tuple(Store(s.tensor, s.coordinates, rewrite(s.value)) for s in self.compute.stores)
        self.found.statements.append(Compute(self.compute.axes, stores))
        return self.found

    def _total(self) -> Expression:
        """Of the bytes of ``dot4`` one factor's are unsigned and the other one's signed: of two alike the first is
        moved by 128."""
        left, right = self.left, self.right
        is_alike = self.operation == "dot4" and left.load.type is right.load.type
        moved = 0 if not is_alike else 128 if left.load.type is I8 else -128
        is_unsigned = (left.load.type is U8) != (moved != 0)
        a, b = self._packed(left, 128 if moved else 0), self._packed(right, 0)
        total = self._sum(a, b) if is_unsigned else self._sum(b, a)
        ones = constant(0x01010101 if self.operation == "dot4" else 0x00010001, I32)
        a_zero, b_zero = left.zero_point, right.zero_point
        if moved:
            a_zero = constant(moved, I32) if a_zero is None else a_zero + moved
        if b_zero is not None:
            total = total - b_zero * self._alone("left_sums", *((a, ones) if is_unsigned else (ones, a)))
        if a_zero is not None:
            total = total - a_zero * self._alone("right_sums", *((ones, b) if is_unsigned else (b, ones)))
        if a_zero is not None and b_zero is not None:
            total = total + a_zero * b_zero * math.prod(axis.size for axis in self.fold.axes)
        return total

    def _sum(self, a: Expression, b: Expression) -> Expression:
        product = binary(self.operation, a, b)
        combine = simple_combine(lambda x, y: x + y, I32)
        return Part(Fold(self.axes, (constant(0, I32),), (product,), combine, contract=True), 0)

    def _alone(self, name: str, a: Expression, b: Expression) -> Expression:
        """The sum of one factor, which only some of the axes move, in a tensor of its own."""
        dependencies = Dependencies()
        moving = dependencies.of(a) | dependencies.of(b)
        axes = tuple(axis for axis in self.compute.axes if axis in moving)
        sums = temporary(name, I32, [axis.size for axis in axes] or [1])
        place = indices(axes) or (constant(0, index(self.word).type),)
        self.found.temporaries.append(sums)
        self.found.statements.append(Compute(axes, (Store(sums, place, self._sum(a, b)),)))
        return load(sums, place)

    def _packed(self, factor: Factor, flipped: int) -> Expression:
        """The word that the sums load, of a copy of a factor's tensor in words; bits ``flipped`` in each element."""
        source, size = factor.load.tensor, self.axis.size
        words = _words(factor.load, self.axis, self.per_word)
        assert words is not None
        d, count = words.dimension, words.count
        repeats = [stride == 0 and i != d for i, stride in enumerate(source.strides)]
        sizes = [1 if repeated else n for n, repeated in zip(source.sizes, repeats, strict=True)]
        packed_sizes = [*sizes[:d], words.groups * count, *sizes[d + 1 :]]
        order = self._order(factor)
        copy = temporary(f"{source.name}_words", I32, [packed_sizes[i] for i in order])
        axes = grid([*sizes[:d], words.groups, count, *sizes[d + 1 :]], [f"p{i}" for i in range(len(sizes) + 1)])
        group, word = indices(axes[d : d + 2])
        outer, inner = indices(axes[:d]), indices(axes[d + 2 :])
        value: Expression = constant(0, U32)
        bits = 32 // self.per_word
        for i in range(self.per_word):
            step = word * self.per_word + i
            element = cast(load(source, (*outer, group * size + step, *inner)), I32)
            part = (cast(element, U32) ^ flipped) & ((1 << bits) - 1)
            value = value | (select(step < size, part, 0) if size % self.per_word else part) << (bits * i)
        logical = (*outer, group * count + word, *inner)
        stored = Store(copy, tuple(logical[i] for i in order), cast(value, I32))
        self.found.temporaries.append(copy)
        self.found.statements.append(Compute(axes, (stored,)))
        rest = Affine(tuple((t, c // size * count) for t, c in words.rest.terms), words.rest.constant // size * count)
        zero = constant(0, word.type)
        place = [zero if repeated else c for c, repeated in zip(factor.load.coordinates, repeats, strict=True)]
        place[d] = rest.as_expression() + index(self.word)
        return load(copy, [place[i] for i in order])

    def _order(self, factor: Factor) -> list[int]:
        """The dimensions as they are packed. Of what is packed once those that the steps of the fold move along come
        first, so that neighbouring outputs lie next to each other at every step; but where tile registers take rows of
        it, the words of a sum are to lie next to each other, so they come last."""
        forms = [affine(c) for c in factor.load.coordinates]
        moved = [any(form.coefficient(axis) for axis in self.fold.axes) for form in forms]
        if factor is self.right and self._has_rows_of_right():
            along = [bool(form.coefficient(self.axis)) for form in forms]
            return sorted(range(len(forms)), key=lambda d: 2 * along[d] + moved[d])
        if factor.load.tensor not in self.fixed:
            return list(range(len(forms)))
        return sorted(range(len(forms)), key=lambda d: not moved[d])

    def _has_rows_of_right(self) -> bool:
        """Whether rows of the right factor are multiplied by columns of the left one, in tile registers: the left one
        is a run along the outputs, as in convolutions, and not along the words."""
        coordinates, column = self.left.load.coordinates, self.compute.axes[-1]
        form = affine(coordinates[-1])
        return self.in_tiles and not form.coefficient(self.axis) and form.coefficient(column) == 1
