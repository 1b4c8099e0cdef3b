"""Axes that every address moves along as along one become one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opendml.expression.affine import Affine, Element, total
from opendml.expression.ir import Axis, Expression, Index
from opendml.expression.rewriting import Rewriter, walk
from opendml.loops.nest import ElementStore


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

    def read(_: Expression, e: Expression) -> Expression:
        return Element(e.tensor, form(e.address), e.safe) if isinstance(e, Element) else e

    rewrite = Rewriter(read=read)
    return ElementStore(store.tensor, form(store.address.rebuilt(rewrite)), rewrite(store.value))
