"""Runs the nests and the code of random definitions, descriptors and graphs, and compares them bit for bit.

    python tools/soak_nests.py [--examples 200] [--seed 0] [--jobs 2] [NAME]

The checks are those of ``tests/test_nests_and_code.py``: for this processor, and as it would be with narrower vectors
and fewer instructions, nests run by threads in any order, and code between guard pages by 1, 2 and 7 threads. NAME is
an operator, or ``definitions``, ``graphs`` or ``chains``; by default all are tried, so many times each. What fails is
printed with what hypothesis has shrunk it to, and the tool exits with status 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def soak(name: str, examples: int, start: int) -> str:
    """What failed of a name; nothing if all agree."""
    os.environ["OPENDML_CACHE"] = "0"
    from hypothesis import HealthCheck, given, seed, settings
    from nest_running import cases, check_case

    options = settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    try:
        seed(start)(options(given(cases(name))(check_case)))()
    except Exception as error:
        return "".join(traceback.format_exception(error))
    return ""


def main() -> int:
    """Status 0 if nothing has failed."""
    from nest_running import PROGRAMS
    from random_descriptors import is_drawn

    from opendml.operators import implemented

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="such as GEMM, or chains (default: all)")
    parser.add_argument("--examples", type=int, default=200, help="of each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws others (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    options = parser.parse_args()
    names = options.names or [*PROGRAMS, *(operator.name for operator in implemented() if is_drawn(operator))]
    failed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {name: pool.submit(soak, name, options.examples, options.seed) for name in names}
        for name, done in running.items():
            failed += bool(done.result())
            print(f"{name}: {done.result() or 'as the nests say'}", flush=True)
    print(f"{len(names)} names, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
