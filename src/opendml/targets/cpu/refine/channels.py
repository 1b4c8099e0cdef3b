"""Channels at the end, where the places that a statement reads are numbers that it loads.

Neighbouring points that read anywhere load lane by lane, and steps that only some of them take are done for all. An
axis that such places and conditions do not depend on is a better vector: a load is then one of neighbouring elements,
and a condition is that of all lanes. Tensors in which it is not the fastest are copied so, and so is what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Expression, Fold, Index, Load, Tensor, grid, indices, load, temporary
from opendml.expression.rewriting import Rewriter, step_limits, walk
from opendml.expression.statements import Compute, Definition, Statement, Store, rewritten
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement
from opendml.targets.cpu.tuning import Tuning

T = TypeVar("T")


def channels_in_lanes(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such tensors copied."""

    def copied(statement: Statement) -> Refinement | None:
        found = _found(statement, around.target.tuning)
        return None if found is None else found.refinement()

    return statement_by_statement(definition, copied)


@dataclass(frozen=True, slots=True, eq=False)
class _Channels:
    """A statement, its axis of channels, and the tensors that it moves in with their dimension of channels."""

    compute: Compute
    axis: Axis
    moved: dict[Tensor, int]

    @property
    def sources(self) -> dict[Tensor, int]:
        """The tensors to copy."""
        return {tensor: d for tensor, d in self.moved.items() if tensor.strides[d] != 1}

    def refinement(self) -> Refinement:
        """Copies, the statement over these, and the copy to where its result belongs."""
        made, copies = Refinement(), dict[Tensor, Tensor]()
        for source, d in self.sources.items():
            sizes = _at_end(source.sizes, d)
            copies[source] = made.copy(
                f"{source.name}_by_channels",
                source.type,
                sizes,
                lambda *place, source=source, d=d: load(source, (*place[:d], place[-1], *place[d:-1])),
            )

        def read(_: Expression, e: Expression) -> Expression:
            if not isinstance(e, Load) or e.tensor not in copies:
                return e
            return load(copies[e.tensor], _at_end(e.coordinates, self.sources[e.tensor]))

        (store,) = self.compute.stores
        target, c = store.tensor, self.compute.axes.index(self.axis)
        if target.strides[c] == 1:
            made.statements.append(rewritten(self.compute, Rewriter(read=read), {}))
            return made
        result = temporary(f"{target.name}_by_channels", target.type, _at_end(target.sizes, c))
        place = _at_end(indices(self.compute.axes), c)
        made.temporaries.append(result)
        made.statements.append(Compute(self.compute.axes, (Store(result, place, Rewriter(read=read)(store.value)),)))
        axes = grid(target.sizes)
        copied = Store(target, indices(axes), load(result, _at_end(indices(axes), c)))
        made.statements.append(Compute(axes, (copied,)))
        return made


def _at_end(items: tuple[T, ...], d: int) -> tuple[T, ...]:
    return (*items[:d], *items[d + 1 :], items[d])


def _found(statement: Statement, tuning: Tuning) -> _Channels | None:
    """The axis of channels of a statement, if its last one is no good vector and this is worth its copies."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1 or len(statement.axes) < 2:
        return None
    (store,) = statement.stores
    if not is_whole(statement, store.tensor):
        return None
    irregular = _irregular(store.value)
    target = store.tensor
    fastest = min(range(len(target.sizes)), key=lambda d: abs(target.strides[d]) if target.sizes[d] > 1 else math.inf)
    if statement.axes[fastest] not in irregular:
        return None
    for axis in statement.axes:
        if axis not in irregular and axis.size >= tuning.fewest_channels:
            moved = _moved_by(store.value, axis)
            if moved is not None:
                return _worth(_Channels(statement, axis, moved), tuning)
    return None


def _irregular(value: Expression) -> set[Axis]:
    """The axes that places and conditions depend on which are found by what is loaded."""
    dependencies, found = Dependencies(), set[Axis]()
    for e in walk(value):
        asked = (
            e.coordinates if isinstance(e, Load) else (e.where,) if isinstance(e, Fold) and e.where is not None else ()
        )
        for part in asked:
            if any(isinstance(x, Load) for x in walk(part)):
                found |= {axis for axis in dependencies.of(part) if isinstance(axis, Axis)}
    return found


def _moved_by(value: Expression, axis: Axis) -> dict[Tensor, int] | None:
    """The tensors that an axis moves in, and the dimension that it is the coordinate of; None if it is anything else in
    one of them."""
    dependencies, found = Dependencies(), dict[Tensor, int]()
    for e in walk(value):
        if not isinstance(e, Load) or axis not in dependencies.of(e):
            continue
        along = [d for d, c in enumerate(e.coordinates) if axis in dependencies.of(c)]
        (d, *others) = along
        if others or e.coordinates[d] != Index(axis) or found.setdefault(e.tensor, d) != d:
            return None
        if any(stride == 0 and size > 1 for stride, size in zip(e.tensor.strides, e.tensor.sizes, strict=True)):
            return None
    return found or None


def _worth(channels: _Channels, tuning: Tuning) -> _Channels | None:
    """The channels, if the elements that they are copied for are read often enough."""
    (store,) = channels.compute.stores
    elements = sum(math.prod(tensor.sizes) for tensor in (*channels.sources, store.tensor))
    steps = _steps(channels.compute, tuning)
    loads = sum(often for e, often in steps if isinstance(e, Load) and e.tensor in channels.moved)
    return channels if loads >= tuning.channel_loads * elements else None


def _steps(compute: Compute, tuning: Tuning) -> Iterator[tuple[Expression, int]]:
    """The expressions of a statement, each with how often it is computed, about."""
    (store,) = compute.stores
    points = math.prod(axis.size for axis in compute.axes)
    stack, seen = [(store.value, points)], set[Expression]()
    while stack:
        e, steps = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        yield e, steps
        if isinstance(e, Fold):
            limited = step_limits(e)
            for axis in e.axes:
                steps *= min(axis.size, tuning.limited_steps) if axis in limited else axis.size
        stack += [(part, steps) for part in e.children]
