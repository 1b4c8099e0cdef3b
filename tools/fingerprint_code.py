"""Fingerprints of the LLVM text that this package writes, to see that a change of it changes no code.

    python tools/fingerprint_code.py write before.json [--examples 6] [--chains 60] [--kinds sample,random] [--jobs 2]
    python tools/fingerprint_code.py compare before.json [after.json]

``write`` makes the code of a corpus for processors that need not be this one, and keeps a hash of each program:

- ``sample``: one descriptor of every operator (``tests/sample_descriptors.py``), in place and profiled too,
- ``random``: random descriptors of every operator (``tests/random_descriptors.py``), half of them of huge sizes,
- ``chain``: random graphs (``tests/random_chains.py``), fused and not,
- ``benchmark``: the cases of ``benchmarks``,
- ``bytes``: networks of quantised convolutions (``tests/byte_networks.py``),
- ``network``: the networks of ``examples/networks`` at their usual sizes,
- ``runtime``: what is linked with every program, and the team of threads.

The descriptors lie in the file, so that ``compare`` writes the code of the very same ones again, whatever the tests
draw by then. It names what has changed (of a few all, of many the first), and exits with status 1 if anything has; what
cannot be written any more, or only now, has changed too. With a second file it compares the two, which may be of
different trees.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
for _folder in (ROOT / "examples" / "networks", ROOT / "tests", ROOT):
    sys.path.insert(0, str(_folder))

KINDS: Final = ("network", "benchmark", "chain", "bytes", "sample", "random", "runtime")
"""Those that take longest come first, so that all processes end at the same time."""

SHOWN: Final = 60
"""Differences that are printed at most."""

Prints = Mapping[str, str]
"""Machine, and what is special about the program, to the hash of its modules."""


class Work(NamedTuple):
    """What programs are made of: a kind, a name, and the descriptor as JSON where there is one."""

    kind: str
    name: str
    descriptor: Any = None


def targets() -> dict[str, Any]:
    """The processors that code is written for."""
    from opendml.llvm.host import machine_of
    from opendml.targets.cpu.target import CpuTarget

    x86 = {level: machine_of("x86_64-unknown-linux-gnu", level) for level in ("avx512", "avx2", "baseline")}
    vnni = replace(x86["avx512"], features=(*x86["avx512"].features, "avx512vnni"))
    found = x86 | {"vnni": vnni, "aarch64": machine_of("aarch64-unknown-linux-gnu", "baseline")}
    return {name: CpuTarget(machine) for name, machine in found.items()}


# The corpus ----------------------------------------------------------------------------------------------------------


def corpus(kinds: Sequence[str], examples: int, chains: int, operators: Sequence[str] = ()) -> list[Work]:
    """Everything to write, random descriptors drawn; of samples and random ones those of some ``operators``, or all."""
    return [work for kind in KINDS if kind in kinds for work in _CORPORA[kind](examples, chains, operators)]


def _networks(*_: object) -> Iterator[Work]:
    from benchmarks.networks import EXAMPLES

    return (Work("network", name) for name in reversed(EXAMPLES))


def _benchmarks(*_: object) -> Iterator[Work]:
    from benchmarks.cases import all_cases
    from opendml.description.descriptors import Operator

    for case in all_cases():
        yield Work("benchmark", case.title, case.operator.to_json() if isinstance(case.operator, Operator) else None)


def _chains(_: int, chains: int, __: object) -> Iterator[Work]:
    return (Work("chain", str(number)) for number in range(chains))


def _networks_of_bytes(*_: object) -> Iterator[Work]:
    from byte_networks import NETWORKS

    return (Work("bytes", name) for name in NETWORKS)


def _samples(_: int, __: int, operators: Sequence[str]) -> Iterator[Work]:
    from sample_descriptors import samples

    for number, desc in enumerate(samples()):
        if not operators or desc.type.name in operators:
            yield Work("sample", f"{desc.type.name} {number}", desc.to_json())


def _drawn(examples: int, _: int, operators: Sequence[str]) -> Iterator[Work]:
    from random_descriptors import is_drawn

    from opendml.operators import implemented

    names = operators or [operator.name for operator in implemented() if is_drawn(operator)]
    for name in names:
        for huge in (False, True):
            for number, desc in enumerate(_random(name, examples // 2, huge) if examples else []):
                yield Work("random", f"{name}{' huge' if huge else ''} {number}", desc.to_json())


def _random(name: str, count: int, huge: bool) -> list[Any]:
    """Random valid descriptors of an operator, the same in every process."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from random_descriptors import descriptors

    from opendml.description.enums import OperatorType
    from opendml.description.validation import validate

    found: dict[Any, None] = {}
    options = settings(
        max_examples=4 * count if huge else count,  # not all huge ones are valid
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @seed(0)
    @options
    @given(desc=descriptors(OperatorType[name], huge=huge))
    def draw(desc: Any) -> None:
        if len(found) < count and not (huge and validate(desc)):
            found[desc] = None

    draw()
    return list(found)


_CORPORA: Final[dict[str, Callable[[int, int, Sequence[str]], Iterator[Work]]]] = {
    "network": _networks,
    "benchmark": _benchmarks,
    "chain": _chains,
    "bytes": _networks_of_bytes,
    "sample": _samples,
    "random": _drawn,
    "runtime": lambda *_: iter([Work("runtime", "")]),
}


# Its code ------------------------------------------------------------------------------------------------------------


def prints_of(work: Work) -> Prints:
    """The hashes of all programs of a work; errors of the package in place of what could not be written."""
    return {name: _hash(write) for name, write in _programs(work)}


def _hash(write: Callable[[], Iterable[str]]) -> str:
    digest = hashlib.sha256()
    try:
        for module in write():
            digest.update(f"{len(module)}\n{module}".encode())
    except Exception as error:  # what cannot be written must be the same, too
        return f"{type(error).__name__}: {error}"[:200]
    return digest.hexdigest()[:24]


Program = tuple[str, Callable[[], Iterable[str]]]


def _programs(work: Work) -> Iterator[Program]:
    if work.kind == "runtime":
        yield from _runtime_programs()
    elif work.descriptor is not None:
        yield from _operator_programs(work)
    else:
        yield from _graph_programs(work)


def _operator_programs(work: Work) -> Iterator[Program]:
    from opendml.description.descriptors import Operator
    from opendml.targets.cpu.refine.refining import refined_definition

    desc = Operator.from_json(work.descriptor)
    for machine, target in targets().items():
        write = partial(_modules, refined_definition(desc, target), target)
        yield machine, write
        if desc.in_place:
            yield f"{machine} in place", partial(write, in_place=True)
        if work.kind == "sample":
            yield f"{machine} profiled", partial(write, profiled=True)


def _graph_programs(work: Work) -> Iterator[Program]:
    from opendml.graph.compilation import divide_and_fuse
    from opendml.graph.joining import join
    from opendml.targets.cpu.layouts import laid_out
    from opendml.targets.cpu.refine.refining import refining

    graph = _graph(work)
    for machine, target in targets().items():
        joined = join(laid_out(graph, target), refining(target))
        for fusion in (True, False) if work.kind == "chain" else (True,):
            parts = divide_and_fuse(joined, fusion=fusion, costs=target.costs)
            for label, part in (("", parts.execution), (" initialisation", parts.initialisation)):
                if part is not None:
                    name = f"{machine}{label}{'' if fusion else ' unfused'}"
                    yield name, partial(_modules, part, target)


def _modules(definition: Any, target: Any, *, in_place: bool = False, profiled: bool = False) -> Iterable[str]:
    from opendml.targets.cpu.compilation import generate

    return generate(definition, target, in_place=in_place, profiled=profiled).modules


def _graph(work: Work) -> Any:
    import opendml as dml

    device = dml.Device(thread_count=1)
    if work.kind == "chain":
        from random_chains import chain

        return chain(Random(int(work.name)), device).desc
    if work.kind == "bytes":
        from byte_networks import NETWORKS, described

        return described(NETWORKS[work.name][0], 2, "uint8")
    graph = dml.Graph(device)
    if work.kind == "network":
        return graph.assemble(importlib.import_module(work.name).build(graph).output).desc
    from benchmarks.cases import all_cases
    from benchmarks.chains import Chain

    (case,) = [case.operator for case in all_cases() if case.title == work.name]
    assert isinstance(case, Chain)
    inputs = [graph.input(tensor.data_type, tensor.sizes, name=name) for name, tensor in case.inputs() if tensor]
    return graph.assemble(case.build(*inputs)).desc


def _runtime_programs() -> Iterator[Program]:
    from opendml.targets.cpu.runtime.array_calls import bound_call_ir, calls_ir
    from opendml.targets.cpu.runtime.barrier_code import barrier_ir, control_ir
    from opendml.targets.cpu.runtime.team_code import team_ir

    for machine, target in targets().items():
        yield f"barrier {machine}", partial(_written, barrier_ir, target.machine)
        yield f"team {machine}", partial(_written, team_ir, target.machine)
    yield "control", lambda: [control_ir()]
    yield "array calls", lambda: [calls_ir(16), bound_call_ir(16)]


def _written(write: Callable[[Any], str], machine: Any) -> list[str]:
    return [write(machine)]


# Files ---------------------------------------------------------------------------------------------------------------


def fingerprints(works: Sequence[Work], jobs: int = 1) -> dict[Work, Prints]:
    """The prints of works, by so many processes."""
    if jobs == 1:
        return dict(zip(map(_key, works), map(prints_of, works), strict=True))
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(map(_key, works), pool.map(prints_of, works, chunksize=1), strict=True))


def _key(work: Work) -> Work:
    """A work that can be looked up: its descriptor as text."""
    return work._replace(descriptor=work.descriptor and json.dumps(work.descriptor))


def save(path: Path, prints: Mapping[Work, Prints]) -> None:
    """A file of lines, one a work."""
    path.write_text("".join(json.dumps([*work, found]) + "\n" for work, found in prints.items()), encoding="utf-8")


def load(path: Path) -> dict[Work, Prints]:
    """What ``save`` has written."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {Work(kind, name, descriptor): found for kind, name, descriptor, found in rows}


def works_of(prints: Mapping[Work, Prints]) -> list[Work]:
    """The works of a file, to be written again."""
    return [work._replace(descriptor=work.descriptor and json.loads(work.descriptor)) for work in prints]


def differences(before: Mapping[Work, Prints], after: Mapping[Work, Prints]) -> Iterator[str]:
    """A line for every program that is not the same, or is in one of the two only."""
    for work in {**before, **after}:
        old, new = before.get(work, {}), after.get(work, {})
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                change = "is new" if name not in old else "is gone" if name not in new else "has changed"
                errors = [text for text in (old.get(name, ""), new.get(name, "")) if ": " in text]
                yield f"{work.kind} {work.name}, {name}: {change}{''.join(f' ({error})' for error in errors)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 0 if nothing has changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("file", type=Path)
    write.add_argument("--examples", type=int, default=6, help="random descriptors of an operator (default: 6)")
    write.add_argument("--chains", type=int, default=60, help="random graphs (default: 60)")
    write.add_argument("--kinds", default=",".join(KINDS), help="(default: all)")
    write.add_argument("--operators", help="of samples and random descriptors, such as GEMM,CONVOLUTION (default: all)")
    compare = commands.add_parser("compare")
    compare.add_argument("file", type=Path)
    compare.add_argument("other", type=Path, nargs="?", help="(default: what this tree writes)")
    for command in (write, compare):
        command.add_argument(
            "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors)"
        )
    options = parser.parse_args(arguments)
    if options.command == "write":
        operators = options.operators.split(",") if options.operators else ()
        works = corpus(options.kinds.split(","), options.examples, options.chains, operators)
        prints = fingerprints(works, options.jobs)
        save(options.file, prints)
        print(f"{sum(map(len, prints.values()))} programs of {len(prints)} works")
        return 0
    before = load(options.file)
    after = load(options.other) if options.other else fingerprints(works_of(before), options.jobs)
    found = list(differences(before, after))
    print(
        "\n".join(found[:SHOWN]) + ("\n" if found else "") + f"{len(found)} of {sum(map(len, before.values()))} differ"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
