"""Operators of com.microsoft: those that ONNX Runtime's optimisers put into models, and its DirectML provider has."""

from __future__ import annotations

from typing import Final

from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.microsoft.attention import ATTENTION
from opendml.formats.onnx.operators.microsoft.directml import DIRECTML
from opendml.formats.onnx.operators.microsoft.dynamic_lstm import DYNAMIC
from opendml.formats.onnx.operators.microsoft.few_bits import FEW_BITS
from opendml.formats.onnx.operators.microsoft.fused import FUSED
from opendml.formats.onnx.operators.microsoft.grouped_attention import GROUPED
from opendml.formats.onnx.operators.microsoft.normalizations import NORMALIZATIONS
from opendml.formats.onnx.operators.microsoft.quantized import QUANTIZED

__all__ = ["DIRECTML", "MICROSOFT"]

MICROSOFT: Final[Table] = {**ATTENTION, **FEW_BITS, **FUSED, **GROUPED, **NORMALIZATIONS, **QUANTIZED, **DYNAMIC}
