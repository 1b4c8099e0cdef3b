"""SPLIT and JOIN: cutting a tensor along one axis, and putting tensors together along one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, FLOATS_AND_16_TO_32_BIT, UP_TO_32_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    levels,
    tensor_input,
    tensor_inputs,
    tensor_output,
    tensor_outputs,
    uint,
)
from opendml.description.enums import OperatorType
from opendml.expression.ir import Expression, grid, indices, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integer, TensorList, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Split(Operator, type=OperatorType.SPLIT, since="1_0"):
    """Cuts a tensor along one axis into several consecutive tensors."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_count: Count = count_of("output_tensors", default=None)
    output_tensors: TensorList = tensor_outputs(count="output_count")
    axis: Integer = uint()

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS_AND_16_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The outputs are the input's pieces."""
        rules.at_least("output_count", 1)
        check_pieces(rules, whole="input_tensor", pieces="output_tensors")

    def define(self) -> Definition:
        """One copy an output, each from where the one before it ended."""
        source = tensor("InputTensor", self.input_tensor, "input")
        targets = tuple(tensor(name, desc, "output") for name, desc in self.outputs() if desc is not None)
        copies, start = [], 0
        for target in targets:
            axes = grid(target.sizes)
            value = load(source, _moved(indices(axes), self.axis, start))
            copies.append(Compute(axes, (Store(target, indices(axes), value),)))
            start += target.sizes[self.axis]
        return Definition((source,), targets, tuple(copies))


class Join(Operator, type=OperatorType.JOIN, since="1_0"):
    """Concatenates several tensors along one axis."""

    input_count: Count = count_of("input_tensors", default=None)
    input_tensors: TensorList = tensor_inputs(count="input_count")
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (4, 5), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS_AND_16_TO_32_BIT),
    )

    def check(self, rules: Rules) -> None:
        """The inputs are the output's pieces."""
        rules.at_least("input_count", 1)
        check_pieces(rules, whole="output_tensor", pieces="input_tensors")

    def define(self) -> Definition:
        """One copy an input, each to where the one before it ended."""
        sources = tuple(tensor(name, desc, "input") for name, desc in self.inputs() if desc is not None)
        target = tensor("OutputTensor", self.output_tensor, "output")
        copies, start = [], 0
        for source in sources:
            axes = grid(source.sizes)
            place = _moved(indices(axes), self.axis, start)
            copies.append(Compute(axes, (Store(target, place, load(source, indices(axes))),)))
            start += source.sizes[self.axis]
        return Definition(sources, (target,), tuple(copies))


def check_pieces(rules: Rules, whole: str, pieces: str) -> None:
    """Pieces have the sizes of the whole, except along Axis, where they add up to it."""
    rules.same_data_type(whole, pieces)
    rules.same_rank(whole, pieces)
    rules.axis_in_range("axis", whole)
    axis, sizes = rules.integer("axis"), rules.sizes(whole)
    if axis is None or sizes is None or axis >= len(sizes):
        return
    expected = (*sizes[:axis], None, *sizes[axis + 1 :])
    whole_name, pieces_name = rules.location(whole), rules.location(pieces)
    places = [place for place, _ in rules.tensors(pieces)]
    for place in places:
        rules.sizes_are(place, expected, f"{whole_name}.Sizes[i]", "as in all dimensions but Axis")
    found = [rules.sizes(place) for place in places]
    lengths = [None if piece is None or len(piece) != len(sizes) else piece[axis] for piece in found]
    known, size = [length for length in lengths if length is not None], sizes[axis]
    given = getattr(rules.desc, pieces)
    count = len(given) if isinstance(given, tuple) else 0
    if size is not None and len(known) == count > 0:
        must = f"must add up along Axis: all {pieces_name}[i].Sizes[{axis}] to {whole_name}.Sizes[{axis}] = {size}"
        rules.require(sum(known) == size, pieces, must, sum(known))


def _moved(coordinates: Sequence[Expression], axis: int, distance: int) -> tuple[Expression, ...]:
    return tuple(i + distance if d == axis else i for d, i in enumerate(coordinates))
