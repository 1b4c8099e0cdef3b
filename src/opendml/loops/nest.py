"""The grammar of loop nests, whole: what a schedule makes of a statement. Writing a nest out decides nothing.

    nest      = Nest(body, memories, instructions, ...)       -- what every thread does; it has the memories alone
    body      = node...                                       -- one after another
    node      = Items(cuts, body)                             -- kind threads: points, or parts of axes, shared out
              | Loop(axis, first, last, step, body)           -- kind serial
              | Points(axis, count, kind, body, step)         -- kinds unrolled, together, vector: from where it stands
              | At(axis, position, body)                      -- a loop of one step
              | Share(first, last, count)                     -- which of ``count`` things in a row are this thread's
              | Let(local, integer)
              | Block(body)                                   -- what is computed inside is not known behind it
              | Branch(condition, then, otherwise)
              | Leaf(stores, registers, values, written, own) -- expressions evaluated at the points that stand here
              | Reduce(folds)                                 -- folds at these points, before anything that wants them
              | Transpose(loads, axis)                        -- loads along an axis of these points, turned to vectors
              | Keeping(rows, body)                           -- what folds compute along rows is kept in memory
              | Accumulate(register, product, numbers)        -- the next term of a sum of products, at some points
              | Turn(source, target, ...)                     -- rows of registers become their columns
              | Tiles(sizes, body)                            -- tile registers of the processor's are used inside
              | SumInTiles(target, product, ...)              -- a sum of products at a rectangle of points, to memory
              | Prefetch(tensor, address)                     -- a line is asked for before it is loaded or stored
              | Recall(registers, memories, ...)              -- registers from memory
              | Keep(registers, memories, ...)                -- registers to memory
              | Stage(areas, origin, body)                    -- stores go to memory that stays in a cache
              | Flush(area, counts, run)                      -- and leave it in long runs
              | Fill(candidates, key)                         -- candidates of an order: all of them
              | Gather(candidates, key, registers)            -- or those that may be wanted
              | Sort(candidates, count, registers)            -- those wanted, in order
              | Pick(candidates, axis, register)              -- where the one of a rank comes from
              | Fence                                         -- stores past the caches are done before what comes next
    cut       = Cut(axis, block)
    plan      = Plan(choices, foldings, ahead)                -- how what a node evaluates is computed where it stands
    choice    = Choice(select, how, then, otherwise)          -- of a Select by more than both of its branches
    folding   = Folding(fold, how, unrolled, overlap, ahead, steps, rest)
    steps     = Steps(guard, plan, masked)                    -- of a fold: what is asked at each, and its plans
    integer   = int | Local | Start(axis) | End(axis) | Position(axis) | Sum(a, b) | Difference(a, b) | Product(a, n)
              | Quotient(a, n) | Least(a, b) | Greatest(a, b) | WholeSteps(first, last, step)
              | ToBoundary(tensor, address, ...) | Either(condition, a, b) | Register(variable)
    condition = expression | Within(address, first, last) | Equal(a, b) | First(group) | Both(first, second)
    space     = scratch                                       -- memory of one thread
    instruction = Instruction(name, operation, type, lanes, body, ...)    -- of the processor, and what it means

Every axis of an expression stands somewhere: at a Loop's position, at an item's point, where At says, or at every one
of the Points around it. Registers are the variables of a Scan's state or a Fold's accumulators: a Leaf sets them, and
a Loop whose body sets some anew carries them from step to step. Each of the points that are unrolled or together has
registers of its own. Their numbers are those of a row of all these points, the innermost fastest: what is computed
together may be stored one after the other.

Expressions are those of ``expression.ir`` with loads by address (``Element``). A store may have margins: what is
around the rows that it writes is written with them. What a node of a planned nest evaluates has a plan: which Selects
jump, or leave lanes out, and how folds go through their steps. All else is computed as it stands, both branches of a
Select too. A nest without plans computes every point by itself, and of a Select the branch that it takes. An operation
of whole registers of one of the nest's instructions is done by it (``loops/instructions.py``); how the others
become code is the target's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import ElementType
from opendml.expression.ir import Axis, Binary, Expression, Fold, Tensor, Variable
from opendml.expression.statements import RowMargins
from opendml.loops.instructions import NO_INSTRUCTIONS, Instructions
from opendml.loops.nest_integers import Condition, Integer, Local
from opendml.loops.plans import AS_THEY_STAND, KeptRow, Plan


@dataclass(frozen=True, slots=True, eq=False)
class ElementStore:
    """A store by address: ``tensor@address = value``, and margins around its rows, if it has them."""

    tensor: Tensor
    address: Affine
    value: Expression
    margins: RowMargins | None = None


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
    second time is cut within the block; one by one if all blocks are equal."""

    axis: Axis
    block: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Work items: every combination of a part of each of ``cuts``, the last one fastest. They are numbered in a row and
    shared out in equal shares, in order, among the threads, or all done by the first one if it is ``serial``.

    Inside, an axis that is cut in points stands at one; of one that is cut in blocks Start and End are known. Every
    ``look`` items a thread looks whether it is to go on; None: it never does. ``pool`` items, the last ones of every
    share, are for whichever thread is done first: each takes ``taken`` of its own at a time, then those of the others.
    """

    cuts: tuple[Cut, ...]
    body: Body
    serial: bool = False
    look: int | None = None
    pool: int = 0
    taken: int = 1

    @property
    def counts(self) -> tuple[int, ...]:
        """How many parts each cut makes."""
        whole: dict[Axis, int] = {}
        uneven: set[Axis] = set()
        counts = []
        for cut in self.cuts:
            assert cut.block is not None or cut.axis not in uneven, "points beyond the last block"
            size, block = whole.get(cut.axis, cut.axis.size), cut.block or 1
            if size % block:
                uneven.add(cut.axis)
            counts.append(-(-size // block))
            whole[cut.axis] = block
        return tuple(counts)

    @property
    def count(self) -> int:
        """How many items there are."""
        return math.prod(self.counts)

    def kept(self, share: int) -> int:
        """How many of so many items that are a thread's share nobody else takes."""
        return share * (self.count - self.pool) // self.count


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``axis`` from ``first`` to before ``last`` in steps. With a ``limit`` it stands no further than there: the last
    step is moved back to end with the axis, and does some points again.

    ``unmoved`` becomes the position without that. ``carried`` are the registers that the body sets anew, each
    ``copies`` times where it is for points that are unrolled or together.
    """

    axis: Axis
    first: Integer
    last: Integer
    step: int
    body: Body
    limit: int | None = None
    carried: tuple[Variable, ...] = ()
    copies: int = 1
    unmoved: Local | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """``count`` points of ``axis`` from where it stands, ``step`` apart, which is 1 in a vector; of a vector the first
    ``active`` take part (None: all). Of unrolled points each takes over the ``carried`` registers from the one before
    it, the first one from the point around them, which has those of the last one in the end: each ``copies`` times
    where it is for points that are unrolled or together inside."""

    axis: Axis
    count: int
    kind: Kind
    body: Body
    active: int | None = None
    step: int = 1
    carried: tuple[Variable, ...] = ()
    copies: int = 1


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
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A body of its own: what is computed inside is not known behind it."""

    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One of two bodies. ``carried`` are the registers that both set, each ``copies`` times where it is for points that
    are unrolled or together: nothing else of them is known behind it."""

    condition: Condition
    then: Body
    otherwise: Body = ()
    plan: Plan = AS_THEY_STAND
    carried: tuple[Variable, ...] = ()
    copies: int = 1


Written = Literal["each", "interleaved", "past the caches"]
"""How vectors are stored: ``each`` by itself; those of points that are taken together ``interleaved``, as one, since
each is at every so many-th place of a run; whole ones at boundaries of memory ``past the caches``."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """At the points that stand here: all ``values`` and all values of ``stores`` are computed, then these are stored,
    and ``registers`` become ``values``. With ``own`` elements of one point are stored only where that holds, as where
    they are this thread's: that is decided without a jump, which nobody could foresee."""

    stores: tuple[ElementStore, ...] = ()
    registers: tuple[Variable, ...] = ()
    values: tuple[Expression, ...] = ()
    written: Written = "each"
    own: Condition | None = None
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """Folds at all points that stand here, step by step side by side: what they load is shared. Their values are known
    from here on. ``plan`` is that of what they begin with; its ``ahead`` says how each fold is computed."""

    folds: tuple[Fold, ...]
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Transpose:
    """``loads`` at the points of ``axis`` that are taken together, which lie next to each other in memory, in this
    order or the other way round: as many of them as a vector has lanes are loaded along the axis, and transposed in
    registers."""

    loads: tuple[Element, ...]
    axis: Axis
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """Inside, folds of Reduces of the body itself write ``rows``, as their plans say, and what comes after them reads
    the rows."""

    rows: tuple[KeptRow, ...]
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Accumulate:
    """``register = register + product`` at the points that stand here, rounded once: a product of two factors, or
    one of words. Only the points with such ``numbers``, those of their registers, take part; None: all of them. With
    ``stays`` each sum stays in the register that it is in, if the target has an instruction for that: where there are
    no others left, those that are given new ones in steps one behind the other wait in memory in between."""

    register: Variable
    product: Binary
    numbers: frozenset[int] | None = None
    stays: bool = False
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A square of registers, transposed. The ``rows`` vectors of ``lanes`` are ``source`` of the points numbered n,
    n + ``stride``, and so on, n being the number of the point that stands here. Of each of the ``lanes`` points from
    number n * ``lanes`` on ``target`` becomes the vector of one of their lanes; it has ``width`` lanes, those behind
    the rows undefined."""

    source: Variable
    target: Variable
    rows: int
    stride: int
    lanes: int

    @property
    def width(self) -> int:
        """Lanes of the vectors that come out: a power of two."""
        return 1 << (self.rows - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """Inside, the processor's tile registers have so many rows and words each."""

    sizes: tuple[tuple[int, int], ...]
    body: Body


class Beside(NamedTuple):
    """Parts of rows in tile registers begin each ``step`` points of ``axis`` further than the one before, and their
    sums ``rows`` rows further in memory."""

    axis: Axis
    step: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class SumInTiles:
    """The sums, from 0 on and over all points of ``axes``, of the products ``dot4`` of words ``by_rows`` and
    ``by_columns``, for all points of ``row`` and ``column`` in the parts ``rows`` and ``columns``, one part behind the
    other from where the axes stand; with ``beside``, the parts of the rows begin all where ``row`` stands, each further
    along that axis. They become elements row * ``pitch`` + column of ``target``, counted from there.

    Words by rows are a run of memory along ``step``, ``depth`` of them are taken at once, and words by columns one
    along ``column``. ``operation`` is that of the instruction that does it. There are two parts of each at most, and
    their tile registers are fixed: 2 * i + j for the sums of row part i and column part j, 4 + i for the words of the
    rows, and 6 + j for those of the columns.
    """

    target: Tensor
    pitch: int
    operation: str
    by_rows: Expression
    by_columns: Element
    row: Axis
    rows: tuple[int, ...]
    beside: Beside | None
    column: Axis
    columns: tuple[int, ...]
    axes: tuple[Axis, ...]
    step: Axis
    depth: int

    @property
    def starts(self) -> tuple[tuple[Axis, int], ...]:
        """The axis along which each part of the rows begins elsewhere than the first, and how far."""
        if self.beside is not None:
            return tuple((self.beside.axis, self.beside.step * number) for number in range(len(self.rows)))
        return tuple((self.row, place) for place in self.places)

    @property
    def places(self) -> tuple[int, ...]:
        """The row of memory in which the sums of each part of the rows begin."""
        if self.beside is not None:
            return tuple(self.beside.rows * number for number in range(len(self.rows)))
        return tuple(sum(self.rows[:number]) for number in range(len(self.rows)))

    @property
    def tiles(self) -> dict[int, tuple[int, int]]:
        """The tile registers that are used, with their rows and words."""
        found = {4 + i: (rows, self.depth) for i, rows in enumerate(self.rows)}
        found |= {6 + j: (self.depth, columns) for j, columns in enumerate(self.columns)}
        sums = itertools.product(enumerate(self.rows), enumerate(self.columns))
        return found | {2 * i + j: (rows, columns) for (i, rows), (j, columns) in sums}


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """The line of an element is asked for, in the cache of a level, at the points that stand here; there need be no
    such element."""

    tensor: Tensor
    address: Affine
    cache: int = 1
    is_stored: bool = False
    plan: Plan = AS_THEY_STAND


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


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """Where a part of a tensor is computed before it goes to its place ``target``.

    ``address`` is that of an element here, but for where the area begins: ``slack`` bytes behind the beginning of
    ``memory``, since vectors and tiles that are moved back begin before the first row, and as far behind a boundary of
    ``alignment`` bytes as in the target.
    """

    tensor: Tensor
    target: Affine
    address: Affine
    memory: Memory
    slack: int
    alignment: int


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Inside, stores to the tensors of ``areas`` go there. The first element of each belongs to ``origin``: where axes
    stand there."""

    areas: tuple[Area, ...]
    origin: tuple[tuple[Axis, Integer], ...]
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """``count`` runs or groups of them, so many elements from one to the next in the area, and in its target."""

    count: Integer
    pitch: int
    target_pitch: int


@dataclass(frozen=True, slots=True, eq=False)
class Flush:
    """What the last Stage has put to ``area`` goes to its target: for all of ``runs``, groups first, ``length``
    elements one after another. Lines of memory that it fills are written past the caches."""

    area: Area
    runs: tuple[Run, ...]
    length: Integer


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Points of an order in memory, of which the first ``wanted`` count in the end: each is its key as an unsigned
    number, with the position along the order's axis as ``POSITION_BITS`` lower bits, so that no two are equal and equal
    keys keep their order. That is one word of 64 bits, or two.

    ``memory`` has ``room`` for some of them, and for a vector of ``lanes`` behind these; ``other`` is as large, and
    ``digits`` counts of digits, for when they are sorted. Up to ``counted`` of them are sorted by counting how many
    are less than each, more digit by digit.
    """

    key: ElementType
    wanted: int
    room: int
    memory: Tensor
    other: Tensor
    digits: Tensor
    lanes: int
    counted: int


POSITION_BITS: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """The candidates of the points of ``axis`` that stand here, each at its position."""

    candidates: Candidates
    key: Expression
    axis: Axis
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """Those of the points of ``axis`` that stand here whose key is less than the threshold, behind the others; once
    there is no more room, they are sorted. ``registers``: how many there are, and the threshold."""

    candidates: Candidates
    key: Expression
    axis: Axis
    registers: tuple[Variable, Variable]
    plan: Plan = AS_THEY_STAND


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """Of the first ``count`` candidates the wanted ones come to the front, in order, and the others are forgotten.
    ``registers`` become how many are left, and the key of the last one: the threshold."""

    candidates: Candidates
    count: Integer
    registers: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """``register`` becomes the position of the candidate at the place where ``axis`` stands."""

    candidates: Candidates
    axis: Axis
    register: Variable


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    """Stores past the caches are done before anything that comes behind."""


Node = (
    Items
    | Loop
    | Points
    | At
    | Share
    | Let
    | Block
    | Branch
    | Leaf
    | Reduce
    | Transpose
    | Keeping
    | Accumulate
    | Turn
    | Tiles
    | SumInTiles
    | Prefetch
    | Recall
    | Keep
    | Stage
    | Flush
    | Fill
    | Gather
    | Sort
    | Pick
    | Fence
)
Body = tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """What every thread does, with ``memories``, and ``rows``, that it has alone.

    ``ahead``: when a tensor is loaded from, or stored to, the lines so many bytes further are prefetched; in the steps
    of the folds of ``ahead_in_folds``, as these say instead, into the second-level cache. ``aliased``: tensors may be
    the same memory. ``rolled``: loops stay as they are written, whatever an optimiser thinks. ``instructions``: what
    of the processor's it may use. ``is_planned``: whether its nodes have plans.
    """

    body: Body
    memories: tuple[Memory, ...] = ()
    rows: tuple[Tensor, ...] = ()
    ahead: Mapping[Tensor, int] = field(default_factory=dict)
    ahead_in_folds: Mapping[Fold, Mapping[Tensor, int]] = field(default_factory=dict)
    aliased: bool = False
    rolled: bool = False
    instructions: Instructions = NO_INSTRUCTIONS
    is_planned: bool = False


def bodies_of(node: Node) -> tuple[Body, ...]:
    """The bodies inside of a node."""
    if isinstance(node, Branch):
        return (node.then, node.otherwise)
    return (node.body,) if isinstance(node, Items | Loop | Points | At | Block | Keeping | Tiles | Stage) else ()


def nodes_of(body: Body) -> Iterator[Node]:
    """All nodes of a body, those around others first."""
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        stack += [inner for part in reversed(bodies_of(node)) for inner in reversed(part)]
