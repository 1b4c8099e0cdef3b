"""What operators write their definitions with: tensors of the grammar from descriptors, and common conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F16, F32, ElementType
from opendml.expression.ir import (
    Const,
    Expression,
    Tensor,
    cast,
    constant,
    grid,
    indices,
    select,
)
from opendml.expression.statements import Compute, Store
from opendml.operators.element_types import ELEMENT_TYPE_OF

if TYPE_CHECKING:
    from opendml.description.structs import ScalarUnion


def tensor(name: str, desc: TensorDesc, role: Literal["input", "output"]) -> Tensor:
    """The tensor of the grammar that a descriptor describes; of the 4-bit types that of the bytes."""
    desc = desc.in_memory
    return Tensor(name, ELEMENT_TYPE_OF[desc.data_type], desc.sizes, desc.effective_strides, role)


def optional_tensor(name: str, desc: TensorDesc | None, role: Literal["input", "output"]) -> Tensor | None:
    """As ``tensor``; None for a tensor that is not given."""
    return None if desc is None else tensor(name, desc, role)


def computation_type(type: ElementType) -> ElementType:
    """The type in which values of ``type`` are computed: float16 in float32, everything else as it is."""
    return F32 if type is F16 else type


def widen(value: Expression) -> Expression:
    """``value`` in its computation type."""
    return cast(value, computation_type(value.type))


def every_element(target: Tensor, value_at: Callable[[tuple[Expression, ...]], Expression]) -> Compute:
    """The statement ``target[i] = value_at(i)`` for all coordinates ``i``."""
    axes = grid(target.sizes)
    return Compute(axes, (Store(target, indices(axes), value_at(indices(axes))),))


def chosen(values: Sequence[Expression], number: Expression) -> Expression:
    """One of some values, by its number."""
    *others, result = values
    for i, value in reversed(list(enumerate(others))):
        result = select(number.equals(i), value, result)
    return result


def converted(value: float, type: ElementType) -> Const:
    """The constant that ``Cast`` makes of a number: float to integer truncates and saturates, NaN gives 0."""
    if type.is_float or isinstance(value, int):
        return constant(value, type)
    if math.isnan(value):
        return constant(0, type)
    lowest = -(1 << (type.bits - 1)) if type.kind == "int" else 0
    highest = lowest + (1 << type.bits) - 1
    if math.isinf(value):
        return constant(highest if value > 0 else lowest, type)
    return constant(min(max(math.trunc(value), lowest), highest), type)


def scalar(union: ScalarUnion, type: ElementType) -> Const:
    """The constant that a ``DML_SCALAR_UNION`` holds, bit for bit."""
    return Const(int.from_bytes(union.data, "little") & ((1 << type.bits) - 1), type)
