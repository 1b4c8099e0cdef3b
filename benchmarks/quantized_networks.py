"""Networks of integers of 8 bits, as onnxruntime's quantisation tools make them of the ones in float32.

Statically: QuantizeLinear and DequantizeLinear around every node, weights int8 with a scale for each output channel,
activations uint8, in ranges that the network's own input gives. Dynamically: products with int8 weights, whose other
factor is quantised by its range every time. With a reduced range weights have 7 bits, and are no larger than 64: so
onnxruntime's documentation has it for x86 processors without VNNI, where its kernels saturate sums of two products.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Array

Quantization = Callable[[bytes, Mapping[str, Array]], bytes]
"""What is made of a model in float32, and of arrays for it."""


def statically(model: bytes, arrays: Mapping[str, Array], *, reduce_range: bool = False) -> bytes:
    """With QuantizeLinear and DequantizeLinear (QDQ)."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    with _prepared(model) as (before, after):
        quantize_static(
            before,
            after,
            _Once(arrays),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return after.read_bytes()


def dynamically(model: bytes, arrays: Mapping[str, Array], *, reduce_range: bool = False) -> bytes:
    """With DynamicQuantizeLinear and MatMulInteger; the arrays do not matter."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _prepared(model) as (before, after):
        quantize_dynamic(before, after, weight_type=QuantType.QInt8, reduce_range=reduce_range)
        return after.read_bytes()


class _Once:
    """The arrays, which ranges are taken from."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._left: Iterator[dict[str, Array]] = iter([{name: np.asarray(array) for name, array in arrays.items()}])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


@contextmanager
def _prepared(model: bytes) -> Iterator[tuple[Path, Path]]:
    """The file of a model with its nodes fused and its sizes known, and one for the result."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    root: Any = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it warns of every parameter that has fewer dimensions than a matrix
    try:
        with tempfile.TemporaryDirectory() as folder:
            given, before, after = (Path(folder) / f"{name}.onnx" for name in ("given", "before", "after"))
            given.write_bytes(model)
            quant_pre_process(given, before, skip_symbolic_shape=True)
            yield before, after
    finally:
        root.setLevel(level)
