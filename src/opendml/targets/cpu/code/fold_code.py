"""Folds into instructions, as their foldings say."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from opendml.expression.affine import Element
from opendml.expression.element_types import BOOL
from opendml.expression.floating_point import NAN
from opendml.expression.folds import extreme_comparison
from opendml.expression.ir import Axis, Binary, Expression, Fold, Part, Tensor, constant
from opendml.expression.rewriting import conjuncts, step_limits
from opendml.llvm.values import Value, index_value, vector_type
from opendml.loops.plans import AS_THEY_STAND, Folding, Overlap, Steps
from opendml.targets.cpu.code.choice_code import KnownLanes, masked
from opendml.targets.cpu.code.memory import first_lanes
from opendml.targets.cpu.code.numbers import Numbers
from opendml.targets.cpu.code.point import Point, Position

if TYPE_CHECKING:
    from opendml.targets.cpu.code.evaluation import Evaluator

State = list[Value]
"""The values of a fold at one point."""

Positions = Mapping[Axis, Position]
"""Where some axes of a fold stand."""


class FoldWriter:
    """Writes folds through an Evaluator."""

    def __init__(self, evaluator: Evaluator, prefetched: Mapping[Fold, Mapping[Tensor, int]]) -> None:
        self._evaluator = evaluator
        self._prefetched = prefetched
        self._builder = evaluator.builder
        self._lanes = KnownLanes()
        self._numbers: Numbers | None = None

    def reduce(self, foldings: Iterable[Folding], points: Sequence[Point]) -> None:
        """Evaluate folds that are not known yet, each for all points together."""
        evaluator = self._evaluator
        wanted = [f for f in foldings if not all(evaluator.is_known(Part(f.fold, 0), point) for point in points)]
        for folding in wanted:
            states = self._folded(folding, points)
            is_put_off = folding is not wanted[-1] and self._is_in_the_way(folding, states, len(wanted))
            define = evaluator.put_off if is_put_off else evaluator.define
            for point, values in zip(points, states, strict=True):
                for number, value in enumerate(values):
                    define(Part(folding.fold, number), point, value)

    def _is_in_the_way(self, folding: Folding, states: Sequence[State], folds: int) -> bool:
        """Whether sums would take from the loops of those behind them the registers that these need: as many as there
        are, all folds together. LLVM then has some of the later ones' sums in memory at every step."""
        machine = self._evaluator.target.machine
        bits = sum(value.lanes * value.type.bits for state in states for value in state)
        is_full = bits * folds >= machine.vector_registers * machine.vector_bytes * 8
        return is_full and folding.fold.contract and len(folding.unrolled) < len(folding.fold.axes)

    def _folded(self, folding: Folding, points: Sequence[Point]) -> list[State]:
        """All values of a fold at every one of ``points``."""
        evaluator, fold = self._evaluator, folding.fold
        self.reduce(folding.ahead, points)
        if folding.how == "partials side by side" and all(p.mask is None and p.active is None for p in points):
            return self._side_by_side(folding, points)
        if folding.how != "points":
            return [self._by_lanes(folding, point) for point in points]
        states = []
        for point in points:
            # What is loaded under a mask has a value in each lane, even where all lanes load the same place.
            is_masked = point.mask is not None and any(evaluator.is_unsafe(e) for e in fold.children)
            wide = is_masked or any(evaluator.varies(e, point) for e in fold.children)
            initial = [evaluator.value(e, point) for e in fold.initial]
            states.append([self._builder.spread(v, point.lanes) for v in initial] if wide else initial)
        with evaluator.following(folding.steps.plan):
            comparison = self._comparison(folding, points)
            if comparison is None:
                return self._stepped(folding, points, states)
            return self._of_numbers(comparison, folding, points, states)

    def _stepped(self, folding: Folding, points: Sequence[Point], states: list[State]) -> list[State]:
        """All steps at all points."""
        return self._along(folding, list(folding.fold.axes), list(points), states)

    # Extremes of numbers ---------------------------------------------------------------------------------------------

    def _comparison(self, folding: Folding, points: Sequence[Point]) -> str | None:
        """By which comparison a fold is one of extremes whose steps are first taken as if there were no NaN."""
        fold, steps = folding.fold, folding.steps
        is_written_out = folding.overlap is not None or len(folding.unrolled) == len(fold.axes)
        if not is_written_out or steps.guard not in ("always", "known lanes") or not fold.elements[0].type.is_float:
            return None
        is_plain = steps.plan is AS_THEY_STAND and steps.masked is AS_THEY_STAND
        if not is_plain or any(point.lanes == 1 or point.mask is not None for point in points):
            return None
        return extreme_comparison(fold)

    def _of_numbers(
        self, comparison: str, folding: Folding, points: Sequence[Point], states: list[State]
    ) -> list[State]:
        """Extremes by one comparison a step, and all steps again as they are defined if one of the elements is NaN.

        Of numbers, both are the first of the most extreme ones.
        """
        evaluator = self._evaluator
        register_bits = 8 * evaluator.target.machine.vector_bytes
        with evaluator.scope():
            numbers = Numbers(self._builder, comparison, (state[0].text for state in states), register_bits)
            self._numbers = numbers
            if folding.overlap is not None and isinstance(folding.fold.elements[0], Element):
                found = self._by_rows(folding, folding.overlap, points, states)
            else:
                self._load_neighbours(folding, folding.fold.axes, points)
                found = self._stepped(folding, points, states)
            self._numbers = None
            for state in found:  # asked, too, so that they are known before the block that may not want them
                numbers.see(state[0])
            has_others = numbers.has_nan(all(point.active is None for point in points))
        shape = [1] * len(points)

        def again() -> list[Value]:
            with evaluator.memory.anew():
                return _joined(self._stepped(folding, points, states))

        values = self._builder.branch(has_others, again, lambda: _joined(found))
        return _split(values, shape)

    def _load_neighbours(self, folding: Folding, axes: Sequence[Axis], points: Sequence[Point]) -> None:
        """Load the elements of windows a stride of 2 apart two steps at a time, where these read neighbours along the
        last of the ``axes`` that the points stand nowhere along."""
        evaluator, e = self._evaluator, folding.fold.elements[0]
        if not axes or not isinstance(e, Element) or folding.steps.guard != "always":
            return
        *others, last = axes
        if e.address.coefficient(last) != 1 or not e.address.is_pure:
            return
        if any(evaluator.step(e.address, p) != 2 or p.active is not None for p in points):
            return
        for others_at, point in itertools.product(_steps_along(others), points):
            self._load_row(e, _at(point, others_at), last)

    def _load_row(self, e: Element, point: Point, last: Axis) -> None:
        """The elements of a row of windows a stride of 2 apart: those of two steps are picked from the same registers,
        and those of a last one are the first's of the next window."""
        evaluator = self._evaluator
        first = None
        for step in range(0, last.size - 1, 2):
            here = point.at(last, None, step)
            first, second = evaluator.memory.load_both(evaluator.place(e.tensor, e.address, here), point.lanes)
            evaluator.define(e, here, first)
            evaluator.define(e, point.at(last, None, step + 1), second)
        if first is not None and last.size % 2:
            here = point.at(last, None, last.size - 1)
            behind = evaluator.place(e.tensor, e.address, here).moved(2 * (point.lanes - 1))
            one = self._builder.spread(evaluator.memory.load(behind, 1), point.lanes)
            evaluator.define(e, here, self._builder.shuffle(first, one, range(1, point.lanes + 1)))

    def _most_extreme(self, numbers: Numbers, e: Value, so_far: Value, point: Point) -> Value:
        """The next step among numbers."""
        e = self._builder.spread(e, point.lanes)
        taking = e if point.mask is None else self._builder.select(point.mask, e, so_far)
        numbers.see(taking)
        return self._more_extreme(numbers, taking, so_far)

    def _more_extreme(self, numbers: Numbers, e: Value, so_far: Value) -> Value:
        """The more extreme one of two numbers, the second one where they are equal."""
        return e if so_far.text in numbers.initial else self._chosen(numbers.comparison, e, so_far)

    def _chosen(self, comparison: str, e: Value, so_far: Value) -> Value:
        """One of two numbers, the second one unless the first one is more extreme."""
        return self._builder.select(self._builder.binary(comparison, e, so_far), e, so_far)

    def _by_rows(self, folding: Folding, rows: Overlap, points: Sequence[Point], states: list[State]) -> list[State]:
        """Extremes among numbers of windows that have rows in common, of each of which the extreme is found once.

        The first of the most extreme ones of a window is that of its rows' in their order.
        """
        numbers, found = self._numbers, list(states)
        assert numbers is not None
        for meeting, axes in _rows_of_windows(folding.fold.axes, rows, len(points)):
            first, place = meeting[0]
            point = _at(points[first], place)
            self._load_neighbours(folding, axes, [point])
            state = states[first]
            for step in _steps_along(axes):
                (state,) = self._step(folding.fold, folding.steps, [_at(point, step)], [state])
            for row, _ in meeting:
                found[row] = [self._more_extreme(numbers, state[0], found[row][0])]
        return found

    def _overlapping(
        self, folding: Folding, rows: Overlap, axes: Sequence[Axis], points: Sequence[Point], states: list[State]
    ) -> list[State]:
        """The steps of a fold along some axes for several rows: those that load the same place one after the other.

        Each row's own steps keep their order.
        """
        for meeting, inner in _rows_of_windows(axes, rows, len(points)):
            for step, (row, place) in itertools.product(_steps_along(inner), meeting):
                here = _at(_at(points[row], place), step)
                (states[row],) = self._step(folding.fold, folding.steps, [here], [states[row]])
        return states

    def _sliding(self, folding: Folding, axes: list[Axis], points: list[Point], states: list[State]) -> list[State]:
        """The steps of a fold along a tap and the axes behind it for several rows whose windows are a tap apart: a loop
        over the rows of what they load that all of them have in common, and those before and behind it.

        Each row's own steps keep their order.
        """
        (tap, *rest), count = axes, len(points)

        def at_place(name: str | None, place: int, states: list[State]) -> list[State]:
            rows = [row for row in range(count) if name is not None or 0 <= place - row < tap.size]
            here = [points[row].at(tap, name, place - row) for row in rows]
            found = self._along(folding, rest, here, [states[row] for row in rows])
            made = dict(zip(rows, found, strict=True))
            return [made.get(row, state) for row, state in enumerate(states)]

        def body(position: str, values: list[Value]) -> list[Value]:
            with self._evaluator.scope():
                return _joined(at_place(position, 0, _split(values, shape)))

        shape, common = [len(state) for state in states], range(count - 1, tap.size)
        for place in range(min(common.start, tap.size)):
            states = at_place(None, place, states)
        if common:
            ends = (str(common.start), str(common.stop))
            states = _split(self._builder.loop(*ends, 1, _joined(states), body), shape)
        for place in range(tap.size, tap.size + count - 1):
            states = at_place(None, place, states)
        return states

    def _along(self, folding: Folding, axes: list[Axis], points: list[Point], states: list[State]) -> list[State]:
        """The steps along the axes that are left."""
        rows = folding.overlap
        if rows is not None and axes and axes[0] is rows.tap not in folding.unrolled and rows.step == rows.reach:
            return self._sliding(folding, axes, points, states)
        if rows is not None and rows.tap in axes and all(axis in folding.unrolled for axis in axes):
            return self._overlapping(folding, rows, axes, points, states)
        if not axes:
            return self._step(folding.fold, folding.steps, points, states)
        axis, *rest = axes
        if axis in folding.unrolled:
            for i in range(axis.size):
                states = self._along(folding, rest, [p.at(axis, None, i) for p in points], states)
            return states
        shape = [len(state) for state in states]

        def body(position: str, values: list[Value]) -> list[Value]:
            with self._evaluator.scope():
                moved = [p.at(axis, position) for p in points]
                inner = self._along(folding, rest, moved, _split(values, shape))
                return _joined(inner)

        count = self._step_count(folding.fold, axis, points)
        return _split(self._builder.loop("0", count, 1, _joined(states), body), shape)

    def _step_count(self, fold: Fold, axis: Axis, points: list[Point]) -> str:
        """As many steps along an axis as may be taken at any of the points."""
        count = step_limits(fold).get(axis)
        if count is None:
            return str(axis.size)
        largest = index_value(0)
        for point in points:
            counts = self._evaluator.value(count, point)
            if counts.lanes > 1:
                # Lanes that take no part have any value.
                if point.mask is not None:
                    counts = self._builder.select(point.mask, counts, index_value(0))
                if point.active is not None:
                    counts = self._builder.select(first_lanes(point.active, counts.lanes), counts, index_value(0))
                counts = self._builder.largest_lane(counts)
            largest = self._builder.binary("max", largest, counts)
        return self._builder.binary("min", largest, index_value(axis.size)).text

    # Steps -----------------------------------------------------------------------------------------------------------

    def _step(self, fold: Fold, steps: Steps, points: list[Point], states: list[State]) -> list[State]:
        """The next step at all points, where it is taken."""
        if steps.guard == "always" or fold.where is None:
            return self._combined(fold, points, states)
        if steps.guard == "jump" and _is_limit_of_loops(fold, fold.where, points[0]):
            return self._combined(fold, points, states)
        conditions = [self._evaluator.value(fold.where, p) for p in points]
        if steps.guard == "jump":
            return self._taken(fold, conditions[0], points, states)
        result: list[State] = []
        for point, condition, state in zip(points, conditions, states, strict=True):
            if steps.guard == "jumps":
                result += self._taken(fold, condition, [point], [state])
                continue
            allowed = self._lanes.where(fold.where, point) if steps.guard == "known lanes" else None
            if allowed == point.active_lanes:
                result += self._combined(fold, [point], [state])
            elif allowed is not None and allowed[0] == allowed[1]:
                result.append(state)
            else:
                condition = self._builder.spread(condition, point.lanes)
                here = masked(self._evaluator, point, condition)._replace(allowed=allowed)
                with self._evaluator.following(steps.masked):
                    (following,) = self._combined(fold, [here], [state])
                result.append([self._builder.select(condition, n, o) for n, o in zip(following, state, strict=True)])
        return result

    def _taken(self, fold: Fold, condition: Value, points: list[Point], states: list[State]) -> list[State]:
        """A step that is jumped over where a condition does not hold."""
        shape = [len(state) for state in states]

        def taken() -> list[Value]:
            with self._evaluator.scope():
                return _joined(self._combined(fold, points, states))

        return _split(self._builder.branch(condition, taken, lambda: _joined(states)), shape)

    def _combined(self, fold: Fold, points: list[Point], states: list[State]) -> list[State]:
        self.reduce(self._evaluator.plan.ahead, points)
        return [self._combined_at(fold, p, s) for p, s in zip(points, states, strict=True)]

    def _combined_at(self, fold: Fold, point: Point, state: State) -> State:
        evaluator, lanes = self._evaluator, max(v.lanes for v in state)
        if fold.contract:
            product = fold.elements[0]
            assert isinstance(product, Binary)
            left, right = evaluator.value(product.left, point), evaluator.value(product.right, point)
            if product.operation != "mul":
                return [evaluator.dot(product.operation, left, right, state[0])]
            return [self._builder.fused_multiply_add(left, right, state[0])]
        elements = [evaluator.value(e, point) for e in fold.elements]
        if self._numbers is not None:
            return [self._most_extreme(self._numbers, elements[0], state[0], point)]
        joint = point.bound((*fold.combine.left, *fold.combine.right), (*state, *elements))
        return [self._builder.spread(evaluator.value(e, joint), lanes) for e in fold.combine.result]

    # Partial results in lanes ----------------------------------------------------------------------------------------

    def _side_by_side(self, folding: Folding, points: Sequence[Point]) -> list[State]:
        """Folds whose partial results are lanes instead of the points, step by step at every lane of all points."""
        singles = [self._singles(point) for point in points]
        states = iter(self._in_lanes(folding, [single for lanes in singles for single in lanes]))
        found = [[next(states) for _ in lanes] for lanes in singles]
        return [[self._of_lanes(values) for values in zip(*lanes, strict=True)] for lanes in found]

    def _singles(self, point: Point) -> list[Point]:
        """Each lane of a point."""
        if point.lanes == 1:
            return [point._replace(vector=None)]
        return [self._lane(point, str(lane)) for lane in range(point.lanes)]

    def _by_lanes(self, folding: Folding, point: Point) -> State:
        """A fold whose partial results are lanes instead of the points; where it varies between these, one by one."""
        lanes = point.lanes
        if folding.how == "partials":
            return self._in_lanes(folding, [point._replace(vector=None, lanes=1, active=None)])[0]

        def at_lane(lane: str, values: list[Value]) -> list[Value]:
            with self._evaluator.scope():
                here = self._lane(point, lane)

                def folded() -> list[Value]:
                    with self._evaluator.scope():
                        return self._in_lanes(folding, [here])[0]

                if point.mask is None:
                    results = folded()
                else:
                    undefined = [Value("poison", v.type) for v in values]
                    mask = self._builder.assign(f"extractelement {point.mask.typed}, i64 {lane}")
                    results = self._builder.branch(Value(mask, BOOL), folded, lambda: undefined)
                inserted = [
                    self._builder.assign(f"insertelement {v.typed}, {result.typed}, i64 {lane}")
                    for v, result in zip(values, results, strict=True)
                ]
                return [v._replace(text=text) for v, text in zip(values, inserted, strict=True)]

        none = [Value("poison", e.type, lanes) for e in folding.fold.elements]
        return self._builder.loop("0", str(lanes if point.active is None else point.active), 1, none, at_lane)

    def _lane(self, point: Point, lane: str) -> Point:
        """One lane of a point, chosen when the code runs."""
        variables = {}
        for variable, value in (point.variables or {}).items():
            one = f"extractelement {value.typed}, i64 {lane}"
            variables[variable] = value if value.lanes == 1 else Value(self._builder.assign(one), value.type)
        here = point._replace(vector=None, lanes=1, active=None, mask=None, variables=variables)
        if point.vector is None:
            return here
        name, constant = point.positions[point.vector]
        start = self._builder.assign(f"add nsw i64 {lane}, {constant}")
        moved = start if name is None else self._builder.assign(f"add nsw i64 {name}, {start}")
        return here.at(point.vector, moved)

    def _of_lanes(self, values: Sequence[Value]) -> Value:
        """One value of a value for each lane."""
        if len(values) == 1:
            return values[0]
        type = vector_type(values[0].type, len(values))
        text = "poison"
        for lane, value in enumerate(values):
            text = self._builder.assign(f"insertelement {type} {text}, {value.typed}, i64 {lane}")
        return Value(text, values[0].type, len(values))

    def _in_lanes(self, folding: Folding, points: Sequence[Point]) -> list[State]:
        """The fold at each of some points, step by step at all of them."""
        *outer, last = folding.fold.axes
        lanes, comparison = folding.fold.partials, self._comparison_in_lanes(folding)
        asked = [] if comparison is None else [self._builder.spread(Value("false", BOOL), lanes // 2)]
        shape = [len(folding.fold.elements) + len(asked)] * len(points)

        def nest(axes: Sequence[Axis], at: list[Point], states: list[State]) -> list[State]:
            if not axes:
                return self._along_last(folding, at, states, comparison)

            def body(position: str, inner: list[Value]) -> list[Value]:
                with self._evaluator.scope():
                    moved = [point.at(axes[0], position) for point in at]
                    return _joined(nest(axes[1:], moved, _split(inner, shape)))

            return _split(self._builder.loop("0", str(axes[0].size), 1, _joined(states), body), shape)

        ahead = self._evaluator.memory.prefetching(self._prefetched.get(folding.fold))
        with self._evaluator.following(folding.steps.plan), ahead:
            states = []
            for point in points:
                initial = [self._evaluator.value(e, point) for e in folding.fold.initial]
                states.append([*(self._builder.spread(v, lanes) for v in initial), *asked])
            states = nest(outer, [point._replace(vector=last, lanes=lanes) for point in points], states)
            self._evaluator.keep(folding.rows)
            merged = self._merged if comparison is None else self._merged_extremes
            return [merged(folding.fold, *each) for each in zip(points, states, strict=True)]

    def _comparison_in_lanes(self, folding: Folding) -> str | None:
        """By which comparison a fold is one of extremes whose steps are taken as if there were no NaN, where what tells
        whether there is has registers of its own."""
        fold, steps = folding.fold, folding.steps
        is_plain = steps.plan is AS_THEY_STAND and steps.guard == "always" and not folding.rows
        is_plain &= fold.elements[0].type.is_float and self._evaluator.target.machine.masks_vectors
        return extreme_comparison(fold) if is_plain else None

    def _along_last(
        self, folding: Folding, points: list[Point], states: list[State], comparison: str | None
    ) -> list[State]:
        """The steps along the last axis, whose lanes are partial results."""
        evaluator, fold = self._evaluator, folding.fold
        last, lanes = fold.axes[-1], fold.partials
        whole = last.size - last.size % lanes
        shape = [len(state) for state in states]

        def body(position: str, values: list[Value]) -> list[Value]:
            with evaluator.scope():
                here, before = [point.at(last, position) for point in points], _split(values, shape)
                if comparison is not None:
                    pairs = zip(here, before, strict=True)
                    return _joined(self._more_extreme_lanes(comparison, fold, *pair) for pair in pairs)
                following = self._step(fold, folding.steps, here, before)
                evaluator.write_rows(folding.rows, here[0])
                return _joined(following)

        states = _split(self._builder.loop("0", str(whole), lanes, _joined(states), body), shape)
        if folding.rest is not None:
            rest = [point.at(last, None, whole)._replace(active=last.size - whole) for point in points]
            with evaluator.scope(), evaluator.following(folding.rest.plan):
                count = len(fold.elements)
                following = self._step(fold, folding.rest, rest, [state[:count] for state in states])
                evaluator.write_rows(folding.rows, rest[0])
                mask = first_lanes(last.size - whole, lanes)
                states = [
                    [*(self._builder.select(mask, n, o) for n, o in zip(new, old, strict=False)), *old[count:]]
                    for new, old in zip(following, states, strict=True)
                ]
        return states

    def _more_extreme_lanes(self, comparison: str, fold: Fold, point: Point, state: State) -> State:
        """The next step of extremes among numbers, and which pairs of lanes have had another element."""
        builder, half = self._builder, fold.partials // 2
        extreme, asked = state
        element = builder.spread(self._evaluator.value(fold.elements[0], point), fold.partials)
        lower, upper = (builder.shuffle(element, None, range(at, at + half)) for at in (0, half))
        unordered = Value(builder.assign(f"fcmp uno {lower.typed}, {upper.text}"), BOOL, half)
        return [self._chosen(comparison, element, extreme), builder.binary("or", asked, unordered)]

    def _merged_extremes(self, fold: Fold, point: Point, state: State) -> State:
        """The extreme of all partial results, or NaN, where there was one."""
        extreme, asked = state
        (merged,) = self._merged(fold, point, [extreme])
        nan = self._evaluator.value(constant(NAN, merged.type), point)
        return [self._builder.select(self._builder.any_lane(asked), nan, merged)]

    def _merged(self, fold: Fold, point: Point, state: State) -> State:
        """The partial results, half of them into the other half until one is left."""
        evaluator, combine = self._evaluator, fold.combine
        result = combine.result if combine.merge is None else combine.merge
        width = fold.partials
        while width > 1:
            width //= 2
            halves = range(width), range(width, 2 * width)
            if 2 * width == fold.partials and _is_integer_product(fold):
                halves = range(0, 2 * width, 2), range(1, 2 * width, 2)
            lower, upper = ([self._builder.shuffle(v, None, half) for v in state] for half in halves)
            joint = point._replace(lanes=width).bound((*combine.left, *combine.right), (*lower, *upper))
            with evaluator.scope():
                state = [self._builder.spread(evaluator.value(e, joint), width) for e in result]
        return state


def _rows_of_windows(
    axes: Sequence[Axis], rows: Overlap, count: int
) -> Iterator[tuple[list[tuple[int, Positions]], Sequence[Axis]]]:
    """The rows along some axes of the windows of ``count`` points, in the order of what they load: the points whose
    windows have a row in common, each with where in its window that is; and the axes along it."""
    number = axes.index(rows.tap)
    way = 1 if rows.reach > 0 else -1
    meeting: dict[int, list[tuple[int, int]]] = {}
    for tap, row in itertools.product(range(rows.tap.size), range(count)):
        meeting.setdefault(way * (row * rows.step + tap * rows.reach), []).append((row, tap))
    for outer, place in itertools.product(_steps_along(axes[:number]), sorted(meeting)):
        there: list[tuple[int, Positions]] = [
            (row, {**outer, rows.tap: Position(None, tap)}) for row, tap in meeting[place]
        ]
        yield there, axes[number + 1 :]


def _is_limit_of_loops(fold: Fold, where: Expression, point: Point) -> bool:
    """Whether a condition says no more than how far the loops around a step go."""
    limits = step_limits(fold)
    is_all = len(limits) == sum(1 for _ in conjuncts(where))
    return is_all and all(point.positions[axis].name is not None for axis in limits)


def _steps_along(axes: Sequence[Axis]) -> list[Positions]:
    """Steps along all of some axes, in order."""
    places = itertools.product(*(range(axis.size) for axis in axes))
    return [{axis: Position(None, i) for axis, i in zip(axes, place, strict=True)} for place in places]


def _at(point: Point, positions: Positions) -> Point:
    return point._replace(positions={**point.positions, **positions})


def _is_integer_product(fold: Fold) -> bool:
    """Whether a fold adds up products of integers, in whatever order.

    Halves of one vector of products of bytes, added up, are what LLVM 22 takes for a sum that one ``vpdpbusd``
    computes, of which it forgets all lanes but the first. Even and odd lanes it does not take for that.
    """
    element = fold.elements[0]
    return (
        len(fold.elements) == 1
        and isinstance(element, Binary)
        and element.operation == "mul"
        and (element.type.is_integer)
    )


def _joined(states: Iterable[State]) -> list[Value]:
    """All values of some states; ``_split`` has them apart again."""
    return [value for state in states for value in state]


def _split(values: Sequence[Value], shape: Sequence[int]) -> list[State]:
    result, start = [], 0
    for count in shape:
        result.append(list(values[start : start + count]))
        start += count
    return result
