"""On how many examples properties are tried: a share of their full number, so that the usual run is short.

``OPENDML_TEST_SHARE=1`` tries all of them, as ``.ci/run`` does; more than 1 searches longer.
"""

import os
from typing import Any

from hypothesis import settings

SHARE = float(os.environ.get("OPENDML_TEST_SHARE", "0.2"))
LEAST = 5


def examples(count: int, **options: Any) -> settings:
    """Settings with the share of ``count`` examples; all of them where there are few."""
    return settings(max_examples=max(round(count * SHARE), min(count, LEAST)), deadline=None, **options)
