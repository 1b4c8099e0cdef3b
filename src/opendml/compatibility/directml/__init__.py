"""The interface of the package ``directml`` on PyPI, PyDirectML's successor: a script runs with one line changed.

    import opendml.compatibility.directml as dml  # was: import directml as dml

    graph = dml.Graph(dml.Device())
    x = graph.input([1, 1, 2, 2], name="x")
    w = graph.constant(weights)
    operator = graph.compile([dml.activation_relu(x * w)])
    (result,) = operator({"x": array})

A script that stays as it is finds this behind ``sys.modules["directml"] = opendml.compatibility.directml``.
Memory of a device is the host's: a ``Buffer`` is an array that is bound where it is.
"""

from __future__ import annotations

from typing import Final

from opendml.compatibility.directml.graphs import CompiledOperator, Graph
from opendml.compatibility.directml.operators import (
    FusedActivation,
    GRUOutputs,
    MaxPoolingOutputs,
    activation_gelu,
    activation_identity,
    activation_linear,
    activation_relu,
    activation_sigmoid,
    activation_softmax,
    activation_tanh,
    add,
    average_pooling,
    batch_normalization,
    broadcast,
    convolution,
    divide,
    gather,
    gemm,
    gru,
    join,
    local_response_normalization,
    max_pooling,
    mean_variance_normalization,
    multihead_attention,
    multiply,
    padding,
    reinterpret,
    slice,
    subtract,
    upsample_2d,
    value_scale_2d,
)
from opendml.compatibility.directml.tensors import Buffer, Device, Expression, TensorDesc
from opendml.compatibility.expressions import GRUOutputOptions, TensorPolicy
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)

__all__ = [
    "Buffer",
    "CompiledOperator",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputOptions",
    "GRUOutputs",
    "Graph",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "OperatorType",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "activation_gelu",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_softmax",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "broadcast",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multihead_attention",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "upsample_2d",
    "value_scale_2d",
]

__version__: Final = "0.1.0"
"""The version of the package whose interface this is."""
