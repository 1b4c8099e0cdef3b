"""The steps of recurrent networks (``refine/recurrences.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class RecurrenceKnobs:
    """How weights lie, and what is computed for all steps at once."""

    unit_registers: int = 2
    """Registers of numbers of 32 bits for the units of a network whose weights lie side by side. With twice as many as
    a sum is computed for at once, only every other cache line of weights follows the last: a fifth to a tenth more time
    (AVX2, batch of 8)."""

    few_units: int = 256
    """Units up to which twice as many lie side by side for a batch of 1: a sum then waits less for its own last step.
    Beyond that more blocks are better, which threads share out."""

    narrow_unit_block: int = 32
    """Units of a block twice as wide up to which that is done whatever number of them there is: with AVX2 a step of an
    LSTM or GRU of 512 units takes a fifth less time."""

    projected_growth: int = 16
    """How many times the elements of their inputs those of a tensor may be that is computed for all steps at once, for
    each time that it is read in a step."""

    projected_elements: int = 1 << 16
    """Elements that such a tensor may have in any case."""

    step_bytes: int = 1 << 62
    """Bytes of weights in a step up to which all threads together keep them near until the next one. Directions that
    read more together, but not each, are done one after the other for a batch of 1: threads wait twice as often, and
    weights come from the second-level cache. A bidirectional LSTM of 256 units takes 2 to 6% less time (Zen 4, 2
    threads), with a batch of 8 none."""
