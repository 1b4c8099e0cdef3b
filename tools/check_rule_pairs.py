"""Every pair of breaches of every operator: each must be named beside the other one.

    python tools/check_rule_pairs.py                        # all operators, 500,000 pairs: some minutes
    python tools/check_rule_pairs.py SLICE1 --level 2_1     # some of them, at another feature level

The breaches, and what they have to do with each other, are those of ``tests/breaches.py``. Exits with 1 if a breach is
not named.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from breaches import breaches, missing
from sample_descriptors import samples, transposed_convolution

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.validation import validate


def main() -> int:
    """Tries the pairs, prints those that are not both named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="names such as SLICE1; all by default")
    parser.add_argument("--level", default="6_4", type=FeatureLevel.parse, help="the feature level, 6_4 by default")
    options = parser.parse_args()
    pairs = failures = 0
    for desc in (*samples(), transposed_convolution()):
        if desc.type.name in options.operators or not options.operators:
            tried, failed = try_pairs(desc, options.level)
            pairs, failures = pairs + tried, failures + failed
    print(f"{pairs} pairs, {failures} of them not named")
    return 1 if failures else 0


def try_pairs(desc: Operator, level: FeatureLevel) -> tuple[int, int]:
    """All pairs of a descriptor that is valid at the level; how many, and of how many not both are named."""
    if validate(desc, level):
        return 0, 0
    tried = failed = 0
    for first, second in itertools.combinations(breaches(desc, level), 2):
        if first.change.is_apart_from(second.change):
            tried += 1
            names = missing(first, second, level)
            if names:
                failed += 1
                print(desc.type.name, first.change, second.change, "->", names, flush=True)
    return tried, failed


if __name__ == "__main__":
    sys.exit(main())
