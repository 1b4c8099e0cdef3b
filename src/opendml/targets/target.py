"""What a target is to the packages above it: a value that makes programs of definitions.

A target is found by the name of a device (``targets.registry``), never imported: ``cpu``, ``opencl:0``. It says what
fusion is to weigh, rewrites a graph for itself, makes code of definitions, compiles that to bytes that can be stored,
and loads such bytes. What comes out is an ``Executable`` (``targets.interface``). For people it describes its kernels,
shows machine code, times kernels and knows limits, as far as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.expression.ir import Axis, Tensor
    from opendml.expression.statements import Definition, Origin, Single
    from opendml.graph.costs import GraphCosts
    from opendml.targets.interface import Executable, MemorySpace, TimedExecutable
    from opendml.targets.machine_limits import MachineLimits

Progress = Callable[[float], None]
"""Told which part of a compilation is done, from 0 to 1."""


class Requirements(NamedTuple):
    """What a program must have to run its code.

    ``temporary_size``: bytes of memory for temporary tensors; ``least_temporary_size``: what those have that are alive
    at one time, which no plan can do without. ``scratch_size``: bytes that each thread needs alone, behind those.
    ``parallel``: whether several threads of the process can help, and ``alone``: about how many microseconds one of
    them takes then, up to a number from which on it does not matter.
    """

    temporary_size: int
    least_temporary_size: int
    scratch_size: int
    parallel: bool
    alone: int


NOTHING_NEEDED: Final = Requirements(0, 0, 0, False, 0)


class KernelDescription(NamedTuple):
    """A kernel, for people: the ``statement`` that it computes, at each point of ``repeats``, the axes around it, and
    its loops from the outside in as ``text``. ``whole`` is the statement that the target was given: the same, or one
    that this is a part of."""

    statement: Single
    repeats: tuple[Axis, ...]
    text: str
    whole: Single


class Code(Protocol):
    """What a target makes of a definition: modules, as text, to be compiled."""

    @property
    def modules(self) -> Sequence[str]:
        """What is compiled, each to one object."""

    @property
    def requirements(self) -> Requirements:
        """What a program of the code must have."""

    def describe_kernels(self) -> Sequence[KernelDescription]:
        """The kernels, in the order in which they run."""

    def describe_sequence(self) -> str:
        """What runs behind what and how often, and what waits, a line each."""


class Target(Protocol):
    """One device, and the choices that code for it is made by: a value that pickles, compares and prints whole, since
    what it prints tells whether code is for it. Code and results follow from it and from the definition alone, the
    results from the definition alone."""

    @property
    def name(self) -> str:
        """The device's name, by which it is found again: ``cpu``, ``opencl:0``."""

    @property
    def identity(self) -> str:
        """What the keys of the cache have of it: another target of the same package has the same text only if it prints
        the same."""

    @property
    def machine(self) -> Any:
        """The facts of the device, frozen."""

    @property
    def tuning(self) -> Any:
        """The knobs of its code, frozen."""

    @property
    def costs(self) -> GraphCosts:
        """What fusion weighs."""

    @property
    def memory(self) -> MemorySpace | None:
        """The device's own memory; None where programs run on the host's arrays themselves."""

    @property
    def reads_anywhere(self) -> bool:
        """Whether code reads arrays wherever they are, their elements aligned or not."""

    def thread_count(self, asked: int | None) -> int:
        """Threads of this process that run a program, where so many are asked for or the usual number is."""

    def lay_out(self, graph: GraphDesc) -> GraphDesc:
        """A valid graph with other strides for tensors that nobody but its operators sees, as the device would have
        them; the same nodes and edges. The graph itself where it would have none."""

    def refine(
        self,
        definition: Definition,
        fixed: Iterable[Tensor] = (),
        bounds: Mapping[Tensor, float] | None = None,
        denormal: Iterable[Tensor] = (),
        origins: Mapping[Tensor, Origin] | None = None,
    ) -> Definition:
        """The definition as it is computed here: expressions in, expressions out. It moves bits and changes no
        arithmetic. Inputs that are ``fixed`` are known before it ever runs; no element of those with ``bounds`` is
        larger than these, whatever its sign; of float32 none is less than 0; many of ``denormal`` ones may be so
        small; some come of other things that are known, their ``origins``, which may be read instead."""

    def generate(self, definition: Definition, *, in_place: bool) -> Code:
        """The code of a definition; with ``in_place``, an input may be the same memory as an output.

        Raises CodeGenerationError for what the target has no code for.
        """

    def object_key(self, module: str) -> bytes:
        """The 32 bytes that name the object of a module in the cache: a hash over all that it depends on."""

    def compile(self, modules: Sequence[str], progress: Progress | None = None) -> tuple[list[bytes], bool]:
        """The objects of modules, and whether all came from the cache. Raises CodeGenerationError."""

    def build(self, definitions: Sequence[Definition], progress: Progress | None = None) -> Built:
        """The code and the objects of definitions that belong together, as ``generate`` and ``compile`` give them: some
        are compiled while others are written where that is faster, else ``built_in_turn``. The first of them runs again
        and again; what others compute is computed once."""

    def load(self, objects: Sequence[bytes], requirements: Requirements, thread_count: int) -> Executable:
        """A program's objects, in the order of its modules, ready to run. They are of this process's own making, or
        from the authenticated cache."""

    def assembly(self, module: str) -> str:
        """What is made of a module, as text: a processor's instructions, or what a driver is given."""

    def instrumented(
        self, definition: Definition, *, in_place: bool, thread_count: int
    ) -> tuple[Code, TimedExecutable]:
        """A definition's code, and it loaded so that it measures its kernels. Raises ConfigurationError with the reason
        where the target has no clock for them."""

    def limits(self, thread_count: int) -> MachineLimits | None:
        """What so many threads of the machine could do at best, measured once; None where nobody knows."""


class Built(NamedTuple):
    """The code of definitions, one for each; the objects of its modules; whether all objects came from the cache."""

    codes: Sequence[Code]
    objects: Mapping[str, bytes]
    from_cache: bool


def built_in_turn(target: Target, definitions: Sequence[Definition], progress: Progress | None) -> Built:
    """What ``Target.build`` gives, made by writing all code first."""
    codes = [target.generate(definition, in_place=False) for definition in definitions]
    modules = tuple(dict.fromkeys(module for code in codes for module in code.modules))
    objects, from_cache = target.compile(modules, progress)
    return Built(codes, dict(zip(modules, objects, strict=True)), from_cache)


class DeviceDescription(NamedTuple):
    """A device that there is: the ``name`` that ``Device`` takes, what it is called, and facts to tell it by."""

    name: str
    description: str
    properties: tuple[tuple[str, str], ...] = ()


class TargetModule(Protocol):
    """What the module of a kind of targets offers, under these names."""

    def open_target(self, number: int, tuning: Any) -> Target:
        """The device of a number, with the usual knobs where ``tuning`` is None. Raises ConfigurationError, with what
        to do about it, where there is no such device or it cannot give the definitions' bits."""

    def describe_devices(self) -> list[DeviceDescription]:
        """The devices that there are, none where what reaches them is not installed."""
