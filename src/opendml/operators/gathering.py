"""GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1: selecting parts of a tensor by indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opendml.description.data_types import ALL, FLOATS, INDICES, UINT32_ONLY, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.description.enums import OperatorType
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, Tensor, binary, cast, clamp_index, constant, in_range, load, select
from opendml.expression.statements import Definition
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
        rank, count = rules.rank("indices_tensor"), rules.integer("index_dimensions")
        if rank is not None and count is not None:
            must = f"must be at most IndicesTensor.DimensionCount = {rank}"
            if rules.require(count <= rank, "index_dimensions", must, count):
                for i in range(rank - count):
                    why = "as the dimension is not among the last IndexDimensions ones"
                    rules.size_is("indices_tensor", i, 1, why=why)
        self._check_output(rules)

    def _check_output(self, rules: Rules) -> None:
        axis, count = rules.integer("axis"), rules.integer("index_dimensions")
        rank = rules.common_rank("input_tensor", "indices_tensor", "output_tensor")
        if axis is None or count is None or rank is None or axis >= rank or count > rank:
            return
        sizes, indices = (rules.sizes_of_rank(name, rank) for name in ("input_tensor", "indices_tensor"))
        places = [f"input_tensor.sizes[{i}]" for i in range(rank)]
        places[axis : axis + 1] = [f"indices_tensor.sizes[{i}]" for i in range(rank - count, rank)]
        gathered = [*sizes[:axis], *indices[rank - count :], *sizes[axis + 1 :]]
        surplus = max(len(gathered) - rank, 0)
        for size, place in zip(gathered[:surplus], places, strict=False):
            must = f"must be 1: Axis and IndexDimensions = {count} leave no room in OutputTensor for the dimension"
            rules.require(size in (1, None), place, must, size)
        if rules.rank("output_tensor") == rank:
            missing = max(rank - len(gathered), 0)
            sources = [""] * missing + [rules.location(place) for place in places[surplus:]]
            for i, (size, source) in enumerate(zip([1] * missing + gathered[surplus:], sources, strict=True)):
                rules.size_is("output_tensor", i, size, source, "by Axis and IndexDimensions")

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
        check_index_tuples(rules, "output_tensor")

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
        check_index_tuples(rules, "output_tensor")


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


_PlacedSize = tuple[int | None, str]


def check_index_tuples(rules: Rules, gathered: str) -> None:
    """The rules of GATHER_ND and SCATTER_ND on sizes; ``gathered`` is the tensor with one block a tuple."""
    rank = rules.common_rank("input_tensor", "indices_tensor", gathered) or 0
    whole = _last_sizes(rules, "input_tensor", "input_dimension_count", rank)
    indices = _last_sizes(rules, "indices_tensor", "indices_dimension_count", rank)
    batches = _batches(rules)
    if batches is None or not whole or not indices:
        return
    tuple_size, place = indices[-1]
    names = [name for name in rules.desc.fields if name.endswith("_dimension_count")]
    counts = " and ".join(map(rules.location, names))
    less = " - BatchDimensionCount" if batches else ""
    must = f"must be at most InputDimensionCount{less} = {len(whole) - batches}, the coordinates of one index"
    is_known = tuple_size is not None
    if tuple_size is not None:
        is_known = rules.require(tuple_size <= len(whole) - batches, place, must, tuple_size)
    for (size, place), (expected, source) in zip(indices[:-1][:batches], whole[:batches], strict=False):
        if size is not None and expected is not None:
            must = f"must be {rules.location(source)} = {expected}, a batch dimension by {counts}"
            rules.require(size == expected, place, must, size)
    if is_known and tuple_size is not None:
        source = f"{rules.location(indices[-1][1])}, {counts}"
        _check_gathered(rules, gathered, [*indices[:-1], *whole[batches + tuple_size :]], source)


def _batches(rules: Rules) -> int | None:
    """The number of leading dimensions in common, where it is sound: 0 for operators that have none."""
    name = "batch_dimension_count"
    if name not in rules.desc.fields:
        return 0
    batches, is_less = rules.integer(name), True
    for count in ("input_dimension_count", "indices_dimension_count"):
        most = rules.integer(count)
        if batches is not None and most is not None:
            must = f"must be less than {rules.location(count)} = {most}"
            is_less &= rules.require(batches < most, name, must, batches)
    return batches if is_less else None


def _check_gathered(rules: Rules, gathered: str, sizes: list[_PlacedSize], why: str) -> None:
    """The tensor with a block for every tuple has these sizes, behind as many sizes of 1 as it takes."""
    rank = rules.rank(gathered)
    if rank is None:
        return
    must = f"must leave at most {rank} dimensions for {rules.location(gathered)}"
    if rules.require(len(sizes) <= rank, "indices_dimension_count", must, len(sizes)):
        padded = [(1, "")] * (rank - len(sizes)) + [(size, rules.location(place)) for size, place in sizes]
        for i, (size, source) in enumerate(padded):
            rules.size_is(gathered, i, size, source, f"by {why}")


def _last_sizes(rules: Rules, tensor: str, count: str, rank: int) -> list[_PlacedSize]:
    """As many of a tensor's last sizes as a count says, with their places; those before them are 1. None of them if the
    count is not sound, none known if the tensor has another rank than the other tensors."""
    value, own_rank = rules.integer(count), rules.rank(tensor)
    if value is None:
        return []
    if own_rank is None:
        rules.require(value >= 1, count, "must be at least 1", value)
    else:
        must = f"must be from 1 to {rules.location(tensor)}.DimensionCount = {own_rank}"
        # Where the other tensors have room for the dimensions it is this one's rank that is wrong.
        rules.require(1 <= value <= own_rank, count, must, value, breaks=not 1 <= value <= rank)
        for i in range(own_rank - value if 1 <= value <= own_rank else 0):
            rules.size_is(tensor, i, 1, why=f"as the dimension is not among the last {rules.location(count)} ones")
    if not 1 <= value <= rank:
        return []
    sizes = rules.sizes_of_rank(tensor, rank)
    return [(size, f"{tensor}.sizes[{i}]") for i, size in enumerate(sizes)][rank - value :]


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
