"""Attention: against loops in float64, its decomposition bit for bit, PyTorch and ONNX Runtime; caches and stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_cases import (
    arrays_for,
    assert_near,
    attentions,
    blocks_of_keys,
    bounded,
    heads_first,
    random,
    reference,
    small_blocks,
)
from execution import assert_identical, run_operator, seeds
from hypothesis import given
from hypothesis import strategies as st

import opendml as dml
from opendml import operators as op
from opendml.description.descriptors import Operator


@pytest.mark.parametrize("cls", [op.MultiheadAttention, op.MultiheadAttention1])
@bounded
@given(data=st.data(), seed=seeds)
def test_loops(cls: type[Operator], data: st.DataObject, seed: int) -> None:
    desc = data.draw(attentions(cls))
    arrays = arrays_for(desc, seed)
    outputs = run_operator(desc, arrays)
    found, wrong = reference(desc, arrays)
    largest = float(np.abs(found[2]).max())
    for actual, expected in zip(outputs, found, strict=True):
        if actual is not None:
            assert_near(actual, expected.reshape(actual.shape), largest, wrong)


@bounded
@given(data=st.data(), seed=seeds)
def test_extreme_values_are_computed_alike(data: st.DataObject, seed: int) -> None:
    """Interpreted and compiled, with NaN and infinities in all tensors."""
    desc = data.draw(attentions(data.draw(st.sampled_from([op.MultiheadAttention, op.MultiheadAttention1]))))
    run_operator(desc, arrays_for(desc, seed, special=True))


@pytest.mark.parametrize(
    ("queries", "keys", "size", "value_size"),
    [(1, 40, 32, 8), (3, 3, 16, 3), (5, 17, 8, 4), (33, 70, 16, 24), (4, 2, 40, 1), (2, 1, 64, 64), (7, 130, 3, 2)],
)
def test_bits_of_the_decomposition(queries: int, keys: int, size: int, value_size: int) -> None:
    """GEMM, SOFTMAX and GEMM have the same bits in float32."""
    heads = 3
    q, k, v = random(2, queries, heads * size), random(2, keys, heads * size), random(2, keys, heads * value_size)
    relative = random(2, heads, queries, keys)
    operands = (q, k, v, *[None] * 5, relative)
    actual = dml.multihead_attention(*operands, head_count=heads, scale=0.3).output
    left, right = (np.ascontiguousarray(heads_first(x, heads)) for x in (q, k))
    scores = dml.add(dml.gemm(left, right, trans_b="TRANSPOSE", alpha=0.3), relative)
    weights = dml.activation_softmax(scores, axes=[3])
    expected = dml.gemm(weights, np.ascontiguousarray(heads_first(v, heads)))
    assert_identical(actual, expected.transpose(0, 2, 1, 3).reshape(actual.shape))


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = random(2, 9, 4 * 16), random(2, 21, 4 * 16), random(2, 21, 4 * 24)
    keep = np.random.default_rng(3).integers(0, 2, (2, 1, 1, 21)).astype(np.int32)
    mask = np.broadcast_to(keep, (2, 4, 9, 21))
    actual = dml.multihead_attention(q, k, v, mask=mask, head_count=4, mask_filter_value=-np.inf).output
    tensors = [torch.tensor(np.ascontiguousarray(heads_first(x, 4))) for x in (q, k, v)]
    allowed = torch.tensor(keep.astype(bool))
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=allowed)
    assert_near(actual, expected.numpy().transpose(0, 2, 1, 3).reshape(actual.shape))


def test_torch_causal_with_groups() -> None:
    """Lengths of the past of 0: each query sees the keys up to its own, and heads share those of keys."""
    torch = pytest.importorskip("torch")
    q, k, v = random(2, 9, 6 * 16), random(2, 9, 2 * 16), random(2, 9, 2 * 16)
    past, lengths = np.full((2, 2, 9, 16), np.nan, np.float32), np.zeros(2, np.int32)
    result = dml.multihead_attention(
        q, k, v, past_key=past, past_value=past, past_sequence_lengths=lengths, head_count=6, key_value_head_count=2,
        total_sequence_length=9, output_present_key=True, output_present_value=True,
    )  # fmt: skip
    tensors = [torch.tensor(np.ascontiguousarray(heads_first(x, n))) for x, n in ((q, 6), (k, 2), (v, 2))]
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True, enable_gqa=True)
    assert_near(result.output, expected.numpy().transpose(0, 2, 1, 3).reshape(result.output.shape))
    assert result.present_key is not None
    assert_identical(result.present_key, heads_first(k, 2))


def test_a_cache_of_fixed_capacity() -> None:
    """Token by token into the same cache is all tokens at once."""
    heads, size, count = 2, 8, 6
    q, k, v = (random(1, count, heads * size, seed=seed) for seed in range(3))
    common: dict[str, Any] = {"head_count": heads, "output_present_key": True, "output_present_value": True}
    keys = values = np.zeros((1, heads, count, size), np.float32)
    step_by_step = []
    for t in range(count):
        found = dml.multihead_attention(
            q[:, t : t + 1], k[:, t : t + 1], v[:, t : t + 1], past_key=keys, past_value=values,
            past_sequence_lengths=np.array([t], np.int32), total_sequence_length=count, **common,
        )  # fmt: skip
        step_by_step.append(found.output)
        assert found.present_key is not None
        assert found.present_value is not None
        keys, values = found.present_key, found.present_value
    assert_identical(keys, heads_first(k, heads))
    causal = np.broadcast_to(np.tri(count, dtype=np.int32), (1, heads, count, count))
    whole = dml.multihead_attention(q, k, v, mask=causal, head_count=heads, mask_filter_value=-np.inf).output
    assert_near(np.concatenate(step_by_step, 1), whole)


def test_onnx_runtime() -> None:
    """com.microsoft.MultiHeadAttention: bias, lengths of keys, relative position bias, past and present."""
    onnxruntime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    heads, size, past = 2, 8, 3
    arrays = {
        "query": random(2, 5, heads * size),
        "key": random(2, 5, heads * size, seed=1),
        "value": random(2, 5, heads * size, seed=2),
        "bias": random(3 * heads * size),
        "key_padding_mask": np.array([[1] * 8, [1] * 6 + [0] * 2], np.int32),
        "attention_bias": random(2, heads, 5, 5 + past),
        "past_key": random(2, heads, past, size),
        "past_value": random(2, heads, past, size, seed=1),
    }
    types = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT32}
    outputs = ["output", "present_key", "present_value"]
    node = onnx.helper.make_node("MultiHeadAttention", list(arrays), outputs, domain="com.microsoft", num_heads=heads)
    graph = onnx.helper.make_graph(
        [node],
        "attention",
        [onnx.helper.make_tensor_value_info(n, types[x.dtype.kind], x.shape) for n, x in arrays.items()],
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs],
    )
    domains = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, arrays)
    q, k, v, bias, mask, relative, past_key, past_value = arrays.values()
    actual = dml.multihead_attention(
        q, k, v, bias=bias, mask=np.broadcast_to(mask[:, None, None], (2, heads, 5, 8)),
        relative_position_bias=relative, past_key=past_key, past_value=past_value, head_count=heads,
        output_present_key=True, output_present_value=True,
    )  # fmt: skip
    for a, b in zip(actual, expected, strict=True):
        assert a is not None
        assert_near(a, b)
    lengths = dml.multihead_attention(
        q, k, v, bias=bias, mask=np.array([[8, 6]], np.int32), mask_type="KEY_SEQUENCE_LENGTH",
        relative_position_bias=relative, past_key=past_key, past_value=past_value, head_count=heads,
    )  # fmt: skip
    assert_identical(lengths.output, actual.output)


def test_stacks_are_slices() -> None:
    q, k, v = (random(2, 5, 3 * 4, seed=seed) for seed in range(3))
    expected = dml.multihead_attention(q, k, v, head_count=3).output
    split = [x.reshape(2, 5, 3, 4) for x in (q, k, v)]
    pairs: list[dict[str, Any]] = [
        {"stacked_query_key": np.stack(split[:2], 3), "value": v},
        {"query": q, "stacked_key_value": np.stack(split[1:], 3)},
        {"stacked_query_key_value": np.stack(split, 3)},
    ]
    for operands in pairs:
        assert_identical(dml.multihead_attention(**operands, head_count=3).output, expected)


def test_keys_of_the_past_alone() -> None:
    """A cache that another call has made is all keys and values that there are."""
    q, k, v = random(2, 5, 3 * 4), random(2, 7, 3 * 4), random(2, 7, 3 * 6)
    cache: dict[str, Any] = {"past_key": heads_first(k, 3), "past_value": heads_first(v, 3)}
    assert_near(
        dml.multihead_attention(q, **cache, head_count=3).output,
        dml.multihead_attention(q, k, v, head_count=3).output,
    )


def test_rows_that_are_masked_as_a_whole() -> None:
    """The filter is added to all scores, so it changes the weights by roundings alone; an infinite one leaves none."""
    q, k, v = random(1, 2, 8), random(1, 5, 8), random(1, 5, 8)
    mask = np.zeros((1, 2, 2, 5), np.int32)
    whole = dml.multihead_attention(q, k, v, head_count=2).output
    filtered = dml.multihead_attention(q, k, v, mask=mask, head_count=2).output
    np.testing.assert_allclose(filtered, whole, rtol=0, atol=5e-3)
    nothing = dml.multihead_attention(q, k, v, mask=mask, head_count=2, mask_filter_value=-np.inf).output
    assert np.isnan(nothing).all()


@pytest.mark.parametrize("keys", [6, 7])
def test_in_a_graph(keys: int) -> None:
    """Projections before and a sum behind: the bits of the operators one by one, in blocks of keys too."""
    x, w = random(1, 1, keys, 8), random(1, 1, 8, 24)

    def layer(x: Any) -> Any:
        projected = dml.gemm(x, w)
        parts = dml.split(projected, axis=3, output_axis_sizes=[8, 8, 8])
        found = dml.multihead_attention(*parts, head_count=2).output
        return dml.add(dml.activation_relu(found), dml.identity(x))

    with blocks_of_keys(2 if keys == 7 else 512):
        graph = dml.Graph()
        program = graph.compile(layer(graph.input("float32", [1, 1, keys, 8])))
        assert_identical(program(x), layer(x))
        graph = dml.Graph(dml.Device(tuning=small_blocks()))
        program = graph.compile(layer(graph.input("float32", [1, 1, keys, 8])))
        assert_identical(program(x), layer(x))
