"""Ranges of numbers that inputs of models are drawn from.

Imports no more than NumPy: the table of models measures how long an engine's own import takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Range(NamedTuple):
    """Numbers from ``low`` to ``high``, which is not among them; only whole ones if ``is_whole``."""

    low: float
    high: float
    is_whole: bool = False

    def draw(self, random: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """So many of them, each as likely as any other."""
        drawn: np.ndarray[Any, Any] = random.uniform(self.low, self.high, sizes)
        return np.floor(drawn) if self.is_whole else drawn
