"""Fuses, writes, interprets and compiles random chains of views and operators, tens of thousands of them.

    python tools/soak_chains.py [--chains 50000] [--first 0] [--jobs 2] [--features native,avx2,baseline]

The chains are those of ``tests/random_chains.py``, each made from its number as the seed of a generator. LLVM's text is
written for every fused chain, for each of the processors ``--features`` in turn: what no stage of the compiler can take
shows there. Every ``--interpret``-th chain is interpreted fused and not, every ``--compile``-th one compiled fused and
not and run between guard pages, and all results are compared bit for bit. What fails is printed with its number, and
the tool exits with status 1; ``--first NUMBER --chains 1`` does one again.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

BATCH = 250
"""Chains that a process does before it reports."""


@dataclass(frozen=True)
class Options:
    """How often what is done."""

    interpret: int
    compile: int
    features: tuple[str, ...]


def soak(numbers: range, options: Options) -> list[str]:
    """What failed among some chains."""
    from graph_running import check_graph
    from random_chains import chain

    import opendml as dml
    from opendml.targets.cpu.target import host_target

    device = dml.Device(thread_count=2)
    failures = []
    for number in numbers:
        try:
            target = host_target(options.features[number % len(options.features)])
            compiled = device if number % options.compile == 0 else None
            check_graph(
                chain(Random(number), device),
                target,
                number,
                interpret=number % options.interpret == 0,
                device=compiled,
            )
        except Exception:
            failures.append(f"chain {number}:\n{traceback.format_exc()}")
    return failures


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, BATCH):
        yield range(start, min(start + BATCH, first + count))


def main() -> int:
    """Status 0 if nothing has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=50_000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--interpret", type=int, default=1, help="interpret every nth (default: %(default)s)")
    parser.add_argument("--compile", type=int, default=100, help="compile and run every nth (default: %(default)s)")
    parser.add_argument("--features", default="native", help="processors to write for (default: %(default)s)")
    given = parser.parse_args()
    os.environ |= {"OPENDML_CACHE": "0"}
    options = Options(given.interpret, given.compile, tuple(given.features.split(",")))
    failed = done = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        batches = list(_batches(given.first, given.chains))
        for numbers, failures in zip(batches, pool.map(soak, batches, [options] * len(batches)), strict=True):
            done, failed = done + len(numbers), failed + len(failures)
            print(*failures, f"{done} chains, {failed} failed", sep="\n", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
