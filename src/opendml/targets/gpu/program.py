"""A definition as a program of kernels: the text of a module, and what the host does with it.

The host starts kernels one after another, each behind the one before it. What a definition repeats it runs in loops of
its own, whose positions the kernels are told; so it does with the points of an Each, which then share the memory that
each has for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opendml.description.errors import CodeGenerationError
from opendml.description.quoting import plural
from opendml.expression.element_types import F64, ElementType
from opendml.expression.ir import Axis, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import (
    Definition,
    Each,
    Repeat,
    Single,
    Statement,
    expressions_of,
    own_of,
    reads_of,
    writes_of,
)
from opendml.llvm.float16 import BIT_CONVERSIONS
from opendml.loops.memory_plan import bytes_of, plan_memory
from opendml.loops.nest_printer import format_nest
from opendml.targets.gpu.dialect import Dialect
from opendml.targets.gpu.kernels import Kernel, write_kernel
from opendml.targets.target import KernelDescription, Requirements


class Launch(NamedTuple):
    """A kernel to be started: ``buffers`` are numbers of slots, one for each of its pointers, ``loops`` the numbers of
    the loops whose positions it is told, ``points`` the threads that it needs."""

    kernel: str
    buffers: tuple[int, ...]
    loops: tuple[int, ...]
    points: int


class Loop(NamedTuple):
    """Launches that are run ``size`` times, in order."""

    number: int
    size: int
    body: tuple[Step, ...]


Step = Launch | Loop


def launches_of(steps: Iterable[Step]) -> Iterator[Launch]:
    """All launches in steps, each once, in the order of their first runs."""
    for step in steps:
        if isinstance(step, Loop):
            yield from launches_of(step.body)
        else:
            yield step


class Slot(NamedTuple):
    """A buffer of a program: the bytes that its kernels may touch, and for an output, whether all of these are written
    (the gaps of a strided tensor are not)."""

    size: int
    is_dense: bool


class LaunchPlan(NamedTuple):
    """What the host does: the slots of inputs, then of outputs, None for absent ones; behind them is one slot for
    ``temporary_size`` bytes; and the steps, in order."""

    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]
    temporary_size: int
    steps: tuple[Step, ...]

    def to_json(self) -> str:
        """The plan as one line."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> LaunchPlan:
        """The plan that ``to_json`` was asked for."""
        inputs, outputs, size, steps = json.loads(text)
        slots = [tuple(None if slot is None else Slot(*slot) for slot in part) for part in (inputs, outputs)]
        return cls(slots[0], slots[1], size, tuple(map(_step_of, steps)))


def _step_of(fields: list[Any]) -> Step:
    if len(fields) == len(Launch._fields):
        kernel, buffers, loops, points = fields
        return Launch(kernel, tuple(buffers), tuple(loops), points)
    number, size, body = fields
    return Loop(number, size, tuple(map(_step_of, body)))


@dataclass(frozen=True, slots=True)
class GpuCode:
    """A module: the launch plan as a comment in its first line, then the text of the kernels, which are in the order of
    their launches."""

    plan: LaunchPlan
    kernels: tuple[Kernel, ...]
    requirements: Requirements
    module: str

    @property
    def modules(self) -> tuple[str, ...]:
        """There is one."""
        return (self.module,)

    def describe_kernels(self) -> tuple[KernelDescription, ...]:
        """The nests of the kernels."""
        return tuple(KernelDescription(k.statement, k.loops, format_nest(k.nest), k.statement) for k in self.kernels)

    def describe_sequence(self) -> str:
        """The launches, each behind the one before it, and the loops of the host around them."""
        kernels = {kernel.name: kernel for kernel in self.kernels}
        return "\n".join(_described(self.plan.steps, kernels))


def _described(steps: Sequence[Step], kernels: Mapping[str, Kernel]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Loop):
            yield f"for {_axis_of(step, kernels).name} < {step.size}:"
            yield from ("  " + line for line in _described(step.body, kernels))
        else:
            statement = kernels[step.kernel].statement
            reads, writes = (", ".join(sorted({t.name for t in of(statement)})) for of in (reads_of, writes_of))
            threads = plural(step.points, "thread")
            yield f"{step.kernel}, {threads}: {f'{reads} -> ' if reads else ''}{writes}"


def _axis_of(loop: Loop, kernels: Mapping[str, Kernel]) -> Axis:
    """The axis that a loop runs along."""
    step: Step = loop
    while isinstance(step, Loop):
        step = step.body[0]
    return kernels[step.kernel].loops[loop.number]


def generate(definition: Definition, dialect: Dialect, *, divides_exactly: bool, has_float64: bool) -> GpuCode:
    """The code of a definition. Raises CodeGenerationError where it needs float64 and the device has none."""
    if not has_float64 and _uses(definition, F64):
        raise CodeGenerationError("the device has no float64, which the operator computes with")
    writer = _Writer(definition, dialect, divides_exactly)
    steps = tuple(writer.steps(definition.statements))
    plan = LaunchPlan(writer.slots(definition.inputs), writer.slots(definition.outputs), writer.size, steps)
    declarations = sorted({line for kernel in writer.kernels for line in kernel.declarations})
    texts = [kernel.text for kernel in writer.kernels]
    support = [BIT_CONVERSIONS] if any("@widened(" in text or "@narrowed(" in text for text in texts) else []
    module = "\n".join((f"; {plan.to_json()}", *declarations, *support, *texts)) + "\n"
    return GpuCode(plan, tuple(writer.kernels), Requirements(writer.size, writer.least_size, 0, False, 0), module)


def _uses(definition: Definition, type: ElementType) -> bool:
    return any(x.type is type for s in definition.statements for e in expressions_of(s) for x in walk(e))


@dataclass
class _Writer:
    definition: Definition
    dialect: Dialect
    divides_exactly: bool
    kernels: list[Kernel] = field(default_factory=list)
    loops: list[Axis] = field(default_factory=list)

    def __post_init__(self) -> None:
        definition = self.definition
        plan = plan_memory(definition)
        self.least_size = plan.least_size
        self.roots = dict(definition.views)
        self.offsets, self.size = dict(plan.offsets), plan.size
        for tensor in own_of(definition.statements):
            self.offsets[tensor] = self.size
            self.size += max(bytes_of(t) for t in self._seen_as(tensor))
        bound = [*definition.inputs, *definition.outputs]
        self.numbers = {tensor: number for number, tensor in enumerate(bound) if tensor is not None}
        self.temporaries = len(bound)

    def _seen_as(self, tensor: Tensor) -> Iterator[Tensor]:
        yield tensor
        yield from (view for view, root in self.definition.views if root is tensor)

    def slots(self, tensors: Sequence[Tensor | None]) -> tuple[Slot | None, ...]:
        """The slots of inputs or outputs."""
        return tuple(None if tensor is None else self._slot(tensor) for tensor in tensors)

    def _slot(self, tensor: Tensor) -> Slot:
        elements = 1
        for size in tensor.sizes:
            elements *= size
        size = max(t.extent * t.type.bits // 8 for t in self._seen_as(tensor))
        return Slot(size, elements == tensor.extent)

    def steps(self, statements: Sequence[Statement]) -> Iterator[Step]:
        """What the host does for statements."""
        for statement in statements:
            if isinstance(statement, Repeat):
                yield self._looped((statement.axis,), statement.statements)
            elif isinstance(statement, Each):
                yield from self._each(statement)
            else:
                yield self._launch(statement)

    def _each(self, each: Each) -> Iterator[Step]:
        if each.axes:
            yield self._looped(each.axes, each.statements)
        else:
            yield from self.steps(each.statements)

    def _looped(self, axes: Sequence[Axis], statements: Sequence[Statement]) -> Loop:
        axis, *rest = axes
        number = len(self.loops)
        self.loops.append(axis)
        body = (self._looped(rest, statements),) if rest else tuple(self.steps(statements))
        self.loops.pop()
        return Loop(number, axis.size, body)

    def _launch(self, statement: Single) -> Launch:
        name = f"kernel{len(self.kernels)}"
        kernel = write_kernel(
            name, statement, self.loops, self._start, self.dialect, divides_exactly=self.divides_exactly
        )
        self.kernels.append(kernel)
        buffers = tuple(self._number(tensor) for tensor in kernel.tensors)
        return Launch(name, buffers, tuple(range(len(self.loops))), kernel.points)

    def _root(self, tensor: Tensor) -> Tensor:
        while tensor in self.roots:
            tensor = self.roots[tensor]
        return tensor

    def _number(self, tensor: Tensor) -> int:
        return self.numbers.get(self._root(tensor), self.temporaries)

    def _start(self, tensor: Tensor) -> int:
        """Elements from the start of its buffer to a tensor: temporaries share one."""
        return self.offsets.get(self._root(tensor), 0) * 8 // tensor.type.bits
