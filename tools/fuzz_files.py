"""Mangles files of models, graphs and descriptors, and reads them: tens of thousands of them.

    python tools/fuzz_files.py [--files 50000] [--first 0] [--minutes 20]

The files, the readers and the bounds on their work and memory are those of ``tests/mangled_files.py``. A file is made
from its number: what fails is printed with it, and ``--first NUMBER --files 1`` reads one again. Ends with the most
that any file took, and with status 1 if one failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from mangled_files import excess, mangled, read_all


def main() -> int:
    """Reads the files, prints what fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="ends after that time, whatever is left")
    options = parser.parse_args()
    tracemalloc.start()
    end = time.monotonic() + 60 * options.minutes
    done = failures = 0
    most: dict[str, tuple[float, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.first, options.first + options.files):
            if time.monotonic() > end:
                break
            data = mangled(number)
            try:
                spent = read_all(data, Path(folder))
                over = [line for one in spent if (line := excess(one, len(data)))]
                if over:
                    raise AssertionError("; ".join(over))
            except BaseException as error:
                failures += 1
                print(f"file {number}, {len(data)} bytes:\n{traceback.format_exc()}", flush=True)
                if isinstance(error, KeyboardInterrupt):
                    break
            else:
                for one in spent:
                    for what in ("calls", "memory"):
                        value = getattr(one, what)
                        most[f"{one.reader} {what}"] = max(most.get(f"{one.reader} {what}", (0, 0)), (value, number))
            done += 1
    for what, (value, number) in sorted(most.items()):
        print(f"most {what}: {value:,} for file {number}")
    print(f"{done} files, {failures} of them failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
