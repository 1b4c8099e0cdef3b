"""REDUCE, ARGMIN, ARGMAX: one value out of all elements along some dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from opendml.description.data_types import (
    ALL_BUT_FLOAT64,
    FLOATS,
    FLOATS_AND_32_BIT,
    FLOATS_AND_32_TO_64_BIT,
    INDICES,
    UINT32_ONLY,
    UP_TO_32_BIT,
)
from opendml.description.descriptors import (
    LevelSupport,
    Operator,
    Support,
    at,
    count_of,
    enumeration,
    tensor_input,
    tensor_output,
    uint_array,
)
from opendml.description.enums import AxisDirection, OperatorType, ReduceFunction
from opendml.expression.element_types import ElementType
from opendml.expression.folds import highest, lowest, maximum, minimum
from opendml.expression.ir import Expression, Tensor, constant, load, select, unary
from opendml.expression.mathematics import exp, log
from opendml.expression.reductions import Reduction, extreme_number_and_position, one_value, reduction, sum_start
from opendml.expression.statements import Definition
from opendml.operators.definition import computation_type, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

# The documentation has one table for each group of functions.
_SUPPORT: dict[str, Support] = {
    "ARGMIN ARGMAX": (
        at("4_1", (1, 8), ALL_BUT_FLOAT64, output_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, output_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, output_tensor=UINT32_ONLY),
        at("1_0", (4, 4), FLOATS, output_tensor=UINT32_ONLY),
    ),
    "AVERAGE L2 LOG_SUM LOG_SUM_EXP": (
        at("3_0", (1, 8), FLOATS),
        at("1_0", (4, 4), FLOATS),
    ),
    "L1 SUM_SQUARE": (
        at("5_0", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS),
        at("1_0", (4, 4), FLOATS),
    ),
    "MIN MAX": (
        at("5_0", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
        at("1_0", (4, 4), FLOATS),
    ),
    "MULTIPLY SUM": (
        at("5_0", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
        at("1_0", (4, 4), FLOATS),
    ),
}


def _union(tables: dict[str, Support]) -> Support:
    """What at least one of the functions allows, level by level."""
    rows: list[LevelSupport] = []
    for level in sorted({row.level for table in tables.values() for row in table}, reverse=True):
        current = [max(row for row in table if row.level <= level) for table in tables.values()]
        types = [{data_type for row in current for data_type in row.of(name).data_types} for name in _TENSORS]
        ranks = min(row.ranks[0] for row in current), max(row.ranks[1] for row in current)
        ordered = [tuple(data_type for data_type in ALL_BUT_FLOAT64 if data_type in found) for found in types]
        rows.append(LevelSupport(level, ranks, ordered[0], (("output_tensor", ordered[1]),)))
    return tuple(rows)


_TENSORS = ("input_tensor", "output_tensor")


class Reduce(Operator, type=OperatorType.REDUCE, since="1_0"):
    """Reduces one or more dimensions of a tensor with a selectable function (sum, product, minimum, norm ...).

    The reduced dimensions stay, with size 1. ARGMAX and ARGMIN give the index of the first extreme, counted row-major
    over the reduced dimensions.
    """

    function: Member[ReduceFunction] = enumeration(ReduceFunction)
    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis_count: Count = count_of("axes", default=None)
    axes: Integers = uint_array(count="axis_count")

    support = _union(_SUPPORT)
    support_variants = _SUPPORT

    def support_table(self) -> Support:
        """The table of the function, or of all functions together if it is none."""
        name = self.function.name if isinstance(self.function, ReduceFunction) else ""
        return next((table for names, table in _SUPPORT.items() if name in names.split()), self.support)

    def check(self, rules: Rules) -> None:
        """The output has size 1 along the axes."""
        if rules.ready("function") and self.function not in (ReduceFunction.ARGMIN, ReduceFunction.ARGMAX):
            rules.same_data_type("input_tensor", "output_tensor")
        _check_axes(rules)

    def define(self) -> Definition:
        """One fold, in pieces where there are few outputs; float16 is folded in float32 and rounded once."""
        return _define(self, _DEFINITIONS[self.function])


class ExtremePosition(Operator):
    """What ARGMIN and ARGMAX share."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis_count: Count = count_of("axes", default=None)
    axes: Integers = uint_array(count="axis_count")
    axis_direction: Member[AxisDirection] = enumeration(AxisDirection)

    support = _SUPPORT["ARGMIN ARGMAX"][:2]
    comparison: ClassVar[str]

    def check(self, rules: Rules) -> None:
        """The output has size 1 along the axes."""
        _check_axes(rules)

    def define(self) -> Definition:
        """One fold, in pieces where there are few outputs."""
        return _define(self, _position(self.comparison, self.axis_direction is AxisDirection.DECREASING))


class Argmin(ExtremePosition, type=OperatorType.ARGMIN, since="3_0"):
    """Index of the smallest element along some dimensions, the first or the last one of equals.

    The reduced dimensions stay, with size 1. The index counts row-major over the reduced dimensions.
    """

    comparison = "lt"


class Argmax(ExtremePosition, type=OperatorType.ARGMAX, since="3_0"):
    """Index of the largest element along some dimensions, the first or the last one of equals.

    The reduced dimensions stay, with size 1. The index counts row-major over the reduced dimensions.
    """

    comparison = "gt"


def _check_axes(rules: Rules) -> None:
    rules.same_rank("input_tensor", "output_tensor")
    rules.axes_in_range("axes", "input_tensor")
    axes, sizes = rules.elements("axes") or (), rules.sizes("input_tensor")
    for axis in dict.fromkeys(axes):
        if axis is not None:
            rules.size_is("output_tensor", axis, 1, why="as Axes names the dimension")
    if sizes is not None:
        # An axis that is not known may be any of the others.
        others = [None if i in axes or None in axes else size for i, size in enumerate(sizes)]
        rules.sizes_are("output_tensor", others, "InputTensor.Sizes[i]", "as Axes does not name the dimension")


def _define(desc: Reduce | ExtremePosition, reduce: Callable[[Reduction, Tensor], None]) -> Definition:
    output = tensor("OutputTensor", desc.output_tensor, "output")
    work = reduction(tensor("InputTensor", desc.input_tensor, "input"), desc.axes)
    reduce(work, output)
    return Definition((work.source,), (output,), tuple(work.statements), tuple(work.temporaries))


def _extreme(
    operation: Callable[[Expression, Expression], Expression], start: Callable[[ElementType], Expression]
) -> Callable[[Reduction, Tensor], None]:
    """MAX and MIN: the first NaN, else the extreme."""

    def define(work: Reduction, output: Tensor) -> None:
        reducer = one_value(operation, start(computation_type(output.type)), lambda value, point: widen(value))
        work.reduce(reducer, output)

    return define


def _position(comparison: str, last: bool = False) -> Callable[[Reduction, Tensor], None]:
    """ARGMAX and ARGMIN: the position of the first (or last) extreme number; NaN are passed over."""

    def define(work: Reduction, output: Tensor) -> None:
        reducer = extreme_number_and_position(comparison, computation_type(work.source.type), widen, last)
        work.reduce(reducer, output, lambda values, place: values[1])

    return define


def _sum(
    enter: Callable[[Expression], Expression] = lambda x: x,
    finish: Callable[[Expression, int], Expression] = lambda total, count: total,
) -> Callable[[Reduction, Tensor], None]:
    """``finish(sum of enter(x), number of elements)``."""

    def define(work: Reduction, output: Tensor) -> None:
        count = math.prod(work.sizes) // math.prod(output.sizes)
        start = sum_start(computation_type(output.type))
        reducer = one_value(lambda a, b: a + b, start, lambda value, point: enter(widen(value)))
        work.reduce(reducer, output, lambda values, place: finish(values[0], count))

    return define


def _product(work: Reduction, output: Tensor) -> None:
    start = constant(1, computation_type(output.type))
    work.reduce(one_value(lambda a, b: a * b, start, lambda value, point: widen(value)), output)


def _log_sum_exp(work: Reduction, output: Tensor) -> None:
    """Without overflow: the maximum is taken out, unless it is infinite (then there is nothing to save)."""
    type = computation_type(output.type)
    largest = work.intermediate("maximum", type)
    work.reduce(one_value(maximum, lowest(type), lambda value, point: widen(value)), largest)

    def shift(place: tuple[Expression, ...]) -> Expression:
        value = load(largest, place)
        return select(unary("abs", value) < float("inf"), value, 0)

    exponentials = one_value(
        lambda a, b: a + b, sum_start(type), lambda value, point: exp(widen(value) - shift(point.output))
    )
    work.reduce(exponentials, output, lambda values, place: log(values[0]) + shift(place))


def _magnitude(x: Expression) -> Expression:
    return x if x.type.kind == "uint" else unary("abs", x)


_DEFINITIONS: Final[dict[ReduceFunction, Callable[[Reduction, Tensor], None]]] = {
    ReduceFunction.ARGMAX: _position("gt"),
    ReduceFunction.ARGMIN: _position("lt"),
    ReduceFunction.AVERAGE: _sum(finish=lambda total, count: total / count),
    ReduceFunction.L1: _sum(_magnitude),
    ReduceFunction.L2: _sum(lambda x: x * x, lambda total, count: unary("sqrt", total)),
    ReduceFunction.LOG_SUM: _sum(finish=lambda total, count: log(total)),
    ReduceFunction.LOG_SUM_EXP: _log_sum_exp,
    ReduceFunction.MAX: _extreme(maximum, lowest),
    ReduceFunction.MIN: _extreme(minimum, highest),
    ReduceFunction.MULTIPLY: _product,
    ReduceFunction.SUM: _sum(),
    ReduceFunction.SUM_SQUARE: _sum(lambda x: x * x),
}
