"""opendml: DirectML's operators on every machine.

``import opendml as dml``, then describe an operator as DirectML does, ``dml.operators.Slice1(...)`` with
``dml.TensorDesc(...)``, and learn what is wrong with it, ``dml.validate(desc, "3_0")``, or run it. ``dml.catalogue``
knows what every operator takes and supports.

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
    "operator_catalogue": "catalogue",
    "program": "BoundCall Program",
    "rules": "Violation validate",
    "tensor": "TensorDesc",
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = sorted([*_MODULES, "operators"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "operators":
        return importlib.import_module("opendml.operators")
    if name not in _MODULES:
        raise AttributeError(f"module 'opendml' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"opendml.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
