"""What attention computes: GEMM, SOFTMAX and GEMM.

    score[b, n, s, t] = Scale * sum over h of Q[b, n, s, h] * K[b, n, t, h]  (+ relative position bias) (+ filter)
    weight[b, n, s, t] = softmax of score over t
    output[b, s, n, v] = sum over t of weight[b, n, s, t] * V[b, n, t, v]

The order of all sums is that of these three operators in float32: products in order of h and t, as fused multiply-adds
from 0 on (in partial sums where GEMM has them), the exponentials as SOFTMAX adds them. So attention has the bits of its
decomposition, and they do not depend on how many queries a target computes together, or on how it lays out keys.

Many keys of many queries are taken in blocks, one after the other, so that no more scores than those of a block are
ever kept: ``largest`` is the maximum of a row so far, and what the blocks before have come to is scaled when it grows.

    weight[t] = exp(score[t] - largest)           scale = exp(largest before - largest)
    total = total before * scale + sum over the block of weight[t]
    output = output before * scale + sum over the block of weight[t] * V[t];  at the end, output * (1 / total)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from opendml.description.enums import MatrixTransform, MultiheadAttentionMaskType
from opendml.description.fields import TensorField, camel_case
from opendml.expression import mathematics
from opendml.expression.element_types import F32, I64
from opendml.expression.folds import extreme_of, lowest, maximum, partials_for, sum_of, sum_of_products
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
    select,
    temporary,
    unary,
)
from opendml.expression.reductions import SHORTEST_PARTIALS, reduction
from opendml.expression.statements import Compute, Definition, Repeat, Single, Statement, Store
from opendml.operators.activation_functions import softmax
from opendml.operators.definition import every_element, optional_tensor, widen
from opendml.operators.matrix import is_dot

if TYPE_CHECKING:
    from opendml.operators.attention import _Attention

KEYS_TOGETHER: Final = 512
"""Keys of a block, if there are more of them. The order of sums follows from it, on every target."""

FEWEST_QUERIES: Final = 16
"""Queries from which on there are blocks: the scores of fewer take no more memory than keys and values."""

Place = Sequence[Expression]
Element = Callable[[Expression, Expression, Expression, Expression], Expression]
"""An element of queries, keys or values by batch, head, position and place in the head."""


class _State(NamedTuple):
    """What the blocks of keys so far have come to, for every row: the ``largest`` score, the ``total`` of the weights,
    and the ``sums`` of weighted values."""

    largest: Tensor
    total: Tensor
    sums: Tensor


def attention(desc: _Attention) -> Definition:
    """The definition of attention."""
    return _Builder(desc).definition()


class _Builder:
    """The tensors and statements of one attention.

    Heads of queries are numbered by the head of keys that they share, g, and their number among those that do, r.
    A row is a batch, a head in these two numbers, and a query.
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
        self.rows = [self.batch, self.heads, self.shared, self.queries]
        self.statements: list[Statement] = []

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
        """What is kept for the next call, then scores, weights and outputs."""
        query, keys, values = self._with_bias("query", 0, self.size), self._all("key", 1), self._all("value", 2)
        assert query is not None
        self._keep("key", keys, self.size)
        self._keep("value", values, self.value_size)
        in_blocks = self.total > KEYS_TOGETHER and self.queries >= FEWEST_QUERIES
        temporaries = (self._add_blocks if in_blocks else self._add_products)(query, keys, values)
        inputs = [tensor for name, tensor in self.tensors.items() if not name.startswith("output")]
        outputs = [tensor for name, tensor in self.tensors.items() if name.startswith("output")]
        return Definition(tuple(inputs), tuple(outputs), tuple(self.statements), temporaries)

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

    def _keep(self, what: str, element: Element, size: int) -> None:
        """Adds the statement of what is kept for the next call, if it is asked for."""
        present = self.tensors[f"output_present_{what}_tensor"]
        if present is not None:
            axes = grid([self.batch, self.heads, self.total, size], "bnth")
            place = indices(axes)
            ones = (constant(0, I64),) * (len(present.sizes) - 4)
            value = cast(element(*place), present.type)
            self.statements.append(Compute(axes, (Store(present, (*ones, *place), value),)))

    def _all(self, what: str, number: int) -> Element:
        """All keys or values: those of the past, as many as there are, then the new ones."""
        new = self._with_bias(what, number, self.size if what == "key" else self.value_size)
        past = self.tensors[f"past_{what}_tensor"]
        if past is None:
            assert new is not None
            return new
        cache = past

        def old(batch: Expression, head: Expression, position: Expression, place: Expression) -> Expression:
            return widen(_load(cache, (batch, head, position, place)))

        if new is None:
            return old
        return self._one_after_the_other(old, new) if self.lengths is None else self._joined(old, new)

    def _one_after_the_other(self, old: Element, new: Element) -> Element:
        """All of the past, then what is new."""

        def either(batch: Expression, head: Expression, position: Expression, place: Expression) -> Expression:
            kept, added = old(batch, head, position, place), new(batch, head, position - self.past, place)
            return select(position < self.past, kept, added)

        return either

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

    # ---- products

    def _add_products(self, query: Element, keys: Element, values: Element) -> tuple[Tensor, ...]:
        """Adds scores, weights and outputs, in order; the tensors between them."""
        axes = grid([*self.rows, self.total], "bgrst")
        place = indices(axes)
        scores = temporary("scores", F32, [*self.rows, self.total])
        work = reduction(scores, (4,))
        work.statements.append(Compute(axes, (Store(scores, place, self._score(query, keys, place)),)))
        weights = temporary("weights", F32, scores.sizes)
        softmax(work, weights)
        self.statements += work.statements
        self._store_output(lambda place: self._weighed(weights, values, place, constant(0, I64), self.total))
        return (scores, *work.temporaries, weights)

    def _weighed(self, weights: Tensor, values: Element, place: Place, start: Expression, count: int) -> Expression:
        """The sum of ``count`` values from ``start`` on, by their weights, for a row and a place in the head."""
        (along,) = grid([count], "t")
        *row, column = place
        factors = load(weights, (*row, index(along))), values(row[0], row[1], start + index(along), column)
        partials = partials_for(along) if is_dot(self.queries, self.value_size, count) else 1
        return sum_of_products((along,), *factors, partials=partials)

    def _store_output(self, value: Callable[[Place], Expression]) -> None:
        """Adds the statement of the output, by the row and the place in the head."""
        axes = grid([*self.rows, self.value_size], "bgrsv")
        batch, head, shared, row, column = indices(axes)
        there = (head * self.shared + shared) * self.value_size + column
        ones = (constant(0, I64),) * (len(self.output.sizes) - 3)
        element = cast(value(indices(axes)), self.output.type)
        self.statements.append(Compute(axes, (Store(self.output, (*ones, batch, row, there), element),)))

    def _add_blocks(self, query: Element, keys: Element, values: Element) -> tuple[Tensor, ...]:
        """The same in blocks of keys."""
        largest, total = temporary("largest", F32, self.rows), temporary("total", F32, self.rows)
        state = _State(largest, total, temporary("sums", F32, [*self.rows, self.value_size]))
        begun = ((largest, lowest(F32)), (total, constant(0, F32)), (state.sums, constant(0, F32)))
        self.statements += [_filled(tensor, value) for tensor, value in begun]
        whole, rest = divmod(self.total, KEYS_TOGETHER)
        (block,) = grid([whole], "j")
        start = index(block) * KEYS_TOGETHER
        statements, temporaries = self._block(query, keys, values, state, start, KEYS_TOGETHER)
        self.statements.append(Repeat(block, statements))
        if rest:
            start = constant(whole * KEYS_TOGETHER, I64)
            statements, others = self._block(query, keys, values, state, start, rest)
            self.statements += statements
            temporaries += others
        self._store_output(lambda place: load(state.sums, place) * (1 / load(total, place[:-1])))
        return (*state, *temporaries)

    def _block(
        self, query: Element, keys: Element, values: Element, state: _State, start: Expression, count: int
    ) -> tuple[tuple[Single, ...], tuple[Tensor, ...]]:
        """The statements that add ``count`` keys from ``start`` on to what there is, and the tensors between them."""
        scores, weights = (temporary(name, F32, [*self.rows, count]) for name in ("scores", "weights"))
        new, scales = (temporary(name, F32, self.rows) for name in ("new_largest", "scales"))
        axes, rows = grid(scores.sizes, "bgrst"), grid(self.rows, "bgrs")
        place, row = indices(axes), indices(rows)
        (along,) = grid([count], "t")
        partials = partials_for(along) if count >= SHORTEST_PARTIALS else 1
        score = self._score(query, keys, (*place[:-1], start + place[-1]))
        maximal = extreme_of("gt", (along,), load(scores, (*row, index(along))), partials=partials)
        weight = mathematics.exp(load(scores, place) - _shift(load(new, place[:-1])))
        before, now = load(state.largest, row), load(new, row)
        # Weights beside a largest score of minus infinity are 0.
        scale = select(before.equals(float("-inf")), 0, mathematics.exp(_shift(before) - _shift(now)))
        added = sum_of((along,), load(weights, (*row, index(along))), partials=partials)
        ends = (
            Store(scales, row, scale),
            Store(state.total, row, load(state.total, row) * scale + added),
            Store(state.largest, row, now),
        )
        columns = grid(state.sums.sizes, "bgrsv")
        at, weighed = indices(columns), temporary("weighed", F32, state.sums.sizes)
        sums = load(state.sums, at) * load(scales, at[:-1]) + load(weighed, at)
        return (
            Compute(axes, (Store(scores, place, score),)),
            Compute(rows, (Store(new, row, maximum(before, maximal)),)),
            Compute(axes, (Store(weights, place, weight),)),
            Compute(rows, ends),
            Compute(columns, (Store(weighed, at, self._weighed(weights, values, at, start, count)),)),
            Compute(columns, (Store(state.sums, at, sums),)),
        ), (scores, weights, new, scales, weighed)

    def _score(self, query: Element, keys: Element, place: Place) -> Expression:
        """The score of a query and a key."""
        batch, head, shared, row, key = place
        (inner,) = grid([self.size], "h")
        number = head * self.shared + shared
        factors = query(batch, number, row, index(inner)), keys(batch, head, key, index(inner))
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
        return score

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


def _filled(tensor: Tensor, value: Expression) -> Compute:
    return every_element(tensor, lambda _: value)


def _shift(largest: Expression) -> Expression:
    """What is subtracted from scores: their maximum, unless it is infinite, as in SOFTMAX."""
    return select(unary("abs", largest) < float("inf"), largest, 0)


def _load(tensor: Tensor, place: Place) -> Expression:
    """An element by its last coordinates; those before them are 0."""
    return load(tensor, (*[constant(0, I64)] * (len(tensor.sizes) - len(place)), *place))


def _role(field: TensorField) -> Literal["input", "output"]:
    return "input" if field.direction == "input" else "output"
