"""Gradients of poolings: AVERAGE_POOLING_GRAD, MAX_POOLING_GRAD.

Both are stated as gathers: every element of the input's gradient sums over the windows that cover it, in row-major
order of the windows. So all elements are independent, and the sums have the order of the scatter that the formulas
describe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import (
    at,
    boolean,
    count_of,
    levels,
    tensor_input,
    tensor_output,
    uint_array,
)
from opendml.description.enums import OperatorType
from opendml.expression.element_types import BOOL, I64, U32, ElementType
from opendml.expression.folds import extreme_with_position, lowest, sum_of_terms
from opendml.expression.ir import (
    Axis,
    Const,
    Expression,
    Tensor,
    as_expression,
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
from opendml.expression.positions import row_major
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.definition import computation_type, tensor, widen
from opendml.operators.groups import Place
from opendml.operators.pooling import NO_POSITION, Windowed, check_windows

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class PoolingGradient(Windowed):
    """What the gradients share: the windows of the forward operator, over the gradient of its input.

    Along spatial dimension i the window of element o of ``input_gradient_tensor`` covers the elements
    ``o * strides[i] + k * dilations[i] - start_padding[i]`` of ``output_gradient_tensor``, 0 <= k < window_size[i].
    """

    # Every gradient has these, with its own fields beside them.
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc

    @property
    def image(self) -> TensorDesc:
        """The gradient of the input, which is the output."""
        return self.output_gradient_tensor


class _Walk(NamedTuple):
    """The elements of one dimension, and the windows that may cover each of them: as many as ``reaching`` says, whose
    number, from ``lowest`` to ``highest``, and whether they do is found by ``window``."""

    axis: Axis
    reaching: int
    lowest: int
    highest: int
    window: Callable[[Expression], tuple[Expression, Expression]]


class _Dimension(NamedTuple):
    """One spatial dimension of a gradient: ``size`` elements under so many ``windows`` of ``taps`` elements."""

    name: str
    size: int
    windows: int
    taps: int
    stride: int
    dilation: int
    padding: int

    @property
    def span(self) -> int:
        """The elements from the first to the last one of a window."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def walk(self) -> _Walk:
        """How the elements find their windows: whichever way asks about the fewest."""
        reaching = self.taps if self.stride == 1 else -(-self.span // self.stride)
        if reaching >= self.windows:
            return self._under_any_window()
        return self._under_neighbours() if self.stride == 1 else self._under_last_windows(reaching)

    def _under_any_window(self) -> _Walk:
        """All windows are asked: each element lies under most of them."""
        axis = Axis(self.name, self.size)

        def window(tap: Expression) -> tuple[Expression, Expression]:
            distance = index(axis) + self.padding - tap * self.stride
            return tap, (distance >= 0) & (distance < self.span) & self._is_on_grid(distance)

        return _Walk(axis, self.windows, 0, self.windows - 1, window)

    def _under_neighbours(self) -> _Walk:
        """Windows that begin at every element: one for each of their taps."""
        axis, first = Axis(self.name, self.size), self.padding - (self.taps - 1) * self.dilation

        def window(tap: Expression) -> tuple[Expression, Expression]:
            return index(axis) + first + tap * self.dilation, constant(True, BOOL)

        return _Walk(axis, self.taps, first, self.size - 1 + self.padding, window)

    def _under_last_windows(self, reaching: int) -> _Walk:
        """Element p lies in window ``(p + padding) / stride``, the last one that begins before it, and in ``reaching``
        - 1 windows before that."""
        axis = Axis(self.name, self.size)
        place, before = index(axis) + self.padding, reaching - 1

        def window(tap: Expression) -> tuple[Expression, Expression]:
            number = place // self.stride - before + tap
            distance = place % self.stride + (before - tap) * self.stride
            covered = distance < self.span if reaching * self.stride > self.span else constant(True, BOOL)
            return number, covered & self._is_on_grid(distance)

        lowest, highest = self.padding // self.stride - before, (self.size - 1 + self.padding) // self.stride
        return _Walk(axis, reaching, lowest, highest, window)

    def _is_on_grid(self, distance: Expression) -> Expression:
        """Whether a window has an element so far from its first one, which is not outside of it."""
        return (distance % self.dilation).equals(0) if self.dilation > 1 else constant(True, BOOL)


class _Windows:
    """The values of windows, and the elements under them that sum them up: those of the windows that exist."""

    def __init__(self, desc: PoolingGradient) -> None:
        self.desc = desc
        self.sizes = desc.input_gradient_tensor.sizes
        self.target = tensor("OutputGradientTensor", desc.output_gradient_tensor, "output")
        self.dimensions = [
            _Dimension(
                "zyx"[i - len(desc.window_size)],
                self.target.sizes[2 + i],
                self.sizes[2 + i],
                desc.window_size[i],
                desc.strides[i],
                desc.window_dilations[i],
                desc.start_padding[i],
            ).walk
            for i in range(len(desc.window_size))
        ]
        self.statements: list[Statement] = []
        self.temporaries: list[Tensor] = []

    def keep(self, name: str, type: ElementType, value: Callable[[Sequence[Axis]], Expression]) -> Tensor:
        """A tensor of the windows' values."""
        kept = temporary(name, type, self.sizes)
        self.temporaries.append(kept)
        axes = grid(self.sizes)
        self.statements.append(Compute(axes, (Store(kept, indices(axes), value(axes)),)))
        return kept

    def spread(
        self,
        term: Callable[[Place, Place], Expression],
        finish: Callable[[Expression], Expression] = lambda total: total,
    ) -> None:
        """Stores, in every element, ``finish`` of the sum of ``term(place of the window, of the element)`` from +0
        on, over the windows that cover it, in row-major order."""
        plane, walks = grid(self.target.sizes[:2], "nc"), self.dimensions
        place = (*indices(plane), *(index(walk.axis) for walk in walks))

        def term_at(taps: Sequence[Expression]) -> tuple[Expression, Expression]:
            found = [walk.window(tap) for walk, tap in zip(walks, taps, strict=True)]
            windows = [window for window, _ in found]
            where = both(condition for _, condition in found)
            exists = both(map(self._exists, walks, windows, self.sizes[2:]))
            return term((*place[:2], *windows), place), where & exists

        value = cast(finish(sum_of_terms([walk.reaching for walk in walks], term_at)), self.target.type)
        axes = (*plane, *(walk.axis for walk in walks))
        self.statements.append(Compute(axes, (Store(self.target, place, value),)))

    def _exists(self, walk: _Walk, window: Expression, count: int) -> Expression:
        """Whether there is a window of that number; only what can fail is asked."""
        exists = as_expression(window >= 0 if walk.lowest < 0 else True, BOOL)
        return exists & (window < count if walk.highest >= count else constant(True, BOOL))

    def definition(self, *inputs: Tensor) -> Definition:
        """What the statements compute."""
        return Definition(inputs, (self.target,), tuple(self.statements), tuple(self.temporaries))


class AveragePoolingGrad(PoolingGradient, type=OperatorType.AVERAGE_POOLING_GRAD, since="3_0"):
    """Back-propagation gradient of average pooling: spreads each gradient evenly over its window.

    ``include_padding``: each gradient is divided by the size of the window instead of the number of its elements
    inside the pooled tensor.
    """

    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of(
        "window_size", default=None, rank_of=("output_gradient_tensor", "input_gradient_tensor"), less=2
    )
    strides: Integers = uint_array(count="dimension_count")
    window_size: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")
    include_padding: Value[bool] = boolean()

    support = levels(at("3_0", (4, 5), FLOATS))

    def check(self, rules: Rules) -> None:
        """The gradient has the sizes of the pooling's output."""
        rules.same_data_type("input_gradient_tensor", "output_gradient_tensor")
        rules.same_rank("input_gradient_tensor", "output_gradient_tensor")
        check_windows(rules, "output_gradient_tensor", "input_gradient_tensor")

    def define(self) -> Definition:
        """Where all windows have as many elements, one division of the sum; else the quotients first."""
        source = tensor("InputGradientTensor", self.input_gradient_tensor, "input")
        windows = _Windows(self)
        size = constant(math.prod(self.window_size), I64)
        count = size if self.include_padding else self.window(grid(source.sizes)).element_count
        if isinstance(count, Const):
            # Where no window has an element of the tensor, all sums are of nothing, and nothing divided by 1 is 0.
            divisor = constant(max(int(count.value), 1), I64)
            windows.spread(
                lambda window, _: widen(load(source, window)), lambda total: total / cast(divisor, total.type)
            )
            return windows.definition(source)

        def quotient(axes: Sequence[Axis]) -> Expression:
            gradient = widen(load(source, indices(axes)))
            return gradient / cast(self.window(axes).element_count, gradient.type)

        quotients = windows.keep("quotients", computation_type(source.type), quotient)
        windows.spread(lambda window, _: load(quotients, window))
        return windows.definition(source)


class MaxPoolingGrad(PoolingGradient, type=OperatorType.MAX_POOLING_GRAD, since="3_0"):
    """Back-propagation gradient of max pooling: adds each gradient to the position of its window's maximum.

    Among equal maxima the first one of the window in row-major order; a NaN is the maximum, the first one of them.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    dimension_count: Count = count_of(
        "window_size", default=None, rank_of=("input_tensor", "output_gradient_tensor", "input_gradient_tensor"), less=2
    )
    strides: Integers = uint_array(count="dimension_count")
    window_size: Integers = uint_array(count="dimension_count")
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")
    dilations: Integers = uint_array(count="dimension_count")

    support = levels(at("4_0", (4, 5), FLOATS), at("3_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """The gradients have the sizes of the pooling's output and input."""
        rules.same_data_type("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
        rules.same_rank("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
        rules.same_sizes("input_tensor", "output_gradient_tensor")
        check_windows(rules, "input_tensor", "input_gradient_tensor")

    def define(self) -> Definition:
        """First the position of every window's maximum, then the sums of those gradients whose position it is."""
        source = tensor("InputTensor", self.input_tensor, "input")
        gradient = tensor("InputGradientTensor", self.input_gradient_tensor, "input")
        windows = _Windows(self)
        positions = windows.keep("positions", U32, lambda axes: self._position(source, axes))

        def chosen(window: Place, place: Place) -> Expression:
            here = cast(row_major(place[2:], source.sizes[2:]), U32)
            return select(load(positions, window).equals(here), widen(load(gradient, window)), 0)

        windows.spread(chosen)
        return windows.definition(source, gradient)

    def _position(self, source: Tensor, axes: Sequence[Axis]) -> Expression:
        """Where in its plane the largest element of a window is, modulo 2**32; no plane has more elements."""
        window = self.window(axes)
        element = widen(load(source, window.coordinates))
        start = (lowest(element.type), cast(window.first_step, U32))
        _, step = extreme_with_position("gt", window.taps, element, cast(window.step, U32), start, window.where)
        origin = cast(row_major([d.origin for d in window.dimensions], source.sizes[2:]), U32)
        return select(window.has_elements, origin + step, NO_POSITION)
