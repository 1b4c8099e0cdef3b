"""What code and the programs made of it agree on."""

from __future__ import annotations

from typing import Final, NamedTuple

ENTRY: Final = "opendml_entry"
"""The function that all threads run together."""


class Requirements(NamedTuple):
    """What a program must have to run its code.

    ``temporary_size``: bytes of memory for temporary tensors; ``least_temporary_size``: what those have that are alive
    at one time, which no plan can do without. ``scratch_size``: bytes that each thread needs alone, behind those.
    ``parallel``: whether several threads can help.
    """

    temporary_size: int
    least_temporary_size: int
    scratch_size: int
    parallel: bool


NOTHING_NEEDED: Final = Requirements(0, 0, 0, False)
