"""What kernels cost: bytes that they read and write, each once, and operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import samples

import opendml as dml
from opendml.description.tensor import packed_strides
from opendml.expression.element_types import F32
from opendml.expression.ir import Axis, Tensor, constant, index, indices, load
from opendml.expression.statements import Compute, Scan, Scatter, Store
from opendml.loops.costs import cost_of


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes)


def cost(operator: Any) -> tuple[dict[str, int], dict[str, int], int]:
    """Of a definition of one statement, by the names of tensors."""
    (statement,) = operator.define().statements
    found = cost_of(statement)
    return (
        {t.name: n for t, n in found.bytes_read.items()},
        {t.name: n for t, n in found.bytes_written.items()},
        found.operations,
    )


def test_costs_by_hand() -> None:
    t = tensor(4, 5)
    add = dml.operators.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t)
    assert cost(add) == ({"ATensor": 80, "BTensor": 80}, {"OutputTensor": 80}, 20)
    broadcast = dml.TensorDesc("FLOAT32", [4, 5], [0, 1])
    add = dml.operators.ElementWiseAdd(a_tensor=t, b_tensor=broadcast, output_tensor=t)
    assert cost(add)[0] == {"ATensor": 80, "BTensor": 20}
    product = dml.operators.Gemm(
        a_tensor=tensor(1, 1, 8, 16),
        b_tensor=tensor(1, 1, 16, 32),
        output_tensor=tensor(1, 1, 8, 32),
        trans_a="NONE",
        trans_b="NONE",
        alpha=1.0,
        beta=1.0,
    )
    assert cost(product) == ({"ATensor": 512, "BTensor": 2048}, {"OutputTensor": 1024}, 2 * 8 * 16 * 32)


def test_windows_that_overlap_read_each_element_once() -> None:
    pooling = dml.operators.AveragePooling(
        input_tensor=tensor(1, 1, 8, 8),
        output_tensor=tensor(1, 1, 6, 6),
        strides=[1, 1],
        window_size=[3, 3],
        start_padding=[0, 0],
        end_padding=[0, 0],
        include_padding=False,
    )
    reads, writes, operations = cost(pooling)
    assert reads == {"InputTensor": 8 * 8 * 4}
    assert writes == {"OutputTensor": 6 * 6 * 4}
    assert 9 * 36 <= operations <= 11 * 36


def test_a_state_is_counted_at_every_step() -> None:
    sums = dml.operators.CumulativeSummation(
        input_tensor=tensor(8, 100),
        output_tensor=tensor(8, 100),
        axis=1,
        axis_direction="INCREASING",
        has_exclusive_sum=False,
    )
    assert cost(sums) == ({"InputTensor": 3200}, {"OutputTensor": 3200}, 800)


@examples(60)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    reads=st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=3),
)
def test_costs_bound_what_is_touched(sizes: list[int], reads: list[tuple[int, ...]]) -> None:
    """Beside all addresses of an expression, one by one: never less, and exact for a single read without gaps."""
    axes = tuple(Axis("ijk"[d], n) for d, n in enumerate(sizes))
    source = Tensor("source", F32, (64,), (1,), "input")
    target = Tensor("target", F32, tuple(sizes), packed_strides(sizes), "output")
    places = [sum((index(a) * f for a, f in zip(axes, factors[1:], strict=False)), constant_of(factors[0]))
              for factors in reads]  # fmt: skip
    value = load(source, [places[0]])
    for place in places[1:]:
        value = value + load(source, [place])
    found = cost_of(Compute(axes, (Store(target, indices(axes), value),)))
    points = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij")).reshape(len(sizes), -1)
    touched = [f[0] + np.tensordot(f[1 : len(sizes) + 1], points, 1) for f in reads]
    exact = 4 * len(np.unique(np.concatenate(touched)))
    assert found.bytes_written == {target: 4 * math.prod(sizes)}
    assert exact <= found.bytes_read[source] <= 4 * points.shape[1] * len(reads)
    if len(sizes) == 1 and len(reads) == 1:
        assert found.bytes_read[source] == exact


def constant_of(number: int) -> Any:
    from opendml.expression.element_types import I64

    return constant(number, I64)


def test_every_operator_has_costs() -> None:
    for sample in samples():
        for statement in sample.define().statements:
            if isinstance(statement, (Compute, Scan, Scatter)):
                found = cost_of(statement)
                assert found.bytes_written
                for t, size in (found.bytes_read | found.bytes_written).items():
                    assert 0 < size <= math.prod(t.sizes) * max(t.type.bits, 8) // 8
