"""Attention in blocks of queries and of keys: the same values, and memory that grows with the sequence only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_cases import (
    arrays_for,
    assert_near,
    attentions,
    blocks_of_keys,
    bounded,
    random,
    reference,
    small_blocks,
)
from execution import assert_identical, assert_same_values, run_operator, seeds
from hypothesis import given
from hypothesis import strategies as st
from nest_running import HOSTS, MANY_THREADS, check_nests
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


MASKS: dict[str, Callable[[int, tuple[int, ...]], tuple[int, ...] | None]] = {
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
