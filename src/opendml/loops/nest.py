"""The grammar of loop nests, whole: what a schedule makes of a statement. Writing a nest out decides nothing.

    nest      = Nest(memories, body)                          -- what every thread does; it has the memories alone
    body      = node...                                       -- one after another
    node      = Items(cuts, body)                             -- kind threads: points, or parts of axes, shared out
              | Loop(axis, first, last, step, body)           -- kind serial
              | Points(axis, count, kind, body)               -- kinds unrolled, together, vector: from where it stands
              | At(axis, position, body)                      -- a loop of one step
              | Share(first, last, count)                     -- which of ``count`` things in a row are this thread's
              | Let(local, integer)
              | Block(body)                                   -- what is computed inside is not known behind it
              | Branch(condition, then, otherwise)
              | Leaf(stores, registers, values)               -- expressions evaluated at the points that stand here
              | Recall(registers, memories, ...)              -- registers from memory
              | Keep(registers, memories, ...)                -- registers to memory
    cut       = Cut(axis, block)
    integer   = int | Local | Start(axis) | End(axis) | Difference(a, b) | Least(a, b) | WholeSteps(first, last, step)
    condition = expression | Within(address, first, last) | Equal(a, b)
    space     = scratch                                       -- memory of one thread

Every axis of an expression stands somewhere: at a Loop's position, at an item's point, where At says, or at every one
of the Points around it. Registers are the variables of a Scan's state or a Fold's accumulators: a Leaf sets them, and
a Loop whose body sets some anew carries them from step to step.

Expressions are those of ``expression.ir`` with loads by address (``Element``). How one becomes instructions is the
target's; which points it is computed for, in what order and with what in memory is said here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opendml.expression.affine import Affine
from opendml.expression.element_types import ElementType
from opendml.expression.ir import Axis, Expression, Tensor, Variable


@dataclass(frozen=True, slots=True, eq=False)
class ElementStore:
    """A store by address: ``tensor@address = value``."""

    tensor: Tensor
    address: Affine
    value: Expression


# Integers that are known when the code runs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """An integer that a Let or a Share around it, or before it, gives a value; two are equal if they are the same."""

    name: str


@dataclass(frozen=True, slots=True)
class Start:
    """The first point of the part of an axis that the work item covers."""

    axis: Axis


@dataclass(frozen=True, slots=True)
class End:
    """The point behind the last one of the part of an axis that the work item covers."""

    axis: Axis


@dataclass(frozen=True, slots=True)
class Difference:
    """``left - right``."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class Least:
    """The smaller one of two integers."""

    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """Where the last whole step from ``first`` to ``last`` ends: ``last - (last - first) % step``."""

    first: Integer
    last: Integer
    step: int


Integer = int | Local | Start | End | Difference | Least | WholeSteps


# Conditions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Within:
    """Whether an address at the point that stands here is from ``first`` to before ``last``."""

    address: Affine
    first: Integer
    last: Integer


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two integers are the same."""

    left: Integer
    right: Integer


Condition = Expression | Within | Equal


# Memory --------------------------------------------------------------------------------------------------------------

Space = Literal["scratch"]
"""Where memory is: ``scratch`` is of one thread alone, and holds nothing that it has not written."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """``size`` elements of a type."""

    name: str
    type: ElementType
    size: int
    space: Space = "scratch"

    @property
    def size_in_bytes(self) -> int:
        """Bytes that it takes; a bool takes one."""
        return self.size * max(self.type.bits, 8) // 8


# Nodes ---------------------------------------------------------------------------------------------------------------

Kind = Literal["unrolled", "together", "vector"]
"""How points from where an axis stands are gone through: ``unrolled`` does the whole body at one point after the other,
each with registers of its own; ``together`` and ``vector`` do each node of the body at all of them before the next one,
a vector in lanes of its registers."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """An axis whose points, one by one (no ``block``) or in blocks of as many, are shared out. An axis that is cut a
    second time is cut within the block."""

    axis: Axis
    block: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Work items: every combination of a part of each of ``cuts``, the last one fastest. They are numbered in a row and
    shared out in equal shares, in order, among the threads, or all done by the first one if it is ``serial``.

    Inside, an axis that is cut in points stands at one; of one that is cut in blocks Start and End are known. Every
    ``look`` items a thread looks whether it is to go on; None: it never does.
    """

    cuts: tuple[Cut, ...]
    body: Body
    serial: bool = False
    look: int | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many parts each cut makes."""
        whole: dict[Axis, int] = {}
        counts = []
        for cut in self.cuts:
            counts.append(-(-whole.get(cut.axis, cut.axis.size) // (cut.block or 1)))
            whole[cut.axis] = cut.block or 1
        return tuple(counts)

    @property
    def count(self) -> int:
        """How many items there are."""
        return math.prod(self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``axis`` from ``first`` to before ``last`` in steps. With a ``limit`` it stands no further than there: the last
    step is moved back to end with the axis, and does some points again.

    ``carried`` are the registers that the body sets anew, each ``copies`` times where it is for points that are
    unrolled.
    """

    axis: Axis
    first: Integer
    last: Integer
    step: int
    body: Body
    limit: int | None = None
    carried: tuple[Variable, ...] = ()
    copies: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """``count`` points of ``axis`` from where it stands; of a vector the first ``active`` take part (None: all)."""

    axis: Axis
    count: int
    kind: Kind
    body: Body
    active: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """``axis`` stands at ``position``."""

    axis: Axis
    position: Integer
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """``first`` and ``last`` become the bounds of this thread's share of ``count`` things in a row."""

    first: Local
    last: Local
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    """``local`` becomes an integer."""

    local: Local
    value: Integer


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A body of its own: what is computed inside is not known behind it."""

    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One of two bodies."""

    condition: Condition
    then: Body
    otherwise: Body = ()


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """At the points that stand here: all ``values`` and all values of ``stores`` are computed, then these are stored,
    and ``registers`` become ``values``."""

    stores: tuple[ElementStore, ...] = ()
    registers: tuple[Variable, ...] = ()
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Recall:
    """``registers`` become what ``memories`` hold for the points of ``axis`` that stand here; those of point
    ``origin`` are the first."""

    registers: tuple[Variable, ...]
    memories: tuple[Memory, ...]
    axis: Axis
    origin: Integer


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """The other way round: ``memories`` become what ``registers`` hold."""

    registers: tuple[Variable, ...]
    memories: tuple[Memory, ...]
    axis: Axis
    origin: Integer


Node = Items | Loop | Points | At | Share | Let | Block | Branch | Leaf | Recall | Keep
Body = tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """What every thread does, with ``memories`` that it has alone."""

    body: Body
    memories: tuple[Memory, ...] = ()


def bodies_of(node: Node) -> tuple[Body, ...]:
    """The bodies inside of a node."""
    if isinstance(node, Branch):
        return (node.then, node.otherwise)
    return (node.body,) if isinstance(node, Items | Loop | Points | At | Block) else ()


def nodes_of(body: Body) -> Iterator[Node]:
    """All nodes of a body, those around others first."""
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        stack += [inner for part in reversed(bodies_of(node)) for inner in reversed(part)]
