"""SCATTER_ELEMENTS, SCATTER_ND, ONE_HOT: writing where indices say.

What an index outside of its dimension addresses is not written. Of several updates of one element the last one in
logical order stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, FLOATS, INDICES, UINT32_ONLY, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.description.enums import OperatorType
from opendml.expression.element_types import I32
from opendml.expression.ir import Expression, Tensor, both, cast, constant, grid, indices, load, select
from opendml.expression.statements import Definition, Scatter, Store
from opendml.operators.definition import every_element, tensor
from opendml.operators.gathering import IndexTuples, check_index_tuples, index_inside

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class ScatterElements(Operator, type=OperatorType.SCATTER_ELEMENTS, since="2_0"):
    """Copies the input, then overwrites the elements that indices address along one axis.

    SCATTER is an older name of it.

    ``output[i, indices[i, j, k], k] = updates[i, j, k]`` for ``axis`` 1. A negative index counts from the end.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    updates_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()

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
        """A copy with updates, the last one of each element."""
        axis, size = self.axis, self.output_tensor.sizes[self.axis]

        def place(chosen: Tensor, target: Tensor, o: tuple[Expression, ...]) -> _Place:
            position, inside = index_inside(load(chosen, o), size)
            return (*o[:axis], position, *o[axis + 1 :]), inside

        return _updated(self, place)


class ScatterNd(Operator, type=OperatorType.SCATTER_ND, since="2_1"):
    """Copies the input, then overwrites the blocks that index tuples address.

    The last dimension of the indices is one tuple: coordinates of the first of the ``input_dimension_count`` last
    dimensions of the input. The updates have the other dimensions of the indices and then those of a block, aligned to
    the right. A negative coordinate counts from the end.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    updates_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    input_dimension_count: Integer = uint()
    indices_dimension_count: Integer = uint()

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
        """A copy with updates, the last one of each element."""
        counts = self.input_dimension_count, self.indices_dimension_count

        def place(chosen: Tensor, target: Tensor, o: tuple[Expression, ...]) -> _Place:
            tuples = IndexTuples(target, chosen, *counts)
            found = zip(tuples.coordinates(o), tuples.indexed_sizes, strict=True)
            positions = [index_inside(coordinate, size) for coordinate, size in found]
            return tuples.place(o, [position for position, _ in positions]), both(inside for _, inside in positions)

        return _updated(self, place)


class OneHot(Operator, type=OperatorType.ONE_HOT, since="2_0"):
    """Fills the output with one value, except for another one at the index given for every line along an axis.

    The first element of the values is the usual one; the second, along their last dimension larger than 1, is the one
    at the index. A negative index counts from the end; one outside of the line marks nothing.
    """

    indices_tensor: Value[TensorDesc] = tensor_input()
    values_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()

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
        sizes = rules.sizes("values_tensor")
        if sizes is not None and None not in sizes:
            must = "must hold two values"
            rules.require(sizes.count(1) < len(sizes), "values_tensor.sizes", must, sizes, breaks=False)

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


_Place = tuple[tuple[Expression, ...], Expression]
_PlaceOf = Callable[[Tensor, Tensor, tuple[Expression, ...]], _Place]


def _updated(desc: ScatterElements | ScatterNd, place: _PlaceOf) -> Definition:
    """The input with updates: ``place(indices, output, o)`` is where update ``o`` belongs, and whether it is one."""
    source = tensor("InputTensor", desc.input_tensor, "input")
    chosen = tensor("IndicesTensor", desc.indices_tensor, "input")
    updates = tensor("UpdatesTensor", desc.updates_tensor, "input")
    target = tensor("OutputTensor", desc.output_tensor, "output")
    axes = grid(updates.sizes)
    coordinates, inside = place(chosen, target, indices(axes))
    copy = every_element(target, lambda o: load(source, o))
    scatter = Scatter(axes, inside, Store(target, coordinates, load(updates, indices(axes))))
    return Definition((source, chosen, updates), (target,), (copy, scatter))
