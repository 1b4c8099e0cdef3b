"""Graphs evaluated node by node, each operator with a program of its own: what a compiled graph has to equal."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorFlags
from opendml.description.fields import TensorArrayField, TensorField
from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.graph_paths import (
    GraphInput,
    NodeInput,
    NodeOutput,
    Source,
    graph_input_tensors,
    graph_output_tensors,
    sources,
    topological_order,
)
from opendml.description.tensor import TensorDesc
from opendml.expression.interpreter import run_interpreted
from opendml.programs.binding import Binding
from opendml.programs.device import compile_operator
from opendml.programs.program import Program

Array = np.ndarray[Any, Any]
Memory = np.ndarray[Any, np.dtype[np.uint8]]


def evaluate_graph(graph: GraphDesc, inputs: Sequence[Memory | None], interpreted: bool = False) -> list[Memory]:
    """The bytes of each output of a valid graph, for the bytes of each input (None for those that nobody reads).

    Every node is compiled and run by itself, or ``interpreted``; tensors are bytes in between, seen by each operator
    as its descriptor says. What no operator writes is 0.
    """
    memory: dict[Source, Memory] = {GraphInput(i): given for i, given in enumerate(inputs) if given is not None}
    connected = sources(graph)
    for index in topological_order(graph):
        node = graph.nodes[index]
        if not isinstance(node, OperatorNode):
            memory[NodeOutput(index, 0)] = _padded(np.frombuffer(node.data, np.uint8))
            continue
        operator = _never_owned(node.operator)
        arrays = [
            None if desc is None else seen_as(memory[connected[NodeInput(index, number)]], desc)
            for number, (_, desc) in enumerate(operator.inputs())
        ]
        run = _interpret if interpreted else _run
        for number, ((_, desc), result) in enumerate(zip(operator.outputs(), run(operator, arrays), strict=True)):
            if desc is not None:
                written = memory[NodeOutput(index, number)] = np.zeros(desc.total_size_in_bytes, np.uint8)
                seen_as(written, desc)[...] = result
    outputs = {
        e.graph_output_index: NodeOutput(e.from_node_index, e.from_node_output_index) for e in graph.output_edges
    }
    return [memory[outputs[number]] for number in range(graph.output_count)]


def seen_as(memory: Memory, desc: TensorDesc) -> Array:
    """Bytes as a tensor; those of 4-bit types as they are."""
    desc = desc.in_memory
    dtype = desc.data_type.dtype
    strides = tuple(stride * dtype.itemsize for stride in desc.effective_strides)
    return np.ndarray(desc.sizes, dtype, memory, 0, strides)


class ReferenceProgram:
    """What a compiled graph offers, done node by node."""

    def __init__(self, graph: GraphDesc) -> None:
        self.graph = graph
        self.inputs = [Binding(graph.input_name(i), desc) for i, desc in enumerate(graph_input_tensors(graph))]
        self.outputs = [Binding(graph.output_name(i), desc) for i, desc in enumerate(graph_output_tensors(graph))]
        self.owned: list[Memory | None] = [None] * len(self.inputs)

    def initialize(self, arrays: Sequence[Array | None]) -> None:
        self.owned = self._memories(arrays)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> Any:
        def call() -> None:
            given = [
                owned if owned is not None else memory
                for owned, memory in zip(self.owned, self._memories(inputs), strict=True)
            ]
            for binding, array, result in zip(self.outputs, outputs, evaluate_graph(self.graph, given), strict=True):
                assert binding.desc is not None
                if array.shape == binding.desc.sizes:
                    array[...] = seen_as(result, binding.desc)
                else:
                    array.view(np.uint8)[: result.size] = result

        return call

    def _memories(self, arrays: Sequence[Array | None]) -> list[Memory | None]:
        pairs = zip(self.inputs, arrays, strict=True)
        return [None if a is None or b.desc is None else memory_of(a, b.desc) for b, a in pairs]


def memory_of(array: Array, desc: TensorDesc) -> Memory:
    """The bytes of a tensor with the values of an array, or of the flat buffer that the array is."""
    memory = np.zeros(desc.total_size_in_bytes, np.uint8)
    if array.shape == desc.sizes:
        seen_as(memory, desc)[...] = array
    else:
        flat = np.ascontiguousarray(array).view(np.uint8)
        memory[: flat.size] = flat[: memory.size]
    return memory


def _padded(data: Memory) -> Memory:
    memory = np.zeros(-(-data.size // 4) * 4, np.uint8)
    memory[: data.size] = data
    return memory


def _never_owned(operator: Operator) -> Operator:
    """The operator with no input OWNED_BY_DML, so that it can run by itself."""

    def plain(desc: TensorDesc | None) -> TensorDesc | None:
        if desc is None or not desc.is_owned_by_dml:
            return desc
        return desc.replace(flags=TensorFlags.NONE, total_size_in_bytes=desc.total_size_in_bytes)

    changes: dict[str, Any] = {}
    for name, field in operator.fields.items():
        if isinstance(field, TensorField) and field.direction == "input":
            changes[name] = plain(getattr(operator, name))
        elif isinstance(field, TensorArrayField) and field.direction == "input":
            changes[name] = tuple(map(plain, getattr(operator, name)))
    return operator.replace(**changes) if changes else operator


@functools.lru_cache(maxsize=256)
def _program(operator: Operator) -> Program:
    return compile_operator(operator, thread_count=1)


def _run(operator: Operator, arrays: Sequence[Array | None]) -> list[Array | None]:
    program = _program(operator)
    outputs = [
        None if b.desc is None else np.zeros(b.desc.element_span, b.desc.data_type.dtype) for b in program.outputs
    ]
    program.bind(arrays, outputs)()
    return [
        None if array is None or binding.desc is None else seen_as(array.view(np.uint8), binding.desc)
        for binding, array in zip(program.outputs, outputs, strict=True)
    ]


def _interpret(operator: Operator, arrays: Sequence[Array | None]) -> list[Any]:
    definition = operator.define()
    inputs = [
        None if a is None or t is None else a.reshape(t.sizes) for a, t in zip(arrays, definition.inputs, strict=True)
    ]
    results = run_interpreted(definition, inputs)
    pairs = zip(operator.outputs(), results, strict=True)
    return [None if array is None or desc is None else array.reshape(desc.sizes) for (_, desc), array in pairs]
