"""Writes the code of random valid descriptors of every operator, thousands of each, and has LLVM read it.

    python tools/soak_descriptors.py [--examples 1000] [--seed 0] [--features native,avx2,baseline] [--jobs 2] [NAME]

The descriptors are those of ``tests/random_descriptors.py``: all types and ranks, strides that permute, pad, repeat and
overlap, degenerate windows; half of them of sizes, strides and amounts up to the largest that DirectML has. Whatever
validates must have code for each of the processors ``--features``, which LLVM parses and verifies: a
``CodeGenerationError``, or any other, is printed with the descriptor, and the tool exits with status 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

SHOWN = 3
"""Failures of an operator that are printed."""


class Result(NamedTuple):
    """Valid descriptors of an operator that were drawn, and what failed."""

    operator: str
    valid: int
    failures: list[str]


def soak(name: str, examples: int, features: tuple[str, ...], huge: bool, start: int) -> Result:
    """Random descriptors of one operator."""
    from execution import check_code
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from random_descriptors import descriptors

    from opendml.description.descriptors import Operator
    from opendml.description.enums import OperatorType
    from opendml.description.validation import validate
    from opendml.targets.cpu.target import host_target

    hosts = [host_target(feature) for feature in features]
    failures: list[str] = []
    valid = 0

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(desc=descriptors(OperatorType[name], huge=huge))
    def check(desc: Operator) -> None:
        nonlocal valid
        if huge and validate(desc):
            return
        valid += 1
        try:
            check_code(desc, hosts)
        except Exception:
            failures.append(f"{desc!r}\n{traceback.format_exc(limit=-3)}")

    check()
    return Result(name, valid, failures)


def main() -> int:
    """Status 0 if nothing has failed."""
    from random_descriptors import is_drawn

    from opendml.operators import implemented

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="such as GEMM (default: all)")
    parser.add_argument("--examples", type=int, default=1000, help="of each operator (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws others (default: %(default)s)")
    parser.add_argument("--features", default="native,avx2,baseline", help="(default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    options = parser.parse_args()
    names = options.operators or [operator.name for operator in implemented() if is_drawn(operator)]
    features = tuple(options.features.split(","))
    failed = valid = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(soak, name, options.examples // 2, features, huge, options.seed)
            for name in names
            for huge in (False, True)
        ]
        for done in running:
            result = done.result()
            failed, valid = failed + len(result.failures), valid + result.valid
            print(f"{result.operator}: {result.valid} valid, {len(result.failures)} failed", flush=True)
            for failure in result.failures[:SHOWN]:
                print(failure, flush=True)
    print(f"{valid} valid descriptors, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
