"""Transposed convolutions as convolutions, of which there are operators for integers: one for each phase.

The outputs that the same taps of a filter reach are those of a convolution with these taps, turned round; side by side
they are the output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.operators.windows import TransposedWindow
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["Convolve", "by_phases"]

Array = npt.NDArray[Any]
Convolve = Callable[[GraphTensor, GraphTensor | Array, dict[str, Any]], GraphTensor]
"""A convolution of a tensor with a filter {OC, IC / groups, taps...}, by the fields of a window."""


class _Phase(NamedTuple):
    """Along a dimension every so many-th output: the ``taps`` that reach it, and how far the windows of these reach out
    of the input at its start and at its end; less than 0: how much of it they leave out."""

    taps: range
    start: int
    end: int


def by_phases(x: GraphTensor, filter: Array, groups: int, window: TransposedWindow, convolve: Convolve) -> GraphTensor:
    """The transposed convolution with a filter {IC, OC / groups, taps...}."""
    if any(window.more) or max(window.dilations) > 1 or 0 in filter.shape or 0 in window.sizes:
        raise NotExpressibleError("no phases of a window with gaps, or of an output beyond it")
    ways = zip(x.sizes[2:], filter.shape[2:], window.strides, window.start, window.sizes, strict=True)
    phases = [list(_phases(*way)) for way in ways]
    forward = _turned(filter, groups)
    return _side_by_side([_of_phase(x, forward, own, groups, convolve) for own in itertools.product(*phases)], window)


def _phases(size: int, taps: int, stride: int, padding: int, count: int) -> Iterator[_Phase]:
    """Those of ``count`` outputs, each of as many, the last ones beyond the output."""
    length = -(-count // stride)
    for first in range(stride):
        place, tap = divmod(first + padding, stride)
        own = range(tap, taps, stride)
        start = len(own) - 1 - place
        end = length + len(own) - 1 - size - start
        if not own or size + min(start, 0) + min(end, 0) <= 0:
            raise NotExpressibleError("outputs that no tap reaches are no convolution")
        yield _Phase(own, start, end)


def _turned(filter: Array, groups: int) -> Array:
    """{IC, OC / groups, taps...} as {OC, IC / groups, taps...}."""
    channels, outputs, *taps = filter.shape
    apart = filter.reshape(groups, channels // groups, outputs, *taps)
    return apart.swapaxes(1, 2).reshape(groups * outputs, channels // groups, *taps)


def _of_phase(x: GraphTensor, filter: Array, phases: Sequence[_Phase], groups: int, convolve: Convolve) -> GraphTensor:
    kept = [slice(max(-p.start, 0), size - max(-p.end, 0)) for p, size in zip(phases, x.sizes[2:], strict=True)]
    taps = [slice(p.taps.start, None, p.taps.step) for p in phases]
    own = np.flip(filter[:, :, *taps], tuple(range(2, filter.ndim)))
    ones = [1] * len(phases)
    fields = {
        "strides": ones,
        "dilations": ones,
        "start_padding": [max(p.start, 0) for p in phases],
        "end_padding": [max(p.end, 0) for p in phases],
        "group_count": groups,
    }
    is_whole = all(part == slice(0, size) for part, size in zip(kept, x.sizes[2:], strict=True))
    return convolve(x if is_whole else x[:, :, *kept], np.ascontiguousarray(own), fields)


def _side_by_side(parts: Sequence[GraphTensor], window: TransposedWindow) -> GraphTensor:
    """Each element of a phase beside that of the next one, along every dimension."""
    images, channels, *lengths = parts[0].sizes
    found = [part.reshape(images, channels, *itertools.chain(*((n, 1) for n in lengths))) for part in parts]
    for dimension in reversed(range(len(lengths))):
        stride = window.strides[dimension]
        if stride > 1:
            axis = 3 + 2 * dimension
            found = [_joined(found[first : first + stride], axis) for first in range(0, len(found), stride)]
    whole = found[0].reshape(images, channels, *(n * s for n, s in zip(lengths, window.strides, strict=True)))
    if whole.sizes[2:] == tuple(window.sizes):
        return whole
    return whole[:, :, *(slice(size) for size in window.sizes)]


def _joined(parts: Sequence[GraphTensor], axis: int) -> GraphTensor:
    found: Any = dml.join(parts, axis=axis)
    return found  # type: ignore[no-any-return]
