"""Nodes whose inputs are known: what NumPy computes is what onnx's reference evaluator does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

from opendml.formats.onnx import folding  # noqa: E402
from opendml.formats.onnx.values import known  # noqa: E402

VERSION = 17

UNARY = ["Neg", "Sqrt", "Not"]
BINARY = ["Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "GreaterOrEqual", "And", "Xor"]
TYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8]
TARGETS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}


def array(random: np.random.Generator, kind: Any, sizes: tuple[int, ...]) -> Any:
    if kind is np.bool_:
        return random.integers(0, 2, sizes).astype(kind)
    least = 0 if np.dtype(kind).kind == "u" else -9
    return (random.integers(least, 10, sizes) / (2 if np.dtype(kind).kind == "f" else 1)).astype(kind)


def check(op: str, arrays: list[Any], **attributes: Any) -> None:
    names = [f"x{number}" for number in range(len(arrays))]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    values = [known(one, frozenset()) for one in arrays]
    found = folding.fold(node, list(values), VERSION)
    with np.errstate(all="ignore"):
        (expected,) = folding._evaluator(node, names, VERSION).run(None, dict(zip(names, arrays, strict=True)))
    assert found is not None
    (result,) = found
    assert result is not None
    assert result.array is not None
    assert result.array.dtype == expected.dtype
    assert np.array_equal(result.array, np.asarray(expected), equal_nan=expected.dtype.kind == "f")


@given(st.integers(0, 2**32), st.sampled_from(BINARY), st.sampled_from(TYPES), st.sampled_from([(), (3,), (2, 3)]))
def test_of_two_inputs(seed: int, op: str, kind: Any, sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(seed)
    kind = np.bool_ if op in ("And", "Xor") else kind
    if op == "Mod" and np.dtype(kind).kind == "f":
        kind = np.int64  # of numbers that are no integers another attribute is asked for
    one, other = array(random, kind, sizes), array(random, kind, sizes[-1:])
    if op in ("Div", "Mod") and np.dtype(kind).kind != "f":
        other = np.where(other == 0, np.ones_like(other), other)  # processors differ in what a division by 0 gives
    check(op, [one, other])


@given(st.integers(0, 2**32), st.sampled_from(UNARY), st.sampled_from(TYPES[:2]))
def test_of_one_input(seed: int, op: str, kind: Any) -> None:
    check(op, [array(np.random.default_rng(seed), np.bool_ if op == "Not" else kind, (5,))])


@given(st.integers(0, 2**32), st.sampled_from([*TYPES, np.bool_]), st.sampled_from(sorted(TARGETS)))
def test_casts(seed: int, kind: Any, target: int) -> None:
    check("Cast", [array(np.random.default_rng(seed), kind, (2, 3))], to=target)
    assert np.dtype(TARGETS[target]) == onnx.helper.tensor_dtype_to_np_dtype(target)


@pytest.mark.parametrize(("op", "arrays"), [("Div", [-7, 2]), ("Mod", [-7, 3]), ("Div", [7, -2]), ("Mod", [5.5, 2.0])])
def test_what_numpy_means_otherwise_is_left_to_the_evaluator(op: str, arrays: list[Any]) -> None:
    node = onnx.helper.make_node(op, ["a", "b"], ["y"])
    assert folding._by_numpy(node, [np.array(one) for one in arrays]) is None


def test_casts_that_processors_differ_in_are_left_to_the_evaluator() -> None:
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.INT32)
    assert folding._by_numpy(node, [np.array([1e20, np.nan])]) is None
