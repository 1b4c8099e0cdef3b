"""Expressions are interned: one object for every value, for as long as anyone has it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from opendml.expression import affine as affine_module
from opendml.expression import nodes, rewriting
from opendml.expression.affine import Affine, Element, affine, interval
from opendml.expression.element_types import BOOL, F32, F64, I64
from opendml.expression.folds import sum_of
from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    FusedMultiplyAdd,
    Index,
    Load,
    Part,
    Select,
    Tensor,
    Unary,
    Variable,
    constant,
    index,
    load,
)
from opendml.expression.rewriting import walk

AXIS, OTHER = Axis("i", 9), Axis("i", 9)
TENSOR = Tensor("x", F32, (9,), (1,), "input")
X = load(TENSOR, [index(AXIS)])
SUM = sum_of([OTHER], load(TENSOR, [index(OTHER)]))
assert isinstance(SUM, Part)
FOLD = SUM.fold

MAKERS: dict[str, Callable[[], Expression]] = {
    "Const": lambda: Const(3, I64),
    "Index": lambda: Index(AXIS),
    "Load": lambda: Load(TENSOR, (Index(AXIS) + 1,)),
    "Unary": lambda: Unary("neg", X),
    "Binary": lambda: Binary("add", X, Unary("neg", X)),
    "Select": lambda: Select(X < 0.0, X, -X),
    "rare Select": lambda: Select(X < 0.0, X, -X, True),
    "FusedMultiplyAdd": lambda: FusedMultiplyAdd(X, X, -X),
    "Cast": lambda: Cast(X, F64),
    "Bitcast": lambda: Bitcast(Cast(X, F64), I64),
    "Fold": lambda: Fold(FOLD.axes, FOLD.initial, FOLD.elements, FOLD.combine, X < 0.0, partials=4),
    "Part": lambda: Part(FOLD, 0),
    "Element": lambda: Element(TENSOR, Affine(((AXIS, 1), (Index(AXIS) * Index(OTHER), 2)), 3), True),
}


def living() -> int:
    """How many nodes are alive."""
    gc.collect()
    classes, count = [Expression], 0
    while classes:
        found = classes.pop()
        classes += found.__subclasses__()
        count += len(vars(found).get("table", ()))
    return count


@pytest.mark.parametrize("kind", MAKERS)
def test_equal_expressions_are_one(kind: str) -> None:
    one = MAKERS[kind]()
    assert MAKERS[kind]() is one
    assert [name for name, make in MAKERS.items() if make() is one] == [kind]


def test_every_class_is_tried() -> None:
    made = {type(make()) for make in MAKERS.values()}
    assert made == set(Expression.__subclasses__()) - {Variable}


def test_what_differs_in_one_field_is_another() -> None:
    assert Const(0, I64) is not Const(0, F32)
    assert Index(AXIS) is not Index(OTHER)
    assert constant(0.0, F32) is not constant(-0.0, F32)
    assert Select(X < 0.0, X, -X) is not Select(X < 0.0, X, -X, True)
    assert Select(X < 0.0, X, -X) is Select(X < 0.0, otherwise=-X, then=X, rare=False)
    assert Element(TENSOR, Affine((), 1), True) is not Element(TENSOR, Affine((), 1), False)


def test_variables_are_all_different() -> None:
    assert Variable("a", F32) != Variable("a", F32)


def test_fields_that_do_not_fit_leave_nothing() -> None:
    before = living()
    for wrong in (
        lambda: Binary("add", X, Index(AXIS)),
        lambda: Load(TENSOR, ()),
        lambda: Select(X, X, X),
        lambda: Bitcast(X, I64),
        lambda: FusedMultiplyAdd(X, X, constant(1, F64)),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert living() == before


def test_children_and_what_else_tells_nodes_apart() -> None:
    e = MAKERS["Fold"]()
    assert isinstance(e, Fold) and e.where is not None
    assert e.children == (*e.initial, *e.elements, e.where)
    assert e.own == (e.axes, e.combine, 4, False, False)
    assert Part(e, 0).children == (e,) and Part(e, 0).own == (0,)
    assert (X < 0.0).own == ("lt",) and (X < 0.0).type is BOOL


def test_copies_are_the_same_object() -> None:
    assert copy.copy(X) is X
    assert pickle.loads(pickle.dumps(constant(1.5, F32))) is constant(1.5, F32)
    assert pickle.loads(pickle.dumps(F32)) is F32


def test_what_nobody_has_is_forgotten() -> None:
    """Nodes, and what stages found out about them; of opaque sums, whose forms are themselves, too."""

    def use() -> None:
        axis = Axis("k", 100)
        tensor = Tensor("t", I64, (100,), (1,), "input")
        loaded = load(tensor, [index(axis)])
        opaque = loaded * loaded + index(axis)
        for e in (index(axis) * 3 + 1, opaque, index(axis) // 7 % 5, sum_of([axis], loaded * 2)):
            affine(e)
            interval(e, {})
            list(walk(e))

    def notes() -> list[int]:
        return [len(table) for table in (affine_module._forms, affine_module._bounds, rewriting._inner)]

    use()
    before = living(), notes()
    for _ in range(20):
        use()
    assert (living(), notes()) == before


def test_deep_expressions_end_without_recursion() -> None:
    before = living()
    e = X
    for number in range(100_000):
        e = Unary("neg", e) if number % 2 else Binary("add", e, e)
    assert living() == before + 100_000
    del e
    assert living() == before


def test_threads_make_one_node() -> None:
    """Nodes that several threads make at the same time, let go of and make again."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    barrier = threading.Barrier(4)
    found: list[list[Expression]] = []
    axes = [Axis("t", 5) for _ in range(50)]

    def build() -> None:
        for _ in range(10):
            barrier.wait()
            passing = [index(axis) * 3 + 1 for axis in axes]
            del passing
        barrier.wait()
        found.append([index(axis) * 3 + 1 for axis in axes])

    threads = [threading.Thread(target=build) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(found) == 4
    for others in found[1:]:
        assert all(e is other for e, other in zip(found[0], others, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_wait_for_a_thread_that_is_gone() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with nodes._Guard.lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        child = os.fork()
        if child == 0:
            made: Any = constant(123456789, I64)
            os._exit(0 if made.value == 123456789 else 1)
        for _ in range(600):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            done.wait(0.05)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            status = -1
        assert status == 0
    finally:
        done.set()
        thread.join()
