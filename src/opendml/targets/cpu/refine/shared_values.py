"""Values that rows have in common, computed once.

Where an element of a result takes a slow function of what repeats from row to row, such as the deviation of a channel
where channels lie beside one another, the function's values stand in a tensor of their own. Along a row that has one
such value it is computed before the row begins, and there is nothing to do. Beside sums the rows are those of tiles,
which are short: there it is done for what is fixed, such as the factors by which sums are quantized again, and biases
of float16, which every tile would widen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from opendml.expression.affine import Dependencies, address_of
from opendml.expression.element_types import F16, F32, U32, bits_of
from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    Load,
    Select,
    Tensor,
    Unary,
    binary,
    constant,
)
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, rewritten
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement

SMALL_FACTOR: Final = 0.25
"""A number that the factors by which sums are quantized again hardly exceed. What it makes of an i32 is within 30 bits,
and is converted to integers without bounds."""

ROUNDED: Final = 1 + 2.0**-20
"""What a product may be larger by if it is rounded to float32, by far."""


def values_of_columns(definition: Definition, around: Surroundings) -> Definition:
    """The definition with tensors of such values."""

    def with_tensors(statement: Statement) -> Refinement | None:
        made, replaced = Refinement(), dict[Expression, Expression]()
        repeats = around.target.tuning.column_repeats
        for value, axes in (*_shared(statement, repeats), *_beside_sums(statement, repeats, around.fixed)):
            replaced[value] = _bounded(made.values("shared", value, axes), _most(value, around.bounds))
        if not replaced:
            return None
        made.statements.append(rewritten(statement, substitute(replaced), {}))
        return made

    return statement_by_statement(definition, with_tensors)


def _shared(statement: Statement, repeats: int) -> Iterator[tuple[Expression, tuple[Axis, ...]]]:
    """The values of slow functions that move along the row and are the same in ``repeats`` rows, and their axes."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return
    (store,) = statement.stores
    if not _is_slow(store.value) or any(isinstance(e, Fold) for e in walk(store.value)):
        return
    address, moving = address_of(store.tensor, store.coordinates), [a for a in statement.axes if a.size > 1]
    row = min(moving, key=lambda axis: abs(address.coefficient(axis)), default=None)
    points = math.prod(axis.size for axis in statement.axes)
    dependencies = Dependencies()

    def shared(e: Expression) -> tuple[Axis, ...]:
        """The axes of a value that rows share, or none."""
        axes = tuple(axis for axis in statement.axes if axis in dependencies.of(e))
        return axes if row in axes and repeats * math.prod(axis.size for axis in axes) <= points else ()

    # Of a value that is not slow no part is.
    for e in walk(store.value, lambda e: isinstance(e, Load) or bool(shared(e))):
        axes = () if isinstance(e, Load) else shared(e)
        if axes and _is_slow(e):
            yield e, axes


def _beside_sums(
    statement: Statement, repeats: int, fixed: frozenset[Tensor]
) -> Iterator[tuple[Expression, tuple[Axis, ...]]]:
    """The values of slow functions of what is fixed, and what is widened, that are the same for ``repeats`` sums, and
    their axes."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return
    (store,) = statement.stores
    if not any(isinstance(e, Fold) for e in walk(store.value)):
        return
    points, dependencies = math.prod(axis.size for axis in statement.axes), Dependencies()

    def is_found(e: Expression) -> bool:
        parts = list(walk(e))
        if any(isinstance(x, (Fold, Select)) or (isinstance(x, Load) and x.tensor not in fixed) for x in parts):
            return False
        return _is_slow(e) or _is_widened(e)

    for e in walk(store.value, lambda e: isinstance(e, (Load, Fold)) or is_found(e)):
        if isinstance(e, (Load, Fold)) or not is_found(e):
            continue
        axes = tuple(axis for axis in statement.axes if axis in dependencies.of(e))
        if axes and repeats * math.prod(axis.size for axis in axes) <= points:
            yield e, axes


def _bounded(e: Expression, most: float) -> Expression:
    """The same number, so that code can tell that it is small, if it is: by its bits, which are in the order of the
    numbers where these are no less than 0. The minimum changes none."""
    if e.type is not F32 or most > SMALL_FACTOR:
        return e
    return Bitcast(binary("min", Bitcast(e, U32), constant(bits_of(SMALL_FACTOR, F32), U32)), F32)


def _most(e: Expression, bounds: Mapping[Tensor, float]) -> float:
    """What a float32 is no larger than, and it is not less than 0; infinite if that is not known."""
    if isinstance(e, Load):
        return bounds.get(e.tensor, math.inf)
    if isinstance(e, Const):
        number = float(e.value)
        return number * ROUNDED if math.copysign(1.0, number) > 0 else math.inf
    if not isinstance(e, Binary) or e.operation not in ("mul", "div"):
        return math.inf
    left = _most(e.left, bounds)
    if e.operation == "mul":
        return _product(left, _most(e.right, bounds))
    is_known = isinstance(e.right, Const) and 0 < float(e.right.value) < math.inf
    return _product(left, 1 / float(e.right.value)) if is_known and isinstance(e.right, Const) else math.inf


def _product(a: float, b: float) -> float:
    """A number that a product of numbers up to these does not exceed, rounded."""
    return a * b * ROUNDED if math.isfinite(a) and math.isfinite(b) else math.inf


def _is_widened(e: Expression) -> bool:
    """Whether a value is an element of float16 in a wider type."""
    return isinstance(e, Cast) and e.type.is_float and isinstance(e.operand, Load) and e.operand.type is F16


def _is_slow(e: Expression) -> bool:
    """Whether a value is computed from elements by operations that keep a processor's divider busy."""
    parts = list(walk(e, lambda x: isinstance(x, Load)))
    roots = any(isinstance(x, Unary) and x.operation == "sqrt" for x in parts)
    quotients = any(isinstance(x, Binary) and x.operation == "div" and x.type.is_float for x in parts)
    return (roots or quotients) and any(isinstance(x, Load) for x in parts)
