"""GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1: selecting parts of a tensor by indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opendml.description.data_types import ALL, FLOATS, INDICES, UINT32_ONLY, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.description.enums import OperatorType
from opendml.expression.ir import (
    I64,
    Definition,
    Expression,
    Tensor,
    binary,
    cast,
    clamp_index,
    constant,
    in_range,
    load,
    select,
)
from opendml.operators.definition import every_element, tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Gather(Operator, type=OperatorType.GATHER, since="1_0"):
    """Selects slices of the input along one axis by an index tensor.

    The output has the input's sizes with the one at ``axis`` replaced by the last ``index_dimensions`` sizes of the
    indices, aligned to the right. A negative index counts from the end of the axis.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()
    index_dimensions: Integer = uint()

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


class GatherElements(Operator, type=OperatorType.GATHER_ELEMENTS, since="2_1"):
    """Gathers single elements along one axis; the index tensor has the output's sizes.

    ``output[i, j, k] = input[i, indices[i, j, k], k]`` for ``axis`` 1. A negative index counts from the end.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()

    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """One index an element of the output; the input's sizes but for the axis."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "output_tensor")
        rules.axis_in_range("axis", "input_tensor")
        rules.same_sizes_but_for_axis("indices_tensor", "input_tensor")
        rules.same_sizes("indices_tensor", "output_tensor")

    def define(self) -> Definition:
        """One copy whose coordinate along the axis is read from the indices."""
        source = tensor("InputTensor", self.input_tensor, "input")
        chosen = tensor("IndicesTensor", self.indices_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")

        def value(o: tuple[Expression, ...]) -> Expression:
            position = element_index(load(chosen, o), source.sizes[self.axis])
            return load(source, (*o[: self.axis], position, *o[self.axis + 1 :]))

        return Definition((source, chosen), (target,), (every_element(target, value),))


class GatherNd(Operator, type=OperatorType.GATHER_ND, since="2_1"):
    """Gathers whole blocks of the input that index tuples address.

    The last dimension of the indices is one tuple: coordinates of the first of the ``input_dimension_count`` last
    dimensions of the input. The output has the other dimensions of the indices and then those of a block, aligned to
    the right. A negative coordinate counts from the end.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    indices_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    input_dimension_count: Integer = uint()
    indices_dimension_count: Integer = uint()

    support = levels(
        at("4_1", (1, 8), ALL, indices_tensor=INDICES),
        at("3_0", (1, 8), UP_TO_32_BIT, indices_tensor=INDICES),
        at("2_1", (4, 4), UP_TO_32_BIT, indices_tensor=UINT32_ONLY),
    )

    @property
    def batches(self) -> int:
        """Leading dimensions that input and indices have in common."""
        return 0

    def check(self, rules: Rules) -> None:
        """The output has the sizes of the indices and of a block."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "output_tensor")
        check_index_tuples(rules, "output_tensor", self.batches)

    def define(self) -> Definition:
        """One copy whose first coordinates are read from the indices."""
        source = tensor("InputTensor", self.input_tensor, "input")
        chosen = tensor("IndicesTensor", self.indices_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        tuples = IndexTuples(source, chosen, self.input_dimension_count, self.indices_dimension_count, self.batches)

        def value(o: tuple[Expression, ...]) -> Expression:
            coordinates = tuples.coordinates(o)
            clamped = [element_index(i, size) for i, size in zip(coordinates, tuples.indexed_sizes, strict=True)]
            return load(source, tuples.place(o, clamped))

        return Definition((source, chosen), (target,), (every_element(target, value),))


class GatherNd1(GatherNd, type=OperatorType.GATHER_ND1, since="3_0"):
    """Gathers blocks of the input that index tuples address, batch by batch.

    As GATHER_ND, with ``batch_dimension_count`` leading dimensions that the input and the indices share; the
    coordinates begin behind them.
    """

    batch_dimension_count: Integer = uint()

    support = GatherNd.support[:2]

    @property
    def batches(self) -> int:
        """Leading dimensions that input and indices have in common."""
        return self.batch_dimension_count

    def check(self, rules: Rules) -> None:
        """Both tensors have more dimensions than batches, and the same batches."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "indices_tensor", "output_tensor")
        for count in ("input_dimension_count", "indices_dimension_count"):
            if rules.ready("batch_dimension_count", count):
                most = rules.integer(count)
                must = f"must be less than {rules.location(count)} = {most}"
                rules.require(self.batches < most, "batch_dimension_count", must, self.batches)
        if rules.ready("batch_dimension_count"):
            check_index_tuples(rules, "output_tensor", self.batches)


class IndexTuples(NamedTuple):
    """How the tuples of an index tensor address blocks of another tensor: GATHER_ND, SCATTER_ND.

    Of the tensors' dimensions only the last ones count, as many as the two counts say. A *gathered* tensor has one
    block a tuple: the dimensions of the indices but the last one, then those of a block, aligned to the right.
    """

    whole: Tensor
    indices: Tensor
    whole_count: int
    indices_count: int
    batches: int = 0

    @property
    def tuple_size(self) -> int:
        """Coordinates of a tuple."""
        return self.indices.sizes[-1]

    @property
    def indexed_sizes(self) -> tuple[int, ...]:
        """The sizes of the dimensions that the coordinates of a tuple are for."""
        first = len(self.whole.sizes) - self.whole_count + self.batches
        return self.whole.sizes[first : first + self.tuple_size]

    def coordinates(self, place: tuple[Expression, ...]) -> list[Expression]:
        """The coordinates, as the indices give them, of the block that an element of the gathered tensor is in."""
        leading = len(self.indices.sizes) - self.indices_count
        at = (*_zeros(leading), *self._tuple_place(place))
        return [load(self.indices, (*at, constant(number, I64))) for number in range(self.tuple_size)]

    def place(self, place: tuple[Expression, ...], coordinates: list[Expression]) -> tuple[Expression, ...]:
        """Where an element of the gathered tensor is in the whole one."""
        leading = len(self.whole.sizes) - self.whole_count
        block = place[len(place) - self._block_rank :]
        return (*_zeros(leading), *self._tuple_place(place)[: self.batches], *coordinates, *block)

    @property
    def _block_rank(self) -> int:
        return self.whole_count - self.batches - self.tuple_size

    def _tuple_place(self, place: tuple[Expression, ...]) -> tuple[Expression, ...]:
        last = len(place) - self._block_rank
        return place[last - (self.indices_count - 1) : last]


def check_index_tuples(rules: Rules, gathered: str, batches: int = 0) -> None:
    """The rules of GATHER_ND and SCATTER_ND on sizes; ``gathered`` is the tensor with one block a tuple."""
    counts = ("input_dimension_count", "indices_dimension_count")
    for name, count in zip(("input_tensor", "indices_tensor"), counts, strict=True):
        _check_dimension_count(rules, name, count)
    if not rules.ready("input_tensor", "indices_tensor", *counts):
        return
    whole = rules.tensor("input_tensor").sizes[-rules.integer("input_dimension_count") :]
    indices = rules.tensor("indices_tensor").sizes[-rules.integer("indices_dimension_count") :]
    last = f"indices_tensor.sizes[{rules.tensor('indices_tensor').rank - 1}]"
    less = " - BatchDimensionCount" if batches else ""
    must = f"must be at most InputDimensionCount{less} = {len(whole) - batches}, the coordinates of one index"
    fits = rules.require(indices[-1] <= len(whole) - batches, last, must, indices[-1])
    rank = rules.tensor("input_tensor").rank
    for i, (size, expected) in enumerate(zip(indices[:batches], whole[:batches], strict=True), rank - len(indices)):
        must = f"must be {expected}, the size of the same batch dimension of InputTensor"
        fits &= rules.require(size == expected, f"indices_tensor.sizes[{i}]", must, size)
    sizes = (*indices[:-1], *whole[batches + indices[-1] :])
    if fits and rules.ready(gathered):
        must = f"must leave at most {rank} dimensions for {rules.location(gathered)}"
        if rules.require(len(sizes) <= rank, "indices_dimension_count", must, len(sizes)):
            padded = (*(1,) * (rank - len(sizes)), *sizes)
            rules.sizes_are(gathered, padded, "by the sizes of InputTensor and IndicesTensor")


def _check_dimension_count(rules: Rules, name: str, count: str) -> None:
    """A count of a tensor's last dimensions; those before them have size 1."""
    if not rules.ready(name, count):
        return
    value, sizes = rules.integer(count), rules.tensor(name).sizes
    must = f"must be from 1 to {rules.location(name)}.DimensionCount = {len(sizes)}"
    if rules.require(1 <= value <= len(sizes), count, must, value):
        for i, size in enumerate(sizes[:-value]):
            must = f"must be 1: the dimension is not among the last {rules.location(count)} ones"
            rules.require(size == 1, f"{name}.sizes[{i}]", must, size)


def _zeros(count: int) -> tuple[Expression, ...]:
    return (constant(0, I64),) * count


def index_inside(value: Expression, size: int) -> tuple[Expression, Expression]:
    """An element of an index tensor as a coordinate, and whether that is in ``range(size)``; negative ones count from
    the end."""
    if value.type.kind == "uint":
        return cast(value, I64), value < size
    position = cast(value, I64)
    position = select(position < 0, position + size, position)
    return position, in_range(position, size)


def element_index(value: Expression, size: int) -> Expression:
    """An element of an index tensor as a coordinate in ``range(size)``.

    Negative ones count from the end; what is still outside is moved to the nearest end, so nothing stray is read.
    """
    if value.type.kind == "uint":
        return cast(binary("min", value, size - 1), I64)
    position = cast(value, I64)
    return clamp_index(select(position < 0, position + size, position), size)
