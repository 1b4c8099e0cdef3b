"""How functions on quantized tensors see scales and zero points: numbers, and one for each row, column or channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import Sizes, View, broadcast
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc


def counted(shape: Sizes | None, rank: int, dimension: int) -> View | None:
    """A number, or an array of one dimension, as a tensor of ``rank`` whose elements lie along ``dimension``, which
    counts from the end if negative; None for what is taken as it is."""
    if shape is None or len(shape) > 1 or rank < 1:
        return None
    dimension %= rank
    sizes = tuple(shape[0] if shape and d == dimension else 1 for d in range(rank))
    return View(sizes, tuple(0 if shape and d == dimension else None for d in range(rank)))


def matrix_views(shapes: Sequence[Sizes | None], dimensions: Sequence[int | None]) -> list[View | None]:
    """The operands of a product of matrices. ``dimensions``: those of rows (-2) or columns (-1) for operands that have
    one value for each, None for the two stacks of matrices, which get common sizes, and for what has the sizes of the
    product."""
    whole = [shape for shape, dimension in zip(shapes, dimensions, strict=True) if dimension is None]
    a, b = whole[:2]
    if a is None or b is None or min(len(a), len(b)) < 2:
        return [None] * len(shapes)
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    targets = iter(((*batch, *a[-2:]), (*batch, *b[-2:]), (*batch, a[-2], b[-1])))
    views: list[View | None] = []
    for shape, dimension in zip(shapes, dimensions, strict=True):
        if dimension is None:
            sizes = next(targets)
            views.append(None if shape is None else broadcast(shape, sizes))
        else:
            views.append(counted(shape, len(batch) + 2, dimension))
    return views


def type_or(data_type: Any, zero_point: TensorDesc | None, usual: TensorDataType) -> Any:
    """The data type asked for, else that of the zero point, else the usual one."""
    if data_type is not None:
        return data_type
    return usual if zero_point is None else zero_point.data_type
