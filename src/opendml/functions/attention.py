"""Attention: multihead_attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import MultiheadAttentionMaskType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate, operand_rules, sizes_or
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.attention import MultiheadAttention1
from opendml.programs.device import Device

T = TypeVar("T")


@several
class MultiheadAttentionOutputs(NamedTuple, Generic[T]):
    """What ``multihead_attention`` returns; None for what was not asked for."""

    output: T
    present_key: T | None
    present_value: T | None


@operator_function
def multihead_attention(
    query: Operand | None = None,
    key: Operand | None = None,
    value: Operand | None = None,
    stacked_query_key: Operand | None = None,
    stacked_key_value: Operand | None = None,
    stacked_query_key_value: Operand | None = None,
    bias: Operand | None = None,
    mask: Operand | None = None,
    relative_position_bias: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    past_sequence_lengths: Operand | None = None,
    *,
    head_count: int,
    key_value_head_count: int | None = None,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    mask_type: MultiheadAttentionMaskType | str | None = None,
    total_sequence_length: int | None = None,
    output_present_key: bool = False,
    output_present_value: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> MultiheadAttentionOutputs[Any]:
    """``softmax(scale * Q @ K.T + relative_position_bias + mask) @ V`` of every head (MULTIHEAD_ATTENTION1; at lower
    levels MULTIHEAD_ATTENTION).

    ``query``: {B, S, N * H}, float32 or float16: batches of B, S queries, N = ``head_count`` heads of size H. ``key``:
    {B, L, G * H}, ``value``: {B, L, G * V}, where G = ``key_value_head_count``, by default N, divides N. Instead of
    them ``stacked_query_key``: {B, S, N, 2, H}, ``stacked_key_value``: {B, L, G, 2, H}, or
    ``stacked_query_key_value``: {B, S, N, 3, H}. ``bias``: {(N + G) * H + G * V}, added to them. ``past_key``:
    {B, G, P, H}, ``past_value``: {B, G, P, V}: before the new keys and values; with ``past_sequence_lengths``, {B},
    int32, each batch has as many of them, and query s sees no keys behind the new key s. T = P + L keys in all, or
    ``total_sequence_length``, which the lengths allow to be less. ``relative_position_bias``: {B, N, S, T}.

    ``mask``: int32, what it holds says ``mask_type``, by default ``BOOLEAN``, {B, N, S, T}: ``mask_filter_value`` is
    added to the scores where it is 0. ``scale`` is by default ``1 / sqrt(H)``. Returns ``output``, {B, S, N * V}, and
    if asked for all keys and values, {B, G, T, H} and {B, G, T, V}, for the next call.

    >>> one, two = np.ones((1, 1, 2), "float32"), np.array([[[1, 2], [3, 4]]], "float32")
    >>> dml.multihead_attention(one, two, two, head_count=2, scale=0).output.tolist()
    [[[2.0, 3.0]]]
    """
    new = (query, key, value, stacked_query_key, stacked_key_value, stacked_query_key_value)
    operands = (*new, bias, mask, relative_position_bias, past_key, past_value, past_sequence_lengths)
    usual = "NONE" if mask is None else "BOOLEAN"
    parameters = (
        head_count,
        head_count if key_value_head_count is None else key_value_head_count,
        usual if mask_type is None else mask_type,
        total_sequence_length,
        output_present_key,
        output_present_value,
    )
    numbers = (scale, mask_filter_value)
    found = evaluate(_multihead_attention, operands, parameters, numbers, optional=12, device=device, out=out)
    return MultiheadAttentionOutputs(*found)


@operand_rules(OperandRules("xxxxxxxmxxxl"))
def _multihead_attention(
    query: TensorDesc | None,
    key: TensorDesc | None,
    value: TensorDesc | None,
    stacked_query_key: TensorDesc | None,
    stacked_key_value: TensorDesc | None,
    stacked_query_key_value: TensorDesc | None,
    bias: TensorDesc | None,
    mask: TensorDesc | None,
    relative_position_bias: TensorDesc | None,
    past_key: TensorDesc | None,
    past_value: TensorDesc | None,
    past_sequence_lengths: TensorDesc | None,
    head_count: Any,
    key_value_head_count: Any,
    mask_type: Any,
    total_sequence_length: Any,
    output_present_key: bool,
    output_present_value: bool,
    scale: Any,
    mask_filter_value: Any,
) -> Operator:
    given = _Given(
        *(query, key, value, stacked_query_key, stacked_key_value, stacked_query_key_value, past_key, past_value),
        *(head_count, key_value_head_count, total_sequence_length),
    )
    usual = given.queries or given.keys or TensorDesc("float32", [1, 1, 1])
    (width,) = sizes_or((1,), lambda: (given.head_size,))
    (value_width,) = sizes_or((1,), lambda: (given.value_size,))

    def result(infer: Callable[[int], tuple[int, ...]], width: int) -> TensorDesc:
        return TensorDesc(usual.data_type, sizes_or(usual.sizes, lambda: infer(width)))

    return MultiheadAttention1(
        query_tensor=query,
        key_tensor=key,
        value_tensor=value,
        stacked_query_key_tensor=stacked_query_key,
        stacked_key_value_tensor=stacked_key_value,
        stacked_query_key_value_tensor=stacked_query_key_value,
        bias_tensor=bias,
        mask_tensor=mask,
        relative_position_bias_tensor=relative_position_bias,
        past_key_tensor=past_key,
        past_value_tensor=past_value,
        past_sequence_lengths_tensor=past_sequence_lengths,
        output_tensor=result(given.output_sizes, value_width),
        output_present_key_tensor=result(given.present_sizes, width) if output_present_key else None,
        output_present_value_tensor=result(given.present_sizes, value_width) if output_present_value else None,
        scale=(width**-0.5 if width > 0 else 1) if scale is None else scale,
        mask_filter_value=mask_filter_value,
        query_head_count=head_count,
        key_value_head_count=key_value_head_count,
        mask_type=mask_type,
    )


class _Given(NamedTuple):
    """The tensors and numbers that sizes of results follow from. Where these make no sense what is asked of them is one
    of the errors of inference."""

    query: TensorDesc | None
    key: TensorDesc | None
    value: TensorDesc | None
    stacked_query_key: TensorDesc | None
    stacked_key_value: TensorDesc | None
    stacked_query_key_value: TensorDesc | None
    past_key: TensorDesc | None
    past_value: TensorDesc | None
    head_count: Any
    key_value_head_count: Any
    total_sequence_length: Any

    @property
    def stacks(self) -> tuple[TensorDesc | None, ...]:
        """Those with three dimensions behind batch and positions: heads, which of the stacked ones, and elements."""
        return self.stacked_query_key_value, self.stacked_query_key, self.stacked_key_value

    @property
    def queries(self) -> TensorDesc | None:
        """What has the queries."""
        return _first(self.query, self.stacked_query_key, self.stacked_query_key_value)

    @property
    def keys(self) -> TensorDesc | None:
        """What has the new keys, or as many values."""
        return _first(self.key, *self.stacks, self.value)

    @property
    def head_size(self) -> int:
        """Elements of a query, and of a key, of one head."""
        if self.query is not None and _first(*self.stacks) is None:
            return int(self.query.sizes[-1] // self.head_count)
        return _sizes_of_first(*self.stacks)[-1]

    @property
    def value_size(self) -> int:
        """Elements of a value of one head."""
        if self.value is not None:
            return int(self.value.sizes[-1] // self.key_value_head_count)
        return _sizes_of_first(self.stacked_query_key_value, self.stacked_key_value, self.past_value)[-1]

    def output_sizes(self, width: int) -> tuple[int, ...]:
        """Of a result with values of so many elements for each head."""
        return self._size(self.queries, -3), self._size(self.queries, -2), self.head_count * width

    def present_sizes(self, width: int) -> tuple[int, ...]:
        """Of all keys, or values, of so many elements for each head."""
        past = 0 if self.past_key is None else self.past_key.sizes[-2]
        total = past + (0 if self.keys is None else self._size(self.keys, -2))
        count = total if self.total_sequence_length is None else self.total_sequence_length
        return self._size(self.queries, -3), self.key_value_head_count, count, width

    def _size(self, tensor: TensorDesc | None, position: int) -> int:
        """The batch, -3, or the positions, -2."""
        return _sizes_of_first(tensor)[position - (tensor in self.stacks) * 2]


def _first(*tensors: TensorDesc | None) -> TensorDesc | None:
    """The first tensor that is given."""
    return next((tensor for tensor in tensors if tensor is not None), None)


def _sizes_of_first(*tensors: TensorDesc | None) -> tuple[int, ...]:
    """The sizes of the first tensor that is given; a ``LookupError`` if none is."""
    found = _first(*tensors)
    if found is None:
        raise LookupError("no tensor is given")
    return found.sizes
