"""Definitions evaluated with NumPy: slow, simple, and the oracle of the compiler.

Every point of a statement is one element of a NumPy array, so an expression is evaluated for all points at once; folds
and scans are Python loops in the order that the grammar states. Loads are checked: a coordinate outside its tensor at
a point where the load is really evaluated raises ``StrayAccessError``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import BOOL, ElementType
from opendml.expression.fused import fused_multiply_add
from opendml.expression.integer_folding import WORD_DOTS
from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    FusedMultiplyAdd,
    Index,
    Load,
    Part,
    Select,
    Tensor,
    Unary,
    Variable,
    index,
)
from opendml.expression.rewriting import inner_first, step_limits, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Order,
    Repeat,
    RowMargins,
    Scan,
    Scatter,
    Statement,
    Store,
)

Array = npt.NDArray[Any]

NUMPY_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}


REMAINS: Final = 0xA5
"""The byte that fills what nobody has written yet."""

_WIDEST: Final = 8
"""Bytes of the widest element."""

PARTIAL_DIMENSIONS: Final = 4
"""Dimensions for the partial results of folds within folds."""


class StrayAccessError(AssertionError):
    """A definition read or wrote outside a tensor; always a defect of the definition."""


def interpret(definition: Definition, buffers: Mapping[Tensor, Array]) -> None:
    """Run ``definition`` on flat buffers, one for each input and output tensor; outputs are written in place."""
    storage = dict(buffers)
    for tensor in definition.temporaries:
        storage[tensor] = memory_of(tensor, definition)
    for view, root in definition.views:
        storage[view] = storage[root].view(NUMPY_TYPES[view.type.name])
    with np.errstate(all="ignore"):
        for statement in definition.statements:
            interpret_statement(statement, storage, {})


def memory_of(tensor: Tensor, definition: Definition) -> Array:
    """Zeros for a tensor: as many as it and the views of it reach, in whole elements of all of them."""
    reach = max(t.extent * NUMPY_TYPES[t.type.name].itemsize for t in (tensor, *_views_of(tensor, definition)))
    return np.zeros(-(-reach // _WIDEST) * _WIDEST, np.uint8).view(NUMPY_TYPES[tensor.type.name])


def _views_of(tensor: Tensor, definition: Definition) -> list[Tensor]:
    return [view for view, root in definition.views if root is tensor]


def run_interpreted(definition: Definition, inputs: Sequence[Array | None]) -> list[Array | None]:
    """Run ``definition`` on logical arrays (sizes as in the tensors) and return the logical outputs."""
    buffers: dict[Tensor, Array] = {}
    for tensor, array in zip(definition.inputs, inputs, strict=True):
        if tensor is not None and array is not None:
            buffers[tensor] = np.zeros(tensor.extent, NUMPY_TYPES[tensor.type.name])
            logical_view(tensor, buffers[tensor])[...] = array
    for tensor in definition.outputs:
        if tensor is not None:
            buffers[tensor] = np.zeros(tensor.extent, NUMPY_TYPES[tensor.type.name])
    interpret(definition, buffers)
    return [None if t is None else logical_view(t, buffers[t]).copy() for t in definition.outputs]


def logical_view(tensor: Tensor, buffer: Array) -> Array:
    """``buffer`` (flat) seen with the sizes and strides of ``tensor``."""
    strides = tuple(s * buffer.itemsize for s in tensor.strides)
    return np.lib.stride_tricks.as_strided(buffer[tensor.offset :], tensor.sizes, strides)


Operations = Mapping[tuple[str, ElementType], Callable[..., Array]]
"""How operations of some types are done, where that is not as the grammar says: ``sqrt`` and products of words of their
operands, and ``load`` of the active ones of places, ``(buffer, places, mask)``."""


class Frame:
    """Values known while a set of points is evaluated: coordinates, bound variables, and which points are active.

    ``operations`` take the place of the grammar's own; they must give the same values.
    """

    def __init__(
        self,
        storage: dict[Tensor, Array],
        bound: dict[object, Array],
        mask: Array | None,
        lane: int,
        operations: Operations | None = None,
    ) -> None:
        self.storage = storage
        self.operations = operations or {}
        self.bound = bound
        self.mask = mask
        self.partial_dimension = lane
        self.known: dict[Expression, Array] = {}
        self._inside: dict[Expression, bool] = {}

    def stays_inside(self, expression: Expression) -> bool:
        """Whether no load in ``expression`` leaves its tensor at any point, active or not: then its value does not
        depend on which points are active."""
        for e in inner_first(expression, self._inside, _parts_here):
            if isinstance(e, Part):
                self._inside[e] = not any(isinstance(x, Load) for x in walk(e))
            else:
                inside = all(self._inside[child] for child in e.children)
                self._inside[e] = inside and (not isinstance(e, Load) or _reaches_inside(self, e))
        return self._inside[expression]

    def narrowed(self, condition: Array) -> Frame:
        """The frame with fewer active points; what is known at more of them is known here."""
        mask = condition if self.mask is None else self.mask & condition
        frame = self.like(self.bound, mask)
        frame.known |= self.known
        return frame

    def like(self, bound: dict[object, Array], mask: Array | None) -> Frame:
        """The frame where other things are bound, or other points are active; nothing is known there."""
        return Frame(self.storage, bound, mask, self.partial_dimension, self.operations)

    def with_bound(self, names: Sequence[object], values: Sequence[Array]) -> Frame:
        """The frame with values for variables and axes."""
        bound = self.bound | dict(zip(names, values, strict=True))
        return self.like(bound, self.mask)

    def value(self, expression: Expression) -> Array:
        """The value of an expression at all points."""
        known = self.known
        for e in inner_first(expression, known, self.parts):
            known[e] = self.computed(e)
        return known[expression]

    def computed(self, e: Expression) -> Array:
        """The value of an expression whose parts are known."""
        return _EVALUATE[type(e)](self, e)

    def parts(self, e: Expression) -> Sequence[Expression]:
        """The expressions that ``e`` is evaluated from, as far as this does not depend on which points are active."""
        if not isinstance(e, Select):
            return _parts_here(e)
        return (e.condition, *filter(self.stays_inside, (e.then, e.otherwise)))

    def values(self, expressions: Sequence[Expression]) -> list[Array]:
        """The values of several expressions."""
        return [self.value(e) for e in expressions]

    def ahead(self, fold: Fold) -> dict[Expression, Array]:
        """The folds inside of a fold that are the same at all of its points, computed once, but for those that would
        stray where the fold leaves points out."""
        found, dependencies = dict[Expression, Array](), Dependencies()
        bound = {*fold.axes, *fold.combine.left, *fold.combine.right}
        for part in (x for e in fold.elements for x in walk(e, _is_part) if isinstance(x, Part)):
            if dependencies.of(part).isdisjoint(bound):
                with suppress(StrayAccessError):
                    found[part] = self.value(part)
        return found

    def step(self, fold: Fold, state: list[Array], active: Array | None = None) -> list[Array]:
        """The state of a fold after its step at this point, where it is taken by the ``active`` ones."""
        frame = self
        if fold.where is not None:
            condition = self.value(fold.where)
            active = condition if active is None else active & condition
        if active is not None:
            frame = self.narrowed(active)
        following = combined(frame, fold, state)
        if active is None:
            return following
        return [np.where(active, new, old) for new, old in zip(following, state, strict=True)]


def _grid_frame(axes: Sequence[Axis], storage: dict[Tensor, Array], bound: dict[object, Array]) -> Frame:
    """A frame in which axis number d varies along dimension d; further dimensions are kept for partial results."""
    rank = len(axes) + PARTIAL_DIMENSIONS
    own: dict[object, Array] = {}
    for d, axis in enumerate(axes):
        shape = [1] * rank
        shape[d] = axis.size
        own[axis] = np.arange(axis.size, dtype=np.int64).reshape(shape)
    outer = {
        name: value.reshape(value.shape[:0] + (1,) * rank) if value.size == 1 else value
        for name, value in bound.items()
    }
    return Frame(storage, outer | own, None, len(axes))


def interpret_statement(statement: Statement, storage: dict[Tensor, Array], bound: dict[object, Array]) -> None:
    """Run a statement where some axes stand already."""
    if isinstance(statement, Compute):
        frame = _grid_frame(statement.axes, storage, bound)
        sizes = [axis.size for axis in statement.axes]
        prepared = [(store, frame.values(store.coordinates), frame.value(store.value)) for store in statement.stores]
        for store, coordinates, value in prepared:
            _write(storage, store, sizes, coordinates, value, None)
            if store.margins is not None:
                _write_margins(storage, store, store.margins, sizes, coordinates, frame)
    elif isinstance(statement, Scan):
        _scan(statement, storage, bound)
    elif isinstance(statement, Order):
        _order(statement, storage, bound)
    elif isinstance(statement, Scatter):
        frame = _grid_frame(statement.axes, storage, bound)
        where = frame.value(statement.where)
        inner = frame.narrowed(where)
        sizes = [axis.size for axis in statement.axes]
        coordinates = inner.values(statement.store.coordinates)
        _check_apart(statement, coordinates, where)
        _write(storage, statement.store, sizes, coordinates, inner.value(statement.store.value), where)
    elif isinstance(statement, Repeat):
        for i in range(statement.axis.size):
            for inner_statement in statement.statements:
                interpret_statement(inner_statement, storage, bound | {statement.axis: np.asarray(i, np.int64)})
    elif isinstance(statement, Each):
        # From the last point to the first one, each with remains in its tensors: what depends on neither does here.
        for point in reversed(list(np.ndindex(*[axis.size for axis in statement.axes]))):
            for tensor in statement.own:
                storage[tensor].view(np.uint8)[...] = REMAINS
            place = {a: np.asarray(i, np.int64) for a, i in zip(statement.axes, point, strict=True)}
            for inner_statement in statement.statements:
                interpret_statement(inner_statement, storage, bound | place)


def _write(
    storage: dict[Tensor, Array],
    store: Store,
    sizes: Sequence[int],
    coordinates: Sequence[Array],
    value: Array,
    where: Array | None,
) -> None:
    tensor = store.tensor
    address = _address(tensor, coordinates, where)
    shape = (*sizes, *([1] * (max(address.ndim, value.ndim, len(sizes)) - len(sizes))))
    flat_address = np.broadcast_to(address, shape).reshape(-1)
    flat_value = np.broadcast_to(value, shape).reshape(-1)
    if where is not None:
        active = np.broadcast_to(where, shape).reshape(-1)
        flat_address, flat_value = flat_address[active], flat_value[active]
        # NumPy leaves open which of several stores to one place wins; the grammar does not.
        last: dict[int, int] = {int(a): i for i, a in enumerate(flat_address)}
        chosen = np.fromiter(last.values(), np.int64, len(last))
        flat_address, flat_value = flat_address[chosen], flat_value[chosen]
    storage[tensor][flat_address] = flat_value


def _write_margins(
    storage: dict[Tensor, Array],
    store: Store,
    margins: RowMargins,
    sizes: Sequence[int],
    coordinates: Sequence[Array],
    frame: Frame,
) -> None:
    """What is around rows in the last dimension."""
    *others, last = coordinates
    along = frame.value(index(margins.along)) % margins.row
    for distance, position in margins.around:
        places = (*others, last + distance)
        _write(storage, store, sizes, places, np.asarray(margins.value.value), along == position)


def _check_apart(scatter: Scatter, coordinates: Sequence[Array], where: Array) -> None:
    """Points that differ in an axis that keeps them apart store to different elements."""
    kept = [axis for axis in scatter.apart if axis.size > 1]
    if not kept:
        return
    sizes = tuple(axis.size for axis in scatter.axes)
    places = [np.broadcast_to(c.reshape(c.shape[: len(sizes)]), sizes) for c in coordinates]
    groups = np.indices(sizes)[[scatter.axes.index(axis) for axis in kept]]
    active = np.broadcast_to(where.reshape(where.shape[: len(sizes)]), sizes)
    elements = np.stack([place[active] for place in places], 1)
    both = np.concatenate([elements, np.stack([group[active] for group in groups], 1)], 1)
    if len(np.unique(elements, axis=0)) != len(np.unique(both, axis=0)):
        raise StrayAccessError(f"{scatter.store.tensor.name}: points that are apart store to the same element")


def _address(tensor: Tensor, coordinates: Sequence[Array], mask: Array | None) -> Array:
    address = np.asarray(tensor.offset, np.int64)
    for coordinate, size, stride in zip(coordinates, tensor.sizes, tensor.strides, strict=True):
        outside = (coordinate < 0) | (coordinate >= size)
        if mask is not None:
            outside = outside & mask
        if outside.any():
            raise StrayAccessError(f"{tensor.name}: a coordinate is outside its dimension of size {size}")
        address = address + np.clip(coordinate, 0, size - 1) * stride
    return address


def _scan(scan: Scan, storage: dict[Tensor, Array], bound: dict[object, Array]) -> None:
    frame = _grid_frame(scan.axes, storage, bound)
    sizes = [axis.size for axis in scan.axes]
    state = frame.values(scan.initial)
    for i in range(scan.along.size):
        position = np.asarray(i, np.int64)
        inner = frame.with_bound((*scan.state, scan.along), (*state, position))
        following = inner.values(scan.step)
        prepared = [(store, inner.values(store.coordinates), inner.value(store.value)) for store in scan.stores]
        for store, coordinates, value in prepared:
            _write(storage, store, sizes, coordinates, value, None)
        state = following


def _order(order: Order, storage: dict[Tensor, Array], bound: dict[object, Array]) -> None:
    frame = _grid_frame((*order.axes, order.along), storage, bound)
    sizes = [axis.size for axis in (*order.axes, order.along)]
    key = frame.value(order.key)
    keys = np.broadcast_to(key.reshape(key.shape[: len(sizes)]) if key.ndim else key, sizes)
    positions = np.argsort(keys, -1, kind="stable")[..., : order.rank.size].astype(np.int64)
    chosen = positions.reshape(*positions.shape, *[1] * PARTIAL_DIMENSIONS)
    inner = _grid_frame((*order.axes, order.rank), storage, bound).with_bound((order.chosen,), (chosen,))
    prepared = [(store, inner.values(store.coordinates), inner.value(store.value)) for store in order.stores]
    for store, coordinates, value in prepared:
        _write(storage, store, positions.shape, coordinates, value, None)


# ---------------------------------------------------------------------------------------------------------------------


def _load(frame: Frame, e: Load) -> Array:
    address = _address(e.tensor, frame.values(e.coordinates), frame.mask)
    buffer = frame.storage[e.tensor]
    if frame.mask is None and address.size and int(address.max()) >= buffer.size:
        raise StrayAccessError(f"{e.tensor.name}: the buffer has only {buffer.size} elements")
    masked = frame.operations.get(("load", e.tensor.type))
    if masked is not None and frame.mask is not None and np.broadcast(address, frame.mask).shape == address.shape:
        return masked(buffer, address, frame.mask)  # one load, where all points have the same address, leaves none out
    loaded: Array = buffer[np.clip(address, 0, buffer.size - 1)]
    return loaded


def _is_part(e: Expression) -> bool:
    return isinstance(e, Part)


def _parts_here(e: Expression) -> tuple[Expression, ...]:
    """The parts of an expression that are evaluated at the same points; a fold goes on to points of its own."""
    return () if isinstance(e, Part) else e.children


def _reaches_inside(frame: Frame, e: Load) -> bool:
    """Whether a load, whose coordinates can be evaluated, stays in its tensor at all points of a frame."""
    tensor, address = e.tensor, e.tensor.offset
    for coordinate, size, stride in zip(frame.values(e.coordinates), tensor.sizes, tensor.strides, strict=True):
        if ((coordinate < 0) | (coordinate >= size)).any():
            return False
        address += int(coordinate.max(initial=0)) * stride
    return address < frame.storage[tensor].size


def _select(frame: Frame, e: Select) -> Array:
    condition = frame.value(e.condition)
    # Only loads care which points are active; where these stay inside, the value is shared with the rest of the frame.
    then = (frame if e.then in frame.known else frame.narrowed(condition)).value(e.then)
    otherwise = (frame if e.otherwise in frame.known else frame.narrowed(~condition)).value(e.otherwise)
    return np.where(condition, then, otherwise)


def _truncated_division(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b, a.dtype)
    divisor = np.where(b == 0, np.ones_like(b), b)
    quotient = a // divisor
    if a.dtype.kind == "i":
        quotient = quotient + ((a % divisor != 0) & ((a < 0) != (divisor < 0)))
    return np.where(b == 0, np.zeros_like(a), quotient).astype(a.dtype)


def _truncated_remainder(a: Array, b: Array) -> Array:
    return np.asarray(a - _truncated_division(a, b) * b if a.dtype.kind != "f" else np.fmod(a, b), a.dtype)


_BINARY: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _truncated_division,
    "rem": _truncated_remainder,
    **WORD_DOTS,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

_UNARY: Final[dict[str, Callable[[Array], Array]]] = {
    "neg": lambda a: np.negative(a) if a.dtype.kind != "u" else np.subtract(a.dtype.type(0), a),
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "not": np.invert,
}


def convert(value: Array, type: ElementType) -> Array:
    """``Cast`` of the grammar, on a NumPy array."""
    target = NUMPY_TYPES[type.name]
    if type is BOOL:
        return np.asarray(value != 0)
    if value.dtype.kind != "f" or target.kind == "f":
        return np.asarray(value).astype(target)
    limits = np.iinfo(target)
    # The largest value of the type need not be a floating-point number; the first one beyond it always is.
    above = (
        value >= value.dtype.type(2.0) ** (type.bits - (type.kind == "int"))
        if _reaches(value, type)
        else value == np.inf
    )
    below = value <= (value.dtype.type(limits.min) if limits.min == 0 or _reaches(value, type) else -np.inf)
    inside = np.where(above | below | (value != value), value.dtype.type(0), value)
    result = np.trunc(inside).astype(np.int64 if type.kind == "int" else np.uint64).astype(target)
    return np.where(above, target.type(limits.max), np.where(below, target.type(limits.min), result))


def _reaches(value: Array, type: ElementType) -> bool:
    """Whether the floating-point type of ``value`` has numbers beyond the integer ``type``."""
    return not (value.dtype == np.float16 and type.bits - (type.kind == "int") >= 16)


def folded(frame: Frame, fold: Fold) -> list[Array]:
    """All values of a fold: its points in order, each for all points of the frame at once."""
    ahead = frame.ahead(fold)
    if fold.partials > 1:
        return _fold_partials(frame, fold, ahead)
    state = frame.values(fold.initial)
    limits = step_limits(fold)
    counts = [_largest(frame, limits[axis], axis.size) if axis in limits else axis.size for axis in fold.axes]
    for point in itertools.product(*map(range, counts)):
        inner = frame.with_bound(fold.axes, [np.asarray(i, np.int64) for i in point])
        inner.known |= ahead
        state = inner.step(fold, state)
    return state


def _largest(frame: Frame, count: Expression, most: int) -> int:
    """The largest of the counts at the active points of a frame, at most ``most``."""
    counts = frame.value(count)
    active = counts if frame.mask is None else np.where(frame.mask, counts, 0)
    return min(int(active.max(initial=0)), most)


def combined(inner: Frame, fold: Fold, state: list[Array]) -> list[Array]:
    """The state of a fold with the elements at a point; of a contraction one fused multiply-add."""
    product = fold.elements[0]
    if fold.contract and isinstance(product, Binary) and product.operation == "mul":
        return [fused_multiply_add(inner.value(product.left), inner.value(product.right), state[0])]
    elements = inner.values(fold.elements)
    joint = inner.with_bound((*fold.combine.left, *fold.combine.right), (*state, *elements))
    return joint.values(fold.combine.result)


def _fold_partials(frame: Frame, fold: Fold, ahead: Mapping[Expression, Array]) -> list[Array]:
    partials, last = fold.partials, fold.axes[-1]
    dimension = frame.partial_dimension
    shape = [1] * max([PARTIAL_DIMENSIONS, *(v.ndim for v in frame.bound.values())])
    shape[dimension] = partials
    lane = np.arange(partials, dtype=np.int64).reshape(shape)
    state = [np.broadcast_to(v, np.broadcast_shapes(v.shape, lane.shape)) for v in frame.values(fold.initial)]
    blocks = -(-last.size // partials)
    for *outer, block in itertools.product(*(range(a.size) for a in fold.axes[:-1]), range(blocks)):
        position = lane + block * partials
        active = position < last.size
        bound = [np.asarray(i, np.int64) for i in outer]
        inner = frame.with_bound(fold.axes, [*bound, np.minimum(position, last.size - 1)])
        inner.partial_dimension = dimension + 1
        inner.known |= ahead
        state = inner.step(fold, state, active)
    return _merge_partials(frame, fold, state, dimension)


def _merge_partials(frame: Frame, fold: Fold, state: list[Array], dimension: int) -> list[Array]:
    combine = fold.combine
    result = combine.result if combine.merge is None else combine.merge
    width = fold.partials
    while width > 1:
        width //= 2
        lower = [np.take(v, range(width), axis=dimension) for v in state]
        upper = [np.take(v, range(width, 2 * width), axis=dimension) for v in state]
        state = frame.with_bound((*combine.left, *combine.right), (*lower, *upper)).values(result)
    return state


def _part(frame: Frame, e: Part) -> Array:
    values = folded(frame, e.fold)
    for number, value in enumerate(values):
        frame.known[Part(e.fold, number)] = value
    return values[e.number]


def _unary(frame: Frame, e: Unary) -> Array:
    operation = frame.operations.get((e.operation, e.type), _UNARY[e.operation])
    return operation(frame.value(e.operand))


def _binary(frame: Frame, e: Binary) -> Array:
    operation = frame.operations.get((e.operation, e.left.type), _BINARY[e.operation])
    return operation(frame.value(e.left), frame.value(e.right))


def _constant(frame: Frame, e: Const) -> Array:
    unsigned = np.asarray(e.bits, f"u{max(e.type.bits, 8) // 8}")
    return unsigned.view(NUMPY_TYPES[e.type.name])


_EVALUATE: Final[dict[type, Callable[[Frame, Any], Array]]] = {
    Const: _constant,
    Index: lambda frame, e: frame.bound[e.axis],
    Variable: lambda frame, e: frame.bound[e],
    Load: _load,
    Unary: _unary,
    Binary: _binary,
    Select: _select,
    FusedMultiplyAdd: lambda frame, e: fused_multiply_add(*frame.values((e.x, e.y, e.z))),
    Cast: lambda frame, e: convert(frame.value(e.operand), e.type),
    Bitcast: lambda frame, e: np.asarray(frame.value(e.operand)).view(NUMPY_TYPES[e.type.name]),
    Part: _part,
}
