"""Calling an operator as a function: describe the operands, build the descriptor, run its program.

A public function is its signature, its documentation and a *builder*, a plain function that makes the operator's
descriptor from the descriptions of the operands and the parameters. A builder sees descriptions only and never an
array, so it serves arrays and graph tensors alike: where an operand is a graph tensor, a node is appended to its graph
instead of a program run.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.graph_building import Graph, GraphTensor, caller_place, located
from opendml.description.descriptors import Operator
from opendml.description.enums import DirectMLEnum, FeatureLevel
from opendml.description.errors import BindingError, InvalidDescriptorError
from opendml.description.fields import TensorArrayField, TensorField
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc, packed_strides
from opendml.functions.versions import version_for
from opendml.programs.device import Device, default_device
from opendml.programs.program import Program, as_array

Array = Any
"""What functions return: an array of NumPy, or a graph tensor where an operand is one."""

Operand = Any
"""An array, or anything with DLPack or the buffer protocol; or a graph tensor."""

NumPyArray = npt.NDArray[Any]

Builder = Callable[..., Operator]
Layout = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]

MAXIMUM_PROGRAMS: Final = 512


def evaluate(
    build: Builder,
    operands: Sequence[Operand | None],
    parameters: tuple[Any, ...] = (),
    numbers: tuple[Any, ...] = (),
    *,
    optional: int = 0,
    device: Device | Graph | None,
    out: Any = None,
) -> list[Any]:
    """The outputs, None for absent ones, of the operator that ``build(*descriptions, *parameters, *numbers)`` makes.

    ``numbers`` are the parameters that the operator computes with: they are told apart by type and bits (0.0 from -0.0
    and 0), the other ones by equality. The last ``optional`` operands may be None. ``out``: arrays to write to, one or
    one an output.

    Where an operand is a graph tensor, or ``device`` a graph, the outputs are graph tensors.

    Raises InvalidDescriptorError for what the operator does not allow, BindingError for objects that are no arrays
    and for unfitting ``out``.
    """
    graph = _graph_of(operands, device)
    if graph is not None:
        return _append(graph, Invocation(build, operands, parameters, numbers, optional, device), out)
    arrays = [x if type(x) is np.ndarray and x.flags.aligned else _usable(x, build, i) for i, x in enumerate(operands)]
    key: tuple[Hashable, ...] = (build, device, parameters, *map(layout_of, arrays))
    if numbers:
        key += (exact(numbers),)
    results = None if out is None else _results(out)
    if results is not None:
        key += (tuple(map(layout_of, results)),)

    call = PROGRAMS.get(key)
    if call is None:
        invocation = Invocation(build, arrays, parameters, numbers, optional, device)
        call = PROGRAMS.get_or_make(key, lambda: _make_call(invocation, results))
    for i in call.copied:
        arrays[i] = _copy(arrays[i])
    if results is None:
        return call.program.run_unchecked(arrays)
    results = _of_length(results, len(call.program.outputs))
    call.program.bind(arrays, results)()
    return results


def evaluate_single(
    build: Builder,
    operands: Sequence[Operand | None],
    parameters: tuple[Any, ...] = (),
    numbers: tuple[Any, ...] = (),
    *,
    optional: int = 0,
    device: Device | Graph | None,
    out: Any = None,
) -> Array:
    """As ``evaluate``, for operators with one output."""
    return evaluate(build, operands, parameters, numbers, optional=optional, device=device, out=out)[0]


class Invocation(NamedTuple):
    """A function called with operands; None for those that are not given."""

    build: Builder
    operands: Sequence[Operand | None]
    parameters: tuple[Any, ...]
    numbers: tuple[Any, ...]
    optional: int
    device: Device | Graph | None

    def require_operands(self) -> None:
        """Raises BindingError if an operand that is not optional is None."""
        for position, operand in enumerate(self.operands[: len(self.operands) - self.optional]):
            if operand is None:
                raise BindingError(f"{operand_name(self.build, position)}: an array is needed")


def descriptor(
    build: Builder,
    descs: Sequence[TensorDesc | None],
    parameters: tuple[Any, ...],
    numbers: tuple[Any, ...],
    level: FeatureLevel,
) -> Operator:
    """The descriptor of an operator on tensors, in the version that a feature level has."""
    return version_for(build(*descs, *parameters, *numbers), level)


class Call(NamedTuple):
    """A compiled operator; ``copied`` are the numbers of the inputs that cannot be used in place."""

    program: Program
    copied: tuple[int, ...]


class ProgramCache:
    """The most recently used programs. May be used from several threads at once; each program is made once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._calls: OrderedDict[Hashable, Call] = OrderedDict()
        self.reset_locks()

    def __len__(self) -> int:
        return len(self._calls)

    def reset_locks(self) -> None:
        """New locks: those of a forked process may be held by threads that it does not have."""
        self._looking, self._making = threading.RLock(), threading.RLock()

    def clear(self) -> None:
        """Forget all programs."""
        with self._looking:
            forgotten, self._calls = self._calls, OrderedDict()
        forgotten.clear()

    def get(self, key: tuple[Hashable, ...]) -> Call | None:
        """The call of a key. None if there is none, also where a parameter is nothing that could be a key."""
        with self._looking:
            try:
                call = self._calls.get(key)
            except TypeError:
                return None
            if call is not None:
                self._calls.move_to_end(key)
        return call

    def get_or_make(self, key: tuple[Hashable, ...], make: Callable[[], Call]) -> Call:
        """The call of a key, made if need be."""
        with self._making:
            call = self.get(key)
            if call is None:
                call = make()
                self._put(key, call)
            return call

    def _put(self, key: tuple[Hashable, ...], call: Call) -> None:
        forgotten = []  # Programs are unloaded outside the lock: that may wait for a compilation in another thread.
        with self._looking, contextlib.suppress(TypeError):
            self._calls[key] = call
            while len(self._calls) > self.limit:
                forgotten.append(self._calls.popitem(last=False))


PROGRAMS: Final = ProgramCache(MAXIMUM_PROGRAMS)
"""The programs of the functions."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROGRAMS.reset_locks)


def _make_call(invocation: Invocation, results: Sequence[NumPyArray | None] | None) -> Call:
    build, arrays, parameters, numbers, _, given = invocation
    device = given if isinstance(given, Device) else default_device()
    invocation.require_operands()
    descs = [None if array is None else _described(array, build, i) for i, array in enumerate(arrays)]
    desc = descriptor(build, descs, parameters, numbers, device.feature_level)
    if results is not None:
        desc = _with_outputs(desc, results)
    copied = tuple(i for i, array in enumerate(arrays) if array is not None and not _is_describable(array))
    return Call(device.compile(desc), copied)


# ---- graphs


def _graph_of(operands: Sequence[Operand | None], device: Device | Graph | None) -> Graph | None:
    """The graph that is built, if one is."""
    for operand in operands:
        if type(operand) is GraphTensor:
            return operand.graph
    return device if isinstance(device, Graph) else None


def _append(graph: Graph, invocation: Invocation, out: Any) -> list[Any]:
    """The outputs of a new node of a graph."""
    build, operands, parameters, numbers, _, device = invocation
    if out is not None:
        raise BindingError("out: a graph that is built has no arrays to write to; give it to the compiled program")
    if device is not None and device is not graph and device != graph.device:
        raise BindingError(f"device: expected that of the graph, {graph.device!r}, got {device!r}")
    invocation.require_operands()
    tensors = [None if x is None else graph.constant(_operand(x, build, i)) for i, x in enumerate(operands)]
    descs = [None if tensor is None else tensor.desc for tensor in tensors]
    try:
        desc = descriptor(build, descs, parameters, numbers, graph.device.feature_level)
    except InvalidDescriptorError as error:
        raise located(error, caller_place()) from None
    return list(graph.append(desc, *tensors))


def _operand(operand: Operand, build: Builder, position: int) -> GraphTensor | NumPyArray:
    return operand if isinstance(operand, GraphTensor) else as_array(operand, operand_name(build, position))


# ---- operands


def _usable(operand: Operand | None, build: Builder, position: int) -> NumPyArray | None:
    """The operand as an array whose elements are aligned."""
    if operand is None:
        return None
    array = operand if type(operand) is np.ndarray else as_array(operand, operand_name(build, position))
    return array if array.flags.aligned else array.copy()


def _described(array: NumPyArray, build: Builder, position: int) -> TensorDesc:
    try:
        return description(array)
    except InvalidDescriptorError as error:
        raise InvalidDescriptorError(f"{operand_name(build, position)}: {error}") from None


def description(array: NumPyArray) -> TensorDesc:
    """An array with its own strides, or packed if DirectML has no such strides."""
    packed = packed_strides(array.shape)
    if not _is_describable(array):
        return TensorDesc(array.dtype, array.shape)
    # The stride of a single element means nothing.
    strides = tuple(
        usual if size == 1 else stride // array.itemsize
        for size, stride, usual in zip(array.shape, array.strides, packed, strict=True)
    )
    return TensorDesc(array.dtype, array.shape, None if strides == packed else strides)


def _is_describable(array: NumPyArray) -> bool:
    itemsize = array.itemsize
    return array.dtype.isnative and all(
        size <= 1 or (0 <= stride <= MAXIMUM_UINT * itemsize and stride % itemsize == 0)
        for size, stride in zip(array.shape, array.strides, strict=True)
    )


def _copy(array: NumPyArray | None) -> NumPyArray | None:
    return None if array is None else np.array(array, array.dtype.newbyteorder("="), order="C", copy=True)


def operand_name(build: Builder, position: int) -> str:
    """What the builder calls an operand: ``input``, ``inputs[2]``."""
    names = list(inspect.signature(build).parameters.values())
    if names[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{names[0].name}[{position}]"
    return names[position].name


# ---- results


def _results(out: Any) -> list[NumPyArray | None]:
    values = list(out) if isinstance(out, (tuple, list)) else [out]
    return [None if value is None else as_array(value, f"out[{i}]") for i, value in enumerate(values)]


def _of_length(results: Sequence[NumPyArray | None], count: int) -> list[NumPyArray | None]:
    """Without what is None beyond the outputs, and with None for those that are not given."""
    length = max((i + 1 for i, array in enumerate(results) if array is not None), default=0)
    return [*results[:length], *[None] * (count - length)]


def layout_of(array: NumPyArray | None) -> Layout | None:
    """What a program depends on."""
    return None if array is None else (array.dtype, array.shape, array.strides)


def _with_outputs(desc: Operator, results: Sequence[NumPyArray | None]) -> Operator:
    """The descriptor with outputs that have the strides of given arrays."""
    outputs = desc.outputs()
    results = _of_length(results, len(outputs))
    if len(results) != len(outputs):
        names = ", ".join(name for name, _ in outputs)
        raise BindingError(f"out: expected {len(outputs)} arrays ({names}), got {len(results)}")
    tensors = iter(
        [_output_description(name, tensor, array) for (name, tensor), array in zip(outputs, results, strict=True)]
    )
    changes: dict[str, Any] = {}
    for name, field in desc.fields.items():
        if isinstance(field, TensorArrayField) and field.direction == "output":
            changes[name] = tuple(next(tensors) for _ in getattr(desc, name))
        elif isinstance(field, TensorField) and field.direction == "output":
            changes[name] = next(tensors)
    return desc.replace(**changes)


def _output_description(name: str, tensor: TensorDesc | None, array: NumPyArray | None) -> TensorDesc | None:
    if tensor is None or array is None:
        return tensor
    if array.dtype != tensor.data_type.dtype:
        raise BindingError(f"out, {name}: expected elements of {tensor.data_type.dtype}, got {array.dtype}")
    if array.shape != tensor.sizes:
        raise BindingError(f"out, {name}: expected sizes {list(tensor.sizes)}, got {list(array.shape)}")
    if not (_is_describable(array) and array.flags.aligned):
        raise BindingError(
            f"out, {name}: expected aligned memory with strides that are multiples of the element size and not"
            f" negative, got {list(array.strides)} bytes"
        )
    return description(array)


# ---- parameters


def integers(values: Any) -> Any:
    """A sequence of integers as a tuple; anything else as it is, for the rules to report."""
    if type(values) is tuple:
        return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return tuple(values) if isinstance(values, (Sequence, range)) and not isinstance(values, str) else values


def is_member(value: Any, member: DirectMLEnum) -> bool:
    """Whether a value, whatever it is, is a way to write a member of an enumeration."""
    try:
        return type(member).parse(value) is member
    except ValueError:
        return False


def or_default(values: Any, default: int, count: int) -> Any:
    """The values; None and no values stand for the default ``count`` times."""
    return (default,) * count if values is None or values == () else values


_double_bits: Final = struct.Struct("<d").pack


def exact(value: Any) -> Hashable:
    """What tells numbers apart by type and bits, also inside tuples and lists."""
    if isinstance(value, (float, np.floating)):
        return _double_bits(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(exact, value))
    return type(value), value


INFERENCE_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)


def sizes_or(usual: tuple[int, ...], infer: Callable[[], Iterable[int]]) -> tuple[int, ...]:
    """The sizes of an output by inference, or the usual ones where parameters make no sense: the rules report them."""
    try:
        return tuple(infer())
    except INFERENCE_ERRORS:
        return usual


def replaced(sizes: tuple[int, ...], axis: Any, size: Any) -> tuple[int, ...]:
    """Sizes with another one along an axis; as they are where there is no such axis."""
    if not isinstance(axis, int) or not 0 <= axis < len(sizes):
        return sizes
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def sizes_by(formula: Callable[..., int], sizes: Iterable[int], *parameters: Any) -> tuple[int, ...]:
    """``formula(size, *parameters[i])`` for every dimension i; the size itself where the parameters make no sense."""
    return tuple(_size_by(formula, size, i, parameters) for i, size in enumerate(sizes))


def _size_by(formula: Callable[..., int], size: int, i: int, parameters: Iterable[Any]) -> int:
    try:
        result = formula(size, *(operator.index(values[i]) for values in parameters))
    except INFERENCE_ERRORS:
        return size
    return result if result >= 1 else size
