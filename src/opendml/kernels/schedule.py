"""How a statement becomes loops: which axes merge, which one is vectorised, tiled, and shared out among threads.

A schedule never changes a result: the points of a Compute are independent, and the order of every fold is part of
its definition. So everything here is free to follow the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from opendml.expression.ir import (
    Axis,
    Binary,
    Cast,
    Compute,
    ElementType,
    Expression,
    Fold,
    Index,
    Scan,
    Scatter,
    Store,
    Tensor,
)
from opendml.expression.rewriting import Rewriter, walk
from opendml.kernels.affine import Affine, Dependencies, Element, address_of, total
from opendml.kernels.rewriting import lower_loads, simplify

SERIAL_WORK: Final = 32768
"""Steps of a kernel below which waking other threads costs more than it saves."""

ITEMS: Final = 64
"""Work items that a kernel is cut into at least, where it is large enough: a multiple of usual numbers of threads."""

INTERLEAVED: Final = (2, 3, 4, 8)
"""Sizes of a last axis that is interleaved in registers."""

TRANSPOSED_BYTES: Final = 64
TRANSPOSED: Final = 32
"""Bytes of a row of the squares that are transposed in registers, and rows and columns of a square at most."""

SHUFFLED_STRIDE: Final = 4
"""Largest step between neighbouring lanes that is loaded as whole vectors and picked apart by shuffles."""

STREAMED_BYTES: Final = 48 << 20
"""Size of an output from which on it is written past the caches: few machines keep so much for one core."""

STREAMED_ROW: Final = 384
STREAMED_LONE_ROW: Final = 4096
"""Bytes of a row from which on it is written past the caches, where rows follow one another and where they do not."""

UNROLL_STEPS: Final = 64
"""Steps of a fold that are written out one after the other at most."""

UNROLLED_OPERATIONS: Final = 1024
"""Operations of the steps of a fold that are written out at most: code beyond that costs compilation time only."""

TILE_BLOCK: Final = 96
"""Points of the tiled axis that one work item covers, so that their operands stay in the second-level cache."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a schedule needs to know of the processor."""

    vector_bytes: int
    vector_registers: int


@dataclass(frozen=True, slots=True, eq=False)
class ElementStore:
    """A store by address."""

    tensor: Tensor
    address: Affine
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class ComputeKernel:
    """A Compute with its loops chosen.

    ``shared`` axes, slowest first, are cut into work items and shared out among threads, ``inner`` ones are loops
    within an item; ``vector`` is the axis whose neighbouring points are computed together, up to ``lanes`` of them;
    ``tile`` is an axis of which ``tile_size`` points are computed together as well, so that what they load is shared.
    ``interleaved`` says that points of the tile lie next to each other in the output: their vectors are stored as one;
    ``transposed`` that they lie next to each other in an input whose rows run along the vector axis: squares of points
    are loaded along the tile and transposed in registers. ``streamed`` says that the output is too large to stay in a
    cache, and is better written past it.
    ``vector_block`` cuts the vector axis into work items.
    """

    stores: tuple[ElementStore, ...]
    shared: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    vector: Axis | None
    lanes: int
    tile: Axis | None = None
    tile_size: int = 1
    tile_block: int = 1
    interleaved: bool = False
    transposed: bool = False
    streamed: bool = False
    vector_block: int | None = None
    serial: bool = False
    in_place: bool = False
    reads: frozenset[Tensor] = frozenset()

    @property
    def outer(self) -> tuple[Axis, ...]:
        """All axes but the vector and the tile, slowest first."""
        return (*self.shared, *self.inner)

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        blocks = 1
        if self.tile is not None:
            blocks *= -(-self.tile.size // self.tile_block)
        if self.vector is not None and self.vector_block is not None:
            blocks *= -(-self.vector.size // self.vector_block)
        return math.prod(axis.size for axis in self.shared) * blocks


@dataclass(frozen=True, slots=True, eq=False)
class ScanKernel:
    """A Scan with its loops chosen: as for ComputeKernel; the state runs along ``along`` inside of them."""

    scan: Scan
    step: tuple[Expression, ...]
    initial: tuple[Expression, ...]
    stores: tuple[ElementStore, ...]
    outer: tuple[Axis, ...]
    vector: Axis | None
    lanes: int
    serial: bool
    reads: frozenset[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class ScatterKernel:
    """A Scatter, done by one thread in order."""

    axes: tuple[Axis, ...]
    where: Expression
    store: ElementStore
    reads: frozenset[Tensor]


def schedule_compute(compute: Compute, machine: Machine, *, in_place: bool) -> ComputeKernel:
    """Loops for a Compute; ``in_place`` says that an output may be the same memory as an input."""
    stores = lowered_stores(compute.stores)
    axes = [axis for axis in compute.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, stores = coalesce(axes, stores)
    vector = axes.pop() if axes else None
    reads = reads_of(stores)
    in_place = in_place and any(_same_layout(read, store.tensor) for read in reads for store in stores)
    kernel = ComputeKernel(stores, tuple(axes), (), vector, 1, in_place=in_place, reads=reads)
    kernel = _with_tile(_with_transposition(_with_interleaving(kernel)), machine)
    lanes = kernel.tile_size if kernel.transposed else _lanes(kernel, machine)
    kernel = replace(kernel, lanes=lanes, serial=_work(kernel) < SERIAL_WORK, streamed=_is_streamed(kernel))
    return _with_items(kernel)


def schedule_scan(scan: Scan, machine: Machine) -> ScanKernel:
    """Loops for a Scan: vectorised over another axis that is contiguous, if there is one."""
    lower = lower_loads({})
    stores = lowered_stores(scan.stores)
    values = [ElementStore(stores[0].tensor, stores[0].address, lower(e)) for e in (*scan.step, *scan.initial)]
    axes = [axis for axis in scan.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, merged = coalesce(axes, (*stores, *values))
    stores, expressions = merged[: len(stores)], [store.value for store in merged[len(stores) :]]
    step, initial = tuple(expressions[: len(scan.step)]), tuple(expressions[len(scan.step) :])
    vector = axes[-1] if axes and abs(stores[0].address.coefficient(axes[-1])) == 1 else None
    if any(isinstance(e, Fold) for x in (*expressions, *(s.value for s in stores)) for e in walk(x)):
        vector = None  # a fold has vectors, and conditions, of its own
    outer = tuple(axis for axis in axes if axis is not vector)
    work = scan.along.size * math.prod(axis.size for axis in axes)
    state_bytes = max(v.type.bits // 8 for v in scan.state)
    lanes = 1 if vector is None else _power_below(min(vector.size, 4 * machine.vector_bytes // state_bytes))
    reads = reads_of(stores) | frozenset(e.tensor for x in expressions for e in walk(x) if isinstance(e, Element))
    return ScanKernel(scan, step, initial, stores, outer, vector, lanes, work < SERIAL_WORK, reads)


def schedule_scatter(scatter: Scatter) -> ScatterKernel:
    """A Scatter needs no choices."""
    (store,) = lowered_stores((scatter.store,))
    where = lower_loads({})(scatter.where)
    reads = reads_of((store,)) | frozenset(e.tensor for e in walk(where) if isinstance(e, Element))
    return ScatterKernel(scatter.axes, where, store, reads)


def lowered_stores(stores: Sequence[Store]) -> tuple[ElementStore, ...]:
    """Stores and the loads in them by address instead of by coordinates."""
    lower, decided = lower_loads({}), simplify({})
    return tuple(
        ElementStore(store.tensor, address.rebuilt(decided), decided(lower(store.value)))
        for store in stores
        for address in [address_of(store.tensor, map(lower, store.coordinates))]
    )


def reads_of(stores: Sequence[ElementStore]) -> frozenset[Tensor]:
    """The tensors that the values of stores, or their addresses, load from."""
    expressions = [s.value for s in stores] + [term for s in stores for term in s.address.opaque]
    return frozenset(e.tensor for x in expressions for e in walk(x) if isinstance(e, Element))


def _same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors may be bound to the same memory: only where every element is the same element of both."""
    layouts = [[(n, s) for n, s in zip(t.sizes, t.strides, strict=True) if n > 1] for t in (a, b)]
    return a.type is b.type and layouts[0] == layouts[1]


# Coalescing ----------------------------------------------------------------------------------------------------------


def coalesce(axes: list[Axis], stores: tuple[ElementStore, ...]) -> tuple[list[Axis], tuple[ElementStore, ...]]:
    """Neighbouring axes merged into one wherever every address moves along both as along one."""
    addresses = [s.address for s in stores]
    used: set[Axis] = set()
    for store in stores:
        for e in walk(store.value):
            if isinstance(e, Element):
                addresses.append(e.address)
            elif isinstance(e, Index):
                used.add(e.axis)
        for term in store.address.opaque:
            used |= {e.axis for e in walk(term) if isinstance(e, Index)}
    groups: list[list[Axis]] = []
    for axis in axes:
        before = groups[-1][-1] if groups else None
        if before is not None and not {axis, before} & used and _continues(before, axis, addresses):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    merged: dict[Axis, tuple[Axis, bool]] = {}
    result: list[Axis] = []
    for group in groups:
        if len(group) == 1:
            result.append(group[0])
            continue
        joint = Axis("".join(axis.name for axis in group), math.prod(axis.size for axis in group))
        merged |= {axis: (joint, axis is group[-1]) for axis in group}
        result.append(joint)
    return result, tuple(_renamed(store, merged) for store in stores) if merged else stores


def _continues(outer: Axis, inner: Axis, addresses: Sequence[Affine]) -> bool:
    return all(a.coefficient(outer) == a.coefficient(inner) * inner.size for a in addresses)


def _renamed(store: ElementStore, merged: dict[Axis, tuple[Axis, bool]]) -> ElementStore:
    """The store with merged axes in all addresses; the innermost member of a group lends the joint its coefficient."""

    def form(address: Affine) -> Affine:
        parts = []
        for term, coefficient in address.terms:
            if isinstance(term, Axis) and term in merged:
                joint, keep = merged[term]
                if not keep:
                    continue
                term = joint
            parts.append((Affine(((term, 1),), 0), coefficient))
        return total(parts, address.constant)

    def visit(e: Expression) -> Expression | None:
        return Element(e.tensor, form(e.address.rebuilt(rewrite)), e.safe) if isinstance(e, Element) else None

    rewrite = Rewriter(visit)
    return ElementStore(store.tensor, form(store.address.rebuilt(rewrite)), rewrite(store.value))


# Vectors, tiles, blocks ----------------------------------------------------------------------------------------------


def _folds(kernel: ComputeKernel) -> list[Fold]:
    """The folds that differ along the vector axis; the others are computed once before it begins."""
    folds = _all_folds(kernel)
    if kernel.vector is None or not folds:
        return folds
    dependencies = Dependencies()
    return [fold for fold in folds if kernel.vector in dependencies.of(fold)]


def _all_folds(kernel: ComputeKernel) -> list[Fold]:
    return [e for store in kernel.stores for e in walk(store.value) if isinstance(e, Fold)]


def _power_below(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)


def _lanes(kernel: ComputeKernel, machine: Machine) -> int:
    """Points computed together: as many registers in flight as the kind of kernel bears."""
    if kernel.vector is None:
        return 1
    folds = _folds(kernel)
    if any(fold.lanes > 1 for fold in folds):
        return 1
    sizes = _access_bytes(kernel)
    smallest, largest = min(sizes), max(sizes)
    register = machine.vector_bytes
    if not folds:
        lanes = min(4 * register // smallest, 8 * register // largest) // (1 if kernel.tile is None else 2)
    elif kernel.tile is not None:
        lanes = 2 * register // largest
    elif all(_fold_steps(fold) <= UNROLL_STEPS for fold in folds):
        lanes = min(2 * register // smallest, 4 * register // largest)
    else:
        lanes = 8 * register // largest
    return _power_below(min(lanes, kernel.vector.size))


def _access_bytes(kernel: ComputeKernel) -> list[int]:
    """Sizes of the types that vary along the vector axis, as far as they are kept in registers for long."""
    assert kernel.vector is not None
    types: set[ElementType] = {store.tensor.type for store in kernel.stores}
    for store in kernel.stores:
        for e in walk(store.value):
            if isinstance(e, Element) and e.address.coefficient(kernel.vector):
                types.add(e.type)
            elif isinstance(e, Fold):
                types |= {element.type for element in e.elements}
            elif isinstance(e, Cast) and e.type.is_float:
                types.add(e.type)
    return [max(type.bits, 8) // 8 for type in types]


def _fold_steps(fold: Fold) -> int:
    return math.prod(axis.size for axis in fold.axes)


def _work(kernel: ComputeKernel) -> int:
    points = math.prod(axis.size for axis in (*kernel.outer, kernel.vector, kernel.tile) if axis is not None)
    steps = sum(_fold_steps(fold) for fold in _folds(kernel))
    rows = math.prod(axis.size for axis in kernel.outer)
    once = sum(_fold_steps(fold) for fold in _all_folds(kernel)) - steps
    return points * max(steps, 1) + rows * once


def _with_interleaving(kernel: ComputeKernel) -> ComputeKernel:
    """Vectorise the axis before a last one that is short: the vectors of all its points make one run of memory."""
    last = kernel.vector
    if last is None or not kernel.shared or last.size not in INTERLEAVED or kernel.in_place or _folds(kernel):
        return kernel
    vector = kernel.shared[-1]
    moves = [(s.address.coefficient(vector), s.address.coefficient(last)) for s in kernel.stores]
    if vector.size < 2 * last.size or any(move != (last.size, 1) for move in moves):
        return kernel
    return replace(
        kernel,
        shared=kernel.shared[:-1],
        vector=vector,
        tile=last,
        tile_size=last.size,
        tile_block=last.size,
        interleaved=True,
    )


def _with_transposition(kernel: ComputeKernel) -> ComputeKernel:
    """Tile the axis along which an input is contiguous, where the vector axis walks over its rows."""
    vector = kernel.vector
    if vector is None or kernel.tile is not None or _all_folds(kernel):
        return kernel
    addresses = [e.address for s in kernel.stores for e in walk(s.value) if isinstance(e, Element)]
    across = [a for a in addresses if abs(a.coefficient(vector)) > SHUFFLED_STRIDE]
    most = min(TRANSPOSED, TRANSPOSED_BYTES * 8 // kernel.stores[0].tensor.type.bits)
    for axis in kernel.shared:
        size = _power_below(min(axis.size, vector.size, most))
        if kernel.in_place and axis.size % size:
            continue  # the last tile would be moved back, and some points computed twice
        if across and size >= 4 and all(a.coefficient(axis) == 1 for a in across):
            shared = tuple(a for a in kernel.shared if a is not axis)
            block = size * max(1, TILE_BLOCK // size)
            return replace(kernel, shared=shared, tile=axis, tile_size=size, tile_block=block, transposed=True)
    return kernel


def _is_streamed(kernel: ComputeKernel) -> bool:
    """Whether the output is written past the caches: it is large, and its rows fill whole cache lines.

    Rows with gaps between them, which other statements fill, must be long: half a line written past the caches is
    slower than one that waits in a cache for its other half.
    """
    (store, *others) = kernel.stores
    if others or kernel.vector is None or kernel.tile is not None or _all_folds(kernel):
        return False
    width = store.tensor.type.bits // 8
    row = kernel.vector.size * width
    dense = not kernel.shared or store.address.coefficient(kernel.shared[-1]) == kernel.vector.size
    size = math.prod(store.tensor.sizes) * width
    contiguous = store.address.coefficient(kernel.vector) == 1
    return contiguous and size >= STREAMED_BYTES and row >= (STREAMED_ROW if dense else STREAMED_LONE_ROW)


def _with_tile(kernel: ComputeKernel, machine: Machine) -> ComputeKernel:
    """Tile an outer axis along which one factor of a sum of products stays the same."""
    contractions = [fold for fold in _folds(kernel) if fold.contract]
    if kernel.tile is not None or len(contractions) != 1 or kernel.vector is None or len(_folds(kernel)) != 1:
        return _with_shared_runs(kernel)
    product = contractions[0].elements[0]
    assert isinstance(product, Binary)
    dependencies = Dependencies()
    factors = [dependencies.of(product.left), dependencies.of(product.right)]
    moving = [f for f in factors if kernel.vector in f]
    resting = [f for f in factors if kernel.vector not in f]
    if len(moving) != 1 or len(resting) != 1:
        return kernel
    candidates = [axis for axis in kernel.shared if axis in resting[0] and axis not in moving[0]]
    if not candidates:
        return kernel
    axis = max(candidates, key=lambda candidate: candidate.size)
    registers = machine.vector_registers
    size = min(axis.size, 12 if registers >= 32 else 4)
    block = size * max(1, TILE_BLOCK // size)
    shared = tuple(a for a in kernel.shared if a is not axis)
    return replace(kernel, tile=axis, tile_size=size, tile_block=block, shared=shared)


def _with_shared_runs(kernel: ComputeKernel) -> ComputeKernel:
    """Tile an outer axis whose points read the gaps that the steps of the vector axis leave: each line is read once."""
    if kernel.vector is None or kernel.tile is not None or _folds(kernel):
        return kernel
    addresses = [e.address for s in kernel.stores for e in walk(s.value) if isinstance(e, Element)]
    for axis in kernel.shared:
        if (
            addresses
            and axis.size in INTERLEAVED
            and all((a.coefficient(kernel.vector), a.coefficient(axis)) == (axis.size, 1) for a in addresses)
        ):
            shared = tuple(a for a in kernel.shared if a is not axis)
            return replace(kernel, tile=axis, tile_size=axis.size, tile_block=axis.size, shared=shared)
    return kernel


def _with_items(kernel: ComputeKernel) -> ComputeKernel:
    """Share out only as many axes as make enough work items; cut the vector axis where all of them make too few."""
    axes, count = kernel.shared, 0
    kernel = replace(kernel, shared=())
    while kernel.item_count < ITEMS and count < len(axes):
        count += 1
        kernel = replace(kernel, shared=axes[:count])
    kernel = replace(kernel, inner=axes[count:])
    hoisted = len(_all_folds(kernel)) > len(_folds(kernel))  # a cut would repeat them in every part
    if kernel.serial or kernel.vector is None or kernel.item_count >= ITEMS or hoisted:
        return kernel
    wanted = -(-ITEMS // kernel.item_count)
    smallest = kernel.lanes * (4 if not _folds(kernel) else 1)
    block = max(smallest, kernel.vector.size // wanted)
    block = -(-block // kernel.lanes) * kernel.lanes
    return kernel if block >= kernel.vector.size else replace(kernel, vector_block=block)
