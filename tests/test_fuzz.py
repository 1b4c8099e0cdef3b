"""Random valid descriptors of the whole catalogue: interpreted, compiled, between guard pages, by 1, 2 and 7 threads.

``OPENDML_TEST_SHARE`` makes them more: some hundred descriptors an operator find more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from execution import (
    assert_same_values,
    check_code,
    compile_in_parallel,
    random_array,
    random_values,
    run_operator,
    seeds,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from properties import SHARE
from random_descriptors import descriptors, is_drawn

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.operator_classes import operator_class
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.operators import implemented
from opendml.programs.device import compile_operator
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import host_target

EXAMPLES = max(round(4 * SHARE), 2)  # the first one is always the simplest

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


pytestmark = pytest.mark.usefixtures("no_cache")


def test_every_operator_is_drawn() -> None:
    assert [operator_type.name for operator_type in implemented() if not is_drawn(operator_type)] == []


DRAWN = [operator_type for operator_type in implemented() if is_drawn(operator_type)]


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@fuzz
@given(data=st.data(), seed=seeds)
def test_compiled_is_interpreted(operator_type: OperatorType, data: st.DataObject, seed: int) -> None:
    desc = data.draw(descriptors(operator_type))
    arrays = [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    run_operator(desc, arrays)


IN_PLACE = [operator_type for operator_type in DRAWN if operator_class(operator_type).in_place]


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", IN_PLACE, ids=lambda operator_type: operator_type.name)
@settings(fuzz, max_examples=EXAMPLES // 2 + 1)
@given(data=st.data(), seed=seeds)
def test_an_output_may_be_an_input(operator_type: OperatorType, data: st.DataObject, seed: int) -> None:
    desc = data.draw(descriptors(operator_type))
    outputs = [name for name, field in desc.fields.items() if getattr(field, "direction", "") == "output"]
    output = getattr(desc, outputs[0])
    alike = [
        name for name, tensor in _inputs(desc) if (tensor.data_type, tensor.sizes) == (output.data_type, output.sizes)
    ]
    desc = desc.replace(**dict.fromkeys([*alike, *outputs], output))
    program = compile_in_parallel(desc)
    arrays = [None if t is None else _buffer(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    apart = [np.zeros(output.element_span, output.data_type.dtype) for _ in outputs]
    program.bind(arrays, apart)()
    same = [number for number, (_, tensor) in enumerate(desc.inputs()) if tensor == output]
    for threads, first in itertools.product((1, 3), range(len(same))):
        # Several outputs are as many inputs, in any order.
        chosen = [same[(first + i) % len(same)] for i in range(len(outputs))]
        copies = [None if array is None else array.copy() for array in arrays]
        results = [copy for number in chosen if (copy := copies[number]) is not None]
        program.with_thread_count(threads).bind(copies, results)()
        for found, expected in zip(results, apart, strict=True):
            assert_same_values(_elements(found, output), _elements(expected, output))


def _inputs(desc: Operator) -> list[tuple[str, TensorDesc]]:
    """The fields of a descriptor that are inputs which it has."""
    fields = [name for name, field in desc.fields.items() if getattr(field, "direction", "") == "input"]
    return [(name, value) for name in fields if isinstance(value := getattr(desc, name), TensorDesc)]


def _buffer(tensor: TensorDesc, seed: int) -> np.ndarray:
    return random_values(tensor.data_type, tensor.element_span, np.random.default_rng(seed))


def _elements(buffer: np.ndarray, tensor: TensorDesc) -> np.ndarray:
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    return np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides).copy()


@settings(fuzz, max_examples=EXAMPLES * 10)
@given(data=st.data(), operator_type=st.sampled_from(DRAWN), huge=st.booleans())
def test_what_is_valid_has_code(data: st.DataObject, operator_type: OperatorType, huge: bool) -> None:
    """Text for every processor, of small and of the largest; ``tools/soak_descriptors.py`` tries thousands."""
    desc = data.draw(descriptors(operator_type, huge=huge))
    assume(not validate(desc))
    check_code(desc, [host_target(), host_target("avx2"), host_target("baseline")])


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@settings(fuzz, max_examples=EXAMPLES // 2 + 1)
@given(data=st.data())
def test_the_largest_have_as_little_code(operator_type: OperatorType, data: st.DataObject) -> None:
    """Whatever is valid compiles; how much code it is does not depend on sizes and strides."""
    desc = data.draw(descriptors(operator_type, huge=True))
    assume(not validate(desc))
    _has_little_code(desc)


MOST = 2**32 - 1


def _far() -> Iterator[Operator]:
    """Places and amounts at the end of what 64 bits hold."""
    thin = TensorDesc("uint8", [MOST], [MOST])
    whole: dict[str, Any] = {"input_window_offsets": [0], "input_window_sizes": [MOST]}
    yield op.Slice1(input_tensor=thin, output_tensor=TensorDesc("uint8", [MOST]), **whole, input_window_strides=[-1])
    part = TensorDesc("uint8", [2**31])
    yield op.SliceGrad(input_gradient_tensor=part, output_gradient_tensor=thin, **whole, input_window_strides=[-2])
    image, sizes = TensorDesc("uint8", [1, 1, 5, 5]), [1, 1, 2, 2]
    window: dict[str, Any] = {"strides": [MOST] * 2, "start_padding": [MOST] * 2, "end_padding": [MOST] * 2}
    yield op.MaxPooling2(
        input_tensor=image,
        output_tensor=TensorDesc("uint8", sizes),
        output_indices_tensor=TensorDesc("uint64", sizes),
        window_size=[3, 3],
        dilations=[2**31] * 2,
        **window,
    )
    yield op.Convolution(
        input_tensor=TensorDesc("float32", [1, 16, 4, 4, 4]),
        filter_tensor=TensorDesc("float32", [16, 16, 3, 3, 3]),
        output_tensor=TensorDesc("float32", [1, 16, 3, 3, 3]),
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        strides=[MOST] * 3,
        dilations=[1] * 3,
        start_padding=[MOST] * 3,
        end_padding=[MOST] * 3,
        output_padding=[0] * 3,
        group_count=1,
    )


@pytest.mark.parametrize("desc", list(_far()), ids=lambda desc: desc.type.name)
def test_far_places_have_code(desc: Operator) -> None:
    assert not validate(desc)
    check_code(desc, [host_target(), host_target("baseline")])


def _has_little_code(desc: Operator) -> None:
    """It compiles, and its code is no longer than that of small tensors may be."""
    code = generate(refined_definition(desc, host_target()), host_target(), in_place=desc.in_place)
    compile_operator(desc, thread_count=2)
    assert sum(map(len, code.modules)) < 2_000_000


def test_guarded_loads_are_not_transposed() -> None:
    """The input of a constant padding, contiguous along the other dimension: rows outside of it are not read."""
    source = TensorDesc("float32", [20, 40], [1, 20])
    padding = op.Padding(
        input_tensor=source,
        output_tensor=TensorDesc("float32", [52, 72]),
        padding_mode="CONSTANT",
        padding_value=3,
        start_padding=[16, 16],
        end_padding=[16, 16],
    )
    run_operator(padding, [random_array(source, 1)])


def test_64_bit_integers_wrap() -> None:
    target = TensorDesc("int64", [70])
    fields: dict[str, Any] = {"value_data_type": "INT64", "value_start": -(2**63), "value_delta": 5 - 2**63}
    run_operator(op.FillValueSequence(output_tensor=target, **fields), [])


def _large() -> Iterator[Operator]:
    """What once took minutes, gigabytes or both to compile."""
    image, pooled = TensorDesc("float32", [2, 3, 64, 64]), TensorDesc("float32", [2, 3, 71, 71])
    window: dict[str, Any] = {"strides": [1, 1], "window_size": [8, 8], "start_padding": [7, 7], "end_padding": [7, 7]}
    yield op.LpPooling(input_tensor=image, output_tensor=pooled, p=2**32 - 1, **window)
    piece = TensorDesc("float32", [1, 16, 7, 7])
    yield op.Join(input_tensors=[piece] * 200, output_tensor=TensorDesc("float32", [1, 3200, 7, 7]), axis=1)
    yield op.Split(input_tensor=TensorDesc("int8", [4, 300]), output_tensors=[TensorDesc("int8", [4, 1])] * 300, axis=1)
    cube, cubes = TensorDesc("float16", [1, 1, 64, 64, 64]), TensorDesc("float16", [1, 1, 65, 65, 65])
    window = {"strides": [1] * 3, "window_size": [64] * 3, "start_padding": [32] * 3, "end_padding": [32] * 3}
    indices = TensorDesc("uint64", cubes.sizes)
    yield op.MaxPooling1(input_tensor=cube, output_tensor=cubes, output_indices_tensor=indices, **window)


@pytest.mark.sampled
@pytest.mark.parametrize("desc", list(_large()), ids=lambda desc: desc.type.name)
def test_large_descriptors_has_little_code(desc: Operator) -> None:
    _has_little_code(desc)


@pytest.mark.parametrize(("source", "target"), [("FLOAT64", "UINT8"), ("FLOAT64", "FLOAT16"), ("UINT8", "INT64")])
def test_squares_of_a_wide_type_become_rows_of_a_narrow_one(source: str, target: str) -> None:
    """The rows of a square are as long as the wider type allows."""
    desc = op.Cast(input_tensor=TensorDesc(source, [37, 41], [1, 37]), output_tensor=TensorDesc(target, [37, 41]))
    x = np.arange(37 * 41).reshape(37, 41) % 200
    run_operator(desc, [x.astype(source.lower())])
