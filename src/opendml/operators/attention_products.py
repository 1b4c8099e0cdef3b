"""What attention computes: GEMM, SOFTMAX and GEMM.

    score[b, n, s, t] = Scale * sum over h of Q[b, n, s, h] * K[b, n, t, h]  (+ relative position bias) (+ filter)
    weight[b, n, s, t] = softmax of score over t
    output[b, s, n, v] = sum over t of weight[b, n, s, t] * V[b, n, t, v]

The order of all sums is that of these three operators in float32: products in order of h and t, as fused multiply-adds
from 0 on (in partial sums where GEMM has them), the exponentials as SOFTMAX adds them. So attention has the bits of its
decomposition, and they do not depend on how many queries a target computes together. Keys are laid out once with the
sequence last, so that scores are vectors along the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from opendml.description.enums import MatrixTransform, MultiheadAttentionMaskType
from opendml.description.fields import TensorField, camel_case
from opendml.expression.element_types import F32, I64
from opendml.expression.folds import partials_for, sum_of_products
from opendml.expression.ir import (
    Expression,
    Tensor,
    binary,
    cast,
    clamp_index,
    constant,
    grid,
    index,
    indices,
    load,
    packed_strides,
    select,
    temporary,
)
from opendml.expression.reductions import reduction
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.activation_functions import softmax
from opendml.operators.definition import optional_tensor, widen
from opendml.operators.matrix import is_dot

if TYPE_CHECKING:
    from opendml.operators.attention import _Attention

PANEL: Final = 64
"""Keys of a panel, in which they are contiguous for each place in the head: whole registers on every processor."""

FEW_QUERIES: Final = 16
"""Queries from which on values are copied that are not side by side: every query reads all of them."""

LINE: Final = 16
"""Elements of a cache line."""

Place = Sequence[Expression]
Element = Callable[[Expression, Expression, Expression, Expression], Expression]
"""An element of queries, keys or values by batch, head, position and place in the head."""


_Parts = list[tuple[int, int, Element]]
"""Where keys or values begin that are in one tensor, how many there are, and these."""


class _Keys(NamedTuple):
    """Keys from ``start`` on, ``blocks`` times ``width`` of them: by batch, head, block, column in it, and place in the
    head."""

    start: int
    blocks: int
    width: int
    element: Callable[[Expression, Expression, Expression, Expression, Expression], Expression]


def attention(desc: _Attention) -> Definition:
    """The definition of attention."""
    return _Builder(desc).definition()


class _Builder:
    """The tensors and statements of one attention.

    Heads of queries are numbered by the head of keys that they share, g, and their number among those that do, r.
    """

    def __init__(self, desc: _Attention) -> None:
        self.desc = desc
        self.tensors = {
            name: optional_tensor(camel_case(name), getattr(desc, name), _role(field))
            for name, field in desc.fields.items()
            if isinstance(field, TensorField)
        }
        self.output = self._given("output_tensor")
        heads, self.heads = desc.head_counts
        self.shared = heads // self.heads
        *_, self.batch, self.queries, width = self.output.sizes
        self.value_size = width // heads
        self.past = self._size("past_key_tensor", -2)
        stacked = ("stacked_query_key_tensor", "stacked_query_key_value_tensor")
        is_stacked = any(self.tensors[name] is not None for name in stacked)
        own = self._size("key_tensor", -2) or self._size("stacked_key_value_tensor", -4)
        self.new = self.queries if is_stacked else own
        self.size = self._size("query_tensor", -1) // heads or self._size(stacked[0], -1) or self._size(stacked[1], -1)
        self.lengths = self.tensors.get("past_sequence_lengths_tensor")
        self.total = self.past + self.new
        if self.lengths is not None:
            rooms = [self._size(f"output_present_{what}_tensor", -2) for what in ("key", "value")]
            self.total = max(rooms) or self.total
        # As GEMM decides.
        self.is_dot = is_dot(self.queries, self.total, self.size, trans_b=MatrixTransform.TRANSPOSE)
        self.statements: list[Statement] = []
        self.temporaries: list[Tensor] = []

    def _given(self, name: str) -> Tensor:
        tensor = self.tensors[name]
        assert tensor is not None
        return tensor

    def _size(self, name: str, dimension: int) -> int:
        """A size of a tensor, 0 without it."""
        tensor = self.tensors.get(name)
        return 0 if tensor is None else tensor.sizes[dimension]

    # ---- queries, keys and values

    def definition(self) -> Definition:
        """Copies of queries, keys and values where the products need them, what is kept for the next call, and the
        products, block by block."""
        query = self._queries()
        keys = self._keys()
        values = self._values()
        self._add_products(query, keys, values)
        inputs = [tensor for name, tensor in self.tensors.items() if not name.startswith("output")]
        outputs = [tensor for name, tensor in self.tensors.items() if name.startswith("output")]
        return Definition(tuple(inputs), tuple(outputs), tuple(self.statements), tuple(self.temporaries))

    def _queries(self) -> Element:
        """Queries by batch, head, position and place; copied where an element takes more than a load."""
        element = self._with_bias("query", 0, self.size)
        assert element is not None
        if self.tensors["bias_tensor"] is None and self.output.type is F32:
            return element
        heads = self.heads * self.shared
        copy = self._temporary("queries", [self.batch, heads, self.queries, self.size])
        self._store(copy, element, heads, 0, self.queries, self.size)
        return lambda batch, head, position, place: load(copy, (batch, head, position, place))

    def _with_bias(self, what: str, number: int, size: int) -> Element | None:
        """The new queries, keys or values as they enter the products; None without any."""
        element = self._source(what)
        bias = self.tensors["bias_tensor"]
        if element is None or bias is None:
            return element
        heads = self.heads * self.shared
        start = [0, heads * self.size, (heads + self.heads) * self.size][number]
        plain = element

        def biased(batch: Expression, head: Expression, position: Expression, place: Expression) -> Expression:
            return plain(batch, head, position, place) + widen(_load(bias, (head * size + place + start,)))

        return biased

    def _source(self, what: str) -> Element | None:
        """The new queries, keys or values where they are: alone, or in a slice of a stack."""
        alone = self.tensors[f"{what}_tensor"]
        if alone is not None:
            size = self.value_size if what == "value" else self.size
            return lambda batch, head, position, place: widen(_load(alone, (batch, position, head * size + place)))
        for name, tensor in self.tensors.items():
            if name.startswith("stacked") and what in name and tensor is not None:
                stack, number = tensor, name.removeprefix("stacked_").split("_").index(what)
                return lambda batch, head, position, place: widen(
                    _load(stack, (batch, position, head, constant(number, I64), place))
                )
        return None

    def _keys(self) -> list[_Keys]:
        """All keys in the forms that the scores read. Adds copies of them, with the sequence last, unless sums run
        along the heads: panels of ``PANEL`` keys, where all of them come from one place."""
        parts = self._parts("key", 1, self.size)
        self._keep("key", parts, self.size)
        if self.is_dot:
            element = self._packed("key", parts, self.size)
            return [_Keys(0, 1, self.total, lambda b, n, _, t, h: element(b, n, t, h))]
        (_, _, only), *others = parts
        whole = 0 if others else self.total // PANEL
        found = []
        if whole:
            panels = self._temporary("panels", [self.batch, self.heads, whole, self.size, PANEL])
            axes = grid(panels.sizes, "bnxht")
            b, n, x, h, t = indices(axes)
            self.statements.append(Compute(axes, (Store(panels, (b, n, x, h, t), only(b, n, x * PANEL + t, h)),)))
            found.append(_Keys(0, whole, PANEL, lambda b, n, x, t, h: load(panels, (b, n, x, h, t))))
        start = whole * PANEL
        if self.total > start:
            rest = self._spaced("keys", [self.batch, self.heads, self.size, self.total - start])
            for first, count, part in parts if others else [(start, self.total - start, only)]:
                axes = grid([self.batch, self.heads, self.size, count], "bnht")
                b, n, h, t = indices(axes)
                value = part(b, n, t if others else t + first, h)
                self.statements.append(Compute(axes, (Store(rest, (b, n, h, t + (first - start)), value),)))
            found.append(_Keys(start, 1, self.total - start, lambda b, n, _, t, h: load(rest, (b, n, h, t))))
        return found

    def _values(self) -> Element:
        """All values. Adds a copy of them where they are read again and again from far apart places."""
        parts = self._parts("value", 2, self.value_size)
        self._keep("value", parts, self.value_size)
        return self._packed("value", parts, self.value_size)

    def _keep(self, what: str, parts: _Parts, size: int) -> None:
        """Adds what is kept for the next call, if it is asked for."""
        present = self.tensors[f"output_present_{what}_tensor"]
        if present is not None:
            for start, count, element in parts:
                self._store(present, element, self.heads, start, count, size)

    def _packed(self, what: str, parts: _Parts, size: int) -> Element:
        """All keys or values as one tensor: where they are, if that is one place and few queries read it, or a copy."""
        (_, _, only), *others = parts
        is_plain = self.tensors["bias_tensor"] is None or self._source(what) is None
        is_read_once = self.queries < FEW_QUERIES
        if not others and self.lengths is None and is_plain and (is_read_once or self.is_dot):
            return only
        copy = self._temporary(f"{what}s", [self.batch, self.heads, self.total, size])
        for start, count, part in parts:
            self._store(copy, part, self.heads, start, count, size)
        return lambda batch, head, position, place: load(copy, (batch, head, position, place))

    def _parts(self, what: str, number: int, size: int) -> _Parts:
        """Where all keys or values begin that are in one tensor, how many there are, and these."""
        past, new = self.tensors[f"past_{what}_tensor"], self._with_bias(what, number, size)
        if past is None:
            assert new is not None
            return [(0, self.total, new)]
        cache = past

        def old(batch: Expression, head: Expression, position: Expression, place: Expression) -> Expression:
            return widen(_load(cache, (batch, head, position, place)))

        if new is None:
            return [(0, self.total, old)]
        if self.lengths is None:
            return [(0, self.past, old), (self.past, self.new, new)]
        return [(0, self.total, self._joined(old, new))]

    def _joined(self, old: Element, new: Element) -> Element:
        """The past of a batch, as long as it says, then what is new, then nothing."""

        def joined(batch: Expression, head: Expression, position: Expression, place: Expression) -> Expression:
            length = self._length(batch)
            later = position - length
            added = new(batch, head, clamp_index(later, self.new), place)
            kept = old(batch, head, clamp_index(position, self.past), place)
            return select(later < 0, kept, select(later < self.new, added, 0))

        return joined

    def _length(self, batch: Expression) -> Expression:
        """The length of the past of a batch, within what there is."""
        assert self.lengths is not None
        return clamp_index(cast(_load(self.lengths, (batch,)), I64), self.past + 1)

    def _temporary(self, name: str, sizes: Sequence[int]) -> Tensor:
        self.temporaries.append(temporary(name, F32, sizes))
        return self.temporaries[-1]

    def _spaced(self, name: str, sizes: Sequence[int]) -> Tensor:
        """A temporary whose rows begin at cache lines, not all of them at the same places of a cache."""
        *outer, row = sizes
        lines = -(-row // LINE)
        room = (lines + (lines % 2 == 0)) * LINE if lines > 1 else row
        tensor = Tensor(name, F32, tuple(sizes), packed_strides([*outer, room]), "temporary")
        self.temporaries.append(tensor)
        return tensor

    def _store(self, target: Tensor, element: Element, heads: int, start: int, count: int, size: int) -> None:
        """The statement that stores ``count`` positions from ``start`` on."""
        axes = grid([self.batch, heads, count, size], "bnth")
        batch, head, position, place = indices(axes)
        ones = (constant(0, I64),) * (len(target.sizes) - 4)
        value = cast(element(batch, head, position, place), target.type)
        self.statements.append(Compute(axes, (Store(target, (*ones, batch, head, position + start, place), value),)))

    # ---- products

    def _add_products(self, query: Element, keys: Sequence[_Keys], values: Element) -> None:
        """Adds scores, weights and outputs, in order."""
        sizes = [self.batch, self.heads, self.shared, self.queries]
        work = reduction(self._spaced("scores", [*sizes, self.total]), (4,))
        self.temporaries[-1] = work.source  # the same memory, with the dimensions in which it is walked
        for some in keys:
            axes = grid([*sizes, some.blocks, some.width], "bgrsxt")
            score, key = self._score(query, some, indices(axes[:4]), index(axes[4]), index(axes[5]))
            place = work.place((*indices(axes[:4]), key))
            self.statements.append(Compute(axes, (Store(work.source, place, score),)))
        weights = self._spaced("weights", [*sizes, self.total])
        softmax(work, weights)
        self.statements += work.statements
        self.temporaries += work.temporaries

        axes = grid([*sizes, self.value_size], "bgrsv")
        (along,) = grid([self.total], "t")
        batch, head, shared, row = indices(axes[:4])
        factors = load(weights, (*indices(axes[:4]), index(along))), values(batch, head, index(along), index(axes[4]))
        partials = partials_for(along) if is_dot(self.queries, self.value_size, self.total) else 1
        value = sum_of_products((along,), *factors, partials=partials)
        column = (head * self.shared + shared) * self.value_size + index(axes[4])
        ones = (constant(0, I64),) * (len(self.output.sizes) - 3)
        store = Store(self.output, (*ones, batch, row, column), cast(value, self.output.type))
        self.statements.append(Compute(axes, (store,)))

    def _score(
        self, query: Element, keys: _Keys, place: Sequence[Expression], block: Expression, column: Expression
    ) -> tuple[Expression, Expression]:
        """The score of a query and a key, and the number of that key."""
        batch, head, shared, row = place
        (inner,) = grid([self.size], "h")
        number, key = head * self.shared + shared, block * keys.width + column + keys.start
        factors = query(batch, number, row, index(inner)), keys.element(batch, head, block, column, index(inner))
        score = sum_of_products((inner,), *factors, partials=partials_for(inner) if self.is_dot else 1)
        if self.desc.scale != 1:
            score = score * self.desc.scale
        bias = self.tensors["relative_position_bias_tensor"]
        if bias is not None:
            score = score + widen(_load(bias, (batch, number, row, key)))
        masked = self._masked(batch, number, row, key)
        if masked is not None:
            score = select(masked, score + self.desc.mask_filter_value, score)
        if self.lengths is not None:
            score = select(key <= self._length(batch) + row, score, float("-inf"))
        return score, key

    def _masked(self, batch: Expression, head: Expression, row: Expression, key: Expression) -> Expression | None:
        """Whether the mask filters a score."""
        mask = self.tensors["mask_tensor"]
        if mask is None:
            return None
        found, zero = mask, constant(0, I64)

        def number(*place: Expression) -> Expression:
            return cast(_load(found, place), I64)

        type = self.desc.mask_type
        if type == MultiheadAttentionMaskType.BOOLEAN:
            return _load(mask, (batch, head, row, key)).equals(0)
        if type == MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH:
            return key >= number(zero, batch)
        if type == MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
            return (key >= number(zero, batch)) | (key < number(zero + 1, batch))
        start = batch + (2 * self.batch + 1)
        return key >= binary("min", number(batch), number(start + 1) - number(start))


def _load(tensor: Tensor, place: Place) -> Expression:
    """An element by its last coordinates; those before them are 0."""
    return load(tensor, (*[constant(0, I64)] * (len(tensor.sizes) - len(place)), *place))


def _role(field: TensorField) -> Literal["input", "output"]:
    return "input" if field.direction == "input" else "output"
