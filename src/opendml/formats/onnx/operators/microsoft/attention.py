"""Attention as ONNX Runtime's operators have it, by MULTIHEAD_ATTENTION1; and rotary embeddings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.microsoft.quantized import product_of_integers
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["ATTENTION", "Heads", "attended", "rotated"]


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values of all heads, {batch, positions, heads * size}."""

    query: GraphTensor
    key: GraphTensor
    value: GraphTensor
    count: int
    key_value_count: int

    @property
    def batch(self) -> int:
        """The number of batches."""
        return self.query.sizes[0]

    @property
    def queries(self) -> int:
        """The number of positions that ask."""
        return self.query.sizes[1]


def attended(
    node: Node,
    heads: Heads,
    *,
    mask: GraphTensor | None = None,
    scores: GraphTensor | None = None,
    past: tuple[GraphTensor | None, GraphTensor | None] = (None, None),
    past_lengths: GraphTensor | None = None,
    total: int | None = None,
    present: bool = False,
    scale: float = 0.0,
) -> Any:
    """The attention; ``mask`` is int32 and broadcasts to {batch, heads, queries, keys}, where 0 hides. ``scale``: the
    node's where it is 0."""
    before = 0 if past[0] is None else past[0].sizes[2]
    keys = before + heads.key.sizes[1] if total is None else total
    sizes = (heads.batch, heads.count, heads.queries, keys)
    scale = scale or node.number("scale")
    return dml.multihead_attention(
        heads.query,
        heads.key,
        heads.value,
        mask=None if mask is None else mask.broadcast_to(sizes),
        relative_position_bias=None if scores is None else scores.broadcast_to(sizes),
        past_key=past[0],
        past_value=past[1],
        past_sequence_lengths=past_lengths,
        head_count=heads.count,
        key_value_head_count=heads.key_value_count,
        scale=scale if scale else None,
        mask_filter_value=node.number("mask_filter_value", -10000.0),
        total_sequence_length=total,
        output_present_key=present,
        output_present_value=present,
    )


# ---- masks


def _mask(node: Node, position: int, heads: Heads, before: int, keys: int) -> GraphTensor | None:
    """What queries may see: by a mask of keys or the lengths of the batches, and of no later keys."""
    given = _given_mask(node, position, heads.batch, keys) if node.has(position) else None
    if not node.integer("unidirectional"):
        return given
    causal = np.tril(np.ones((heads.queries, keys), np.int32), before)[None, None]
    constant = node.graph.constant(causal)
    return constant if given is None else dml.min(given, constant)


def _given_mask(node: Node, position: int, batch: int, keys: int) -> GraphTensor:
    mask, sizes = node.tensor(position), node.sizes(position)
    places = np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys)
    if len(sizes) == 1 and sizes[0] in (batch, 2 * batch):
        ends = mask[:batch].reshape(batch, 1, 1, 1)
        seen = dml.less_than(node.graph.constant(places), ends)
        if sizes[0] == 2 * batch:
            starts = mask[batch:].reshape(batch, 1, 1, 1)
            seen = dml.logical_and(seen, dml.greater_than_or_equal(node.graph.constant(places), starts))
        return dml.cast(seen, "int32")
    if len(sizes) == 2 and sizes[1] == keys:
        return mask.reshape(sizes[0], 1, 1, keys)
    if len(sizes) == 3 and sizes[2] == keys:
        return mask.reshape(sizes[0], 1, *sizes[1:])
    raise NotExpressibleError(f"a mask of {list(sizes)} beside {batch} batches and {keys} keys has no operator")


def _scores(node: Node, position: int) -> GraphTensor | None:
    return node.optional(position)


# ---- operators


def _attention(node: Node) -> Results:
    """Queries, keys and values are one product, then parts of it."""
    batch, length, width = node.sizes()
    weights = node.tensor(1)
    product = node.tensor().reshape(-1, width) @ weights
    if node.has(2):
        product = product + node.tensor(2).reshape(1, -1)
    return _packed_attention(node, product.reshape(batch, length, -1), mask=3, past=4, scores=5)


def _quantized_attention(node: Node) -> Results:
    batch, length, width = node.sizes()
    scales = [node.tensor(position).flatten() for position in (3, 4)]
    zeros = [None if (zero := node.optional(position)) is None else zero.flatten() for position in (6, 7)]
    product = product_of_integers(
        node,
        (node.tensor().reshape(-1, width), scales[0], zeros[0]),
        (node.tensor(1), scales[1], zeros[1]),
        node.tensor(2).reshape(1, -1),
    )
    return _packed_attention(node, product.reshape(batch, length, -1), mask=5, past=8, scores=99)


def _packed_attention(node: Node, whole: GraphTensor, mask: int, past: int, scores: int) -> Results:
    if node.integer("do_rotary") or node.integer("past_present_share_buffer"):
        raise NotExpressibleError("rotary embeddings inside, and a past that is written to, have no operator")
    width = whole.sizes[2]
    parts = node.integers("qkv_hidden_sizes") or [width // 3] * 3
    places = np.cumsum([0, *parts]).tolist()
    query, key, value = (whole[:, :, a:b] for a, b in itertools.pairwise(places))
    count = node.integer("num_heads")
    heads = Heads(query, key, value, count, count)
    before = node.sizes(past)[3] if node.has(past) else 0
    old: tuple[GraphTensor | None, GraphTensor | None] = (None, None)
    if before:
        both = node.tensor(past)
        old = (both[0], both[1])
    found = attended(
        node,
        heads,
        mask=_mask(node, mask, heads, before, before + key.sizes[1]),
        scores=_scores(node, scores),
        past=old,
        present=node.wants(1),
    )
    results: list[Any] = [node.result(found.output)]
    if node.wants(1):
        kept = [one.expand_dims(0) for one in (found.present_key, found.present_value)]
        results.append(node.result(dml.join(kept, axis=0)))
    return results


def _multihead_attention(node: Node) -> Results:
    """Keys and values may be packed with each other or with queries, or be those of another sequence, by heads."""
    if node.wants(3) or any(node.has(position) for position in (8, 9)):
        raise NotExpressibleError("scores as outputs, and a past that is written to, have no operator")
    count = node.integer("num_heads")
    query, key, value = _biased(node, _separate(node, count))
    heads = Heads(query, key, value, count, count)
    before = node.sizes(6)[2] if node.has(6) else 0
    old = (node.tensor(6), node.tensor(7)) if before else (None, None)
    found = attended(
        node,
        heads,
        mask=_mask(node, 4, heads, before, before + heads.key.sizes[1]),
        scores=_scores(node, 5),
        past=old,
        present=node.wants(1),
    )
    values = (found.output, found.present_key, found.present_value)
    return [None if one is None else node.result(one) for one in values]


def _separate(node: Node, count: int) -> list[GraphTensor]:
    """Queries, keys and values, each {batch, positions, heads * size}."""
    query = node.tensor(0)
    if query.rank == 5:
        batch, length, _, _, size = query.sizes
        return [query[:, :, :, i].reshape(batch, length, count * size) for i in range(3)]
    key = node.tensor(1)
    if key.rank == 5:
        batch, length, _, _, size = key.sizes
        return [query, *(key[:, :, :, i].reshape(batch, length, count * size) for i in range(2))]
    return [query, *(_heads_last(node.tensor(position)) for position in (1, 2))]


def _heads_last(tensor: GraphTensor) -> GraphTensor:
    """{batch, heads, positions, size} as {batch, positions, heads * size}; others are that already."""
    if tensor.rank != 4:
        return tensor
    batch, heads, length, size = tensor.sizes
    return tensor.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def _biased(node: Node, parts: Sequence[GraphTensor]) -> Sequence[GraphTensor]:
    """One bias for all three, its parts behind one another."""
    if not node.has(3):
        return parts
    bias = node.tensor(3).flatten()
    places = [0, *np.cumsum([part.sizes[2] for part in parts]).tolist()]
    return [part + bias[a:b].reshape(1, 1, -1) for part, (a, b) in zip(parts, itertools.pairwise(places), strict=True)]


# ---- rotary embeddings


def _rotary(node: Node) -> Results:
    """{batch, positions, heads * size}, or {batch, heads, positions, size}."""
    tensor = node.tensor()
    by_heads = tensor.rank == 4
    if by_heads:
        tensor = tensor.transpose(0, 2, 1, 3)
    batch, length = tensor.sizes[:2]
    half = node.sizes(2)[1]
    size = tensor.sizes[3] if by_heads else tensor.sizes[2] // (node.integer("num_heads") or 1)
    if not by_heads and not node.integer("num_heads"):
        size = 2 * half
    if node.integer("is_packed_batching"):
        raise NotExpressibleError("batches that are packed have no operator")
    places = node.tensor(1)
    if places.size == 1 and batch * length > 1:
        places = places.reshape(1, 1) + np.arange(length, dtype=places.dtype).reshape(1, length)
    places = places.reshape(-1, length).broadcast_to((batch, length))
    found = rotated(node, tensor.reshape(batch, length, -1, size), places, 2, 3)
    found = found.transpose(0, 2, 1, 3).packed() if by_heads else found.reshape(tensor.sizes)
    scale = node.number("scale", 1.0)
    return node.result(found if scale == 1 else found * scale, node.sizes())


def rotated(node: Node, x: GraphTensor, places: GraphTensor, cosines: int, sines: int) -> GraphTensor:
    """Pairs of elements turned: {batch, positions, heads, size} by the rows of the tables for the places."""
    batch, length, heads, size = x.sizes
    half = node.sizes(cosines)[1]
    rows = places.reshape(1, -1)
    cosine, sine = (
        dml.gather(node.tensor(one), rows, axis=0, index_dimensions=1).reshape(batch, length, 1, half)
        for one in (cosines, sines)
    )
    turned, rest = x[..., : 2 * half], x[..., 2 * half :] if 2 * half < size else None
    if node.integer("interleaved") or node.integer("rotary_interleaved"):
        pairs = turned.reshape(batch, length, heads, half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        found = dml.join([one.expand_dims(4) for one in (a * cosine - b * sine, b * cosine + a * sine)], axis=4)
        found = found.reshape(batch, length, heads, 2 * half)
    else:
        a, b = turned[..., :half], turned[..., half:]
        found = dml.join([a * cosine - b * sine, b * cosine + a * sine], axis=3)
    return found if rest is None else dml.join([found, rest], axis=3)


ATTENTION: Final[Table] = {
    "Attention": _attention,
    "MultiHeadAttention": _multihead_attention,
    "QAttention": _quantized_attention,
    "RotaryEmbedding": _rotary,
}
