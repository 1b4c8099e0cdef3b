"""ONNX models in a DxDispatch model: one graph for each set of sizes that dispatches bind, and deferred resources.

Everything is known before anything runs: a dispatch says the sizes of what it binds (``shape``), the dispatchable those
of dimensions (``freeDimensionNameOverrides``, ``freeDimensionDenotationOverrides``), the command line either, which
comes first. Dimensions of which nothing is said are 1, as DxDispatch has it. What is deferred is as large as the output
that it takes; tensors that a dispatch does not bind have buffers of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opendml.description.enums import FeatureLevel
from opendml.description.errors import ModelFormatError
from opendml.description.graph_desc import GraphDesc
from opendml.description.graph_paths import graph_input_tensors, graph_output_tensors
from opendml.description.tensor import TensorDesc
from opendml.formats.files import Folders
from opendml.formats.json_text import Node
from opendml.formats.onnx.choices import ALL_LEVELS, OnnxChoices, fuses_quantization

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["OnnxDispatchables"]

Sizes = dict[str, tuple[int, ...]]
_MEMBERS: Final = (
    *("type", "Type", "sourcePath", "freeDimensionNameOverrides", "freeDimensionDenotationOverrides"),
    *("sessionOptionsConfigEntries", "graphOptimizationLevel", "loggingLevel"),
)


class OnnxDispatchables:
    """The graphs of a model's ONNX dispatchables, by dispatchable and sizes.

    ``names``: the dispatchables. ``graphs``: a graph by the name under which dispatches of these sizes find it.
    ``implicit``: the buffers of tensors that are not bound, by names of their own.
    """

    def __init__(self, root: Node, folders: Folders, choices: OnnxChoices, feature_level: FeatureLevel | str) -> None:
        self.graphs: dict[str, GraphDesc] = {}
        self.implicit: dict[str, Node] = {}
        self._choices, self._level = choices, feature_level
        self._deferred: dict[str, TensorDesc] = {}
        found = _members(root, "dispatchables")
        self.names = {name for name, node in found.items() if _is_onnx(node)}
        if not self.names:
            return
        for name in self.names:
            found[name].members(known=_MEMBERS)
        paths = {name: folders.source(found[name].member("sourcePath")) for name in self.names}
        for command in root.member("commands").elements():
            if _text(command, "dispatchable") in self.names:
                name = command.member("dispatchable").text()
                self._take(name, found[name], paths[name], command)

    def name_of(self, command: Node) -> str:
        """The name under which the graph of a dispatch is found."""
        name = command.member("dispatchable").text()
        sizes = ", ".join(f"{one}=[{'x'.join(map(str, shape))}]" for one, shape in self._shapes(command).items())
        return f"{name} ({sizes})" if name in self.names and sizes else name

    def bindings_of(self, command: Node) -> dict[str, str]:
        """The buffers of the tensors that a dispatch does not bind."""
        graph = self.graphs.get(self.name_of(command))
        bound = _bindings(command)
        return (
            {} if graph is None else {one: self._implicit(command, one) for one in _tensors(graph) if one not in bound}
        )

    def _implicit(self, command: Node, tensor: str) -> str:
        return f"{self.name_of(command)}, {tensor}"

    def _shapes(self, command: Node) -> Sizes:
        """The sizes of what a dispatch binds; those of the command line come first."""
        given = {name: size for name, size in self._choices.sizes.items() if not isinstance(size, int)}
        bound = {name: tuple(given[name]) for name in _bindings(command) if name in given}
        return {**_shapes(command), **bound}

    def resource(self, name: str, node: Node) -> Node:
        """A resource; one that is deferred with as many zeros as the output has that it takes."""
        if not isinstance(node.value, dict) or node.value.get("initialValues") != "deferred":
            return node
        if name not in self._deferred:
            node.member("initialValues").fail("it is deferred, but no output of an ONNX dispatchable is bound to it")
        tensor = self._deferred[name]
        return Node({**node.value, **_zero_values(tensor)}, node.path)

    def _take(self, name: str, node: Node, path: Path, command: Node) -> None:
        """The graph for the sizes of a dispatch, and what they say of deferred resources."""
        own = self.name_of(command)
        if own not in self.graphs:
            self.graphs[own] = self._graph(node, path, command)
        graph = self.graphs[own]
        for free in self.bindings_of(command):
            self.implicit[self._implicit(command, free)] = Node(_zero_values(_tensors(graph)[free]), command.path)
        tensors = {graph.output_name(i): tensor for i, tensor in enumerate(graph_output_tensors(graph))}
        shapes = self._shapes(command)
        for output, tensor in tensors.items():
            if output in shapes and math.prod(shapes[output]) != tensor.element_count:
                message = f"the model gives {list(tensor.sizes)}, not {list(shapes[output])}"
                command.member("bindings").member(output).fail(message)
            resource = _resource_of(command, output)
            have = self._deferred.get(resource)
            if resource and (have is None or have.element_count < tensor.element_count):
                self._deferred[resource] = tensor

    def _graph(self, node: Node, path: Path, command: Node) -> GraphDesc:
        from opendml.formats import onnx
        from opendml.formats.recognition import first_bytes, onnx_format
        from opendml.programs.device import Device

        try:
            model = (onnx_format(first_bytes(path)) or onnx).read(path)
            graph = model.describe(Device(feature_level=self._level), **self._arguments(model, node, command))
        except ModelFormatError as error:
            node.member("sourcePath").fail(str(error))
        if any(tensor is not None and tensor.is_owned_by_dml for tensor in graph_input_tensors(graph)):
            node.fail("the weights of an ONNX model are nodes of its graph from feature level 6_2 on only")
        return graph

    def _arguments(self, model: OnnxModel, node: Node, command: Node) -> dict[str, Any]:
        """The arguments of ``OnnxModel.describe`` for a dispatch."""
        given = self._choices
        inputs = {info.name for info in model.inputs}
        own = OnnxChoices(
            {**_overrides(node, "freeDimensionNameOverrides"), **given.sizes},
            {**_overrides(node, "freeDimensionDenotationOverrides"), **given.denotations},
            {name: value for name, value in given.values.items() if name in inputs},
            given.narrow_float64,
            given.fuse_quantization and _fuses(node),
        )
        dimensions = {size for info in model.inputs for size in info.sizes or () if isinstance(size, str)}
        shapes = {name: list(shape) for name, shape in self._shapes(command).items() if name in inputs}
        sizes = own.sizes_for(model) | shapes
        sizes = {name: size for name, size in sizes.items() if name in (*inputs, *dimensions)}
        return own.arguments(model) | {"sizes": _ones(model, sizes) | sizes}


def _ones(model: OnnxModel, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What nothing is said of is 1: whole inputs, where dimensions have no name."""
    found: dict[str, Any] = {}
    for info in model.inputs:
        if info.sizes is not None and None in info.sizes and info.name not in sizes:
            found[info.name] = [
                1 if one is None else sizes.get(one, 1) if isinstance(one, str) else one for one in info.sizes
            ]
        found |= {one: 1 for one in info.sizes or () if isinstance(one, str)}
    return found


def _fuses(node: Node) -> bool:
    """Whether a dispatchable's members leave quantised nodes to be fused, as ONNX Runtime has it."""
    level, entries = node.optional("graphOptimizationLevel"), node.optional("sessionOptionsConfigEntries")
    texts = {} if entries is None else {name: one.text() for name, one in entries.members().items()}
    return fuses_quantization(ALL_LEVELS if level is None else level.unsigned(32), texts)


def _tensors(graph: GraphDesc) -> dict[str, TensorDesc]:
    """The inputs and outputs of a graph by name."""
    inputs = {graph.input_name(i): tensor for i, tensor in enumerate(graph_input_tensors(graph)) if tensor is not None}
    return inputs | {graph.output_name(i): tensor for i, tensor in enumerate(graph_output_tensors(graph))}


def _zero_values(tensor: TensorDesc) -> dict[str, Any]:
    return {
        "initialValuesDataType": tensor.data_type.name,
        "initialValues": {"valueCount": tensor.element_count, "value": 0},
    }


def _members(root: Node, name: str) -> dict[str, Node]:
    node = root.optional(name)
    return node.members() if node is not None and isinstance(node.value, dict) else {}


def _is_onnx(node: Node) -> bool:
    return any(_text(node, name).lower() == "onnx" for name in ("type", "Type"))


def _text(node: Node, name: str) -> str:
    found = node.value.get(name) if isinstance(node.value, dict) else None
    return found if isinstance(found, str) else ""


def _overrides(node: Node, member: str) -> dict[str, int]:
    given = node.optional(member)
    return {} if given is None else {name: size.unsigned(32, minimum=1) for name, size in given.members().items()}


def _bindings(command: Node) -> dict[str, Node]:
    node = command.optional("bindings")
    return node.members() if node is not None and isinstance(node.value, dict) else {}


def _shapes(command: Node) -> Sizes:
    """The sizes that a dispatch gives to what it binds."""
    return {
        name: tuple(size.unsigned(32, minimum=1) for size in node.member("shape").elements())
        for name, node in _bindings(command).items()
        if isinstance(node.value, dict) and "shape" in node
    }


def _resource_of(command: Node, output: str) -> str:
    node = _bindings(command).get(output)
    value: Any = None if node is None else node.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0] if value else None
    return value if isinstance(value, str) else str(value.get("name", "")) if isinstance(value, dict) else ""
