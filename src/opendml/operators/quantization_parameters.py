"""Scales and zero points: one for a whole tensor, or one for each row, column or channel.

They are tensors of one element, or with one dimension that counts the rows, columns or channels while all others are 1.
The documentation's tables print such tensors as ``{[1], [1], Count, [1]}``, dimensions in brackets being optional, so
the counting dimension is found by how many dimensions may stand before and behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from opendml.description.fields import TensorField
from opendml.expression.ir import Expression, Tensor, cast, constant, load
from opendml.expression.statements import Definition, Statement
from opendml.operators.definition import optional_tensor
from opendml.operators.element_wise_quantization import quantized

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.rules import Rules
    from opendml.expression.element_types import ElementType


class Counted(NamedTuple):
    """Where the dimension that counts may stand: behind at most ``before`` dimensions, before at most ``behind``."""

    before: int
    behind: int

    def dimensions(self, rank: int) -> range:
        """The dimensions of a tensor that may be the counting one."""
        return range(max(0, rank - 1 - self.behind), min(self.before, rank - 1) + 1)


class Tensors:
    """The tensors of the grammar that a descriptor has, by the names of its fields; arrays have none here."""

    def __init__(self, desc: Operator) -> None:
        self._tensors = {
            name: optional_tensor(
                field.json_name, getattr(desc, name), "input" if field.direction == "input" else "output"
            )
            for name, field in desc.fields.items()
            if isinstance(field, TensorField)
        }

    def __getitem__(self, name: str) -> Tensor:
        found = self._tensors[name]
        assert found is not None
        return found

    def get(self, name: str) -> Tensor | None:
        """As ``[name]``; None for a tensor that is not given."""
        return self._tensors[name]

    def definition(self, *statements: Statement) -> Definition:
        """The definition with all of them, in the order of the fields."""
        roles = {name: tensor.role for name, tensor in self._tensors.items() if tensor is not None}
        outputs = tuple(tensor for name, tensor in self._tensors.items() if roles.get(name) == "output")
        inputs = tuple(tensor for name, tensor in self._tensors.items() if roles.get(name) != "output")
        return Definition(inputs, outputs, statements)


ROWS = Counted(2, 1)
COLUMNS = Counted(3, 0)
CHANNELS = Counted(1, 3)


def check_single(rules: Rules, *names: str) -> None:
    """Tensors hold one value."""
    for place, _ in rules.tensors(*names):
        rules.sizes_are(place, [1] * (rules.rank(place) or 0), why="as it holds one value")


def check_counted(rules: Rules, names: Sequence[str], counted: Counted, count: int | None, source: str) -> None:
    """Tensors hold one value, or ``count`` of them (which is ``source``, in DirectML's names; None: not known)."""
    for place, _ in rules.tensors(*names):
        sizes = rules.sizes(place) or ()
        able = counted.dimensions(len(sizes))
        counting = [i for i in able if sizes[i] not in (None, 1)]
        for i, size in enumerate(sizes):
            if size is None:
                continue
            if i not in able or i in counting[1:]:
                rules.size_is(place, i, 1, why="as in all dimensions but one" if able else "")
            elif count is not None:
                must = f"must be 1 or {source} = {count}"
                rules.require(size in (1, count), f"{place}.sizes[{i}]", must, size, breaks=False)


def value_for(tensor: Tensor, number: Expression) -> Expression:
    """The value of row, column or channel ``number``, or the only one."""
    return load(tensor, [number if size > 1 else constant(0, number.type) for size in tensor.sizes])


def difference(value: Expression, zero_point: Tensor | None, number: Expression, type: ElementType) -> Expression:
    """``value`` less its zero point, in a type that has all differences."""
    wide = cast(value, type)
    return wide if zero_point is None else wide - cast(value_for(zero_point, number), type)


def requantized(value: Expression, zero_point: Tensor | None, number: Expression, type: ElementType) -> Expression:
    """The float32 ``value``, in units of the output's scale, as an element of a quantized output."""
    zero = None if zero_point is None else value_for(zero_point, number)
    return quantized(value, zero, type)
