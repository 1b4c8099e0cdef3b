"""Plans of nests: what the processor's say, that they are needed, and that their interpreter sees wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nest_running import check_on_hosts, contents_of, run_by_nests
from sample_descriptors import samples

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression import interpreter
from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import F32, I32
from opendml.expression.folds import sum_of, sum_of_products
from opendml.expression.interpreter import StrayAccessError, interpret
from opendml.expression.ir import Axis, Expression, Fold, Part, Select, Tensor, constant, index, load, select
from opendml.expression.mathematics import square
from opendml.expression.statements import Compute, Definition, Store
from opendml.llvm.host import machine_of
from opendml.loops.nest import Body, ElementStore, Leaf, Loop, Nest, Points, bodies_of, nodes_of
from opendml.loops.nest_interpreter import run_nest
from opendml.loops.planned_frame import DivergenceError
from opendml.loops.plans import AS_THEY_STAND, Choice, Folding, How, Plan, Steps
from opendml.loops.sequence_interpreter import run_sequence
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refined_definition

Array = np.ndarray[Any, Any]

TARGET = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"))

# By hand -------------------------------------------------------------------------------------------------------------

ROW, COLUMN = Axis("i", 4), Axis("j", 4)
X = Tensor("x", I32, (16,), (1,), "input")
Y = Tensor("y", I32, (16,), (1,), "output")
PLACE = Affine(((ROW, 4), (COLUMN, 1)), 0)
ABOVE = Element(X, Affine(((ROW, 4), (COLUMN, 1)), -4), False)
"""The element of the row above; of the first row there is none."""

PADDED = select(index(ROW) >= 1, ABOVE, constant(0, I32))
BESIDE = select(index(COLUMN) >= 1, Element(X, Affine(((ROW, 4), (COLUMN, 1)), -1), False), constant(0, I32))
"""The element of the column before; of the first one of all there is none."""


def _run(value: Expression, plan: Plan) -> Array:
    """``value`` at all points, those of a row in a vector."""
    leaf: Body = (Points(COLUMN, 4, "vector", (Leaf((ElementStore(Y, PLACE, value),), plan=plan),)),)
    row: Body = (Loop(ROW, 0, 4, 1, (Loop(COLUMN, 0, 4, 4, leaf),)),)
    x, y = np.arange(1, 17, dtype=np.int32), np.zeros(16, np.int32)
    run_nest(Nest(row, is_planned=True), {X: x, Y: y})
    return y.reshape(4, 4)


def _chosen(e: Expression, how: How) -> Plan:
    assert isinstance(e, Select)
    return Plan({e: Choice(e, how, AS_THEY_STAND, AS_THEY_STAND)}, {})


@pytest.mark.parametrize("how", ["jump", "lanes", "known lanes"])
def test_branches_that_are_not_taken(how: How) -> None:
    expected = np.vstack([np.zeros((1, 4), np.int32), np.arange(1, 13).reshape(3, 4)])
    assert (_run(PADDED, _chosen(PADDED, how)) == expected).all()


def test_both_branches_are_computed_where_a_plan_says_nothing() -> None:
    """So what leaves its tensor is seen; where the first branch is computed for the sake of some lanes, it is too."""
    with pytest.raises(StrayAccessError, match="x"):
        _run(PADDED, AS_THEY_STAND)
    assert (_run(PADDED, _chosen(PADDED, "rarely"))[0] == 0).all(), "no lane of the first row takes it"
    with pytest.raises(StrayAccessError, match="x"):
        _run(BESIDE, _chosen(BESIDE, "rarely"))


def test_lanes_jump_together() -> None:
    assert _run(BESIDE, _chosen(BESIDE, "lanes"))[1].tolist() == [0, 5, 6, 7]
    with pytest.raises(DivergenceError, match="different ways"):
        _run(BESIDE, _chosen(BESIDE, "jump"))


def test_folds() -> None:
    """Something has to say how each is computed; partial results are the lanes of all points at once only if these
    have the same."""
    k = Axis("k", 4)
    same = sum_of((k,), Element(X, Affine(((ROW, 4), (k, 1)), 0), True), partials=4)
    different = sum_of((k,), Element(X, Affine(((COLUMN, 4), (k, 1)), 0), True), partials=4)

    def plan(e: Expression, how: str) -> Plan:
        assert isinstance(e, Part)
        steps: Any = Steps("always", AS_THEY_STAND, AS_THEY_STAND)
        folded: Any = how
        return Plan({}, {e.fold: Folding(e.fold, folded, (), None, (), steps)})

    sums = np.arange(1, 17).reshape(4, 4).sum(1)
    assert (_run(same, plan(same, "partials")) == sums[:, None]).all()
    assert (_run(different, plan(different, "partials of each lane")) == sums).all()
    with pytest.raises(DivergenceError, match="different values"):
        _run(different, plan(different, "partials"))
    with pytest.raises(DivergenceError, match="nothing says how"):
        _run(same, AS_THEY_STAND)


def test_a_fold_that_goes_on_from_another_one() -> None:
    """The other one comes ahead of it, and is its initial state."""
    first, second, factor = Axis("k", 3), Axis("k", 1), Element(X, Affine(((COLUMN, 1),), 0), True)
    before = sum_of_products((first,), Element(X, Affine(((ROW, 4), (first, 1)), 0), True), factor)
    after = sum_of_products((second,), Element(X, Affine(((ROW, 4), (second, 1)), 3), True), factor, initial=before)

    def folding(e: Expression, *ahead: Folding) -> Folding:
        assert isinstance(e, Part)
        return Folding(e.fold, "points", (), None, ahead, Steps("always", AS_THEY_STAND, AS_THEY_STAND))

    def plan(wanted: Folding) -> Plan:
        return Plan({}, {wanted.fold: wanted})

    sums = np.arange(1, 17).reshape(4, 4).sum(1)
    assert (_run(after, plan(folding(after, folding(before)))) == np.outer(sums, np.arange(1, 5))).all()
    with pytest.raises(DivergenceError, match="nothing says how"):
        _run(after, plan(folding(after)))


@pytest.mark.parametrize("partials", [1, 4])
def test_folds_that_stay_the_same_are_interpreted_once(partials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at every step of the fold around them, whichever of its steps are left out."""
    x, result = Tensor("x", F32, (20,), (1,), "input"), Tensor("result", F32, (1,), (1,), "output")
    outer, inner, one = Axis("k", 20), Axis("l", 20), Axis("i", 1)
    mean = sum_of((inner,), load(x, [index(inner)]), partials=partials) / 20
    spread = sum_of((outer,), square(load(x, [index(outer)]) - mean), index(outer) < 19, partials)
    definition = Definition((x,), (result,), (Compute((one,), (Store(result, (index(one),), spread),)),))
    calls = list[Fold]()
    original = interpreter.folded

    def counted(frame: Any, fold: Fold) -> Any:
        calls.append(fold)
        return original(frame, fold)

    monkeypatch.setattr(interpreter, "folded", counted)
    values = np.arange(20, dtype=np.float32)
    buffers = {x: values, result: np.zeros(1, np.float32)}
    interpret(definition, buffers)
    assert buffers[result] == ((values[:19] - values.mean()) ** 2).sum()
    assert len(calls) == 2


def test_steps_that_are_left_out() -> None:
    k = Axis("k", 4)
    total = sum_of((k,), Element(X, Affine(((k, 4), (COLUMN, 1)), -4), False), where=index(k) >= 1)
    assert isinstance(total, Part)

    def plan(guard: Any) -> Plan:
        folding = Folding(total.fold, "points", (k,), None, (), Steps(guard, AS_THEY_STAND, AS_THEY_STAND))
        return Plan({}, {total.fold: folding})

    expected = np.arange(1, 13).reshape(3, 4).sum(0)
    for guard in ("jump", "jumps", "lanes", "known lanes"):
        assert (_run(total, plan(guard)) == expected).all()
    with pytest.raises(StrayAccessError, match="x"):
        _run(total, plan("always"))


# The processor's -----------------------------------------------------------------------------------------------------


def _plans(nest: Nest) -> Iterator[Plan]:
    """All plans of a nest, those within others too."""
    stack = [plan for node in nodes_of(nest.body) if (plan := getattr(node, "plan", None)) is not None]
    while stack:
        plan = stack.pop()
        yield plan
        for choice in plan.choices.values():
            stack += (choice.then, choice.otherwise)
        for folding in _foldings(plan):
            for steps in (folding.steps, folding.rest):
                stack += () if steps is None else (steps.plan, steps.masked)


def _foldings(plan: Plan) -> Iterator[Folding]:
    stack = [*plan.foldings.values(), *plan.ahead]
    while stack:
        folding = stack.pop()
        yield folding
        stack += folding.ahead


def _has(how: How) -> Callable[[Plan], bool]:
    return lambda plan: any(choice.how == how for choice in plan.choices.values())


def _folds(wanted: Callable[[Folding], bool]) -> Callable[[Plan], bool]:
    return lambda plan: any(map(wanted, _foldings(plan)))


SAYS: dict[str, tuple[str, Callable[[Plan], bool]]] = {
    "places between the strides": ("FOLD", _has("jump")),
    "places that data says": ("ROI_ALIGN", _has("lanes")),
    "values that few have": ("ACTIVATION_SOFTMAX", _has("rarely")),
    "windows over an edge": ("MAX_POOLING", _folds(lambda folding: folding.steps.guard == "known lanes")),
    "windows that data says": ("ROI_POOLING", _folds(lambda folding: folding.steps.guard == "lanes")),
    "a fold for some points": ("ROI_POOLING", lambda plan: bool(plan.foldings)),
    "a fold before another one": ("ACTIVATION_SOFTMAX", _folds(lambda folding: bool(folding.ahead))),
    "a fold in the steps of another one": ("ROI_ALIGN_GRAD", _folds(lambda folding: bool(folding.steps.plan.ahead))),
    "rows that are wanted again": ("MEAN_VARIANCE_NORMALIZATION", _folds(lambda folding: bool(folding.rows))),
    "sums in lanes": ("MEAN_VARIANCE_NORMALIZATION", _folds(lambda folding: folding.how == "partials")),
}


@pytest.mark.parametrize("what", SAYS)
def test_what_plans_say(what: str) -> None:
    name, says = SAYS[what]
    assert any(says(plan) for nest in _code(name).nests for plan in _plans(nest))


@pytest.mark.parametrize(("steps", "is_loop"), [(63, False), (64, True)])
def test_no_more_loads_are_written_out_than_llvm_keeps_beside_their_use(steps: int, is_loop: bool) -> None:
    """The largest of so many rows: by a loop none of them waits on the stack."""
    sizes = [1, steps, 56, 56]
    desc = operators.Reduce(
        function="MAX",
        input_tensor=TensorDesc("float32", sizes),
        output_tensor=TensorDesc("float32", [1, 1, 56, 56]),
        axes=[1],
    )
    code = TARGET.generate(refined_definition(desc, TARGET), in_place=False)
    foldings = [folding for nest in code.nests for plan in _plans(nest) for folding in _foldings(plan)]
    assert foldings
    assert all((folding.unrolled == ()) == is_loop for folding in foldings)


def test_what_all_steps_read_is_folded_once() -> None:
    """Rows of 40000 are folded in pieces of 16384, the last of which leaves steps out in some lanes. The mean that all
    of its steps read is known to them, and no fold of each of their lanes."""
    tensor = TensorDesc("float32", [1, 1, 1, 40000])
    desc = operators.MeanVarianceNormalization1(
        input_tensor=tensor, output_tensor=tensor, axes=[3], normalize_variance=True, epsilon=1e-5
    )
    definition = refined_definition(desc, TARGET)
    code = TARGET.generate(definition, in_place=False)
    plans = [plan for nest in code.nests for plan in _plans(nest)]
    foldings = [folding for plan in plans for folding in _foldings(plan)]
    assert any(folding.steps.guard == "lanes" for folding in foldings)
    assert all(folding.how == "partials" for folding in foldings)
    assert not any(plan.foldings for plan in plans)
    check_on_hosts(definition)


def _code(name: str) -> Any:
    desc = next(desc for desc in samples() if desc.type.name == name)
    return TARGET.generate(refined_definition(desc, TARGET), in_place=False)


@pytest.mark.parametrize("name", ["ROI_ALIGN", "MAX_POOLING", "ROI_POOLING", "ACTIVATION_SOFTMAX"])
def test_plans_are_followed(name: str) -> None:
    """The nests of a program give the bits of its definition; without their plans, those that have some do not run."""
    desc = next(desc for desc in samples() if desc.type.name == name)
    definition = refined_definition(desc, TARGET)
    code, contents = TARGET.generate(definition, in_place=False), contents_of(definition, 0)
    expected = {tensor: content.copy() for tensor, content in contents.items()}
    interpret(definition, expected)
    found = run_by_nests(code, contents, (0,))
    assert all((expected[t].view(np.uint8) == found[t].view(np.uint8)).all() for t in expected)
    nests = [_without_plans(nest) for nest in code.nests]
    with pytest.raises((StrayAccessError, DivergenceError)):
        run_sequence(code.sequence, found, lambda call: nests[call.number])


def _without_plans(nest: Nest) -> Nest:
    def stripped(body: Body) -> Body:
        return tuple(map(node_without, body))

    def node_without(node: Any) -> Any:
        names = [name for name in ("body", "then", "otherwise") if bodies_of(node) and hasattr(node, name)]
        changed = {name: stripped(getattr(node, name)) for name in names}
        return replace(node, **changed, **({"plan": AS_THEY_STAND} if hasattr(node, "plan") else {}))

    return replace(nest, body=stripped(nest.body))
