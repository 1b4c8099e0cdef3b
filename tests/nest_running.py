"""Programs run by their nests, with NumPy, and by their code, between guard pages, by any number of threads.
``check_nests`` holds both against each other, and against the definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
from execution import assert_same_values, for_all_threads, guarded_buffer, guarded_memory, random_values, seeds
from hypothesis import strategies as st
from random_chains import chain
from random_definitions import definitions
from random_descriptors import descriptors
from random_graphs import graphs

import opendml as dml
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.errors import ConfigurationError
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import Axis, Tensor
from opendml.expression.printer import format_definition
from opendml.expression.statements import Definition, Single
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import LEVELS, Machine, host_machine, machine_of
from opendml.loops.nest import Nest
from opendml.loops.sequence import Sharing, sequence_of
from opendml.loops.sequence import Tuning as SequenceTuning
from opendml.loops.sequence_interpreter import run_sequence
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.layouts import laid_out
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refined_definition, refining
from opendml.targets.cpu.tuning import TUNING

Array = np.ndarray[Any, Any]
Contents = Mapping[Tensor, Array]

DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}


def _hosts() -> list[Machine]:
    """This processor, and what it would be with narrower vectors and fewer instructions."""
    found = [host_machine()]
    for level in LEVELS:
        try:
            found.append(host_machine(level))
        except ConfigurationError:
            continue
    return found


X86 = "x86_64-unknown-linux-gnu"
HOSTS = _hosts()
OTHERS = [
    machine
    for machine in (
        machine_of(X86, "avx512"),
        machine_of(X86, "avx2"),
        machine_of("aarch64-unknown-linux-gnu", "baseline"),
    )
    if machine.vector_bytes not in {host.vector_bytes for host in HOSTS} or machine.architecture == "aarch64"
]
"""Processors whose nests run here, too, though their code does not."""

MANY_THREADS = for_all_threads(TUNING)
TUNINGS = [
    MANY_THREADS,
    replace(MANY_THREADS, little_work=TUNING.little_work),
    replace(MANY_THREADS, work_between_looks=16, pooled_part=0.5, prefetched_bytes=0, stored_prefetch_distance=64),
    replace(MANY_THREADS, streamed_bytes=0, streamed_row_bytes=0, prefetched_bytes=0, long_results=1),
    replace(MANY_THREADS, streamed_bytes=0, streamed_row_bytes=1 << 40, stage_bytes=512),
    replace(MANY_THREADS, prefetched_bytes=0, fold_steps_at_once=2, fold_row_bytes=0, scanned_row_bytes=256),
    TUNING,
]
HOST_TARGETS = st.builds(Processor, st.sampled_from(HOSTS), st.sampled_from(TUNINGS))
TARGETS = st.builds(Processor, st.sampled_from([*HOSTS, *OTHERS]), st.sampled_from(TUNINGS))
"""Processors, whichever this one is."""

ORDERS = st.sampled_from([1, 2, 7]).flatmap(lambda count: st.permutations(range(count)))
"""Threads in the order in which they go between two barriers."""

PROGRAMS = ("definitions", "graphs", "chains")
"""What cases there are beside those of operators."""


class Case(NamedTuple):
    """Definitions for a target, and what is in the buffers that they are given: ``check_case`` runs them."""

    definitions: tuple[Definition, ...]
    target: Processor
    order: Sequence[int]
    seed: int
    in_place: bool = False

    def __repr__(self) -> str:
        texts = "\n".join(map(format_definition, self.definitions))
        where = f"{self.target!r}, threads in order {list(self.order)}, seed {self.seed}"
        return f"{texts}\non {where}{', in place' if self.in_place else ''}"


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case:
    """Random definitions, or those of random graphs or chains (what runs once, and what runs always), or that of a
    random descriptor of the operator ``name``, as a processor refines it."""
    target = draw(HOST_TARGETS if name in ("graphs", "chains") else TARGETS)
    order, seed = draw(ORDERS), draw(seeds)
    if name == "definitions":
        return Case((draw(definitions()),), target, order, seed, draw(st.booleans()))
    if name not in PROGRAMS:
        return Case((refined_definition(draw(descriptors(OperatorType[name])), target),), target, order, seed)
    if name == "graphs":
        graph = draw(graphs(most=3))
    else:
        graph = chain(Random(draw(st.integers(0, 1 << 32))), dml.Device(thread_count=1)).desc
    joined = join(laid_out(graph, target), refining(target))
    parts = divide_and_fuse(joined, fusion=draw(st.booleans()), costs=target.costs)
    found = tuple(part for part in (parts.initialisation, parts.execution) if part is not None)
    return Case(found, target, order, seed)


def check_case(case: Case) -> None:
    """``check_nests`` of all definitions. What runs once computes what the next one is given: it may rely on it, as the
    places of elements that are not 0 do."""
    computed: dict[Tensor, Array] = {}
    for definition in case.definitions:
        contents = contents_of(definition, case.seed)
        contents |= {tensor: computed[tensor] for tensor in contents if tensor in computed}
        check_nests(definition, case.target, contents, case.order, in_place=case.in_place)
        if definition is not case.definitions[-1]:
            computed = {tensor: content.copy() for tensor, content in contents.items()}
            interpret(definition, computed)


def contents_of(definition: Definition, seed: int) -> dict[Tensor, Array]:
    """Random values in everything that is given, what is written too."""
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    return {t: random_values(DATA_TYPES[NUMPY_TYPES[t.type.name]], t.extent, generator) for t in tensors}


def check_nests(
    definition: Definition, target: Processor, contents: Contents, order: Sequence[int], *, in_place: bool = False
) -> None:
    """The program of a definition on a target: its nests by threads in an ``order``, and, if this processor is the
    target's, its code by 1, 2 and 7 threads, with the same bits in every buffer, gaps and inputs included; and with
    those of the definition."""
    with guarded_memory(apart=True):
        code = target.generate(definition, in_place=in_place)
        nests = run_by_nests(code, contents, order)
        if target.machine in HOSTS:
            for found in run_by_code(code, target, contents):
                _assert_same(found, nests)
    expected = _copies(contents)
    interpret(definition, expected)
    _assert_same(nests, expected)


def check_on_hosts(definition: Definition) -> None:
    """The program of a definition, as targets refine it, for each processor that this one can be, by few knobs of small
    work items and by those of usual ones."""
    for machine, tuning in itertools.product(HOSTS, (MANY_THREADS, TUNING)):
        target = Processor(machine, tuning)
        check_nests(target.refine(definition), target, contents_of(definition, 1), (1, 0))


def run_by_nests(code: ProgramCode, contents: Contents, order: Sequence[int]) -> Contents:
    """The buffers of a program whose nests have run."""
    found, nests = _copies(contents), code.nests
    run_sequence(code.sequence, found, lambda call: nests[call.number], order)
    return found


class _Statement(NamedTuple):
    """A kernel of a statement, for targets whose programs are no sequences; all threads take part."""

    name: str
    tensors: tuple[Tensor, ...] = ()
    work: int = 1
    is_serial: bool = False
    takes_turns: bool = False
    scratch_bytes: int = 0


def run_by_nests_of(
    definition: Definition, contents: Contents, nest_of: Callable[[Single], Nest], order: Sequence[int]
) -> Contents:
    """The buffers of a definition whose statements have run by the nests that some target has for them."""

    def make(statement: Single, repeats: tuple[Axis, ...], order: Mapping[Tensor, int], sharing: Sharing) -> _Statement:
        return _Statement(f"{id(statement)}")

    found = _copies(contents)
    sequence = sequence_of(
        definition,
        make,
        SequenceTuning(serial_work=0, long_run=1 << 62, like_statements=1 << 62, long_statement=1 << 62),
    )
    run_sequence(sequence, found, lambda call: nest_of(call.statement), order)
    return found


def run_by_code(code: ProgramCode, target: Processor, contents: Contents) -> list[Contents]:
    """The buffers of a program that has run, between guard pages: by each of several numbers of threads."""
    objects, _ = target.compile(code.modules)
    executable = target.load(objects, code.requirements, 7)
    results: list[Contents] = []
    for number, threads in enumerate((1, 2, 7)):
        found = {t: guarded_buffer(b.size, b.dtype, at_end=number % 2 == 0) for t, b in contents.items()}
        for tensor, buffer in found.items():
            buffer[...] = contents[tensor]
        executable.with_thread_count(threads).run([found[tensor] for tensor in code.slots], [])
        results.append(found)
    return results


def _copies(contents: Contents) -> dict[Tensor, Array]:
    return {tensor: content.copy() for tensor, content in contents.items()}


def _assert_same(actual: Contents, expected: Contents) -> None:
    for tensor, buffer in actual.items():
        assert_same_values(buffer, expected[tensor])
