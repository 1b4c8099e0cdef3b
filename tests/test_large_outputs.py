"""Outputs that are written past the caches, and layouts that are transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest
from execution import random_array, run_single

from opendml import operators
from opendml.device import Device
from opendml.kernels import schedule
from opendml.tensor import TensorDesc


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every output counts as too large for the caches."""
    for limit in ("STREAMED_BYTES", "STREAMED_ROW", "STREAMED_LONE_ROW"):
        monkeypatch.setattr(schedule, limit, 0)


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("data_type", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("width", [1, 15, 63, 64, 65, 200, 1000])
def test_streamed_copies(data_type: str, width: int) -> None:
    source = TensorDesc(data_type, [3, width], [width + 3, 1])
    x = random_array(source, width)
    copied = operators.ElementWiseIdentity(input_tensor=source, output_tensor=TensorDesc(data_type, [3, width]))
    np.testing.assert_array_equal(run_single(copied, x), x)
    padded = operators.Padding(
        input_tensor=source,
        output_tensor=TensorDesc(data_type, [5, width + 5]),
        padding_mode="EDGE",
        padding_value=0.0,
        start_padding=[1, 3],
        end_padding=[1, 2],
    )
    np.testing.assert_array_equal(run_single(padded, x), np.pad(x, [(1, 1), (3, 2)], mode="edge"))


@pytest.mark.usefixtures("streamed")
def test_streamed_in_place_operator() -> None:
    tensor = TensorDesc("float32", [999])
    x = random_array(tensor, 1, special=False)
    add = operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    np.testing.assert_array_equal(run_single(add, x, x), x + x)


@pytest.mark.parametrize("data_type", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize(("channels", "width"), [(5, 8), (16, 16), (17, 33), (64, 40), (100, 5), (8, 129)])
def test_transpositions(data_type: str, channels: int, width: int) -> None:
    packed = TensorDesc(data_type, [2, channels, width])
    last = TensorDesc(data_type, [2, channels, width], [channels * width, 1, channels])
    x = random_array(packed, channels)
    for source, target in ((packed, last), (last, packed)):
        desc = operators.ElementWiseIdentity(input_tensor=source, output_tensor=target)
        np.testing.assert_array_equal(run_single(desc, x), x)
    added = operators.ElementWiseAdd(a_tensor=packed, b_tensor=last, output_tensor=packed)
    if data_type != "int8":
        np.testing.assert_array_equal(run_single(added, x, x), x + x)


@pytest.mark.parametrize(("channels", "width"), [(17, 33), (16, 18), (9, 9)])
def test_transposed_operand_in_place(channels: int, width: int) -> None:
    packed = TensorDesc("float32", [2, channels, width])
    last = TensorDesc("float32", [2, channels, width], [channels * width, 1, channels])
    a, b = (random_array(packed, seed, special=False) for seed in (1, 2))
    program = Device().compile(operators.ElementWiseAdd(a_tensor=packed, b_tensor=last, output_tensor=packed))
    expected = a + b
    program(a, np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1), out=[a])
    np.testing.assert_array_equal(a, expected)
