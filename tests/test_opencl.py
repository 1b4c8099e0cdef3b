"""OpenCL devices: which are refused, and what stays on them. Their results are the conformity suite's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sample_descriptors import samples

import opendml as dml
from opendml.description.errors import CodeGenerationError
from opendml.targets.gpu.dialect import SPIRV
from opendml.targets.gpu.program import LaunchPlan, generate
from opendml.targets.host_memory import empty
from opendml.targets.opencl import platform, target
from opendml.targets.opencl.machine import OpenClMachine

MACHINE = OpenClMachine("Platform", "Device", "1.0", True, True, True, True, True, True)
FLOAT32 = dml.TensorDesc("FLOAT32", [6])


def quotient() -> Any:
    return dml.operators.ElementWiseDivide(a_tensor=FLOAT32, b_tensor=FLOAT32, output_tensor=FLOAT32).define()


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        ({"has_denormals": False}, "denormal numbers"),
        ({"has_specials": False}, "infinities and NaN"),
        ({"rounds_to_nearest": False}, "rounding to nearest"),
        ({"is_little_endian": False}, "the order of bytes"),
        ({"divides_exactly": False, "has_float64": False}, "correctly rounded division"),
        ({"divides_exactly": False}, None),
        ({"has_float64": False}, None),
    ],
)
def test_a_device_with_other_results_is_refused(
    facts: dict[str, Any], lacking: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "find_devices", lambda: [None])
    monkeypatch.setattr(target, "machine_of", lambda device: replace(MACHINE, **facts))
    if lacking is None:
        assert dml.Device("opencl").name == "opencl:0"
    else:
        with pytest.raises(dml.ConfigurationError, match=f"'opencl:0' \\(Device\\) lacks {lacking}"):
            dml.Device("opencl")
    with pytest.raises(dml.ConfigurationError, match="there are 1"):
        dml.Device("opencl:1")


def test_without_a_device_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "find_devices", list)
    with pytest.raises(dml.ConfigurationError, match=r"no OpenCL device that takes SPIR-V was found; .*pip install"):
        dml.Device("opencl")


def test_without_pyopencl_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "has_pyopencl", lambda: False)
    platform._imported.cache_clear()
    try:
        with pytest.raises(dml.ConfigurationError, match=r"pip install opendml\[opencl\]"):
            platform.pyopencl_module()
    finally:
        platform._imported.cache_clear()


def test_division_is_rounded_once_by_whoever_promises_it() -> None:
    own = generate(quotient(), SPIRV, divides_exactly=True, has_float64=False).module
    assert "fdiv float" in own and "double" not in own
    wide = generate(quotient(), SPIRV, divides_exactly=False, has_float64=True).module
    assert "fdiv double" in wide and "fdiv float" not in wide


def test_float64_needs_a_device_that_has_it() -> None:
    tensor = dml.TensorDesc("FLOAT64", [6])
    definition = dml.operators.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor).define()
    with pytest.raises(CodeGenerationError, match="no float64"):
        generate(definition, SPIRV, divides_exactly=True, has_float64=False)


def test_a_launch_plan_returns_from_its_text() -> None:
    tensor = dml.TensorDesc("FLOAT32", [3, 1, 2, 4])
    weights = dml.TensorDesc("FLOAT32", [1, 1, 5, 4])
    desc = dml.operators.Rnn(
        input_tensor=tensor,
        weight_tensor=weights,
        recurrence_tensor=dml.TensorDesc("FLOAT32", [1, 1, 5, 5]),
        output_single_tensor=dml.TensorDesc("FLOAT32", [1, 1, 2, 5]),
        activation_desc_count=1,
        activation_descs=[dml.operators.ActivationTanh()],
        direction="FORWARD",
    )
    plan = generate(desc.define(), SPIRV, divides_exactly=True, has_float64=True).plan
    assert any(len(step) == 3 for step in plan.steps)  # what is repeated
    assert LaunchPlan.from_json(plan.to_json()) == plan


@pytest.fixture(scope="module")
def device() -> Iterator[dml.Device]:
    try:
        yield dml.Device("opencl")
    except dml.ConfigurationError as error:
        pytest.skip(str(error))


def test_weights_are_copied_to_the_device_once(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendml.targets.opencl.executable import OpenClExecutable

    graph = dml.Graph(device)
    x = graph.input("float32", [64], name="x")
    weights = graph.input("float32", [64], name="w", owned_by_dml=True)
    program = graph.compile(dml.multiply(x, weights)).program
    uploads: list[int] = []
    uploaded = OpenClExecutable.uploaded

    def counted(executable: OpenClExecutable, array: Any, size: int = 0) -> Any:
        uploads.append(array.nbytes)
        return uploaded(executable, array, size)

    monkeypatch.setattr(OpenClExecutable, "uploaded", counted)
    values = np.arange(64, dtype=np.float32)
    program.initialize([None, values])
    values += 1  # it was copied
    result = np.zeros(64, np.float32)
    call = program.bind([np.full(64, 2, np.float32), None], [result])
    for _ in range(3):
        call()
    np.testing.assert_array_equal(result, np.arange(64) * 2)
    assert uploads == [256]


def test_a_tensor_too_large_for_the_device_is_an_error_of_this_package(device: dml.Device) -> None:
    from opendml.targets.opencl.platform import opened

    largest = opened(0).device.max_mem_alloc_size
    executable = device.compile(dml.operators.ActivationRelu(input_tensor=FLOAT32, output_tensor=FLOAT32)).executable
    with pytest.raises(dml.OutOfMemoryError, match="the device has no memory"):
        executable.allocated(largest * 64)  # type: ignore[attr-defined]


def test_times_are_those_of_the_devices_clock(device: dml.Device) -> None:
    """They add up over the steps of a loop; arithmetic of the host between them does not count."""
    desc = next(desc for desc in samples() if type(desc).__name__ == "Gru")
    target = device.target
    assert target is not None
    code, timed = target.instrumented(desc.define(), in_place=False, thread_count=1)
    arrays, outputs = ([None if t is None else empty(t) for _, t in part] for part in (desc.inputs(), desc.outputs()))
    for array in arrays:
        if array is not None:
            array[...] = 0
    timed.run(arrays, outputs)
    once = timed.times()
    assert len(once) == len(code.describe_kernels())
    assert all(time.duration > 0 and time.work == () for time in once)
    timed.run(arrays, outputs)
    assert sum(time.duration for time in timed.times()) > sum(time.duration for time in once)
    timed.reset()
    assert [time.duration for time in timed.times()] == [0] * len(once)
