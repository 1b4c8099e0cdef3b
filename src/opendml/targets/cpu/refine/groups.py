"""Values of groups where the groups' elements are: computed once a row, which stays in a cache.

A statement that reduces rows, and one that computes every element anew from what came of its row (softmax,
normalisations), would go through memory twice. Where a row is one run of memory at the end of what is stored, the first
moves into the second: its folds are the same all along the row, so they are computed once, before it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from opendml.expression.ir import Axis, Expression, Fold, Index, Load, Tensor, index
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, expressions_of, loads_in, reads_of, rewritten
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings


def values_beside_elements(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the values of such groups in the statements that read them."""
    statements, gone = list[Statement](), set[Tensor]()
    for statement in definition.statements:
        values = statements[-1] if statements else None
        if isinstance(values, Compute) and isinstance(statement, Compute):
            joined = _joined(definition, values, statement)
            if joined is not None:
                gone |= {store.tensor for store in values.stores}
                statements[-1] = joined
                continue
        statements.append(statement)
    if not gone:
        return definition
    temporaries = tuple(t for t in definition.temporaries if t not in gone)
    return replace(definition, statements=tuple(statements), temporaries=temporaries)


def _joined(definition: Definition, values: Compute, elements: Compute) -> Compute | None:
    """One statement for the values of groups and the elements that are computed from them."""
    if len(elements.stores) != 1 or not is_whole(elements, elements.stores[0].tensor):
        return None
    own = {store.tensor for store in values.stores}
    readers = [s for s in definition.statements if not own.isdisjoint(reads_of(s))]
    if readers != [elements] or not own.issubset(definition.temporaries):
        return None
    run = _run(values, elements.stores[0].tensor)
    if not run or not _is_run_of_memory(elements, run, own):
        return None
    found = _values(values, elements)
    if found is None:
        return None
    joined = rewritten(elements, substitute(found), {})
    assert isinstance(joined, Compute)
    return joined


def _run(values: Compute, output: Tensor) -> list[int]:
    """The dimensions that make up a row: the last ones, over all of whose elements the values are folds in lanes; none
    where the values are something else."""
    large = [d for d, size in enumerate(output.sizes) if size > 1]
    kept = [d for d, size in enumerate(values.stores[0].tensor.sizes) if size > 1]
    run = large[len(kept) :]
    if large[: len(kept)] != kept:
        return []
    sizes = tuple(1 if d in run else size for d, size in enumerate(output.sizes))
    if any(store.tensor.sizes != sizes for store in values.stores):
        return []
    length = math.prod(output.sizes[d] for d in run)
    folds = [e for root in expressions_of(values) for e in walk(root) if isinstance(e, Fold)]
    is_row = all(fold.partials > 1 and [axis.size for axis in fold.axes] == [length] for fold in folds)
    return run if folds and is_row else []


def _is_run_of_memory(elements: Compute, run: list[int], own: set[Tensor]) -> bool:
    """Whether rows of what is stored, and of what is read beside it, are one run of memory each, and the rows of what
    is stored lie apart; where a row is of several dimensions, nobody may ask for the places in it."""
    (store,) = elements.stores
    output, along = store.tensor, [elements.axes[d] for d in run]
    if len(run) > 1 and any(
        isinstance(e, Index) and e.axis in along for e in walk(store.value, lambda e: isinstance(e, Load))
    ):
        return False
    read = {e.tensor for e in walk(store.value, lambda e: isinstance(e, Load)) if isinstance(e, Load)} - own
    for tensor in (output, *(t for t in read if len(t.sizes) == len(output.sizes))):
        strides = [0 if n == 1 else s for n, s in zip(tensor.sizes, tensor.strides, strict=True)]
        if any(strides[a] != strides[b] * output.sizes[b] for a, b in itertools.pairwise(run)):
            return False
    kept = [d for d, size in enumerate(output.sizes) if size > 1 and d not in run]
    return all(output.strides[d] > output.strides[run[0]] for d in kept)


def _values(values: Compute, elements: Compute) -> dict[Expression, Expression] | None:
    """What takes the place of the loads of values, if each element reads those of its own row."""
    there: dict[Axis, Axis] = {}
    for place, axis in zip(values.stores[0].coordinates, elements.axes, strict=True):
        if isinstance(place, Index):
            there[place.axis] = axis
    if there.keys() != {axis for axis in values.axes if axis.size > 1}:
        return None
    rewrite = substitute({index(axis): index(other) for axis, other in there.items()})
    found: dict[Expression, Expression] = {
        Load(store.tensor, tuple(map(rewrite, store.coordinates))): rewrite(store.value) for store in values.stores
    }
    own = {store.tensor for store in values.stores}
    return found if all(e in found for e in loads_in(elements) if e.tensor in own) else None
