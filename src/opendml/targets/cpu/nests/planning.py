"""How what nodes evaluate is computed: plans of Selects and folds, decided before anything is written.

A Select is both of its branches, and the choice between what comes out, unless that loads from places that only its
condition makes safe, or computes a fold that may not be wanted. What has been computed already is neither: so a plan is
made in the order in which expressions are evaluated. Where that is not sure to be the same each time, less counts as
computed than may be; then a branch is jumped over that need not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from opendml.expression.affine import Affine, Dependencies, Element, affine, is_unsafe, loads_of, threshold_form
from opendml.expression.element_types import BOOL, I64
from opendml.expression.ir import Axis, Binary, Cast, Expression, Fold, Part, Select, Variable, constant
from opendml.expression.rewriting import Contains, asks_for, conjuncts, step_limits, walk
from opendml.loops.nest import (
    Accumulate,
    At,
    Block,
    Body,
    Branch,
    Fill,
    Gather,
    Items,
    Keeping,
    Leaf,
    Let,
    Loop,
    Nest,
    Node,
    Points,
    Prefetch,
    Reduce,
    Stage,
    Tiles,
    Transpose,
)
from opendml.loops.nest_integers import Both, Condition, ToBoundary, Within
from opendml.loops.plans import AS_THEY_STAND, Choice, Folded, Folding, Guard, How, KeptRow, Overlap, Plan, Steps
from opendml.targets.cpu.nests.kept_rows import parts_outside_selects
from opendml.targets.cpu.tuning import Tuning

_Evaluating = TypeVar("_Evaluating", Leaf, Transpose, Accumulate, Prefetch, Fill, Gather, Let)

_TRUE: Final = constant(True, BOOL)


def planned(
    nest: Nest, tuning: Tuning, most: int, overlap: Overlap | None = None, border: Sequence[Block] = ()
) -> Nest:
    """The nest with the plans of its nodes. Up to ``most`` steps of a fold are written out, none in the blocks of a
    ``border``; those of points whose windows overlap go in the order of an ``overlap``."""
    body = _NestPlanner(tuning, overlap, frozenset(border)).body(nest.body, _Place(most=most))
    return replace(nest, body=body, is_planned=True)


def _unrolled_axes(fold: Fold, place: _Place, tuning: Tuning) -> tuple[Axis, ...]:
    """The inner axes of a fold that are written out, innermost first, up to so many steps at the points side by side
    there. One with partial results has a loop there."""
    if fold.partials > 1:
        return ()
    steps = place.most * 2 // place.copies if place.copies > 1 else place.most
    parts = [e for root in (*fold.elements, *fold.combine.result) for e in walk(root)]
    operations = len(parts) + sum(_lane_by_lane(e, place, tuning) for e in parts)
    if not fold.contract:
        steps = min(steps, tuning.unrolled_loads // max(sum(isinstance(e, Element) for e in parts), 1))
    budget, result = max(1, min(steps, tuning.unrolled_operations // operations)), list[Axis]()
    for axis in reversed(fold.axes):
        if axis.size > budget:
            break
        budget //= max(axis.size, 1)
        result.append(axis)
    return tuple(result)


def _lane_by_lane(e: Expression, place: _Place, tuning: Tuning) -> int:
    """The addresses and loads, and what gathers them in a register, of lanes whose elements are too far from one
    another for whole vectors."""
    if not isinstance(e, Element) or place.vector is None:
        return 0
    return 3 * place.lanes if abs(e.address.coefficient(place.vector)) > tuning.shuffled_stride else 0


def is_long(fold: Fold, copies: int, tuning: Tuning) -> bool:
    """Whether a sum of products at ``copies`` points would be too much code if all its steps were written out."""
    return fold.contract and fold.steps * copies > tuning.overlapping_steps


def _rolled_axes(fold: Fold, tap: Axis, copies: int, tuning: Tuning) -> frozenset[Axis]:
    """The axes around the ``tap`` of a sum of products that are loops: those along which not all steps are taken and,
    if it is long, those that no condition depends on: where steps stand is known only if they are written out. All axes
    of a window of more steps than that."""
    if not fold.contract:
        return frozenset()
    if math.prod(axis.size for axis in fold.axes[fold.axes.index(tap) :]) > tuning.unrolled_steps:
        return frozenset(fold.axes)
    conditions = [e.condition for element in fold.elements for e in walk(element) if isinstance(e, Select)]
    around, limits = fold.axes[: fold.axes.index(tap)], step_limits(fold)
    wanted = (axis for axis in around if axis in limits or (axis.size > 1 and is_long(fold, copies, tuning)))
    return frozenset(axis for axis in wanted if not any(asks_for(condition, (axis,)) for condition in conditions))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is evaluated: at ``copies`` points along axes that are taken ``together``, each of ``lanes``
    points of ``vector``, some left out if they are ``masked``. Of the ``constant`` axes it is known where they stand.

    ``known`` is what has been computed here, of what a plan may have to ask about; ``surely`` the folds that have been
    whenever something is evaluated here. ``most``: steps of a fold that are written out. ``keeps``: folds here keep
    rows.
    """

    constants: frozenset[Axis] = frozenset()
    vector: Axis | None = None
    lanes: int = 1
    copies: int = 1
    together: frozenset[Axis] = frozenset()
    masked: bool = False
    known: set[Expression] = field(default_factory=set)
    surely: set[Expression] = field(default_factory=set)
    most: int = 1
    keeps: bool = False

    def inner(self) -> _Place:
        """What is computed there is not known here."""
        return replace(self, known=set(self.known), surely=set(self.surely), keeps=False)

    def alone(self) -> _Place:
        """One of the points."""
        return replace(self.inner(), copies=1, together=frozenset())

    def where_taken(self) -> _Place:
        """The lanes that a condition leaves: all is computed anew but for folds that have been in all lanes."""
        surely = set[Expression]() if self.masked else self.surely
        return replace(self.alone(), masked=True, known=set(surely), surely=set(surely))


class _Draft:
    """A plan on its way."""

    def __init__(self) -> None:
        self.choices: dict[Expression, Choice] = {}
        self.foldings: dict[Fold, Folding] = {}

    def plan(self, ahead: Sequence[Folding] = ()) -> Plan:
        """The plan."""
        return (
            Plan(self.choices, self.foldings, tuple(ahead)) if self.choices or self.foldings or ahead else AS_THEY_STAND
        )


class _ExpressionPlanner:
    """Plans of expressions at a place."""

    def __init__(self, tuning: Tuning, overlap: Overlap | None) -> None:
        self._tuning = tuning
        self._overlap = overlap
        self._dependencies = Dependencies()
        self._is_unsafe = Contains(is_unsafe)
        self._matters = Contains(lambda e: isinstance(e, Part) or (isinstance(e, Select) and e.rare) or is_unsafe(e))
        self._selects = Contains(lambda e: isinstance(e, Select))
        self._forms: dict[Expression, tuple[Affine | None, ...]] = {}
        self._rows: tuple[KeptRow, ...] = ()
        self._kept: set[Expression] = set()

    # What expressions are made of ------------------------------------------------------------------------------------

    def _asks(self, e: Expression, place: _Place) -> bool:
        """Whether there may be something in ``e`` that is not computed as it stands, or that matters to others."""
        return self._matters(e) or (place.vector is not None and bool(place.constants) and self._selects(e))

    def _is_known(self, e: Expression, place: _Place) -> bool:
        return (e.fold if isinstance(e, Part) else e) in place.known

    def _varies(self, e: Expression, place: _Place) -> bool:
        """Whether ``e`` may differ between lanes."""
        if place.lanes == 1:
            return False
        return any(item is place.vector or isinstance(item, Variable) for item in self._dependencies.of(e))

    def _is_wide(self, e: Expression, place: _Place) -> bool:
        """Whether ``e`` may have a value of its own in each lane: what is loaded where lanes are left out has."""
        return self._varies(e, place) or (place.masked and self._is_unsafe(e))

    def _knows_lanes(self, condition: Expression, place: _Place) -> bool:
        """Whether it is known at the place which lanes a condition holds in."""
        if place.vector is None or place.masked:
            return False
        if condition not in self._forms:
            self._forms[condition] = tuple(map(threshold_form, conjuncts(condition)))
        forms = self._forms[condition]
        return all(form is not None and all(term in place.constants for term, _ in form.terms) for form in forms)

    def _may_stray(self, e: Expression, place: _Place) -> bool:
        """Whether what is yet to be computed of ``e`` loads from places that only its conditions make safe, or has a
        fold that may not be wanted."""
        parts = walk(e, lambda x: isinstance(x, Part) or x in place.known)
        return any((isinstance(x, Part) or is_unsafe(x)) and not self._is_known(x, place) for x in parts)

    def _chosen(self, e: Select, place: _Place) -> How | None:
        """How a Select is computed, once its condition is known; None: by both branches."""
        branches = (e.then, e.otherwise)
        if e.rare and not any(self._may_stray(branch, place) for branch in branches):
            return "rarely"
        if self._is_wide(e.condition, place):
            return "lanes" if any(self._is_unsafe(x) and self._may_stray(x, place) for x in branches) else None
        return "jump" if any(self._may_stray(branch, place) for branch in branches) else None

    # Expressions in the order of their evaluation --------------------------------------------------------------------

    def expressions(self, roots: Iterable[Expression], place: _Place, draft: _Draft) -> None:
        """The plan of expressions, one after the other."""
        for root in roots:
            self._expression(root, place, draft)

    def _expression(self, root: Expression, place: _Place, draft: _Draft) -> None:
        decided = set[Expression]()
        stack = [root]
        while stack:
            e = stack[-1]
            if self._is_known(e, place) or e in self._kept or not self._asks(e, place):
                stack.pop()
                continue
            missing = [part for part in self._needed(e, place, decided, draft) if self._is_missing(part, place)]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if isinstance(e, Part):
                self._part(e.fold, place, draft)
            place.known.add(e.fold if isinstance(e, Part) else e)

    def _is_missing(self, e: Expression, place: _Place) -> bool:
        return not self._is_known(e, place) and e not in self._kept and self._asks(e, place)

    def _needed(self, e: Expression, place: _Place, decided: set[Expression], draft: _Draft) -> Sequence[Expression]:
        """What is computed for ``e`` whatever conditions say; of a Select its condition first."""
        if isinstance(e, Part):
            return ()
        if isinstance(e, Select):
            if e in decided:
                return ()
            if self._knows_lanes(e.condition, place):
                self._choice(e, "known lanes", place, draft)
                return ()
            if self._is_missing(e.condition, place):
                return (e.condition,)
            how = self._chosen(e, place)
            decided.add(e)
            if how is None:
                return (e.then, e.otherwise)
            self._choice(e, how, place, draft)
            return ()
        if isinstance(e, Element):
            return e.address.opaque
        source = e.operand if isinstance(e, Cast) and e.type.is_integer else e
        if source.type is I64:
            form = affine(source)
            if form.terms != ((source, 1),) and not any(self._varies(term, place) for term in form.opaque):
                return form.opaque
        return e.children

    def _choice(self, e: Select, how: How, place: _Place, draft: _Draft) -> None:
        """A Select that is not computed by both of its branches. The same one elsewhere, where more is known, is
        computed in the same way."""
        then = otherwise = AS_THEY_STAND
        if how == "rarely":
            self._expression(e.otherwise, place, draft)
            self._expression(e.then, place.inner(), draft)
        elif how == "jump":
            self.expressions_apart((e.then, e.otherwise), place, draft)
        else:
            if how == "known lanes":
                self.expressions_apart((e.then, e.otherwise), place, draft)
            then = self._plan_of(e.then, place.where_taken())
            otherwise = self._plan_of(e.otherwise, place.where_taken())
        before = draft.choices.get(e)
        if before is None or before.how == "rarely":
            draft.choices[e] = Choice(e, how, then, otherwise)

    def expressions_apart(self, roots: Iterable[Expression], place: _Place, draft: _Draft) -> None:
        """Each where nothing of it is known behind it."""
        for root in roots:
            self._expression(root, place.inner(), draft)

    def _plan_of(self, e: Expression, place: _Place) -> Plan:
        draft = _Draft()
        self._expression(e, place, draft)
        return draft.plan()

    # Folds -----------------------------------------------------------------------------------------------------------

    def _part(self, fold: Fold, place: _Place, draft: _Draft) -> None:
        """A fold at one point, where it is wanted."""
        if fold not in draft.foldings:
            draft.foldings[fold] = self._folding(fold, place.alone(), draft)

    def ahead(self, folds: Iterable[Fold], place: _Place, draft: _Draft) -> list[Folding]:
        """Folds at all points, one after the other."""
        result = []
        for fold in folds:
            result.append(self._folding(fold, place, draft))
            place.known.add(fold)
            for row in result[-1].rows:
                self._kept |= row.readers.keys()
        return result

    def _folding(self, fold: Fold, place: _Place, draft: _Draft) -> Folding:
        axes = frozenset(fold.axes)
        parts = (part for e in fold.children for part in parts_outside_selects(e))
        inner = dict.fromkeys(part.fold for part in parts if not axes & self._dependencies.of(part))
        ahead = self.ahead((f for f in inner if f not in place.surely), place, draft)
        surely = place.surely | inner.keys()
        here = replace(place.inner(), constants=place.constants - axes, known=set(surely), surely=surely)
        if fold.partials > 1:
            rows = tuple(row for row in self._rows if row.writer == fold) if place.keeps else ()
            return replace(self._partial(fold, here, tuple(ahead)), rows=rows)
        self.expressions(fold.initial, place, draft)
        overlap = self._overlap if self._overlap is not None and self._overlap.tap in axes else None
        if overlap is not None:
            rolled = _rolled_axes(fold, overlap.tap, place.copies, self._tuning)
            unrolled = tuple(axis for axis in fold.axes if axis not in rolled)
            here = replace(here.alone(), constants=here.constants | frozenset(unrolled))
            return Folding(fold, "points", unrolled, overlap, tuple(ahead), self._steps(fold, here))
        unrolled = _unrolled_axes(fold, place, self._tuning)
        here = replace(here, constants=here.constants | frozenset(unrolled))
        return Folding(fold, "points", unrolled, None, tuple(ahead), self._steps(fold, here))

    def _partial(self, fold: Fold, place: _Place, ahead: tuple[Folding, ...]) -> Folding:
        """A fold whose states are lanes of its partial results."""
        how: Folded = "partials" if place.lanes == 1 or not self._is_apart(fold, place) else "partials of each lane"
        if how != "partials" and not place.masked and place.lanes <= self._tuning.rows_side_by_side:
            how = "partials side by side"
        if how == "partials" and self._shares_steps(fold, place):
            how = "partials side by side"
        last = fold.axes[-1]
        one = replace(place.alone(), vector=None, lanes=1, masked=False)
        if how != "partials" and place.vector is not None:
            one = replace(one, constants=one.constants - {place.vector})
        lanes = replace(one, vector=last, lanes=fold.partials)
        draft = _Draft()
        self.expressions(fold.initial, one.inner(), draft)
        steps = self._steps(fold, lanes, draft)
        is_whole = last.size % fold.partials == 0
        rest = None if is_whole else self._steps(fold, replace(lanes.inner(), constants=lanes.constants | {last}))
        return Folding(fold, how, (), None, ahead, steps, rest)

    def _shares_steps(self, fold: Fold, place: _Place) -> bool:
        """Whether sums of several points, with partial results of each in registers, had best be done step by step:
        where the nearest cache keeps what each point reads of its own."""
        if place.copies == 1 or place.lanes > 1 or place.masked or not (fold.contract and fold.type.is_float):
            return False
        tuning, own = self._tuning, [e for e in loads_of(fold) if place.together & self._dependencies.of(e)]
        sums = place.copies * fold.partials * fold.type.bits // 8
        read = place.copies * fold.steps * max((e.type.bits // 8 for e in own), default=0)
        return sums <= tuning.sums_side_by_side_bytes and read <= tuning.near_rows_bytes

    def _is_apart(self, fold: Fold, place: _Place) -> bool:
        return place.masked or self._varies(fold, place)

    def _steps(self, fold: Fold, place: _Place, draft: _Draft | None = None) -> Steps:
        draft, here = draft or _Draft(), place.inner()
        self.expressions(step_limits(fold).values(), here, draft)
        guard: Guard = "always"
        if fold.where is not None and fold.where != _TRUE:
            self._expression(fold.where, here, draft)
            guard = self._guard(fold.where, here)
        if guard not in ("always", "jump"):
            here = here.alone()
        ahead, masked = list[Folding](), AS_THEY_STAND
        if guard != "lanes":
            ahead = self._step(fold, here.inner(), draft)
        if guard in ("lanes", "known lanes"):
            under = _Draft()
            masked = under.plan(self._step(fold, here.where_taken(), under))
        return Steps(guard, draft.plan(ahead), masked)

    def _guard(self, where: Expression, place: _Place) -> Guard:
        is_wide = self._is_wide(where, place)
        is_same = place.copies == 1 or not place.together & self._dependencies.of(where)
        if not is_wide and is_same:
            return "jump"
        if self._knows_lanes(where, place):
            return "known lanes"
        return "lanes" if is_wide else "jumps"

    def _step(self, fold: Fold, place: _Place, draft: _Draft) -> list[Folding]:
        parts = [part for e in fold.elements for part in parts_outside_selects(e)]
        folds = dict.fromkeys(part.fold for part in parts)
        ahead = self.ahead((fold for fold in folds if fold not in place.known), place, draft)
        product = fold.elements[0]
        factors = (product.left, product.right) if fold.contract and isinstance(product, Binary) else fold.elements
        self.expressions(factors, place, draft)
        return ahead


class _NestPlanner(_ExpressionPlanner):
    """Plans of nodes."""

    def __init__(self, tuning: Tuning, overlap: Overlap | None, border: frozenset[Block]) -> None:
        super().__init__(tuning, overlap)
        self._border = border

    def body(self, body: Body, place: _Place) -> Body:
        """The nodes of a body with their plans; the body itself where these have none."""
        nodes = tuple(_PLAN[type(node)](self, node, place) if type(node) in _PLAN else node for node in body)
        return body if all(a is b for a, b in zip(nodes, body, strict=True)) else nodes

    def _moved(self, place: _Place, axis: Axis, *, is_constant: bool = False) -> _Place:
        """Where an axis stands somewhere else: what depends on it is not known there."""
        constants = place.constants | {axis} if is_constant else place.constants - {axis}
        known, surely = (
            {e for e in found if axis not in self._dependencies.of(e)} for found in (place.known, place.surely)
        )
        return replace(place, constants=constants, known=known, surely=surely, keeps=False)

    def around(self, node: Items | Block | Keeping | Tiles | Stage, place: _Place) -> Node:
        """What is around a body, and moves no axis but those of work items."""
        here = place.inner()
        if isinstance(node, Items):
            for cut in node.cuts:
                here = self._moved(here, cut.axis)
        elif isinstance(node, Keeping):
            here, self._rows = replace(here, keeps=True), node.rows
        elif node in self._border:
            here = replace(here, most=1)
        body = self.body(node.body, here)
        if isinstance(node, Keeping):
            self._rows, self._kept = (), set()
        return node if body is node.body else replace(node, body=body)

    def loop(self, node: Loop, place: _Place) -> Node:
        """A loop, whose position is known when the code runs."""
        body = self.body(node.body, self._moved(place.inner(), node.axis))
        return node if body is node.body else replace(node, body=body)

    def at(self, node: At, place: _Place) -> Node:
        """A loop of one step."""
        here = self._moved(place, node.axis, is_constant=isinstance(node.position, int))
        body = self.body(node.body, here)
        return node if body is node.body else replace(node, body=body)

    def points(self, node: Points, place: _Place) -> Node:
        """Points from where the axis stands."""
        here = self._moved(place, node.axis, is_constant=node.axis in place.constants)
        if node.kind == "vector":
            here = replace(here, vector=node.axis, lanes=node.count)
        elif node.kind == "together":
            here = replace(here, copies=here.copies * node.count, together=here.together | {node.axis})
        body = self.body(node.body, here)
        return node if body is node.body else replace(node, body=body)

    def branch(self, node: Branch, place: _Place) -> Node:
        """Two bodies, each where nothing of it is known behind it."""
        plan = self._plan(_asked(node.condition), place)
        then, otherwise = (self.body(body, place.inner()) for body in (node.then, node.otherwise))
        if plan is node.plan and then is node.then and otherwise is node.otherwise:
            return node
        return replace(node, then=then, otherwise=otherwise, plan=plan)

    def reduce(self, node: Reduce, place: _Place) -> Node:
        """Folds at these points, which are known from here on."""
        draft = _Draft()
        ahead = self.ahead(node.folds, place, draft)
        place.surely.update(node.folds)
        return replace(node, plan=draft.plan(ahead))

    def transpose(self, node: Transpose, place: _Place) -> Node:
        """Loads that are known from here on."""
        found = self._with_plan(node, place, (term for e in node.loads for term in e.address.opaque))
        place.known.update(node.loads)
        return found

    def leaf(self, node: Leaf, place: _Place) -> Node:
        """Values, what is stored, and where to."""
        addresses = (term for store in node.stores for term in store.address.opaque)
        own = () if node.own is None else _asked(node.own)
        return self._with_plan(node, place, (*own, *node.values, *(store.value for store in node.stores), *addresses))

    def _with_plan(self, node: _Evaluating, place: _Place, expressions: Iterable[Expression]) -> _Evaluating:
        plan = self._plan(expressions, place)
        return node if plan is node.plan else replace(node, plan=plan)

    def _plan(self, expressions: Iterable[Expression], place: _Place) -> Plan:
        asking = [e for e in expressions if self._asks(e, place)]
        if not asking:
            return AS_THEY_STAND
        draft = _Draft()
        self.expressions(asking, replace(place.alone(), most=place.most), draft)
        return draft.plan()


def _opaque(node: Let) -> tuple[Expression, ...]:
    """The expressions in an integer."""
    found, stack = list[Expression](), [node.value]
    while stack:
        e = stack.pop()
        if isinstance(e, ToBoundary):
            found += e.address.opaque
        stack += [part for name in ("left", "right", "first", "last") if (part := getattr(e, name, None)) is not None]
    return tuple(found)


_PLAN: Final[Mapping[type[Node], Callable[[_NestPlanner, Any, _Place], Node]]] = {
    Items: _NestPlanner.around,
    Block: _NestPlanner.around,
    Keeping: _NestPlanner.around,
    Tiles: _NestPlanner.around,
    Stage: _NestPlanner.around,
    Loop: _NestPlanner.loop,
    At: _NestPlanner.at,
    Points: _NestPlanner.points,
    Branch: _NestPlanner.branch,
    Reduce: _NestPlanner.reduce,
    Transpose: _NestPlanner.transpose,
    Leaf: _NestPlanner.leaf,
    Accumulate: lambda planner, node, place: planner._with_plan(node, place, (node.product.left, node.product.right)),
    Prefetch: lambda planner, node, place: planner._with_plan(node, place, node.address.opaque),
    Fill: lambda planner, node, place: planner._with_plan(node, place, (node.key,)),
    Gather: lambda planner, node, place: planner._with_plan(node, place, (node.key,)),
    Let: lambda planner, node, place: planner._with_plan(node, place, _opaque(node)),
}


def _asked(condition: Condition) -> tuple[Expression, ...]:
    """The expressions of a condition."""
    if isinstance(condition, Both):
        return (*_asked(condition.first), *_asked(condition.second))
    if isinstance(condition, Within):
        return condition.address.opaque
    return (condition,) if isinstance(condition, Expression) else ()
