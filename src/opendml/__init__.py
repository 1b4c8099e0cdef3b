"""opendml: DirectML's operators on every machine.

``import opendml as dml``, then describe an operator as DirectML does, ``dml.operators.Slice1(...)`` with
``dml.TensorDesc(...)``, and learn what is wrong with it, ``dml.validate(desc, "3_0")``, or run it:
``dml.Device("cpu").compile(desc)``. Every operator is a function on arrays as well, ``dml.activation_relu(x)``.
``dml.catalogue`` knows what every operator takes and supports.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from opendml import _loading as _loading
from opendml._version import __version__ as __version__

if TYPE_CHECKING:
    # isort: off
    from opendml import operators as operators
    from opendml import testing as testing
    from opendml.compatibility import distributed as distributed
    from opendml.description.descriptors import OperatorDesc as OperatorDesc
    from opendml.description.enums import AxisDirection as AxisDirection
    from opendml.description.enums import BindingType as BindingType
    from opendml.description.enums import ConvolutionDirection as ConvolutionDirection
    from opendml.description.enums import ConvolutionMode as ConvolutionMode
    from opendml.description.enums import CreateDeviceFlags as CreateDeviceFlags
    from opendml.description.enums import DepthSpaceOrder as DepthSpaceOrder
    from opendml.description.enums import ExecutionFlags as ExecutionFlags
    from opendml.description.enums import Feature as Feature
    from opendml.description.enums import FeatureLevel as FeatureLevel
    from opendml.description.enums import GraphEdgeType as GraphEdgeType
    from opendml.description.enums import GraphNodeType as GraphNodeType
    from opendml.description.enums import InterpolationMode as InterpolationMode
    from opendml.description.enums import IsInfinityMode as IsInfinityMode
    from opendml.description.enums import MatrixTransform as MatrixTransform
    from opendml.description.enums import MultiheadAttentionMaskType as MultiheadAttentionMaskType
    from opendml.description.enums import OperatorType as OperatorType
    from opendml.description.enums import PaddingMode as PaddingMode
    from opendml.description.enums import QuantizationType as QuantizationType
    from opendml.description.enums import RandomGeneratorType as RandomGeneratorType
    from opendml.description.enums import RecurrentNetworkDirection as RecurrentNetworkDirection
    from opendml.description.enums import ReduceFunction as ReduceFunction
    from opendml.description.enums import RoundingMode as RoundingMode
    from opendml.description.enums import TensorDataType as TensorDataType
    from opendml.description.enums import TensorFlags as TensorFlags
    from opendml.description.enums import TensorType as TensorType
    from opendml.description.errors import DescriptorArgumentError as DescriptorArgumentError
    from opendml.description.errors import DescriptorFormatError as DescriptorFormatError
    from opendml.description.errors import InvalidDescriptorError as InvalidDescriptorError
    from opendml.description.errors import ModelFormatError as ModelFormatError
    from opendml.description.errors import NotPicklableError as NotPicklableError
    from opendml.description.errors import OpendmlError as OpendmlError
    from opendml.description.errors import OutOfMemoryError as OutOfMemoryError
    from opendml.description.errors import UnknownMemberError as UnknownMemberError
    from opendml.description.errors import UnknownNameError as UnknownNameError
    from opendml.description.errors import UnknownOperatorError as UnknownOperatorError
    from opendml.inspection.explanation import explain as explain
    from opendml.description.structs import ScalarUnion as ScalarUnion
    from opendml.description.structs import ScaleBias as ScaleBias
    from opendml.description.structs import Size2D as Size2D
    from opendml.building.graph_building import Graph as Graph
    from opendml.building.graph_tensor import GraphTensor as GraphTensor
    from opendml.building.graph_tensor import reinterpret as reinterpret
    from opendml.description.graph_desc import ConstantNode as ConstantNode
    from opendml.description.graph_desc import GraphDesc as GraphDesc
    from opendml.description.graph_desc import InputEdge as InputEdge
    from opendml.description.graph_desc import IntermediateEdge as IntermediateEdge
    from opendml.description.graph_desc import OperatorNode as OperatorNode
    from opendml.description.graph_desc import OutputEdge as OutputEdge
    from opendml.description.graph_validation import validate_graph as validate_graph
    from opendml.formats.loading import load as load
    from opendml.formats.onnx.model import OnnxModel as OnnxModel
    from opendml.formats.onnx.program import OnnxProgram as OnnxProgram
    from opendml.formats.serialized_graph.graph_file import save as save
    from opendml.operators.catalogue import catalogue as catalogue
    from opendml.description.rules import Violation as Violation
    from opendml.description.validation import validate as validate
    from opendml.description.tensor import TensorDesc as TensorDesc
    from opendml.programs.device import CheckedOperator as CheckedOperator
    from opendml.programs.device import Device as Device
    from opendml.programs.device import devices as devices
    from opendml.programs.device_tensor import DeviceTensor as DeviceTensor
    from opendml.description.errors import BindingError as BindingError
    from opendml.description.errors import ConfigurationError as ConfigurationError
    from opendml.functions import fused_activation as fused_activation
    from opendml.functions.typed import activation_celu as activation_celu
    from opendml.functions.typed import activation_elu as activation_elu
    from opendml.functions.typed import activation_gelu as activation_gelu
    from opendml.functions.typed import activation_hard_sigmoid as activation_hard_sigmoid
    from opendml.functions.typed import activation_hard_swish as activation_hard_swish
    from opendml.functions.typed import activation_hardmax as activation_hardmax
    from opendml.functions.typed import activation_identity as activation_identity
    from opendml.functions.typed import activation_leaky_relu as activation_leaky_relu
    from opendml.functions.typed import activation_linear as activation_linear
    from opendml.functions.typed import activation_log_softmax as activation_log_softmax
    from opendml.functions.typed import activation_parameterized_relu as activation_parameterized_relu
    from opendml.functions.typed import activation_parametric_softplus as activation_parametric_softplus
    from opendml.functions.typed import activation_relu as activation_relu
    from opendml.functions.typed import activation_relu_grad as activation_relu_grad
    from opendml.functions.typed import activation_scaled_elu as activation_scaled_elu
    from opendml.functions.typed import activation_scaled_tanh as activation_scaled_tanh
    from opendml.functions.typed import activation_shrink as activation_shrink
    from opendml.functions.typed import activation_sigmoid as activation_sigmoid
    from opendml.functions.typed import activation_softmax as activation_softmax
    from opendml.functions.typed import activation_softplus as activation_softplus
    from opendml.functions.typed import activation_softsign as activation_softsign
    from opendml.functions.typed import activation_swish as activation_swish
    from opendml.functions.typed import activation_tanh as activation_tanh
    from opendml.functions.typed import activation_thresholded_relu as activation_thresholded_relu
    from opendml.functions.attention import MultiheadAttentionOutputs as MultiheadAttentionOutputs
    from opendml.functions.typed import multihead_attention as multihead_attention
    from opendml.functions.typed import convolution as convolution
    from opendml.functions.typed import convolution_integer as convolution_integer
    from opendml.functions.typed import quantized_linear_convolution as quantized_linear_convolution
    from opendml.functions.typed import cumulative_product as cumulative_product
    from opendml.functions.typed import cumulative_summation as cumulative_summation
    from opendml.functions.typed import diagonal_matrix as diagonal_matrix
    from opendml.functions.typed import add as add
    from opendml.functions.typed import cast as cast
    from opendml.functions.typed import clip as clip
    from opendml.functions.typed import identity as identity
    from opendml.functions.typed import abs as abs
    from opendml.functions.typed import ceil as ceil
    from opendml.functions.typed import difference_square as difference_square
    from opendml.functions.typed import divide as divide
    from opendml.functions.typed import floor as floor
    from opendml.functions.typed import max as max
    from opendml.functions.typed import mean as mean
    from opendml.functions.typed import min as min
    from opendml.functions.typed import modulus_floor as modulus_floor
    from opendml.functions.typed import modulus_truncate as modulus_truncate
    from opendml.functions.typed import multiply as multiply
    from opendml.functions.typed import negate as negate
    from opendml.functions.typed import recip as recip
    from opendml.functions.typed import round as round
    from opendml.functions.typed import sign as sign
    from opendml.functions.typed import sqrt as sqrt
    from opendml.functions.typed import subtract as subtract
    from opendml.functions.typed import acos as acos
    from opendml.functions.typed import acosh as acosh
    from opendml.functions.typed import asin as asin
    from opendml.functions.typed import asinh as asinh
    from opendml.functions.typed import atan as atan
    from opendml.functions.typed import atan_yx as atan_yx
    from opendml.functions.typed import atanh as atanh
    from opendml.functions.typed import cos as cos
    from opendml.functions.typed import cosh as cosh
    from opendml.functions.typed import erf as erf
    from opendml.functions.typed import exp as exp
    from opendml.functions.typed import log as log
    from opendml.functions.typed import pow as pow
    from opendml.functions.typed import sin as sin
    from opendml.functions.typed import sinh as sinh
    from opendml.functions.typed import tan as tan
    from opendml.functions.typed import tanh as tanh
    from opendml.functions.typed import clip_grad as clip_grad
    from opendml.functions.typed import threshold as threshold
    from opendml.functions.typed import bit_and as bit_and
    from opendml.functions.typed import bit_count as bit_count
    from opendml.functions.typed import bit_not as bit_not
    from opendml.functions.typed import bit_or as bit_or
    from opendml.functions.typed import bit_shift_left as bit_shift_left
    from opendml.functions.typed import bit_shift_right as bit_shift_right
    from opendml.functions.typed import bit_xor as bit_xor
    from opendml.functions.typed import equals as equals
    from opendml.functions.typed import greater_than as greater_than
    from opendml.functions.typed import greater_than_or_equal as greater_than_or_equal
    from opendml.functions.typed import if_ as if_
    from opendml.functions.typed import is_infinity as is_infinity
    from opendml.functions.typed import is_nan as is_nan
    from opendml.functions.typed import less_than as less_than
    from opendml.functions.typed import less_than_or_equal as less_than_or_equal
    from opendml.functions.typed import logical_and as logical_and
    from opendml.functions.typed import logical_not as logical_not
    from opendml.functions.typed import logical_or as logical_or
    from opendml.functions.typed import logical_xor as logical_xor
    from opendml.functions.typed import dequantize_linear as dequantize_linear
    from opendml.functions.typed import quantize_linear as quantize_linear
    from opendml.functions.typed import quantized_linear_add as quantized_linear_add
    from opendml.functions.typed import gather as gather
    from opendml.functions.typed import gather_elements as gather_elements
    from opendml.functions.typed import gather_nd as gather_nd
    from opendml.functions.typed import fill_value_constant as fill_value_constant
    from opendml.functions.typed import fill_value_sequence as fill_value_sequence
    from opendml.functions.typed import join as join
    from opendml.functions.typed import split as split
    from opendml.functions.typed import gemm as gemm
    from opendml.functions.typed import matrix_multiply_integer as matrix_multiply_integer
    from opendml.functions.typed import matrix_multiply_integer_to_float as matrix_multiply_integer_to_float
    from opendml.functions.typed import quantized_linear_matrix_multiply as quantized_linear_matrix_multiply
    from opendml.functions.nonzero import NonzeroCoordinatesOutputs as NonzeroCoordinatesOutputs
    from opendml.functions.typed import nonzero_coordinates as nonzero_coordinates
    from opendml.functions.typed import batch_normalization as batch_normalization
    from opendml.functions.typed import local_response_normalization as local_response_normalization
    from opendml.functions.typed import lp_normalization as lp_normalization
    from opendml.functions.typed import mean_variance_normalization as mean_variance_normalization
    from opendml.functions.typed import value_scale_2d as value_scale_2d
    from opendml.functions.normalization_training import BatchNormalizationGradOutputs as BatchNormalizationGradOutputs
    from opendml.functions.normalization_training import (
        BatchNormalizationTrainingOutputs as BatchNormalizationTrainingOutputs,
    )
    from opendml.functions.typed import batch_normalization_grad as batch_normalization_grad
    from opendml.functions.typed import batch_normalization_training as batch_normalization_training
    from opendml.functions.typed import batch_normalization_training_grad as batch_normalization_training_grad
    from opendml.functions.typed import local_response_normalization_grad as local_response_normalization_grad
    from opendml.functions.optimizers import AdamOptimizerOutputs as AdamOptimizerOutputs
    from opendml.functions.typed import adam_optimizer as adam_optimizer
    from opendml.functions.typed import padding as padding
    from opendml.functions.typed import tile as tile
    from opendml.functions.pooling import MaxPoolingOutputs as MaxPoolingOutputs
    from opendml.functions.typed import average_pooling as average_pooling
    from opendml.functions.typed import lp_pooling as lp_pooling
    from opendml.functions.typed import max_pooling as max_pooling
    from opendml.functions.typed import max_unpooling as max_unpooling
    from opendml.functions.typed import average_pooling_grad as average_pooling_grad
    from opendml.functions.typed import max_pooling_grad as max_pooling_grad
    from opendml.functions.typed import quantized_linear_average_pooling as quantized_linear_average_pooling
    from opendml.functions.quantization import DynamicQuantizeLinearOutputs as DynamicQuantizeLinearOutputs
    from opendml.functions.typed import dequantize as dequantize
    from opendml.functions.typed import dynamic_quantize_linear as dynamic_quantize_linear
    from opendml.functions.typed import quantize as quantize
    from opendml.functions.random_numbers import RandomGeneratorOutputs as RandomGeneratorOutputs
    from opendml.functions.typed import random_generator as random_generator
    from opendml.functions.typed import depth_to_space as depth_to_space
    from opendml.functions.typed import space_to_depth as space_to_depth
    from opendml.functions.recurrent import GruOutputs as GruOutputs
    from opendml.functions.recurrent import LstmOutputs as LstmOutputs
    from opendml.functions.recurrent import RnnOutputs as RnnOutputs
    from opendml.functions.typed import gru as gru
    from opendml.functions.typed import lstm as lstm
    from opendml.functions.typed import rnn as rnn
    from opendml.functions.typed import argmax as argmax
    from opendml.functions.typed import argmin as argmin
    from opendml.functions.typed import reduce as reduce
    from opendml.functions.region_gradients import RoiAlignGradOutputs as RoiAlignGradOutputs
    from opendml.functions.typed import roi_align_grad as roi_align_grad
    from opendml.functions.typed import roi_align as roi_align
    from opendml.functions.typed import roi_pooling as roi_pooling
    from opendml.functions.typed import resample as resample
    from opendml.functions.typed import resample_grad as resample_grad
    from opendml.functions.typed import upsample_2d as upsample_2d
    from opendml.functions.typed import reverse_subsequences as reverse_subsequences
    from opendml.functions.typed import one_hot as one_hot
    from opendml.functions.typed import scatter_elements as scatter_elements
    from opendml.functions.typed import scatter_nd as scatter_nd
    from opendml.functions.selection import TopKOutputs as TopKOutputs
    from opendml.functions.typed import top_k as top_k
    from opendml.functions.typed import slice as slice
    from opendml.functions.typed import slice_grad as slice_grad
    from opendml.functions.typed import fold as fold
    from opendml.functions.typed import unfold as unfold
    from opendml.functions.typed import expand_dims as expand_dims
    from opendml.functions.typed import flatten as flatten
    from opendml.functions.typed import reshape as reshape
    from opendml.functions.typed import squeeze as squeeze
    from opendml.functions.typed import transpose as transpose
    from opendml.building.graph_program import BoundGraph as BoundGraph
    from opendml.building.graph_program import GraphProgram as GraphProgram
    from opendml.inspection.measurements import KernelProfile as KernelProfile
    from opendml.inspection.profiling import Profile as Profile
    from opendml.inspection.profiling import StagedProfile as StagedProfile
    from opendml.inspection.profiling import profile as profile
    from opendml.programs.program import BoundCall as BoundCall
    from opendml.programs.program import Program as Program

    # isort: on

# What the package offers, by the module that has it.
_EXPORTS = {
    "description.descriptors": "OperatorDesc",
    "programs.device": "CheckedOperator Device devices",
    "programs.device_tensor": "DeviceTensor",
    "description.enums": """
        AxisDirection BindingType ConvolutionDirection ConvolutionMode CreateDeviceFlags DepthSpaceOrder ExecutionFlags
        Feature FeatureLevel GraphEdgeType GraphNodeType InterpolationMode IsInfinityMode MatrixTransform
        MultiheadAttentionMaskType OperatorType PaddingMode QuantizationType RandomGeneratorType
        RecurrentNetworkDirection ReduceFunction RoundingMode TensorDataType TensorFlags TensorType
    """,
    "description.errors": """
        BindingError ConfigurationError DescriptorArgumentError DescriptorFormatError InvalidDescriptorError
        ModelFormatError NotPicklableError OpendmlError OutOfMemoryError UnknownMemberError UnknownNameError
        UnknownOperatorError
    """,
    "inspection.explanation": "explain",
    "description.structs": "ScalarUnion ScaleBias Size2D",
    "functions.activation": """
        activation_celu activation_elu activation_gelu activation_hard_sigmoid activation_hard_swish activation_hardmax
        activation_identity activation_leaky_relu activation_linear activation_log_softmax activation_parameterized_relu
        activation_parametric_softplus activation_relu activation_relu_grad activation_scaled_elu activation_scaled_tanh
        activation_shrink activation_sigmoid activation_softmax activation_softplus activation_softsign activation_swish
        activation_tanh activation_thresholded_relu
    """,
    "functions.attention": "MultiheadAttentionOutputs multihead_attention",
    "functions.convolution": "convolution",
    "functions.convolution_integer": "convolution_integer quantized_linear_convolution",
    "functions.cumulative": "cumulative_product cumulative_summation",
    "functions.diagonal": "diagonal_matrix",
    "functions.element_wise": "add cast clip identity",
    "functions.element_wise_arithmetic": """
        abs ceil difference_square divide floor max mean min modulus_floor modulus_truncate multiply negate recip round
        sign sqrt subtract
    """,
    "functions.element_wise_functions": """
        acos acosh asin asinh atan atan_yx atanh cos cosh erf exp log pow sin sinh tan tanh
    """,
    "functions.element_wise_limits": "clip_grad threshold",
    "functions.element_wise_logic": """
        bit_and bit_count bit_not bit_or bit_shift_left bit_shift_right bit_xor equals greater_than
        greater_than_or_equal if_ is_infinity is_nan less_than less_than_or_equal logical_and logical_not logical_or
        logical_xor
    """,
    "functions.element_wise_quantization": "dequantize_linear quantize_linear quantized_linear_add",
    "functions.gathering": "gather gather_elements gather_nd",
    "functions.generation": "fill_value_constant fill_value_sequence",
    "functions.joining": "join split",
    "functions.matrix": "gemm",
    "functions.matrix_integer": """
        matrix_multiply_integer matrix_multiply_integer_to_float quantized_linear_matrix_multiply
    """,
    "functions.nonzero": "NonzeroCoordinatesOutputs nonzero_coordinates",
    "functions.normalization": """
        batch_normalization local_response_normalization lp_normalization mean_variance_normalization value_scale_2d
    """,
    "functions.normalization_training": """
        BatchNormalizationGradOutputs BatchNormalizationTrainingOutputs batch_normalization_grad
        batch_normalization_training batch_normalization_training_grad local_response_normalization_grad
    """,
    "functions.optimizers": "AdamOptimizerOutputs adam_optimizer",
    "functions.padding": "padding tile",
    "functions.pooling": "MaxPoolingOutputs average_pooling lp_pooling max_pooling max_unpooling",
    "functions.pooling_gradients": "average_pooling_grad max_pooling_grad",
    "functions.pooling_quantized": "quantized_linear_average_pooling",
    "functions.quantization": "DynamicQuantizeLinearOutputs dequantize dynamic_quantize_linear quantize",
    "functions.random_numbers": "RandomGeneratorOutputs random_generator",
    "functions.rearrangement": "depth_to_space space_to_depth",
    "functions.recurrent": "GruOutputs LstmOutputs RnnOutputs gru lstm rnn",
    "functions.reduction": "argmax argmin reduce",
    "functions.region_gradients": "RoiAlignGradOutputs roi_align_grad",
    "functions.regions": "roi_align roi_pooling",
    "functions.resample": "resample resample_grad",
    "functions.resampling": "upsample_2d",
    "functions.reversal": "reverse_subsequences",
    "functions.scattering": "one_hot scatter_elements scatter_nd",
    "functions.selection": "TopKOutputs top_k",
    "functions.slicing": "slice slice_grad",
    "functions.sliding_blocks": "fold unfold",
    "functions.views": "expand_dims flatten reshape squeeze transpose",
    "building.graph_building": "Graph",
    "building.graph_tensor": "GraphTensor reinterpret",
    "description.graph_desc": """
        ConstantNode GraphDesc InputEdge IntermediateEdge OperatorNode OutputEdge
    """,
    "description.graph_validation": "validate_graph",
    "building.graph_program": "BoundGraph GraphProgram",
    "formats.serialized_graph.graph_file": "save",
    "formats.loading": "load",
    "formats.onnx.model": "OnnxModel",
    "formats.onnx.program": "OnnxProgram",
    "operators.catalogue": "catalogue",
    "inspection.measurements": "KernelProfile",
    "inspection.profiling": "Profile StagedProfile profile",
    "programs.program": "BoundCall Program",
    "description.rules": "Violation",
    "description.validation": "validate",
    "description.tensor": "TensorDesc",
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# Subpackages and modules that are used by their own name, and where they are.
_SUBMODULES = {
    "distributed": "opendml.compatibility.distributed",
    "fused_activation": "opendml.functions.fused_activation",
    "operators": "opendml.operators",
    "testing": "opendml.testing",
}

__all__ = sorted([*_MODULES, *_SUBMODULES])  # noqa: PLE0605


def _load_operator(operator_type: Any) -> None:
    from opendml import operators

    operators.load(operator_type)


_loading.load_operator = _load_operator


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(_SUBMODULES[name])
    if name not in _MODULES:
        raise _unknown(name)
    value = getattr(importlib.import_module(f"opendml.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def _unknown(name: str) -> AttributeError:
    from opendml.description.errors import UnknownNameError

    if name.startswith("_"):  # what Python's own machinery asks for
        return UnknownNameError(f"module 'opendml' has no attribute {name!r}")
    from opendml.functions.usual_names import explain_missing

    return UnknownNameError(explain_missing(name, __all__))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
