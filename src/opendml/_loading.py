"""When this process loaded the package: what has changed since is not what runs."""

from __future__ import annotations

import time
from typing import Final

LOADED_AT: Final = time.time()
"""Seconds since 1970."""
