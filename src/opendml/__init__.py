"""opendml: DirectML's operators on every machine.

``import opendml as dml``, then describe an operator as DirectML does, ``dml.operators.Slice1(...)`` with
``dml.TensorDesc(...)``, and learn what is wrong with it, ``dml.validate(desc, "3_0")``, or run it:
``dml.Device("cpu").compile(desc)``. Every operator is a function on arrays as well, ``dml.max_pooling(x, [2, 2])``.
``dml.catalogue`` knows what every operator takes and supports.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opendml._version import __version__ as __version__

if TYPE_CHECKING:
    # isort: off
    from opendml import operators as operators
    from opendml.descriptors import OperatorDesc as OperatorDesc
    from opendml.enums import AxisDirection as AxisDirection
    from opendml.enums import BindingType as BindingType
    from opendml.enums import ConvolutionDirection as ConvolutionDirection
    from opendml.enums import ConvolutionMode as ConvolutionMode
    from opendml.enums import CreateDeviceFlags as CreateDeviceFlags
    from opendml.enums import DepthSpaceOrder as DepthSpaceOrder
    from opendml.enums import ExecutionFlags as ExecutionFlags
    from opendml.enums import Feature as Feature
    from opendml.enums import FeatureLevel as FeatureLevel
    from opendml.enums import GraphEdgeType as GraphEdgeType
    from opendml.enums import GraphNodeType as GraphNodeType
    from opendml.enums import InterpolationMode as InterpolationMode
    from opendml.enums import IsInfinityMode as IsInfinityMode
    from opendml.enums import MatrixTransform as MatrixTransform
    from opendml.enums import MultiheadAttentionMaskType as MultiheadAttentionMaskType
    from opendml.enums import OperatorType as OperatorType
    from opendml.enums import PaddingMode as PaddingMode
    from opendml.enums import QuantizationType as QuantizationType
    from opendml.enums import RandomGeneratorType as RandomGeneratorType
    from opendml.enums import RecurrentNetworkDirection as RecurrentNetworkDirection
    from opendml.enums import ReduceFunction as ReduceFunction
    from opendml.enums import RoundingMode as RoundingMode
    from opendml.enums import TensorDataType as TensorDataType
    from opendml.enums import TensorFlags as TensorFlags
    from opendml.enums import TensorType as TensorType
    from opendml.errors import DescriptorArgumentError as DescriptorArgumentError
    from opendml.errors import DescriptorFormatError as DescriptorFormatError
    from opendml.errors import InvalidDescriptorError as InvalidDescriptorError
    from opendml.errors import ModelFormatError as ModelFormatError
    from opendml.errors import OpendmlError as OpendmlError
    from opendml.errors import UnknownOperatorError as UnknownOperatorError
    from opendml.fields import ScalarUnion as ScalarUnion
    from opendml.fields import ScaleBias as ScaleBias
    from opendml.fields import Size2D as Size2D
    from opendml.operator_catalogue import catalogue as catalogue
    from opendml.rules import Violation as Violation
    from opendml.rules import validate as validate
    from opendml.tensor import TensorDesc as TensorDesc
    from opendml.device import CheckedOperator as CheckedOperator
    from opendml.device import Device as Device
    from opendml.errors import BindingError as BindingError
    from opendml.errors import ConfigurationError as ConfigurationError
    from opendml.functions import fused_activation as fused_activation
    from opendml.functions.activation import activation_celu as activation_celu
    from opendml.functions.activation import activation_elu as activation_elu
    from opendml.functions.activation import activation_gelu as activation_gelu
    from opendml.functions.activation import activation_hard_sigmoid as activation_hard_sigmoid
    from opendml.functions.activation import activation_identity as activation_identity
    from opendml.functions.activation import activation_leaky_relu as activation_leaky_relu
    from opendml.functions.activation import activation_linear as activation_linear
    from opendml.functions.activation import activation_parametric_softplus as activation_parametric_softplus
    from opendml.functions.activation import activation_relu as activation_relu
    from opendml.functions.activation import activation_scaled_elu as activation_scaled_elu
    from opendml.functions.activation import activation_scaled_tanh as activation_scaled_tanh
    from opendml.functions.activation import activation_shrink as activation_shrink
    from opendml.functions.activation import activation_sigmoid as activation_sigmoid
    from opendml.functions.activation import activation_softmax as activation_softmax
    from opendml.functions.activation import activation_softplus as activation_softplus
    from opendml.functions.activation import activation_softsign as activation_softsign
    from opendml.functions.activation import activation_tanh as activation_tanh
    from opendml.functions.activation import activation_thresholded_relu as activation_thresholded_relu
    from opendml.functions.convolution import convolution as convolution
    from opendml.functions.cumulative import cumulative_product as cumulative_product
    from opendml.functions.cumulative import cumulative_summation as cumulative_summation
    from opendml.functions.element_wise import add as add
    from opendml.functions.element_wise import cast as cast
    from opendml.functions.element_wise import clip as clip
    from opendml.functions.element_wise import identity as identity
    from opendml.functions.gathering import gather as gather
    from opendml.functions.generation import fill_value_constant as fill_value_constant
    from opendml.functions.generation import fill_value_sequence as fill_value_sequence
    from opendml.functions.joining import join as join
    from opendml.functions.joining import split as split
    from opendml.functions.matrix import gemm as gemm
    from opendml.functions.padding import padding as padding
    from opendml.functions.padding import tile as tile
    from opendml.functions.pooling import MaxPoolingOutputs as MaxPoolingOutputs
    from opendml.functions.pooling import average_pooling as average_pooling
    from opendml.functions.pooling import lp_pooling as lp_pooling
    from opendml.functions.pooling import max_pooling as max_pooling
    from opendml.functions.pooling import max_unpooling as max_unpooling
    from opendml.functions.rearrangement import depth_to_space as depth_to_space
    from opendml.functions.rearrangement import space_to_depth as space_to_depth
    from opendml.functions.recurrent import RnnOutputs as RnnOutputs
    from opendml.functions.recurrent import rnn as rnn
    from opendml.functions.reduction import reduce as reduce
    from opendml.functions.resampling import upsample_2d as upsample_2d
    from opendml.functions.slicing import slice as slice
    from opendml.functions.slicing import slice_grad as slice_grad
    from opendml.program import BoundCall as BoundCall
    from opendml.program import Program as Program

    # isort: on

# What the package offers, by the module that has it.
_EXPORTS = {
    "descriptors": "OperatorDesc",
    "device": "CheckedOperator Device",
    "enums": """
        AxisDirection BindingType ConvolutionDirection ConvolutionMode CreateDeviceFlags DepthSpaceOrder ExecutionFlags
        Feature FeatureLevel GraphEdgeType GraphNodeType InterpolationMode IsInfinityMode MatrixTransform
        MultiheadAttentionMaskType OperatorType PaddingMode QuantizationType RandomGeneratorType
        RecurrentNetworkDirection ReduceFunction RoundingMode TensorDataType TensorFlags TensorType
    """,
    "errors": """
        BindingError ConfigurationError DescriptorArgumentError DescriptorFormatError InvalidDescriptorError
        ModelFormatError OpendmlError UnknownOperatorError
    """,
    "fields": "ScalarUnion ScaleBias Size2D",
    "functions.activation": """
        activation_celu activation_elu activation_gelu activation_hard_sigmoid activation_identity
        activation_leaky_relu activation_linear activation_parametric_softplus activation_relu activation_scaled_elu
        activation_scaled_tanh activation_shrink activation_sigmoid activation_softmax activation_softplus
        activation_softsign activation_tanh activation_thresholded_relu
    """,
    "functions.convolution": "convolution",
    "functions.cumulative": "cumulative_product cumulative_summation",
    "functions.element_wise": "add cast clip identity",
    "functions.gathering": "gather",
    "functions.generation": "fill_value_constant fill_value_sequence",
    "functions.joining": "join split",
    "functions.matrix": "gemm",
    "functions.padding": "padding tile",
    "functions.pooling": "MaxPoolingOutputs average_pooling lp_pooling max_pooling max_unpooling",
    "functions.rearrangement": "depth_to_space space_to_depth",
    "functions.recurrent": "RnnOutputs rnn",
    "functions.reduction": "reduce",
    "functions.resampling": "upsample_2d",
    "functions.slicing": "slice slice_grad",
    "operator_catalogue": "catalogue",
    "program": "BoundCall Program",
    "rules": "Violation validate",
    "tensor": "TensorDesc",
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# Subpackages and modules that are used by their own name, and where they are.
_SUBMODULES = {"fused_activation": "opendml.functions.fused_activation", "operators": "opendml.operators"}

__all__ = sorted([*_MODULES, *_SUBMODULES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(_SUBMODULES[name])
    if name not in _MODULES:
        raise AttributeError(f"module 'opendml' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"opendml.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
