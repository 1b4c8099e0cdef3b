"""Fourier transforms, as products with a matrix of sines and cosines."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["SPECTRA"]

LONGEST: Final = 4096
"""Elements that are transformed, at most: the matrix has four numbers for two of them."""


def _dft(node: Node) -> Results:
    sizes = node.sizes()
    if node.version >= 20:
        axis = normal_axis(node.integers_of(2)[0] if node.has(2) else -2, len(sizes))
    else:
        axis = node.axis(len(sizes), 1)
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    length = node.integers_of(1)[0] if node.has(1) else 0
    if not length:
        length = 2 * (sizes[axis] - 1) if inverse and onesided else sizes[axis]
    matrix = _matrix(min(sizes[axis], _taken(length, inverse and onesided)), length, inverse, onesided)
    return _transformed(node, node.tensor(), axis, matrix)


def _taken(length: int, is_half: bool) -> int:
    """Elements of the input that a transform has: the others are left out, and those that lack are zeros."""
    return length // 2 + 1 if is_half else length


def _transformed(node: Node, tensor: GraphTensor, axis: int, matrix: npt.NDArray[np.float64]) -> Results:
    """The products along an axis: {..., n, ..., parts} and [n, parts, k, parts] give {..., k, ..., parts}."""
    rank = tensor.rank
    parts = tensor.sizes[-1]
    count, _, found, result = matrix.shape
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    moved = tensor.transpose(order)[..., :count, :]
    rows = moved.reshape(-1, count * parts)
    weights = matrix[:, :parts].reshape(count * parts, found * result).astype(tensor.dtype)
    product: GraphTensor = rows @ weights
    back = [order.index(i) for i in range(rank)]
    whole = product.reshape(*moved.sizes[:-2], found, result).transpose(back)
    return node.result(whole.packed())


def _matrix(count: int, length: int, inverse: bool, onesided: bool) -> npt.NDArray[np.float64]:
    """What ``count`` complex numbers give: [count, 2, results, 2], or [count, 2, results, 1] where those are real."""
    if not 1 <= length <= LONGEST:
        raise NotExpressibleError(f"a transform of {length} elements has no operator (up to {LONGEST} have)")
    results = length // 2 + 1 if onesided and not inverse else length
    turns = np.outer(np.arange(count), np.arange(results)) % length * (2 * np.pi / length)
    cosines, sines = np.cos(turns), np.sin(turns)
    if inverse and onesided:
        # What is left out are the conjugates of all but the first and, of an even length, the middle element.
        is_own = (np.arange(count) * 2 % length) == 0
        weights = np.where(is_own, 1.0, 2.0)[:, None] / length
        return np.stack([cosines * weights, -sines * weights], 1)[..., None]
    if inverse:
        cosines, sines = cosines / length, -sines / length
    of_real = np.stack([cosines, -sines], -1)
    of_imaginary = np.stack([sines, cosines], -1)
    return np.stack([of_real, of_imaginary], 1)


def _stft(node: Node) -> Results:
    """Frames overlap where they lie; a window that is known becomes part of the matrix."""
    signal = node.tensor()
    batch, total, parts = signal.sizes
    (step,) = node.integers_of(1)
    window = node.value(2) if node.has(2) else None
    length = node.integers_of(3)[0] if node.has(3) else window.sizes[0] if window is not None else total
    if step < 1 or not 1 <= length <= total:
        raise NotExpressibleError(f"frames of {length} with steps of {step} of {total} elements make no sense")
    count = 1 + (total - length) // step
    packed = signal.packed()
    frames = packed.reinterpret([batch, count, length, parts], [total * parts, step * parts, parts, 1])
    matrix = _matrix(length, length, False, bool(node.integer("onesided", 1)))
    if window is not None and window.array is not None:
        matrix = matrix * window.array.reshape(-1, 1, 1, 1)
    elif window is not None:
        frames = frames * node.tensor(2).reshape(1, 1, -1, 1)
    return _transformed(node, frames, 2, matrix)


SPECTRA: Final[Table] = {"DFT": _dft, "STFT": _stft}
