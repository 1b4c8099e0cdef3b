"""Refinement moves bits: what a target makes of a definition is, bit for bit, what the definition says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from execution import Array, assert_same_values, random_array, seeds
from hypothesis import given
from properties import examples
from random_descriptors import descriptors, is_drawn

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import MatrixTransform, OperatorType, TensorFlags
from opendml.description.tensor import TensorDesc
from opendml.expression.interpreter import run_interpreted
from opendml.expression.statements import Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import machine_of
from opendml.operators import implemented
from opendml.targets.cpu.refine.refining import refined_definition, refining
from opendml.targets.cpu.target import CpuTarget

TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))


def interpreted(definition: Definition, arrays: Sequence[Array | None]) -> list[Any]:
    return run_interpreted(
        definition,
        [
            None if a is None or t is None else a.reshape(t.sizes)
            for a, t in zip(arrays, definition.inputs, strict=True)
        ],
    )


def assert_refined_is_defined(
    desc: Operator, target: CpuTarget = TARGET, seed: int = 0, arrays: Sequence[Array | None] | None = None
) -> Definition:
    """What the target computes of random arrays, or given ones, is what the definition says; returns the former."""
    if arrays is None:
        arrays = [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    refined = refined_definition(desc, target)
    for found, expected in zip(interpreted(refined, arrays), interpreted(desc.define(), arrays), strict=True):
        if expected is not None:
            assert_same_values(found, expected)
    return refined


@examples(1000)
@given(data=st.data(), seed=seeds, operator_type=st.sampled_from([o for o in implemented() if is_drawn(o)]))
def test_any_operator(data: st.DataObject, seed: int, operator_type: OperatorType) -> None:
    assert_refined_is_defined(data.draw(descriptors(operator_type)), seed=seed % 1000)


def names_of(definition: Definition) -> list[str]:
    """The tensors that refinement has added, or the definition has."""
    return [tensor.name for tensor in definition.temporaries]


# Matrix products -----------------------------------------------------------------------------------------------------


def product(
    rows: int,
    inner: int,
    columns: int,
    *,
    data_type: str = "FLOAT32",
    owned: bool = False,
    transposed: str = "",
    shared: bool = False,
) -> operators.Gemm:
    """A product of two batches; of the ``transposed`` matrices, and with one right matrix ``shared`` by the batches."""
    a, b = (inner, rows) if "a" in transposed else (rows, inner), (inner, columns)
    b = b[::-1] if "b" in transposed else b
    strides = [0, 0, b[1], 1] if shared else None
    addend = TensorDesc(data_type, [2, 1, rows, columns])
    return operators.Gemm(
        a_tensor=TensorDesc(data_type, [2, 1, *a]),
        b_tensor=TensorDesc(data_type, [2, 1, *b], strides, flags=TensorFlags(owned)),
        c_tensor=addend,
        output_tensor=addend,
        trans_a=MatrixTransform("a" in transposed),
        trans_b=MatrixTransform("b" in transposed),
        alpha=0.5,
        beta=2.0,
    )


@pytest.mark.parametrize(
    ("desc", "names"),
    [
        (product(5, 3, 20), []),
        (product(5, 3, 130, owned=True), ["panels", "panels"]),
        (product(5, 3, 128, owned=True, transposed="b"), ["panels"]),
        (product(4, 3, 20, owned=True, shared=True), ["panels"]),
        (product(3, 3, 130, owned=True), []),
        (product(5, 3, 128, transposed="a"), ["packed_ATensor"]),
        (product(5, 3, 6, data_type="FLOAT16", owned=True), ["packed_ATensor", "panels"]),
        (product(5, 20, 3), ["packed_BTensor"]),
        (product(5, 20, 3, transposed="b"), []),
        (product(3, 20, 5, data_type="FLOAT16", transposed="b"), ["packed_ATensor"]),
    ],
    ids=str,
)
def test_matrices_are_copied_where_it_is_worth_it(desc: operators.Gemm, names: list[str]) -> None:
    assert not desc.define().temporaries
    assert names_of(assert_refined_is_defined(desc)) == names


def test_panels_are_made_once() -> None:
    """Weights of a graph are laid out when it is initialised."""
    graph = dml.Graph()
    x = graph.input("float32", [1, 1, 5, 100])
    graph_desc = graph.describe(dml.gemm(x, graph.constant(np.ones((1, 1, 100, 70), np.float32))))
    parts = divide_and_fuse(join(graph_desc, refining(TARGET)))
    assert parts.initialisation is not None
    assert [t.name.rpartition(".")[2] for t in parts.initialisation.outputs if t is not None] == ["panels", "panels"]
    assert not any(tensor.name.endswith("panels") for tensor in parts.execution.temporaries)
