"""``OnnxProgram``: a compiled ONNX model, with arrays by the names of the file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.graph_program import BoundGraph, GraphProgram
from opendml.building.quick_runs import QuickRun
from opendml.description.errors import BindingError, InvalidDescriptorError, ModelFormatError
from opendml.description.quoting import listed, quoted
from opendml.formats.onnx.types import TensorInfo, known_type
from opendml.formats.onnx.values import Value, reason_of
from opendml.programs.binding import as_array
from opendml.programs.program import shallow_copy

if TYPE_CHECKING:
    from opendml.building.graph_tensor import GraphTensor

__all__ = ["BoundOnnxProgram", "OnnxProgram", "as_input", "check_names", "graph_outputs"]

Array = npt.NDArray[Any]


class OnnxProgram:
    """What ``OnnxModel.compile`` makes.

    ``inputs`` and ``outputs``: their names, types and sizes. ``program``: the ``GraphProgram`` that computes, whose
    inputs and outputs are DirectML's (bools are UINT8, one dimension at least); None where all outputs are known, and
    where there are several. ``values``: the inputs that it was compiled for the values of. ``narrowed``: the nodes on
    FLOAT64 that are computed in FLOAT32, by ``narrow_float64``.

    May be called from several threads at once.
    """

    def __init__(
        self,
        program: GraphProgram | None,
        inputs: Sequence[TensorInfo],
        bound: Sequence[str],
        outputs: Mapping[str, Value],
        values: Mapping[str, Array],
        narrowed: Sequence[str] = (),
    ) -> None:
        self.program = program
        self.inputs = tuple(inputs)
        self.outputs = tuple(TensorInfo(name, value.data_type.name, value.sizes) for name, value in outputs.items())
        self.values = dict(values)
        self.narrowed = tuple(narrowed)
        self._bound = tuple(bound)
        self._sizes = {name: value.sizes for name, value in outputs.items()}
        self._known = {name: value.array for name, value in outputs.items() if value.array is not None}
        self._quick = self._quick_run()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_quick"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._quick = self._quick_run()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(repr, infos)) for infos in (self.inputs, self.outputs))
        return f"<OnnxProgram {inputs} -> {outputs}>"

    def __call__(self, **arrays: Any) -> dict[str, Array]:
        """``run`` with the inputs as parameters."""
        return self.run(arrays)

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs by name for inputs by name: arrays of the types and sizes that ``inputs`` says.

        An input of ``values`` may be left out; given, it must have the value that the program was compiled for. Raises
        BindingError for arrays that do not fit.
        """
        quick = self.run_quickly(arrays, values_given=False)
        if quick is not None:
            return {info.name: array for info, array in zip(self.outputs, quick, strict=True)}
        given = self._checked(arrays)
        results = {}
        if self.program is not None:
            results = self.program(*(_seen(given[name]) for name in self._bound))
        return {info.name: self._result(info, results) for info in self.outputs}

    def run_quickly(self, arrays: Mapping[str, Any], *, values_given: bool = True) -> list[Array] | None:
        """The outputs in order, of packed arrays that are exactly what is expected; None for others: nothing runs.

        ``values_given``: whether those of ``values`` must be among them. Who chooses among programs knows by these
        which one is meant.
        """
        quick = self._quick
        if quick is None or len(arrays) > quick.given:
            return None
        given, left_out = list[Array](), 0
        for name, kind, sizes, content in quick.expected:
            array = arrays.get(name)
            if array is None and content is not None and not values_given:
                left_out += 1
                continue
            if type(array) is not np.ndarray or array.dtype != kind or array.shape != sizes:
                return None
            if content is None:
                flags = array.flags
                if not (flags.c_contiguous and flags.aligned):
                    return None
                given.append(array)
            elif array.tobytes() != content:
                return None
        if len(arrays) + left_out != quick.given:
            return None
        results = quick.run(given)
        for position, array in quick.known:
            results.insert(position, array.copy())
        return results

    def _quick_run(self) -> _QuickRun | None:
        """What ``run_quickly`` compares and runs, where all inputs are the graph's, in its order."""
        kinds = [known_type(info.element_type) for info in self.inputs]
        names = tuple(info.name for info in self.inputs)
        if self.program is None or None in kinds or self._bound != names:
            return None
        outputs = [info for info in self.outputs if info.name not in self._known]
        run = self.program.quick_run([(np.dtype(info.data_type), self._sizes[info.name]) for info in outputs])
        values = [(name, value.dtype, value.shape, value.tobytes()) for name, value in self.values.items()]
        inputs = [(info.name, kind, info.sizes, None) for info, kind in zip(self.inputs, kinds, strict=True)]
        known = [(place, self._known.get(info.name)) for place, info in enumerate(self.outputs)]
        expected = (*values, *inputs)
        if run is None:
            return None
        return _QuickRun(run, len(expected), expected, tuple(pair for pair in known if pair[1] is not None))

    def bind(self, arrays: Mapping[str, Any], *, out: Mapping[str, Any] | None = None) -> BoundOnnxProgram:
        """Checks arrays and fixes their addresses; the result is called without arguments, again and again.

        ``out`` are arrays to write to, of some outputs or all. Inputs must be arrays, which every call reads anew.
        Raises BindingError as ``run`` does, and for outputs of other types and sizes.
        """
        given = self._checked(arrays)
        places = self._places(out or {})
        bound = None
        results: dict[str, Array] = {}
        if self.program is not None:
            seen = {name: _seen(array) for name, array in places.items() if name not in self._known}
            bound = self.program.bind(*(_seen(given[name]) for name in self._bound), out=seen or None)
            results = bound.results
        for name in places.keys() & self._known.keys():
            places[name][...] = self._known[name]
        return BoundOnnxProgram(
            bound, {info.name: places.get(info.name, self._result(info, results)) for info in self.outputs}
        )

    def with_program(self, program: GraphProgram) -> OnnxProgram:
        """The same with another program for the same graph, one with clocks, for example."""
        other = shallow_copy(self)
        other.program, other._quick = program, None
        return other

    def _places(self, out: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays that outputs are to be written to."""
        infos = {info.name: info for info in self.outputs}
        unknown = [name for name in out if name not in infos]
        if unknown:
            raise BindingError(f"out: expected {listed(infos)}, got {listed(unknown)}")
        found = {}
        for name, array in out.items():
            info = infos[name]
            is_array = isinstance(array, np.ndarray)
            if not is_array or (array.dtype.name, array.shape) != (info.data_type, info.sizes):
                got = f"{array.dtype} {list(array.shape)}" if is_array else f"a {type(array).__name__}"
                expected = f"an array of {info.data_type} {list(info.sizes or ())}"
                raise BindingError(f"out, {quoted(name)}: expected {expected}, got {got}")
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise BindingError(f"out, {quoted(name)}: the array is not contiguous, or not to be written to")
            found[name] = array
        return found

    def _checked(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        check_names(self.inputs, arrays, self.values)
        for name, value in self.values.items():
            if name in arrays and not np.array_equal(
                np.asarray(arrays[name]), value, equal_nan=value.dtype.kind == "f"
            ):
                raise BindingError(f"{quoted(name)}: the program was compiled for {quoted(value.tolist())}")
        found = {info.name: as_input(info, arrays[info.name]) for info in self.inputs}
        for info in self.inputs:
            if found[info.name].shape != info.sizes:
                expected = f"expected {info.data_type} {list(info.sizes or ())}"
                raise BindingError(f"{quoted(info.name)}: {expected}, got {list(found[info.name].shape)}")
        return found

    def _result(self, info: TensorInfo, results: Mapping[str, Array]) -> Array:
        if info.name in self._known:
            return np.array(self._known[info.name])
        array = results[info.name]
        return (array.view(np.bool_) if info.data_type == "bool" else array).reshape(self._sizes[info.name])


class _QuickRun(NamedTuple):
    """What a quick run expects: names, types, sizes and, of inputs that it was compiled for the values of, contents,
    which may be left out; so many. ``known``: the outputs that are not computed, by position."""

    run: QuickRun
    given: int
    expected: tuple[tuple[str, Any, Any, bytes | None], ...]
    known: tuple[tuple[int, Any], ...]


class BoundOnnxProgram:
    """Arrays bound to a program; call it to run. ``results`` are the outputs by name, which every call writes."""

    __slots__ = ("_bound", "results")

    def __init__(self, bound: BoundGraph | None, results: dict[str, Array]) -> None:
        self._bound = bound
        self.results = results

    def __repr__(self) -> str:
        return f"<BoundOnnxProgram {self._bound!r}>"

    def __call__(self) -> None:
        """Run once."""
        if self._bound is not None:
            self._bound()


def graph_outputs(outputs: Mapping[str, Value]) -> dict[str, GraphTensor]:
    """The outputs that a graph computes. Raises ModelFormatError for one that no tensor can be."""
    return {name: _packed(name, value.tensor) for name, value in outputs.items() if value.tensor is not None}


def _packed(name: str, tensor: GraphTensor) -> GraphTensor:
    try:
        return tensor if tensor.desc.is_packed else tensor.packed()
    except InvalidDescriptorError as error:
        raise ModelFormatError(f"output {name!r}", reason_of(error)) from None


def check_names(inputs: Iterable[TensorInfo], arrays: Iterable[str], others: Container[str] = ()) -> None:
    """Raises BindingError unless arrays have the names of all inputs, and no names but these and ``others``."""
    names, given = [info.name for info in inputs], list(arrays)
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names and name not in others]
    if missing or unknown:
        problem = f"nothing for {listed(missing)}" if missing else f"{listed(unknown)} unexpectedly"
        raise BindingError(f"expected {listed(names)}, got {problem}")


def as_input(info: TensorInfo, value: Any) -> Array:
    """What was given for an input as an array of its type. Raises BindingError for another type."""
    array = value if isinstance(value, np.ndarray) else None
    if isinstance(value, (bool, int, float, list, tuple, np.generic)):
        array = np.asarray(value)
    found: Array = as_array(value, info.name) if array is None else array
    expected = known_type(info.element_type)
    if expected is not None and found.dtype != expected:
        raise BindingError(f"{quoted(info.name)}: expected {info.data_type}, got {found.dtype}")
    return found


def _seen(array: Array) -> Array:
    """An array as DirectML's tensors are: at least one dimension, bools as UINT8."""
    array = array.reshape(1) if array.ndim == 0 else array
    return array.view(np.uint8) if array.dtype == np.bool_ else array
