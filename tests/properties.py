"""On how many examples properties are tried: a share of their full number, so that the usual run is short.

``OPENDML_TEST_SHARE=1`` tries all of them, as ``.ci/run`` does; more than 1 searches longer. What has no examples but
a list of cases takes ``some`` of them, or is marked ``sampled``, which does the same with the cases of a test; of the
other tests with many cases the usual run takes some, too (``conftest.py``).
"""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

SHARE = float(os.environ.get("OPENDML_TEST_SHARE", "0.03"))
LEAST = 2
MANY, SHARE_OF_MANY = 3, max(SHARE, 0.15)
"""Cases of a test from which on the usual run leaves most of them out, and the share of them that it takes."""

Case = TypeVar("Case")


def examples(count: int, **options: Any) -> settings:
    """Settings with the share of ``count`` examples; all of them where there are few."""
    return settings(max_examples=examples_of(count), deadline=None, **options)


def examples_of(count: int) -> int:
    """The share of ``count``, for what is tried in a loop; all of them where there are few."""
    return max(round(count * SHARE), min(count, LEAST))


def some(cases: Sequence[Case], share: float = SHARE) -> Sequence[Case]:
    """The share of the cases, evenly spaced, the same ones every time; at least one."""
    count = min(max(round(len(cases) * share), 1), len(cases))
    return [cases[(2 * number + 1) * len(cases) // (2 * count)] for number in range(count)]


HANGS = 1200
"""Seconds after which a process that a test started counts as hanging, on however busy a machine."""
