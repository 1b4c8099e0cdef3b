"""Sums of products of 8-bit integers laid out for the instructions that multiply and add several of them at once.

A sum of ``(x - zx) * (y - zy)`` over an axis of the fold becomes one over words of 32 bits: ``dot4`` of four bytes
each, or, where there is no such instruction, ``dot2`` of two numbers of 16 bits; where the signed bytes are so small
that sums of two products fit in 16 bits, ``dot4_saturating``. The zero points are taken out of the sum, ``sum(x * y) -
zy * sum(x) - zx * sum(y) + n * zx * zy``. Both factors are copied, packed along the axis and padded with zeros, but for
rows whose bytes are words as they lie in memory. Where a sum has no channels to pack, as depthwise convolutions have
none, words have the neighbours that a row of a window reads, and all windows that share the row share its words.
Filters in panels that have several taps read the words of a point one after the other, which then lie so, where
products are of two numbers. Windows whose filter is known may leave out what is in the padding, if its bytes are 0
there. Integers are exact modulo 2^32, so the sums have the same bits in any order. Expressions in, expressions out: the
interpreter can check what really runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opendml.expression.affine import Affine, Dependencies, affine
from opendml.expression.element_types import I8, I16, I32, U8, U16, U32
from opendml.expression.folds import simple_combine
from opendml.expression.ir import (
    WORD_PRODUCTS,
    Axis,
    Const,
    Expression,
    Fold,
    Load,
    Part,
    Tensor,
    binary,
    both,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.rewriting import conjuncts, substitute
from opendml.expression.statements import Compute, Store
from opendml.graph.constant_bounds import BOUNDS_OF_BYTES
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.panels import Columns
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, pitch_of_run, with_runs
from opendml.targets.cpu.refine.sums import Factor, Sum, moved, sum_of
from opendml.targets.cpu.tuning import Tuning
from opendml.targets.cpu.words_in_memory import BYTES


def words(found: Sum, surroundings: Surroundings, inside: Expression | None = None) -> Refinement | None:
    """A sum laid out in words, if it can be and is worth it on this target. What is fixed is packed once. Where it is
    not ``inside`` the left factor is 0: such steps may be left out."""
    target, fold = surroundings.target, found.fold
    is_plain = fold.partials == 1 and fold.where is None and fold.type is I32
    if not is_plain or not all(map(_is_of_bytes, (found.left, found.right))):
        return None
    operation = _operation(found, surroundings)
    if not operation:
        return None
    products = math.prod(axis.size for axis in (*found.compute.axes, *fold.axes))
    tensors = (found.left.load.tensor, found.right.load.tensor)
    largest = max((math.prod(tensor.sizes) for tensor in tensors if tensor not in surroundings.fixed), default=0)
    per_word, long = WORD_PRODUCTS[operation], [a for a in fold.axes if a.size >= target.tuning.packed_steps]
    if products >= largest * target.tuning.packed_uses:
        for axis in long:
            if all(_words(f.load, axis, per_word) for f in (found.left, found.right)):
                return _in_words(found, _Packing(found, axis, operation, surroundings, inside))
    for axis in reversed(long if per_word == BYTES else ()):
        rows = _rows_of_windows(found.left.load, axis, per_word)
        if rows is not None and _words(found.right.load, axis, per_word):
            made = math.prod(found.left.load.tensor.sizes) // found.left.load.tensor.sizes[rows.dimension]
            is_shared = products >= made * rows.groups * rows.count * target.tuning.word_uses
            return _in_words(found, _Packing(found, axis, operation, surroundings, inside)) if is_shared else None
    return None


def _operation(found: Sum, surroundings: Surroundings) -> str:
    """The best product of words that the processor has for a sum; nothing if it has none."""
    instructions = machine_instructions(surroundings.target.machine)
    able = ["dot4", *(["dot4_saturating"] if _is_small(found, surroundings) else []), "dot2"]
    return next((name for name in able if instructions.find(name, I32)), "")


def _is_small(found: Sum, surroundings: Surroundings) -> bool:
    """Whether no two products of an unsigned byte and a signed one add up to what 16 bits do not hold: with bounds of
    256 and 64 or of 128 and 128 they would at 2^15, but no unsigned byte is 256, and of signed ones only -128 is so
    large, whose sum of -2^15 fits."""
    left, right = (f.load for f in (found.left, found.right))
    if left.type is right.type:  # The left one is moved.
        most = BOUNDS_OF_BYTES[I8 if left.type is U8 else U8]
    else:
        most = surroundings.bounds.get(left.tensor, BOUNDS_OF_BYTES[left.type])
    return 2 * most * surroundings.bounds.get(right.tensor, BOUNDS_OF_BYTES[right.type]) <= 1 << 15


def _in_words(found: Sum, packing: _Packing) -> Refinement:
    """The sum for all columns, or for those in whole panels and those that are left."""
    target = packing.target
    width = target.tuning.word_panel_registers * target.machine.lanes(I32.bits)
    column = _column_in_panels(found, width, packing, target.tuning)
    if column is None:
        _Statement(packing, found).add()
        return packing.found
    for start, blocks, columns in _regions(column.size, width):
        block, within = grid([blocks, columns], "no")
        place = index(block) * columns + index(within) + start
        axes = [part for a in found.compute.axes for part in ((block, within) if a is column else (a,))]
        there = sum_of(found.rewritten(moved({column: place}), axes))
        assert there is not None
        dimension = found.right.load.coordinates.index(index(column))
        _Statement(packing, there, _Panels(dimension, start, block, within)).add()
    return packing.found


def _regions(count: int, width: int) -> list[Columns]:
    """Whole panels, and a wider one of all that is left: narrow ones leave registers empty."""
    if count % width == 0:
        return [Columns(0, count // width, width)]
    whole = (count // width - 1) * width
    return [Columns(0, whole // width, width), Columns(whole, 1, count - whole)]


def _column_in_panels(found: Sum, width: int, packing: _Packing, tuning: Tuning) -> Axis | None:
    """The axis of a matrix product's columns, or of a convolution's output channels, if the words of the right factor,
    which is read for many rows, are to lie in panels of so many of them: else those of two steps would be far apart."""
    column, (left, right) = found.compute.axes[-1], (found.left.load, found.right.load)
    if packing.has_filter_panels:
        column = found.compute.axes[2]
    elif len(found.fold.axes) != 1:
        return None
    dependencies = Dependencies()
    rows = [a for a in found.compute.axes if a in dependencies.of(left) and a not in dependencies.of(right)]
    is_even = column.size % width == 0 or column.size >= tuning.panels_beside_rest * width
    is_wide = column.size > width and is_even
    is_wide &= math.prod(axis.size for axis in rows) >= tuning.few_rows
    along = [c for c in right.coordinates if column in dependencies.of(c)]
    return column if is_wide and column not in dependencies.of(left) and along == [index(column)] else None


def _is_of_bytes(factor: Factor) -> bool:
    return factor.inside is None and factor.load.type in (I8, U8)


@dataclass(frozen=True, slots=True)
class _Words:
    """Where the words of a tensor are: the ``dimension`` that is packed has ``groups`` runs as long as the axis, the
    first from element ``first`` on and each ``step`` behind the one before, each of which becomes ``count`` words;
    ``group`` is the run that is read. ``overlaps``: runs are rows of windows, which have elements in common."""

    dimension: int
    groups: int
    count: int
    group: Expression
    step: int
    first: int = 0
    overlaps: bool = False


def _words(source: Load, axis: Axis, per_word: int) -> _Words | None:
    """How a load's tensor is packed along an axis, if it lies along one dimension in whole runs."""
    along = _dimension_along(source, axis)
    if along is None:
        return None
    d, rest = along
    numbers = [c for _, c in rest.terms] + [rest.constant, source.tensor.sizes[d]]
    if any(n % axis.size for n in numbers):
        return None
    group = Affine(tuple((term, c // axis.size) for term, c in rest.terms), rest.constant // axis.size)
    groups, count = source.tensor.sizes[d] // axis.size, -(-axis.size // per_word)
    return _Words(d, groups, count, group.as_expression(), axis.size)


def _rows_of_windows(source: Load, axis: Axis, per_word: int) -> _Words | None:
    """How a load's tensor is packed if its rows along an axis are those of windows, one for each point of another."""
    along = _dimension_along(source, axis)
    if along is None:
        return None
    d, rest = along
    if len(rest.terms) != 1 or rest.constant < 0:
        return None
    ((place, step),) = rest.terms
    if not isinstance(place, Axis) or step < 1:
        return None
    return _Words(d, place.size, -(-axis.size // per_word), index(place), step, rest.constant, overlaps=True)


def _dimension_along(source: Load, axis: Axis) -> tuple[int, Affine] | None:
    """The only dimension in which an axis is, one element after the other, and what else its coordinate is made of."""
    forms = [affine(c) for c in source.coordinates]
    along = [d for d, form in enumerate(forms) if form.coefficient(axis)]
    if not all(form.is_pure for form in forms) or len(along) != 1 or forms[along[0]].coefficient(axis) != 1:
        return None
    return along[0], forms[along[0]].plus(Affine(((axis, 1),), 0), -1)


@dataclass(frozen=True, slots=True)
class _Panels:
    """How the words of the right factor lie in panels: the ``dimension`` of its columns becomes, from column ``start``
    on, a ``block`` of columns and a place ``within`` it."""

    dimension: int
    start: int
    block: Axis
    within: Axis


@dataclass(frozen=True, slots=True)
class _Part:
    """A dimension of a copy: where it stands among the others, the axis that walks over it, and what sums read."""

    rank: int
    axis: Axis
    read: Expression


class _Packing:
    """How a sum is packed, and what its statements have in common: copies, and sums of one factor, by what they are
    made of."""

    def __init__(
        self, found: Sum, axis: Axis, operation: str, surroundings: Surroundings, inside: Expression | None
    ) -> None:
        self.axis, self.operation, self.inside = axis, operation, inside
        self.per_word = WORD_PRODUCTS[operation]
        self.word = Axis("w", -(-axis.size // self.per_word))
        self.target, self.fixed = surroundings.target, surroundings.fixed
        self.has_filter_panels = found.has_window_axes and self._are_worth_panels(found)
        self.in_tiles = bool(machine_instructions(surroundings.target.machine).find("tiles of signed rows", I32))
        has_taps = any(a.size > 1 for a in found.fold.axes if a is not axis)
        self.has_words_last = operation == "dot2" and self.has_filter_panels and has_taps
        self.has_rows_of_points = self.has_words_last or (self.in_tiles and self.has_filter_panels)
        self.found = Refinement()
        self.copies: dict[tuple[Load, int], Expression] = {}
        self.sums: dict[Expression, Expression] = {}

    def _are_worth_panels(self, found: Sum) -> bool:
        """Whether filters lie in panels: those that are fixed, and where words are copies in any case (``dot2``) those
        that many windows read."""
        image, _, _, *places = found.compute.axes
        windows = image.size * math.prod(axis.size for axis in places)
        is_shared = self.operation == "dot2" and windows >= self.target.tuning.windows_worth_panels
        return is_shared or found.right.load.tensor in self.fixed

    def words(self, factor: Factor) -> _Words:
        """How a factor is packed."""
        source, axis, per_word = factor.load, self.axis, self.per_word
        found = _words(source, axis, per_word) or _rows_of_windows(source, axis, per_word)
        assert found is not None
        return found


class _Statement:
    """One statement, and what it takes to compute it in words."""

    def __init__(self, packing: _Packing, packed: Sum, panels: _Panels | None = None) -> None:
        self.packing, self.packed, self.panels, self.found = packing, packed, panels, packing.found
        self.axis, self.operation = packing.axis, packing.operation
        self.word, self.per_word = packing.word, packing.per_word
        axes = tuple(self.word if a is self.axis else a for a in packed.fold.axes)
        self.axes = (*(a for a in axes if a is not self.word), self.word) if packing.has_words_last else axes

    def add(self) -> None:
        """The copies, the sums of the factors alone, and the statement itself."""
        rewrite = substitute({Part(self.packed.fold, 0): self._total()})
        stores = tuple(Store(s.tensor, s.coordinates, rewrite(s.value)) for s in self.packed.compute.stores)
        self.found.statements.append(Compute(self.packed.compute.axes, stores))

    def _total(self) -> Expression:
        """Of the bytes of ``dot4`` one factor's are unsigned and the other one's signed: of two alike the first is
        moved by 128."""
        left, right = self.packed.left, self.packed.right
        is_alike = self.per_word == BYTES and left.load.type is right.load.type
        moved = 0 if not is_alike else 128 if left.load.type is I8 else -128
        is_unsigned = (left.load.type is U8) != (moved != 0)
        in_place = None if moved or right.zero_point is not None else self._in_place(left)
        a = self._packed(left, 128 if moved else 0) if in_place is None else in_place
        b = self._packed(right, 0)
        ones = constant(0x01010101 if self.per_word == BYTES else 0x00010001, I32)
        a_zero, b_zero = left.zero_point, right.zero_point
        if moved:
            a_zero = constant(moved, I32) if a_zero is None else a_zero + moved
        where = self._where(constant(0, I32) if a_zero is None else a_zero)
        total = self._sum(a, b, where) if is_unsigned else self._sum(b, a, where)
        if b_zero is not None:
            total = total - b_zero * self._alone("left_sums", *((a, ones) if is_unsigned else (ones, a)))
        if a_zero is not None:
            total = total - a_zero * self._alone("right_sums", *((ones, b) if is_unsigned else (b, ones)))
        if a_zero is not None and b_zero is not None:
            total = total + a_zero * b_zero * self.packed.fold.steps
        return total

    def _where(self, zero: Expression) -> Expression | None:
        """Where steps of a sum matter: bytes outside are the ``zero`` point, so if that is 0 those are nothing. Of the
        bytes of a word all are there, inside or not. Only sums by panels are sure to leave any out without asking."""
        inside, is_zero = self.packing.inside, isinstance(zero, Const) and not zero.bits
        if inside is None or not is_zero or self.panels is None or self.packing.in_tiles:
            return None
        dependencies = Dependencies()
        limits = [limit for limit in conjuncts(inside) if self.axis not in dependencies.of(limit)]
        return both(limits) if limits else None

    def _sum(self, a: Expression, b: Expression, where: Expression | None = None) -> Expression:
        product = binary(self.operation, a, b)
        combine = simple_combine(lambda x, y: x + y, I32)
        is_same = where is not None
        fold = Fold(self.axes, (constant(0, I32),), (product,), combine, where, contract=True, is_same_anywhere=is_same)
        return Part(fold, 0)

    def _alone(self, name: str, a: Expression, b: Expression) -> Expression:
        """The sum of one factor, which only some of the axes move, in a tensor of its own."""
        total = self._sum(a, b)
        known = self.packing.sums
        if total not in known:
            moving = Dependencies().of(total)
            axes = tuple(axis for axis in self.packed.compute.axes if axis in moving)
            sums = temporary(name, I32, [axis.size for axis in axes] or [1])
            place = indices(axes) or (constant(0, index(self.word).type),)
            self.found.temporaries.append(sums)
            self.found.statements.append(Compute(axes, (Store(sums, place, total),)))
            known[total] = load(sums, place)
        return known[total]

    def _packed(self, factor: Factor, flipped: int) -> Expression:
        """The word that the sums load, of a copy of a factor's tensor in words; bits ``flipped`` in each element."""
        key, known = (factor.load, flipped), self.packing.copies
        if key not in known:
            known[key] = self._copied(factor, flipped)
        return known[key]

    def _copied(self, factor: Factor, flipped: int) -> Expression:
        source = factor.load.tensor
        words = self.packing.words(factor)
        if words.overlaps and words.count == 1 and not self._is_shared():
            return self._word_there(factor, words, flipped)
        panels = self.panels if factor is self.packed.right else None
        there, step, parts, run = list[Expression](), index(self.word), list[_Part](), None
        for d, (n, stride) in enumerate(zip(source.sizes, source.strides, strict=True)):
            rank = self._rank(factor, d)
            if d == words.dimension:
                group, word = grid([words.groups, words.count], "gw")
                both = [_Part(rank, group, words.group), _Part(rank, word, index(self.word))]
                parts += reversed(both) if words.overlaps else both  # Windows are next to one another.
                run = word if self._has_rows_of_left(factor, words) else None
                there.append(index(group) * words.step + words.first)
                step = index(word) * self.per_word
            elif panels is not None and d == panels.dimension:
                block, within = grid([panels.block.size, panels.within.size], "no")
                parts += [_Part(rank, block, index(panels.block)), _Part(3, within, index(panels.within))]
                there.append(index(block) * within.size + index(within) + panels.start)
            else:
                is_repeated = stride == 0
                axis = Axis(f"p{d}", 1 if is_repeated else n)
                parts.append(_Part(rank, axis, constant(0, step.type) if is_repeated else factor.load.coordinates[d]))
                there.append(index(axis))
        there[words.dimension] += step
        value = self._word(source, there, words.dimension, step, flipped)
        ordered = sorted(parts, key=lambda part: part.rank)
        copy = temporary(f"{source.name}_words", I32, [part.axis.size for part in ordered])
        if run is not None:
            pitch = pitch_of_run(run.size, copy.type.bits, self.packing.target) if self.packing.has_words_last else None
            copy = with_runs(copy, [part.axis for part in ordered].index(run), pitch)
        stored = Store(copy, indices(part.axis for part in ordered), cast(value, I32))
        self.found.temporaries.append(copy)
        self.found.statements.append(Compute(tuple(part.axis for part in parts), (stored,)))
        return load(copy, [part.read for part in ordered])

    def _word(
        self, source: Tensor, first: Sequence[Expression], dimension: int, step: Expression, flipped: int
    ) -> Expression:
        """The word of the elements that follow the ``first`` one along a dimension, which is at a ``step`` of the sum;
        zeros behind the last step."""
        bits, size = 32 // self.per_word, self.axis.size
        is_whole, count = size % self.per_word == 0 or size < self.per_word, min(size, self.per_word)
        value: Expression = constant(0, U32)
        for i in range(count):
            place = [c + i if d == dimension else c for d, c in enumerate(first)]
            part = cast(load(source, place), U8) if bits == 8 else cast(cast(load(source, place), I16), U16)
            if not is_whole:
                part = select(step + i < size, part ^ flipped, 0)
            value = value | cast(part, U32) << (bits * i)
        return value ^ flipped * (0x01010101 & (1 << bits * count) - 1) if is_whole else value

    def _is_shared(self) -> bool:
        """Whether words of the left factor are multiplied by several of the right one, so that a copy pays off."""
        dependencies = Dependencies()
        left, right = (dependencies.of(factor.load) for factor in (self.packed.left, self.packed.right))
        return any(axis in right and axis not in left for axis in self.packed.compute.axes)

    def _word_there(self, factor: Factor, words: _Words, flipped: int) -> Expression:
        """The word that a sum reads, made of the factor's bytes."""
        coordinates, step = list(factor.load.coordinates), index(self.word) * self.per_word
        coordinates[words.dimension] = words.group * words.step + words.first + step
        return cast(self._word(factor.load.tensor, coordinates, words.dimension, step, flipped), I32)

    def _in_place(self, factor: Factor) -> Expression | None:
        """The words of a factor where it lies, if they are there, and no sum of it alone wants them too."""
        source, words = factor.load.tensor, self.packing.words(factor)
        strides = list(source.strides)
        is_run = strides.pop(words.dimension) == 1 and not any(stride % 4 for stride in strides)
        is_plain = self.per_word == BYTES and self.panels is not None
        is_run &= not words.overlaps
        if not is_plain or not is_run or self.axis.size % self.per_word:
            return None
        return self._word_there(factor, words, 0)

    def _rank(self, factor: Factor, dimension: int) -> int:
        """Where a dimension stands in a copy. Of what is packed once, or in panels, dimensions are apart that the steps
        of the fold move along, so that neighbouring outputs lie next to each other at every step; but where tile
        registers take rows of it, the words of a sum are to lie next to each other, so they come last, and where they
        take columns of filters, the words of a tap and its outputs are a run."""
        form = affine(factor.load.coordinates[dimension])
        is_moved = any(form.coefficient(axis) for axis in self.packed.fold.axes)
        if factor is self.packed.right and self._has_rows_of_right():
            return 2 * (form.coefficient(self.axis) != 0) + is_moved
        is_word = self.packing.has_rows_of_points and form.coefficient(self.axis) != 0
        if factor is self.packed.right and self.panels is not None:  # Columns within a panel are last.
            return is_moved + is_word
        if factor is self.packed.right and self.packing.has_rows_of_points:
            return is_word if is_moved else 2
        return not is_moved if factor.load.tensor in self.packing.fixed else 0

    def _has_rows_of_left(self, factor: Factor, words: _Words) -> bool:
        """Whether points of an image are rows of tile registers: the words of each are next to each other then."""
        return self.packing.has_rows_of_points and factor is self.packed.left and not words.overlaps

    def _has_rows_of_right(self) -> bool:
        """Whether rows of the right factor are multiplied by columns of the left one, in tile registers: the left one
        is a run along the outputs, as in convolutions, and not along the words."""
        coordinates, column = self.packed.left.load.coordinates, self.packed.compute.axes[-1]
        form = affine(coordinates[-1])
        is_along = not form.coefficient(self.axis) and form.coefficient(column) == 1
        return self.packing.in_tiles and is_along and not self.packing.has_filter_panels
