"""Transpositions as networks have them: matrices, heads of attention, images, groups and windows of channels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from benchmarks.cases import Aim, Case, identity, short_name
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc, packed_strides

_MATRICES = ((200, 300), (512, 512), (1000, 1000), (2048, 2048), (4096, 1024))

_NETWORKS: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("heads of 128 words, 12x64", (1, 128, 12, 64), (0, 2, 1, 3)),
    ("keys of 128 words, 12x64", (1, 128, 12, 64), (0, 2, 3, 1)),
    ("heads of 1024 words, 16x64", (1, 1024, 16, 64), (0, 2, 1, 3)),
    ("keys of 1024 words, 16x64", (1, 1024, 16, 64), (0, 2, 3, 1)),
    ("image 3x640x640 to channels last", (1, 3, 640, 640), (0, 2, 3, 1)),
    ("image 640x640x3 to channels first", (1, 640, 640, 3), (0, 3, 1, 2)),
    ("features 64x56x56 to channels last", (1, 64, 56, 56), (0, 2, 3, 1)),
    ("features 7x7x2048 to channels first", (1, 7, 7, 2048), (0, 3, 1, 2)),
    ("shuffle of 2 groups of 58x28x28", (1, 2, 58, 28, 28), (0, 2, 1, 3, 4)),
    ("windows of 7x7 of 56x56x96", (1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
    ("patches of 16x16 of 3x224x224", (1, 3, 14, 16, 14, 16), (0, 2, 4, 1, 3, 5)),
    ("steps and items of 35x8x256", (35, 8, 256), (1, 0, 2)),
)


def transposition_cases() -> list[Case]:
    """All of them."""
    return [*_matrices(), *_of_networks()]


def _matrices() -> Iterator[Case]:
    for (rows, columns), data_type in itertools.product(_MATRICES, ("FLOAT32", "FLOAT16", "INT8")):
        operator = transposition(data_type, (rows, columns), (1, 0))
        yield Case("transposition", f"matrix {rows}x{columns} {short_name(data_type)}", operator, Aim(1.0))


def _of_networks() -> Iterator[Case]:
    for (name, sizes, order), data_type in itertools.product(_NETWORKS, ("FLOAT32", "FLOAT16")):
        yield Case("transposition", f"{name} {short_name(data_type)}", transposition(data_type, sizes, order), Aim(1.0))


def transposition(data_type: str, sizes: Sequence[int], order: Sequence[int]) -> Operator:
    """ELEMENT_WISE_IDENTITY from a view of what has ``sizes`` in memory, its dimensions in another ``order``."""
    strides = packed_strides(sizes)
    source = TensorDesc(data_type, [sizes[axis] for axis in order], strides=[strides[axis] for axis in order])
    return identity(source, TensorDesc(data_type, source.sizes))
