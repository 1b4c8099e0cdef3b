"""Folds over rows that are far apart: some steps of all points, then the next ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import run_operator

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.inspection.explanation import explain_operator
from opendml.llvm.host import machine_of
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING

WAITING = replace(
    TUNING, serial_work=0, prefetched_bytes=0, fold_steps_at_once=4, fold_row_bytes=64, scanned_row_bytes=512
)


def reduction(function: str, data_type: str, sizes: list[int], axis: int) -> Any:
    output = [1 if number == axis else size for number, size in enumerate(sizes)]
    index = "uint32" if function.startswith("ARG") else data_type
    return operators.Reduce(
        function=function,
        input_tensor=TensorDesc(data_type, sizes),
        output_tensor=TensorDesc(index, output),
        axes=[axis],
    )


def nest(desc: Any, **knobs: Any) -> str:
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), replace(WAITING, **knobs))
    return explain_operator(desc, target)


@pytest.mark.parametrize("function", ["SUM", "MAX", "MIN", "AVERAGE", "ARGMAX", "L2", "LOG_SUM_EXP"])
@pytest.mark.parametrize(("sizes", "axis"), [([3, 13, 5, 41], 1), ([17, 1, 3, 47], 0), ([2, 8, 1, 130], 1)])
def test_results_are_the_same(function: str, sizes: list[int], axis: int) -> None:
    """Whatever is left of the steps and of the points, and where some of them are not numbers."""
    x = np.random.default_rng(5).standard_normal(sizes, np.float32) + np.float32(3)
    if function not in ("L2", "LOG_SUM_EXP"):
        x[x > 4.5] = np.nan
        x[:, :, :, ::7] = 0.0
        x[:, ::2, :, ::7] = -0.0
    run_operator(reduction(function, "float32", sizes, axis), [x], tuning=WAITING)


@pytest.mark.parametrize("data_type", ["float16", "int32"])
def test_results_of_other_types(data_type: str) -> None:
    x = (np.random.default_rng(7).standard_normal((3, 13, 5, 41)) * 50).astype(data_type)
    run_operator(reduction("SUM", data_type, list(x.shape), 1), [x], tuning=WAITING)


def test_which_folds_wait() -> None:
    rows = reduction("SUM", "float32", [4, 32, 64, 32], 1)
    text = nest(rows)
    assert "scratch state: f32[128]" in text
    assert "for r1 in 0..32 step 4" in text and "unrolled r1 + 0..4, carrying" in text
    for knobs in ({"fold_steps_at_once": 0}, {"fold_row_bytes": 16384}, {"prefetched_bytes": 1 << 30}):
        assert "scratch state" not in nest(rows, **knobs)
    assert "scratch state" not in nest(reduction("SUM", "float32", [4, 7, 8, 32], 1))  # too few steps
    assert "scratch state" not in nest(reduction("SUM", "float32", [4, 32, 8, 32], 3))  # along a row
