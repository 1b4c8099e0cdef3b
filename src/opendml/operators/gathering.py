"""GATHER: selecting slices of a tensor by indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import ALL, FLOATS, INDICES, UINT32_ONLY, UP_TO_32_BIT
from opendml.definition import every_element, tensor
from opendml.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.enums import OperatorType
from opendml.expression.ir import I64, Definition, Expression, binary, cast, clamp_index, constant, load, select

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Gather(Operator, type=OperatorType.GATHER, since="1_0"):
    """Selects slices of the input along one axis by an index tensor.

    The output has the input's sizes with the one at ``axis`` replaced by the last ``index_dimensions`` sizes of the
    indices, aligned to the right. A negative index counts from the end of the axis.
    """

    input_tensor: TensorDesc = tensor_input()
    indices_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    axis: int = uint()
    index_dimensions: int = uint()

    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
        at("1_0", (4, 4), FLOATS, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """Everything fits into the common number of dimensions."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "output_tensor")
        rules.axis_in_range("axis", "input_tensor")
        if rules.ready("index_dimensions", "indices_tensor"):
            rank = self.indices_tensor.rank
            must = f"must be at most IndicesTensor.DimensionCount = {rank}"
            if rules.require(self.index_dimensions <= rank, "index_dimensions", must, self.index_dimensions):
                for i, size in enumerate(self.indices_tensor.sizes[: rank - self.index_dimensions]):
                    must = "must be 1: the dimension is not among the last IndexDimensions ones"
                    rules.require(size == 1, f"indices_tensor.sizes[{i}]", must, size)
        if rules.ready("input_tensor", "indices_tensor", "output_tensor", "axis", "index_dimensions"):
            self._check_output(rules)

    def _check_output(self, rules: Rules) -> None:
        rank, axis = self.input_tensor.rank, self.axis
        sizes = self.input_tensor.sizes
        indices = self.indices_tensor.sizes[rank - self.index_dimensions :]
        gathered = (*sizes[:axis], *indices, *sizes[axis + 1 :])
        surplus = max(len(gathered) - rank, 0)
        must = f"must leave room for IndexDimensions - 1 more dimensions: the first {surplus} output sizes must be 1"
        if rules.require(set(gathered[:surplus]) <= {1}, "input_tensor.sizes", must, gathered):
            expected = (*(1,) * (rank - len(gathered)), *gathered[surplus:])
            rules.sizes_are("output_tensor", expected, "by the sizes of InputTensor and IndicesTensor")

    def define(self) -> Definition:
        """One copy whose coordinate along the axis is read from the indices."""
        source = tensor("InputTensor", self.input_tensor, "input")
        chosen = tensor("IndicesTensor", self.indices_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        rank, axis, index_dimensions = len(target.sizes), self.axis, self.index_dimensions

        def value(o: tuple[Expression, ...]) -> Expression:
            # The output has the input's dimensions with those of the indices in place of the axis, aligned right;
            # the leading ones that find no room are of size 1.
            zeros = (constant(0, I64),) * rank
            gathered = (*zeros, *o)[-(rank - 1 + index_dimensions) :] if rank + index_dimensions > 1 else ()
            before, rest = gathered[:axis], gathered[axis:]
            at = (*zeros[index_dimensions:], *rest[:index_dimensions])
            position = element_index(load(chosen, at), source.sizes[axis])
            return load(source, (*before, position, *rest[index_dimensions:]))

        return Definition((source, chosen), (target,), (every_element(target, value),))


def element_index(value: Expression, size: int) -> Expression:
    """An element of an index tensor as a coordinate in ``range(size)``.

    Negative ones count from the end; what is still outside is moved to the nearest end, so nothing stray is read.
    """
    if value.type.kind == "uint":
        return cast(binary("min", value, size - 1), I64)
    position = cast(value, I64)
    return clamp_index(select(position < 0, position + size, position), size)
