"""Products, convolutions and their kernels, for the tests of sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Compute, Definition
from opendml.llvm.host import machine_of
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.refine.refining import refine, refined_definition
from opendml.targets.cpu.target import CpuTarget

TARGETS = (
    CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512")),
    CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2")),
    CpuTarget(machine_of("aarch64-unknown-linux-gnu", "baseline")),
)


def product_kernel(desc: Any, target: CpuTarget = TARGETS[0]) -> ContractionKernel:
    *_, statement = refined_definition(desc, target).statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, target)
    assert kernel is not None
    return kernel


def fixed_kernel(desc: operators.Convolution | operators.Gemm, target: CpuTarget = TARGETS[0]) -> ContractionKernel:
    """Of a convolution or a product whose filter, or right matrix, is fixed: its panels are made at initialisation."""
    *_, statement = with_fixed_weights(desc, target).statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, target)
    assert kernel is not None
    return kernel


def with_fixed_weights(desc: operators.Convolution | operators.Gemm, target: CpuTarget) -> Definition:
    """The refined definition of such a one."""
    definition = desc.define()
    weights = definition.inputs[1]
    assert weights is not None
    return refine(definition, target, (weights,))


def gemm(
    rows: int, inner: int, columns: int, trans_b: bool = False, trans_a: bool = False, batch: int = 1
) -> operators.Gemm:
    """Of so many left matrices, and one right matrix that they share."""
    right = (columns, inner) if trans_b else (inner, columns)
    return operators.Gemm(
        a_tensor=TensorDesc("float32", [1, batch, *((inner, rows) if trans_a else (rows, inner))]),
        b_tensor=TensorDesc("float32", [1, batch, *right], strides=[0, 0, right[1], 1]),
        output_tensor=TensorDesc("float32", [1, batch, rows, columns]),
        trans_a=MatrixTransform(trans_a),
        trans_b=MatrixTransform(trans_b),
        alpha=1.0,
        beta=0.0,
    )


def activated_gemm(data_type: str, batch: Sequence[int], rows: int, inner: int, columns: int) -> operators.Gemm:
    """Of so many matrices, the right ones transposed, with something added and an activation of its own."""
    return operators.Gemm(
        a_tensor=TensorDesc(data_type, [*batch, rows, inner]),
        b_tensor=TensorDesc(data_type, [*batch, columns, inner]),
        c_tensor=TensorDesc(data_type, [*batch, rows, columns]),
        output_tensor=TensorDesc(data_type, [*batch, rows, columns]),
        trans_a="NONE",
        trans_b="TRANSPOSE",
        alpha=0.5,
        beta=2.0,
        fused_activation=operators.ActivationRelu(),
    )


def convolution(
    batch: int,
    channels: int,
    filters: int,
    size: int,
    window: int = 3,
    stride: int = 1,
    has_channels_last: bool = False,
) -> operators.Convolution:
    """Of square images that keep their size, divided by the stride; its results may have their channels last."""
    pad, result = window // 2, (size - 1) // stride + 1
    strides = [result * result * filters, 1, result * filters, filters] if has_channels_last else None
    return operators.Convolution(
        input_tensor=TensorDesc("float32", [batch, channels, size, size]),
        filter_tensor=TensorDesc("float32", [filters, channels, window, window]),
        output_tensor=TensorDesc("float32", [batch, filters, result, result], strides=strides),
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        strides=(stride, stride),
        dilations=(1, 1),
        start_padding=(pad, pad),
        end_padding=(pad, pad),
        output_padding=(0, 0),
        group_count=1,
    )


def bytes_convolution(channels: int, filters: int, size: int, window: int = 3) -> operators.ConvolutionInteger:
    """Of a square image of bytes that keeps its size."""
    pad = (window // 2, window // 2)
    return operators.ConvolutionInteger(
        input_tensor=TensorDesc("UINT8", [1, channels, size, size]),
        filter_tensor=TensorDesc("INT8", [filters, channels, window, window]),
        output_tensor=TensorDesc("INT32", [1, filters, size, size]),
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=pad,
        end_padding=pad,
        group_count=1,
    )
