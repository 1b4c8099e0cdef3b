"""The same elements with other dimensions: reshape, flatten, transpose, squeeze, expand_dims.

They are no operators: arrays become NumPy's views where there are such, graph tensors are described anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.building.graph_tensor import GraphTensor
from opendml.building.operands import Listed, Number, read
from opendml.description.errors import InvalidDescriptorError
from opendml.functions.core import Array, Operand


def reshape(input: Operand, sizes: int | Sequence[int]) -> Array:
    """The same elements in the same order; one of the sizes may be -1, for what is left.

    ``input``: any type and rank. Raises InvalidDescriptorError for sizes of another number of elements.

    >>> dml.reshape(np.arange(6), [2, -1]).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return _seen(input, "reshape", (sizes,))


def flatten(input: Operand) -> Array:
    """All elements in one dimension.

    >>> dml.flatten(np.array([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return _seen(input, "reshape", (-1,))


def transpose(input: Operand, axes: Sequence[int] | None = None) -> Array:
    """The dimensions in another order, ``axes[0]`` first, by default reversed.

    Raises InvalidDescriptorError for axes that are no order of the dimensions.

    >>> dml.transpose(np.array([[1, 2, 3]])).tolist()
    [[1], [2], [3]]
    """
    return _seen(input, "transpose", (axes,))


def squeeze(input: Operand, axis: int | Sequence[int] | None = None) -> Array:
    """Without dimensions of size 1: all of them, or those given; of a graph tensor at least one stays.

    Raises InvalidDescriptorError for dimensions of other sizes.

    >>> dml.squeeze(np.array([[[1, 2]]]), axis=0).tolist()
    [[1, 2]]
    """
    return _seen(input, "squeeze", (axis if axis is None or isinstance(axis, int) else tuple(axis),))


def expand_dims(input: Operand, axis: int | Sequence[int]) -> Array:
    """With new dimensions of size 1, whose places in the result are given.

    >>> dml.expand_dims(np.array([1, 2]), axis=[0, 2]).tolist()
    [[[1], [2]]]
    """
    return _seen(input, "expand_dims", (axis if isinstance(axis, int) else tuple(axis),))


def _seen(input: Operand, method: str, arguments: tuple[Any, ...]) -> Array:
    """What NumPy's function, or the graph tensor's method, of a name gives."""
    if isinstance(input, GraphTensor):
        return getattr(input, method)(*arguments)
    try:
        return getattr(np, method)(_array(input), *arguments)
    except ValueError as error:
        raise InvalidDescriptorError(f"dml.{method}: {error}") from None


def _array(input: Operand) -> npt.NDArray[Any]:
    given = read(input, "input")
    if isinstance(given, Listed):
        return given.values
    return np.asarray(given.value, given.dtype) if isinstance(given, Number) else given
