"""Where the time of a program goes: its kernels, what they move and compute, and how fast the machine could do that.

profile = dml.profile(program, image)
print(profile)                                  # a table
profile.save_page("profile.html")               # the same with the fused graph drawn
profile.save_trace("trace.json")                # for chrome://tracing or ui.perfetto.dev
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from opendml.building.graph_program import GraphProgram
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.notebook import paragraphs, table
from opendml.description.quoting import quoted
from opendml.expression.ir import Axis, Tensor
from opendml.expression.statements import Definition, reads_of, writes_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.graph.provenance import Provenance
from opendml.inspection.instrumentation import InstrumentedProgram, KernelTimes, instrumented, processor_of
from opendml.inspection.machine_limits import MachineLimits, machine_limits
from opendml.loops.costs import cost_of
from opendml.programs.compiled_graph import CompiledGraph
from opendml.programs.interpreted import InterpretedExecutable
from opendml.programs.program import Program, shallow_copy
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.refine.refining import refined_definition, refining

LEAST_RUNS: Final = 3
MOST_RUNS: Final = 10_000


class TensorUse(NamedTuple):
    """A tensor that a kernel reads or writes, and the bytes of it that are touched in one run of the program."""

    name: str
    type: str
    sizes: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One kernel in the run of a program in which it was fastest. Times are in seconds.

    ``operators`` are the operators that it computes (in whole or in part), ``nodes`` the names of their nodes in a
    graph. It runs ``repetitions`` times, together for ``seconds``; ``work`` is how long each thread worked in that
    time. ``operations`` are floating-point ones. ``description`` has its loops and expressions.
    """

    number: int
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    reads: tuple[TensorUse, ...]
    writes: tuple[TensorUse, ...]
    repetitions: int
    seconds: float
    work: tuple[float, ...]
    operations: int
    description: str

    @property
    def title(self) -> str:
        """``CONVOLUTION + ACTIVATION_RELU``."""
        counts = Counter(self.operators)
        return " + ".join(f"{name} x{count}" if count > 1 else name for name, count in counts.items())

    @property
    def bytes(self) -> int:
        """Bytes read and written, each element once a repetition."""
        return sum(use.bytes for use in (*self.reads, *self.writes))

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else math.inf

    @property
    def operation_rate(self) -> float:
        """Floating-point operations a second."""
        return self.operations / self.seconds if self.seconds else math.inf

    def efficiency(self, limits: MachineLimits) -> float:
        """The part of the time that the machine needs at least to move the bytes or to compute: 1 is the limit.

        It may be above 1 where bytes stay in nearer caches than those of a copy of that size.
        """
        least = limits.least_seconds(self.bytes / self.repetitions, self.operations / self.repetitions)
        return least * self.repetitions / self.seconds if self.seconds else math.inf

    def is_bound_by_memory(self, limits: MachineLimits) -> bool:
        """Whether moving the bytes takes the machine longer than computing."""
        return self.bytes / limits.bandwidth(self.bytes / self.repetitions) >= self.operations / limits.fma_peak


class End(NamedTuple):
    """Where a tensor comes from or goes to: a kernel, an input or an output of the program, by its number."""

    kind: Literal["input", "kernel", "output"]
    number: int


class Flow(NamedTuple):
    """A tensor that goes from one end to another."""

    source: End
    target: End
    tensor: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernels of a program in the order in which they run.

    All times are the least of several runs, since what disturbs a run makes it slower. ``seconds`` is the time of the
    program as it is, ``instrumented_seconds`` that with records, when all threads wait for each other behind every
    kernel; ``kernel_seconds`` is the time of all kernels, the rest is starting and waking threads, and
    ``longest_seconds`` that of the longest one. ``temporary_bytes`` is the memory for temporary tensors,
    ``alive_bytes`` what those of them have that are alive at one time, at most; ``thread_bytes`` is what each thread
    needs beside that.
    """

    title: str
    kernels: tuple[KernelProfile, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flows: tuple[Flow, ...]
    seconds: float
    instrumented_seconds: float
    runs: int
    temporary_bytes: int
    alive_bytes: int
    thread_bytes: int
    limits: MachineLimits
    kernel_seconds: float = field(init=False, repr=False, compare=False)
    longest_seconds: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for beside every kernel, of which there may be thousands.
        object.__setattr__(self, "kernel_seconds", sum(kernel.seconds for kernel in self.kernels))
        object.__setattr__(self, "longest_seconds", max((kernel.seconds for kernel in self.kernels), default=0.0))

    def share(self, kernel: KernelProfile) -> float:
        """The part that a kernel has in the time of all."""
        return kernel.seconds / self.kernel_seconds if self.kernel_seconds else 0.0

    def __str__(self) -> str:
        from opendml.inspection.profile_table import profile_text

        return profile_text(self)

    def _repr_html_(self) -> str:
        from opendml.inspection.profile_table import profile_table, summary

        rows = profile_table(self)
        shown = table(self.title, [column.heading for column in rows.columns], rows.rows)
        return shown + paragraphs(summary(self))

    def save_page(self, path: str | Path) -> None:
        """Write a page of HTML that needs no other file."""
        from opendml.inspection.profile_page import page

        Path(path).write_text(page([self]), encoding="utf-8")

    def save_trace(self, path: str | Path) -> None:
        """Write a trace in Chrome's format (JSON), with a track for each thread and the kernels one after another."""
        Path(path).write_text(trace_of([self]), encoding="utf-8")


def profile(
    program: Program | CompiledGraph | GraphProgram, *arrays: Any, seconds: float = 0.5, **named: Any
) -> Profile:
    """Run a program again and again for about ``seconds``, and tell where its time goes.

    The arrays are those of a call of the program, by position or, for programs of graphs that were built by expression,
    by name. The first use measures the machine's limits (half a second) and compiles a variant of the program. Raises
    BindingError where arrays do not fit, ConfigurationError for a program of the reference device.
    """

    def bind(target: Any) -> Callable[[], None]:
        if isinstance(target, GraphProgram):
            return target.bind(*arrays, **named)
        if named:
            raise BindingError(f"this program has no inputs by name, got {', '.join(named)}")
        outputs = (target.execution if isinstance(target, CompiledGraph) else target).new_outputs()
        return target.bind(arrays, outputs)  # type: ignore[no-any-return]

    return profile_bound(program, bind, seconds=seconds)


def profile_bound(
    program: Program | CompiledGraph | GraphProgram,
    bind: Callable[[Any], Callable[[], None]],
    *,
    seconds: float = 0.5,
    title: str | None = None,
) -> Profile:
    """As ``profile``, where ``bind`` makes what runs the program, or the variant of it that it is given, once."""
    variant, subject = _variant(program)
    plain, recorded = bind(program), bind(variant)
    subject.program.reset()
    recorded()
    plain()
    deadline = time.perf_counter() + seconds
    best, best_plain, times, runs = math.inf, math.inf, subject.program.times(), 0
    while runs < LEAST_RUNS or (time.perf_counter() < deadline and runs < MOST_RUNS):
        subject.program.reset()
        best = min(best, _timed(recorded))
        times = list(map(min, times, subject.program.times()))
        best_plain = min(best_plain, _timed(plain))
        runs += 1
    return Profile(
        title=subject.title if title is None else title,
        kernels=tuple(_kernels(subject, times)),
        inputs=subject.inputs,
        outputs=subject.outputs,
        flows=tuple(_flows(subject)),
        seconds=best_plain,
        instrumented_seconds=best,
        runs=runs,
        temporary_bytes=subject.program.code.requirements.temporary_size,
        alive_bytes=subject.program.code.requirements.least_temporary_size,
        thread_bytes=subject.program.code.requirements.scratch_size,
        limits=machine_limits(subject.program.program.thread_count),
    )


def trace_of(profiles: Sequence[Profile]) -> str:
    """Chrome's trace format (JSON): a process for each profile, a thread for each of the program's."""
    events: list[dict[str, Any]] = []
    for process, one in enumerate(profiles):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": one.title}})
        for thread in range(one.limits.thread_count):
            name = {"name": f"thread {thread}"}
            events.append({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": name})
        start = 0.0
        for kernel in one.kernels:
            events += [_event(process, thread, kernel, start, work) for thread, work in enumerate(kernel.work) if work]
            start += kernel.seconds
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1)


def as_json(profile: Profile) -> dict[str, Any]:
    """A profile for programs: seconds, bytes and floating-point operations."""
    limits = profile.limits
    return {
        "title": profile.title,
        "seconds": profile.seconds,
        "instrumented_seconds": profile.instrumented_seconds,
        "kernel_seconds": profile.kernel_seconds,
        "runs": profile.runs,
        "temporary_bytes": profile.temporary_bytes,
        "alive_bytes": profile.alive_bytes,
        "thread_bytes": profile.thread_bytes,
        "machine": {
            "thread_count": limits.thread_count,
            "fma_peak": limits.fma_peak,
            "copies": [{"bytes": size, "bytes_per_second": rate} for size, rate in limits.copies],
        },
        "kernels": [
            {
                "number": kernel.number,
                "title": kernel.title,
                "operators": list(kernel.operators),
                "nodes": list(kernel.nodes),
                "seconds": kernel.seconds,
                "work": list(kernel.work),
                "share": profile.share(kernel),
                "repetitions": kernel.repetitions,
                "bytes": kernel.bytes,
                "operations": kernel.operations,
                "bound_by": "memory" if kernel.is_bound_by_memory(limits) else "arithmetic",
                "reads": [use._asdict() for use in kernel.reads],
                "writes": [use._asdict() for use in kernel.writes],
            }
            for kernel in profile.kernels
        ],
    }


def _event(process: int, thread: int, kernel: KernelProfile, start: float, work: float) -> dict[str, Any]:
    return {
        "name": kernel.title,
        "cat": "kernel",
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start * 1e6,
        "dur": work * 1e6,
        "args": {
            "kernel": kernel.number,
            "nodes": list(kernel.nodes),
            "repetitions": kernel.repetitions,
            "bytes": kernel.bytes,
            "operations": kernel.operations,
        },
    }


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# What is profiled -----------------------------------------------------------------------------------------------------


class _Subject(NamedTuple):
    """A program with records, its definition, the names of its inputs and outputs by their tensors, and what tells
    operators and nodes of a statement."""

    title: str
    program: InstrumentedProgram
    definition: Definition
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: Callable[[Any], tuple[tuple[str, ...], tuple[str, ...]]]


def _variant(program: Program | CompiledGraph | GraphProgram) -> tuple[Any, _Subject]:
    """The same program with records, and what is known about it."""
    if isinstance(program, GraphProgram):
        inner, subject = _variant(program.program)
        variant = shallow_copy(program)
        variant.program = inner
        title = f"{program.name}: {subject.title}" if program.name else subject.title
        return variant, subject._replace(title=title)
    part = program.execution if isinstance(program, CompiledGraph) else program
    if isinstance(part, Program) and isinstance(part.executable, InterpretedExecutable):
        raise ConfigurationError("the reference device interprets programs, so there are no kernels to profile")
    if isinstance(program, CompiledGraph):
        return _graph_variant(program)
    if not isinstance(program, Program):
        raise BindingError(f"expected a compiled program, got {quoted(program)}")
    if program.desc is None:
        raise BindingError("this program is only a part of a graph: profile the graph")
    definition = refined_definition(program.desc, processor_of(program))
    name = program.desc.type.name
    made = instrumented(definition, program)
    inputs, outputs = _names(program.inputs), _names(program.outputs)
    return made.program, _Subject(name, made, definition, inputs, outputs, lambda _: ((name,), ()))


def _graph_variant(program: CompiledGraph) -> tuple[CompiledGraph, _Subject]:
    graph, target = program.desc, processor_of(program.execution)
    joined = join(graph, refining(target))
    parts = divide_and_fuse(joined, fusion=program.fusion, costs=target.tuning.graph)
    made = instrumented(parts.execution, program.execution)
    provenance = Provenance(graph, joined, parts.execution)

    def operators(statement: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        numbers = provenance.nodes(statement)
        nodes = [(n, node) for n in numbers for node in [graph.nodes[n]] if isinstance(node, OperatorNode)]
        return tuple(node.operator.type.name for _, node in nodes), tuple(node.name or f"node{n}" for n, node in nodes)

    variant = shallow_copy(program)
    variant.execution = made.program
    names = _names(program.inputs), _names(program.outputs)
    return variant, _Subject(_graph_title(graph), made, parts.execution, *names, operators)


def _graph_title(graph: GraphDesc) -> str:
    count = sum(isinstance(node, OperatorNode) for node in graph.nodes)
    return f"graph of {count} operator{'s' * (count != 1)}"


def _names(bindings: Iterable[Any]) -> tuple[str, ...]:
    return tuple(binding.name for binding in bindings)


def _kernels(subject: _Subject, times: Sequence[KernelTimes]) -> Iterator[KernelProfile]:
    code = subject.program.code
    for number, (kernel, (statement, repeats), taken) in enumerate(zip(code.kernels, code.origins, times, strict=True)):
        cost, repetitions = cost_of(statement, repeats), _product(repeats)
        operators, nodes = subject.operators(statement)
        yield KernelProfile(
            number=number,
            operators=operators,
            nodes=nodes,
            reads=_uses(cost.bytes_read, repetitions),
            writes=_uses(cost.bytes_written, repetitions),
            repetitions=repetitions,
            seconds=taken.duration,
            work=taken.work,
            operations=cost.operations * repetitions,
            description=describe_kernel(kernel, code.target),
        )


def _uses(sizes: dict[Tensor, int], repetitions: int) -> tuple[TensorUse, ...]:
    return tuple(TensorUse(t.name, t.type.name, t.sizes, size * repetitions) for t, size in sizes.items())


def _product(axes: Iterable[Axis]) -> int:
    return math.prod(axis.size for axis in axes)


def _flows(subject: _Subject) -> Iterator[Flow]:
    """Tensors between kernels, from the inputs (but for what is kept from initialisation) and to the outputs."""
    views = dict(subject.definition.views)
    inputs = subject.definition.inputs[: len(subject.inputs)]
    sources: dict[Tensor, list[End]] = {t: [End("input", n)] for n, t in enumerate(inputs) if t is not None}
    for number, (statement, _) in enumerate(subject.program.code.origins):
        here, reads = End("kernel", number), {views.get(t, t): t.name for t in reads_of(statement)}
        for tensor in sorted(reads, key=lambda t: t.name):
            yield from (Flow(source, here, tensor.name) for source in sources.get(tensor, ()) if source != here)
        for tensor in writes_of(statement):
            sources.setdefault(tensor, []).append(here)
    for number, output in enumerate(subject.definition.outputs):
        if output is not None:
            yield from (Flow(source, End("output", number), output.name) for source in sources.get(output, ()))


__all__ = ["End", "Flow", "KernelProfile", "Profile", "TensorUse", "as_json", "profile", "profile_bound", "trace_of"]
