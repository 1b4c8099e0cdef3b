"""Integers and conditions of loop nests, which are known when the code runs; the grammar is in ``nest.py``."""

from __future__ import annotations

from dataclasses import dataclass

from opendml.expression.affine import Affine
from opendml.expression.ir import Axis, Expression, Tensor, Variable

# Integers that are known when the code runs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """An integer that a Let or a Share around it, or before it, gives a value; two are equal if they are the same."""

    name: str


@dataclass(frozen=True, slots=True)
class Start:
    """The first point of the part of an axis that the work item covers."""

    axis: Axis


@dataclass(frozen=True, slots=True)
class End:
    """The point behind the last one of the part of an axis that the work item covers."""

    axis: Axis


@dataclass(frozen=True, slots=True)
class Position:
    """Where an axis stands."""

    axis: Axis


@dataclass(frozen=True, slots=True)
class Sum:
    """``left + right``."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class Difference:
    """``left - right``."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class Product:
    """``left * right``."""

    left: Integer
    right: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """``left // right`` of what is not negative."""

    left: Integer
    right: int


@dataclass(frozen=True, slots=True)
class Least:
    """The smaller one of two integers."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class Greatest:
    """The larger one of two integers."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """Where the last whole step from ``first`` to ``last`` ends: ``last - (last - first) % step``; ``first`` where
    that ``may_be_empty`` and is, because ``last`` is not behind it."""

    first: Integer
    last: Integer
    step: int
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class ToBoundary:
    """Elements from a place of a tensor, where ``axis`` stands at ``first``, to the next multiple of ``bytes`` in
    memory."""

    tensor: Tensor
    address: Affine
    axis: Axis
    first: Integer
    bytes: int


@dataclass(frozen=True, slots=True)
class Either:
    """``then`` where a condition holds, else ``otherwise``."""

    condition: Condition
    then: Integer
    otherwise: Integer


@dataclass(frozen=True, slots=True)
class Register:
    """What a register holds that is the same at all points."""

    variable: Variable


Integer = (
    int
    | Local
    | Start
    | End
    | Position
    | Sum
    | Difference
    | Product
    | Quotient
    | Least
    | Greatest
    | WholeSteps
    | ToBoundary
    | Either
    | Register
)


# Conditions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Within:
    """Whether an address at the point that stands here is from ``first`` to before ``last``."""

    address: Affine
    first: Integer
    last: Integer


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two integers are the same."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class First:
    """Whether the item is its thread's first, or of another ``group`` of so many in a row than the one before it."""

    group: int


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Whether one condition holds, and then another one, which has no meaning where the first does not hold."""

    first: Condition
    second: Condition


Condition = Expression | Within | Equal | First | Both
