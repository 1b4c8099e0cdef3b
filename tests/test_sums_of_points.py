"""Folds over points whose channels lie side by side: rows of partial results, and the bits of the definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import run_operator
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.ir import load
from opendml.expression.statements import Compute
from opendml.llvm.host import machine_of
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.schedule import schedule_compute
from opendml.targets.cpu.target import CpuTarget

AVX2 = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2"))


def reduction(
    sizes: Sequence[int], function: str = "AVERAGE", axes: Sequence[int] = (2, 3), type: str = "FLOAT32", gap: int = 0
) -> operators.Reduce:
    """Over the points of a tensor with its channels side by side, ``gap`` elements between those of two points."""
    _, channels, height, width = sizes
    pitch = channels + gap
    kept = [1 if d in axes else n for d, n in enumerate(sizes)]
    return operators.Reduce(
        function=function,
        input_tensor=TensorDesc(type, sizes, [height * width * pitch, 1, width * pitch, pitch]),
        output_tensor=TensorDesc(type, kept),
        axes=axes,
    )


def copies(desc: operators.Reduce) -> list[tuple[int, ...]]:
    """Sizes of the partial results that a statement of its own computes."""
    return [t.sizes for t in refined_definition(desc, AVX2).temporaries if t.name == "partial_results"]


@examples(80)
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(8, 40), st.integers(1, 21), st.integers(2, 21)),
    function=st.sampled_from(["SUM", "AVERAGE", "MAX", "MIN", "SUM_SQUARE", "L1", "L2", "MULTIPLY", "LOG_SUM_EXP"]),
    axes=st.sampled_from([(2, 3), (3,), (2,), (0, 2, 3)]),
    type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    gap=st.sampled_from([0, 5]),
)
def test_no_bit_differs(sizes: Any, **options: Any) -> None:
    desc = reduction(sizes, **options)
    values = np.random.default_rng(0).normal(size=sizes).astype(desc.input_tensor.data_type.dtype)
    run_operator(desc, [values])


@pytest.mark.parametrize(
    ("height", "width", "sizes"),
    [(16, 17, [(64, 24)]), (13, 20, [(64, 24)]), (16, 16, []), (16, 4, []), (7, 9, []), (1, 9, [])],
)
def test_rows_of_partial_results(height: int, width: int, sizes: list[tuple[int, ...]]) -> None:
    """Of many rows; what few come to, and what is left behind them, is joined at once."""
    assert copies(reduction([1, 24, height, width])) == sizes
    assert copies(reduction([2, 24, height, width])) == [(2, *of_image) for of_image in sizes]


def test_others_are_done_as_ever() -> None:
    """Channels that fill no vector, and those in planes."""
    planes = operators.Reduce(
        function="AVERAGE",
        input_tensor=TensorDesc("FLOAT32", [1, 24, 16, 16]),
        output_tensor=TensorDesc("FLOAT32", [1, 24, 1, 1]),
        axes=[2, 3],
    )
    assert copies(reduction([1, 4, 16, 16])) == copies(planes) == []
    for desc, channels in ((planes, 24), (reduction([1, 4, 16, 16]), 4)):
        run_operator(desc, [np.random.default_rng(0).normal(size=[1, channels, 16, 16]).astype(np.float32)])


@pytest.mark.parametrize("points", [49, 130])
def test_threads_share_out_means_of_many_points_however_few_they_are(points: int) -> None:
    """Each is of more loads than a step has."""
    (mean,) = refined_definition(reduction([8, 1152, 1, points]), AVX2).statements
    assert isinstance(mean, Compute)
    copied = Compute(mean.axes, tuple(replace(s, value=load(s.tensor, s.coordinates)) for s in mean.stores))
    kernels = [schedule_compute(statement, AVX2, in_place=False) for statement in (mean, copied)]
    assert [kernel.serial for kernel in kernels] == [False, True]
