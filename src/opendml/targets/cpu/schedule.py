"""How a statement becomes loops: which axes merge, which one is vectorised, tiled, and shared out among threads.

A schedule never changes a result: the points of a Compute are independent, and the order of every fold is part of
its definition. So everything here is free to follow the machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from opendml.description.errors import CodeGenerationError
from opendml.expression.affine import (
    Affine,
    Dependencies,
    Element,
    affine,
    bytes_between,
    follows_axes,
    loads_of,
    threshold_form,
)
from opendml.expression.element_types import BOOL, ElementType
from opendml.expression.folds import extreme_comparison
from opendml.expression.ir import (
    WORD_PRODUCTS,
    Axis,
    Binary,
    Cast,
    Expression,
    Fold,
    Select,
    Tensor,
)
from opendml.expression.rewriting import conjuncts, walk
from opendml.expression.statements import Compute, Order, Scan, Scatter, tensors_read
from opendml.loops.nest import ElementStore
from opendml.loops.rewriting import lower_loads, lowered_stores
from opendml.targets.cpu.chosen_rows import chosen_rows
from opendml.targets.cpu.coalescing import coalesce
from opendml.targets.cpu.kernel_parts import (
    all_folds,
    elements_of,
    folds_along_vector,
    power_below,
    scattered_by,
    sums_side_by_side,
    work_of_values,
)
from opendml.targets.cpu.kernels import ComputeKernel, OrderKernel, Rows, ScanKernel, ScatterKernel
from opendml.targets.cpu.loop_order import ordered_axes, repeats_folds
from opendml.targets.cpu.prefetches import (
    expected,
    is_far,
    next_rows,
    next_squares,
    prefetched,
    rows_of_updates,
)
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning
from opendml.targets.cpu.words_in_memory import bytes_in_memory


def schedule_compute(compute: Compute, target: CpuTarget, *, in_place: bool) -> ComputeKernel:
    """Loops for a Compute; ``in_place`` says that an output may be the same memory as an input."""
    stores = lowered_stores(compute.stores)
    if any(store.margins is not None for store in stores):
        raise CodeGenerationError("only sums of products have stores with margins around their rows")
    axes = ordered_axes([axis for axis in compute.axes if axis.size > 1], stores)
    axes, stores = coalesce(axes, stores)
    if not all(follows_axes(store.address, axes) for store in stores):
        raise CodeGenerationError("a statement stores at addresses that are no sums of its axes")
    vector = axes.pop() if axes else None
    reads = read_by(stores)
    in_place = in_place and any(_same_layout(read, store.tensor) for read in reads for store in stores)
    kernel = ComputeKernel(stores, tuple(axes), (), vector, 1, in_place=in_place, reads=reads)
    tuning = target.tuning
    if _is_simple(kernel, tuning):
        return replace(kernel, shared=(), inner=kernel.shared, serial=True)
    kernel = _with_transposition(_with_interleaving(kernel, tuning), target)
    kernel = _with_rows(_with_tile(kernel, target), target)
    lanes = kernel.tile_size if kernel.transposed else _lanes(kernel, target)
    work = work_of(kernel) * (tuning.line_work if _writes_lines(kernel, target) else 1)
    work *= 1 + len(elements_of(kernel)) // tuning.loads_a_step
    serial, streamed = work < tuning.serial_work, _is_streamed(kernel, tuning)
    kernel = replace(kernel, lanes=lanes, serial=serial, streamed=streamed)
    kernel = _with_items(_with_stage(kernel, target), tuning)
    if _folds_wait(kernel, tuning):
        return _with_waiting_folds(kernel, target)
    if not kernel.together:
        chosen = chosen_rows(stores, kernel.outer, kernel.vector, tuning, target.machine.cache_line)
        kernel = replace(kernel, chosen_rows=chosen)
    return replace(
        kernel,
        prefetched=prefetched(kernel, tuning),
        next_rows=next_rows(kernel, tuning),
        expected=expected(kernel, tuning),
    )


def _is_simple(kernel: ComputeKernel, tuning: Tuning) -> bool:
    """Whether there is so little to do that one loop after the other will do."""
    work = work_of(kernel) * (1 + work_of_values([store.value for store in kernel.stores], tuning))
    return work <= tuning.simple_work and not all_folds(kernel)


def schedule_scan(scan: Scan, target: CpuTarget) -> ScanKernel:
    """Loops for a Scan: vectorised over another axis that is contiguous, if there is one."""
    tuning = target.tuning
    lower = lower_loads({})
    stores = lowered_stores(scan.stores)
    values = [ElementStore(stores[0].tensor, stores[0].address, lower(e)) for e in (*scan.step, *scan.initial)]
    axes = [axis for axis in scan.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, merged = coalesce(axes, (*stores, *values))
    stores, expressions = merged[: len(stores)], [store.value for store in merged[len(stores) :]]
    step, initial = tuple(expressions[: len(scan.step)]), tuple(expressions[len(scan.step) :])
    vector = axes[-1] if axes and abs(stores[0].address.coefficient(axes[-1])) == 1 else None
    rows = axes[-1] if axes and vector is None else None
    if any(isinstance(e, Fold) for x in (*expressions, *(s.value for s in stores)) for e in walk(x)):
        vector = rows = None  # a fold has vectors, and conditions, of its own
    outer = tuple(axis for axis in axes if axis not in (vector, rows))
    serial = scan.along.size * math.prod(axis.size for axis in axes) < tuning.serial_work
    items = math.prod(axis.size for axis in outer)
    reads = read_by(stores, *expressions)
    lanes = block = 1
    if vector is not None:
        state_bytes = max(max(v.type.bits, 8) // 8 for v in scan.state)
        lanes = power_below(min(vector.size, tuning.scanned_registers * target.machine.vector_bytes // state_bytes))
        has_bits = BOOL in (v.type for v in scan.state)
        block = lanes if has_bits else _scan_block(outer, vector, lanes, state_bytes, tuning)
    together, ahead = 1 if rows is None else min(tuning.scanned_together, rows.size), dict[Tensor, int]()
    if rows is not None and _runs_along_memory(scan, stores, step):
        types = {v.type for v in scan.state} | {e.type for e in (*reads, *(store.tensor for store in stores))}
        lanes = _scan_lanes(rows, scan.along, types, None if serial else items * rows.size, target)
        together = max(lanes, together)
        ahead = {} if lanes == 1 else next_squares(rows, lanes, (*step, *(s.value for s in stores)), tuning)
    return ScanKernel(scan, step, initial, stores, outer, vector, lanes, block, rows, together, serial, reads, ahead)


def _runs_along_memory(scan: Scan, stores: Sequence[ElementStore], step: Sequence[Expression]) -> bool:
    """Whether a scan reads and writes its points where they lie next to each other, one after the other, and whatever
    conditions say."""
    loads = loads_of(*step, *(store.value for store in stores))
    addresses = [(s.address, (-1, 1)) for s in stores] + [(e.address, (-1, 0, 1)) for e in loads]
    is_along = all(a.is_pure and a.coefficient(scan.along) in steps for a, steps in addresses)
    is_apart = {store.tensor for store in stores}.isdisjoint(e.tensor for e in loads)
    has_bits = BOOL in (v.type for v in scan.state)
    return is_along and is_apart and not has_bits and all(e.safe for e in loads)


def _scan_lanes(rows: Axis, along: Axis, types: Collection[ElementType], points: int | None, target: CpuTarget) -> int:
    """Rows side by side, the lanes of a register, fewer where ``points`` would not make work items enough for several
    threads; 1: none."""
    tuning, least = target.tuning, target.tuning.least_square
    widest = max(type.bits for type in types) // 8
    lanes = power_below(min(target.machine.vector_bytes // widest, rows.size, along.size))
    if points is not None:
        while lanes > least and points < lanes * tuning.scan_items:
            lanes //= 2
    return 1 if lanes < least or (points is not None and points < lanes * least) else lanes


def _scan_block(outer: Sequence[Axis], vector: Axis, lanes: int, state_bytes: int, tuning: Tuning) -> int:
    """Points of the vector axis that a work item covers: as many as leave enough work items."""
    wanted = -(-tuning.scan_items // math.prod(axis.size for axis in outer))
    block = min(-(-vector.size // wanted), tuning.scanned_row_bytes // state_bytes)
    return max(-(-block // lanes) * lanes, lanes)


def schedule_scatter(scatter: Scatter, target: CpuTarget) -> ScatterKernel:
    """Shares a Scatter out over axes that are coordinates of the output, else over the output itself."""
    (store,) = lowered_stores((scatter.store,))
    where = lower_loads({})(scatter.where)
    reads = read_by((store,), where)
    serial = math.prod(axis.size for axis in scatter.axes) < target.tuning.serial_work or store.tensor in reads
    serial |= target.tuning.items == 1  # a thread is alone with all of it
    blocks = _scatter_blocks(scatter, target.tuning)
    kernel = ScatterKernel(scatter.axes, where, store, blocks, serial, reads)
    return replace(kernel, next_rows=rows_of_updates(kernel, target.tuning))


def _scatter_blocks(scatter: Scatter, tuning: Tuning) -> tuple[tuple[Axis, int], ...]:
    """Axes that a coordinate of the output follows alone, or that keep points apart, the slowest first, as many as make
    enough work items."""
    forms = [affine(coordinate) for coordinate in scatter.store.coordinates]
    apart = {form.axes[0] for form in forms if form.is_pure and len(form.axes) == 1} | set(scatter.apart)
    blocks: list[tuple[Axis, int]] = []
    wanted = tuning.items
    for number, axis in enumerate(scatter.axes):
        if axis not in apart or axis.size == 1:
            continue
        block = max(axis.size // wanted, 1 if number == 0 else min(tuning.scattered_run, axis.size))
        if block < axis.size:
            blocks.append((axis, block))
            wanted = -(-wanted // -(-axis.size // block))
        if wanted == 1:
            break
    return tuple(blocks)


def schedule_order(order: Order, target: CpuTarget) -> OrderKernel:
    """Sequences as work items; all of a sequence is ordered at once where most of it is wanted."""
    stores = lowered_stores(order.stores)
    key = ElementStore(stores[0].tensor, stores[0].address, lower_loads({})(order.key))
    axes = [axis for axis in order.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, (*merged, key) = coalesce(axes, (*stores, key))
    size, wanted, tuning = order.along.size, order.rank.size, target.tuning
    room = wanted + max(wanted, tuning.gathered_candidates)
    room = size if room + wanted >= size else room
    lanes = power_below(min(size, tuning.ordered_keys, target.machine.lanes(key.value.type.bits)))
    serial = size * math.prod(axis.size for axis in axes) < tuning.serial_work
    reads = read_by((*merged, key))
    return OrderKernel(
        *(tuple(axes), order.along, key.value, order.rank, order.chosen), tuple(merged), lanes, room, serial, reads
    )


def read_by(stores: Sequence[ElementStore], *others: Expression) -> frozenset[Tensor]:
    """The tensors that the values of stores, their addresses, or other expressions load from."""
    addresses = [term for store in stores for term in store.address.opaque]
    return frozenset(tensors_read([*(store.value for store in stores), *addresses, *others]))


def _same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors may be bound to the same memory: only where every element is the same element of both."""
    layouts = [[(n, s) for n, s in zip(t.sizes, t.strides, strict=True) if n > 1] for t in (a, b)]
    return a.type is b.type and layouts[0] == layouts[1]


# Vectors, tiles, blocks ----------------------------------------------------------------------------------------------


def _lanes(kernel: ComputeKernel, target: CpuTarget) -> int:
    """Points computed together: as many registers in flight as the kind of kernel bears."""
    if kernel.vector is None:
        return 1
    folds = folds_along_vector(kernel)
    if any(fold.partials > 1 for fold in folds):
        return _sums_side_by_side(kernel, folds, target)
    tuning, sizes = target.tuning, _access_bytes(kernel)
    largest = max(sizes)
    register = target.machine.vector_bytes
    if not folds:
        lanes = _in_registers(tuning.plain_registers, tuning.mixed_registers, register, sizes)
        lanes //= 1 if kernel.tile is None else 2
    elif kernel.tile is not None or (kernel.rows is not None and all(fold.contract for fold in folds)):
        lanes = tuning.tiled_registers * register // largest
        if kernel.rows is not None and target.machine.masks_vectors and kernel.vector.size <= lanes:
            return 2 * power_below(kernel.vector.size - 1)
    elif all(fold.steps <= tuning.unrolled_steps and not scattered_by(fold, tuning) for fold in folds):
        lanes = _in_registers(tuning.folded_registers, 2 * tuning.folded_registers, register, sizes)
    else:
        lanes = tuning.looped_registers * register // largest
        longer = tuning.scattered_registers * register // largest
        items = math.prod(axis.size for axis in (*kernel.outer, kernel.vector)) // longer
        is_scattered = any(fold.steps >= tuning.followed_places and scattered_by(fold, tuning) for fold in folds)
        if is_scattered and items >= tuning.items and target.machine.vector_registers >= 32:
            lanes = longer
    return power_below(min(lanes, kernel.vector.size))


def _sums_side_by_side(kernel: ComputeKernel, folds: Sequence[Fold], target: CpuTarget) -> int:
    """How many sums whose partial results are lanes are done together, where all of them load the same row, too."""
    vector = kernel.vector
    assert vector is not None
    if len(folds) > 1 or not folds[0].contract or kernel.tile is not None or kernel.rows is not None:
        return 1
    (fold,) = folds
    count = sums_side_by_side(fold, target.machine, target.tuning)
    is_shared = any(not e.address.coefficient(vector) for e in loads_of(fold))
    return count if is_shared and vector.size % count == 0 else 1


def _in_registers(count: int, most: int, register: int, sizes: Collection[int]) -> int:
    """The points that ``count`` registers of the smallest elements hold, and at most ``most`` of the largest."""
    return min(count * register // min(sizes), most * register // max(sizes))


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


def work_of(kernel: ComputeKernel) -> int:
    """The steps of a kernel: its points, as often as their folds go on."""
    points = math.prod(axis.size for axis in (*kernel.outer, *kernel.together, kernel.vector) if axis is not None)
    steps = sum(fold.steps for fold in folds_along_vector(kernel))
    rows = math.prod(axis.size for axis in kernel.outer)
    once = sum(fold.steps for fold in all_folds(kernel)) - steps
    return points * max(steps, 1) + rows * once


def _writes_lines(kernel: ComputeKernel, target: CpuTarget) -> bool:
    """Whether every point is in a line of memory that no other one of a vector is in, as at the ends of rows."""
    vector, line = kernel.vector, target.machine.cache_line
    return vector is not None and all(bytes_between(s, vector) >= line for s in kernel.stores)


def _with_interleaving(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel:
    """Vectorise the axis before a last one that is short: the vectors of all its points make one run of memory."""
    last = kernel.vector
    if last is None or not kernel.shared or last.size not in tuning.interleaved_sizes:
        return kernel
    if kernel.in_place or folds_along_vector(kernel):
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


def _with_transposition(kernel: ComputeKernel, target: CpuTarget) -> ComputeKernel:
    """Tile the axis along which an input is contiguous, where the vector axis walks over its rows."""
    vector, tuning = kernel.vector, target.tuning
    if vector is None or kernel.tile is not None or all_folds(kernel):
        return kernel
    if any(abs(store.address.coefficient(vector)) != 1 for store in kernel.stores):
        return kernel
    elements = elements_of(kernel)
    across = [e for e in elements if abs(e.address.coefficient(vector)) > tuning.shuffled_stride]
    widest = max(t.type.bits for t in (kernel.stores[0].tensor, *(e.tensor for e in across)))
    for axis in kernel.shared:
        kept, line = _rows_kept(kernel, axis, target), target.machine.cache_line * 8 // widest
        most = _largest_square(widest, target, in_parts=kept >= line)
        size = power_below(min(axis.size, vector.size, most))
        if kernel.in_place and axis.size % size:
            continue  # the last tile would be moved back, and some points computed twice
        if across and size >= tuning.least_square and all(e.address.coefficient(axis) == 1 for e in across):
            shared = tuple(a for a in kernel.shared if a is not axis)
            block = size * max(1, min(tuning.tile_block, max(kept, line)) // size)
            return replace(kernel, shared=shared, tile=axis, tile_size=size, tile_block=block, transposed=True)
    return kernel


def _largest_square(bits: int, target: CpuTarget, *, in_parts: bool) -> int:
    """Rows and columns of a square of elements that is transposed in registers: as many as these hold, or where lines
    cannot wait for their other parts, as a register has."""
    machine, tuning = target.machine, target.tuning
    size = most = min(tuning.transposed_points, tuning.transposed_bytes * 8 // bits)
    while size > 1 and size * -(-size // machine.lanes(bits)) > machine.vector_registers:
        size //= 2
    return size if in_parts else max(size, min(machine.lanes(bits), most))


def _rows_kept(kernel: ComputeKernel, axis: Axis, target: CpuTarget) -> int:
    """Of how many rows of the outputs, one behind the other along an axis, the nearest cache keeps a line each: rows
    that are a multiple of its period apart, or of a part of that, share the places of few lines there."""
    tuning, line = target.tuning, target.machine.cache_line
    apart = min(math.gcd(bytes_between(store, axis), tuning.cache_period) for store in kernel.stores)
    return tuning.cache_ways * tuning.cache_period // max(apart, line)


def _is_streamed(kernel: ComputeKernel, tuning: Tuning) -> bool:
    """Whether the output is written past the caches as it is computed: it is large, and so are its rows.

    Half a line written past the caches is slower than one that waits in a cache for its other half.
    """
    (store, *others) = kernel.stores
    if others or kernel.vector is None or kernel.tile is not None or folds_along_vector(kernel):
        return False
    contiguous = store.address.coefficient(kernel.vector) == 1
    is_large = _output_bytes(kernel) >= tuning.streamed_bytes
    return contiguous and is_large and _bytes(kernel.vector.size, store) >= tuning.streamed_row_bytes


def _with_stage(kernel: ComputeKernel, target: CpuTarget) -> ComputeKernel:
    """Gather short rows that follow one another in a stage, where the outputs are large."""
    tuning, cache_line = target.tuning, target.machine.cache_line
    least = tuning.staged_squares_bytes if kernel.transposed else max(tuning.streamed_bytes, tuning.staged_bytes)
    if kernel.streamed or _output_bytes(kernel) < least or not _is_stageable(kernel):
        return kernel
    if kernel.transposed:
        return _with_transposed_stage(kernel, tuning)
    row = _row(kernel)
    if row is None or not kernel.shared:
        return kernel
    if sum(fold.steps for fold in all_folds(kernel)) > tuning.staged_steps:
        return kernel
    *shared, stage = kernel.shared
    if any(store.address.coefficient(stage) != row for store in kernel.stores):
        return kernel
    planes = kernel.tile_size if kernel.tile is not None and not kernel.interleaved else 1
    whole = planes * sum(_bytes(row, store) for store in kernel.stores)
    block = min(tuning.stage_bytes // whole, stage.size)
    if block < 2:
        return kernel
    lines = cache_line // math.gcd(cache_line, _bytes(row, kernel.stores[0]))
    block = block // lines * lines or block  # whole lines, if the output begins with one
    return replace(kernel, shared=tuple(shared), stage=stage, stage_block=block)


def _with_transposed_stage(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel:
    """Squares gathered in a stage whose sides are as long as they can be."""
    vector, tile = kernel.vector, kernel.tile
    assert vector is not None and tile is not None
    if any(store.address.coefficient(vector) != 1 for store in kernel.stores):
        return kernel
    elements = tuning.transposed_stage_bytes // sum(_bytes(1, store) for store in kernel.stores)
    side = max(power_below(math.isqrt(elements)), kernel.tile_size)
    columns = max(side, power_below(elements // tile.size)) if tile.size < side else side
    columns = min(columns, vector.size)
    rows = max(elements // columns // kernel.tile_size, 1) * kernel.tile_size
    return replace(
        kernel,
        stage=tile,
        tile_block=min(rows, -(-tile.size // kernel.tile_size) * kernel.tile_size),
        vector_block=None if columns == vector.size else columns,
    )


def _is_stageable(kernel: ComputeKernel) -> bool:
    """Whether every output has a simple address, and memory of its own that nothing else here reads."""
    tensors = {store.tensor for store in kernel.stores}
    simple = all(store.address.is_pure for store in kernel.stores)
    return kernel.vector is not None and simple and len(tensors) == len(kernel.stores) and not tensors & kernel.reads


def _row(kernel: ComputeKernel) -> int | None:
    """Elements that the vector axis, with a tile that is stored in between, fills without a gap in every output."""
    assert kernel.vector is not None
    if kernel.tile is not None and kernel.tile_size < kernel.tile.size:
        return None
    step = kernel.tile_size if kernel.interleaved else 1
    fills = all(store.address.coefficient(kernel.vector) == step for store in kernel.stores)
    return kernel.vector.size * step if fills else None


def _output_bytes(kernel: ComputeKernel) -> int:
    return sum(_bytes(math.prod(store.tensor.sizes), store) for store in kernel.stores)


def _bytes(elements: int, store: ElementStore) -> int:
    return elements * store.tensor.type.bits // 8


def _with_tile(kernel: ComputeKernel, target: CpuTarget) -> ComputeKernel:
    """Tile an outer axis along which one factor of each sum of products stays the same."""
    tuning, folds = target.tuning, set(folds_along_vector(kernel))
    if kernel.tile is not None or kernel.vector is None or not folds or not all(fold.contract for fold in folds):
        return _with_shared_runs(kernel, tuning)
    vector = kernel.vector
    candidates = [axis for axis in kernel.shared if all(_is_shared_along(fold, axis, vector) for fold in folds)]
    if not candidates:
        return kernel
    axis = max(candidates, key=lambda candidate: candidate.size)
    shared = tuple(a for a in kernel.shared if a is not axis)
    if _are_few_sums(kernel.vector, folds, tuning) and not _are_few_sums(axis, folds, tuning):
        size = kernel.vector.size
        return replace(kernel, vector=axis, tile=kernel.vector, tile_size=size, tile_block=size, shared=shared)
    most = tuning.few_tiled_points if target.has_few_registers else tuning.tiled_points
    most = max(min(most, tuning.tiled_sums // len(folds)), 1)
    size = _even_part(axis.size, most)
    if kernel.in_place:  # the last tile is not moved back, which would compute some points twice
        size = next(count for count in range(size, 0, -1) if axis.size % count == 0)
    block = size * max(1, tuning.tile_block // size)
    return replace(kernel, tile=axis, tile_size=size, tile_block=block, shared=shared)


def _is_shared_along(fold: Fold, axis: Axis, vector: Axis) -> bool:
    """Whether points along an axis load the same of one factor of the products that are summed up: of the one that
    moves along the vector axis, or, where both do, of one beside the other's vectors that lie behind one another, those
    of all points and then those of the next step."""
    product, dependencies = fold.elements[0], Dependencies()
    assert isinstance(product, Binary)
    factors = (product.left, product.right)
    moving, with_axis = ([one in dependencies.of(factor) for factor in factors] for one in (vector, axis))
    if not all(moving):
        return any(moving) and moving == [not has_axis for has_axis in with_axis]
    run = vector.size * axis.size
    steps = [
        {(e.address.coefficient(axis), e.address.coefficient(fold.axes[-1])) for e in loads_of(f)} for f in factors
    ]
    return {(vector.size, run)} in steps and with_axis.count(True) == 1


def _are_few_sums(axis: Axis, folds: Collection[Fold], tuning: Tuning) -> bool:
    """Whether the partial results of sums at all points of an axis stay in registers, step by step."""
    sums = sum(fold.partials * fold.type.bits // 8 for fold in folds)
    return all(fold.partials > 1 for fold in folds) and axis.size * sums <= tuning.sums_side_by_side_bytes


def _with_shared_runs(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel:
    """Tile an outer axis whose points read the gaps that the steps of the vector axis leave: each line is read once."""
    if kernel.vector is None or kernel.tile is not None or folds_along_vector(kernel):
        return kernel
    addresses = [e.address for e in elements_of(kernel)]
    for axis in kernel.shared:
        if (
            addresses
            and axis.size in tuning.interleaved_sizes
            and all((a.coefficient(kernel.vector), a.coefficient(axis)) == (axis.size, 1) for a in addresses)
        ):
            shared = tuple(a for a in kernel.shared if a is not axis)
            return replace(kernel, tile=axis, tile_size=axis.size, tile_block=axis.size, shared=shared)
    return kernel


def _with_rows(kernel: ComputeKernel, target: CpuTarget) -> ComputeKernel:
    """Sums of products over windows that overlap those of the next row: several rows together load less."""
    folds, vector = all_folds(kernel), kernel.vector
    if vector is None or vector.size < 2 or kernel.tile is not None or kernel.in_place or not kernel.shared:
        return kernel
    if len(folds) == 1 and extreme_comparison(folds[0]) is not None:
        return _with_rows_of_extremes(kernel, folds[0], target)
    if len(folds) != 1 or not folds[0].contract or folds[0].partials > 1 or folds[0].where is not None:
        return kernel
    (fold,), (*shared, axis), tuning = folds, kernel.shared, target.tuning
    read, bytes_of_word = _read_by_steps(fold)
    steps, conditions = fold.steps * bytes_of_word, guards(fold)
    is_long = steps > tuning.unrolled_steps
    if steps <= tuning.staged_steps or any(is_long or not form.is_pure for form in conditions):
        return kernel
    loads = [e.address for e in read if e.address.coefficient(axis)]
    taps = [(a, t) for a in loads for t in fold.axes if t.size > 1 and a.coefficient(t)]
    if len(loads) != 1 or not taps or any(abs(s.address.coefficient(vector)) != 1 for s in kernel.stores):
        return kernel
    registers = -(-vector.size * max(_access_bytes(kernel)) // target.machine.vector_bytes)
    most = min(tuning.row_registers // min(registers, 2), max(tuning.row_steps // steps, tuning.least_rows))
    if is_long:
        most = tuning.row_registers
    widest = most
    if all(abs(a.coefficient(tap)) >= vector.size for a, tap in taps) and not target.has_few_registers:
        widest = max(most, tuning.most_window_rows)
        most = widest if steps > tuning.near_window_steps else most
    count = _even_part(axis.size, most, widest)
    ways = [Rows(axis, count, axis.size, tap, a.coefficient(axis), a.coefficient(tap)) for a, tap in taps]
    rows = min(ways, key=lambda way: _different(way) / way.tap.size)
    if not conditions and _different(rows) == count * rows.tap.size:
        return kernel
    filters = [e.address for e in read if not e.address.coefficient(axis)]
    rows = replace(rows, of_planes=any(a.coefficient(before) for before in shared[-1:] for a in filters))
    return replace(kernel, shared=tuple(shared), rows=rows)


def _even_part(size: int, most: int, widest: int = 0) -> int:
    """How many of so many points are computed together: at most ``most``, as evenly as can be, or up to ``widest``
    where only these leave nothing over that is computed twice."""
    part = -(-size // -(-size // most))
    wider = (count for count in range(most + 1, widest + 1) if size % count == 0)
    return part if size % part == 0 else next(wider, part)


def _different(rows: Rows) -> int:
    """How many places the steps along a tap read of all rows that are computed together."""
    return _places([(rows.step, rows.together), (rows.reach, rows.tap.size)])


def _places(moves: Iterable[tuple[int, int]]) -> int:
    """How many places are read along some axes, of each of which the step from a point to the next and the points."""
    return len(set(map(sum, itertools.product(*([step * n for n in range(count)] for step, count in moves)))))


def _with_rows_of_extremes(kernel: ComputeKernel, fold: Fold, target: CpuTarget) -> ComputeKernel:
    """Extremes over windows that overlap those of the next row: several rows together, each of what they read gone
    through once. What is written past the caches is so row by row."""
    (*shared, axis), tuning, e = kernel.shared, target.tuning, fold.elements[0]
    if not isinstance(e, Element) or not e.address.is_pure or not e.type.is_float or fold.where is not None:
        return kernel
    if fold.partials > 1 or fold.steps > tuning.unrolled_steps or _output_bytes(kernel) >= tuning.streamed_bytes:
        return kernel
    step, last = e.address.coefficient(axis), fold.axes[-1]
    reaches = {tap: e.address.coefficient(tap) for tap in fold.axes if tap is not last}
    taps = [tap for tap, reach in reaches.items() if reach and any(t * reach == step for t in range(1, tap.size))]
    most = min(tuning.extreme_rows, max(tuning.row_steps // fold.steps, 2))
    count = _even_part(axis.size, most)
    if not taps or count == 1 or kernel.vector is None:
        return kernel
    rows = Rows(axis, count, axis.size, taps[0], step, reaches[taps[0]], of_planes=True)
    return replace(kernel, shared=tuple(shared), rows=rows)


def _read_by_steps(fold: Fold) -> tuple[list[Element], int]:
    """The elements that a step of a fold loads, and products in it: a word of bytes in a row is one of several."""
    product = fold.elements[0]
    factors = product.children if isinstance(product, Binary) and product.operation in WORD_PRODUCTS else ()
    words = {factor: word for factor in factors if (word := bytes_in_memory(factor)) is not None}
    elements = [e for e in walk(fold, lambda part: part in words) if isinstance(e, Element)]
    return [*elements, *(word.first for word in words.values())], max((w.count for w in words.values()), default=1)


def guards(fold: Fold) -> list[Affine]:
    """The forms of the conditions under which elements of a fold are loaded; opaque ones for what has no form."""
    conditions = [c for e in walk(fold) if isinstance(e, Select) for c in conjuncts(e.condition)]
    return [threshold_form(c) or Affine(((c, 1),), 0) for c in conditions]


def _with_items(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel:
    """Share out only as many axes as make enough work items; cut the vector axis where all of them make too few."""
    if kernel.stage is not None:
        return kernel
    axes, count = kernel.shared, 0
    kernel = replace(kernel, shared=())
    while kernel.item_count < tuning.items and count < len(axes) and not repeats_folds(kernel, axes[count:]):
        count += 1
        kernel = replace(kernel, shared=axes[:count])
    kernel = replace(kernel, inner=axes[count:])
    if kernel.rows is not None:
        blocks = _with_blocks_of_lanes(kernel, tuning)
        return _with_row_blocks(kernel, tuning) if blocks is None else blocks
    hoisted = len(all_folds(kernel)) > len(folds_along_vector(kernel))  # a cut would repeat them in every part
    if kernel.serial or kernel.vector is None or kernel.item_count >= tuning.items or hoisted:
        return kernel
    wanted = -(-tuning.items // kernel.item_count)
    smallest = kernel.lanes * (tuning.least_vectors if not folds_along_vector(kernel) else 1)
    block = max(smallest, kernel.vector.size // wanted)
    block = -(-block // kernel.lanes) * kernel.lanes
    return kernel if block >= kernel.vector.size else replace(kernel, vector_block=block)


def _folds_wait(kernel: ComputeKernel, tuning: Tuning) -> bool:
    """Whether the folds of a kernel, and nothing else, read rows that are far apart, and runs of these."""
    folds, vector, least = all_folds(kernel), kernel.vector, tuning.fold_steps_at_once
    if not folds or vector is None or not least or kernel.serial or kernel.in_place:
        return False
    if kernel.together or kernel.stage is not None or kernel.transposed or kernel.interleaved:
        return False
    along, loads = folds[0].axes[0], elements_of(kernel)
    is_plain = all(fold.axes == (along,) and _is_plain(fold) for fold in folds)
    is_stored = all(abs(store.address.coefficient(vector)) == 1 for store in kernel.stores)
    if not is_plain or not is_stored or along.size < 2 * least or not all(e.safe for e in loads):
        return False
    rows = [e for e in loads_of(*folds) if e.address.coefficient(along)]
    are_runs = all(e.address.is_pure and e.address.coefficient(vector) == 1 for e in rows)
    are_apart = all(abs(bytes_between(e, along)) >= tuning.fold_row_bytes for e in rows)
    return bool(rows) and are_runs and are_apart and all(is_far(e.tensor, tuning) for e in rows)


def _is_plain(fold: Fold) -> bool:
    """Whether the steps of a fold follow one another, each of them taken, and none of them holds a fold."""
    is_alone = not any(isinstance(e, Fold) for x in (*fold.elements, *fold.initial) for e in walk(x))
    has_bits = any(e.type == BOOL for e in fold.elements)
    return fold.partials == 1 and not fold.contract and fold.where is None and is_alone and not has_bits


def _with_waiting_folds(kernel: ComputeKernel, target: CpuTarget) -> ComputeKernel:
    """All points of a work item together, as many as their states leave room for in a near cache, a register at a time:
    more of a row at once are fewer rows that are read side by side."""
    tuning, vector = target.tuning, kernel.vector
    assert vector is not None
    sizes = [e.type.bits // 8 for fold in set(all_folds(kernel)) for e in fold.elements]
    lanes = power_below(min(vector.size, target.machine.vector_bytes // max(sizes)))
    most = min(kernel.vector_block or vector.size, tuning.scanned_row_bytes // sum(sizes))
    block = max(most // lanes, 1) * lanes
    return replace(kernel, lanes=lanes, vector_block=block, steps_at_once=tuning.fold_steps_at_once)


def _with_blocks_of_lanes(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel | None:
    """The vector axis cut into blocks where it lies across windows, and all that those of the rows that are computed
    together read along it does not stay in the nearest cache until the next windows want most of it again. A thread
    has a part of every image, as of the sums of products before and behind, and goes through it block by block."""
    rows, vector = kernel.rows, kernel.vector
    assert rows is not None
    if vector is None or kernel.serial or kernel.in_place:
        return None
    if max(fold.steps for fold in all_folds(kernel)) > tuning.near_window_steps:
        return None
    bytes_of_point = sum(rows.together * _bytes(1, store) for store in kernel.stores)
    for fold in all_folds(kernel):
        for e in loads_of(fold):
            walked = (*((axis, axis.size) for axis in fold.axes), (rows.axis, rows.together))
            moves = [(e.address.coefficient(axis), count) for axis, count in walked]
            is_across = all(step == 0 or abs(step) >= vector.size for step, _ in moves)
            if not e.address.is_pure or e.address.coefficient(vector) != 1 or not is_across:
                return None
            bytes_of_point += _places(moves) * e.type.bits // 8
    widest = max(_access_bytes(kernel))
    block = max(tuning.window_run_bytes // widest // kernel.lanes, 1) * kernel.lanes
    if bytes_of_point * vector.size <= tuning.near_window_bytes or block >= vector.size:
        return None
    if kernel.inner or not kernel.shared:
        return replace(kernel, vector_block=block)
    *images, last = (axis.size for axis in kernel.shared)
    shares = max(tuning.shares // math.prod(images), 1)
    share = next(part for part in range(-(-last // shares), last + 1) if last % part == 0)
    return replace(kernel, vector_block=block, share=share)


def _with_row_blocks(kernel: ComputeKernel, tuning: Tuning) -> ComputeKernel:
    """Rows cut into blocks of those that are computed together, where there are too few work items without."""
    rows = kernel.rows
    assert rows is not None
    if kernel.serial or kernel.item_count >= tuning.items:
        return kernel
    wanted = -(-tuning.items // kernel.item_count)
    block = max(rows.axis.size // wanted // rows.together, 1) * rows.together
    return replace(kernel, rows=replace(rows, block=min(block, rows.axis.size)))
