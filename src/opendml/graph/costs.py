"""What fusion weighs: the costs of a target, as far as they decide which tensors are written at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GraphCosts:
    """The knobs of fusion, and of what is kept. A target states its own; none changes a result.

    Work is in operations of one element.
    """

    memory_work: int = 4
    """Operations that writing an element of a tensor and reading it again is worth."""

    kept_operations: int = 2
    """Operations that a value kept in fast memory is worth for each further use."""

    kept_row_bytes: int = 1 << 17
    """Size of a row of values up to which a fold keeps what it computes for others that need it: the row wants to stay
    in the second-level cache."""

    slow_operation: int = 8
    """What a division, a remainder or a square root counts as."""

    surrounded_steps: int = 16
    """Steps of a sum from which on it writes what a copy with margins would: beside fewer of them, stores that begin
    anywhere in a line would take long."""

    surrounded_row: int = 64
    """Elements of a row from which on it does so: margins before and behind shorter ones are in so many of the lines of
    memory that writing them takes as long as the copy."""

    margined_row: int | None = None
    """Elements of a row from which on a sum that is the only one to write a tensor writes margins of one element around
    its rows, whether these run on in what it reads or not; None: it would take longer than the copy."""

    fused_expressions: int = 512
    """Expressions that a fused statement consists of at most, each counted once: so many that a tensor in between costs
    about a hundredth of what it takes to compute them, and that statements go on growing only where it gains nothing.
    So the work for a graph grows as the graph does. Statements of single operators have up to half of it."""

    fused_guards: int = 8
    """Conditions on coordinates around one another in a fused statement at most: the code in each is code of its own,
    which is written inside of that of the others."""

    persistent_growth: int = 8
    """How many times larger than what it is made from a tensor may be that is kept instead of being computed every
    time."""


GRAPH_COSTS: Final = GraphCosts()
"""Those of a processor, where no target states others."""
