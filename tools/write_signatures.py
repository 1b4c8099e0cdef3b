"""Write ``src/opendml/functions/typed.pyi``: the functions as type checkers see them.

    python tools/write_signatures.py

Each function's source has one signature. Here it becomes overloads: a graph tensor in any place of a tensor gives graph
tensors, arrays alone give arrays.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import opendml

TARGET = Path(__file__).parent.parent / "src" / "opendml" / "functions" / "typed.pyi"

HEAD = '''"""The functions' signatures for type checkers; tools/write_signatures.py writes this file."""

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from opendml.building.graph_building import Graph
from opendml.building.graph_tensor import GraphTensor
from opendml.description.descriptors import Operator
from opendml.description.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
    TensorDataType,
)
from opendml.description.structs import ScalarUnion, ScaleBias, Size2D
from opendml.functions.attention import MultiheadAttentionOutputs
from opendml.functions.nonzero import NonzeroCoordinatesOutputs
from opendml.functions.normalization_training import BatchNormalizationGradOutputs, BatchNormalizationTrainingOutputs
from opendml.functions.optimizers import AdamOptimizerOutputs
from opendml.functions.pooling import MaxPoolingOutputs
from opendml.functions.quantization import DynamicQuantizeLinearOutputs
from opendml.functions.random_numbers import RandomGeneratorOutputs
from opendml.functions.recurrent import GruOutputs, LstmOutputs, RnnOutputs
from opendml.functions.region_gradients import RoiAlignGradOutputs
from opendml.functions.selection import TopKOutputs
from opendml.programs.device import Device

class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...

Array = npt.NDArray[Any]
ArrayOperand = Array | np.generic | float | Sequence[Any] | Buffer | SupportsDLPack
Operand = GraphTensor | ArrayOperand
Factors = ScaleBias | tuple[float, float] | None

'''

MODULES = sorted({module for module in opendml._MODULES.values() if module.startswith("functions.")})


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions by name."""
    for name, module in sorted(opendml._MODULES.items()):
        if module in MODULES:
            value = getattr(importlib.import_module(f"opendml.{module}"), name)
            if inspect.isfunction(value):
                yield name, value


def text() -> str:
    """The file."""
    return HEAD + "".join(line for name, function in functions() for line in _overloads(name, function))


def _overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    tensors = [i for i, parameter in enumerate(parameters) if "Operand" in parameter.annotation]
    result = str(signature.return_annotation)
    for graph_at in tensors:
        yield _signature(name, parameters, graph_at, _of(result, "GraphTensor"), "Device | Graph | None")
    if any("Graph" in parameter.annotation for parameter in parameters) or not _is_required(parameters, tensors):
        yield _signature(name, parameters, None, _of(result, "GraphTensor"), "Graph")
    yield _signature(name, parameters, None, _of(result, "Array"), "Device | None")


def _is_required(parameters: list[inspect.Parameter], tensors: list[int]) -> bool:
    return any(parameters[i].default is inspect.Parameter.empty for i in tensors)


def _of(result: str, tensor: str) -> str:
    if result.endswith("Outputs[Any]"):
        return result.replace("[Any]", f"[{tensor}]")
    return result.replace("Array", tensor)


def _signature(name: str, parameters: list[inspect.Parameter], graph_at: int | None, result: str, device: str) -> str:
    """One overload; ``graph_at`` is the first place that has a graph tensor."""
    parts = []
    for i, parameter in enumerate(parameters):
        annotation, default = str(parameter.annotation), "" if parameter.default is parameter.empty else " = ..."
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if "Operand" in annotation:
            if i == graph_at:
                annotation = "Sequence[GraphTensor]" if annotation.startswith("Sequence") else "GraphTensor"
                default = ""
            elif graph_at is None or i < graph_at:
                annotation = annotation.replace("Operand", "ArrayOperand")
                default = "" if graph_at is not None else default
        if parameter.name == "device":
            annotation, default = device, default if "None" in device else ""
        parts.append(f"{parameter.name}: {annotation}{default}")
    return f"@overload\ndef {name}({', '.join(parts)}) -> {result}: ...\n"


if __name__ == "__main__":
    TARGET.write_text(text())
