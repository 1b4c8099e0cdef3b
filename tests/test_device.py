"""Devices: names, levels, threads; and that descriptors as large as DirectML allows compile in no time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml import operators as op
from opendml.description.enums import FeatureLevel
from opendml.description.errors import ConfigurationError, InvalidDescriptorError
from opendml.description.tensor import TensorDesc
from opendml.programs.device import CheckedOperator, Device, default_device

PAIR = TensorDesc("float32", [2, 2])
ADD = op.ElementWiseAdd(a_tensor=PAIR, b_tensor=PAIR, output_tensor=PAIR)


def test_names_levels_and_threads() -> None:
    device = Device("cpu", feature_level="3_0", thread_count=3)
    assert (device.name, device.feature_level, device.thread_count) == ("cpu", FeatureLevel.LEVEL_3_0, 3)
    assert Device().feature_level is FeatureLevel.LEVEL_6_4
    assert default_device() is default_device()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "gpu"}, "unknown device 'gpu'"),
        ({"thread_count": 0}, "thread_count=0"),
        ({"thread_count": 1025}, "thread_count=1025"),
        ({"thread_count": True}, "thread_count=True"),
        ({"thread_count": 2.5}, "thread_count=2.5"),
        ({"thread_count": "2"}, "thread_count='2'"),
    ],
)
def test_unknown_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Device(**arguments)


def test_unknown_level_is_refused() -> None:
    with pytest.raises((ConfigurationError, ValueError), match="9_9"):
        Device(feature_level="9_9")


def test_threads_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_NUM_THREADS", "5")
    assert Device().thread_count == 5
    assert Device(thread_count=2).thread_count == 2
    monkeypatch.setenv("OPENDML_NUM_THREADS", "many")
    with pytest.raises(ConfigurationError, match="OPENDML_NUM_THREADS"):
        Device().compile(ADD)


def test_devices_are_values() -> None:
    assert Device() == Device() and hash(Device()) == hash(Device())
    assert Device(feature_level="3_0") != Device()
    assert Device(thread_count=1) != Device(thread_count=2)
    assert Device() != "cpu"


def test_levels_decide_what_is_valid() -> None:
    eight = TensorDesc("int8", [2, 2])
    desc = op.ElementWiseAdd(a_tensor=eight, b_tensor=eight, output_tensor=eight)
    checked = Device(feature_level="5_1").create_operator(desc)
    assert isinstance(checked, CheckedOperator)
    ones = np.ones((2, 2), np.int8)
    np.testing.assert_array_equal(checked.compile()(ones, ones), 2 * ones)
    with pytest.raises(InvalidDescriptorError) as caught:
        Device(feature_level="4_1").compile(desc)
    assert {str(v.allowed_at) for v in caught.value.violations} == {"5_1"}


def test_supported_data_types() -> None:
    assert Device(feature_level="1_0").supports("float32")
    assert not Device(feature_level="6_2").supports("int4")
    assert Device(feature_level="6_4").supports("int4")
    assert not Device().supports("UNKNOWN")


def test_the_example_of_the_documentation() -> None:
    device = dml.Device("cpu", feature_level="6_4")
    desc = dml.TensorDesc("FLOAT32", [2, 2])
    program = device.compile(dml.operators.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc))
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(program(x, x), 2 * x)


def test_memory_that_cannot_be_had_is_an_error_of_ours() -> None:
    huge = TensorDesc("float64", [2**32 - 1], [2**20])
    repeated = TensorDesc("float64", huge.sizes, [0])
    program = Device().compile(op.ElementWiseIdentity(input_tensor=repeated, output_tensor=huge))
    with pytest.raises(
        dml.OutOfMemoryError, match=r"no memory for a tensor of float64 \[4294967295\], 36028797\d+ bytes"
    ):
        program(np.ones(1))
