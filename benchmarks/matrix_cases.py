"""The cases of matrix products: squares, both sides transposed or not, batches, long and narrow ones, few rows, and the
layers of transformers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.cases import Aim, Case
from benchmarks.matrix_layers import MatrixProduct

SERIOUS = Aim(1.0, 0.85)
"""For products that are large enough for most of the peak."""

SHAPES = {
    "12 x 128x64x128": ((12, 128, 128), 64),
    "64 x 64x64x64": ((64, 64, 64), 64),
    "tall 16384x64x64": ((16384, 64), 64),
    "flat 64x1024x4096": ((64, 4096), 1024),
    "deep 64x16384x64": ((64, 64), 16384),
    "outer 1024x16x1024": ((1024, 1024), 16),
    "1 row x4096x4096": ((1, 4096), 4096),
    "4 rows x1024x4096": ((4, 4096), 1024),
    "16 rows x1024x1024": ((16, 1024), 1024),
    "32 rows x1024x4096": ((32, 4096), 1024),
}
"""Sizes of the result, and products in a sum."""

LAYERS = ((1, 768, 3072), (8, 768, 3072), (16, 3072, 768), (49, 768, 3072), (49, 2048, 512))
LARGE_LAYERS = ((128, 768, 768), (128, 768, 3072), (128, 3072, 768), (197, 768, 2304), (197, 3072, 768))
"""Rows, products and columns: of BERT-base's layers there are 128 rows, of ViT-B/16's 197."""


def matrix_cases() -> Iterator[Case]:
    """Those of two inputs, then those of fixed weights."""
    for size, order in itertools.product((64, 256, 512, 1024, 2048), ("NN", "NT", "TN", "TT")):
        aim = SERIOUS if size >= 512 else Aim(1.0)
        yield _case(f"{size}x{size}x{size} {order}", MatrixProduct((size, size), size, order), aim)
    for (name, (sizes, inner)), order in itertools.product(SHAPES.items(), ("NN", "NT")):
        yield _case(f"{name} {order}", MatrixProduct(sizes, inner, order), Aim(1.0))
    for rows, inner, columns in (*LAYERS, *LARGE_LAYERS):
        aim = SERIOUS if rows >= LARGE_LAYERS[0][0] else Aim(1.0)
        layer = MatrixProduct((rows, columns), inner, is_fixed=True)
        yield _case(f"{rows}x{inner}x{columns}, fixed weights", layer, aim)


def _case(name: str, product: MatrixProduct, aim: Aim) -> Case:
    return Case("matrix shapes", f"{name} f32", product, aim)
