"""Runs programs of another processor under emulation, and compares their bits with the interpreter's.

    python tools/cross_check.py [--examples 6] [--chains 400] [--processors generic,neoverse-v1] [--jobs 2]

Programs are compiled for AArch64: the descriptors of ``tests/sample_descriptors.py``, ``--examples`` random ones of
every operator (``tests/random_descriptors.py``), and both parts of random graphs (``tests/random_chains.py``), fused.
Some hundred at a time are linked with a small main function into one executable, which QEMU runs: every program by one
thread and by three, on the thread team's own code, every tensor right before a page that may not be touched, and with
a floating-point environment that flushes and rounds as no program may. What differs from the interpreter, by more than
which NaN it is, is printed with what it was made from, and the tool exits with status 1.

Needs ``aarch64-linux-gnu-gcc`` and ``qemu-aarch64-static`` (Debian: gcc-aarch64-linux-gnu, qemu-user-static).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from opendml.expression.interpreter import NUMPY_TYPES, interpret, memory_of
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition
from opendml.llvm.host import machine_of
from opendml.targets.cpu.target import CpuTarget

Array = np.ndarray[Any, Any]

TRIPLE: Final = "aarch64-unknown-linux-gnu"
COMPILER: Final = "aarch64-linux-gnu-gcc"
EMULATOR: Final = ("qemu-aarch64-static", "-cpu", "max")

BATCH: Final = 150
"""Programs of one executable."""

THREADS: Final = (1, 3)
"""How many threads run each program."""

WAIT: Final = 600
"""Seconds that an executable may take: one that hangs is a failure too."""


@dataclass(frozen=True)
class Case:
    """A definition, and the memory of its tensors before and after it has run."""

    name: str
    definition: Definition
    before: list[Array]
    after: list[Array]


def target(processor: str) -> CpuTarget:
    """An AArch64 processor by LLVM's name, which LLVM can compile for from now on."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = replace(machine_of(TRIPLE, "baseline"), cpu_name=processor)
    return CpuTarget(machine).tuned(serial_work=0)  # however small, all threads take part


# What is run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """What cases are made from: a kind and a number; for random descriptors the operator too."""

    kind: str
    number: int = 0
    operator: str = ""


def sources(examples: int, chains: int, first: int) -> Iterator[Source]:
    """Everything to run; the random ones from the number ``first`` on."""
    from random_descriptors import is_drawn
    from sample_descriptors import samples

    from opendml.operators import implemented

    yield from (Source("sample", number) for number in range(len(samples())))
    if examples:
        yield from (Source("random", first, operator.name) for operator in implemented() if is_drawn(operator))
    yield from (Source("chain", number) for number in range(first, first + chains))


def cases_of(source: Source, examples: int, target: CpuTarget) -> Iterator[Case]:
    """The definitions of a source, refined for a processor, interpreted."""
    from sample_descriptors import samples

    if source.kind == "chain":
        yield from _graph_cases(source.number, target)
        return
    descs = [samples()[source.number]] if source.kind == "sample" else drawn(source.operator, examples, source.number)
    for number, desc in enumerate(descs):
        yield _operator_case(f"{source} {number}: {desc!r}", desc, number, target)


def drawn(operator: str, count: int, start: int) -> list[Any]:
    """Random valid descriptors of an operator."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from random_descriptors import descriptors

    from opendml.description.enums import OperatorType

    found: list[Any] = []
    given_settings = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @seed(start)
    @given_settings
    @given(desc=descriptors(OperatorType[operator]))
    def draw(desc: Any) -> None:
        found.append(desc)

    draw()
    return found


def _operator_case(name: str, desc: Any, number: int, target: CpuTarget) -> Case:
    from execution import random_values
    from graph_reference import memory_of as bytes_of

    from opendml.targets.cpu.refine.refining import refined_definition

    generator = np.random.default_rng(number)
    definition = refined_definition(desc, target)
    memory: dict[Tensor, Array] = {}
    for tensor, (_, described) in zip(definition.inputs, desc.inputs(), strict=True):
        if tensor is not None:
            values = random_values(described.data_type, described.element_span, generator)
            memory[tensor] = _filled(tensor, definition, bytes_of(values, described))
    return _case(name, definition, memory)


def _graph_cases(number: int, target: CpuTarget) -> Iterator[Case]:
    """Both parts of a random graph; the second takes what the first gives."""
    from graph_running import input_buffers
    from random_chains import chain

    import opendml as dml
    from opendml.description.graph_desc import ConstantNode
    from opendml.graph.compilation import divide_and_fuse
    from opendml.graph.joining import join
    from opendml.targets.cpu.refine.refining import refining

    assembly = chain(Random(number), dml.Device(thread_count=1))
    joined = join(assembly.desc, refining(target))
    parts = divide_and_fuse(joined, costs=target.costs)
    content = {t: b for t, b in zip(joined.inputs, input_buffers(assembly, number), strict=True) if b is not None}
    for tensor, place in joined.constants.items():
        node = assembly.desc.nodes[place]
        assert isinstance(node, ConstantNode)
        content[tensor] = np.frombuffer(node.data, np.uint8)
    for part in (parts.initialisation, parts.execution):
        if part is not None:
            memory = {t: _filled(t, part, content[t]) for t in part.inputs if t is not None}
            case = _case(f"chain {number}", part, memory)
            yield case
            outputs = (t for t in part.outputs if t is not None)
            results = case.after[-len(part.outputs) :]
            content |= {t: result.view(np.uint8) for t, result in zip(outputs, results, strict=True)}


def _filled(tensor: Tensor, definition: Definition, content: Array) -> Array:
    buffer = memory_of(tensor, definition)
    size = min(buffer.nbytes, content.size)
    buffer.view(np.uint8)[:size] = content[:size]
    return buffer


def _case(name: str, definition: Definition, memory: dict[Tensor, Array]) -> Case:
    slots = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    before = [memory[t] if t in memory else memory_of(t, definition) for t in slots]
    after = [array.copy() for array in before]
    interpret(definition, dict(zip(slots, after, strict=True)))
    return Case(name, definition, before, after)


# Running it ----------------------------------------------------------------------------------------------------------

MAIN: Final = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void entry_function(void **args, int64_t thread, int64_t threads, void *barrier, void *control);
int64_t team_size(int64_t threads);
void team_initialise(void *team, int64_t capacity, int64_t spins, int64_t processors);
int64_t team_run(void *team, entry_function *entry, void **args, int64_t threads);
@DECLARATIONS@
static entry_function *const entries[] = {@ENTRIES@};

static void *before_a_guard(size_t size) {
  size_t page = 4096, whole = (size + page - 1) / page * page;
  char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + whole, page, PROT_NONE)) abort();
  return memory + whole - size;
}

static uint64_t number_from(FILE *file) {
  uint64_t number;
  if (fread(&number, sizeof number, 1, file) != 1) abort();
  return number;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  FILE *input = fopen(arguments[1], "rb"), *output = fopen(arguments[2], "wb");
  int first = atoi(arguments[3]), programs = sizeof entries / sizeof *entries;
  void *team = calloc(1, team_size(3));
  team_initialise(team, 2, 100, 2);
  uint64_t environment = 1 << 24 | 1 << 22, now;  /* flushes denormals to zero, rounds up */
  for (int p = 0; p < programs; ++p) {
    uint64_t shared = number_from(input), scratch = number_from(input), slots = number_from(input), total = 0;
    void **args = calloc(slots + 1, sizeof *args);
    uint64_t *sizes = calloc(slots, sizeof *sizes);
    for (uint64_t s = 0; s < slots; ++s) total += sizes[s] = number_from(input);
    char *content = malloc(total + 1);
    if (total && fread(content, total, 1, input) != 1) abort();
    for (uint64_t s = 0; s < slots; ++s) args[s] = before_a_guard(sizes[s]);
    for (int threads = 1; threads <= 3 && p >= first; threads += 2) {
      size_t place = 0, needed = (shared + scratch * threads + 63) / 64 * 64;
      for (uint64_t s = 0; s < slots; place += sizes[s++]) memcpy(args[s], content + place, sizes[s]);
      args[slots] = needed ? before_a_guard(needed) : NULL;
      if (needed) memset(args[slots], 0xA5, needed);
      __asm__ volatile("msr fpcr, %0" : : "r"(environment));
      if (team_run(team, entries[p], args, threads) != threads) abort();
      __asm__ volatile("mrs %0, fpcr" : "=r"(now));
      __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
      if (now != environment) abort();
      for (uint64_t s = 0; s < slots; ++s)
        if (sizes[s] && fwrite(args[s], sizes[s], 1, output) != 1) abort();
      fflush(output);
    }
    for (uint64_t s = 0; s < slots; ++s) {
      size_t whole = (sizes[s] + 4095) / 4096 * 4096;
      munmap((char *)args[s] + sizes[s] - whole, whole + 4096);
    }
    free(content), free(sizes), free(args);
  }
  fflush(output);
  _Exit(0);
}
"""


def check(batch: Sequence[Source], examples: int, processor: str) -> tuple[int, list[str]]:
    """How many cases were run, and what failed among them. LLVM may end the process for what it cannot compile."""
    compiled_for = target(processor)
    cases = [case for source in batch for case in cases_of(source, examples, compiled_for)]
    failures: list[str] = []
    for few in _batched(cases, BATCH):
        with tempfile.TemporaryDirectory() as folder:
            failures += run(few, compiled_for, Path(folder))
    return len(cases), failures


def run(cases: Sequence[Case], target: CpuTarget, folder: Path) -> list[str]:
    """What failed among some cases, which are compiled, linked and run in a folder."""
    from opendml.description.errors import CodeGenerationError

    written: list[Case] = []
    failures: list[str] = []
    with (folder / "input").open("wb") as given:
        for case in cases:
            try:
                head = _compile(case, len(written), target, folder)
            except CodeGenerationError as error:
                failures.append(f"{case.name}: {error}")
                continue
            sizes = [array.nbytes for array in case.before]
            given.write(np.array([*head, len(sizes), *sizes], np.uint64).tobytes())
            given.writelines(array.tobytes() for array in case.before)
            written.append(case)
    _link(len(written), target, folder)
    return failures + _emulate(written, folder)


def _compile(case: Case, number: int, target: CpuTarget, folder: Path) -> tuple[int, int]:
    """The object files of a case, whose functions get names that no other case's have; bytes of memory that threads
    share and that each has alone."""
    from opendml.llvm.native import compile_object
    from opendml.targets.cpu.compilation import generate
    from opendml.targets.cpu.runtime.barrier_code import shared_ir

    code = generate(case.definition, target, in_place=False)
    shared = shared_ir(target.machine)
    for part, module in enumerate(module for module in code.modules if module != shared):
        text = re.sub(r"@(opendml_entry|kernel\d+)\b", rf"@program{number}_\1", module)
        (folder / f"program{number}_{part}.o").write_bytes(compile_object(text, target.machine))
    return code.requirements.temporary_size, code.requirements.scratch_size


def _link(count: int, target: CpuTarget, folder: Path) -> None:
    from opendml.llvm.native import compile_object
    from opendml.targets.cpu.runtime.barrier_code import shared_ir
    from opendml.targets.cpu.runtime.team_code import team_ir

    names = [f"program{number}_opendml_entry" for number in range(count)]
    text = MAIN.replace("@DECLARATIONS@", "".join(f"extern entry_function {name};\n" for name in names))
    (folder / "main.c").write_text(text.replace("@ENTRIES@", ", ".join(names)))
    (folder / "team.o").write_bytes(compile_object(team_ir(target.machine), target.machine))
    (folder / "shared.o").write_bytes(compile_object(shared_ir(target.machine), target.machine))
    objects = sorted(path.name for path in folder.glob("*.o"))
    command = [COMPILER, "-O1", "-static", "-pthread", "-o", "programs", "main.c", *objects, "-lm"]
    subprocess.run(command, cwd=folder, check=True)


def _emulate(cases: Sequence[Case], folder: Path) -> list[str]:
    """What programs did otherwise; after one that ends the process the next ones run in another."""
    failures: list[str] = []
    first = 0
    while first < len(cases):
        command = [*EMULATOR, "./programs", "input", "output", str(first)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=WAIT)
            status = f"status {done.returncode} {done.stderr.decode(errors='replace')}"
        except subprocess.TimeoutExpired:
            status = f"no end within {WAIT} seconds"
        data = (folder / "output").read_bytes()
        place = 0
        for case in cases[first:]:
            size = sum(array.nbytes for array in case.before)
            for threads in THREADS:
                if place + size > len(data):
                    break
                failures += _differences(case, data[place : place + size], threads)
                place += size
            else:
                first += 1
                continue
            failures.append(f"{case.name}: ends the process: {status}")
            first += 1
            break
    return failures


def _differences(case: Case, data: bytes, threads: int) -> Iterator[str]:
    place = 0
    slots = [t for t in (*case.definition.inputs, *case.definition.outputs) if t is not None]
    for number, (tensor, wanted) in enumerate(zip(slots, case.after, strict=True)):
        dtype = NUMPY_TYPES[tensor.type.name]
        actual = np.frombuffer(data, np.uint8, wanted.nbytes, place).view(dtype)
        place += wanted.nbytes
        bits = f"u{dtype.itemsize}"
        wrong = actual.view(bits) != wanted.view(bits)
        if dtype.kind == "f":
            wrong &= ~(np.isnan(actual) & np.isnan(wanted))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            count = np.count_nonzero(wrong)
            values = f"element {at} is {actual[at]!r}, expected {wanted[at]!r}"
            yield f"{case.name}: {threads} threads: {count} wrong in tensor {number} of {len(slots)}: {values}"


def _batched(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _check_all(
    batches: Sequence[tuple[list[Source], str]], examples: int, jobs: int
) -> Iterator[tuple[int, list[str]]]:
    """The results of all batches. Where LLVM has ended a process, its sources are run again, each by one of its own."""
    ended: list[tuple[list[Source], str]] = []
    for some in _batched(batches, jobs):
        with ProcessPoolExecutor(jobs) as pool:
            running = [pool.submit(check, batch, examples, processor) for batch, processor in some]
            for (batch, processor), result in zip(some, running, strict=True):
                try:
                    yield result.result()
                except BrokenProcessPool:
                    ended += [([source], processor) for source in batch]
    for batch, processor in ended:
        with ProcessPoolExecutor(1) as pool:
            try:
                yield pool.submit(check, batch, examples, processor).result()
            except BrokenProcessPool:
                yield 1, [f"{batch[0]} for {processor}: the compiler ends the process"]


def main() -> int:
    """Status 0 if nothing has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=6, help="random descriptors an operator (default: %(default)s)")
    parser.add_argument("--chains", type=int, default=400, help="random graphs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first random one (default: %(default)s)")
    parser.add_argument("--processors", default="generic,neoverse-v1", help="LLVM's names (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    options = parser.parse_args()
    os.environ |= {"OPENDML_CACHE": "0"}
    given = list(sources(options.examples, options.chains, options.first))
    step = max(1, BATCH // max(options.examples, 1) // 2)
    batches = [
        (batch, processor)
        for kind, size in (("sample", BATCH), ("random", step), ("chain", BATCH // 2))
        for batch in map(list, _batched([source for source in given if source.kind == kind], size))
        for processor in options.processors.split(",")
    ]
    failed = done = 0
    for count, failures in _check_all(batches, options.examples, options.jobs):
        done, failed = done + count, failed + len(failures)
        print(*failures, f"{done} programs, {failed} failures", sep="\n", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
