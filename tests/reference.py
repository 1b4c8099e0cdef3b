"""Operators written with plain NumPy, as independently of their definitions as possible. Slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def window_selection(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> Any:
    """The open mesh of the elements that SLICE1 copies."""
    walks = []
    for offset, size, stride, count in zip(offsets, sizes, strides, counts, strict=True):
        window = list(range(offset, offset + size))
        walks.append((window[::stride])[:count])
    return np.ix_(*walks)


def space_to_depth(x: Array, block: int, depth_first: bool) -> Array:
    """SPACE_TO_DEPTH1; ``depth_first``: the order DEPTH_COLUMN_ROW, block offsets before channels."""
    n, c, h, w = x.shape
    y = np.empty((n, c * block * block, h // block, w // block), x.dtype)
    for channel, row, column in itertools.product(range(c), range(block), range(block)):
        depth = (row * block + column) * c + channel if depth_first else (channel * block + row) * block + column
        y[:, depth] = x[:, channel, row::block, column::block]
    return y


def cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """CAST, value by value: float to integer truncates and saturates, NaN gives 0, integers wrap."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return x.astype(dtype)
    limits = np.iinfo(dtype)
    result = np.empty(x.shape, dtype)
    for place in np.ndindex(x.shape):
        result[place] = _to_integer(x[place].item(), limits)
    return result


def _to_integer(value: float, limits: Any) -> int:
    if isinstance(value, int):
        wrapped: int = value & ((1 << limits.bits) - 1)
        return wrapped - (1 << limits.bits) if wrapped > limits.max else wrapped
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return int(min(max(math.trunc(value), limits.min), limits.max))


def scale_bias(x: Array, scale: float, bias: float) -> Array:
    """x * scale + bias: in float32 for float16 and float32, else in float64; integers are truncated and saturated."""
    wide: Any = np.float32 if x.dtype in (np.float16, np.float32) else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(x.astype(wide) * wide(scale) + wide(bias))


def clip(x: Array, low: Any, high: Any) -> Array:
    """CLIP in the type of ``x``, value by value: NaN stays, a NaN limit is none, ``low`` prevails over ``high``."""
    result = x.copy()
    for place in np.ndindex(x.shape):
        value = x[place]
        if value > high:
            value = high
        if value < low:
            value = low
        result[place] = value
    return result


def cumulative(x: Array, axis: int, decreasing: bool, exclusive: bool, operation: Any, initial: int) -> Array:
    """CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT; ``operation`` is ``np.add`` or ``np.multiply``."""
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    moved = np.moveaxis(x.astype(wide), axis, 0)
    moved = moved[::-1] if decreasing else moved
    if exclusive:
        moved = np.concatenate([np.full_like(moved[:1], initial), moved[:-1]])
    with np.errstate(all="ignore"):
        running = operation.accumulate(moved, axis=0, dtype=wide)
        running = running[::-1] if decreasing else running
        return np.asarray(np.moveaxis(running, 0, axis).astype(x.dtype))


def bilinear(x: Array, height_scale: int, width_scale: int) -> Array:
    """UPSAMPLE_2D, LINEAR: the formula of the specification in float64, element by element."""
    *outer, height, width = x.shape
    y = np.empty((*outer, height * height_scale, width * width_scale), np.float64)
    wide = x.astype(np.float64)
    for row, column in itertools.product(range(y.shape[-2]), range(y.shape[-1])):
        fy, fx = (row + 0.5) / height_scale - 0.5, (column + 0.5) / width_scale - 0.5
        y0, x0 = math.floor(fy), math.floor(fx)
        total: Any = 0.0
        for dy, dx in itertools.product(range(2), range(2)):
            weight = abs(1 - dy - (fy - y0)) * abs(1 - dx - (fx - x0))
            total = total + weight * wide[..., min(max(y0 + dy, 0), height - 1), min(max(x0 + dx, 0), width - 1)]
        y[..., row, column] = total
    return y


def max_unpooling(x: Array, indices: Array, sizes: Sequence[int]) -> Array:
    """MAX_UNPOOLING: the last one of equal positions wins, positions outside are dropped."""
    flat = np.zeros(math.prod(sizes), x.dtype)
    for value, position in zip(x.ravel(), indices.ravel(), strict=True):
        if int(position) < flat.size:
            flat[int(position)] = value
    return flat.reshape(sizes)
