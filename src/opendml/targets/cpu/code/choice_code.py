"""Selects into instructions, as their plans say, and the lanes where a condition is known to hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.expression.affine import Affine, Element, threshold_form
from opendml.expression.ir import Axis, Cast, Const, Expression, Select
from opendml.expression.rewriting import conjuncts
from opendml.llvm.values import Value
from opendml.loops.plans import Choice
from opendml.targets.cpu.code.memory import lanes_between
from opendml.targets.cpu.code.point import Point

if TYPE_CHECKING:
    from opendml.targets.cpu.code.evaluation import Evaluator


class ChoiceWriter:
    """Writes Selects through an Evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._builder = evaluator.builder
        self._lanes = KnownLanes()

    def select(self, e: Select, point: Point) -> Value:
        """A Select, of which the plan says how it is computed if not by both of its branches."""
        evaluator = self._evaluator
        choice = evaluator.plan.choices.get(e)
        if choice is None:
            condition = evaluator.value(e.condition, point)
            return self._builder.select(condition, evaluator.value(e.then, point), evaluator.value(e.otherwise, point))
        if choice.how == "known lanes":
            return self._in_known_lanes(choice, point)
        condition = evaluator.value(e.condition, point)
        if choice.how == "rarely":
            return self._rarely(condition, e, point)
        if choice.how == "lanes":
            return self._in_lanes(condition, choice, point)

        def side(branch: Expression) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                with evaluator.scope():
                    return [evaluator.value(branch, point)]

            return write

        return self._builder.branch(condition, side(e.then), side(e.otherwise))[0]

    def _in_lanes(self, condition: Value, choice: Choice, point: Point) -> Value:
        """Each branch in the lanes that take it."""
        evaluator, e = self._evaluator, choice.select
        condition = self._builder.spread(condition, point.lanes)
        with evaluator.following(choice.then):
            then = evaluator.value(e.then, masked(evaluator, point, condition))
        with evaluator.following(choice.otherwise):
            otherwise = evaluator.value(e.otherwise, masked(evaluator, point, self._builder.unary("not", condition)))
        return self._builder.select(condition, then, otherwise)

    def _in_known_lanes(self, choice: Choice, point: Point) -> Value:
        """A Select of which it is known for every lane which branch it takes."""
        evaluator, e = self._evaluator, choice.select
        allowed = self._lanes.where(e.condition, point)
        if allowed == point.active_lanes:
            return evaluator.value(e.then, point)
        if allowed[0] == allowed[1]:
            return evaluator.value(e.otherwise, point)
        mask = lanes_between(*allowed, point.lanes)
        with evaluator.following(choice.then):
            then = evaluator.value(e.then, point._replace(mask=mask, allowed=allowed))
        if _is_zero(e.otherwise) and self._is_zero_where_left_out(e.then, point):
            return then
        if not evaluator.is_unsafe(e.otherwise):
            return self._builder.select(mask, then, evaluator.value(e.otherwise, point))
        with evaluator.following(choice.otherwise):
            there = point._replace(mask=self._builder.unary("not", mask))
            return self._builder.select(mask, then, evaluator.value(e.otherwise, there))

    def _is_zero_where_left_out(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` is a masked load, perhaps widened: 0 already in the lanes that its mask leaves out."""
        evaluator = self._evaluator
        while isinstance(e, Cast) and e.type.is_float and e.operand.type.is_float:
            e = e.operand
        if not isinstance(e, Element) or e.safe or any(evaluator.varies(term, point) for term in e.address.opaque):
            return False
        return evaluator.step(e.address, point) == 1 and evaluator.memory.masks(e.tensor)

    def _rarely(self, condition: Value, e: Select, point: Point) -> Value:
        """``e.then`` is computed only if some lane wants it."""
        evaluator = self._evaluator
        condition = condition._replace(text=self._builder.assign(f"freeze {condition.typed}"))
        otherwise = evaluator.value(e.otherwise, point)

        def mixed() -> list[Value]:
            with evaluator.scope():
                return [self._builder.select(condition, evaluator.value(e.then, point), otherwise)]

        return self._builder.branch(self._builder.any_lane(condition), mixed, lambda: [otherwise])[0]


class KnownLanes:
    """Where conditions hold, at points that stand where that is known."""

    def __init__(self) -> None:
        self._thresholds: dict[Expression, list[Affine]] = {}

    def where(self, condition: Expression, point: Point) -> tuple[int, int]:
        """The active lanes where a condition holds, as a range."""
        first, last = point.active_lanes
        for form in self._forms(condition):
            start = form.constant + sum(c * point.positions[t].constant for t, c in form.terms if isinstance(t, Axis))
            slope = form.coefficient(point.vector) if point.vector is not None else 0
            holding = [lane for lane in range(first, last) if start + lane * slope >= 0]
            first, last = (holding[0], holding[-1] + 1) if holding else (0, 0)
        return first, last

    def _forms(self, condition: Expression) -> list[Affine]:
        found = self._thresholds.get(condition)
        if found is None:
            forms = [threshold_form(part) for part in conjuncts(condition)]
            found = self._thresholds[condition] = [form for form in forms if form is not None]
            assert len(found) == len(forms)
        return found


def masked(evaluator: Evaluator, point: Point, condition: Value) -> Point:
    """The point with fewer lanes."""
    mask = condition if point.mask is None else evaluator.builder.binary("and", point.mask, condition)
    return point._replace(mask=mask)


def _is_zero(e: Expression) -> bool:
    """Whether ``e`` is the number 0 itself, not -0."""
    return isinstance(e, Const) and e.bits == 0
