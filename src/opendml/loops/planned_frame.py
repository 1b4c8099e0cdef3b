"""Expressions interpreted as a plan says: what claims to be the same in all lanes is looked at, and what is computed
where only its condition makes it safe is a stray access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from opendml.expression.interpreter import Array, Frame, combined, folded
from opendml.expression.ir import Expression, Fold, Part, Select
from opendml.loops.plans import Choice, Folding, Plan, Steps


class DivergenceError(AssertionError):
    """Lanes that a plan takes together go different ways, or it says nothing of a fold; a defect of the plan."""


class Followed(NamedTuple):
    """A plan by the expressions that are interpreted: loads by place, rows that are kept."""

    choices: Mapping[Expression, Choice]
    foldings: Mapping[Expression, Folding]


class Plans:
    """Plans, as they are followed while expressions are rewritten in one way."""

    def __init__(self, rewrite: Callable[[Expression], Expression]) -> None:
        self._rewrite = rewrite
        self._known: dict[int, tuple[Plan, Followed]] = {}
        self._ahead: dict[int, tuple[Folding, Plan]] = {}

    def __call__(self, plan: Plan) -> Followed:
        """The plan; its folds ahead are among its foldings."""
        if id(plan) not in self._known:
            choices = {self._rewrite(select): choice for select, choice in plan.choices.items()}
            foldings = (*plan.foldings.values(), *plan.ahead)
            self._known[id(plan)] = plan, Followed(choices, {self.fold(f.fold): f for f in foldings})
        return self._known[id(plan)][1]

    def ahead(self, folding: Folding) -> Plan:
        """The plan of what comes ahead of a fold."""
        if id(folding) not in self._ahead:
            self._ahead[id(folding)] = folding, Plan({}, {}, folding.ahead)
        return self._ahead[id(folding)][1]

    def fold(self, fold: Fold) -> Fold:
        """A fold as it is interpreted."""
        part = self._rewrite(Part(fold, 0))
        assert isinstance(part, Part)
        return part.fold


class PlannedFrame(Frame):
    """A frame that follows a plan. ``lanes`` is the dimension of the vector. Folds of plans that were followed
    ``before`` are computed again by these; ``given`` are the values of those ahead of the steps that stand here."""

    plans: Plans
    choices: Mapping[Expression, Choice]
    foldings: Mapping[Expression, Folding]
    steps: Steps | None = None
    rest: Steps | None = None
    lanes: int | None = None
    before: Sequence[Plan] = ()
    given: Mapping[Expression, Array] = MappingProxyType({})

    @classmethod
    def of(cls, frame: Frame, plans: Plans, plan: Plan, before: Sequence[Plan], lanes: int | None) -> PlannedFrame:
        """As ``frame``, by a plan."""
        planned = cls(frame.storage, frame.bound, frame.mask, frame.partial_dimension, frame.operations)
        planned.plans, planned.choices, planned.foldings, planned.lanes = plans, {}, {}, lanes
        planned.before = before
        return planned.following(plan)

    def like(self, bound: dict[object, Array], mask: Array | None) -> PlannedFrame:
        """The frame elsewhere."""
        frame = PlannedFrame(self.storage, bound, mask, self.partial_dimension, self.operations)
        frame.plans, frame.choices, frame.foldings, frame.lanes = self.plans, self.choices, self.foldings, self.lanes
        frame.steps, frame.rest, frame.given, frame.before = self.steps, self.rest, self.given, self.before
        frame.known |= self.given
        return frame

    def following(self, plan: Plan) -> PlannedFrame:
        """The frame by another plan."""
        frame = self._with_folds(plan)
        frame.choices = self.plans(plan).choices
        return frame

    def _with_folds(self, plan: Plan) -> PlannedFrame:
        """The frame with the folds of another plan beside those of its own."""
        frame, foldings = self.like(self.bound, self.mask), self.plans(plan).foldings
        frame.known |= self.known
        frame.foldings = {**self.foldings, **foldings} if foldings else self.foldings
        return frame

    def parts(self, e: Expression) -> Sequence[Expression]:
        """What is computed for ``e`` whatever conditions say."""
        if isinstance(e, Part):
            return ()
        return (e.condition,) if isinstance(e, Select) and e in self.choices else e.children

    def computed(self, e: Expression) -> Array:
        """The value of an expression whose parts are known."""
        if isinstance(e, Select):
            return self._select(e)
        return self._part(e) if isinstance(e, Part) else super().computed(e)

    # Selects ---------------------------------------------------------------------------------------------------------

    def _select(self, e: Select) -> Array:
        condition = self.value(e.condition)
        choice = self.choices.get(e)
        if choice is None:
            return np.where(condition, self.value(e.then), self.value(e.otherwise))
        if choice.how == "rarely":
            return np.where(condition, self.narrowed(self._some(condition)).value(e.then), self.value(e.otherwise))
        if choice.how == "jump":
            self._look(condition, e)
            then, otherwise = self.narrowed(condition).value(e.then), self.narrowed(~condition).value(e.otherwise)
        else:
            is_known = choice.how == "known lanes"
            then = self._in_lanes(e.then, condition, choice.then, is_known)
            otherwise = self._in_lanes(e.otherwise, ~condition, choice.otherwise, is_known)
        return np.where(condition, then, otherwise)

    def _in_lanes(self, e: Expression, condition: Array, plan: Plan, is_known: bool) -> Array:
        """A branch where it is taken; at points all of whose lanes are known to take it, as nothing were asked."""

        def value(frame: PlannedFrame) -> list[Array]:
            return [frame.value(e)]

        return self._in_parts(condition, plan, is_known, value)[0]

    def _in_parts(
        self, condition: Array, plan: Plan, is_known: bool, values: Callable[[PlannedFrame], list[Array]]
    ) -> list[Array]:
        whole = ~self._some(~condition) if is_known else np.zeros((), np.bool_)
        inside = values(self.narrowed(condition & ~whole).following(plan))
        if not whole.any():
            return inside
        return [np.where(whole, a, b) for a, b in zip(values(self.narrowed(whole)), inside, strict=True)]

    def narrowed(self, condition: Array) -> PlannedFrame:
        """The frame with fewer active points."""
        frame = super().narrowed(condition)
        assert isinstance(frame, PlannedFrame)
        return frame

    def _some(self, condition: Array) -> Array:
        """Points at which a condition holds in some active lane."""
        active = condition if self.mask is None else condition & self.mask
        if self.lanes is None or active.ndim == 0:
            return active
        return np.asarray(active.any(axis=self.lanes, keepdims=True))

    def _largest(self, bits: Array) -> Array:
        """The largest number in the active lanes of each point."""
        active = bits if self.mask is None else np.where(self.mask, bits, 0)
        return np.asarray(active.max(axis=self.lanes, keepdims=True))

    def _look(self, condition: Array, what: Expression) -> None:
        if (self._some(condition) & self._some(~condition)).any():
            raise DivergenceError(f"lanes of one point go different ways at {what}")

    # Folds -----------------------------------------------------------------------------------------------------------

    def ahead(self, _: Fold) -> dict[Expression, Array]:
        """None: the plan says what is computed when."""
        return {}

    def _part(self, e: Part) -> Array:
        folding, frame = self.foldings.get(e.fold), self
        if folding is None:
            plan = next((plan for plan in reversed(self.before) if e.fold in self.plans(plan).foldings), None)
            if plan is None:
                raise DivergenceError(f"nothing says how {e} is computed")
            folding, frame = self.plans(plan).foldings[e.fold], self.following(plan)
        for number, value in enumerate(frame._folded(e.fold, folding)):
            self.known[Part(e.fold, number)] = value
        return self.known[e]

    def _folded(self, fold: Fold, folding: Folding) -> list[Array]:
        before = self._with_folds(self.plans.ahead(folding))
        inner = [fold for fold in self.plans(self.plans.ahead(folding)).foldings if isinstance(fold, Fold)]
        parts = [Part(fold, number) for fold in inner for number in range(len(fold.elements))]
        ahead: dict[Expression, Array] = dict(zip(parts, before.values(parts), strict=True))
        before.given = {**self.given, **ahead}
        self.known |= ahead  # An initial state may be a fold.
        if folding.how == "points":
            self.values(fold.initial)
        here = before.following(folding.steps.plan)
        if folding.how == "points":
            here.known |= self.known
        else:
            here.lanes = self.partial_dimension
        here.steps, here.rest = folding.steps, folding.rest
        values = folded(here, fold)
        if folding.how == "partials" and self.lanes is not None:
            for value in values:
                bits = np.asarray(value.view(np.uint8 if value.dtype == np.bool_ else f"u{value.itemsize}"))
                if bits.ndim and (self._some(bits != self._largest(bits))).any():
                    raise DivergenceError(f"lanes have different values of {fold}")
        return values

    def step(self, fold: Fold, state: list[Array], active: Array | None = None) -> list[Array]:
        """The next step, where it is taken."""
        frame: PlannedFrame = self if active is None else self.narrowed(active)
        steps = self.steps
        if active is not None and not active.all() and self.rest is not None:
            steps, frame = self.rest, frame.following(self.rest.plan)
        assert steps is not None
        if steps.guard == "always" or fold.where is None:
            following = combined(frame, fold, state)
            return (
                following if active is None else [np.where(active, n, o) for n, o in zip(following, state, strict=True)]
            )
        condition = frame.value(fold.where)
        if steps.guard in ("jump", "jumps"):
            frame._look(condition, fold.where)
            following = combined(frame.narrowed(condition), fold, state)
        else:
            is_known = steps.guard == "known lanes"
            following = frame._in_parts(condition, steps.masked, is_known, lambda at: combined(at, fold, state))
        taken = condition if active is None else condition & active
        return [np.where(taken, new, old) for new, old in zip(following, state, strict=True)]
