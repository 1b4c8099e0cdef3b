"""Compiled operators: native code, and the tensors that have to be bound to it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import BindingError, NotPicklableError, OutOfMemoryError
from opendml.description.foreign_types import instead_of
from opendml.description.quoting import cut, quoted
from opendml.description.tensor import TensorDesc
from opendml.expression.ir import Definition

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.llvm.native import LoadedObject
    from opendml.targets.cpu.code.interface import Requirements
    from opendml.targets.cpu.code.program_code import ProgramCode
    from opendml.targets.cpu.runtime.thread_team import ThreadTeam
    from opendml.targets.cpu.target import CpuTarget

Array = npt.NDArray[Any]
Whole = TypeVar("Whole")

TENSORS_SHOWN: Final = 4
"""Tensors that one line names, at most."""

PAIRS: Final = 256
"""Pairs of arrays from which on only those are compared whose memory is near: sorting them costs something too."""

OVERLAP_WORK: Final = 10_000
"""Candidates tried to tell whether two interleaving arrays share an element."""

_CALL_WORDS: Final = 8
"""What a team is called with: four words of ours, and the control block of the dispatch."""

ALIGNMENT: Final = 64
"""Bytes to which buffers made here are aligned: a cache line, and the widest vector."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A tensor that a program takes: its field in DirectML's spelling (``InputTensors[1]``) and its descriptor."""

    name: str
    desc: TensorDesc | None


def signature_text(inputs: Sequence[Binding], outputs: Sequence[Binding]) -> str:
    """``(ATensor float32 [2, 3]) -> (OutputTensor float32 [2, 3])``; absent tensors are left out, many cut short."""
    return " -> ".join(f"({_bindings_text(bindings)})" for bindings in (inputs, outputs))


def _bindings_text(bindings: Sequence[Binding]) -> str:
    present = [(b.name, b.desc) for b in bindings if b.desc is not None]
    texts = [f"{name} {desc.data_type.name.lower()} {list(desc.sizes)}" for name, desc in present[:TENSORS_SHOWN]]
    return ", ".join([*texts, f"{len(present) - TENSORS_SHOWN} more"] if len(present) > TENSORS_SHOWN else texts)


def shallow_copy(value: Whole) -> Whole:
    """An object of the same class with the same attributes, whatever ``copy.copy`` would do."""
    other = object.__new__(type(value))
    other.__dict__.update(value.__dict__)
    return other


class Program:
    """An operator compiled for this machine; call it with arrays, or bind arrays once and call that often.

    ``program(x, ...)`` allocates the outputs and returns them: one array, or a tuple. ``program(x, out=[y])`` writes
    into given arrays. Inputs and outputs are in DirectML's order, None for optional tensors that the descriptor does
    not have. An array whose type, sizes and strides are those of the descriptor is used in place; so is a flat one
    that holds the descriptor's buffer. Other inputs of the right sizes are copied first. Anything with DLPack or the
    buffer protocol will do for an array. A program may be called from several threads at once. ``desc``: its operator,
    None for a part of a graph; ``execution_flags``: those that it was compiled with.

    Raises BindingError where the number, type, sizes or memory of arrays do not fit.
    """

    def __init__(
        self,
        requirements: Requirements,
        loaded: LoadedObject,
        entry: int,
        *,
        inputs: Sequence[Binding],
        outputs: Sequence[Binding],
        in_place: bool,
        thread_count: int,
        from_cache: bool,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.in_place = in_place
        self.thread_count = thread_count if requirements.parallel else 1
        self.from_cache = from_cache
        self._loaded = loaded
        self._entry = entry
        self.least_temporary_size = requirements.least_temporary_size
        self._shared_size = requirements.temporary_size
        self._scratch_size = requirements.scratch_size
        self.desc: Operator | None = None
        self.execution_flags = ExecutionFlags.NONE
        self.records: Array | None = None
        self.target: CpuTarget | None = None
        self._team = _team_of(self.thread_count)
        self._spare: list[WorkingMemory] = []  # of a call that is over, for the next one
        self._output_places = tuple(None if b.desc is None else _place_of(b.desc) for b in self.outputs)

    def __repr__(self) -> str:
        name = "a part of a graph" if self.desc is None else self.desc.type.name
        threads = f"{self.thread_count} thread{'s' * (self.thread_count != 1)}"
        return f"<Program {name} {signature_text(self.inputs, self.outputs)}, {threads}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, as what it was compiled from: it is compiled, or read from the disk cache, again."""
        from opendml.programs.device import compile_operator

        if self.desc is None:
            raise NotPicklableError("this program is only a part of a graph: pickle or copy the graph's")
        return compile_operator, (
            self.desc,
            self.thread_count,
            self.execution_flags,
            self.target and self.target.tuning,
        )

    @property
    def temporary_size(self) -> int:
        """Bytes of memory that a run needs beside its tensors: what its threads share, and what each needs alone."""
        return self._shared_size + self._scratch_size * self.thread_count

    def with_thread_count(self, thread_count: int) -> Program:
        """The same program run by another number of threads; the results are the same."""
        other = shallow_copy(self)
        other.thread_count = thread_count
        other._team = _team_of(thread_count)
        other._spare = []
        return other

    def __call__(self, *arrays: Any, out: Sequence[Any] | Array | None = None) -> Any:
        """Run on ``arrays`` and return the outputs: one array, or a tuple of them."""
        outputs = self.new_outputs() if out is None else [out] if isinstance(out, np.ndarray) else several(out, "out")
        self.bind(arrays, outputs).run_last()
        results = tuple(array for array in outputs if array is not None)
        return results[0] if len(results) == 1 else results

    def run_unchecked(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        """Run on arrays and return new outputs, None for absent ones, without the checks of a call.

        For callers that have made the descriptors from these very arrays: each must be aligned and have the type,
        sizes and strides of its descriptor, None where there is none. New outputs overlap nothing.
        """
        outputs = [None if place is None else _new_array(place) for place in self._output_places]
        addresses = [_address(array) for array in (*arrays, *outputs) if array is not None]
        memory = self._memory()
        if memory is not None:
            addresses.append(memory.address)
        table = self._table(addresses)
        self._team.call_function(ctypes.addressof(table))
        self._keep_for_later(memory)
        return outputs

    def plain_dispatch(self) -> tuple[int, int, int, int] | None:
        """What a dispatch takes beside the addresses of its tensors: the team's function and handle, the entry, and the
        number of threads. None where it takes more than that. All are alive as long as the program is."""
        if self.temporary_size or self.records is not None:
            return None
        return self._team.call_address, self._team.handle, self._entry, self.thread_count

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any], last_inputs: Sequence[BoundTensor] = ()) -> BoundCall:
        """Check arrays and fix their addresses; the result is called without arguments, again and again.

        Bound inputs are read anew at every call, as far as they are used in place. The arrays must not be resized
        meanwhile; a bound call may run in one thread at a time. ``last_inputs`` come from ``bound_last``.
        """
        bound_inputs, bound_outputs = self._bound(inputs, outputs, last_inputs)
        buffers = [b for b in (*bound_inputs, *last_inputs, *bound_outputs) if b is not None]
        addresses = [buffer.address for buffer in buffers]
        memory = self._memory()
        addresses += [memory.address] if memory is not None else []
        addresses += [_address(self.records)] if self.records is not None else []
        table = self._table(addresses)
        run = _Dispatch(self._team, ctypes.addressof(table))
        refreshed = [b for b in buffers if b.refresh is not None]
        return BoundCall(run, (self, table, self.records, *buffers), refreshed, memory, self._keep_for_later)

    def _bound(
        self, inputs: Sequence[Any], outputs: Sequence[Any], last_inputs: Sequence[BoundTensor]
    ) -> tuple[list[BoundTensor | None], list[BoundTensor | None]]:
        """The arrays of inputs, without the last ones, and of outputs, checked."""
        bound_inputs = _bind_all(self.inputs[: len(self.inputs) - len(last_inputs)], inputs, "input")
        bound_outputs = _bind_all(self.outputs, outputs, "output")
        self._check_overlap(bound_inputs, bound_outputs)
        return bound_inputs, bound_outputs

    def bound_last(self, arrays: Sequence[Array]) -> list[BoundTensor]:
        """The last inputs, checked once for any number of calls: memory that nobody else writes to."""
        bound = _bind_all(self.inputs[len(self.inputs) - len(arrays) :], arrays, "input")
        return [tensor for tensor in bound if tensor is not None]

    def _table(self, addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
        """What the team is called with: itself, the entry, its arguments and the threads; then the arguments."""
        table = (ctypes.c_void_p * (_CALL_WORDS + len(addresses)))()
        arguments = ctypes.addressof(table) + _CALL_WORDS * ctypes.sizeof(ctypes.c_void_p)
        table[:4] = [self._team.handle, self._entry, arguments, self.thread_count]
        table[_CALL_WORDS:] = list(addresses)
        return table

    def new_outputs(self) -> list[Array | None]:
        """New arrays for all outputs, None for absent ones."""
        return [None if binding.desc is None else empty(binding.desc) for binding in self.outputs]

    def _memory(self) -> WorkingMemory | None:
        """Memory for temporaries and threads: that of a call that is over, since new pages are slow."""
        try:
            return self._spare.pop()
        except IndexError:
            return WorkingMemory.of(self.temporary_size) if self.temporary_size else None

    def _keep_for_later(self, memory: WorkingMemory | None) -> None:
        """The memory of a call that is over is for the next one."""
        if memory is not None and not self._spare:
            self._spare.append(memory)

    def _check_overlap(self, inputs: Sequence[BoundTensor | None], outputs: Sequence[BoundTensor | None]) -> None:
        near = _near(inputs, outputs) if len(outputs) * (len(inputs) + len(outputs)) > PAIRS else None
        for number, written in enumerate(outputs):
            if written is None:
                continue
            for other in [*inputs, *outputs[:number]] if near is None else near[number]:
                if other is None or not _overlap(written.array, other.array):
                    continue
                if self.in_place and other in inputs and _same_memory(written, other):
                    continue
                reason = "does not work in place"
                if self.in_place:
                    reason = "works in place only on exactly the same elements"
                raise BindingError(f"{written.name} overlaps the memory of {other.name}, and the operator {reason}")


class WorkingMemory(NamedTuple):
    """What a run needs beside its tensors, and where it is."""

    array: Array
    address: int

    @classmethod
    def of(cls, size: int) -> WorkingMemory:
        """So many bytes of new memory."""
        array = aligned_empty(size)
        return cls(array, _address(array))


@dataclass(slots=True)
class _Dispatch:
    """Calls a team on its table."""

    team: ThreadTeam
    table: int

    def __call__(self) -> None:
        self.team.call_function(self.table)

    def quicker(self) -> Callable[[], object]:
        """The same for those who call often: making it takes as long as some calls."""
        from opendml.targets.cpu.runtime.array_calls import bound_call

        return bound_call(self.team, self.table) or self


class BoundCall:
    """Arrays bound to a program; call it to run. Keeps the arrays and the program alive."""

    __slots__ = ("_keep", "_memory", "_refreshed", "_return_memory", "_run")

    def __init__(
        self,
        run: Callable[[], object],
        keep: tuple[object, ...],
        refreshed: Sequence[BoundTensor],
        memory: WorkingMemory | None,
        return_memory: Callable[[WorkingMemory | None], None],
    ) -> None:
        self._run = run
        self._keep = keep
        self._refreshed = tuple(refreshed)
        self._memory = memory
        self._return_memory = return_memory

    def __repr__(self) -> str:
        return f"<BoundCall of {self._keep[0]!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotPicklableError("a bound call holds arrays of this process: pickle or copy the program, and bind anew")

    def __call__(self) -> None:
        """Run once."""
        if self._refreshed:
            self._refresh()
        run = self._run
        run()
        if type(run) is _Dispatch:
            self._run = run.quicker()

    def _refresh(self) -> None:
        for bound in self._refreshed:
            assert bound.refresh is not None
            bound.refresh()

    def run_last(self) -> None:
        """Run for the last time: the memory for temporaries goes to a later call of the same program."""
        self._refresh()
        self._run()
        memory, self._memory = self._memory, None
        self._run = _is_over
        self._return_memory(memory)


def _is_over() -> None:
    raise BindingError("the call was told that it ran for the last time")


@dataclass(slots=True, eq=False)
class BoundTensor:
    """An array at its place; ``refresh`` copies anew what could not be used in place."""

    name: str
    desc: TensorDesc
    array: Array
    refresh: Callable[[], None] | None = None
    address: int = field(init=False)

    def __post_init__(self) -> None:
        self.address = _address(self.array)


class _Place(NamedTuple):
    """What a new array is made of; sizes in elements, strides and the size of the buffer in bytes."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    buffer_size: int


def _place_of(desc: TensorDesc) -> _Place:
    dtype = desc.data_type.dtype
    strides = None if desc.strides is None else tuple(stride * dtype.itemsize for stride in desc.strides)
    return _Place(dtype, desc.sizes, strides, desc.element_span * dtype.itemsize)


def _new_array(place: _Place) -> Array:
    buffer, start = _aligned_memory(place.buffer_size)
    return np.ndarray(place.sizes, place.dtype, buffer, start, place.strides)


def empty(desc: TensorDesc) -> Array:
    """A new array with the type, sizes and strides of a descriptor, aligned to a cache line; its content is random."""
    return _new_array(_place_of(desc))


def aligned_empty(size: int) -> npt.NDArray[np.uint8]:
    """``size`` bytes of memory, aligned to ``ALIGNMENT``."""
    buffer, start = _aligned_memory(size)
    return buffer[start : start + size]


def _aligned_memory(size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Memory with room for ``size`` bytes from the aligned offset that is given with it."""
    try:
        buffer = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(f"there is no memory for a tensor of {size} bytes") from error
    return buffer, -_address(buffer) % ALIGNMENT


def as_array(value: Any, name: str) -> Array:
    """``value`` as a NumPy array over the same memory: an array, or anything with DLPack or the buffer protocol."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(_buffer_of(value, name))
    except BindingError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: there is no memory to see the tensor as a NumPy array") from error
    except Exception as error:  # These are protocols: foreign code runs, and raises what it likes.
        reason = quoted(str(error))[1:-1]
        instead = _instead_of_type(value)
        if instead:
            raise BindingError(f"{name}: {instead}") from error
        raise BindingError(f"{name}: the tensor is not accessible as a NumPy array: {reason}") from error


def _instead_of_type(value: Any) -> str:
    """What is to be said of the type of a foreign tensor's elements, such as torch.bfloat16."""
    try:
        return instead_of(str(value.dtype).rpartition(".")[2])
    except Exception:  # whatever a foreign object raises
        return ""


def _buffer_of(value: Any, name: str) -> memoryview:
    try:
        return memoryview(value)
    except TypeError:
        kind = type(value).__name__
        expected = "an array, or an object with DLPack or the buffer protocol"
        raise BindingError(f"{name}: expected {expected}, got {cut(kind)}") from None


def several(values: Any, what: str) -> list[Any]:
    """What should be a sequence of arrays as a list; ``what`` they are called in the message if it is none."""
    try:
        if not isinstance(values, (str, bytes, Mapping)):
            return list(values)
    except Exception as error:  # whatever a foreign object raises when it is gone through
        raise BindingError(f"{what}: expected a sequence of arrays, got {type(values).__name__}") from error
    raise BindingError(f"{what}: expected a sequence of arrays, got {type(values).__name__}")


def _bind_all(bindings: Sequence[Binding], values: Sequence[Any], role: str) -> list[BoundTensor | None]:
    values = values if isinstance(values, (list, tuple)) else several(values, f"{role}s")
    if len(values) != len(bindings):
        names = ", ".join(binding.name for binding in bindings) or "none"
        raise BindingError(f"expected {len(bindings)} {role}s ({names}), got {len(values)}")
    return [_bind(binding, value, role) for binding, value in zip(bindings, values, strict=True)]


def _bind(binding: Binding, value: Any, role: str) -> BoundTensor | None:
    name, desc = binding.name, binding.desc
    if desc is None:
        if value is not None:
            raise BindingError(f"{name}: the descriptor does not have this tensor, so None is expected")
        return None
    if value is None:
        raise BindingError(f"{name}: an array is needed")
    array = as_array(value, name)
    if array.dtype != desc.data_type.dtype:
        raise BindingError(f"{name}: expected elements of {desc.data_type.dtype}, got {array.dtype}")
    if role == "output" and not array.flags.writeable:
        raise BindingError(f"{name}: the array is read-only")
    if _fits(array, desc) and array.flags.aligned:
        return BoundTensor(name, desc, array)
    if _is_flat_buffer(array, desc):
        if array.size < desc.element_span:
            raise BindingError(f"{name}: a buffer of {desc.element_span} elements is needed, got {array.size}")
        if array.flags.aligned:
            return BoundTensor(name, desc, array)
    elif array.shape != desc.sizes:
        raise BindingError(f"{name}: expected sizes {list(desc.sizes)}, got {list(array.shape)}")
    if role == "output":
        wanted = [s * array.itemsize for s in desc.effective_strides]
        raise BindingError(f"{name}: expected aligned memory with strides of {wanted} bytes, got {list(array.strides)}")
    return _copied(name, desc, array)


def _copied(name: str, desc: TensorDesc, array: Array) -> BoundTensor:
    """A copy laid out as the descriptor wants it."""
    place = empty(desc)
    if array.shape == desc.sizes:
        source, target = array, _without_repetition(place)
        source = array[tuple(slice(0, n) for n in target.shape)]
    else:
        place = aligned_empty(desc.element_span * array.itemsize).view(array.dtype)
        source, target = array[: place.size], place

    def refresh() -> None:
        target[...] = source

    return BoundTensor(name, desc, place, refresh)


def copied(binding: Binding, value: Any) -> Array:
    """A copy of the memory of an array that fits a binding, as the flat buffer that its descriptor describes."""
    bound = _bind(binding, value, "input")
    assert bound is not None
    if bound.refresh is not None:
        bound.refresh()
    itemsize, span = bound.array.itemsize, bound.desc.element_span
    buffer = aligned_empty(span * itemsize).view(bound.array.dtype)
    buffer[...] = np.lib.stride_tricks.as_strided(bound.array, (span,), (itemsize,))
    return buffer


def _without_repetition(array: Array) -> Array:
    """One element of each dimension along which the same memory is repeated (stride 0)."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _is_flat_buffer(array: Array, desc: TensorDesc) -> bool:
    return array.ndim == 1 and (len(desc.sizes) > 1 or array.shape != desc.sizes) and array.flags.c_contiguous


def _fits(array: Array, desc: TensorDesc) -> bool:
    if array.shape != desc.sizes:
        return False
    if desc.strides is None and array.flags.c_contiguous:
        return True
    itemsize = array.itemsize
    return all(
        n == 1 or have == want * itemsize
        for n, have, want in zip(desc.sizes, array.strides, desc.effective_strides, strict=True)
    )


def _address(array: Array) -> int:
    if array.flags.carray and array.size:  # The quickest way there is.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    address: int = array.__array_interface__["data"][0]
    return address


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    # Arrays that interleave without sharing an element are told apart as long as that is quick; else they overlap.
    try:
        return np.shares_memory(a, b, max_work=cast(Any, OVERLAP_WORK))
    except np.exceptions.TooHardError:
        return True


def _near(inputs: Sequence[BoundTensor | None], outputs: Sequence[BoundTensor | None]) -> list[list[BoundTensor]]:
    """For each output the inputs, and the outputs before it, whose first to last bytes have some in common with its."""
    bound = [(*_bounds(b.array), number, b) for number, b in enumerate((*inputs, *outputs)) if b is not None]
    found: list[list[tuple[int, BoundTensor]]] = [[] for _ in outputs]
    read: list[tuple[int, int, BoundTensor]] = []  # what has begun before: its end, its number
    written: list[tuple[int, int, BoundTensor]] = []
    for start, end, number, tensor in sorted(bound, key=lambda place: place[:3]):
        written = [other for other in written if other[0] > start]
        if number < len(inputs):
            for _, output, _ in written:
                found[output - len(inputs)].append((number, tensor))
            read.append((end, number, tensor))
            continue
        read = [other for other in read if other[0] > start]
        found[number - len(inputs)] += [(other[1], other[2]) for other in read]
        for _, output, other in written:
            first, last = sorted(((output, other), (number, tensor)), key=lambda pair: pair[0])
            found[last[0] - len(inputs)].append(first)
        written.append((end, number, tensor))
    return [[tensor for _, tensor in sorted(others, key=lambda pair: pair[0])] for others in found]


def _bounds(array: Array) -> tuple[int, int]:
    """The address of the first byte of an array, and that behind its last one."""
    start: int = array.__array_interface__["data"][0]
    if not array.size:
        return start, start
    reaches = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(min(r, 0) for r in reaches), start + sum(max(r, 0) for r in reaches) + array.itemsize


def _same_memory(a: BoundTensor, b: BoundTensor) -> bool:
    """Whether every element of one is the same element of the other."""
    strides = zip(a.desc.sizes, a.desc.effective_strides, b.desc.effective_strides, strict=True)
    same_layout = a.desc.sizes == b.desc.sizes and all(n == 1 or x == y for n, x, y in strides)
    return same_layout and a.array.dtype == b.array.dtype and _address(a.array) == _address(b.array)


def _team_of(thread_count: int) -> ThreadTeam:
    from opendml.targets.cpu.runtime.thread_team import default_team

    return default_team(thread_count)


def compile_definition(
    definition: Definition,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
) -> Program:
    """Generate, compile (or fetch from the cache) and load the code of a definition."""
    code = generate(definition, target, in_place=in_place)
    return load_program(
        code, inputs=inputs, outputs=outputs, in_place=in_place, target=target, thread_count=thread_count
    )


def load_program(
    code: ProgramCode,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
) -> Program:
    """Compile (or fetch from the cache) and load code."""
    from opendml.llvm.object_cache import get_or_compile_all

    objects, from_cache = get_or_compile_all(code.modules, target.machine)
    return program_of(
        objects,
        code.requirements,
        inputs=inputs,
        outputs=outputs,
        in_place=in_place,
        target=target,
        thread_count=thread_count,
        from_cache=from_cache,
    )


def program_of(
    objects: Sequence[bytes],
    requirements: Requirements,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
    from_cache: bool,
) -> Program:
    """The program of object files, the first of them with the entry; they must be of this host's own making."""
    from opendml.llvm.native import load_object
    from opendml.targets.cpu.code.interface import ENTRY

    loaded = load_object(objects[0], [ENTRY], target.machine, objects[1:])
    program = Program(
        requirements,
        loaded,
        loaded[ENTRY],
        inputs=inputs,
        outputs=outputs,
        in_place=in_place,
        thread_count=thread_count,
        from_cache=from_cache,
    )
    program.target = target
    return program


def generate(definition: Definition, target: CpuTarget, *, in_place: bool, profiled: bool = False) -> ProgramCode:
    """The LLVM module of a definition for a processor; if it is ``profiled``, its kernels record their times."""
    from opendml.llvm.float16 import CONVERSIONS
    from opendml.targets.cpu.code.program_code import program_code
    from opendml.targets.cpu.runtime.team_code import barrier_ir, control_ir

    machine = target.machine
    support = barrier_ir(machine) + control_ir() + ("" if machine.converts_float16 else CONVERSIONS)
    return program_code(definition, target, support, in_place=in_place, profiled=profiled)
