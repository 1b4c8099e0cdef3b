"""Calling an operator as a function: describe the operands, build the descriptor, run its program.

A public function is its signature, its documentation and a *builder*, a plain function that makes the operator's
descriptor from the descriptions of the operands and the parameters. A builder sees descriptions only and never an
array, so it serves arrays and graph tensors alike: where an operand is a graph tensor, a node is appended to its graph
instead of a program run.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.graph_building import Graph
from opendml.building.graph_operators import tensors_for
from opendml.building.graph_tensor import GraphTensor
from opendml.building.operands import (
    SEPARATE,
    Listed,
    Number,
    OperandRules,
    Read,
    View,
    check_type,
    converted,
    read,
    types_of,
    view_of,
    views_of,
)
from opendml.building.places import caller_place, located
from opendml.description.descriptors import Operator
from opendml.description.enums import DirectMLEnum, FeatureLevel
from opendml.description.errors import BindingError, InvalidDescriptorError
from opendml.description.tensor import TensorDesc
from opendml.functions.results import description, given_results, is_describable, of_length, with_outputs
from opendml.functions.versions import version_for
from opendml.programs.device import Device, default_device
from opendml.programs.program import Program
from opendml.programs.quick_calls import QuickCall, quick_call

Array = Any
"""What functions return: an array of NumPy, or a graph tensor where an operand is one."""

Operand = Any
"""A graph tensor, or what ``opendml.building.operands`` takes for a tensor: arrays, numbers, lists."""

NumPyArray = npt.NDArray[Any]

Builder = Callable[..., Operator]

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
    key = _key(build, operands, parameters, numbers, device, out)
    quick = _quick_call(key)
    result = None if quick is None else _quick_result(quick, operands, out)
    if quick is not None and result is not None:
        position, count = quick.present
        return [result if i == position else None for i in range(count)]
    return _evaluate(Invocation(build, operands, parameters, numbers, optional, device), out, key)


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
    key = _key(build, operands, parameters, numbers, device, out)
    try:  # As ``_quick_call``, without a call: these are what most functions are.
        quick = _QUICK.get(key)
    except (TypeError, ValueError):  # A parameter is nothing that could be a key.
        quick = None
    if quick is not None:
        result = _quick_result(quick, operands, out)
        if result is not None:
            return result
    return _evaluate(Invocation(build, operands, parameters, numbers, optional, device), out, key)[0]


# ---- calls on arrays such as there have been before

_QUICK: Final[dict[Any, QuickCall]] = {}
_ndarray, _empty, _bytes = np.ndarray, np.empty, np.dtype(np.uint8)


def _key(
    build: Builder,
    operands: Sequence[Operand | None],
    parameters: tuple[Any, ...],
    numbers: tuple[Any, ...],
    device: Device | Graph | None,
    out: Any,
) -> tuple[Any, ...]:
    """What tells calls apart whose operands are arrays or absent: types, sizes and strides of all, and parameters.

    Numbers of Python are told apart by their bits. Any other operand makes a key that equals no other.
    """
    seen = None if out is None else (out.dtype, out.shape, out.strides) if type(out) is _ndarray else object()
    if len(operands) == 2:  # Most calls: a list of two takes longer than both of them.
        x, y = operands
        if type(x) is _ndarray and type(y) is _ndarray:
            told = numbers and exact(numbers)
            return (build, parameters, told, device, seen, x.dtype, x.shape, x.strides, y.dtype, y.shape, y.strides)
    return (
        build,
        parameters,
        numbers and exact(numbers),
        device,
        seen,
        *[(x.dtype, x.shape, x.strides) if type(x) is _ndarray else _key_of_other(x) for x in operands],
    )


def _key_of_other(operand: Any) -> Hashable:
    if operand is None:
        return None
    return exact(operand) if type(operand) in (float, int, bool) else object()


def _quick_call(key: tuple[Any, ...]) -> QuickCall | None:
    """What calls with that key have been made quick by; None where there was none."""
    try:
        return _QUICK.get(key)
    except (TypeError, ValueError):  # A parameter is nothing that could be a key.
        return None


def _quick_result(quick: QuickCall, operands: Sequence[Any], out: Any) -> NumPyArray | None:
    """The output of a call, None where it needs more care: nothing was written then."""
    arrays = operands if quick.all_given else quick.arrays(operands)
    if out is not None:
        return out if out.flags.writeable and quick.run(*arrays, out) == 0 else None
    try:
        buffer = _empty(quick.room, _bytes)
    except MemoryError:
        return None
    start = quick.run(*arrays, buffer)
    return None if start < 0 else _ndarray(quick.sizes, quick.dtype, buffer, start)


def _keep_quick(key: tuple[Any, ...], call: Call, operands: Sequence[Any], out: Any) -> None:
    """The next call with this key shall be quick, if it can be."""
    if call.is_quick is not None or type(out) not in (_ndarray, NoneType):
        return
    numbers = {i: prepare(operands[i]) for i, prepare in call.prepared if type(operands[i]) in (float, int, bool)}
    plain = (x is None or (type(x) is _ndarray and x.ndim) or i in numbers for i, x in enumerate(operands))
    if len(numbers) != len(call.prepared) or not all(plain):
        return
    quick = quick_call(call.program, [numbers.get(i, x) for i, x in enumerate(operands)], out, numbers)
    call.is_quick = quick is not None
    if quick is None:
        return
    with contextlib.suppress(TypeError):
        if len(_QUICK) >= MAXIMUM_PROGRAMS:
            _QUICK.clear()
        _QUICK[key] = quick


# ---- all other calls


def _evaluate(invocation: Invocation, out: Any, quick_key: tuple[Any, ...]) -> list[Any]:
    build, operands, parameters, numbers, _, device = invocation
    graph = _graph_of(operands, device)
    if graph is not None:
        return _append(graph, invocation, out)
    arrays: list[Any] = [None if x is None else _read(x, build, i) for i, x in enumerate(operands)]
    results = None if out is None else given_results(out)
    key: tuple[Hashable, ...] = (build, device, parameters, *map(_layout_of, arrays), exact(numbers))
    if results is not None:
        key += (tuple(map(_layout_of, results)),)
    call = PROGRAMS.get(key)
    if call is None:
        invocation = invocation._replace(operands=arrays)
        call = PROGRAMS.get_or_make(key, lambda: _make_call(invocation, results))
    else:
        _keep_quick(quick_key, call, operands, out)
    for i, prepare in call.prepared:
        arrays[i] = prepare(arrays[i])
    if results is None:
        return call.program.run_unchecked(arrays)
    results = of_length(results, len(call.program.outputs))
    seen = [None if x is None else view_of(x, view) for x, view in zip(arrays, call.views, strict=True)]
    call.program.bind(seen, results)()
    return results


class Invocation(NamedTuple):
    """A function called with operands; None for those that are not given."""

    build: Builder
    operands: Sequence[Operand | None]
    parameters: tuple[Any, ...]
    numbers: tuple[Any, ...]
    optional: int
    device: Device | Graph | None

    def require_operands(self) -> None:
        """Raises BindingError if an operand that is not optional, or that the builder cannot do without, is None."""
        first_optional = len(self.operands) - self.optional
        for position, operand in enumerate(self.operands):
            if operand is None and (position < first_optional or not _may_be_none(self.build, position)):
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


@dataclass(slots=True)
class Call:
    """A compiled operator, and what operands need before it runs.

    ``prepared``: the numbers of the inputs that cannot be used in place, and what makes arrays of them. ``views``: how
    the operator sees each. ``is_quick``: whether calls on the same arrays can be quick; None as long as nobody asked.
    """

    program: Program
    prepared: tuple[tuple[int, Callable[[Any], NumPyArray]], ...] = ()
    views: tuple[View | None, ...] = ()
    is_quick: bool | None = None


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
        _QUICK.clear()

    def get(self, key: tuple[Hashable, ...]) -> Call | None:
        """The call of a key. None if there is none, also where a parameter is nothing that could be a key."""
        with self._looking:
            try:
                call = self._calls.get(key)
            except (TypeError, ValueError):
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
    build, operands, parameters, numbers, _, given = invocation
    device = given if isinstance(given, Device) else default_device()
    invocation.require_operands()
    rules = rules_of(build)
    names = partial(operand_name, build)
    for position, operand in enumerate(operands):  # before a number beside it is given its type
        if isinstance(operand, _ndarray) and operand.dtype.kind not in "biuf":
            check_type(operand.dtype, names(position))
    types = types_of(rules, operands, lambda x: x.dtype.newbyteorder("=") if isinstance(x, _ndarray) else None, names)
    preparations = [_preparation(*each) for each in zip(operands, types, map(names, range(len(operands))), strict=True)]
    arrays = [
        operand if operand is None or prepare is None else prepare(operand)
        for operand, prepare in zip(operands, preparations, strict=True)
    ]
    shapes = [None if array is None else array.shape for array in arrays]
    are_numbers = [isinstance(operand, Number) for operand in operands]
    views = views_of(rules, shapes, are_numbers, parameters, lambda: _sizes_of(arrays, names))
    descs = [None if x is None else _described(view_of(x, views[i]), build, i) for i, x in enumerate(arrays)]
    desc = descriptor(build, descs, parameters, numbers, device.feature_level)
    if results is not None:
        desc = with_outputs(desc, results)
    prepared = tuple((i, prepare) for i, prepare in enumerate(preparations) if prepare is not None)
    return Call(device.compile(desc), prepared, tuple(views))


def _preparation(operand: Read | None, dtype: np.dtype[Any] | None, name: str) -> Callable[[Any], NumPyArray] | None:
    """What makes an array of an operand that the program can use; None where it is one."""
    if isinstance(operand, Number):
        assert dtype is not None
        number = converted(operand, dtype, name)
        return lambda _: number
    if isinstance(operand, Listed):
        assert dtype is not None
        return partial(converted, dtype=dtype, name=name)
    return None if operand is None or is_describable(operand) else _copy


def _sizes_of(arrays: Sequence[NumPyArray | None], names: Callable[[int], str]) -> str:
    return " and ".join(f"{names(i)} {list(x.shape)}" for i, x in enumerate(arrays) if x is not None)


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
    names = [operand_name(build, position) for position in range(len(operands))]
    tensors = tensors_for(graph, operands, rules_of(build), parameters, names)
    descs = [None if tensor is None else tensor.desc for tensor in tensors]
    try:
        desc = descriptor(build, descs, parameters, numbers, graph.device.feature_level)
    except InvalidDescriptorError as error:
        raise located(error, caller_place()) from None
    return list(graph.append(desc, *tensors))


# ---- operands


def operand_rules(rules: OperandRules) -> Callable[[Builder], Builder]:
    """Says of a builder how its operands belong together."""

    def with_rules(build: Builder) -> Builder:
        build.operand_rules = rules  # type: ignore[attr-defined]
        return build

    return with_rules


def rules_of(build: Builder) -> OperandRules:
    """How the operands of a builder belong together; by default they have nothing in common."""
    rules: OperandRules = getattr(build, "operand_rules", SEPARATE)
    return rules


def _read(operand: Operand, build: Builder, position: int) -> Read:
    """An operand on its own; an array has elements that are aligned."""
    given = operand
    if type(operand) is not _ndarray or not operand.ndim or operand.dtype == np.bool_:
        given = read(operand, operand_name(build, position))
    return given.copy() if isinstance(given, _ndarray) and not given.flags.aligned else given


def _layout_of(operand: Read | None) -> Hashable:
    """What a program depends on."""
    if isinstance(operand, Number):
        return Number, exact(operand.value), operand.dtype
    if isinstance(operand, Listed):
        return Listed, operand.values.dtype, operand.values.shape
    return None if operand is None else (operand.dtype, operand.shape, operand.strides)


def _described(array: NumPyArray, build: Builder, position: int) -> TensorDesc:
    try:
        return description(array)
    except InvalidDescriptorError as error:
        reason = str(error).removeprefix("DataType: ")
        raise InvalidDescriptorError(f"{operand_name(build, position)}: {reason}") from None


def _copy(array: NumPyArray) -> NumPyArray:
    return np.array(array, array.dtype.newbyteorder("="), order="C", copy=True)


@functools.lru_cache(MAXIMUM_PROGRAMS)
def _parameters_of(build: Builder) -> list[inspect.Parameter]:
    return list(inspect.signature(build).parameters.values())


def _may_be_none(build: Builder, position: int) -> bool:
    """Whether the builder says so of an operand."""
    parameters = _parameters_of(build)
    return str(parameters[min(position, len(parameters) - 1)].annotation).endswith("None")


def operand_name(build: Builder, position: int) -> str:
    """What the builder calls an operand: ``input``, ``inputs[2]``."""
    names = _parameters_of(build)
    if names[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{names[0].name}[{position}]"
    return names[position].name


# ---- parameters


def integers(values: Any) -> Any:
    """A sequence of integers as a tuple; anything else as it is, for the rules to report."""
    if type(values) is tuple:
        return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, (Sequence, range)):
        return values
    try:
        return tuple(values)
    except (TypeError, ValueError):  # a view of memory that is gone, or of elements that Python does not know
        return values


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
