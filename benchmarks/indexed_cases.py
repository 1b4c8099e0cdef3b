"""The cases of gathers and scatters: rows of a table, elements of rows, and elements of one long row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.cases import Aim, Case
from benchmarks.peers import Array
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc

WORDS = (30522, 768)
"""The words of a table, as transformers have it."""


def indexed_cases() -> list[Case]:
    """All of them, in the order of the table."""
    return [*_gathers(), *_scatters()]


def _gathers() -> Iterator[Case]:
    for name, sizes, axis, count in (
        ("512 of 30522 rows of 768 f32", WORDS, 0, 512),
        ("16384 of 30522 rows of 768 f32", WORDS, 0, 16384),
        ("1024 of 4096 columns f32, 1024 rows", (1024, 4096), 1, 1024),
    ):
        yield Case("gather", name, gather(sizes, axis, count), Aim(1.0), fill=_chosen(sizes[axis]))
    for axis, name in ((1, "along rows"), (0, "along columns")):
        operator = gather_elements((2048, 2048), axis)
        yield Case("gather", f"elements {name} f32, 16 MiB", operator, Aim(1.0), fill=_chosen(2048))


def _scatters() -> Iterator[Case]:
    for count, size in ((1 << 20, 1 << 16), (1 << 20, 1 << 22), (1 << 16, 1 << 16)):
        operator = scatter_elements((size,), (count,), 0)
        yield Case("scatter", f"{count} elements into {size} f32", operator, Aim(1.0), fill=_chosen(size))
    for axis, name in ((1, "along rows"), (0, "along columns")):
        operator = scatter_elements((2048, 2048), (2048, 2048), axis)
        yield Case("scatter", f"elements {name} f32, 16 MiB", operator, Aim(1.0), fill=_chosen(2048))
    yield Case("scatter", "512 rows into 30522 of 768 f32", scatter_rows(WORDS, 512), Aim(1.0), fill=_different)


# ------------------------------------------------------------------------------------------------------------- inputs


def _chosen(size: int) -> Callable[[Sequence[Array]], None]:
    """Indices of the second input, from 0 to before ``size``; some occur several times."""

    def fill(inputs: Sequence[Array]) -> None:
        inputs[1][...] = np.random.default_rng(0).integers(0, size, inputs[1].shape)

    return fill


def _different(inputs: Sequence[Array]) -> None:
    table, chosen, _ = inputs
    chosen[:, 0] = np.random.default_rng(0).permutation(len(table))[: len(chosen)]


# -------------------------------------------------------------------------------------------------------- descriptors


def gather(sizes: tuple[int, int], axis: int, count: int) -> Operator:
    """GATHER of some rows, or columns, of a matrix."""
    return operators.Gather(
        input_tensor=TensorDesc("FLOAT32", sizes),
        indices_tensor=TensorDesc("INT64", (1, count)),
        output_tensor=TensorDesc("FLOAT32", [count if d == axis else size for d, size in enumerate(sizes)]),
        axis=axis,
        index_dimensions=1,
    )


def gather_elements(sizes: Sequence[int], axis: int) -> Operator:
    """GATHER_ELEMENTS of as many as there are."""
    tensor = TensorDesc("FLOAT32", sizes)
    return operators.GatherElements(
        input_tensor=tensor, indices_tensor=TensorDesc("INT64", sizes), output_tensor=tensor, axis=axis
    )


def scatter_elements(sizes: Sequence[int], updates: Sequence[int], axis: int) -> Operator:
    """SCATTER_ELEMENTS."""
    tensor = TensorDesc("FLOAT32", sizes)
    return operators.ScatterElements(
        input_tensor=tensor,
        indices_tensor=TensorDesc("INT64", updates),
        updates_tensor=TensorDesc("FLOAT32", updates),
        output_tensor=tensor,
        axis=axis,
    )


def scatter_rows(sizes: tuple[int, int], count: int) -> Operator:
    """SCATTER_ND of some rows of a matrix."""
    table = TensorDesc("FLOAT32", sizes)
    return operators.ScatterNd(
        input_tensor=table,
        indices_tensor=TensorDesc("INT64", (count, 1)),
        updates_tensor=TensorDesc("FLOAT32", (count, sizes[1])),
        output_tensor=table,
        input_dimension_count=2,
        indices_dimension_count=2,
    )
