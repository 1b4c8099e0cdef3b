"""The cases of quantized networks' layers, with weights that are known before they run."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases import Aim, Case
from benchmarks.quantized_layers import QuantizedLayer, QuantizedProduct, QuantizedWindows


def quantized_cases() -> Iterator[Case]:
    """Matrices of transformers (BERT-base's, one token's, a large square) and all kinds of layers of ResNet-50."""
    products = ((1024, 1024, 1024), (128, 768, 768), (128, 768, 3072), (128, 3072, 768), (8, 768, 768), (1, 768, 3072))
    for rows, inner, columns in products:
        aim = Aim(1.0, 0.6) if rows == 1024 else Aim(1.0)
        yield _case(f"product {rows}x{inner}x{columns}", QuantizedProduct((rows, inner), columns), aim)
    layers = (
        (3, 64, 224, 7, 2),
        (64, 64, 56, 1, 1),
        (64, 256, 56, 1, 1),
        (64, 64, 56, 3, 1),
        (256, 512, 56, 1, 2),
        (128, 128, 56, 3, 2),
        (128, 128, 28, 3, 1),
        (256, 256, 14, 3, 1),
        (1024, 256, 14, 1, 1),
        (512, 512, 14, 3, 2),
        (512, 512, 7, 3, 1),
        (512, 2048, 7, 1, 1),
    )
    for channels, filters, size, window, stride in layers:
        kind = f"{window}x{window}" + (f"/{stride}" if stride > 1 else "")
        name = f"convolution {kind} {channels} to {filters}, {size}x{size}"
        yield _case(name, QuantizedWindows((1, channels, size, size), filters, window, stride), Aim(1.0))


def _case(name: str, layer: QuantizedLayer, aim: Aim) -> Case:
    return Case("quantized layer", f"{name} u8 i8, fixed weights", layer, aim, (0, 255))
