"""Every function at every feature level: the newest version of its operator, or which level has one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import FUNCTIONS, Array, Recorder, described

import opendml as dml
from opendml.description.enums import FeatureLevel, TensorDataType


def image(dtype: str = "float32", *shape: int) -> Array:
    return np.zeros(shape or (1, 1, 4, 4), dtype)


WINDOW = {"window_size": [2, 2]}
STRIDED = {"input_window_offsets": [0] * 4, "input_window_sizes": [1, 1, 4, 4], "input_window_strides": [1, 1, 2, 1]}
UINT32 = {"output_data_type": "uint32"}
ZERO, ONE = image("uint8"), image("float32", 1, 1, 1, 1)
CALLS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "adam_optimizer": ([image()] * 4 + [image("uint32", 1, 1, 1, 1)], {}),
    "average_pooling_grad": ([image("float32", 1, 1, 3, 3)], {"output_sizes": [1, 1, 4, 4], **WINDOW}),
    "activation_linear": ([image()], {"alpha": 1, "beta": 0}),
    "activation_parametric_softplus": ([image()], {"alpha": 1, "beta": 1}),
    "average_pooling": ([image()], WINDOW),
    "batch_normalization": ([image()] * 5, {}),
    "bit_and": ([image("uint32")] * 2, {}),
    "bit_count": ([image("uint32")], {}),
    "bit_not": ([image("uint32")], {}),
    "bit_or": ([image("uint32")] * 2, {}),
    "bit_shift_left": ([image("uint32")] * 2, {}),
    "bit_shift_right": ([image("uint32")] * 2, {}),
    "bit_xor": ([image("uint32")] * 2, {}),
    "cast": ([image(), "float16"], {}),
    "clip": ([image(), 0, 1], {}),
    "clip_grad": ([image()] * 2, {"min": 0, "max": 1}),
    "convolution_integer": ([ZERO, None, image("int8")], {}),
    "cumulative_product": ([image()], {"axis": 3}),
    "cumulative_summation": ([image()], {"axis": 3}),
    "depth_to_space": ([image("float32", 1, 4, 2, 2)], {"block_size": 2}),
    "dequantize": ([ZERO, image()], {}),
    "dequantize_linear": ([ZERO, image(), ZERO], {}),
    "diagonal_matrix": ([None], {"output_sizes": [1, 1, 2, 2], "output_data_type": "float32", "value": 1}),
    "fill_value_constant": ([[1, 1, 2, 2]], {"output_data_type": "float32", "value": 1}),
    "fill_value_sequence": ([[1, 1, 2, 2]], {"output_data_type": "float32", "value_start": 0, "value_delta": 1}),
    "gather": ([image(), image("uint32", 1, 1, 1, 2)], {"axis": 3, "index_dimensions": 1}),
    "gather_elements": ([image(), image("uint32")], {"axis": 3}),
    "gather_nd": ([image(), image("uint32", 1, 1, 2, 4)], {"input_dimension_count": 4, "indices_dimension_count": 2}),
    "equals": ([image()] * 2, UINT32),
    "greater_than": ([image()] * 2, UINT32),
    "if_": ([image("uint8"), image("float16"), image("float16")], {}),
    "join": ([[image(), image()]], {"axis": 3}),
    "less_than": ([image()] * 2, UINT32),
    "local_response_normalization": ([image()], {"cross_channel": True, "local_size": 3}),
    "local_response_normalization_grad": ([image()] * 2, {"cross_channel": True, "local_size": 3}),
    "logical_and": ([image("uint32")] * 2, {}),
    "logical_not": ([image("uint32")], {}),
    "logical_or": ([image("uint32")] * 2, {}),
    "logical_xor": ([image("uint32")] * 2, {}),
    "lp_normalization": ([image()], {"axis": 3}),
    "lp_pooling": ([image()], WINDOW),
    "matrix_multiply_integer": ([ZERO, None, image("int8")], {}),
    "matrix_multiply_integer_to_float": ([ZERO, ONE, None, ZERO, ONE], {}),
    "max_pooling": ([image()], WINDOW),
    "max_pooling_grad": ([image(), image("float32", 1, 1, 3, 3)], WINDOW),
    "max_unpooling": ([image(), image("uint32")], {"output_sizes": [1, 1, 8, 8]}),
    "mean_variance_normalization": ([image(), image(), image()], {"axes": [1, 2, 3]}),
    "multihead_attention": ([image("float32", 1, 4, 4)] * 3, {"head_count": 2}),
    "one_hot": ([image("uint32", 1, 1, 4, 1), image("float32", 1, 1, 1, 2)], {"output_length": 3, "axis": 3}),
    "padding": (
        [image()],
        {"padding_mode": "EDGE", "padding_value": 0, "start_padding": [0, 0, 1, 1], "end_padding": [0, 0, 1, 1]},
    ),
    "quantize_linear": ([image(), image(), ZERO], {}),
    "quantized_linear_add": ([ZERO, ONE, None, ZERO, ONE, None, ONE], {}),
    "random_generator": ([image("uint32", 1, 1, 1, 6)], {"output_sizes": [1, 1, 2, 4]}),
    "quantized_linear_average_pooling": ([ZERO, ONE, None, ONE], WINDOW),
    "quantized_linear_convolution": ([ZERO, ONE, None, image("int8"), ONE, None, None, ONE], {}),
    "quantized_linear_matrix_multiply": ([ZERO, ONE, None, image("int8"), ONE, None, ONE], {}),
    "reduce": ([image(), "SUM"], {"axes": [3]}),
    "resample": ([image()], {"output_sizes": [1, 1, 8, 2], "interpolation_mode": "LINEAR"}),
    "resample_grad": ([image()], {"output_sizes": [1, 1, 8, 2], "interpolation_mode": "LINEAR"}),
    "reverse_subsequences": ([image(), image("uint32", 1, 1, 4, 1)], {"axis": 3}),
    "gru": ([image("float32", 1, 2, 1, 3), image("float32", 1, 1, 15, 3), image("float32", 1, 1, 15, 5)], {}),
    "lstm": ([image("float32", 1, 2, 1, 3), image("float32", 1, 1, 20, 3), image("float32", 1, 1, 20, 5)], {}),
    "rnn": ([image("float32", 1, 2, 1, 3), image("float32", 1, 1, 5, 3), image("float32", 1, 1, 5, 5)], {}),
    "round": ([image()], {}),
    "scatter_elements": ([image(), image("uint32"), image()], {"axis": 3}),
    "scatter_nd": (
        [image(), image("uint32", 1, 1, 2, 4), image("float32", 1, 1, 1, 2)],
        {"input_dimension_count": 4, "indices_dimension_count": 2},
    ),
    "slice": ([image()], STRIDED),
    "slice_grad": ([image("float32", 1, 1, 2, 4)], {"output_sizes": [1, 1, 4, 4], **STRIDED}),
    "space_to_depth": ([image()], {"block_size": 2}),
    "split": ([image()], {"axis": 3, "output_axis_sizes": [1, 3]}),
    "threshold": ([image()], {"min": 0}),
    "tile": ([image(), [1, 1, 1, 2]], {}),
    "fold": ([image("float32", 1, 4, 9)], {"output_sizes": [1, 1, 4, 4], "window_sizes": [2, 2]}),
    "roi_align": (
        [image(), image("float32", 2, 4), image("uint32", 2)],
        {"output_height": 2, "output_width": 2},
    ),
    "roi_align_grad": (
        [image(), image("float32", 2, 1, 2, 2), image("float32", 2, 4), image("uint32", 2)],
        {"compute_output_roi_gradient": True},
    ),
    "roi_pooling": ([image(), image("float32", 1, 1, 2, 5)], {"pooled_size": (2, 2)}),
    "top_k": ([image()], {"axis": 3, "k": 2}),
    "unfold": ([image()], {"window_sizes": [2, 2]}),
    "upsample_2d": ([image()], {"scale_size": (2, 2), "interpolation_mode": "LINEAR"}),
    "value_scale_2d": ([image()], {"scale": 1.0, "bias": [0.0]}),
}
"""Operands and parameters that are valid at every level; other functions take images alone."""


LATER = {"nonzero_coordinates": FeatureLevel.LEVEL_4_0}
"""Functions whose results have sizes that their operators have only from a level on."""


def call_of(name: str) -> tuple[list[Any], dict[str, Any]]:
    if name in CALLS:
        return CALLS[name]
    needed = [p for p in inspect.signature(FUNCTIONS[name]).parameters.values() if p.default is p.empty]
    assert all(parameter.kind is not parameter.KEYWORD_ONLY for parameter in needed), name
    return [image()] * len(needed), {}


def versions(operator: str) -> list[str]:
    """An operator and its older versions in the catalogue, the oldest first."""
    if operator in ("ARGMAX", "ARGMIN"):
        return ["REDUCE", operator]
    if operator == "ELEMENT_WISE_ADD":
        return [operator]  # ELEMENT_WISE_ADD1 has fewer data types, and is for fused activations only
    same = [name for name in dml.catalogue if re.sub(r"\d$", "", name) == re.sub(r"(?<!_)\d$", "", operator)]
    return sorted(same or [operator], key=lambda name: (dml.catalogue[name].since, name))


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_newest_version_that_a_level_has(name: str) -> None:
    arguments, options = call_of(name)
    newest = described(FUNCTIONS[name], *arguments, **options).type.name
    known = versions(newest)
    assert known[-1] == newest
    for level in FeatureLevel:
        if name in LATER and dml.catalogue[known[0]].since <= level < LATER[name]:
            with pytest.raises(dml.InvalidDescriptorError) as caught:
                FUNCTIONS[name](*arguments, device=Recorder(str(level)), **options)
            assert {violation.allowed_at for violation in caught.value.violations} == {LATER[name]}
            continue
        there = [version for version in known if dml.catalogue[version].since <= level]
        if there:
            taken = described(FUNCTIONS[name], *arguments, level=str(level), **options).type.name
            assert taken == there[-1], level
            continue
        with pytest.raises(dml.InvalidDescriptorError) as caught:
            FUNCTIONS[name](*arguments, device=Recorder(str(level)), **options)
        oldest = dml.catalogue[known[0]]
        must = f"DML_OPERATOR_{known[0]} does not exist at feature level {level}"
        assert [(v.rule, v.allowed_at) for v in caught.value.violations] == [(must, oldest.since)]


X = image()
NEEDS: list[tuple[str, Callable[[dml.Device], Any], str, str]] = [
    (
        "2_0",
        lambda device: dml.max_pooling(X, window_size=[2, 2], dilations=[2, 1], device=device),
        "dilations: must be 1 in all dimensions at feature level 2_0, which has DML_OPERATOR_MAX_POOLING1 only, "
        "got {2, 1} (allowed from feature level 2_1 on)",
        "2_1",
    ),
    (
        "1_0",
        lambda device: dml.max_pooling(X, window_size=[2, 2], output_indices=True, device=device),
        "output_indices: must not be asked for at feature level 1_0, which has DML_OPERATOR_MAX_POOLING only "
        "(allowed from feature level 2_0 on)",
        "2_0",
    ),
    (
        "4_1",
        lambda device: dml.max_pooling(
            X, window_size=[2, 2], output_indices=True, indices_data_type="uint64", device=device
        ),
        "indices_data_type: must be UINT32 at feature level 4_1, got UINT64 (allowed from feature level 5_0 on)",
        "5_0",
    ),
    (
        "5_0",
        lambda device: dml.activation_softmax(X, axes=[2, 3], device=device),
        "axes: must be {3}, the last dimension, at feature level 5_0, which has DML_OPERATOR_ACTIVATION_SOFTMAX only, "
        "got {2, 3} (allowed from feature level 5_1 on)",
        "5_1",
    ),
    (
        "1_0",
        lambda device: dml.add(X, X, fused_activation=dml.fused_activation.relu(), device=device),
        "fused_activation: must not be given at feature level 1_0, which has DML_OPERATOR_ELEMENT_WISE_ADD only, "
        "got ActivationRelu (allowed from feature level 2_0 on)",
        "2_0",
    ),
    (
        "2_0",
        lambda device: dml.slice(
            X,
            input_window_offsets=[0] * 4,
            input_window_sizes=[1, 1, 4, 4],
            input_window_strides=[1, 1, 1, -1],
            device=device,
        ),
        "input_window_strides: must be positive at feature level 2_0, which has DML_OPERATOR_SLICE only, "
        "got {1, 1, 1, -1} (allowed from feature level 2_1 on)",
        "2_1",
    ),
    (
        "2_1",
        lambda device: dml.argmax(X, axis_direction="DECREASING", device=device),
        "axis_direction: must be DML_AXIS_DIRECTION_INCREASING at feature level 2_1, which has DML_OPERATOR_REDUCE "
        "only, got DML_AXIS_DIRECTION_DECREASING (allowed from feature level 3_0 on)",
        "3_0",
    ),
    (
        "6_2",
        lambda device: dml.mean_variance_normalization(X, axes=[1], normalize_mean=False, device=device),
        "normalize_mean: must be true at feature level 6_2, which has DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1 only, "
        "got false (allowed from feature level 6_3 on)",
        "6_3",
    ),
    (
        "5_0",
        lambda device: dml.resample(X, output_sizes=[1, 1, 8, 8], interpolation_mode="NEAREST_NEIGHBOR", device=device),
        "interpolation_mode: must be DML_INTERPOLATION_MODE_LINEAR at feature level 5_0, which has "
        "DML_OPERATOR_RESAMPLE1 only, got DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR (allowed from feature level 5_1 on)",
        "5_1",
    ),
    (
        "6_2",
        lambda device: dml.multihead_attention(
            image("float32", 1, 4, 4),
            *[image("float32", 1, 4, 2)] * 2,
            head_count=2,
            key_value_head_count=1,
            device=device,
        ),
        "key_value_head_count: must be head_count at feature level 6_2, which has DML_OPERATOR_MULTIHEAD_ATTENTION "
        "only, got 1 (allowed from feature level 6_3 on)",
        "6_3",
    ),
    (
        "6_3",
        lambda device: dml.resample(
            X, output_sizes=[1, 1, 2, 2], interpolation_mode="LINEAR", antialiased=True, device=device
        ),
        "antialiased: must be false at feature level 6_3, which has DML_OPERATOR_RESAMPLE2 only, got true "
        "(allowed from feature level 6_4 on)",
        "6_4",
    ),
    (
        "2_0",
        lambda device: dml.resample(
            X,
            output_sizes=[1, 1, 2, 2],
            interpolation_mode="LINEAR",
            input_pixel_offsets=[0] * 4,
            device=device,
        ),
        "input_pixel_offsets: must be 0.5 in all dimensions at feature level 2_0, which has DML_OPERATOR_RESAMPLE "
        "only, got {0.0, 0.0, 0.0, 0.0} (allowed from feature level 2_1 on)",
        "2_1",
    ),
    (
        "2_1",
        lambda device: dml.space_to_depth(X, block_size=2, order="COLUMN_ROW_DEPTH", device=device),
        "",
        "2_1",
    ),
]


@pytest.mark.parametrize(("level", "call", "message", "allowed_at"), NEEDS)
def test_parameters_that_need_a_newer_version(
    level: str, call: Callable[[dml.Device], Any], message: str, allowed_at: str
) -> None:
    if message:
        with pytest.raises(dml.InvalidDescriptorError) as caught:
            call(Recorder(level))
        assert [str(violation) for violation in caught.value.violations] == [message]
    call(Recorder(allowed_at))


def test_all_that_an_old_level_cannot_say_is_told_at_once() -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.max_pooling(
            X, window_size=[0, 2], dilations=[1, 2], output_indices=True, device=dml.Device(feature_level="1_0")
        )
    places = [violation.field for violation in caught.value.violations]
    assert places == ["dilations", "output_indices", "window_size[0]"]


@pytest.mark.parametrize("data_type", ["uint32", np.uint64, TensorDataType.UINT64])
def test_indices_of_both_types(data_type: Any) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    pooled = dml.max_pooling(x, window_size=[2, 2], strides=[2, 2], output_indices=True, indices_data_type=data_type)
    assert pooled.indices is not None
    assert pooled.indices.dtype == TensorDataType.parse(data_type).dtype
    assert pooled.indices.ravel().tolist() == [5, 7, 13, 15]
