"""``GraphProgram``: a compiled graph whose inputs and outputs have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.graph_assembly import GraphInterface
from opendml.building.quick_runs import Form, QuickRun, quick_run
from opendml.description.errors import BindingError, NotPicklableError
from opendml.description.quoting import listed, plural
from opendml.description.tensor import TensorDesc
from opendml.programs.binding import Binding, as_array, signature_text
from opendml.programs.device_tensor import DeviceTensor
from opendml.programs.program import BoundCall
from opendml.targets.host_memory import aligned_empty, empty

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.programs.compiled_graph import BindingProperties, CompiledGraph

__all__ = ["BoundGraph", "GraphProgram", "OutputForm"]

Array = npt.NDArray[Any]
Operand = Array | DeviceTensor


class GraphProgram:
    """What ``Graph.compile`` makes; call it with arrays by position or by name.

    ``program(x, mask=m)`` returns the outputs in the form that they were given to ``compile`` in: an array, a tuple or
    a dictionary. ``out`` are arrays to write to, in the same form. ``inputs`` and ``outputs`` are names and tensors.
    Inputs that are OWNED_BY_DML are given to ``initialize`` instead, once. The constants of the graph are in the
    program already. A program may be called from several threads at once.

    Raises BindingError where the number, names, types, sizes or memory of arrays do not fit.
    """

    def __init__(self, program: CompiledGraph, interface: GraphInterface, form: Callable[[Sequence[Any]], Any]) -> None:
        self.program = program
        self.name = interface.name
        self.inputs = tuple(Binding(name, desc) for name, desc in interface.inputs)
        self.outputs = tuple(Binding(name, desc) for name, desc in interface.outputs)
        self._form = form
        constants = [(n, np.frombuffer(kept.data, np.uint8), kept.owned) for n, kept in interface.kept.items()]
        self._kept = {number: data for number, data, owned in constants if not owned}
        self._owned_constants = {number: data for number, data, owned in constants if owned}
        self._is_initialized = False
        if not self._owned_names():
            self.initialize()

    @property
    def desc(self) -> GraphDesc:
        """The graph."""
        return self.program.desc

    def __repr__(self) -> str:
        state = "" if self._is_initialized else f", to be initialized with {', '.join(self._owned_names())}"
        nodes = len(self.desc.nodes)
        signature = signature_text(self.inputs, self.outputs)
        return f"<GraphProgram of {plural(nodes, 'node')} {signature}{state}>"

    def _repr_html_(self) -> str:
        return self.desc._repr_html_()

    @property
    def binding_properties(self) -> BindingProperties:
        """The memory that the graph needs beside its inputs and outputs, as DirectML reports it."""
        return self.program.binding_properties

    def initialize(self, **arrays: Any) -> None:
        """Bind the inputs that are OWNED_BY_DML; their values are copied. Done by ``compile`` where there are none.

        Once more with other arrays, these take the place of the first ones; a call that is refused changes nothing.
        """
        owned = self._owned_names()
        if set(arrays) != set(owned):
            raise BindingError(f"expected {', '.join(owned) or 'nothing'} to initialize with, got {listed(arrays)}")
        buffers: list[Operand | None] = [None] * len(self.program.inputs)
        for number, binding in enumerate(self.inputs):
            if binding.name in arrays:
                buffers[number] = self._taken(number, arrays[binding.name])[0]
        for number, data in self._owned_constants.items():
            buffers[number] = _seen_as(data, self.program.inputs[number].desc)
        if any(buffer is not None for buffer in buffers):
            self.program.initialize(buffers)
        self._is_initialized = True
        if not owned:
            self._owned_constants = {}  # they are copied, and there is nothing else to initialize with again

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run on arrays and return the outputs."""
        bound = self.bind(*arrays, out=out, **named)
        bound.run_last()
        return bound.results

    def quick_run(self, forms: Sequence[Form]) -> QuickRun | None:
        """What runs on packed arrays that the caller has checked, the outputs with other types and sizes of as many
        bytes; None where there is no such thing."""
        if not self._is_initialized:
            return None
        kept = {n: _seen_as(data, self.program.inputs[n].desc) for n, data in self._kept.items()}
        return quick_run(self.program, self.inputs, self.outputs, kept, forms)

    def bind(self, *arrays: Any, out: Any = None, **named: Any) -> BoundGraph:
        """Check arrays and fix their addresses; the result is called without arguments, again and again.

        Inputs that are used in place are read anew at every call; others are copied when they are bound.
        """
        if not self._is_initialized:
            raise BindingError(f"the program must be initialized with {', '.join(self._owned_names())} first")
        given_inputs = self._by_position(arrays, named)
        inputs, refreshes = self._bound_inputs(given_inputs)
        on_device = any(isinstance(value, DeviceTensor) for value in given_inputs)
        places = [self._output_place(number, given, on_device) for number, given in enumerate(self._results_given(out))]
        unused = [None if b.desc is None else empty(b.desc) for b in self.program.outputs[len(places) :]]
        call = self.program.bind(inputs, [*(place.buffer for place in places), *unused])
        return BoundGraph(call, refreshes, places, self._form([place.result for place in places]))

    def _owned_names(self) -> list[str]:
        return [b.name for b in self.inputs if b.desc is not None and b.desc.is_owned_by_dml]

    def _by_position(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arrays of the inputs that are not OWNED_BY_DML, None for those."""
        owned = self._owned_names()
        names = [binding.name for binding in self.inputs if binding.name not in owned]
        given = dict(zip(names, arrays, strict=False))
        unknown = [name for name in named if name not in names]
        twice = [name for name in named if name in given]
        missing = [name for name in names if name not in given and name not in named]
        if len(arrays) > len(names) or unknown or twice or missing:
            problems = [
                f"{len(arrays)} arrays" if len(arrays) > len(names) else "",
                f"{listed(unknown)} unexpectedly" if unknown else "",
                f"{listed(twice)} twice" if twice else "",
                f"nothing for {', '.join(missing)}" if missing else "",
            ]
            raise BindingError(f"expected {', '.join(names) or 'no inputs'}, got {'; '.join(filter(None, problems))}")
        given.update(named)
        return [given.get(binding.name) for binding in self.inputs]

    def _bound_inputs(self, arrays: Sequence[Any]) -> tuple[list[Operand | None], list[Callable[[], None]]]:
        buffers: list[Operand | None] = [None] * len(self.program.inputs)
        refreshes = []
        for number, array in enumerate(arrays):
            if array is not None and self.program.inputs[number].desc is not None:
                buffers[number], refresh = self._taken(number, array)
                refreshes += [] if refresh is None else [refresh]
            elif array is not None:
                as_array(array, self.inputs[number].name)
        for number, data in self._kept.items():
            buffers[number] = _seen_as(data, self.program.inputs[number].desc)
        return buffers, refreshes

    def _taken(self, number: int, array: Any) -> tuple[Operand | None, Callable[[], None] | None]:
        """An array for an input, laid out as the program wants it; what copies it anew, if it had to be copied."""
        declared, wanted = self.inputs[number], self.program.inputs[number].desc
        if isinstance(array, DeviceTensor) and array.memory is not None:
            return self._taken_tensor(declared, wanted, array), None
        if declared.desc is None or wanted is None or _same_layout(declared.desc, wanted):
            return as_array(array, declared.name), None
        return _reinterpreted(declared, wanted, array)

    def _taken_tensor(self, declared: Binding, wanted: TensorDesc | None, tensor: DeviceTensor) -> DeviceTensor:
        """A tensor that lives on the device, as the program wants it: the same memory."""
        desc = declared.desc
        if desc is None or wanted is None or _same_layout(desc, wanted):
            return tensor
        if not _same_layout(tensor.desc, desc):
            expected = f"expected {desc.data_type.dtype} {list(desc.sizes)} with its strides"
            raise BindingError(f"{declared.name}: {expected}, got {tensor!r}")
        return tensor.seen_as(wanted)

    def _results_given(self, out: Any) -> list[Any]:
        """Arrays to write to, None where new ones are to be made."""
        if out is None:
            return [None] * len(self.outputs)
        names = [binding.name for binding in self.outputs]
        if isinstance(out, Mapping):
            if set(out) - set(names):
                raise BindingError(f"out: expected {', '.join(names)}, got {listed(out)}")
            return [out.get(name) for name in names]
        is_one = isinstance(out, (np.ndarray, DeviceTensor)) or not isinstance(out, (list, tuple))
        given = [out] if is_one else list(out)
        if len(given) != len(names):
            raise BindingError(f"out: expected {len(names)} arrays ({', '.join(names)}), got {len(given)}")
        return given

    def _output_place(self, number: int, given: Any, on_device: bool) -> _OutputPlace:
        binding, written = self.outputs[number], self.program.outputs[number].desc
        desc = binding.desc
        assert desc is not None and written is not None
        if given is None and on_device:
            return self._new_tensor(desc, written)
        if isinstance(given, DeviceTensor) and given.memory is not None:
            return _OutputPlace(self._taken_tensor(binding, written, given), given, None)
        if _same_layout(desc, written):
            result = empty(desc) if given is None else as_array(given, f"out, {binding.name}")
            return _OutputPlace(result, result, None)
        memory = aligned_empty(max(desc.total_size_in_bytes, written.total_size_in_bytes))
        buffer, view = _seen_as(memory, written), _viewed(memory, desc)
        if given is None:
            return _OutputPlace(buffer, view, None)
        array = as_array(given, f"out, {binding.name}")
        if array.dtype != view.dtype or array.shape != view.shape or not array.flags.writeable:
            expected = f"expected a writeable array of {view.dtype} {list(view.shape)}"
            raise BindingError(f"out, {binding.name}: {expected}, got {array.dtype} {list(array.shape)}")
        return _OutputPlace(buffer, array, view)

    def _new_tensor(self, desc: TensorDesc, written: TensorDesc) -> _OutputPlace:
        """A tensor where the program runs, as the program writes it and as its caller gets it."""
        tensor = self.program.execution.new_tensor(written)
        return _OutputPlace(tensor, tensor if _same_layout(desc, written) else tensor.seen_as(desc), None)


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The form that outputs were given in; called with the results of a program it gives them in that form."""

    kind: Literal["single", "mapping", "sequence"]
    names: tuple[str, ...] = ()

    def __call__(self, results: Sequence[Any]) -> Any:
        """An array, a dictionary or a tuple."""
        if self.kind == "single":
            return results[0]
        return dict(zip(self.names, results, strict=True)) if self.kind == "mapping" else tuple(results)


class BoundGraph:
    """Arrays bound to a program; call it to run. ``results`` are the outputs that every call writes."""

    __slots__ = ("_call", "_places", "_refreshes", "results")

    def __init__(
        self, call: BoundCall, refreshes: Sequence[Callable[[], None]], places: Sequence[_OutputPlace], results: Any
    ) -> None:
        self._call = call
        self._refreshes = tuple(refreshes)
        self._places = tuple(place for place in places if place.view is not None)
        self.results = results

    def __repr__(self) -> str:
        return f"<BoundGraph of {self._call!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotPicklableError("a bound graph holds arrays of this process: pickle or copy the program, and bind anew")

    def __call__(self) -> None:
        """Run once."""
        self._run(self._call)

    def run_last(self) -> None:
        """Run for the last time: the memory for temporaries goes to a later call of the same program."""
        self._run(self._call.run_last)

    def _run(self, call: Callable[[], None]) -> None:
        for refresh in self._refreshes:
            refresh()
        call()
        for place in self._places:
            assert isinstance(place.result, np.ndarray)
            place.result[...] = place.view


class _OutputPlace(NamedTuple):
    """What the program writes (``buffer``), what the caller gets, and what is to be copied to there, if anything."""

    buffer: Operand
    result: Operand
    view: Array | None


def _same_layout(a: TensorDesc, b: TensorDesc) -> bool:
    return (a.data_type, a.sizes, a.effective_strides) == (b.data_type, b.sizes, b.effective_strides)


def _reinterpreted(declared: Binding, wanted: TensorDesc, array: Any) -> tuple[Array, Callable[[], None] | None]:
    """The bytes of an array, laid out as declared, seen as another tensor; what copies them anew, if need be."""
    desc = declared.desc
    assert desc is not None
    dtype, source = desc.data_type.dtype, as_array(array, declared.name)
    is_flat = source.ndim == 1 and source.size >= desc.element_span and source.flags.c_contiguous
    if source.dtype != dtype or (source.shape != desc.sizes and not is_flat):
        expected = f"expected {dtype} {list(desc.sizes)}"
        raise BindingError(f"{declared.name}: {expected}, got {source.dtype} {list(source.shape)}")
    has_layout = source.flags.c_contiguous and (is_flat or desc.is_packed)
    if has_layout and source.flags.aligned and source.nbytes >= wanted.minimum_size_in_bytes:
        return _seen_as(source.reshape(-1).view(np.uint8), wanted), None
    memory = np.zeros(max(desc.total_size_in_bytes, wanted.total_size_in_bytes), np.uint8)
    target = _viewed(memory, desc)
    if source.shape != desc.sizes:
        source, target = source[: desc.element_span], memory.view(dtype)[: desc.element_span]
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in target.strides)

    def refresh() -> None:
        target[once] = source[once]

    refresh()
    return _seen_as(memory, wanted), refresh


def _seen_as(memory: npt.NDArray[np.uint8], desc: TensorDesc | None) -> Array:
    """Bytes as the flat buffer of a tensor."""
    assert desc is not None
    dtype = desc.data_type.dtype
    return memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _viewed(memory: npt.NDArray[np.uint8], desc: TensorDesc) -> Array:
    """Bytes as a tensor."""
    dtype = desc.data_type.dtype
    strides = tuple(stride * dtype.itemsize for stride in desc.effective_strides)
    return np.ndarray(desc.sizes, dtype, memory, 0, strides)
