"""Modules of the benchmarks, which are no package that is installed: a test puts the root on the path first."""

from __future__ import annotations

import importlib
from typing import Any


def module(name: str) -> Any:
    """One of them."""
    return importlib.import_module(f"benchmarks.{name}")


def timing(*samples: float) -> Any:
    """A Timing of samples in seconds."""
    return module("timing").Timing.of(samples)
