"""``opendml.testing``: what operators may differ by, held against the documentation, and what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sample_descriptors import sample, samples

import opendml as dml
from opendml.description.errors import ConfigurationError
from opendml.operators import implemented
from opendml.testing import FUNCTIONS, SUMS, ToleranceError, assert_close, tolerance_in_ulp

SEMANTICS = Path(__file__).parent.parent / "docs" / "semantics.md"
ONES = np.ones((2, 3), np.float32)


def _moved(array: np.ndarray, ulp: int) -> np.ndarray:
    whole = np.dtype(f"i{array.itemsize}")
    return np.asarray(array.view(whole) + whole.type(ulp)).view(array.dtype)


def test_the_documentation_has_the_same_table() -> None:
    rows = re.findall(
        r"^\| (\w+) \| (\d+) of [^|]* \| ([\d.]+)[^|]* \| ([^|]+) \|$", SEMANTICS.read_text("utf-8"), re.M
    )
    documented = {
        name: (float(half), float(single), None if double == "not offered" else float(double))
        for name, half, single, double in rows
    }
    assert documented == dict(FUNCTIONS)


def test_the_documentation_names_all_sums() -> None:
    (line,) = [line for line in SEMANTICS.read_text("utf-8").splitlines() if line.startswith("- **Sums**, whose")]
    assert set(re.findall(r"`([A-Z0-9_]+)`", line)) == set(SUMS)
    assert set(SUMS) <= {operator_type.name for operator_type in implemented()}


@pytest.mark.parametrize("desc", samples(), ids=lambda desc: type(desc).__name__)
def test_every_operator_has_a_tolerance(desc: dml.OperatorDesc) -> None:
    for data_type in ("float16", "float32", "int32"):
        tolerance = tolerance_in_ulp(desc, data_type)
        assert 0 <= tolerance < 100
        assert data_type != "int32" or tolerance == 0


def test_tolerances_by_operator_and_type() -> None:
    assert tolerance_in_ulp("ACTIVATION_TANH", np.float32) == 2  # 1.97 and the nearest number's half
    assert tolerance_in_ulp("ELEMENT_WISE_EXP", np.float32) == 1
    assert tolerance_in_ulp("DML_OPERATOR_ELEMENT_WISE_EXP", np.float16) == 0
    assert tolerance_in_ulp(dml.OperatorType.ELEMENT_WISE_ADD, np.float64) == 0
    assert tolerance_in_ulp("GEMM", np.float32, terms=100) == 22
    reduce = sample(dml.operators.Reduce, function="MAX")
    assert tolerance_in_ulp(reduce, np.float32) == 0
    with pytest.raises(ConfigurationError, match=r"GEMM adds up terms: give its descriptor as operator, or terms="):
        tolerance_in_ulp("GEMM", np.float32)
    with pytest.raises(ConfigurationError, match="no float64"):
        tolerance_in_ulp("ACTIVATION_GELU", np.float64)
    with pytest.raises(ValueError, match="NONSENSE"):
        tolerance_in_ulp("NONSENSE", np.float32)


@pytest.mark.parametrize("data_type", ["float16", "float32", "float64", "int8", "uint64"])
def test_distances_are_counted_in_numbers_of_the_type(data_type: str) -> None:
    x = np.array([[1, 2, 3], [4, 5, 100]], data_type)
    for ulp in (0, 1, 5):
        assert_close(_moved(x, ulp), x, operator="ELEMENT_WISE_ABS", ulp=ulp)
        assert_close(x, _moved(x, ulp), operator="ELEMENT_WISE_ABS", ulp=ulp)
        with pytest.raises(ToleranceError, match=rf"6 of 6 elements .* the worst by {ulp + 1} "):
            assert_close(_moved(x, ulp + 1), x, operator="ELEMENT_WISE_ABS", ulp=ulp)


def test_the_message_says_how_many_the_worst_and_where() -> None:
    x = ONES.copy()
    x[1, 2] = np.float32(1 + 7 * 2**-23)
    x[0, 1] = np.float32(1 + 3 * 2**-23)
    text = (
        "ACTIVATION_TANH, float32: 2 of 6 elements differ by more than 2 ULP; the worst by 7 ULP, at [1, 2]: "
        "expected 1.0, got 1.0000008"
    )
    with pytest.raises(AssertionError, match=f"^{re.escape(text)}$"):
        assert_close(x, ONES, operator="ACTIVATION_TANH")


def test_special_values() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    for operator in ("ACTIVATION_TANH", "ACTIVATION_LINEAR"):
        terms = {"terms": 2} if operator == "ACTIVATION_LINEAR" else {}
        assert_close(special, special.copy(), operator=operator, **terms)
        assert_close(-special[3:], special[3:], operator=operator, **terms)
        for position, other in ((0, 1.0), (1, np.finfo(np.float32).max), (1, -np.inf), (3, np.nan)):
            changed = special.copy()
            changed[position] = other
            with pytest.raises(ToleranceError, match=rf"1 of 5 .* beyond measure, at \[{position}\]"):
                assert_close(changed, special, operator=operator, **terms)
    tiny = np.finfo(np.float32).smallest_subnormal
    assert_close(np.array([tiny]), np.array([-tiny]), operator="ELEMENT_WISE_SIN", ulp=2)


def test_types_and_shapes_must_agree() -> None:
    with pytest.raises(ToleranceError, match=r"expected float32 \[2, 3\], got float64 \[2, 3\]"):
        assert_close(ONES.astype(np.float64), ONES, operator="ELEMENT_WISE_ADD")
    with pytest.raises(ToleranceError, match=r"expected float32 \[2, 3\], got float32 \[6\]"):
        assert_close(ONES.ravel(), ONES, operator="ELEMENT_WISE_ADD")
    with pytest.raises(dml.BindingError, match="complex64"):
        assert_close(ONES.astype(np.complex64), ONES, operator="ELEMENT_WISE_ADD")


def test_sums_are_measured_by_the_largest() -> None:
    gemm = sample(dml.operators.Gemm)
    device = dml.Device("reference")
    generator = np.random.default_rng(0)
    inputs = [None if t is None else generator.normal(size=t.sizes).astype(np.float32) for _, t in gemm.inputs()]
    expected = device.compile(gemm)(*inputs)
    assert_close(np.nextafter(expected, np.float32(np.inf)), expected, operator=gemm)
    wrong = expected.copy()
    wrong[0, 0, 0, 0] += np.abs(expected).max() * 1e-3
    with pytest.raises(ToleranceError, match=r"GEMM, float32: 1 of .* ULP of the largest, at \[0, 0, 0, 0\]"):
        assert_close(wrong, expected, operator=gemm)
