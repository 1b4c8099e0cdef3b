"""When this process loaded the package (what has changed since is not what runs), and how it loads what is put off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

LOADED_AT: Final = time.time()
"""Seconds since 1970."""

load_operator: Callable[[Any], None]
"""Imports the file that has an operator's class. The package itself says how: descriptors know of no operator."""
