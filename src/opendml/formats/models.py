"""A file of any format that programs are made of, as a model that `Executor` runs: its content tells the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from opendml.description.enums import ExecutionFlags, FeatureLevel
from opendml.description.errors import ModelFormatError
from opendml.description.file_access import read_file
from opendml.description.graph_desc import GraphDesc
from opendml.description.graph_paths import graph_input_tensors, graph_output_tensors
from opendml.description.graph_validation import CONSTANTS_SINCE, validate_graph
from opendml.description.tensor import TensorDesc
from opendml.formats import dxdispatch, serialized_graph
from opendml.formats.dxdispatch.model import (
    DEFAULT_MEMORY_LIMIT,
    BindingSource,
    Dispatchable,
    DispatchCommand,
    Model,
    PrintCommand,
    Resource,
    check_memory,
    parse_resource,
)
from opendml.formats.files import Folders
from opendml.formats.json_text import Node
from opendml.formats.onnx.choices import OnnxChoices
from opendml.formats.recognition import first_bytes, format_of, onnx_format
from opendml.formats.serialized_graph.flat_buffers import MAXIMUM_SIZE
from opendml.formats.serialized_graph.reading import read_operators
from opendml.programs.device import Device

__all__ = ["model_of_graph", "read_model"]

NO_CHOICES: Final = OnnxChoices()


def read_model(
    path: Path,
    *,
    input_path: Path | None = None,
    output_path: Path | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    in_part: bool = False,
    onnx: OnnxChoices = NO_CHOICES,
    feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4,
) -> Model:
    """Read a DxDispatch model, or a serialised graph or ONNX model alone (`model_of_graph`), whatever the file's name.

    ``onnx``: how ONNX models are compiled, as for ``OnnxModel.compile``; ``feature_level`` is where the
    operators that express it are taken from. Other arguments and errors as for `dxdispatch.read`.
    """
    head = first_bytes(path)
    if (known := onnx_format(head)) is not None:
        folders = Folders(path.parent if input_path is None else input_path, output_path or Path())
        device = Device(feature_level=feature_level)

        def describe() -> GraphDesc:
            model = known.read(path)
            return model.describe(device, **onnx.arguments(model))

        return _onnx_model(describe, path, folders, memory_limit, in_part)
    if not _is_graph(path, format_of(head)):
        return dxdispatch.read(
            path,
            input_path=input_path,
            output_path=output_path,
            memory_limit=memory_limit,
            in_part=in_part,
            onnx=onnx,
            feature_level=feature_level,
        )
    folders = Folders(path.parent if input_path is None else input_path, output_path or Path())
    try:
        return model_of_graph(serialized_graph.read(path), path.stem, folders, memory_limit=memory_limit)
    except ModelFormatError as error:
        if not in_part:
            raise
        return _graph_in_part(path, error)


def _onnx_model(
    describe: Callable[[], GraphDesc], path: Path, folders: Folders, memory_limit: int, in_part: bool
) -> Model:
    """The model of an ONNX file's graph; in part, nothing but the reasons why it has none."""
    try:
        graph = describe()
    except ModelFormatError as error:
        if not in_part:
            raise
        return Model({}, {}, (), (), unreadable=error.problems)
    if in_part:
        return _judged(graph, path.stem, folders, memory_limit)
    if any(tensor is not None and tensor.is_owned_by_dml for tensor in graph_input_tensors(graph)):
        raise ModelFormatError(
            "", f"the weights of an ONNX model are nodes of its graph from {CONSTANTS_SINCE} on only"
        )
    return model_of_graph(graph, path.stem, folders, memory_limit=memory_limit)


def _judged(graph: GraphDesc, name: str, folders: Folders, memory_limit: int) -> Model:
    """A model to be judged, not run: weights that are inputs of the graph have no values."""
    owned = {
        graph.input_name(i): tensor
        for i, tensor in enumerate(graph_input_tensors(graph))
        if tensor is not None and tensor.is_owned_by_dml
    }
    resources = {one: _graph_resource(one, tensor, None) for one, tensor in owned.items()}
    bindings = {one: (BindingSource(one, one),) for one in owned}
    dispatchable = Dispatchable(name, "", "", graph, True, ExecutionFlags.NONE, bindings)
    return Model(resources, {name: dispatchable}, (), (), memory_limit)


def _is_graph(path: Path, name: str) -> bool:
    """Whether a file is a serialised graph: by its content, or ``*.bin`` where that tells nothing."""
    return name == "serialized_graph" or (path.suffix.lower() == ".bin" and name != "dxdispatch")


def model_of_graph(graph: GraphDesc, name: str, folders: Folders, *, memory_limit: int = DEFAULT_MEMORY_LIMIT) -> Model:
    """A model that runs a graph once and prints its outputs.

    An input is read from the NumPy file of its name in the folder of inputs, ``x.npy``; without one it is all zeros. An
    invalid graph gives a model that can be checked, not run.
    """
    dispatchable = Dispatchable(name, "", "", graph, True, ExecutionFlags.NONE, {})
    if validate_graph(graph):
        return Model({}, {name: dispatchable}, (), (), memory_limit)
    tensors = {graph.input_name(i): tensor for i, tensor in enumerate(graph_input_tensors(graph)) if tensor is not None}
    outputs = {graph.output_name(i): tensor for i, tensor in enumerate(graph_output_tensors(graph))}
    resources = {
        tensor_name: _graph_resource(tensor_name, tensor, folders if tensor_name in tensors else None)
        for tensor_name, tensor in (tensors | outputs).items()
    }
    check_memory(resources.values(), memory_limit)
    bindings = {tensor_name: (BindingSource(tensor_name, tensor_name),) for tensor_name in resources}
    dispatch = DispatchCommand("", name, bindings)
    prints = [PrintCommand("", tensor_name, False) for tensor_name in outputs]
    parameters = [{"type": "dispatch", "dispatchable": name}, *({"type": "print", "resource": o} for o in outputs)]
    return Model(resources, {name: dispatchable}, (dispatch, *prints), tuple(parameters), memory_limit)


def _graph_resource(name: str, tensor: TensorDesc, folders: Folders | None) -> Resource:
    """The buffer of an input, with the values of its file if there are folders and the file exists, or of an output."""
    members: dict[str, Any] = {
        "initialValuesDataType": tensor.data_type.name,
        "initialValues": {"valueCount": max(1, tensor.element_span), "value": 0},
        "sizeInBytes": tensor.total_size_in_bytes,
    }
    file_name = f"{name}.npy"
    if folders is not None and "/" not in file_name and os.path.isfile(folders.input / file_name):  # noqa: PTH113
        members["initialValues"] = {"sourcePath": file_name}
    return parse_resource(name, Node(members, name), folders or Folders(Path(), Path()))


def _graph_in_part(path: Path, error: ModelFormatError) -> Model:
    """A graph that cannot be read as a model of the operators that can, each by itself."""
    try:
        operators, problems = read_operators(read_file(path, MAXIMUM_SIZE))
    except (OSError, ModelFormatError):
        raise error from None
    dispatchables = {
        place: Dispatchable(place, place, f"{place}.desc", operator, False, ExecutionFlags.NONE, {})
        for place, operator in operators
    }
    return Model({}, dispatchables, (), (), unreadable=tuple(problems) or error.problems)
