"""Devices: where descriptors are validated, compiled and run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from opendml.description.enums import ExecutionFlags, FeatureLevel, TensorDataType
from opendml.description.errors import BindingError, ConfigurationError, UnknownMemberError
from opendml.description.quoting import quoted
from opendml.llvm.host import MAXIMUM_THREADS
from opendml.programs import dlpack
from opendml.programs.binding import as_array
from opendml.programs.compilation import operator_program
from opendml.programs.device_tensor import DeviceTensor, adopted, tensor_of, tensor_on
from opendml.programs.program import Program
from opendml.targets.registry import KINDS, find_target, parse_target_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from opendml.description.descriptors import Operator
    from opendml.description.graph_desc import GraphDesc
    from opendml.description.tensor import TensorDesc
    from opendml.programs.compiled_graph import CompiledGraph
    from opendml.programs.graph_outline import GraphOutline
    from opendml.targets.interface import MemorySpace
    from opendml.targets.target import DeviceDescription, Target

_REFERENCE: Final = "reference"

Flags = ExecutionFlags | int | str | Sequence[str]
"""Execution flags: a set of them, a number, a name or names."""

DEFAULT_DEVICE: Final = "cpu"
DEFAULT_FEATURE_LEVEL: Final = FeatureLevel.LEVEL_6_4


class Device:
    """A processor, or another target, and the feature level that descriptors are held to.

    ``name`` is ``"cpu"``, or that of a device that ``dml.devices()`` lists, or ``"reference"`` for the interpreter: the
    same interface and the same bits, from NumPy, operator by operator and with one thread, for a second opinion on what
    was compiled. ``feature_level`` is a
    ``FeatureLevel`` or text such as ``"3_0"``; a device accepts exactly what DirectML accepts at that level.
    ``thread_count`` is the number of threads of a dispatch (the default: ``OPENDML_NUM_THREADS``, else the cores
    that this process may use), or the most of them where fewer are sooner; results do not depend on it. ``tuning``, for
    experiments, replaces the knobs of the generated code, a ``Tuning`` of the device's target
    (``opendml.targets.cpu.tuning``), on which only the speed depends.

        >>> import opendml as dml
        >>> device = dml.Device("cpu", feature_level="6_4")
        >>> desc = dml.TensorDesc("FLOAT32", [2, 2])
        >>> program = device.compile(dml.operators.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc))

    Raises ConfigurationError for an unknown name, level or number of threads, and for a device that is not there or
    cannot give the specified results. Devices are values without
    state, equal where these are, and may be used from any thread.
    """

    def __init__(
        self,
        name: str = DEFAULT_DEVICE,
        *,
        feature_level: FeatureLevel | str = DEFAULT_FEATURE_LEVEL,
        thread_count: int | None = None,
        tuning: Any = None,
    ) -> None:
        self.name, has_threads = _canonical_name(name)
        if not has_threads and not (thread_count is None or (type(thread_count) is int and thread_count == 1)):
            raise ConfigurationError(f"thread_count={quoted(thread_count)}: the {self.name} device has one thread")
        if thread_count is not None and (type(thread_count) is not int or not 1 <= thread_count <= MAXIMUM_THREADS):
            raise ConfigurationError(
                f"thread_count={quoted(thread_count)}: expected a number from 1 to {MAXIMUM_THREADS}"
            )
        try:
            self.feature_level = FeatureLevel.parse(feature_level)
        except UnknownMemberError as error:
            raise ConfigurationError(f"feature_level: {error}") from None
        self._thread_count = thread_count
        self._tuning = tuning

    def __repr__(self) -> str:
        threads = "" if self._thread_count is None else f", thread_count={self._thread_count}"
        return f"Device({self.name!r}, feature_level={str(self.feature_level)!r}{threads})"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return type(self), self.name, int(self.feature_level), self._thread_count, self._tuning

    @property
    def thread_count(self) -> int:
        """Threads of a dispatch."""
        return 1 if self.name == _REFERENCE else self._target().thread_count(self._thread_count)

    @property
    def target(self) -> Target | None:
        """What makes code for the device; None for the interpreter."""
        return None if self.name == _REFERENCE else self._target()

    def _target(self) -> Target:
        return find_target(self.name, self._tuning)

    def supports(self, data_type: TensorDataType | str) -> bool:
        """Whether tensors of a data type exist at the device's level (``TENSOR_DATA_TYPE_SUPPORT`` of DirectML)."""
        parsed = TensorDataType.parse(data_type)
        return parsed is not TensorDataType.UNKNOWN and parsed.since <= self.feature_level

    def tensor(self, value: Any) -> DeviceTensor:
        """An array, or anything with DLPack or the buffer protocol, as a tensor on this device: the same memory where
        the device uses the host's, else a copy. Raises BindingError."""
        return tensor_of(self.name, self._memory_space(), as_array(value, "tensor"))

    def empty(self, desc: TensorDesc) -> DeviceTensor:
        """A new tensor on this device; its content is random. Raises OutOfMemoryError."""
        return tensor_on(self.name, self._memory_space(), desc.in_memory if desc.data_type.bits == 4 else desc)

    def from_dlpack(self, value: Any) -> DeviceTensor:
        """A tensor with DLPack where it is, without a copy, and without waiting for whoever writes to it.

        It has to lie where this device's tensors do. Raises BindingError, also for elements, sizes and strides that
        tensors of DirectML do not have.
        """
        space = self._memory_space()
        found = dlpack.device_of(value)
        if found != ((dlpack.HOST, 0) if space is None else space.dlpack_device):
            raise BindingError(f"from_dlpack: the tensor lives on the device {found}, not on {self.name}")
        return self.tensor(value) if space is None else adopted(self.name, space, value)

    def _memory_space(self) -> MemorySpace | None:
        target = self.target
        return None if target is None else target.memory

    def create_operator(self, desc: Operator) -> CheckedOperator:
        """``desc``, found valid at the device's feature level.

        Raises InvalidDescriptorError, whose ``violations`` are all that is wrong.
        """
        from opendml.description.validation import validate_or_raise

        validate_or_raise(desc, self.feature_level)
        return CheckedOperator(self, desc)

    def compile(self, operator: Operator | CheckedOperator, *, execution_flags: Flags = ExecutionFlags.NONE) -> Program:
        """Native code for an operator; a descriptor is validated first.

        ``execution_flags`` are DirectML's (``DML_EXECUTION_FLAGS``): a set, a name, a number or a list of names. They
        are permissions and promises, and none changes a bit of the results here:

        - ``ALLOW_HALF_PRECISION_COMPUTATION`` permits float16 arithmetic on float32 tensors. It is never made use of.
        - ``DISABLE_META_COMMANDS`` forbids kernels of the hardware's vendor. A processor has none.
        - ``DESCRIPTORS_VOLATILE`` lets bindings change after they were recorded. Nothing is recorded here: a program
          takes its arrays when it is called. ``bind`` fixes arrays for good, whatever the flag.

        Raises InvalidDescriptorError for an invalid descriptor, ConfigurationError for flags that do not exist.
        """
        from opendml.llvm.stacks import on_large_stack

        flags = _parsed_flags(execution_flags)
        checked = operator if isinstance(operator, CheckedOperator) else self.create_operator(operator)
        if self.name == _REFERENCE:
            from opendml.programs.interpreted import interpret_operator

            return interpret_operator(checked.desc, flags)
        return on_large_stack(lambda: compile_operator(checked.desc, self.thread_count, flags, self._tuning, self.name))

    def compile_graph(
        self,
        graph: GraphDesc,
        *,
        fusion: bool = True,
        progress: Callable[[float], None] | None = None,
        execution_flags: Flags = ExecutionFlags.NONE,
        memory_limit: int | None = None,
        bounds: Mapping[int, float] | None = None,
    ) -> CompiledGraph:
        """One native program for a whole graph; it is validated first.

        ``fusion=False`` compiles the nodes side by side; the results are the same, bit for bit. ``progress`` is told
        now and then which part of a compilation is done, from 0 to 1; never where the code comes from the disk cache.
        ``execution_flags`` are as for ``compile``. Raises InvalidDescriptorError for an invalid graph, with all
        violations, ConfigurationError for flags that do not exist; OutOfMemoryError, before anything is allocated, if
        the graph needs more than ``memory_limit`` bytes beside its inputs and outputs.

        ``bounds`` says of inputs OWNED_BY_DML of INT8, UINT8 or FLOAT32, by their numbers, that none of what
        ``initialize`` is given for them is larger, of either sign: it raises BindingError where that is not so. Weights
        of 7 bits, no larger than 64, are multiplied by faster instructions on x86 processors without VNNI. A mask of
        about -100 (its bound is above 64 and not above 128) makes a softmax have denormal numbers, with which products
        are computed in another way, faster and with the same bits. A bound of another input is a ConfigurationError.
        """
        from opendml.description.graph_validation import validate_graph_or_raise
        from opendml.llvm.stacks import on_large_stack
        from opendml.programs.compiled_graph import compile_graph, interpret_graph

        flags = _parsed_flags(execution_flags)
        validate_graph_or_raise(graph, self.feature_level)
        known = _known_bounds(graph, bounds or {})
        if self.name == _REFERENCE:
            program = interpret_graph(graph, memory_limit, known)
        else:
            target, threads = self._target(), self.thread_count
            program = on_large_stack(
                lambda: compile_graph(
                    graph,
                    target=target,
                    thread_count=threads,
                    fusion=fusion,
                    progress=progress,
                    memory_limit=memory_limit,
                    bounds=known,
                )
            )
        program.execution_flags = flags
        return program

    def stored_graph(self, outline: GraphOutline, key: bytes, execution_flags: Flags) -> CompiledGraph | None:
        """The program that a graph, valid on this device, was compiled to before, if the disk cache still has it.

        ``key`` is that program's, ``outline`` that of its graph.
        """
        from opendml.programs.compiled_graph import stored_graph

        flags = _parsed_flags(execution_flags)
        program = stored_graph(outline, key, target=self._target(), thread_count=self.thread_count)
        if program is not None:
            program.execution_flags = flags
        return program

    def facts(self) -> str | None:
        """What a graph compiled on this device depends on beside itself, as text; None where nothing is kept of it."""
        from opendml.programs.graph_plan import code_facts

        facts = None if self.name == _REFERENCE else code_facts(self._target())
        return None if facts is None else f"{facts}\n{self.name} {self.feature_level}"


def _known_bounds(graph: GraphDesc, bounds: Mapping[int, float]) -> dict[int, float]:
    """Bounds of inputs by their numbers, as powers of two. ConfigurationError for one that there is no use for."""
    from opendml.description.graph_paths import graph_input_tensors
    from opendml.graph.constant_bounds import bounded_type, useful_bound

    descs = graph_input_tensors(graph) if bounds else ()
    known = dict[int, float]()
    for number, bound in sorted(bounds.items()):
        type = bounded_type(descs[number] if 0 <= number < len(descs) else None)
        if type is None:
            raise ConfigurationError(
                f"bounds: input {number} is no input of INT8, UINT8 or FLOAT32 that is OWNED_BY_DML"
            )
        if not bound >= 0:
            raise ConfigurationError(f"bounds: of input {number}: expected a number from 0 on, got {bound!r}")
        useful = useful_bound(bound, type)
        known |= {} if useful is None else {number: useful}
    return known


class CheckedOperator:
    """An operator that a device has found valid. It holds no resources; compile it to run it."""

    __slots__ = ("desc", "device")

    def __init__(self, device: Device, desc: Operator) -> None:
        self.device = device
        self.desc = desc

    def __repr__(self) -> str:
        return f"CheckedOperator({self.desc!r})"

    def compile(self, *, execution_flags: Flags = ExecutionFlags.NONE) -> Program:
        """Native code for the operator, as ``Device.compile``."""
        return self.device.compile(self, execution_flags=execution_flags)


def _canonical_name(name: object) -> tuple[str, bool]:
    """The one name of a device, and whether its programs run in threads of this process. A device that may be absent
    is looked for."""
    if isinstance(name, str) and name == _REFERENCE:
        return _REFERENCE, False
    parsed = parse_target_name(name) if isinstance(name, str) else None
    if parsed is None:
        known = [kind.join(("'", ":0'" if KINDS[kind].is_numbered else "'")) for kind in KINDS]
        raise ConfigurationError(f"unknown device {quoted(name)}: expected {', '.join(known)} or {_REFERENCE!r}")
    canonical, kind = str(parsed), KINDS[parsed.kind]
    if kind.is_numbered:
        find_target(canonical)
    return canonical, kind.has_threads


def devices() -> list[DeviceDescription]:
    """The devices that there are here, and what they can do: the processor, what other targets find, the interpreter.

    >>> import opendml as dml
    >>> [device.name for device in dml.devices()][0]
    'cpu'
    """
    from opendml.targets.registry import describe_devices
    from opendml.targets.target import DeviceDescription

    facts = ("Memory", "the host's"), ("FLOAT64", "yes")
    reference = DeviceDescription(_REFERENCE, "Interpreter of the operators' definitions", facts)
    return [*describe_devices(), reference]


def _parsed_flags(value: Flags) -> ExecutionFlags:
    try:
        flags = ExecutionFlags.parse(value)
    except ValueError as error:
        raise ConfigurationError(f"execution_flags: {error}") from None
    if flags.unknown_bits:
        known = ", ".join(str(flag.name) for flag in ExecutionFlags)
        raise ConfigurationError(f"execution_flags: {flags.unknown_bits:#x} is no flag; the flags are {known}")
    return flags


def compile_operator(
    desc: Operator,
    thread_count: int,
    execution_flags: ExecutionFlags = ExecutionFlags.NONE,
    tuning: Any = None,
    device: str = DEFAULT_DEVICE,
) -> Program:
    """Native code for a valid descriptor."""
    program = operator_program(desc, find_target(device, tuning), thread_count)
    program.desc, program.execution_flags = desc, execution_flags
    program.origin = compile_operator, (desc, program.thread_count, execution_flags, tuning, device)
    return program


@functools.cache
def default_device() -> Device:
    """The device that eager functions use where none is given."""
    return Device(DEFAULT_DEVICE)


__all__ = ["CheckedOperator", "Device", "compile_operator", "default_device", "devices"]
