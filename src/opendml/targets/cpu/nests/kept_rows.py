"""Which values along a row are kept in scratch memory, because they would be computed more than once.

Softmax needs the exponential of every element twice: for the sum of the row, and divided by it. The fold that is
evaluated first writes such values to a row of scratch memory; folds that come later, and the loop over the row that
stores the results, load them from there. They are the same bits, so this is a matter of the schedule alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opendml.expression.affine import Affine, Dependencies, Element
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Fold, Index, Part, Select, Tensor, index, temporary
from opendml.expression.rewriting import Rewriter, walk
from opendml.loops.plans import KeptRow
from opendml.targets.cpu.kernel_parts import is_part, work_of_operation
from opendml.targets.cpu.tuning import Tuning


def kept_rows(
    folds: Sequence[Fold],
    values: Sequence[Expression],
    vector: Axis,
    tuning: Tuning,
    memories: dict[tuple[int, str, int], Tensor],
) -> list[KeptRow]:
    """The rows to keep, for ``folds`` in the order of their evaluation before a loop over ``vector`` that computes
    ``values``; ``memories``, by number, type and size, are the same for all bodies of a kernel, and grow."""
    users = [_User((fold,), fold.elements, fold.axes[0], vector, tuning) for fold in folds if _runs_along(fold, vector)]
    if not users:
        return []
    users.append(_User((), values, vector, vector, tuning))
    result: list[KeptRow] = []
    known: set[Expression] = set()
    free = tuning.graph.kept_row_bytes
    for number, user in enumerate(users[:-1]):
        for value, form in user.unconditional(known):
            readers = {e: u.axis for u in users[number + 1 :] if (e := u.members.get(form)) is not None}
            writer = user.folds[0]
            size = -(-user.axis.size // writer.partials) * writer.partials  # whole vectors of the writer
            if readers and size * value.type.bits // 8 <= free:
                free -= size * value.type.bits // 8
                known.add(form)
                memory = _memory(memories, (len(result), value.type.name, size), value)
                result.append(KeptRow(writer, user.axis, value, readers, memory))
    return result


def _memory(memories: dict[tuple[int, str, int], Tensor], key: tuple[int, str, int], value: Expression) -> Tensor:
    if key not in memories:
        memories[key] = temporary(f"row{len(memories)}", value.type, (key[2],))
    return memories[key]


def _runs_along(fold: Fold, vector: Axis) -> bool:
    """Whether the fold visits every point of a row as long as ``vector``, in vectors."""
    return fold.partials > 1 and len(fold.axes) == 1 and fold.axes[0].size == vector.size and fold.where is None


class _User:
    """Expressions along an axis. ``members`` are their parts that are worth keeping, by what they are along ``vector``:
    expressions of different axes are compared in this form."""

    def __init__(
        self, folds: tuple[Fold, ...], roots: Sequence[Expression], axis: Axis, vector: Axis, tuning: Tuning
    ) -> None:
        self.folds = folds
        self._tuning = tuning
        self.axis = axis
        self._roots = roots
        self._form = _moved(axis, vector)
        self._dependencies = Dependencies()
        parts = (e for root in roots for e in walk(root, is_part))
        self.members = {self._form(e): e for e in parts if self._is_worth_keeping(e)}

    def unconditional(self, known: set[Expression]) -> Iterator[tuple[Expression, Expression]]:
        """The members that are computed whatever conditions say, each before its parts, with their forms.

        What has become ``known`` meanwhile is left out with its parts.
        """
        stack, seen = list(self._roots), set[Expression]()
        while stack:
            e = stack.pop()
            form = self._form(e)
            if e in seen or form in known:
                continue
            seen.add(e)
            if form in self.members:
                yield e, form
            if form not in known and not is_part(e):
                stack.extend([e.condition] if isinstance(e, Select) else e.children)

    def _is_worth_keeping(self, e: Expression) -> bool:
        if e.type is BOOL or isinstance(e, Element) or self.axis not in self._dependencies.of(e):
            return False
        operations, has_element = 0.0, False
        for x in walk(e, is_part):  # as far as it takes to know: what is inside is asked about itself
            operations += work_of_operation(x, self._tuning)
            has_element |= isinstance(x, Element)
            if has_element and operations >= self._tuning.kept_operations:
                return True
        return False


def _moved(axis: Axis, to: Axis) -> Rewriter:
    """A rewriter that puts one axis in the place of another, with the terms of addresses in a fixed order."""

    def visit(e: Expression) -> Expression | None:
        if isinstance(e, Index):
            return index(to) if e.axis is axis else e
        return e if isinstance(e, Part) else None

    def read(_: Expression, e: Expression) -> Expression:
        if not isinstance(e, Element):
            return e
        terms = sorted(((to if term is axis else term, c) for term, c in e.address.terms), key=_order)
        return Element(e.tensor, Affine(tuple(terms), e.address.constant), e.safe)

    return Rewriter(visit, read)


def _order(term: tuple[Axis | Expression, int]) -> tuple[bool, int, int]:
    """Axes by identity, what is not affine behind them."""
    place, coefficient = term
    return (True, id(place), coefficient) if isinstance(place, Axis) else (False, hash(place), coefficient)


def unconditional_loads(root: Expression) -> Iterator[Element]:
    """The elements in ``root`` that may be loaded whatever its conditions say."""
    stack, seen = [root], set[Expression]()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Element):
            yield e
        if isinstance(e, Select):
            branches = (x for branch in (e.then, e.otherwise) for x in walk(branch))
            yield from (x for x in branches if isinstance(x, Element) and x.safe)
        stack.extend((e.condition,) if isinstance(e, Select) else e.children)


def in_order_of_evaluation(parts: Iterable[Part], dependencies: Dependencies) -> list[Fold]:
    """The folds of ``parts``, each behind the folds inside of it that are the same at all of its points."""
    result: dict[Fold, None] = {}

    def visit(fold: Fold) -> None:
        if fold in result:
            return
        axes = frozenset(fold.axes)
        for e in fold.children:
            for part in parts_outside_selects(e):
                if not axes & dependencies.of(part):
                    visit(part.fold)
        result[fold] = None

    for part in parts:
        visit(part.fold)
    return list(result)


def parts_outside_selects(e: Expression) -> Iterator[Part]:
    """The values of folds in ``e`` that are needed whatever its conditions say, the outermost ones."""
    return (x for x in outside_selects(e) if isinstance(x, Part))


def outside_selects(e: Expression) -> Iterator[Expression]:
    """What is computed for ``e`` whatever its conditions say, but for the insides of folds."""
    seen: set[Expression] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        yield x
        if not isinstance(x, Part):
            stack.extend([x.condition] if isinstance(x, Select) else reversed(x.children))
