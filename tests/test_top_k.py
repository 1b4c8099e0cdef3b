"""TOP_K and TOP_K1 against NumPy's stable sort, ONNX's rules and PyTorch; the statement that orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import ALL_THREADS, assert_identical, inputs, outputs, random_array, run_operator, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.data_types import ALL_BUT_FLOAT64
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.element_types import I64
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Axis, Tensor, Variable, constant, index, load
from opendml.expression.printer import format_definition
from opendml.expression.statements import Definition, Order, Store
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.schedule import schedule_order
from opendml.targets.cpu.target import host_target

Array = np.ndarray[Any, Any]
DIRECTIONS = ("INCREASING", "DECREASING")


def stable_order(x: Array, axis: int, direction: str) -> Array:
    """Positions in order: NumPy's stable sort, which takes NaN for the largest, of ranks of equal values."""
    _, ranks = np.unique(x, return_inverse=True, equal_nan=True)
    ranks = ranks.reshape(x.shape).astype(np.int64)
    return np.argsort(-ranks if direction == "DECREASING" else ranks, axis, kind="stable")


def check(desc: operators.TopK1, x: Array, **options: Any) -> None:
    """Positions are NumPy's, values the elements there, bit for bit."""
    values, positions = run_operator(desc, [x], **options)
    order = stable_order(x, desc.axis, desc.axis_direction.name)
    expected = np.take(order, np.arange(desc.k), desc.axis)
    np.testing.assert_array_equal(positions, expected)
    assert_identical(values, np.take_along_axis(x, expected, desc.axis))


@examples(80)
@given(
    data=st.data(),
    shape=sizes(),
    data_type=st.sampled_from(ALL_BUT_FLOAT64),
    direction=st.sampled_from(DIRECTIONS),
    index_type=st.sampled_from(("UINT32", "UINT64")),
    seed=seeds,
)
def test_against_a_stable_sort(
    data: st.DataObject, shape: list[int], data_type: Any, direction: str, index_type: str, seed: int
) -> None:
    source = data.draw(inputs(data_type.name, shape))
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    wanted = [*shape[:axis], k, *shape[axis + 1 :]]
    desc = operators.TopK1(
        input_tensor=source,
        output_value_tensor=data.draw(outputs(data_type.name, wanted)),
        output_index_tensor=data.draw(outputs(index_type, wanted)),
        axis=axis,
        k=k,
        axis_direction=direction,
    )
    check(desc, random_array(source, seed))


# However many candidates: counted or digit by digit, all at once or some at a time.
WAYS = (replace(ALL_THREADS, counted_candidates=4), replace(ALL_THREADS, gathered_candidates=3), ALL_THREADS)


@examples(40)
@given(
    data_type=st.sampled_from(ALL_BUT_FLOAT64),
    size=st.sampled_from((17, 40, 65, 130, 300)),
    share=st.floats(0, 1),
    axis=st.integers(0, 1),
    direction=st.sampled_from(DIRECTIONS),
    values=st.sampled_from((2, 20, 1 << 40)),
    arrangement=st.sampled_from(("random", "sorted", "reversed")),
    tuning=st.sampled_from(WAYS),
    seed=seeds,
)
def test_long_sequences(
    data_type: Any,
    size: int,
    share: float,
    axis: int,
    direction: str,
    values: int,
    arrangement: str,
    tuning: Any,
    seed: int,
) -> None:
    """Few different values and many; in order, the wrong way round too."""
    k = max(1, int(size * share))
    x = np.random.default_rng(seed).integers(0, values, (2, size))
    x = x if arrangement == "random" else np.sort(x, 1)[:, :: -1 if arrangement == "reversed" else 1]
    with np.errstate(all="ignore"):
        x = np.ascontiguousarray((x if axis else x.T).astype(data_type.dtype))
    shape = [2, k] if axis else [k, 2]
    desc = operators.TopK1(
        input_tensor=TensorDesc(data_type, x.shape),
        output_value_tensor=TensorDesc(data_type, shape),
        output_index_tensor=TensorDesc("UINT32", shape),
        axis=axis,
        k=k,
        axis_direction=direction,
    )
    check(desc, x, tuning=tuning)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_awkward_numbers(dtype: str) -> None:
    """Zeros are equal whatever their sign, NaN is largest whatever its sign and payload; all bits are kept."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    infinity = int(np.array(np.inf, dtype).view(bits))
    sign = 1 << (8 * bits.itemsize - 1)
    numbers = [infinity + 5, sign, 0, sign | infinity, infinity, sign | infinity | 3, 1, sign | 1]
    x = np.array(numbers, bits).view(dtype)
    up = dml.top_k(x, axis=0, k=8, axis_direction="INCREASING")
    assert up.index.tolist() == [3, 7, 1, 2, 6, 4, 0, 5]
    assert_identical(up.value, x[up.index])
    down = dml.top_k(x, axis=0, k=8)
    assert down.index.tolist() == [0, 5, 4, 6, 1, 2, 7, 3]
    assert_identical(down.value, x[down.index])


def test_extremes_of_integers() -> None:
    for dtype in ("int8", "int64", "uint8", "uint64"):
        limits = np.iinfo(dtype)
        x = np.array([0, limits.max, limits.min, 1, limits.max, limits.min], dtype)
        order = np.argsort(x, kind="stable")
        assert dml.top_k(x, axis=0, k=6, axis_direction="INCREASING").index.tolist() == order.tolist()
    top = dml.top_k(np.array([2**63 + 1, 2**63, 5], "uint64"), axis=0, k=2)
    assert top.value.tolist() == [2**63 + 1, 2**63]


def test_top_k_is_the_decreasing_one() -> None:
    x = np.random.default_rng(2).integers(0, 9, (3, 4, 5)).astype(np.float32)
    tensors = {
        "input_tensor": TensorDesc("FLOAT32", x.shape),
        "output_value_tensor": TensorDesc("FLOAT32", [3, 2, 5]),
        "output_index_tensor": TensorDesc("UINT32", [3, 2, 5]),
    }
    older = run_operator(operators.TopK(**tensors, axis=1, k=2), [x])
    newer = run_operator(operators.TopK1(**tensors, axis=1, k=2, axis_direction="DECREASING"), [x])
    for a, b in zip(older, newer, strict=True):
        assert_identical(a, b)


def test_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).normal(size=(5, 700)).astype(np.float32)
    x[:, ::50] = np.nan
    for k, largest in ((1, True), (20, True), (20, False), (700, True), (700, False)):
        ours = dml.top_k(x, axis=1, k=k, axis_direction="DECREASING" if largest else "INCREASING")
        ordered, places = torch.sort(torch.from_numpy(x), dim=1, descending=largest, stable=True)
        np.testing.assert_array_equal(ours.value, ordered[:, :k].numpy())
        np.testing.assert_array_equal(ours.index, places[:, :k].numpy())


def test_fused_is_unfused() -> None:
    """What is computed before and behind an order stays what it is."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6, 90)).astype(np.float32)
    graph = dml.Graph()
    given_x = graph.input("float32", x.shape)
    top = dml.top_k(dml.abs(given_x) * 2.0, axis=1, k=7)
    program = graph.compile([dml.exp(top.value), top.index])
    values, positions = program(x)
    alone = dml.top_k(dml.multiply(dml.abs(x), np.float32(2)), axis=1, k=7)
    np.testing.assert_array_equal(values, dml.exp(alone.value))
    np.testing.assert_array_equal(positions, alone.index)


def test_all_that_is_wrong() -> None:
    desc = operators.TopK1(
        input_tensor=TensorDesc("FLOAT32", [2, 3]),
        output_value_tensor=TensorDesc("FLOAT16", [2, 5]),
        output_index_tensor=TensorDesc("UINT32", [1, 4]),
        axis=1,
        k=4,
        axis_direction=7,
    )
    assert {violation.field: violation.rule for violation in validate(desc)} == {
        "AxisDirection": "must be a DML_AXIS_DIRECTION (one of INCREASING, DECREASING)",
        "OutputValueTensor": "must have the DataType of InputTensor, FLOAT32",
        "K": "must be at most InputTensor.Sizes[1] = 3, as the dimension is Axis",
        "OutputValueTensor.Sizes[1]": "must be K = 4, as the dimension is Axis",
        "OutputIndexTensor.Sizes[0]": "must be InputTensor.Sizes[0] = 2, as in all dimensions but Axis",
    }
    assert [v.field for v in validate(desc.replace(k=0, axis=2))][:2] == ["AxisDirection", "OutputValueTensor"]
    assert {"Axis", "K"} <= {v.field for v in validate(desc.replace(k=0, axis=2))}
    whole = desc.replace(
        output_value_tensor=TensorDesc("FLOAT32", [2, 3]), output_index_tensor=TensorDesc("UINT64", [2, 3]), k=3
    ).replace(axis_direction="INCREASING")
    assert not validate(whole)


# The statement ---------------------------------------------------------------------------------------------------


def _order(rows: int, size: int, wanted: int) -> tuple[Definition, Order]:
    source = Tensor("x", I64, (rows, size), (size, 1), "input")
    target = Tensor("y", I64, (rows, wanted), (wanted, 1), "output")
    row, along, rank, chosen = Axis("i", rows), Axis("j", size), Axis("r", wanted), Variable("chosen", I64)
    store = Store(target, (index(row), index(rank)), load(source, (index(row), chosen)))
    order = Order((row,), along, load(source, (index(row), index(along))), rank, chosen, (store,))
    return Definition((source,), (target,), (order,)), order


def test_an_order_as_text() -> None:
    definition, order = _order(40, 5000, 10)
    assert format_definition(definition).splitlines()[2:] == [
        "for i < 40:",
        "  order j < 5000 by x[i, j], of the first r < 10 the coordinate is chosen:",
        "    y[i, r] = x[i, chosen]",
    ]
    kernel = schedule_order(order, host_target())
    lines = [line.strip() for line in describe_kernel(kernel, host_target()).splitlines()]
    assert [line.split(":")[0] for line in lines[:3]] == [
        f"scratch {name}" for name in ("candidates", "ordered", "digits")
    ]
    assert lines[3] == "40 work items, shared out among the threads: i < 40"
    first, last = lines.index(f"count, threshold = sort 10 of {kernel.room} candidates"), lines.index("for r in 0..10")
    assert f"if count >= {kernel.room}" in lines[first:last]
    assert lines[last + 1] == "chosen = position of candidates[r]"
    assert lines[-1].startswith("y@(10*i + r) = x@(")
    assert kernel.room < 100


@pytest.mark.parametrize(("wanted", "room"), [(1, 17), (10, 26), (100, 200), (499, 1000), (1000, 1000)])
def test_candidates_are_a_few_times_as_many_as_wanted(wanted: int, room: int) -> None:
    """So elements are ordered a few times each at most, whatever their order."""
    _, order = _order(3, 1000, wanted)
    assert schedule_order(order, host_target()).room == room


def test_a_constant_key_keeps_the_order() -> None:
    definition, order = _order(2, 30, 30)
    same = replace_key(definition, order)
    x = np.arange(60).reshape(2, 30)
    (result,) = run_interpreted(same, [x])
    np.testing.assert_array_equal(result, x)


def replace_key(definition: Definition, order: Order) -> Definition:
    return replace(definition, statements=(replace(order, key=constant(7, I64)),))
