"""Inputs of attention, and what comes out of it by loops in float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, random_array
from hypothesis import strategies as st
from properties import examples
from random_descriptors import BUILDERS

from opendml.description.descriptors import Operator
from opendml.operators import attention_products
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
        assert found[0] is not None
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
    assert lengths is None or past_keys is not None
    past = 0 if past_keys is None else past_keys.shape[-2]
    shape = next((t.sizes for t in (desc.output_present_key_tensor, desc.output_present_value_tensor) if t), None)
    total = past + (0 if keys is None else keys.shape[-2])
    total = shape[-2] if shape is not None else total
    all_keys, all_values = (
        joined(old, new, None if lengths is None else lengths.reshape(-1), total)
        for old, new in ((past_keys, keys), (past_values, values))
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
            if lengths is not None and t > min(max(int(lengths.flat[b]), 0), past) + s:
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


def random(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *sizes)).normal(0, 1, sizes).astype(np.float32)


def heads_first(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def small_blocks(rows: int = 3) -> Tuning:
    """Few queries are computed together, however few there are."""
    return replace(TUNING, block_elements=1, rows_at_once=1, fewest_rows=rows)


@contextmanager
def blocks_of_keys(count: int) -> Iterator[None]:
    """Blocks of so many keys, however few queries there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_products, "KEYS_TOGETHER", count)
        patch.setattr(attention_products, "FEWEST_QUERIES", 1)
        yield
