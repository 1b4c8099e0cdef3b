"""GroupQueryAttention: heads of queries share heads of keys and values, each batch has a length of its own.

It is MULTIHEAD_ATTENTION1. A sink, what is added to the sum of a softmax for a position that there is not, is one more
key there, ahead of the others. Soft caps, which that operator lacks, are written out.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final, NamedTuple

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.microsoft.attention import Heads, attended, rotated
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["GROUPED"]

Pair = tuple[GraphTensor, GraphTensor]

HIDDEN: Final = -10000.0
"""What is added to scores of keys that a query does not see, as in DirectML's operator."""

_REFUSED: Final = {
    "qk_output": "scores as outputs have no operator",
    "kv_cache_bit_width": "quantised keys have no operator",
    "sliding_window_cache": "keys that take the places of others have no operator",
}

BIAS, SINK, FURTHER = 10, 11, 12
"""Inputs that there need not be."""


class _Call(NamedTuple):
    """What a node computes. ``past``: keys and values {batch, groups, positions, size}, of which each batch has as many
    as ``lengths`` {batch} says; None in the first call. ``keys``: positions of all keys."""

    heads: Heads
    past: Pair | None
    lengths: GraphTensor | None
    keys: int
    bias: GraphTensor | None
    sink: GraphTensor | None


def _grouped_attention(node: Node) -> Results:
    for name, reason in _REFUSED.items():
        if node.number(name):
            raise NotExpressibleError(reason)
    if any(node.has(position) for position in range(FURTHER, len(node.inputs))) or not node.integer("causal", 1):
        raise NotExpressibleError("quantised keys, norms inside, and attention to later keys have no operator")
    call = _call(node)
    softcap = node.number("softcap")
    found = _capped(node, call, softcap) if softcap else _with_operator(node, call)
    return [None if one is None else node.result(one) for one in found]


def _call(node: Node) -> _Call:
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    query, key, value = _parts(node, count, groups)
    batch, length = query.sizes[:2]
    before = node.sizes(3)[2] if node.has(3) else 0
    old_lengths = node.tensor(5).reshape(batch) + np.int32(1 - length)
    if node.integer("do_rotary"):
        places = node.tensor(9) if node.has(9) else _places(old_lengths, batch, length)
        query, key = (
            rotated(node, one.reshape(batch, length, heads, -1), places, 7, 8).reshape(one.sizes)
            for one, heads in ((query, count), (key, groups))
        )
    heads = Heads(query, key, value, count, groups)
    keys = max(before, int(node.known(6).reshape(-1)[0])) if before else length
    bias = _bias(node, keys) if node.has(BIAS) else None
    if not before:
        return _Call(heads, None, None, keys, bias, _sink(node))
    past = (node.tensor(3), node.tensor(4))
    return _Call(heads, past, dml.max(old_lengths, np.zeros(1, np.int32)), keys, bias, _sink(node))


def _parts(node: Node, count: int, groups: int) -> list[GraphTensor]:
    query = node.tensor(0)
    if node.has(1):
        return [query, node.tensor(1), node.tensor(2)]
    size = query.sizes[2] // (count + 2 * groups)
    places = np.cumsum([0, count * size, groups * size, groups * size]).tolist()
    return [query[:, :, a:b] for a, b in itertools.pairwise(places)]


def _places(first: GraphTensor, batch: int, length: int) -> GraphTensor:
    """Positions from the first of each batch on; before the beginning there are none."""
    steps = np.arange(length, dtype=np.int32).reshape(1, length)
    return dml.max(first.reshape(batch, 1), np.zeros((1, 1), np.int32)) + steps


def _bias(node: Node, keys: int) -> GraphTensor:
    """What is added to scores: {batch or 1, heads or 1, queries, keys}."""
    bias = node.tensor(BIAS)
    missing = keys - bias.sizes[3]
    if missing <= 0:
        return bias[..., :keys]
    found: GraphTensor = dml.padding(bias, start_padding=[0] * 4, end_padding=[0, 0, 0, missing])
    return found


def _sink(node: Node) -> GraphTensor | None:
    """The score {heads or 1} of a key without a value; a smooth softmax has one of 0."""
    if node.has(SINK):
        return node.tensor(SINK).flatten()
    return node.graph.constant(np.zeros(1, node.type_of())) if node.integer("smooth_softmax") else None


def _seen(node: Node, call: _Call, causal: bool) -> GraphTensor | None:
    """1 for keys {batch or 1, 1, queries, keys} that a query sees: none too far before it and, if that is to be said
    (``causal``), none behind it. None where all are seen."""
    window = node.integer("local_window_size", -1)
    queries = np.arange(call.heads.queries, dtype=np.int32).reshape(1, 1, -1, 1)
    columns = np.arange(call.keys, dtype=np.int32).reshape(1, 1, 1, -1)
    if call.lengths is None:
        seen = (columns <= queries) & (columns > queries - window if window > 0 else True)
        return node.graph.constant(seen.astype(np.int32))
    places: Any = call.lengths.reshape(-1, 1, 1, 1) + queries
    found: list[Any] = [dml.less_than_or_equal(node.graph.constant(columns), places)] if causal else []
    if window > 0:
        found.append(dml.greater_than(node.graph.constant(columns), places - np.int32(window)))
    if not found:
        return None
    return dml.cast(found[0] if len(found) == 1 else dml.logical_and(*found), "int32")  # type: ignore[no-any-return]


# ---- by DirectML's operator


def _with_operator(node: Node, call: _Call) -> list[GraphTensor | None]:
    """Without a past the batches are filled up at their ends, which no query sees."""
    asked, seen = call, _seen(node, call, causal=False)
    if call.sink is not None:
        asked, seen = _behind_a_sink(node, call), _padded(seen, 1)
    found = attended(
        node,
        asked.heads,
        mask=seen,
        scores=asked.bias,
        past=asked.past or (None, None),
        past_lengths=asked.lengths,
        total=None if asked.past is None else asked.keys,
        present=node.wants(1),
        scale=_scale(node, call.heads),
    )
    output, present = found.output, [found.present_key, found.present_value]
    if call.sink is not None:
        width = call.heads.value.sizes[2] // call.heads.key_value_count
        present = [None if one is None else one[:, :, 1:, :width].packed() for one in present]
    return [output, *present]


def _padded(mask: GraphTensor | None, value: int) -> GraphTensor | None:
    """With a column ahead of the others."""
    if mask is None:
        return None
    found: GraphTensor = dml.padding(mask, start_padding=[0, 0, 0, 1], end_padding=[0] * 4, padding_value=value)
    return found


def _scale(node: Node, heads: Heads) -> float:
    return node.number("scale") or 1 / math.sqrt(heads.query.sizes[2] // heads.count)


def _behind_a_sink(node: Node, call: _Call) -> _Call:
    """With a key ahead of the others, whose value is 0 and whose score is the sink's: heads have one more element, in
    which this key alone is 1, and queries what makes the score of it."""
    heads, sink = call.heads, call.sink
    assert sink is not None
    batch, length, width = heads.query.sizes
    count, groups, size = heads.count, heads.key_value_count, width // heads.count
    of_queries = (sink * (1 / _scale(node, heads))).reshape(1, 1, -1, 1).broadcast_to((batch, length, count, 1))
    query = dml.join([heads.query.reshape(batch, length, count, size), of_queries], axis=3)
    kind = heads.query.dtype
    first_key = np.zeros((1, 1, 1, size + 1), kind)
    first_key[..., size] = 1

    def longer(tensor: GraphTensor, first: GraphTensor, axis: int, fill: int) -> GraphTensor:
        """A tensor of four dimensions with more elements in each head, and (where there is one) the sink's position."""
        more = dml.padding(tensor, start_padding=[0] * 4, end_padding=[0, 0, 0, fill]) if fill else tensor
        sizes = [1 if i == axis else length for i, length in enumerate(more.sizes)]
        return dml.join([first.broadcast_to(sizes), more], axis=axis)

    firsts = [node.graph.constant(one) for one in (first_key, np.zeros((1, 1, 1, size), kind))]
    fills = (1, 0)
    new = [one.reshape(batch, -1, groups, size) for one in (heads.key, heads.value)]
    past, lengths = call.past, call.lengths
    if past is None:
        new = [longer(one, first, 1, fill) for one, first, fill in zip(new, firsts, fills, strict=True)]
    else:
        assert lengths is not None
        new[0] = dml.padding(new[0], start_padding=[0] * 4, end_padding=[0, 0, 0, 1])
        old_key, old_value = (longer(one, first, 2, fill) for one, first, fill in zip(past, firsts, fills, strict=True))
        past = (old_key, old_value)
        lengths = lengths + np.int32(1)
    key, value = (one.reshape(batch, one.sizes[1], -1) for one in new)
    query = query.reshape(batch, length, -1)
    return call._replace(
        heads=Heads(query, key, value, count, groups),
        past=past,
        lengths=lengths,
        keys=call.keys + 1,
        bias=_padded(call.bias, 0),
    )


# ---- written out


def _capped(node: Node, call: _Call, softcap: float) -> list[GraphTensor | None]:
    """``softmax(softcap * tanh(scores / softcap) + bias) @ values``, the queries of a group as one matrix."""
    heads = call.heads
    batch, length, width = heads.query.sizes
    count, groups, size = heads.count, heads.key_value_count, width // heads.count
    rows = count // groups * length
    new = [one.reshape(batch, length, groups, size).transpose(0, 2, 1, 3) for one in (heads.key, heads.value)]
    key, value = new if call.past is None else [_appended(call, *pair) for pair in zip(call.past, new, strict=True)]
    query = heads.query.reshape(batch, length, count, size).transpose(0, 2, 1, 3).reshape(batch, groups, rows, size)
    scores: Any = (query @ key.transpose(0, 1, 3, 2)) * (_scale(node, heads) / softcap)
    scores = (dml.activation_tanh(scores) * softcap).reshape(batch, count, length, call.keys)
    scores = scores if call.bias is None else scores + call.bias
    seen = _seen(node, call, causal=True)
    assert seen is not None
    hidden = node.graph.constant(np.full((1, 1, 1, 1), HIDDEN, scores.dtype)).broadcast_to(scores.sizes)
    scores = dml.if_(dml.cast(seen, "uint8").broadcast_to(scores.sizes), scores, hidden)
    if call.sink is not None:
        scores = dml.join([call.sink.reshape(1, -1, 1, 1).broadcast_to((batch, count, length, 1)), scores], axis=3)
    weights = dml.activation_softmax(scores, axes=[3])
    weights = weights if call.sink is None else weights[..., 1:]
    found = weights.reshape(batch, groups, rows, call.keys) @ value
    output = found.reshape(batch, count, length, size).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return [output, *((key.packed(), value.packed()) if node.wants(1) else (None, None))]


def _appended(call: _Call, past: GraphTensor, new: GraphTensor) -> GraphTensor:
    """Keys or values {batch, groups, positions, size}: new ones behind as many old ones as the batch has."""
    assert call.lengths is not None
    batch, groups, before, size = past.sizes
    length, sizes = new.sizes[2], (batch, groups, call.keys, size)
    past = dml.padding(past, start_padding=[0] * 4, end_padding=[0, 0, call.keys - before, 0])
    columns = np.arange(call.keys, dtype=np.int32).reshape(1, 1, -1, 1)
    places = new.graph.constant(columns) - call.lengths.reshape(batch, 1, 1, 1)
    is_new = dml.logical_and(
        dml.greater_than_or_equal(places, np.zeros((1, 1, 1, 1), np.int32)),
        dml.less_than(places, np.full((1, 1, 1, 1), length, np.int32)),
    )
    indices = dml.clip(places, 0, length - 1).broadcast_to(sizes)
    found: GraphTensor = dml.if_(is_new.broadcast_to(sizes), dml.gather_elements(new, indices, axis=2), past)
    return found


GROUPED: Final[Table] = {"GroupQueryAttention": _grouped_attention}
