"""Bytes between convolutions with the channels of a point side by side: words that need no copies, or lesser ones.

Convolutions of bytes read words of four channels and compute many channels of a point together. Where tensors between
them have the channels of each point side by side (N, spatial..., C), these are stored as they are computed, and the
next one finds its words in memory: the copies that packed them are gone, and those that put a margin around a tensor
copy runs of bytes. Words of two numbers of 16 bits, for processors that multiply no bytes, are copies still, of runs in
runs: all other gains are the same. What else reads such a tensor, as residual sums and poolings do, stores channels
side by side, too, or runs over all points. Convolutions of single channels, whose words are neighbours in a row, go
byte by byte where words have four: points that are next to each other share these, and all lanes are channels. Strides
change, and the places of bits with them; no arithmetic does.

This is a matter of several operators, so it comes behind fusion, when what is left to be written is known.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from opendml.expression.affine import Dependencies, address_of, affine
from opendml.expression.element_types import I8, I16, I32, U8, U16, U32
from opendml.expression.ir import (
    WORD_PRODUCTS,
    Axis,
    Binary,
    Cast,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    Tensor,
    binary,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    packed_strides,
    temporary,
)
from opendml.expression.rewriting import Rewriter, substitute, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Single,
    Statement,
    Store,
    expressions_of,
    reads_of,
    rewritten,
    writes_of,
)
from opendml.graph.fusion import readers_in_writers
from opendml.loops.rewriting import lowered_stores
from opendml.targets.cpu.refine.margins_in_place import margins_in_place
from opendml.targets.cpu.refine.refinement import CHANNEL, pitch_of_run, with_runs
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.words_in_memory import BYTES, halves_of_word, parts_of_word, word_in_memory


def channel_runs(definition: Definition, target: CpuTarget) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such tensors where all that writes and reads them is as fast or faster with them; and for
    each statement that is another one now that which it was."""
    form = _form(definition)
    if form is None:
        return definition, {}
    apart = _bytes_apart(definition, form)
    while True:
        split, whole = _split(definition, apart, target)
        runs = _Runs(split, form, target)
        tensors = runs.tensors()
        left = {statement for statement, (made, _) in apart.items() if writes_of(made).isdisjoint(tensors)}
        if not left:
            break
        apart = {statement: pair for statement, pair in apart.items() if statement not in left}
    if not tensors:
        return definition, {}
    made, were = runs.laid_out(tensors)
    were = {s: whole.get(was, was) for s, was in were.items()}
    placed, before = margins_in_place(made, CHANNEL)
    were |= {s: were.get(was, was) for s, was in before.items()}
    return placed, {s: was for s, was in were.items() if s in placed.statements}


class _Form(NamedTuple):
    """Words of so many channels, what multiplies them, and what tells their bytes from how they are joined."""

    operation: str
    channels: int
    parts: Callable[[Expression], list[Expression]]

    def joined(self, bytes: Sequence[Expression]) -> Expression:
        """A word of bytes, or of the numbers of 16 bits that these are."""
        value: Expression = constant(0, U32)
        for i, byte in enumerate(bytes):
            part = cast(byte, U8) if self.channels == BYTES else cast(cast(byte, I16), U16)
            value = value | cast(part, U32) << U32.bits // self.channels * i
        return cast(value, I32)


_FORMS: Final = (
    _Form("dot4", BYTES, parts_of_word),
    _Form("dot4_saturating", BYTES, parts_of_word),
    _Form("dot2", 2, halves_of_word),
)
"""The first one that sums have."""


def _form(definition: Definition) -> _Form | None:
    if not any(tensor.type is I32 for tensor in definition.temporaries):
        return None  # no words
    products = (fold.elements[0] for statement in definition.statements for fold in _sums(statement))
    found = {product.operation for product in products if isinstance(product, Binary)}
    return next((form for form in _FORMS if form.operation in found), None)


def _sums(statement: Statement) -> set[Fold]:
    """Sums of products in a statement."""
    return {e for x in expressions_of(statement) for e in walk(x) if isinstance(e, Fold) and e.contract}


@dataclass(frozen=True, slots=True)
class _Words:
    """A statement that copies a tensor's bytes into words of channels, and nothing else."""

    store: Store
    source: Tensor


def _bytes_apart(definition: Definition, form: _Form) -> dict[Statement, tuple[Compute, Compute]]:
    """Of statements that compute words of channels, as residual sums and margins, those of the bytes, and of the
    words as copies of these."""
    found = dict[Statement, tuple[Compute, Compute]]()
    for statement in definition.statements:
        pair = _pair(statement, form)
        if pair is not None:
            found[statement] = pair
    return found


def _pair(statement: Statement, form: _Form) -> tuple[Compute, Compute] | None:
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    copy, parts = store.tensor, form.parts(store.value)
    is_own = copy.role == "temporary" and copy.type is I32 and len(copy.sizes) > CHANNEL + 2
    if not is_own or len(parts) != form.channels or _packed(store, form) is not None or copy.sizes[CHANNEL] != 1:
        return None
    image, _, word, *place = store.coordinates
    if not isinstance(word, Index) or word.axis.size != copy.sizes[CHANNEL + 1]:
        return None
    count = form.channels
    channel, first = Axis("c", count * word.axis.size), word * count
    value = substitute({first: index(channel)})(parts[0])
    there = [substitute({index(channel): first + i if i else first})(value) for i in range(count)]
    if word.axis in Dependencies().of(value) or any(a is not b for a, b in zip(there, parts, strict=True)):
        return None
    bytes = temporary(f"{copy.name}_bytes", value.type, [copy.sizes[0], channel.size, *copy.sizes[CHANNEL + 2 :]])
    axes = tuple(channel if axis is word.axis else axis for axis in statement.axes)
    made = Compute(axes, (Store(bytes, (image, index(channel), *place), value),))
    loads = [load(bytes, (image, first + i if i else first, *place)) for i in range(count)]
    return made, Compute(statement.axes, (Store(copy, store.coordinates, form.joined(loads)),))


def _split(
    definition: Definition, apart: Mapping[Statement, tuple[Compute, Compute]], target: CpuTarget
) -> tuple[Definition, dict[Single, Single]]:
    """The definition with pairs of statements in the place of some; and which these were. Where bytes that one of them
    reads are nobody else's, it is a part of what computes these."""
    statements, temporaries, were = list[Statement](), list(definition.temporaries), dict[Single, Single]()
    for statement in definition.statements:
        pair = apart.get(statement)
        statements += [statement] if pair is None else pair
        if pair is not None and isinstance(statement, Compute):
            temporaries.append(pair[0].stores[0].tensor)
            were |= dict.fromkeys(pair, statement)
    read = {t: None for first, _ in apart.values() for t in definition.temporaries if t in reads_of(first)}
    own = [t for t in read if t.type in (I8, U8) and not any(t in pair for pair in definition.views)]
    joined, gone = readers_in_writers(statements, own, dict(definition.views), target.costs)
    writers = {t: s for s in definition.statements if isinstance(s, Compute) for t in writes_of(s) & gone}
    known = {*statements}
    for tensor, writer in writers.items():
        (reader,) = (s for s in statements if tensor in reads_of(s))
        were |= {s: writer for s in joined if s not in known and isinstance(s, Compute) and _writes_alike(s, reader)}
    were = {s: was for s, was in were.items() if s in joined}
    temporaries = [tensor for tensor in temporaries if tensor not in gone]
    return replace(definition, statements=tuple(joined), temporaries=tuple(temporaries)), were


def _writes_alike(statement: Statement, other: Statement) -> bool:
    return writes_of(statement) == writes_of(other)


class _Runs:
    """Which tensors of a definition get their channels side by side."""

    def __init__(self, definition: Definition, form: _Form, target: CpuTarget) -> None:
        self.definition, self.form, self.target = definition, form, target
        self.dependencies = Dependencies()
        self.lanes = target.machine.lanes(I32.bits)
        self.numbers = {statement: number for number, statement in enumerate(definition.statements)}
        self.viewed = {t for pair in definition.views for t in pair}
        self.writers, self.readers = (
            defaultdict[Tensor, list[Statement]](list),
            defaultdict[Tensor, list[Statement]](list),
        )
        for statement in definition.statements:
            for tensor in writes_of(statement):
                self.writers[tensor].append(statement)
            for tensor in reads_of(statement):
                self.readers[tensor].append(statement)
        self.words = {s: words for s in definition.statements if (words := self._words_of(s)) is not None}

    def tensors(self) -> set[Tensor]:
        """Those that may be, and those of which everything that touches them has tensors of the same kind."""
        found = {tensor for tensor in self.definition.temporaries if self._may_be(tensor)}
        while True:
            left = {tensor for tensor in found if not self._fits(tensor, found)}
            if not left:
                return found if any(words.source in found for words in self.words.values()) else set()
            found -= left

    def _may_be(self, tensor: Tensor) -> bool:
        is_plain = tensor.type in (I8, U8) and len(tensor.sizes) > 2 and tensor not in self.viewed
        if not is_plain or tensor.sizes[CHANNEL] % self.form.channels or tensor.sizes[CHANNEL] < self.lanes:
            return False
        is_whole = max(map(self.numbers.__getitem__, self.writers[tensor]), default=0) < min(
            map(self.numbers.__getitem__, self.readers[tensor]), default=0
        )
        is_packed = tensor.strides == packed_strides(tensor.sizes)
        return math.prod(tensor.sizes[CHANNEL + 1 :]) > 1 and is_packed and is_whole

    def _fits(self, tensor: Tensor, others: set[Tensor]) -> bool:
        return all(self._stores_runs(s, others) for s in self.writers[tensor]) and all(
            self._reads_runs(s, others) for s in self.readers[tensor]
        )

    def _stores_runs(self, statement: Statement, others: set[Tensor]) -> bool:
        """Whether a statement has vectors along the channels of what it stores: a sum of products does where one of the
        factors alone moves along them, others where all they read has its channels side by side."""
        if not isinstance(statement, Compute) or len(statement.stores) != 1 or _has_lanes_of_points(statement):
            return False
        (store,) = statement.stores
        form = affine(store.coordinates[CHANNEL])
        channels = [axis for axis in form.axes if form.coefficient(axis) == 1]
        sums = [e for e in walk(store.value) if isinstance(e, Fold) and e.contract]
        if not form.is_pure or not channels:
            return False
        if sums:
            return all(self._has_vectors(fold, channels[0], others) for fold in sums)
        planes = [t for t in reads_of(statement) if len(t.sizes) == len(store.tensor.sizes)]
        return len(planes) > 0 and all(tensor in others for tensor in planes)

    def _has_vectors(self, fold: Fold, channel: Axis, others: set[Tensor]) -> bool:
        """Whether channels are the lanes of a sum of words: one factor moves along them, or both do, and lie so."""
        (product, *_) = fold.elements
        if not isinstance(product, Binary) or product.operation != self.form.operation or channel.size < self.lanes:
            return False
        moving = [f for f in (product.left, product.right) if channel in self.dependencies.of(f)]
        loads = [e for factor in moving for e in walk(factor) if isinstance(e, Load) and e.tensor not in others]
        is_along = all(address_of(e.tensor, e.coordinates).coefficient(channel) in (0, 1) for e in loads)
        return len(moving) == 1 or (len(moving) == 2 and is_along and _byte_by_byte(fold) is not None)

    def _reads_runs(self, statement: Statement, others: set[Tensor]) -> bool:
        """Whether a statement reads what it reads of such a tensor as words, as vectors, or all points of channels."""
        if statement in self.words:
            return True
        if not isinstance(statement, Compute):
            return False
        return all(s.tensor in others or math.prod(s.tensor.sizes[CHANNEL + 1 :]) == 1 for s in statement.stores)

    def _words_of(self, statement: Statement) -> _Words | None:
        """What a statement copies in words, if that is all it does, and sums of products alone read them."""
        if not isinstance(statement, Compute) or len(statement.stores) != 1:
            return None
        (store,) = statement.stores
        copy = store.tensor
        is_own = copy.role == "temporary" and copy not in self.viewed and self.writers[copy] == [statement]
        pairs = [*zip(store.coordinates, copy.sizes, strict=True)]
        is_whole = all(size == 1 or (isinstance(c, Index) and c.axis.size == size) for c, size in pairs)
        is_whole &= len({c for c, size in pairs if size > 1}) == sum(size > 1 for _, size in pairs)
        if copy.type is not I32 or not is_own or not is_whole or len(copy.sizes) < CHANNEL + 3:
            return None
        are_summed = all(self._is_sum_of(reader, copy) for reader in self.readers[copy])
        return _packed(store, self.form) if are_summed else None

    # Laying them out -----------------------------------------------------------------------------------------------

    def laid_out(self, tensors: set[Tensor]) -> tuple[Definition, dict[Single, Single]]:
        """The definition with other strides, and without the copies that they spare."""
        moved = {tensor: with_runs(tensor, CHANNEL, self._pitch(tensor)) for tensor in tensors}
        copied = {s: words for s, words in self.words.items() if words.source in tensors}
        spared = {s: words for s, words in copied.items() if self._is_spared(words, moved)}
        gone = {words.store.tensor: words for words in spared.values()}
        kept = {s: words for s, words in copied.items() if s not in spared}
        for words in kept.values():
            copy = words.store.tensor
            moved[copy] = with_runs(copy, CHANNEL + 1, self._words_apart(copy))

        read, there = _reading(gone), _elsewhere(moved)
        statements, were, back = list[Statement](), dict[Single, Single](), dict[Tensor, Compute]()
        for statement in self.definition.statements:
            touched = (reads_of(statement) | writes_of(statement)) & {*moved, *gone}
            if statement in spared or not touched:
                statements += [] if statement in spared else [statement]
                continue
            assert isinstance(statement, Compute)
            made: Statement = statement
            if not writes_of(statement).isdisjoint(tensors):
                made = rewritten(made, substitute(_byte_by_byte_in(statement)), {})
            made = rewritten(rewritten(made, read, {}), there, moved)
            if _has_lanes_of_points(statement):
                for tensor in sorted(touched & tensors - back.keys(), key=self.definition.temporaries.index):
                    back[tensor] = _copy(tensor, moved[tensor])
                    were[back[tensor]] = statement
                    statements.append(back[tensor])
                made = rewritten(made, _elsewhere({moved[tensor]: tensor for tensor in touched & tensors}), {})
            assert isinstance(made, Compute)
            were[made] = statement
            statements.append(made)
        temporaries = (*(moved.get(t, t) for t in self.definition.temporaries if t not in gone), *back)
        return replace(self.definition, statements=tuple(statements), temporaries=temporaries), were

    def _words_apart(self, copy: Tensor) -> int:
        """Words from a point to the next one. Copies of bytes as they are fill no line more than these do."""
        words = copy.sizes[CHANNEL + 1]
        return words if self.form.channels == BYTES else pitch_of_run(words, copy.type.bits, self.target)

    def _pitch(self, tensor: Tensor) -> int:
        """Bytes from a point to the next one; of what windows read, no multiple of ``aliased_points``."""
        channels, aliased = tensor.sizes[CHANNEL], self.target.tuning.aliased_points
        copies = [words.store.tensor for words in self.words.values() if words.source is tensor]
        sums = (e for c in copies for s in self.readers[c] for x in expressions_of(s) for e in walk(x))
        is_window = any(isinstance(e, Fold) and sum(axis.size > 1 for axis in e.axes) > 1 for e in sums)
        return channels + self.target.machine.cache_line if is_window and channels % aliased == 0 else channels

    def _is_spared(self, words: _Words, moved: Mapping[Tensor, Tensor]) -> bool:
        """Whether all words of a copy are there in memory, and what reads them are sums of words."""
        there = substitute({e: load(moved[e.tensor], e.coordinates) for e in _loads(words.store.value, [words.source])})
        (lowered,) = lowered_stores([Store(words.store.tensor, words.store.coordinates, there(words.store.value))])
        word = word_in_memory(lowered.value)
        return word is not None and word.element is not None and word.first.safe

    def _is_sum_of(self, statement: Statement, words: Tensor) -> bool:
        """Whether words are the factor of a sum's products wherever a statement reads them."""
        if not isinstance(statement, Compute):
            return False
        factors = {f for fold in _sums(statement) for product in fold.elements for f in product.children}
        loads = {e for x in expressions_of(statement) for e in _loads(x, [words])}
        return loads <= factors


def _byte_by_byte_in(statement: Statement) -> dict[Expression, Expression]:
    """The sums of a statement that are better done byte by byte, and what they become."""
    return {Part(fold, 0): Part(made, 0) for fold in _sums(statement) if (made := _byte_by_byte(fold)) is not None}


def _byte_by_byte(fold: Fold) -> Fold | None:
    """A sum of words of neighbours, whose bytes lie apart where channels are side by side, with a step for every byte:
    alone in its word it meets that byte of the other factor which is lowest. Neighbours are the first axis: sums of
    points that are next to each other share what they load. Integers are exact, so the order of steps is free."""
    (product, *_) = fold.elements
    if not isinstance(product, Binary) or WORD_PRODUCTS.get(product.operation) != BYTES:
        return None
    for word, other in ((product.left, product.right), (product.right, product.left)):
        bytes = _loads_among(parts_of_word(word))
        dimension = _dimension_of(bytes)
        if len(bytes) < 2 or dimension is None:
            continue
        near, (first, *_) = Axis("u", len(bytes)), bytes
        moved = [c + index(near) if d == dimension else c for d, c in enumerate(first.coordinates)]
        byte = cast(cast(cast(load(first.tensor, moved), U8), U32), I32)
        weight = binary("shr", other, cast(index(near) * 8, I32))
        pair = (byte, weight) if word is product.left else (weight, byte)
        product = binary(product.operation, *pair)
        return Fold((near, *fold.axes), fold.initial, (product,), fold.combine, contract=True)
    return None


def _dimension_of(bytes: Sequence[Load]) -> int | None:
    """The dimension behind that of channels along which elements follow one another, if they do."""
    pairs = [*itertools.pairwise(bytes)]
    found = (
        d
        for d in range(CHANNEL + 1, len(bytes[0].coordinates) if bytes else 0)
        if all(_follow(a, b, d) for a, b in pairs)
    )
    return next(found, None)


def _has_lanes_of_points(statement: Statement) -> bool:
    """Whether a statement sums up points in the lanes of a vector, and so wants these side by side."""
    return any(isinstance(e, Fold) and e.partials > 1 for x in expressions_of(statement) for e in walk(x))


def _copy(copy: Tensor, source: Tensor) -> Compute:
    """All of a tensor in another one."""
    axes = grid(source.sizes)
    return Compute(axes, (Store(copy, indices(axes), load(source, indices(axes))),))


def _elsewhere(tensors: Mapping[Tensor, Tensor]) -> Rewriter:
    """Reads tensors where others are in their place."""

    def read(_: Expression, e: Expression) -> Expression:
        return load(tensors[e.tensor], e.coordinates) if isinstance(e, Load) and e.tensor in tensors else e

    return Rewriter(read=read)


def _reading(gone: Mapping[Tensor, _Words]) -> Rewriter:
    """Puts words in memory where copies of them are read."""

    def read(_: Expression, e: Expression) -> Expression:
        if not isinstance(e, Load) or e.tensor not in gone:
            return e
        words = gone[e.tensor]
        pairs = zip(words.store.coordinates, e.coordinates, strict=True)
        return substitute({place: there for place, there in pairs if isinstance(place, Index)})(words.store.value)

    return Rewriter(read=read)


def _loads(expression: Expression, tensors: Iterable[Tensor]) -> list[Load]:
    return [e for e in walk(expression) if isinstance(e, Load) and e.tensor in tensors]


def _packed(store: Store, form: _Form) -> _Words | None:
    """The bytes of a word, one behind the other in the dimension of channels of one tensor."""
    loads = _loads_among(form.parts(store.value))
    is_word = len(loads) == form.channels and all(itertools.starmap(_follow, itertools.pairwise(loads)))
    return _Words(store, loads[0].tensor) if is_word else None


def _loads_among(parts: Sequence[Expression]) -> list[Load]:
    """The elements that the bytes of a word are; none if any of them is something else."""
    signed = [part.operand if isinstance(part, Cast) else part for part in parts]
    loads = [byte for byte in signed if isinstance(byte, Load) and byte.type in (I8, U8)]
    return loads if len(loads) == len(parts) else []


def _follow(first: Load, second: Load, dimension: int = CHANNEL) -> bool:
    """Whether one element is behind another one in a dimension."""
    if first.tensor is not second.tensor or len(first.coordinates) <= dimension:
        return False
    pairs = [*zip(first.coordinates, second.coordinates, strict=True)]
    here, there = map(affine, pairs.pop(dimension))
    between = there.plus(here, -1)
    return not between.terms and between.constant == 1 and all(a is b for a, b in pairs)
