"""Where the time of a program goes: its kernels, what they move and compute, and how fast the machine could do that.

profile = dml.profile(program, image)
print(profile)                                  # a table
profile.save_page("profile.html")               # the same with the fused graph drawn
profile.save_trace("trace.json")                # for chrome://tracing or ui.perfetto.dev
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opendml.building.graph_program import GraphProgram
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.notebook import paragraphs, table
from opendml.description.quoting import ascii_only, listed, plural, quoted
from opendml.expression.ir import Axis, Tensor
from opendml.expression.statements import Definition, reads_of, writes_of
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.staging import StagedProgram
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.graph.provenance import Provenance
from opendml.inspection.measurements import End, Flow, KernelProfile, Measurements, TensorUse
from opendml.inspection.profile_files import trace_of
from opendml.inspection.profile_page import page
from opendml.inspection.profile_table import clean, format_seconds, profile_table, profile_text, summary
from opendml.loops.costs import cost_of
from opendml.programs.compiled_graph import CompiledGraph
from opendml.programs.interpreted import InterpretedExecutable
from opendml.programs.program import Program, shallow_copy
from opendml.targets.registry import has_threads

if TYPE_CHECKING:
    from opendml.targets.interface import KernelTimes, TimedExecutable
    from opendml.targets.target import KernelDescription, Requirements, Target

LEAST_RUNS: Final = 3
MOST_RUNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Profile(Measurements):
    """What was measured of a program, as a table (``print``), a page or a trace."""

    def __str__(self) -> str:
        return profile_text(self)

    def _repr_html_(self) -> str:
        rows = profile_table(self)
        shown = table(self.title, [column.heading for column in rows.columns], rows.rows)
        return shown + paragraphs(summary(self))

    def save_page(self, path: str | Path) -> None:
        """Write a page of HTML that needs no other file."""
        Path(path).write_text(page([self]), encoding="utf-8")

    def save_trace(self, path: str | Path) -> None:
        """Write a trace in Chrome's format (JSON), with a track for each thread and the kernels one after another."""
        Path(path).write_text(trace_of([self]), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class StagedProfile(Profile):
    """What was measured of an ONNX program in parts: ``parts``, the profiles of its programs, which ran ``counts``
    times each, and beside them what the host took that drives them.

    ``kernels`` are those of all parts, with the time of all their runs. ``seconds`` is the time of the whole program;
    what the records take in its parts is added to that in ``instrumented_seconds``.
    """

    parts: tuple[Profile, ...] = ()
    counts: tuple[int, ...] = ()

    def __str__(self) -> str:
        return "\n\n".join([ascii_only("\n".join(staged_summary(self))), *map(str, self.parts)])

    def _repr_html_(self) -> str:
        return paragraphs(staged_summary(self)) + "".join(one._repr_html_() for one in self.parts)

    def save_page(self, path: str | Path) -> None:
        """Write a page of HTML with the parts one below the other."""
        Path(path).write_text(page(self.parts), encoding="utf-8")

    def save_trace(self, path: str | Path) -> None:
        """Write a trace in Chrome's format (JSON), with a process for each part."""
        Path(path).write_text(trace_of(self.parts), encoding="utf-8")


def staged_summary(profile: StagedProfile) -> list[str]:
    """What there is to say about a program in parts, a line each."""
    inside = sum(count * part.seconds for part, count in zip(profile.parts, profile.counts, strict=True))
    return [
        profile.title,
        f"{len(profile.parts)} programs, driven from the host: a run takes {format_seconds(profile.seconds)}, the "
        f"fastest of {profile.runs}. Its programs by themselves take {format_seconds(inside)} of that",
        *(
            f"{clean(part.title)}: {count} x {format_seconds(part.seconds)}"
            for part, count in zip(profile.parts, profile.counts, strict=True)
        ),
    ]


def profile(
    program: Program | CompiledGraph | GraphProgram | OnnxProgram, *arrays: Any, seconds: float = 0.5, **named: Any
) -> Profile:
    """Run a program again and again for about ``seconds``, and tell where its time goes.

    The arrays are those of a call of the program, by position or, for programs of graphs that were built by expression,
    by name. Those of an ONNX program are by name as for its ``run``, ``dml.profile(program, {"x": x})``, or as for a
    call; its kernels name the model's nodes. One in parts, which the host drives, gives a ``StagedProfile``. The first
    use measures the machine's limits (half a second), where its target knows how, and compiles a
    variant of the program. Raises BindingError where arrays do not fit, ConfigurationError for a program of the
    reference device, or of one without a clock.
    """

    if isinstance(program, OnnxProgram):
        return profile_of_model(program, _arrays_by_name(program, arrays, named), seconds)

    def bind(target: Any) -> Callable[[], None]:
        if isinstance(target, GraphProgram):
            return target.bind(*arrays, **named)
        if named:
            raise BindingError(f"this program has no inputs by name, got {', '.join(named)}")
        outputs = (target.execution if isinstance(target, CompiledGraph) else target).new_outputs()
        return target.bind(arrays, outputs)  # type: ignore[no-any-return]

    return profile_bound(program, bind, seconds=seconds)


def _arrays_by_name(program: OnnxProgram, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of an ONNX program: those of one mapping, or by position, and those by name."""
    if len(arrays) == 1 and isinstance(arrays[0], Mapping):
        return {**arrays[0], **named}
    if len(arrays) > len(program.inputs):
        raise BindingError(f"expected {listed(one.name for one in program.inputs)}, got {len(arrays)} arrays")
    return {**{one.name: array for one, array in zip(program.inputs, arrays, strict=False)}, **named}


def profile_of_model(
    program: OnnxProgram, arrays: Mapping[str, Any], seconds: float, title: str | None = None
) -> Profile:
    """As ``profile``, of an ONNX program, for arrays by name."""
    if isinstance(program, StagedProgram):
        return _profile_of_parts(program, arrays, seconds)
    if program.program is None:
        raise ConfigurationError("all of its outputs are known without computing, so that there are no kernels")

    def bind(target: Any) -> Callable[[], None]:
        return program.with_program(target).bind(arrays)

    return profile_bound(program.program, bind, seconds=seconds, title=title)


def _profile_of_parts(program: StagedProgram, arrays: Mapping[str, Any], seconds: float) -> StagedProfile:
    """A profile of every program that runs as a part of this one, with the arrays that it is given first."""
    _, recorded = program.run_recorded(arrays)
    runs = [run for run in recorded if run.program.program is not None]
    if not runs:
        raise ConfigurationError("all that its parts give is known without computing, so that there are no kernels")
    share = seconds / (len(runs) + 1)
    best, count = math.inf, 0
    deadline = time.perf_counter() + share
    while count < LEAST_RUNS or (time.perf_counter() < deadline and count < MOST_RUNS):
        best = min(best, _timed(partial(program.run, arrays)))
        count += 1
    parts = tuple(profile_of_model(run.program, run.arrays, share, run.place) for run in runs)
    counts = tuple(run.times for run in runs)
    kernels = [kernel.times(number) for part, number in zip(parts, counts, strict=True) for kernel in part.kernels]
    records = sum(n * (part.instrumented_seconds - part.seconds) for part, n in zip(parts, counts, strict=True))
    return StagedProfile(
        title=f"a program in parts around {program.driven}",
        kernels=tuple(replace(kernel, number=number) for number, kernel in enumerate(kernels)),
        inputs=tuple(one.name for one in program.inputs),
        outputs=tuple(one.name for one in program.outputs),
        flows=(),
        seconds=best,
        instrumented_seconds=best + records,
        runs=count,
        temporary_bytes=sum(part.temporary_bytes for part in parts),
        alive_bytes=max(part.alive_bytes for part in parts),
        thread_bytes=max(part.thread_bytes for part in parts),
        device=parts[0].device,
        thread_count=parts[0].thread_count,
        limits=parts[0].limits,
        parts=parts,
        counts=counts,
    )


def profile_bound(
    program: Program | CompiledGraph | GraphProgram,
    bind: Callable[[Any], Callable[[], None]],
    *,
    seconds: float = 0.5,
    title: str | None = None,
) -> Profile:
    """As ``profile``, where ``bind`` makes what runs the program, or the variant of it that it is given, once."""
    variant, subject = _variant(program)
    _, target, needs, _, clocks = subject.timed
    plain, recorded = bind(program), bind(variant)
    clocks.reset()
    recorded()
    plain()
    deadline = time.perf_counter() + seconds
    best, best_plain, times, runs = math.inf, math.inf, clocks.times(), 0
    while runs < LEAST_RUNS or (time.perf_counter() < deadline and runs < MOST_RUNS):
        clocks.reset()
        best = min(best, _timed(recorded))
        times = list(map(min, times, clocks.times()))
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
        temporary_bytes=needs.temporary_size,
        alive_bytes=needs.least_temporary_size,
        thread_bytes=needs.scratch_size,
        device=target.name,
        thread_count=clocks.thread_count if has_threads(target.name) else None,
        limits=target.limits(clocks.thread_count),
    )


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# What is profiled -----------------------------------------------------------------------------------------------------


class _Timed(NamedTuple):
    """A program that measures its kernels, and what its target says of it."""

    program: Program
    target: Target
    requirements: Requirements
    kernels: Sequence[KernelDescription]
    clocks: TimedExecutable


class _Subject(NamedTuple):
    """What is profiled: its definition, the names of its inputs and outputs by their tensors, and what tells operators
    and nodes of a statement."""

    title: str
    timed: _Timed
    definition: Definition
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: Callable[[Any], tuple[tuple[str, ...], tuple[str, ...]]]


def _variant(program: Program | CompiledGraph | GraphProgram) -> tuple[Any, _Subject]:
    """The same program with clocks, and what is known about it."""
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
    target = _target_of(program)
    definition = target.refine(program.desc.define())
    name = program.desc.type.name
    timed = _timed_program(definition, program)
    names = _names(program.inputs), _names(program.outputs)
    return timed.program, _Subject(name, timed, definition, *names, lambda _: ((name,), ()))


def _target_of(program: Program) -> Target:
    assert program.target is not None  # only interpreted programs have none
    return program.target


def _timed_program(definition: Definition, original: Program) -> _Timed:
    """The program of a definition with clocks, for the same tensors and threads as the ``original`` one."""
    target, in_place = _target_of(original), original.in_place
    code, clocks = target.instrumented(definition, in_place=in_place, thread_count=original.thread_count)
    program = Program(clocks, inputs=original.inputs, outputs=original.outputs, in_place=in_place)
    return _Timed(program, target, code.requirements, code.describe_kernels(), clocks)


def _graph_variant(program: CompiledGraph) -> tuple[CompiledGraph, _Subject]:
    graph, target = program.desc, _target_of(program.execution)
    joined = join(target.lay_out(graph), target.refine, program.bounds)
    parts = divide_and_fuse(joined, fusion=program.fusion, costs=target.costs)
    timed = _timed_program(parts.execution, program.execution)
    provenance = Provenance(graph, joined, parts.execution, parts.lodgings)

    def operators(statement: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        numbers = provenance.nodes(statement)
        nodes = [(n, node) for n in numbers for node in [graph.nodes[n]] if isinstance(node, OperatorNode)]
        return tuple(node.operator.type.name for _, node in nodes), tuple(node.name or f"node{n}" for n, node in nodes)

    variant = shallow_copy(program)
    variant.execution = timed.program
    names = _names(program.inputs), _names(program.outputs)
    return variant, _Subject(_graph_title(graph), timed, parts.execution, *names, operators)


def _graph_title(graph: GraphDesc) -> str:
    count = sum(isinstance(node, OperatorNode) for node in graph.nodes)
    return f"graph of {plural(count, 'operator')}"


def _names(bindings: Iterable[Any]) -> tuple[str, ...]:
    return tuple(binding.name for binding in bindings)


def _kernels(subject: _Subject, times: Sequence[KernelTimes]) -> Iterator[KernelProfile]:
    for number, (kernel, taken) in enumerate(zip(subject.timed.kernels, times, strict=True)):
        cost, repetitions = cost_of(kernel.statement, kernel.repeats), _product(kernel.repeats)
        operators, nodes = subject.operators(kernel.whole)
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
            description=kernel.text,
            integer_operations=cost.integer_operations * repetitions,
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
    for number, kernel in enumerate(subject.timed.kernels):
        here, reads = End("kernel", number), {views.get(t, t): t.name for t in reads_of(kernel.statement)}
        for tensor in sorted(reads, key=lambda t: t.name):
            yield from (Flow(source, here, tensor.name) for source in sources.get(tensor, ()) if source != here)
        for tensor in writes_of(kernel.statement):
            sources.setdefault(tensor, []).append(here)
    for number, output in enumerate(subject.definition.outputs):
        if output is not None:
            yield from (Flow(source, End("output", number), output.name) for source in sources.get(output, ()))


__all__ = ["Profile", "StagedProfile", "profile", "profile_bound", "profile_of_model", "staged_summary"]
