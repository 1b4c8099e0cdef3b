"""Axes that every address moves along as along one become one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from opendml.expression.affine import Affine, Element, total
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Expression, Index, constant, index
from opendml.expression.rewriting import Rewriter, walk
from opendml.loops.nest import ElementStore


def coalesce(
    axes: list[Axis], stores: tuple[ElementStore, ...], *, parts_rows: bool = False
) -> tuple[list[Axis], tuple[ElementStore, ...]]:
    """Neighbouring axes merged into one wherever every address moves along both as along one.

    ``parts_rows``: stores with margins around their rows may do so within these alone; the rows are apart by a quotient
    then, a term of the store's address.
    """
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
    margins = stores[0].margins if parts_rows and len(stores) == 1 and has_parted_rows(stores[0]) else None
    parted = set() if margins is None else {margins.along}
    groups: list[list[Axis]] = []
    for axis in axes:
        before = groups[-1][-1] if groups else None
        asked = addresses[1:] if axis in parted else addresses
        if before is not None and not {axis, before} & used and _continues(before, axis, asked):
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
    if not merged:
        return result, stores
    rows = {inner: outer for group in groups for outer, inner in itertools.pairwise(group) if inner in parted}
    return result, tuple(_with_rows(_renamed(store, merged), store, rows, merged) for store in stores)


def has_parted_rows(store: ElementStore) -> bool:
    """Whether a store has margins of one element around its rows: a vector that goes on in the next row has lanes for
    them."""
    return store.margins is not None and max(store.margins.before, store.margins.behind) <= 1


def _continues(outer: Axis, inner: Axis, addresses: Sequence[Affine]) -> bool:
    return all(a.coefficient(outer) == a.coefficient(inner) * inner.size for a in addresses)


def _with_rows(
    renamed: ElementStore, store: ElementStore, rows: Mapping[Axis, Axis], merged: Mapping[Axis, tuple[Axis, bool]]
) -> ElementStore:
    """A store whose rows are not where one after the other would be: so much further for each."""
    margins = store.margins
    if margins is None or margins.along not in rows:
        return renamed
    inner, (joint, _) = margins.along, merged[margins.along]
    address = store.address
    further = address.coefficient(rows[inner]) - address.coefficient(inner) * inner.size
    row = index(joint) // constant(inner.size, I64)
    return replace(
        renamed,
        address=total(((renamed.address, 1), (Affine(((row, 1),), 0), further))),
        margins=replace(margins, along=joint),
    )


def _renamed(store: ElementStore, merged: Mapping[Axis, tuple[Axis, bool]]) -> ElementStore:
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

    def read(_: Expression, e: Expression) -> Expression:
        return Element(e.tensor, form(e.address), e.safe) if isinstance(e, Element) else e

    rewrite = Rewriter(read=read)
    return replace(store, address=form(store.address.rebuilt(rewrite)), value=rewrite(store.value))
