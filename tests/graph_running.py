"""Graphs as a user assembles them, run in every way: compiled between guard pages, and as joined and fused statements
by the interpreter. ``check_graph`` holds all of them against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from execution import assert_same_values, guarded_buffer, guarded_memory, random_values
from graph_reference import memory_of, seen_as

import opendml as dml
from opendml.building.graph_assembly import GraphAssembly
from opendml.description.graph_desc import ConstantNode
from opendml.description.graph_paths import graph_input_tensors, graph_output_tensors
from opendml.expression.interpreter import NUMPY_TYPES, interpret, logical_view
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition
from opendml.graph.compilation import GraphDefinitions, divide_and_fuse
from opendml.graph.joining import JoinedGraph, join
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import CpuTarget

Array = np.ndarray[Any, Any]


def input_buffers(assembly: GraphAssembly, seed: int) -> list[Array | None]:
    """The bytes of each input of a graph: random values, or the constant that it is; None where nobody reads it."""
    generator = np.random.default_rng(seed)
    buffers: list[Array | None] = []
    for number, desc in enumerate(graph_input_tensors(assembly.desc)):
        if number in assembly.interface.kept:
            buffers.append(np.frombuffer(assembly.interface.kept[number].data, np.uint8))
        elif desc is None:
            buffers.append(None)
        else:
            given = assembly.interface.inputs[number][1].in_memory
            buffers.append(memory_of(random_values(given.data_type, given.element_span, generator), given))
    return buffers


def run_compiled(
    assembly: GraphAssembly, device: dml.Device, buffers: Sequence[Array | None], apart: bool, fusion: bool = True
) -> list[Array]:
    """The outputs of a compiled graph, which is run twice, all its memory between guard pages; temporaries side by side
    or, with ``apart``, each between pages of its own."""
    with guarded_memory(apart):
        return _run_compiled(assembly, device, buffers, fusion)


def _run_compiled(
    assembly: GraphAssembly, device: dml.Device, buffers: Sequence[Array | None], fusion: bool
) -> list[Array]:
    program = device.compile_graph(assembly.desc, fusion=fusion)
    arrays = [
        None
        if buffer is None or binding.desc is None
        else guarded(buffer, binding.desc.data_type.dtype, number % 2 == 0)
        for number, (buffer, binding) in enumerate(zip(buffers, program.inputs, strict=True))
    ]
    program.initialize([array if owned else None for array, owned in zip(arrays, program.owned, strict=True)])
    descs = [desc.in_memory for desc in graph_output_tensors(assembly.desc)]
    outputs = [guarded_buffer(d.element_span, d.data_type.dtype, number % 2 == 0) for number, d in enumerate(descs)]
    call = program.bind([None if owned else array for array, owned in zip(arrays, program.owned, strict=True)], outputs)
    results = []
    for _ in range(2):
        call()
        results.append(
            [seen_as(output.copy().view(np.uint8), desc) for output, desc in zip(outputs, descs, strict=True)]
        )
    for first, second in zip(*results, strict=True):
        assert_same_values(second, first)
    return results[0]


def guarded(buffer: Array, dtype: np.dtype[Any], at_end: bool) -> Array:
    """A copy of bytes between guard pages."""
    copied = guarded_buffer(buffer.size // dtype.itemsize, dtype, at_end)
    copied.view(np.uint8)[:] = buffer[: copied.nbytes]
    return copied


# Without compiling ---------------------------------------------------------------------------------------------------


def write_text(parts: GraphDefinitions, target: CpuTarget) -> list[str]:
    """The modules of all parts of a graph as LLVM's text."""
    definitions = [definition for definition in (parts.initialisation, parts.execution) if definition is not None]
    return [module for part in definitions for module in generate(part, target, in_place=False).modules]


def interpreted(
    assembly: GraphAssembly, joined: JoinedGraph, parts: GraphDefinitions, buffers: Sequence[Array | None]
) -> list[Array]:
    """The outputs of a joined graph, all statements of which are interpreted."""
    memory: dict[Tensor, Array] = {}
    for tensor, buffer in zip(joined.inputs, buffers, strict=True):
        if tensor is not None and buffer is not None:
            memory[tensor] = _memory(tensor, buffer)
    for tensor, number in joined.constants.items():
        node = assembly.desc.nodes[number]
        assert isinstance(node, ConstantNode)
        memory[tensor] = _memory(tensor, np.frombuffer(node.data, np.uint8))
    for part in (parts.initialisation, parts.execution):
        if part is not None:
            _interpret(part, memory)
    return [logical_view(tensor, memory[tensor]) for tensor in joined.outputs]


def _interpret(part: Definition, memory: dict[Tensor, Array]) -> None:
    made = {tensor: _memory(tensor) for tensor in (*part.temporaries, *part.outputs) if tensor is not None}
    memory |= made
    interpret(replace(part, temporaries=()), memory)


def _memory(tensor: Tensor, content: Array | None = None) -> Array:
    """The buffer of a tensor, with whole elements of every type in it, so that it may be viewed as any."""
    size = -(-tensor.extent * tensor.type.bits // 64) * 8
    buffer = np.zeros(size, np.uint8)
    if content is not None:
        buffer[: min(size, content.size)] = content[:size]
    return buffer.view(NUMPY_TYPES[tensor.type.name])


def check_graph(
    assembly: GraphAssembly,
    target: CpuTarget,
    seed: int = 0,
    *,
    interpret: bool = True,
    device: dml.Device | None = None,
) -> None:
    """The text of a graph can be written, fused or not; ``interpret``: its statements mean the same fused and not;
    ``device``: compiled on it, they give the same bits."""
    plain, joined = join(assembly.desc), join(assembly.desc, refining(target))
    fused, alone = (divide_and_fuse(joined, fusion=fusion, costs=target.costs) for fusion in (True, False))
    write_text(fused, target)
    if not interpret and device is None:
        return
    buffers = input_buffers(assembly, seed)
    expected = interpreted(assembly, plain, divide_and_fuse(plain, fusion=False), buffers)
    results = [interpreted(assembly, joined, fused, buffers)]
    if device is not None:
        write_text(alone, target)
        results += (run_compiled(assembly, device, buffers, False, fusion) for fusion in (True, False))
    for result in results:
        for actual, wanted in zip(result, expected, strict=True):
            assert_same_values(np.asarray(actual), np.asarray(wanted))
