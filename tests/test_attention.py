"""Attention: against loops in float64, its decomposition bit for bit, PyTorch and ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import (
    Array,
    assert_identical,
    assert_same_values,
    random_array,
    run_operator,
    seeds,
)
from hypothesis import given
from hypothesis import strategies as st
from nest_running import HOSTS, MANY_THREADS, check_nests
from properties import examples
from random_descriptors import BUILDERS
from sample_descriptors import sample
from sample_tensors import f32

import opendml as dml
from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.ir import packed_strides
from opendml.expression.printer import format_definition
from opendml.expression.statements import Repeat, own_of, stores_of
from opendml.inspection.profiling import profile
from opendml.operators import attention_products
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING, Tuning

bounded = examples(25)


@st.composite
def attentions(draw: st.DrawFn, cls: type[Operator]) -> Any:
    """Any stacking, mask, past and layout."""
    return BUILDERS[cls.type](draw, cls)


def arrays_for(desc: Any, seed: int, special: bool = False) -> list[Array | None]:
    """Random inputs; masks and lengths about as large as they may be, and far beyond."""
    result: list[Array | None] = []
    generator = np.random.default_rng(seed)
    for number, (name, tensor) in enumerate(desc.inputs()):
        array = None if tensor is None else random_array(tensor, seed + number, special and name != "MaskTensor")
        if array is not None and array.dtype.kind == "i":
            # Repeated elements (strides of 0) have to stay the same: values change by a function of them.
            near = generator.integers(-3, 12, 64).astype(np.int32)
            wild = np.array([np.iinfo(np.int32).min, np.iinfo(np.int32).max, -1, 10**6], np.int32)
            array = np.where(array % 5 == 0, wild[array % 4], near[array % 64])
        elif array is not None and not special:
            array = array / 4
        result.append(array)
    return result


def new_parts(desc: Any, given: dict[str, Array], heads: int, key_heads: int) -> list[Array | None]:
    """Queries, keys and values as {B, heads, positions, size} in float64, with their biases."""
    found: list[Array | None] = []
    for name, count in (("query", heads), ("key", key_heads), ("value", key_heads)):
        array = None
        for tensor, x in given.items():
            words = tensor.removesuffix("_tensor").removeprefix("stacked_").split("_")
            if tensor.startswith("stacked") and name in words:
                array = x[:, :, :, words.index(name)].transpose(0, 2, 1, 3)
            elif tensor == f"{name}_tensor":
                array = x.reshape(*x.shape[-3:-1], count, -1).transpose(0, 2, 1, 3)
        found.append(array)
    bias = given.get("bias_tensor")
    if bias is not None:
        start, flat = 0, bias.reshape(-1)
        size = found[0].shape[-1]
        widths = [heads * size, key_heads * size, flat.size - (heads + key_heads) * size]
        for number, (width, count) in enumerate(zip(widths, (heads, key_heads, key_heads), strict=True)):
            part = flat[start : start + width].reshape(1, count, 1, -1)
            start += width
            found[number] = None if found[number] is None else found[number] + part
    return found


def reference(desc: Any, arrays: list[Array | None]) -> tuple[tuple[Array, Array, Array], float]:
    """Output, all keys and all values, by loops in float64; and by how much scores in float32 may be wrong."""
    names = [name for name, field in desc.fields.items() if getattr(field, "direction", "") == "input"]
    given = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in zip(names, arrays, strict=True)
        if array is not None
    }
    heads, key_heads = desc.head_counts
    queries, keys, values = new_parts(desc, given, heads, key_heads)
    assert queries is not None
    batch, _, rows, _ = queries.shape
    past_keys, past_values = (given.get(f"past_{what}_tensor") for what in ("key", "value"))
    lengths = given.get("past_sequence_lengths_tensor")
    shape = next((t.sizes for t in (desc.output_present_key_tensor, desc.output_present_value_tensor) if t), None)
    total = (0 if past_keys is None else past_keys.shape[-2]) + (0 if keys is None else keys.shape[-2])
    total = shape[-2] if shape is not None else total
    all_keys, all_values = (
        joined(past, new, None if lengths is None else lengths.reshape(-1), total)
        for past, new in ((past_keys, keys), (past_values, values))
    )
    mask, kind = given.get("mask_tensor"), desc.mask_type.name
    relative = given.get("relative_position_bias_tensor")
    output = np.zeros((batch, rows, heads, all_values.shape[-1]))
    largest = 1.0
    for b, n, s in np.ndindex(batch, heads, rows):
        own = n * key_heads // heads
        scores = np.zeros(total)
        for t in range(total):
            scores[t] = np.float32(desc.scale) * (queries[b, n, s] @ all_keys[b, own, t])
            largest = max(largest, abs(desc.scale) * np.abs(queries[b, n, s] * all_keys[b, own, t]).sum())
            if relative is not None:
                scores[t] += relative[..., b, n, s, t].item()
            if mask is not None and is_masked(kind, mask, b, n, s, t, batch):
                scores[t] += np.float32(desc.mask_filter_value)
            if lengths is not None and t > min(max(int(lengths.flat[b]), 0), past_keys.shape[-2]) + s:
                scores[t] = -np.inf
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores - (scores.max() if np.isfinite(scores.max()) else 0))
            output[b, s, n] = powers / powers.sum() @ all_values[b, own]
    if mask is not None and np.isfinite(desc.mask_filter_value):
        largest += abs(desc.mask_filter_value)
    return (output.reshape(desc.output_tensor.sizes), all_keys, all_values), 8 * largest * 2.0**-24


def joined(past: Array | None, new: Array | None, lengths: Array | None, total: int) -> Array:
    """All keys or values of a batch, as many of the past as it says."""
    parts = [part.reshape(part.shape[-4:]) for part in (past, new) if part is not None]
    if lengths is None:
        return np.concatenate(parts, 2)
    before, after = parts
    result = np.zeros((*after.shape[:2], total, after.shape[3]))
    for b, length in enumerate(lengths):
        kept = min(max(int(length), 0), before.shape[2])
        whole = np.concatenate([before[b, :, :kept], after[b]], 1)[:, :total]
        result[b, :, : whole.shape[1]] = whole
    return result


def is_masked(kind: str, mask: Array, b: int, n: int, s: int, t: int, batch: int) -> bool:
    flat = [int(x) for x in mask.reshape(-1)]
    if kind == "KEY_SEQUENCE_LENGTH":
        return t >= flat[b]
    if kind == "KEY_SEQUENCE_END_START":
        return not flat[batch + b] <= t < flat[b]
    if kind == "KEY_QUERY_SEQUENCE_LENGTH_START_END":
        return t >= flat[b] or t >= flat[2 * batch + 2 + b] - flat[2 * batch + 1 + b]
    return int(mask[..., b, n, s, t].item()) == 0


def assert_near(actual: Array, expected: Array, largest: float = 1, wrong: float = 0) -> None:
    """Within roundings of the largest element; NaN where NaN is expected. ``wrong``: an error of the scores."""
    largest = np.nanmax(np.abs(expected), initial=largest)
    bound = (2e-3 if actual.dtype == np.float16 else 5e-6) + 2 * wrong
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=0, atol=bound * largest)


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


def random(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *sizes)).normal(0, 1, sizes).astype(np.float32)


def heads_first(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


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


def small_blocks(rows: int = 3) -> Tuning:
    """Few queries are computed together, however few there are."""
    return replace(TUNING, block_elements=1, rows_at_once=1, fewest_rows=rows)


@pytest.mark.parametrize("cls", [op.MultiheadAttention, op.MultiheadAttention1])
@bounded
@given(data=st.data(), seed=seeds)
def test_blocks_change_nothing(cls: type[Operator], data: st.DataObject, seed: int) -> None:
    """However few queries are computed together, the bits are the same."""
    desc: Any = data.draw(attentions(cls))
    arrays = arrays_for(desc, seed)
    whole = run_operator(desc, arrays)
    parts = run_operator(desc, arrays, tuning=small_blocks(data.draw(st.integers(1, 7))))
    for a, b in zip(whole, parts, strict=True):
        if a is not None:
            assert_same_values(b, a)


def plain(batch: int, queries: int, keys: int, heads: int, size: int) -> op.MultiheadAttention:
    """Queries, keys and values and nothing else."""
    return op.MultiheadAttention(
        query_tensor=f32(batch, queries, heads * size),
        key_tensor=f32(batch, keys, heads * size),
        value_tensor=f32(batch, keys, heads * size),
        output_tensor=f32(batch, queries, heads * size),
        scale=size**-0.5,
        mask_filter_value=-10000,
        head_count=heads,
        mask_type="NONE",
    )


def test_blocks_are_printed_and_profiled() -> None:
    """In a profiled program all threads meet behind every kernel, however many blocks each of them has."""
    desc, arrays = plain(1, 11, 5, 2, 4), [random(1, n, 8) for n in (11, 5, 5)]
    expected = dml.multihead_attention(*arrays, head_count=2).output
    tuning = small_blocks()
    refined = format_definition(refined_definition(desc, host_target(tuning=tuning)))
    assert "each g < 2, block < 3, with scores, maximum, share, weights of its own" in refined
    (actual, _, _) = run_operator(desc, [*arrays, *[None] * 8], tuning=tuning)
    assert_identical(actual, expected)
    device = dml.Device(thread_count=3, tuning=tuning)
    profiled = profile(device.compile(desc), *arrays, *[None] * 8, seconds=0)
    assert len(profiled.kernels) == 9  # keys laid out, then scores, their sums, weights and outputs of both parts
    assert {kernel.title for kernel in profiled.kernels} == {"MULTIHEAD_ATTENTION"}


def test_a_thread_has_its_blocks_for_itself() -> None:
    """What a block keeps between its statements is memory of the thread's own; all keys and values are not."""
    target = host_target(tuning=small_blocks())
    definition = refined_definition(plain(1, 11, 300, 2, 4), target)
    code = generate(definition, target, in_place=False)
    largest = max(sum(math.prod(t.sizes) * 4 for t in own_of([s])) for s in definition.statements)
    assert largest >= 2 * 3 * 300 * 4
    assert code.requirements.scratch_size >= largest
    assert code.requirements.temporary_size < 300 * 4 * 2 * 3 * 4


def everything(length: int) -> op.MultiheadAttention:
    """With a bias, a past, a mask of all scores and a number to add to each of them, in float16."""

    def f16(*sizes: int) -> TensorDesc:
        return TensorDesc("FLOAT16", sizes)

    heads, size = 8, 64
    tensor, half = f16(2, length, heads * size), length // 2
    cache = f16(2, heads, half, size)
    present = f16(2, heads, length + half, size)
    return op.MultiheadAttention(
        query_tensor=tensor,
        key_tensor=tensor,
        value_tensor=tensor,
        bias_tensor=f16(3 * heads * size),
        mask_tensor=TensorDesc("INT32", (2, heads, length, length + half)),
        relative_position_bias_tensor=f16(2, heads, length, length + half),
        past_key_tensor=cache,
        past_value_tensor=cache,
        output_tensor=tensor,
        output_present_key_tensor=present,
        output_present_value_tensor=present,
        scale=0.125,
        mask_filter_value=-10000,
        head_count=heads,
        mask_type="BOOLEAN",
    )


@pytest.mark.parametrize("length", [1024, 4096, 16384])
def test_memory_grows_with_the_sequence(length: int) -> None:
    """No tensor holds all scores: queries, keys, values and a few scores are all that is kept."""
    for desc, keys, copies in ((plain(2, length, length, 8, 64), length, 2), (everything(length), length * 3 // 2, 3)):
        definition = refined_definition(desc, host_target())
        kept = sum(math.prod(tensor.sizes) for tensor in definition.temporaries)
        assert kept <= 2 * keys * 8 * ((copies + 1) * 64 + 2) + 8 * TUNING.block_elements
        stated = sum(math.prod(tensor.sizes) for tensor in desc.define().temporaries)
        assert stated <= 4 * 2 * length * 8 * attention_products.KEYS_TOGETHER + 2 * length * 8 * 128


MASKS = {
    "NONE": lambda batch, scores: None,
    "KEY_SEQUENCE_LENGTH": lambda batch, scores: (1, batch),
    "KEY_SEQUENCE_END_START": lambda batch, scores: (2, batch),
    "KEY_QUERY_SEQUENCE_LENGTH_START_END": lambda batch, scores: (3 * batch + 2,),
    "BOOLEAN": lambda batch, scores: scores,
}


def masked(cls: type[Operator], mask: str, queries: int, keys: int, *, has_past: bool) -> Operator:
    """With a mask and a bias of all scores, and half of the keys in the past if there is one."""
    batch, heads, size, past = 2, 4, 32, keys // 2 if has_past else 0
    scores, sizes = (batch, heads, queries, keys), MASKS[mask](batch, (batch, heads, queries, keys))
    cache = f32(batch, heads, past, size) if has_past else None
    has_lengths = has_past and cls is op.MultiheadAttention1
    counts = ["head_count"] if cls is op.MultiheadAttention else ["query_head_count", "key_value_head_count"]
    return cls(
        query_tensor=f32(batch, queries, heads * size),
        key_tensor=f32(batch, keys - past, heads * size),
        value_tensor=f32(batch, keys - past, heads * size),
        mask_tensor=None if sizes is None else TensorDesc("INT32", sizes),
        relative_position_bias_tensor=f32(*scores),
        past_key_tensor=cache,
        past_value_tensor=cache,
        output_tensor=f32(batch, queries, heads * size),
        scale=0.125,
        mask_filter_value=-10000,
        mask_type=mask,
        **dict.fromkeys(counts, heads),
        **({"past_sequence_lengths_tensor": TensorDesc("INT32", (batch,))} if has_lengths else {}),
    )


@pytest.mark.parametrize("cls", [op.MultiheadAttention, op.MultiheadAttention1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("has_past", [False, True])
@pytest.mark.parametrize("queries", [1, 15, None])
def test_twice_the_sequence_is_twice_the_memory(
    cls: type[Operator], mask: str, has_past: bool, queries: int | None
) -> None:
    """Of all that lies between inputs and outputs, whatever hides scores, for few queries and for as many as keys."""
    kept = {}
    for keys in (4096, 8192):
        desc = masked(cls, mask, queries or keys, keys, has_past=has_past)
        assert not validate(desc)
        definitions = desc.define(), refined_definition(desc, host_target())
        kept[keys] = [sum(math.prod(t.sizes) for t in definition.temporaries) for definition in definitions]
    for fewer, more in zip(kept[4096], kept[8192], strict=True):
        assert 0 < more <= 2.1 * fewer
    assert max(kept[8192]) < 2 * 4 * 8192 * (1200 if queries is None else 4 * queries + 64)


@bounded
@given(data=st.data())
def test_definitions_hold_no_copies(data: st.DataObject) -> None:
    """One statement each for what is kept, scores and outputs, and softmax in between, for all machines."""
    desc = data.draw(attentions(data.draw(st.sampled_from([op.MultiheadAttention, op.MultiheadAttention1]))))
    definition = desc.define()
    assert {tensor.name for tensor in definition.temporaries} <= {"scores", "maximum", "share", "weights"}
    written = [store.tensor.name for s in definition.statements for store in stores_of(s)]
    assert len(written) == len(set(written))
    assert all(tensor.strides == packed_strides(tensor.sizes) for tensor in definition.temporaries)


# Blocks of keys ------------------------------------------------------------------------------------------------------


@contextmanager
def blocks_of_keys(count: int) -> Iterator[None]:
    """Blocks of so many keys, however few queries there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_products, "KEYS_TOGETHER", count)
        patch.setattr(attention_products, "FEWEST_QUERIES", 1)
        yield


@pytest.mark.parametrize("cls", [op.MultiheadAttention, op.MultiheadAttention1])
@bounded
@given(data=st.data(), seed=seeds, count=st.integers(1, 7), rows=st.integers(1, 7))
def test_blocks_of_keys(cls: type[Operator], data: st.DataObject, seed: int, count: int, rows: int) -> None:
    """The loops' values, and the same bits however few queries are computed together."""
    desc = data.draw(attentions(cls))
    arrays = arrays_for(desc, seed)
    with blocks_of_keys(count):
        outputs = run_operator(desc, arrays)
        parts = run_operator(desc, arrays, tuning=small_blocks(rows))
    found, wrong = reference(desc, arrays)
    largest = float(np.abs(found[2]).max())
    for actual, part, expected in zip(outputs, parts, found, strict=True):
        if actual is not None:
            assert_near(actual, expected.reshape(actual.shape), largest, wrong)
            assert_same_values(part, actual)


@bounded
@given(data=st.data(), seed=seeds, count=st.integers(1, 7))
def test_extreme_values_in_blocks_of_keys(data: st.DataObject, seed: int, count: int) -> None:
    """Interpreted and compiled, with NaN and infinities in all tensors."""
    desc = data.draw(attentions(data.draw(st.sampled_from([op.MultiheadAttention, op.MultiheadAttention1]))))
    with blocks_of_keys(count):
        run_operator(desc, arrays_for(desc, seed, special=True))


@pytest.mark.parametrize(
    ("queries", "keys", "size", "value_size", "key_heads"),
    [(16, 513, 8, 3, 2), (17, 1100, 4, 8, 1), (33, 1024, 16, 16, 2)],
)
def test_many_keys(queries: int, keys: int, size: int, value_size: int, key_heads: int) -> None:
    """Two blocks and more, the last one shorter: sums of products, partial sums, and vectors of all of them."""
    q, k, v = random(1, queries, 2 * size), random(1, keys, key_heads * size), random(1, keys, key_heads * value_size)
    desc = op.MultiheadAttention1(
        query_tensor=f32(*q.shape),
        key_tensor=f32(*k.shape),
        value_tensor=f32(*v.shape),
        output_tensor=f32(1, queries, 2 * value_size),
        scale=0.5,
        mask_filter_value=0,
        query_head_count=2,
        key_value_head_count=key_heads,
        mask_type="NONE",
    )
    arrays = [q, k, v, *[None] * (len(list(desc.inputs())) - 3)]
    assert any(isinstance(statement, Repeat) for statement in desc.define().statements)
    found, wrong = reference(desc, arrays)
    (actual, *_) = run_operator(desc, arrays)
    assert_near(actual, found[0].reshape(actual.shape), 1, wrong)
    (blocks, *_) = run_operator(desc, arrays, tuning=small_blocks(14))
    assert_identical(blocks, actual)


@pytest.mark.parametrize("tuning", [MANY_THREADS, replace(small_blocks(2), serial_work=0)])
def test_nests_of_blocks_of_keys(tuning: Tuning) -> None:
    """Statements that add to what they wrote before do every point once: nests, code and definition agree."""
    target = Processor(HOSTS[0], tuning)
    with blocks_of_keys(3):
        definition = refined_definition(plain(1, 9, 7, 2, 3), target)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    check_nests(definition, target, {t: random(t.extent) for t in tensors}, (2, 0, 1))


def test_infinite_scores_in_blocks_of_keys() -> None:
    """Keys that are masked for good have no weight, whichever blocks they fill; a row of nothing else is NaN, and so is
    one with an infinite score."""
    q, k, v = random(1, 2, 4), random(1, 7, 4), random(1, 7, 4)
    whole = np.ones((1, 1, 2, 7), np.int32)
    whole[0, 0, 0, :4] = 0  # the first two blocks
    whole[0, 0, 1, 3:] = 0  # the last two, and one of the second
    common: dict[str, Any] = {"head_count": 1, "mask_filter_value": -np.inf}
    expected = dml.multihead_attention(q, k, v, mask=whole, **common).output
    assert np.isfinite(expected).all()
    reference_device = dml.Device("reference")
    with blocks_of_keys(2):
        assert_near(dml.multihead_attention(q, k, v, mask=whole, device=reference_device, **common).output, expected)
        nothing = dml.multihead_attention(q, k, v, mask=whole * 0, device=reference_device, **common).output
        assert np.isnan(nothing).all()
        # Far below 0, and without an exponential that is too large on the way.
        common["mask_filter_value"] = -10000
        filtered = dml.multihead_attention(q, k, v, mask=whole, device=reference_device, **common).output
        assert_near(filtered, expected)
        # Row 0 has an infinite score, then one that is not a number.
        for wrong in (np.where(q[0, 0] > 0, np.inf, -np.inf), np.nan):
            beside = k.copy()
            beside[0, 3] = wrong
            found = dml.multihead_attention(q, beside, v, head_count=1, device=reference_device).output
            assert np.isnan(found[0, 0]).all()


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
    cache = {"past_key": heads_first(k, 3), "past_value": heads_first(v, 3)}
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


def test_lower_levels() -> None:
    q = random(1, 4, 8)
    at_6_1 = dml.Device(feature_level="6_1")
    expected = dml.multihead_attention(q, q, q, head_count=2).output
    assert_identical(dml.multihead_attention(q, q, q, head_count=2, device=at_6_1).output, expected)
    with pytest.raises(dml.InvalidDescriptorError, match="key_value_head_count: must be"):
        dml.multihead_attention(q, q, q, head_count=2, key_value_head_count=1, device=at_6_1)


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


# ---- rules


def texts(desc: Operator, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


def test_sources() -> None:
    desc = sample(op.MultiheadAttention)
    assert texts(desc) == []
    assert texts(desc.replace(query_tensor=None))[0] == (
        "the queries must be given: one of QueryTensor, StackedQueryKeyTensor, StackedQueryKeyValueTensor"
    )
    assert texts(desc.replace(stacked_key_value_tensor=f32(2, 6, 3, 2, 4))) == [
        "StackedKeyValueTensor: must not be given beside KeyTensor, got it"
    ]
    assert texts(desc.replace(past_value_tensor=None))[0] == (
        "PastValueTensor: must be given beside PastKeyTensor, got nothing"
    )
    assert texts(desc.replace(mask_type="NONE")) == [
        "MaskTensor: must not be given, as MaskType is DML_MULTIHEAD_ATTENTION_MASK_TYPE_NONE, got it"
    ]
    assert texts(desc.replace(mask_tensor=None)) == [
        "MaskTensor: must be given, as MaskType is DML_MULTIHEAD_ATTENTION_MASK_TYPE_BOOLEAN, got nothing"
    ]


def test_sizes() -> None:
    desc = sample(op.MultiheadAttention)
    assert texts(desc.replace(key_tensor=f32(1, 6, 12), output_tensor=f32(2, 4, 16))) == [
        "KeyTensor.Sizes[0]: must be QueryTensor.Sizes[0] = 2, got 1",
        "OutputTensor.Sizes[1]: must be QueryTensor.Sizes[1] = 5, got 4",
        "OutputTensor.Sizes[2]: must be ValueTensor.Sizes[2] = 12, got 16",
    ]
    assert texts(desc.replace(past_key_tensor=f32(2, 3, 4, 4))) == [
        "RelativePositionBiasTensor.Sizes[3]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "PastValueTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] = 4, got 3",
        "OutputPresentKeyTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "OutputPresentValueTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "MaskTensor.Sizes[3]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
    ]
    assert texts(desc.replace(bias_tensor=f32(35)))[0].startswith("BiasTensor.Sizes[0]: must be QueryTensor.Sizes[2] +")
    assert texts(desc.replace(head_count=5))[0] == "HeadCount: must divide QueryTensor.Sizes[2] = 12, got 5"
    mask = TensorDesc("int32", [2])
    assert texts(desc.replace(mask_tensor=mask, mask_type="KEY_SEQUENCE_LENGTH")) == [
        "MaskTensor: must have rank 2 at least, as MaskType is "
        "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_LENGTH, got rank 1"
    ]


def test_groups() -> None:
    desc = sample(op.MultiheadAttention1)
    assert texts(desc) == []
    assert texts(desc.replace(query_head_count=4, key_value_head_count=3))[-1] != ""
    assert "QueryHeadCount: must be a multiple of KeyValueHeadCount = 2, got 3" in texts(
        desc.replace(key_value_head_count=2)
    )
    assert texts(desc.replace(past_key_tensor=None))[0] == (
        "PastKeyTensor: must be given beside PastValueTensor, got nothing"
    )
    too_small = f32(2, 1, 2, 4)
    assert texts(desc.replace(output_present_key_tensor=too_small))[0] == (
        "OutputPresentKeyTensor.Sizes[2]: must be from PastKeyTensor.Sizes[2] = 3 to PastKeyTensor.Sizes[2] + "
        "StackedKeyValueTensor.Sizes[1] = 9, got 2"
    )
