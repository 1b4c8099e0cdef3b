"""How memory is aligned, everywhere."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""Bytes to which tensors and all memory made here are aligned: a cache line, and the widest vector. No knob: code for
the first element of a tensor may rely on it."""


def aligned(size: int) -> int:
    """The bytes, or the place, from which on the next tensor may lie."""
    return -(-size // ALIGNMENT) * ALIGNMENT
