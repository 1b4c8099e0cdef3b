"""Compiled graphs: one native function for all nodes, and what is made once for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.definition import DATA_TYPE_OF
from opendml.errors import BindingError
from opendml.expression.ir import Tensor
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import JoinedGraph, join
from opendml.graph_desc import GraphDesc, graph_input_tensors, graph_output_tensors
from opendml.program import Binding, BoundCall, Program, aligned_empty, compile_definition, copied
from opendml.tensor import TensorDesc

if TYPE_CHECKING:
    from opendml.runtime.host import HostTarget

Array = npt.NDArray[Any]


class BindingProperties(NamedTuple):
    """``DML_BINDING_PROPERTIES``: what a dispatchable needs beside its tensors, sizes in bytes."""

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


class CompiledGraph:
    """A graph compiled for this machine.

    ``inputs`` and ``outputs`` are the graph's own, in order. Inputs OWNED_BY_DML are given to ``initialize`` once and
    are None at every run; a graph without any is ready as it is. Arrays are as for ``Program``. May be called from
    several threads at once.

    Raises BindingError where arrays do not fit, or where the graph is run before it is initialised.
    """

    def __init__(
        self,
        graph: GraphDesc,
        joined: JoinedGraph,
        execution: Program,
        initialisation: Program | None,
        persistent: Sequence[Tensor],
        sources: Sequence[Tensor],
        fusion: bool,
    ) -> None:
        inputs = graph_input_tensors(graph)
        self.inputs = tuple(Binding(graph.input_name(i), desc) for i, desc in enumerate(inputs))
        outputs = graph_output_tensors(graph)
        self.outputs = tuple(Binding(graph.output_name(i), desc) for i, desc in enumerate(outputs))
        self.desc = graph
        self.fusion = fusion
        self.owned = tuple(joined.owned)
        self.execution = execution
        self._initialisation = initialisation
        self._persistent = tuple(persistent)
        self._sources = tuple(sources)
        self._constants = joined.constants
        self._reach: dict[Tensor, int] = {}
        for view, root in joined.views.items():
            self._reach[root] = max(self._reach.get(root, 0), view.extent * view.type.bits // 8)
        self._owned_tensors = {t: i for i, t in enumerate(joined.inputs) if t is not None and joined.owned[i]}
        self._kept: list[Array] | None = None
        if not any(self.owned):
            self.initialize([None] * len(self.inputs))

    @property
    def thread_count(self) -> int:
        """Threads of a run."""
        return self.execution.thread_count

    @property
    def from_cache(self) -> bool:
        """Whether the code came from the disk cache."""
        return self.execution.from_cache

    @property
    def binding_properties(self) -> BindingProperties:
        """The memory that the graph needs: for one run, and kept as long as the graph is."""
        persistent = sum(-(-t.extent * t.type.bits // 8 // 4) * 4 for t in self._persistent)
        count = len(self.inputs) + len(self.outputs)
        return BindingProperties(count, self.execution.temporary_size, persistent)

    def initialize(self, arrays: Sequence[Any]) -> None:
        """Take the inputs OWNED_BY_DML (None for all others), copy them, and compute what depends on them only."""
        if len(arrays) != len(self.inputs):
            raise BindingError(f"expected {len(self.inputs)} inputs to initialize with, got {len(arrays)}")
        known: dict[Tensor, Array] = {}
        for tensor, i in self._owned_tensors.items():
            name, desc = self.inputs[i].name, self.inputs[i].desc
            if arrays[i] is None or desc is None:
                raise BindingError(f"{name}: is OWNED_BY_DML, so an array is needed to initialize with")
            known[tensor] = copied(self.inputs[i], arrays[i])
        for i, (array, is_owned) in enumerate(zip(arrays, self.owned, strict=True)):
            if array is not None and not is_owned:
                raise BindingError(f"{self.inputs[i].name}: is not OWNED_BY_DML, so it is bound when the graph runs")
        for tensor, data in self._constants.items():
            known[tensor] = _constant(tensor, data)
        computed = [t for t in self._persistent if t not in known]
        for tensor in computed:
            known[tensor] = _buffer(tensor, self._reach.get(tensor, 0))
        if self._initialisation is not None:
            self._initialisation.bind([known[t] for t in self._sources], [known[t] for t in computed])()
        self._kept = [known[t] for t in self._persistent]

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> BoundCall:
        """Check arrays and fix their addresses; the result is called without arguments, again and again."""
        if self._kept is None:
            names = ", ".join(b.name for b, is_owned in zip(self.inputs, self.owned, strict=True) if is_owned)
            raise BindingError(f"the graph must be initialized with {names} first")
        if len(inputs) != len(self.inputs):
            raise BindingError(f"expected {len(self.inputs)} inputs, got {len(inputs)}")
        for binding, is_owned, array in zip(self.inputs, self.owned, inputs, strict=True):
            if is_owned and array is not None:
                raise BindingError(f"{binding.name}: is OWNED_BY_DML, so it was bound when the graph was initialized")
        return self.execution.bind([*inputs, *self._kept], outputs)

    def __call__(self, *arrays: Any, out: Sequence[Any] | Array | None = None) -> Any:
        """Run on ``arrays`` and return the outputs: one array, or a tuple of them."""
        outputs = self.execution.new_outputs() if out is None else [out] if isinstance(out, np.ndarray) else list(out)
        self.bind(arrays, outputs)()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def compile_graph(graph: GraphDesc, *, host: HostTarget, thread_count: int, fusion: bool = True) -> CompiledGraph:
    """Native code for a valid graph. Without ``fusion`` every node's statements stay as they are."""
    joined = join(graph)
    parts = divide_and_fuse(joined, fusion=fusion)
    inputs = [
        Binding(graph.input_name(i), None if is_owned else desc)
        for i, (is_owned, desc) in enumerate(zip(joined.owned, graph_input_tensors(graph), strict=True))
    ]
    outputs = [Binding(graph.output_name(i), desc) for i, desc in enumerate(graph_output_tensors(graph))]
    execution = compile_definition(
        parts.execution,
        inputs=[*inputs, *map(_binding, parts.persistent)],
        outputs=outputs,
        in_place=False,
        host=host,
        thread_count=thread_count,
    )
    initialisation = None
    if parts.initialisation is not None:
        computed = [t for t in parts.initialisation.outputs if t is not None]
        initialisation = compile_definition(
            parts.initialisation,
            inputs=list(map(_binding, parts.sources)),
            outputs=list(map(_binding, computed)),
            in_place=False,
            host=host,
            thread_count=thread_count,
        )
    return CompiledGraph(graph, joined, execution, initialisation, parts.persistent, parts.sources, fusion)


def _binding(tensor: Tensor) -> Binding:
    """A tensor of the program's own, bound as the flat buffer that it is."""
    return Binding(tensor.name, TensorDesc(DATA_TYPE_OF[tensor.type.name], [tensor.extent]))


def _buffer(tensor: Tensor, reach: int = 0) -> Array:
    """Memory for a tensor, and for views of it that reach so many bytes."""
    dtype = DATA_TYPE_OF[tensor.type.name].dtype
    count = max(tensor.extent, -(-reach // dtype.itemsize))
    return aligned_empty(count * dtype.itemsize).view(dtype)


def _constant(tensor: Tensor, data: bytes) -> Array:
    buffer = _buffer(tensor)
    buffer[...] = np.frombuffer(data, buffer.dtype, tensor.extent)
    return buffer
