"""Loads and stores of scalars and vectors at places that are known but for what an index adds when the code runs.

Loads of vectors never touch memory past their last element. A value and its pointers are remembered in ``Scopes``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from opendml.expression.element_types import BOOL, F16, I64, U32
from opendml.expression.ir import Tensor, constant
from opendml.llvm.builder import Builder
from opendml.llvm.function_text import FunctionText, LinesHere
from opendml.llvm.values import Value, index_value, vector_type
from opendml.loops.instructions import Instructions
from opendml.targets.cpu.instructions.moves import (
    integers_of_halves,
    write_gather,
    write_load,
    write_prefetch,
    write_store,
    write_stream,
)
from opendml.targets.cpu.kernel_parts import power_below
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.words_in_memory import BYTES


class Scopes:
    """What has been computed, by what it was computed from, in scopes that follow the control flow. ``block`` gives
    the block that is being written."""

    def __init__(self, block: Callable[[], str]) -> None:
        self._known: dict[object, Value] = {}
        self._before: list[dict[object, Value | None]] = [{}]  # for each scope, what its keys meant outside of it
        self._block = block
        self._goes_on: list[str | None] = [None]  # for each scope in line, the block that it began in
        self.find: Callable[[object], Value | None] = self._known.get
        """What is known under a key: values are asked for far more often than scopes begin and end."""

    @contextmanager
    def inner(self, *, in_line: bool = False) -> Iterator[None]:
        """What is computed inside is not known outside: for blocks that need not be executed, or ``in_line``, for what
        is executed as what is around it."""
        before: dict[object, Value | None] = {}
        self._before.append(before)
        self._goes_on.append(self._block() if in_line else None)
        yield
        self._before.pop()
        self._goes_on.pop()
        for key, value in before.items():
            if value is None:
                del self._known[key]
            else:
                self._known[key] = value

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._before)

    def put(self, key: object, value: Value) -> Value:
        """``value``, known from here to the end of the innermost scope."""
        self._before[-1].setdefault(key, self._known.get(key))
        self._known[key] = value
        return value

    def put_in_block(self, key: object, value: Value) -> Value:
        """The same of what depends on its key alone, as places do: known behind scopes in line, too, of the block that
        is being written."""
        block, scope = self._block(), len(self._before) - 1
        while self._goes_on[scope] == block:
            scope -= 1
        self._before[scope].setdefault(key, self._known.get(key))
        self._known[key] = value
        return value


def sum_of_products(text: FunctionText | LinesHere, parts: Iterable[tuple[str, int]]) -> str:
    """The sum of some values, each times a number."""
    total: str | None = None
    for name, coefficient in parts:
        product = name if coefficient == 1 else text.assign(f"mul nsw i64 {name}, {coefficient}")
        total = product if total is None else text.assign(f"add nsw i64 {total}, {product}")
    assert total is not None
    return total


class Pointer(NamedTuple):
    """Where a tensor is: the value ``name`` is the address of its element ``origin``."""

    name: str
    origin: int


class Place(NamedTuple):
    """An element of a tensor: number ``base`` (0 if there is none) + ``constant``, counted from ``start``, if there is
    such an address."""

    tensor: Tensor
    base: Value | None
    constant: int
    start: str | None = None

    def moved(self, elements: int) -> Place:
        """The place so many elements further."""
        return self._replace(constant=self.constant + elements)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.tensor.type.bits // 8


class Memory:
    """Writes loads and stores through a Builder. Of the tensors in ``prefetched`` lines are asked for so many bytes
    ahead of their use."""

    def __init__(
        self,
        builder: Builder,
        scopes: Scopes,
        pointers: Mapping[Tensor, Pointer],
        target: CpuTarget,
        prefetched: Mapping[Tensor, int],
        instructions: Instructions,
    ) -> None:
        self.builder = builder
        self._instructions = instructions
        self.target = target
        self.keeps_bases = False
        """Whether the address of an element that is computed stays what its neighbours' are constants away from.

        LLVM would make each of them a sum of an address and a common counter, which saves an addition a step; around
        loops in loops, the addresses then outnumber the registers, and all are moved on in memory. To find out what is
        best for many addresses takes it a sixth of the time of a compilation.
        """
        self.register_bytes = target.machine.vector_bytes
        self._shuffled_stride = target.tuning.shuffled_stride
        self._scopes = scopes
        self._pointers = dict(pointers)
        self._prefetched = prefetched
        self._prefetched_to = 1
        self._since: object = None
        self._outside: LinesHere | None = None  # before the loops of sums that are being written
        self._starts: dict[object, str] = {}  # of what is added there to addresses of tensors

    # Pointers --------------------------------------------------------------------------------------------------------

    def allocate(self, tensor: Tensor) -> None:
        """Memory of the thread's own for a tensor."""
        name = self.builder.allocate(tensor.name, tensor.extent * max(tensor.type.bits, 8) // 8)
        self._pointers[tensor] = Pointer(name, 0)

    @contextmanager
    def elsewhere(self, pointers: Mapping[Tensor, str]) -> Iterator[None]:
        """Inside, tensors begin at other places."""
        before = {tensor: self._pointers[tensor] for tensor in pointers}
        self._pointers |= {tensor: Pointer(name, 0) for tensor, name in pointers.items()}
        with self._scopes.inner():
            yield
        self._pointers |= before

    @contextmanager
    def prefetching(self, distances: Mapping[Tensor, int] | None) -> Iterator[None]:
        """Inside, lines are asked for so many bytes ahead, for the second-level cache; None: as everywhere."""
        before = self._prefetched, self._prefetched_to
        if distances is not None:
            self._prefetched, self._prefetched_to = distances, 2
        yield
        self._prefetched, self._prefetched_to = before

    @contextmanager
    def around_sums(self) -> Iterator[None]:
        """Inside, what is known here of the address of an element is added to the tensor's address here, and addresses
        that are computed stay what their neighbours' are constants away from."""
        before = self.keeps_bases, self._outside, self._starts
        if self._outside is None:
            self._outside, self._starts = self.builder.lines_here(), {}
        self.keeps_bases = True
        yield
        self.keeps_bases, self._outside, self._starts = before

    def outside(self, tensor: Tensor, parts: list[tuple[str, int]]) -> tuple[str | None, list[tuple[str, int]]]:
        """The address of a tensor with those of some products added that were known before the loops around sums, if
        there are any, and the others."""
        here = self._outside
        if here is None or not here.knows(pointer := self._pointers[tensor].name):
            return None, parts
        known = tuple(part for part in parts if here.knows(part[0]))
        if not known:
            return None, parts
        element = vector_type(tensor.type, 1)
        start = self._starts.get((pointer, element, known))
        if start is None:
            total = sum_of_products(here, known)
            start = self.builder.opaque(here.assign(f"getelementptr {element}, ptr {pointer}, i64 {total}"), here)
            self._starts[pointer, element, known] = start
        return start, [part for part in parts if part not in known]

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Inside, all is loaded anew: LLVM does not know addresses to be those of what was loaded before, which it
        would keep in registers, or in memory, all the way to a block that is hardly ever executed."""
        before, self._since = self._since, object()
        with self._scopes.inner(), self.around_sums():
            yield
        self._since = before

    def pointer(self, place: Place) -> str:
        """The address of an element."""
        element = vector_type(place.tensor.type, 1)
        pointer, origin = self._pointers[place.tensor]
        pointer = place.start or pointer
        if place.base is not None:
            key = ("pointer", pointer, place.base.text, place.size, self._since, self.keeps_bases)
            found = self._scopes.find(key)
            if found is None:
                text = self.builder.assign(f"getelementptr {element}, ptr {pointer}, i64 {place.base.text}")
                text = self.builder.opaque(text) if self.keeps_bases else text
                found = self._scopes.put_in_block(key, index_value(text))
            pointer = found.text
        if place.constant != origin:
            pointer = self.builder.assign(f"getelementptr {element}, ptr {pointer}, i64 {place.constant - origin}")
        return pointer

    def pointers(self, place: Place, offsets: Value) -> str:
        """The addresses of elements ``offsets`` behind a place, as a vector."""
        start = self.pointer(place)
        return self.builder.assign(f"getelementptr {vector_type(place.tensor.type, 1)}, ptr {start}, {offsets.typed}")

    def prefetch(self, place: Place, *, is_stored: bool = False, cache: int = 1) -> None:
        """Have the line of an element brought to the cache of a level; it need not be inside of the tensor."""
        write_prefetch(self.builder, self.pointer(place), is_stored=is_stored, cache=cache)

    def _read_at(self, tensor: Tensor) -> int:
        """What addresses are multiples of that a tensor's elements are read from. Any number will do where it does for
        loads: tensors of files, weights above all, lie anywhere in these, and are read there."""
        return 1 if self.target.machine.reads_anywhere else tensor.type.bits // 8

    # Loads -----------------------------------------------------------------------------------------------------------

    def load(self, place: Place, lanes: int = 1) -> Value:
        """Neighbouring elements."""
        kind = vector_type(place.tensor.type, lanes)
        text = self.builder.assign(f"load {kind}, ptr {self.pointer(place)}, align {self._read_at(place.tensor)}")
        return Value(text, place.tensor.type, lanes)

    def load_words(self, first: Place, lanes: int) -> Value:
        """Neighbouring words, from that of a first byte on, which may lie anywhere."""
        if first.tensor in self._prefetched and lanes > 1:
            self._prefetch_ahead(first, 1, lanes * BYTES)
        text = self.builder.assign(f"load {vector_type(U32, lanes)}, ptr {self.pointer(first)}, align 1")
        return Value(text, U32, lanes)

    def load_overlapping(self, first: Place, step: int, count: int, lanes: int, active: int) -> Value:
        """Words of ``count`` bytes that begin ``step`` bytes apart, those of the ``active`` lanes; the others are
        undefined."""
        base = first.base and first.base.text
        key = ("words", id(first.tensor), first.start, base, first.constant, step, count, lanes, active)
        found = self._scopes.find(key)
        if found is None:
            size = min(lanes, self.register_bytes // BYTES)
            parts = [
                self._load_overlapping_part(first.moved(at * step), step, count, size, min(active - at, size))
                for at in range(0, lanes, size)
            ]
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [self.builder.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
            found = self._scopes.put(key, parts[0])
        return found

    def _load_overlapping_part(self, first: Place, step: int, count: int, lanes: int, active: int) -> Value:
        """The same of a register: the bytes in two loads, that of the last ones moved back to end with them."""
        if active <= 0:
            return Value("poison", U32, lanes)
        span = (active - 1) * step + count
        width = power_below(span)
        runs = [self.load(first.moved(start), width) for start in dict.fromkeys((0, span - width))]
        order = list[int]()
        for lane, byte in itertools.product(range(lanes), range(BYTES)):
            at = min(lane, active - 1) * step + min(byte, count - 1)
            order.append(at if at < width else at - (span - width) + width)
        picked = self.builder.shuffle(runs[0], runs[1] if len(runs) > 1 else None, order)
        words = Value(self.builder.assign(f"bitcast {picked.typed} to {vector_type(U32, lanes)}"), U32, lanes)
        if count == BYTES:
            return words
        mask = self.builder.constant(constant((1 << 8 * count) - 1, U32))
        return self.builder.binary("and", words, self.builder.spread(mask, lanes))

    def load_apart(self, place: Place, step: int, lanes: int) -> Value:
        """Elements ``step`` apart: as whole vectors where that is faster than one by one."""
        if place.tensor in self._prefetched and abs(step) <= self._shuffled_stride:
            self._prefetch_ahead(place, step, lanes)
        if step == 1:
            return self.load(place, lanes)
        if step == -1:
            return self.builder.shuffle(self.load(place.moved(1 - lanes), lanes), None, range(lanes - 1, -1, -1))
        if abs(step) <= self._shuffled_stride:
            return self._load_picked(place, step, lanes, (0, lanes))
        return self.load_one_by_one(place, step, lanes, lanes)

    def load_one_by_one(self, place: Place, step: int, count: int, lanes: int) -> Value:
        """The first ``count`` of ``lanes`` elements."""
        return self.builder.gathered([self.load(place.moved(lane * step)) for lane in range(count)], lanes)

    def load_where(self, place: Place, step: int, mask: Value, allowed: tuple[int, int] | None = None) -> Value:
        """Elements ``step`` apart where ``mask`` holds; the others are undefined.

        ``allowed`` are the lanes where it may hold, if they are known as the code is written.
        """
        if step == 1 and (allowed is None or self.masks(place.tensor)):
            return write_load(self.builder, place.tensor.type, self.pointer(place), mask, self._read_at(place.tensor))
        if allowed is not None and 1 <= abs(step) <= self._shuffled_stride:
            return self._load_picked(place, step, mask.lanes, allowed)
        return self.gather(place, self.pointers(place, self.builder.progression(step, I64, mask.lanes)), mask)

    def masks(self, tensor: Tensor) -> bool:
        """Whether the processor's own loads of neighbouring elements leave lanes out, which are 0 then."""
        return self._instructions.find("load", tensor.type) is not None

    def gather(self, place: Place, pointers: str, mask: Value) -> Value:
        """One load a lane from a vector of addresses, where ``mask`` holds; the others are undefined."""
        return write_gather(self.builder, place.tensor.type, pointers, mask, self._read_at(place.tensor))

    def load_from_each(self, place: Place, pointers: str, lanes: int) -> Value:
        """One load a lane from a vector of addresses."""
        scalars, alignment = [], self._read_at(place.tensor)
        for lane in range(lanes):
            pointer = self.builder.assign(f"extractelement <{lanes} x ptr> {pointers}, i64 {lane}")
            text = self.builder.assign(f"load {vector_type(place.tensor.type, 1)}, ptr {pointer}, align {alignment}")
            scalars.append(Value(text, place.tensor.type))
        return self.builder.gathered(scalars, lanes)

    def _load_picked(self, place: Place, step: int, lanes: int, allowed: tuple[int, int]) -> Value:
        """Every ``step``-th element: whole registers loaded and picked apart, from the first allowed to the last."""
        chunk = min(lanes, max(1, self.register_bytes // place.size))
        first, last = allowed
        chunks = []
        for start in range(0, lanes, chunk):
            here = range(max(first - start, 0), min(last - start, chunk))
            chunks.append(self._load_picked_chunk(place.moved(start * step), step, chunk, here))
        while len(chunks) > 1:
            pairs = zip(chunks[::2], chunks[1::2], strict=True)
            chunks = [self.builder.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
        return chunks[0]

    def load_both(self, place: Place, lanes: int) -> tuple[Value, Value]:
        """Every second one of ``2 * lanes`` elements, and the others: each is loaded once for both."""
        if place.tensor in self._prefetched:
            self._prefetch_ahead(place, 1, 2 * lanes)
        size = min(lanes, self.register_bytes // place.size)
        pairs = list[tuple[Value, Value]]()
        for start in range(0, 2 * lanes, 2 * size):
            runs = [self.load(place.moved(at), size) for at in (start, start + size)]
            pairs.append((self._picked_of(runs, 0), self._picked_of(runs, 1)))
        while len(pairs) > 1:
            pairs = [
                (self._joined(a, c), self._joined(b, d)) for (a, b), (c, d) in zip(pairs[::2], pairs[1::2], strict=True)
            ]
        return pairs[0]

    def _picked_of(self, runs: Sequence[Value], first: int) -> Value:
        return self.builder.shuffle(runs[0], runs[1], range(first, 2 * runs[0].lanes, 2))

    def _joined(self, a: Value, b: Value) -> Value:
        return self.builder.shuffle(a, b, range(2 * a.lanes))

    def _load_picked_chunk(self, place: Place, step: int, lanes: int, allowed: range) -> Value:
        """The lanes in ``allowed``; the others are undefined."""
        if not allowed:
            return Value("poison", place.tensor.type, lanes)
        wanted = {lane: lane * step for lane in allowed}
        lowest, highest = min(wanted.values()), max(wanted.values())
        if len(wanted) == 1:
            return self.builder.spread(self.load(place.moved(lowest)), lanes)
        width = min(lanes, power_below(highest - lowest + 1))
        result: Value | None = None
        for start in _run_starts(highest - lowest + 1, width):
            run = self.load(place.moved(lowest + start), width)
            here = {n: at - lowest - start for n, at in wanted.items() if start <= at - lowest < start + width}
            wanted = {lane: at for lane, at in wanted.items() if lane not in here}
            if result is None:
                order = [here.get(lane, 0) for lane in range(lanes)]
                result = run if order == list(range(lanes)) else self.builder.shuffle(run, None, order)
            elif here:
                run = run if width == lanes else self.builder.shuffle(run, None, [i % width for i in range(lanes)])
                order = [lanes + here[lane] if lane in here else lane for lane in range(lanes)]
                result = self.builder.shuffle(result, run, order)
        assert result is not None
        return result

    def _prefetch_ahead(self, place: Place, step: int, lanes: int, *, is_stored: bool = False) -> None:
        """The lines of memory that the same load or store will want some rounds later."""
        size = place.size
        origin = self._pointers[place.tensor].origin  # lines are counted from here: the same in kernels at other places
        span = ((lanes - 1) * abs(step) + 1) * size
        start = (place.constant - origin + min(step, 0) * (lanes - 1)) * size
        distance = self._prefetched[place.tensor]
        ahead = distance if step > 0 else -distance
        size_of_line = self.target.machine.cache_line
        first, last = start // size_of_line, (start + span - 1) // size_of_line
        if abs(step) == 1 and span % size_of_line == 0:
            last = first + span // size_of_line - 1  # what lies beyond is the next round's
        for line in range(first, last + 1):
            key = ("prefetched", id(place.tensor), place.start, place.base and place.base.text, line)
            if self._scopes.find(key) is None:
                there = place._replace(constant=origin + (line * size_of_line + ahead) // size)
                self.prefetch(there, is_stored=is_stored, cache=self._prefetched_to)
                self._scopes.put(key, Value("", BOOL))

    # Stores ----------------------------------------------------------------------------------------------------------

    def store(self, place: Place, value: Value, aligned: bool = False) -> None:
        """All lanes of ``value`` next to one another. ``aligned``: whole registers, past the caches.

        Register by register: of one long vector LLVM stores the later halves first, and what a processor does to have
        lines ready in time it does for places in order.
        """
        if aligned:
            value = integers_of_halves(self.builder, value) if value.type is F16 else value
        elif place.tensor in self._prefetched:
            self._prefetch_ahead(place, 1, value.lanes, is_stored=True)
        lanes = self.register_bytes // place.size
        if value.lanes <= lanes or value.lanes % lanes:
            self._store(place, value, aligned)
            return
        for start in range(0, value.lanes, lanes):
            part = self.builder.shuffle(value, None, range(start, start + lanes))
            self._store(place.moved(start), part, aligned)

    def _store(self, place: Place, value: Value, aligned: bool) -> None:
        if aligned:
            write_stream(self.builder, value, self.pointer(place), self.register_bytes)
            return
        self.builder.line(f"store {value.typed}, ptr {self.pointer(place)}, align {place.size}")

    def store_apart(self, place: Place, step: int, value: Value, count: int) -> None:
        """The first ``count`` lanes to places ``step`` elements apart."""
        for lane in range(count):
            self.store(place.moved(lane * step), self.builder.extract(value, lane))

    def store_first(self, place: Place, value: Value, count: int) -> None:
        """The first ``count`` lanes to neighbouring places."""
        if self._instructions.find("store", place.tensor.type) is not None:
            write_store(self.builder, value, self.pointer(place), first_lanes(count, value.lanes))
            return
        start = 0
        while start < count:
            lanes = power_below(count - start)
            self.store(place.moved(start), self.builder.shuffle(value, None, range(start, start + lanes)))
            start += lanes

    def misaligned_elements(self, place: Place) -> str:
        """How many elements there are from a place to the next register boundary in memory."""
        address = self.builder.assign(f"ptrtoint ptr {self.pointer(place)} to i64")
        beyond = self.builder.assign(f"sub i64 0, {address}")
        gap = self.builder.assign(f"and i64 {beyond}, {self.register_bytes - 1}")
        return self.builder.assign(f"udiv i64 {gap}, {place.size}")


def first_lanes(count: int, lanes: int) -> Value:
    """A mask that holds in the first ``count`` lanes, as a constant."""
    return lanes_between(0, count, lanes)


def lanes_between(first: int, last: int, lanes: int) -> Value:
    """A mask that holds from lane ``first`` to that before ``last``, as a constant."""
    bits = ", ".join("i1 true" if first <= lane < last else "i1 false" for lane in range(lanes))
    return Value(f"<{bits}>", BOOL, lanes)


def _run_starts(span: int, lanes: int) -> list[int]:
    """Where runs of ``lanes`` elements begin that together cover ``span`` elements without leaving them."""
    starts = list(range(0, span - lanes + 1, lanes))
    return starts if starts[-1] + lanes == span else [*starts, span - lanes]
