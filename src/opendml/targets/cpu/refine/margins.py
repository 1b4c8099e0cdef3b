"""Margins of zeros: elements that may not exist, so that nobody asks again and again whether they do.

Where a sum has terms, or a tensor has elements, only where coordinates are inside of another tensor, and zero
elsewhere, the other tensor gets a margin of zeros and the question is dropped. This is worth it for what is read more
often than it is written, and in proportion: windows that overlap, beside paddings that are not huge. Adding a term of
zero changes no bit of a sum from +0 on.

A tensor that the definition computes is stored with the margin at once; an input is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from opendml.expression.affine import EXACT, interval
from opendml.expression.ir import (
    Binary,
    Cast,
    Const,
    Expression,
    Fold,
    Load,
    Select,
    Tensor,
    both,
    constant,
    grid,
    in_range,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.rewriting import Rewriter, conjuncts, walk
from opendml.expression.statements import Compute, Definition, Statement, Store, reads_of, writes_of
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.refine.sums import sum_of
from opendml.targets.cpu.tuning import Tuning


def margins(definition: Definition, around: Surroundings) -> Definition:
    """The definition with margins around the tensors that are worth it."""
    found = _found(definition)
    padded = _padded(definition, found, around.target.tuning) if found else {}
    return _with_margins(definition, padded) if padded else definition


class _Term(NamedTuple):
    """A value that is zero unless ``conditions`` hold: a Select, or the element of a Fold."""

    guarded: Select | Fold
    value: Expression
    conditions: tuple[Expression, ...]

    def asked(self, read: Load) -> list[Expression]:
        """The conditions that say that a load is inside of its tensor."""
        bounds = list(zip(read.coordinates, read.tensor.sizes, strict=True))
        return [c for c in self.conditions if any(_is_bound(c, place, size) for place, size in bounds)]

    def remaining(self, padded: Mapping[Tensor, _Margin]) -> list[Expression]:
        """What still has to be asked where some tensors have margins."""
        dropped = [c for read in _loads(self.value) if read.tensor in padded for c in self.asked(read)]
        return [c for c in self.conditions if c not in dropped]


@dataclass(slots=True)
class _Reads:
    """Terms that ask whether elements of a tensor exist: the least and the greatest of the coordinates that they ask
    about, how often they read, and whether all reads are of values in another type."""

    lowest: list[int]
    highest: list[int]
    terms: list[_Term] = field(default_factory=list)
    count: int = 0


class _Margin(NamedTuple):
    """The tensor with a margin, and how wide that is before the first element of each dimension."""

    tensor: Tensor
    before: tuple[int, ...]

    def place(self, coordinates: Sequence[Expression]) -> list[Expression]:
        """Where an element is."""
        return [c + b for c, b in zip(coordinates, self.before, strict=True)]


def _is_bound(condition: Expression, place: Expression, size: int) -> bool:
    """Whether a condition is ``place >= 0`` or ``place < size``."""
    if not isinstance(condition, Binary) or not isinstance(condition.right, Const) or isinstance(place, Const):
        return False
    limit = {"ge": 0, "lt": size}.get(condition.operation)
    return limit is not None and condition.right.value == limit and condition.left == place


def _loads(e: Expression) -> list[Load]:
    return [part for part in walk(e) if isinstance(part, Load)]


# Who reads what ------------------------------------------------------------------------------------------------------


def _found(definition: Definition) -> dict[Tensor, _Reads]:
    """The tensors that terms ask about, where all that a term asks about may have a margin."""
    found, barred = dict[Tensor, _Reads](), {t for t in definition.outputs if t is not None}
    for statement in definition.statements:
        if not isinstance(statement, Compute) or _is_guarded_sum(statement):
            barred |= reads_of(statement)
            continue
        points = math.prod(axis.size for axis in statement.axes)
        for store in statement.stores:
            for term in _terms(store.value):
                _add(found, term, points, definition)
    wanted = set(found) - barred
    while True:
        kept = {t for t in wanted if all(_is_neutral(term, wanted) for term in found[t].terms)}
        if kept == wanted:
            return {t: found[t] for t in found if t in kept}
        wanted = kept


def _is_guarded_sum(statement: Statement) -> bool:
    """Whether a statement is a sum of products whose own rules say how it reads what may not exist."""
    found = sum_of(statement)
    return found is not None and (found.left.inside is not None or found.right.inside is not None)


def _terms(value: Expression) -> Iterator[_Term]:
    """The outermost terms that ask whether elements of tensors exist."""
    terms = dict[Expression, _Term]()

    def is_term(e: Expression) -> bool:
        term = _term(e)
        if term is not None and any(term.asked(read) for read in _loads(term.value)):
            terms[e] = term
        return e in terms

    for _ in walk(value, is_term):
        pass
    return iter(terms.values())


def _term(e: Expression) -> _Term | None:
    if isinstance(e, Select) and _is_zero(e.otherwise):
        return _Term(e, e.then, tuple(conjuncts(e.condition)))
    if isinstance(e, Fold) and e.where is not None and _is_sum(e):
        return _Term(e, e.elements[0], tuple(conjuncts(e.where)))
    return None


def _is_zero(e: Expression) -> bool:
    return isinstance(e, Const) and e.bits == 0


def _is_sum(e: Fold) -> bool:
    """Whether a fold is a plain sum from +0 on."""
    result = e.combine.result[0]
    is_one = len(e.elements) == 1 and e.partials == 1 and not e.contract and _is_zero(e.initial[0])
    return is_one and isinstance(result, Binary) and result.operation == "add"


def _add(found: dict[Tensor, _Reads], term: _Term, points: int, definition: Definition) -> None:
    reads = [read for read in _loads(term.value) if term.asked(read)]
    if isinstance(term.guarded, Fold):
        # Sums over windows of an input ask at the edges only; beside what is computed anyway a margin costs nothing.
        if not any(read.tensor in definition.temporaries for read in reads):
            return
        points *= term.guarded.steps
    for read in reads:
        tensor = read.tensor
        of = found.setdefault(tensor, _Reads([0] * len(tensor.sizes), [n - 1 for n in tensor.sizes]))
        for d, (place, size) in enumerate(zip(read.coordinates, tensor.sizes, strict=True)):
            if any(_is_bound(c, place, size) for c in term.conditions):
                low, high = interval(place, {}) or (-EXACT, EXACT)
                of.lowest[d], of.highest[d] = min(of.lowest[d], low), max(of.highest[d], high)
        of.terms.append(term)
        of.count += points


def _is_neutral(term: _Term, wanted: set[Tensor]) -> bool:
    """Whether a term is zero where all the tensors are that it asks about, and they are ``wanted``."""
    asked = {read.tensor for read in _loads(term.value) if term.asked(read)}
    return asked <= wanted and _vanishes(term.value, asked)


def _vanishes(e: Expression, tensors: set[Tensor]) -> bool:
    """Whether a value is +0 where the elements of tensors are."""
    if isinstance(e, Select):
        return _vanishes(e.then, tensors) and _vanishes(e.otherwise, tensors)
    if isinstance(e, Cast):
        return _vanishes(e.operand, tensors)
    return e.tensor in tensors if isinstance(e, Load) else _is_zero(e)


# What is made of it --------------------------------------------------------------------------------------------------


def _padded(definition: Definition, found: dict[Tensor, _Reads], tuning: Tuning) -> dict[Tensor, _Margin]:
    """The tensors with margins, if all of them together are worth it."""
    padded = dict[Tensor, _Margin]()
    writers = [writes_of(statement) for statement in definition.statements]
    for tensor, reads in found.items():
        sizes = [high - low + 1 for low, high in zip(reads.lowest, reads.highest, strict=True)]
        elements = math.prod(sizes)
        room = tuning.margin_growth * math.prod(tensor.sizes) + tuning.margin_elements
        is_own = tensor in definition.temporaries
        if elements > room or (elements >= reads.count and not is_own) or sum(tensor in w for w in writers) != is_own:
            return {}
        if tuple(sizes) == tensor.sizes:
            continue
        name = tensor.name if is_own else f"padded_{tensor.name}"
        padded[tensor] = _Margin(temporary(name, tensor.type, sizes), tuple(-low for low in reads.lowest))
    return padded


def _with_margins(definition: Definition, padded: dict[Tensor, _Margin]) -> Definition:
    rewrite = _rewriter(padded)
    missing, statements = set(padded), list[Statement]()
    for statement in definition.statements:
        for tensor in [t for t in padded if t in missing & reads_of(statement)]:
            statements.append(_copy(tensor, padded[tensor]))
            missing.remove(tensor)
        if not isinstance(statement, Compute):
            statements.append(statement)
            continue
        stores = list[Store]()
        for store in statement.stores:
            margin, coordinates = padded.get(store.tensor), tuple(map(rewrite, store.coordinates))
            if margin is not None:
                statements.append(_zeros(margin.tensor))
                missing.remove(store.tensor)
                store = Store(margin.tensor, tuple(margin.place(coordinates)), rewrite(store.value))
                stores.append(store)
            else:
                stores.append(Store(store.tensor, coordinates, rewrite(store.value)))
        statements.append(Compute(statement.axes, tuple(stores)))
    temporaries = [padded[t].tensor if t in padded else t for t in definition.temporaries]
    temporaries += [margin.tensor for t, margin in padded.items() if t not in definition.temporaries]
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


def _zeros(tensor: Tensor) -> Compute:
    axes = grid(tensor.sizes)
    return Compute(axes, (Store(tensor, indices(axes), constant(0, tensor.type)),))


def _copy(source: Tensor, margin: _Margin) -> Compute:
    """The statement that writes an input with its margin."""
    axes = grid(margin.tensor.sizes)
    moved = [i - b if b else i for i, b in zip(indices(axes), margin.before, strict=True)]
    sizes = zip(moved, source.sizes, margin.tensor.sizes, strict=True)
    inside = both(in_range(place, size) for place, size, padded in sizes if size != padded)
    return Compute(axes, (Store(margin.tensor, indices(axes), select(inside, load(source, moved), 0)),))


def _rewriter(padded: dict[Tensor, _Margin]) -> Rewriter:
    """Reads what has margins, and does not ask about it."""

    def read(_: Expression, e: Expression) -> Expression:
        margin = padded.get(e.tensor) if isinstance(e, Load) else None
        return e if margin is None or not isinstance(e, Load) else load(margin.tensor, margin.place(e.coordinates))

    def visit(e: Expression) -> Expression | None:
        term = _term(e)
        if term is None:
            return None
        conditions = term.remaining(padded)
        if len(conditions) == len(term.conditions):
            return None
        if isinstance(e, Select):
            return select(rewrite(both(conditions)), rewrite(e.then), e.otherwise)
        assert isinstance(e, Fold)
        where = rewrite(both(conditions))
        is_always = isinstance(where, Const)
        return Fold(e.axes, e.initial, (rewrite(e.elements[0]),), e.combine, None if is_always else where)

    rewrite = Rewriter(visit, read)
    return rewrite
