"""SCATTER, SCATTER_ND, ONE_HOT: writing where indices say.

What an index outside of its dimension addresses is not written. Of several updates of one element the last one in
logical order stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import ALL, FLOATS, INDICES, UINT32_ONLY, UP_TO_32_BIT
from opendml.definition import every_element, tensor
from opendml.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.enums import OperatorType
from opendml.expression.ir import (
    I32,
    Axis,
    Definition,
    Expression,
    Store,
    both,
    cast,
    constant,
    grid,
    indices,
    load,
    select,
)
from opendml.expression.ir import Scatter as ScatterStatement
from opendml.operators.gathering import IndexTuples, check_index_tuples, index_inside

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Scatter(Operator, type=OperatorType.SCATTER, since="2_0"):
    """Copies the input, then overwrites the elements that indices address along one axis (SCATTER_ELEMENTS).

    ``output[i, indices[i, j, k], k] = updates[i, j, k]`` for ``axis`` 1. A negative index counts from the end.
    """

    input_tensor: TensorDesc = tensor_input()
    indices_tensor: TensorDesc = tensor_input()
    updates_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    axis: int = uint()

    # The documentation says 1_0 for the oldest table; the header, and the history of feature levels, have it from 2_0.
    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
        at("2_0", (4, 4), FLOATS, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """One index an update; the input's sizes but for the axis."""
        rules.same_data_type("input_tensor", "updates_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "updates_tensor", "output_tensor")
        rules.axis_in_range("axis", "input_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        rules.same_sizes_but_for_axis("indices_tensor", "input_tensor")
        rules.same_sizes("indices_tensor", "updates_tensor")

    def define(self) -> Definition:
        """A copy, then the updates in order."""
        axis, chosen = self.axis, tensor("IndicesTensor", self.indices_tensor, "input")
        axes = grid(chosen.sizes)
        o = indices(axes)
        position, inside = index_inside(load(chosen, o), self.output_tensor.sizes[axis])
        return _updated(self, axes, inside, (*o[:axis], position, *o[axis + 1 :]))


class ScatterNd(Operator, type=OperatorType.SCATTER_ND, since="2_1"):
    """Copies the input, then overwrites the blocks that index tuples address.

    The last dimension of the indices is one tuple: coordinates of the first of the ``input_dimension_count`` last
    dimensions of the input. The updates have the other dimensions of the indices and then those of a block, aligned to
    the right. A negative coordinate counts from the end.
    """

    input_tensor: TensorDesc = tensor_input()
    indices_tensor: TensorDesc = tensor_input()
    updates_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    input_dimension_count: int = uint()
    indices_dimension_count: int = uint()

    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """The updates have the sizes of the indices and of a block."""
        rules.same_data_type("input_tensor", "updates_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "updates_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        check_index_tuples(rules, "updates_tensor")

    def define(self) -> Definition:
        """A copy, then the updates in order."""
        target = tensor("OutputTensor", self.output_tensor, "output")
        chosen = tensor("IndicesTensor", self.indices_tensor, "input")
        tuples = IndexTuples(target, chosen, self.input_dimension_count, self.indices_dimension_count)
        axes = grid(self.updates_tensor.sizes)
        found = zip(tuples.coordinates(indices(axes)), tuples.indexed_sizes, strict=True)
        positions, inside = zip(*(index_inside(coordinate, size) for coordinate, size in found), strict=True)
        return _updated(self, axes, both(inside), tuples.place(indices(axes), list(positions)))


class OneHot(Operator, type=OperatorType.ONE_HOT, since="2_0"):
    """Fills the output with one value, except for another one at the index given for every line along an axis.

    The first element of the values is the usual one; the second, along their last dimension larger than 1, is the one
    at the index. A negative index counts from the end; one outside of the line marks nothing.
    """

    indices_tensor: TensorDesc = tensor_input()
    values_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    axis: int = uint()

    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
        at("2_0", (4, 4), FLOATS, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """One index a line, and two values."""
        rules.same_data_type("values_tensor", "output_tensor")
        rules.same_rank("indices_tensor", "values_tensor", "output_tensor")
        rules.axis_in_range("axis", "indices_tensor")
        rules.same_sizes_but_for_axis("indices_tensor", "output_tensor", 1)
        if rules.ready("values_tensor"):
            count = self.values_tensor.element_count
            rules.require(count >= 2, "values_tensor.sizes", "must hold two values", self.values_tensor.sizes)

    def define(self) -> Definition:
        """One comparison an element."""
        chosen = tensor("IndicesTensor", self.indices_tensor, "input")
        values = tensor("ValuesTensor", self.values_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        size = target.sizes[self.axis]
        second = max(d for d, length in enumerate(values.sizes) if length > 1)
        off, on = (load(values, [int(d == second) * n for d in range(len(values.sizes))]) for n in range(2))

        def value(o: tuple[Expression, ...]) -> Expression:
            line = (*o[: self.axis], constant(0, o[self.axis].type), *o[self.axis + 1 :])
            position, inside = index_inside(load(chosen, line), size)
            # Positions of 32 bits take half the registers of those of 64.
            type = I32 if size <= 1 << 31 else position.type
            hot = select(inside, cast(position, type), -1)
            return select(cast(o[self.axis], type).equals(hot), on, off)

        return Definition((chosen, values), (target,), (every_element(target, value),))


def _updated(
    desc: Scatter | ScatterNd, axes: tuple[Axis, ...], where: Expression, place: tuple[Expression, ...]
) -> Definition:
    """The input, with the updates at their places; ``axes`` are those of the updates."""
    source = tensor("InputTensor", desc.input_tensor, "input")
    chosen = tensor("IndicesTensor", desc.indices_tensor, "input")
    updates = tensor("UpdatesTensor", desc.updates_tensor, "input")
    target = tensor("OutputTensor", desc.output_tensor, "output")
    copy = every_element(target, lambda o: load(source, o))
    scatter = ScatterStatement(axes, where, Store(target, place, load(updates, indices(axes))))
    return Definition((source, chosen, updates), (target,), (copy, scatter))
