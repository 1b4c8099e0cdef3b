"""Compiled graphs: one native function for all nodes, and what is made once for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import BindingError, OutOfMemoryError
from opendml.description.quoting import plural
from opendml.description.tensor import TensorDesc
from opendml.operators.element_types import DATA_TYPE_OF
from opendml.programs.binding import Binding, bind_all, copied, flat_memory, signature_text
from opendml.programs.compilation import program_of
from opendml.programs.graph_outline import GraphOutline, outline_of
from opendml.programs.graph_plan import (
    GraphPlan,
    KeptTensor,
    StoredProgram,
    graph_key,
    plan_of,
    store_plan,
    stored_objects,
    stored_plan,
)
from opendml.programs.program import BoundCall, Program
from opendml.targets.host_memory import aligned_empty, aligned_parts, can_stay, let_go
from opendml.targets.interface import runner_of
from opendml.targets.registry import find_target
from opendml.targets.target import NOTHING_NEEDED

# What compiles is imported where it does: a graph whose code is in the disk cache needs nothing of it.
if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.expression.statements import Definition
    from opendml.programs.device_tensor import DeviceTensor
    from opendml.targets.interface import Buffer, Runner
    from opendml.targets.target import Progress, Target

Array = npt.NDArray[Any]


class BindingProperties(NamedTuple):
    """``DML_BINDING_PROPERTIES``: what a dispatchable needs beside its tensors, sizes in bytes."""

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


class _Kept(NamedTuple):
    """The tensors that an initialized program keeps, and the ``_identity`` of the program."""

    identity: tuple[Any, ...]
    arrays: tuple[Array, ...]


class CompiledGraph:
    """A graph compiled for this machine.

    ``inputs`` and ``outputs`` are the graph's own, in order. Inputs OWNED_BY_DML are given to ``initialize`` once and
    are None at every run; a graph without any is ready as it is. Arrays are as for ``Program``. ``key`` names the
    program in the disk cache, if it may be there. May be called from several threads at once.

    Raises BindingError where arrays do not fit, or where the graph is run before it is initialised.
    """

    def __init__(
        self, outline: GraphOutline, plan: GraphPlan, execution: Program, initialisation: Program | None, fusion: bool
    ) -> None:
        self.inputs = outline.inputs
        self.outputs = outline.outputs
        self.fusion = fusion
        self.execution_flags = ExecutionFlags.NONE
        self.owned = tuple(b.desc is not None and b.desc.is_owned_by_dml for b in self.inputs)
        self.key: bytes | None = None
        self._outline = outline
        self.execution = execution
        self._initialisation = initialisation
        self._plan = plan
        self._kept: Sequence[Buffer] | None = None
        if not any(self.owned):
            self.initialize([None] * len(self.inputs))

    @property
    def desc(self) -> GraphDesc:
        """The graph."""
        return self._outline.describe()

    @property
    def bounds(self) -> Mapping[int, float]:
        """What no number of some inputs OWNED_BY_DML exceeds, by the numbers of these: it was compiled for that."""
        return self._plan.bounds

    @property
    def kept_constants(self) -> dict[int, bytes | memoryview]:
        """The contents of those constants that are kept, by the numbers of their nodes."""
        numbers = [tensor.number for tensor in self._plan.kept if tensor.origin == "constant"]
        return {number: self._outline.constants[number] for number in numbers}

    def __repr__(self) -> str:
        nodes = len(self.desc.nodes)
        state = "" if self._kept is not None else f", to be initialized with {', '.join(self._owned_names())}"
        signature = signature_text(self.inputs, self.outputs)
        return f"<CompiledGraph of {plural(nodes, 'node')} {signature}{state}>"

    def _repr_html_(self) -> str:
        return self.desc._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, as the graph that it was compiled from, which is compiled (or read from the disk cache)
        again, with what it keeps if it was initialized with inputs OWNED_BY_DML."""
        kept = None
        if self._kept is not None and any(self.owned):
            kept = _Kept(self._identity(), tuple(bound.array for bound in self._kept))
        target = self.execution.target
        device = None if target is None else (target.name, target.tuning)
        return _rebuilt, (self.desc, device, self.thread_count, self.fusion, kept, self.execution_flags, self.bounds)

    def _identity(self) -> tuple[Any, ...]:
        """What must be the same for memory that another program has kept: the graph, the target, whatever its knobs
        follow from, and the tensors."""
        target = self.execution.target
        facts = None if target is None else repr((target.name, target.machine, target.tuning))
        return graph_key(self.desc, None, self.fusion, self.bounds), facts, self._plan.kept, self._plan.persistent

    def restore(self, kept: _Kept) -> None:
        """Take what a program for the same graph kept when it was pickled. BindingError where that is no use here."""
        tensors = [self._plan.kept[n] for n in self._plan.persistent]
        if kept.identity != self._identity() or len(kept.arrays) != len(tensors):
            raise BindingError(
                "the program was initialized by another version of this package or for another processor, which keeps"
                " other tensors: pickle it before it is initialized, or initialize it anew"
            )
        arrays = []
        for tensor, array in zip(tensors, kept.arrays, strict=True):
            memory = aligned_empty(array.nbytes).view(DATA_TYPE_OF[tensor.type].dtype)
            memory[...] = array
            arrays.append(memory)
        self._kept = self.execution.bound_last(arrays)

    def _owned_names(self) -> list[str]:
        return [b.name for b, is_owned in zip(self.inputs, self.owned, strict=True) if is_owned]

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
        """The memory that the graph needs: for one run, and kept as long as the graph is.

        Temporary tensors share one piece of memory. It is hardly ever larger than what is alive at one time, which no
        plan for the same kernels in the same order can do without: ``least_temporary_size``. Some kernels need memory
        for each thread beside that.
        """
        persistent = sum(-(-self._plan.kept[n].size // 4) * 4 for n in self._plan.persistent)
        count = len(self.inputs) + len(self.outputs)
        return BindingProperties(count, self.execution.temporary_size, persistent)

    @property
    def least_temporary_size(self) -> int:
        """Bytes of the temporary tensors that are alive at one time, at most."""
        return self.execution.least_temporary_size

    def initialize(self, arrays: Sequence[Any]) -> None:
        """Take the inputs OWNED_BY_DML (None for all others), copy those that runs read, and compute what depends on
        them only."""
        if len(arrays) != len(self.inputs):
            raise BindingError(f"expected {len(self.inputs)} inputs to initialize with, got {len(arrays)}")
        for binding, array, is_owned in zip(self.inputs, arrays, self.owned, strict=True):
            if is_owned and array is None:
                raise BindingError(f"{binding.name}: is OWNED_BY_DML, so an array is needed to initialize with")
            if array is not None and not is_owned:
                raise BindingError(f"{binding.name}: is not OWNED_BY_DML, so it is bound when the graph runs")
        plan = self._plan
        computed = dict(zip(plan.computed, aligned_parts([_size_of(plan.kept[n]) for n in plan.computed]), strict=True))
        kept = [self._kept_array(n, tensor, arrays, computed.get(n)) for n, tensor in enumerate(plan.kept)]
        if self._initialisation is not None:
            self._initialisation.bind([kept[n] for n in plan.sources], [kept[n] for n in plan.computed])()
            for n in plan.sources:
                let_go(kept[n])
        self._kept = self.execution.bound_last([kept[n] for n in plan.persistent])

    def _kept_array(self, position: int, tensor: KeptTensor, arrays: Sequence[Any], computed: Array | None) -> Array:
        """What an input or a constant holds, copied if it is kept longer than this call and others may change it; the
        memory of what is ``computed``. Large tensors of files stay there: a table of which few rows are read is not
        read as a whole."""
        is_kept = position in self._plan.persistent
        if tensor.origin == "input":
            binding, array = self.inputs[tensor.number], arrays[tensor.number]
            is_copied = is_kept and not can_stay(array)
            memory = (copied if is_copied else flat_memory)(binding, array, self.execution.target)
            if tensor.number in self.bounds:
                numbers = memory.view(DATA_TYPE_OF[tensor.type].dtype)
                _check_bound(binding.name, numbers, self.bounds[tensor.number])
            if isinstance(array, np.ndarray) and not np.may_share_memory(memory, array):
                let_go(array)
            return memory
        if computed is not None:
            return computed.view(DATA_TYPE_OF[tensor.type].dtype)
        content = self._outline.constants[tensor.number]
        data = np.frombuffer(content, DATA_TYPE_OF[tensor.type].dtype, tensor.extent)
        if not is_kept or can_stay(data):
            return data  # which nobody changes
        buffer = aligned_empty(data.nbytes).view(data.dtype)
        buffer[...] = data
        return buffer

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> BoundCall:
        """Check arrays and fix their addresses; the result is called without arguments, again and again."""
        if self._kept is None:
            raise BindingError(f"the graph must be initialized with {', '.join(self._owned_names())} first")
        if len(inputs) != len(self.inputs):
            raise BindingError(f"expected {len(self.inputs)} inputs, got {len(inputs)}")
        for binding, is_owned, array in zip(self.inputs, self.owned, inputs, strict=True):
            if is_owned and array is not None:
                raise BindingError(f"{binding.name}: is OWNED_BY_DML, so it was bound when the graph was initialized")
        return self.execution.bind(inputs, outputs, self._kept)

    def runner(self, constants: Mapping[int, Array], positions: Sequence[int]) -> Runner:
        """A function that runs on arrays without the checks of a call: of the inputs at ``positions``, then of all
        outputs. ``constants``: other inputs, by position, which are checked now.

        For callers who know that each array is aligned, lies in memory as its tensor's descriptor says, and that no
        output overlaps anything. Of a graph that is initialised; it goes on with what that was initialised with.
        """
        assert self._kept is not None
        target, given = self.execution.target, [constants.get(n) for n in range(len(self.inputs))]
        fixed = [
            None if a is None else bind_all([b], [a], "input", target)[0]
            for b, a in zip(self.inputs, given, strict=True)
        ]
        return runner_of(self.execution.executable, [*fixed, *self._kept], positions, len(self.outputs))

    def __call__(self, *arrays: Any, out: Sequence[Any] | Array | DeviceTensor | None = None) -> Any:
        """Run on ``arrays`` and return the outputs: one array, or a tuple of them."""
        outputs = self.execution.outputs_for(arrays, out)
        self.bind(arrays, outputs).run_last()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def compile_graph(
    graph: GraphDesc,
    *,
    target: Target,
    thread_count: int,
    fusion: bool = True,
    progress: Progress | None = None,
    memory_limit: int | None = None,
    bounds: Mapping[int, float] | None = None,
) -> CompiledGraph:
    """Native code for a valid graph. Without ``fusion`` every node's statements stay as they are. ``bounds``: powers of
    two that no number of inputs OWNED_BY_DML exceeds, whatever its sign, by the numbers of the inputs.

    A graph that differs in nothing but names from one that was compiled before comes from the disk cache. ``progress``
    is told which part of the work is done. Raises OutOfMemoryError if the graph needs more than ``memory_limit`` bytes.
    """
    known = bounds or {}
    key = graph_key(graph, target, fusion, known)
    plan = stored_plan(key)
    objects = None if plan is None else stored_objects(plan.execution, plan.initialisation)
    from_cache = objects is not None
    if plan is None or objects is None:
        plan, objects, from_cache = _compiled(graph, target, fusion, progress, known)
        store_plan(key, plan)
    parts = _Parts(plan, objects, from_cache)
    program = _loaded(outline_of(graph), parts, target=target, thread_count=thread_count, fusion=fusion)
    program.key = key
    if memory_limit is not None:
        _check_memory(plan, program.execution, program._initialisation, memory_limit)
    return program


def stored_graph(outline: GraphOutline, key: bytes, *, target: Target, thread_count: int) -> CompiledGraph | None:
    """The program whose ``key`` was this, if the disk cache still has it, for the outline of its graph."""
    plan = stored_plan(key)
    objects = None if plan is None else stored_objects(plan.execution, plan.initialisation)
    if plan is None or objects is None:
        return None
    program = _loaded(outline, _Parts(plan, objects, True), target=target, thread_count=thread_count, fusion=True)
    program.key = key
    return program


class _Parts(NamedTuple):
    """What a program is loaded from: object files by their keys, and whether all of these came from the cache."""

    plan: GraphPlan
    objects: Mapping[bytes, bytes]
    from_cache: bool


def _loaded(outline: GraphOutline, parts: _Parts, *, target: Target, thread_count: int, fusion: bool) -> CompiledGraph:
    plan = parts.plan

    def program(part: StoredProgram, inputs: Sequence[Binding], outputs: Sequence[Binding]) -> Program:
        return program_of(
            [parts.objects[key] for key in part.keys],
            part.requirements,
            inputs=inputs,
            outputs=outputs,
            in_place=False,
            target=target,
            thread_count=thread_count,
            from_cache=parts.from_cache,
        )

    execution = program(plan.execution, *_execution_bindings(outline, plan))
    initialisation = None
    if plan.initialisation is not None:
        initialisation = program(plan.initialisation, *_initialisation_bindings(plan))
    return CompiledGraph(outline, plan, execution, initialisation, fusion)


def interpret_graph(
    graph: GraphDesc, memory_limit: int | None = None, bounds: Mapping[int, float] | None = None
) -> CompiledGraph:
    """A program that interprets the operators of a valid graph one after another. ``memory_limit`` and ``bounds`` as
    for ``compile_graph``."""
    from opendml.graph.compilation import divide_and_fuse
    from opendml.graph.joining import join
    from opendml.programs.interpreted import InterpretedExecutable

    joined = join(graph)
    parts = divide_and_fuse(joined, fusion=False)
    nothing = StoredProgram(NOTHING_NEEDED, ())
    plan = plan_of(joined, parts, nothing, None if parts.initialisation is None else nothing, bounds or {})

    def program(definition: Definition, inputs: Sequence[Binding], outputs: Sequence[Binding]) -> Program:
        return Program(InterpretedExecutable(definition), inputs=inputs, outputs=outputs, in_place=False)

    outline = outline_of(graph)
    execution = program(parts.execution, *_execution_bindings(outline, plan))
    initialisation = None
    if parts.initialisation is not None:
        initialisation = program(parts.initialisation, *_initialisation_bindings(plan))
    if memory_limit is not None:
        _check_memory(plan, execution, initialisation, memory_limit)
    return CompiledGraph(outline, plan, execution, initialisation, fusion=False)


def _execution_bindings(outline: GraphOutline, plan: GraphPlan) -> tuple[list[Binding], list[Binding]]:
    """What a run reads, the graph's inputs and then what is kept, and what it writes."""
    inputs = [Binding(b.name, None) if b.desc is not None and b.desc.is_owned_by_dml else b for b in outline.inputs]
    kept = [_binding(n, plan.kept[n]) for n in plan.persistent]
    return [*inputs, *kept], list(outline.outputs)


def _initialisation_bindings(plan: GraphPlan) -> tuple[list[Binding], list[Binding]]:
    """What the initialisation reads and writes."""
    sources, computed = ([_binding(n, plan.kept[n]) for n in part] for part in (plan.sources, plan.computed))
    return sources, computed


def _rebuilt(
    graph: GraphDesc,
    device: tuple[str, Any] | None,
    thread_count: int,
    fusion: bool,
    kept: _Kept | None,
    flags: ExecutionFlags,
    bounds: Mapping[int, float],
) -> CompiledGraph:
    """What an unpickled program is: compiled again, for this machine. ``device``: its target's name and tuning, None
    for one that was interpreted."""
    if device is None:
        program = interpret_graph(graph, bounds=bounds)
    else:
        target = find_target(*device)
        program = compile_graph(graph, target=target, thread_count=thread_count, fusion=fusion, bounds=bounds)
    program.execution_flags = flags
    if kept is not None:
        program.restore(kept)
    return program


def _check_bound(name: str, numbers: Array, bound: float) -> None:
    """Raise BindingError where a number is larger than all were said to be when the graph was compiled."""
    most = max(numbers.max().item(), numbers.min().item(), key=abs)
    if not abs(most) <= bound:
        raise BindingError(f"{name}: has the number {most}; the graph was compiled for none beyond {bound:g}")


def _check_memory(plan: GraphPlan, execution: Program, initialisation: Program | None, limit: int) -> None:
    kept = sum(tensor.size for tensor in plan.kept)
    temporary = max(program.temporary_size for program in (execution, initialisation) if program is not None)
    if kept + temporary > limit:
        reason = f"{temporary} bytes for temporary tensors and {kept} for constants and what is made of them"
        raise OutOfMemoryError(f"the graph needs {reason}; the limit is {limit} bytes")


def _compiled(
    graph: GraphDesc, target: Target, fusion: bool, progress: Progress | None, bounds: Mapping[int, float]
) -> tuple[GraphPlan, dict[bytes, bytes], bool]:
    """A plan, its object files by their keys, and whether all of these came from the cache."""
    from opendml.graph.compilation import divide_and_fuse
    from opendml.graph.joining import join

    joined = join(target.lay_out(graph), target.refine, bounds)
    parts = divide_and_fuse(joined, fusion=fusion, costs=target.costs)
    definitions = [d for d in (parts.execution, parts.initialisation) if d is not None]
    built = target.build(definitions, progress)
    keys = {module: target.object_key(module) for module in built.objects}
    stored = [StoredProgram(code.requirements, tuple(keys[module] for module in code.modules)) for code in built.codes]
    plan = plan_of(joined, parts, stored[0], stored[1] if len(stored) > 1 else None, bounds)
    return plan, {keys[module]: data for module, data in built.objects.items()}, built.from_cache


def _binding(number: int, tensor: KeptTensor) -> Binding:
    """A tensor of the program's own, bound as the flat buffer that it is."""
    return Binding(f"kept tensor {number}", TensorDesc(DATA_TYPE_OF[tensor.type], [tensor.extent]))


def _size_of(tensor: KeptTensor) -> int:
    """The bytes of a tensor that is computed, and of views of it that reach further."""
    unit = DATA_TYPE_OF[tensor.type].dtype.itemsize
    return max(tensor.extent, -(-tensor.reach // unit)) * unit
