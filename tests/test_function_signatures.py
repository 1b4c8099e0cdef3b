"""The functions' parameters: tensors by position, everything else by name, and one name for one thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import FUNCTIONS

import opendml as dml
from opendml.functions.signatures import operator_function

BY_POSITION = {
    "cast": ["output_data_type"],
    "clip": ["min", "max"],
    "fill_value_constant": ["output_sizes"],
    "fill_value_sequence": ["output_sizes"],
    "reduce": ["function"],
    "tile": ["repeats"],
}
"""What is no tensor and may be given by position all the same, as ``opendml.functions`` states."""

TENSORS = [
    "a",
    "a_scale",
    "a_zero_point",
    "b",
    "b_scale",
    "b_zero_point",
    "batch_indices",
    "bias",
    "c",
    "cell_mem_init",
    "condition",
    "exponent",
    "filter",
    "fused_add",
    "gradient",
    "filter_scale",
    "filter_zero_point",
    "hidden_init",
    "indices",
    "input",
    "input_first_moment",
    "input_gradient",
    "input_parameters",
    "input_second_moment",
    "input_state",
    "input_scale",
    "input_zero_point",
    "inputs",
    "key",
    "mask",
    "mean",
    "output_scale",
    "output_zero_point",
    "past_key",
    "past_sequence_lengths",
    "past_value",
    "query",
    "peephole",
    "recurrence",
    "relative_position_bias",
    "roi",
    "scale",
    "sequence_lengths",
    "slope",
    "stacked_key_value",
    "stacked_query_key",
    "stacked_query_key_value",
    "training_step",
    "updates",
    "value",
    "values",
    "variance",
    "weight",
    "zero_point",
]

SIZES, FLAG, NUMBER, COUNT = "Sequence[int]", "bool", "float", "int"
ANY_NUMBER = "float | ScalarUnion"
DATA_TYPE = "TensorDataType | str | Any"
SCALE_BIAS = "ScaleBias | tuple[float, float]"
PARAMETERS: dict[str, list[str]] = {
    "align_regions_to_corners": [FLAG],
    "batch_size": [COUNT],
    "compute_output_gradient": [FLAG],
    "compute_output_roi_gradient": [FLAG],
    "image_height": [COUNT],
    "image_width": [COUNT],
    "input_pixel_offset": [NUMBER],
    "maximum_samples_per_output": [COUNT],
    "minimum_samples_per_output": [COUNT],
    "out_of_bounds_input_value": [NUMBER],
    "output_height": [COUNT],
    "output_pixel_offset": [NUMBER],
    "output_width": [COUNT],
    "pooled_size": ["Size2D | tuple[int, int]"],
    "reduction_function": ["ReduceFunction | str"],
    "spatial_scale": [NUMBER],
    "spatial_scale_x": [NUMBER],
    "spatial_scale_y": [NUMBER],
    "antialiased": [FLAG],
    "activation_descs": ["Sequence[Operator]"],
    "alpha": [NUMBER],
    "axes": [SIZES],
    "axis": [COUNT],
    "axis_direction": ["AxisDirection | str"],
    "batch_dimension_count": [COUNT],
    "beta": [NUMBER],
    "beta1": [NUMBER],
    "beta2": [NUMBER],
    "bias": [NUMBER, "Sequence[float]"],
    "block_size": [COUNT],
    "clip_threshold": [NUMBER],
    "couple_input_forget": [FLAG],
    "cross_channel": [FLAG],
    "diagonal_fill_begin": [COUNT],
    "diagonal_fill_end": [COUNT],
    "dilations": [SIZES],
    "direction": ["ConvolutionDirection | str", "RecurrentNetworkDirection | str"],
    "end_padding": [SIZES],
    "epsilon": [NUMBER],
    "exclusive": [FLAG],
    "function": ["ReduceFunction | str"],
    "fused_activation": ["Operator"],
    "gamma": [NUMBER],
    "generator_type": ["RandomGeneratorType | str"],
    "group_count": [COUNT],
    "head_count": [COUNT],
    "include_padding": [FLAG],
    "index_dimensions": [COUNT],
    "indices_dimension_count": [COUNT],
    "infinity_mode": ["IsInfinityMode | str"],
    "indices_data_type": [DATA_TYPE],
    "input_data_type": [DATA_TYPE],
    "input_dimension_count": [COUNT],
    "input_pixel_offsets": ["Sequence[float]"],
    "input_sizes": [SIZES],
    "input_window_offsets": [SIZES],
    "input_window_sizes": [SIZES],
    "input_window_strides": [SIZES],
    "interpolation_mode": ["InterpolationMode | str"],
    "key_value_head_count": [COUNT],
    "k": [COUNT],
    "learning_rate": [NUMBER],
    "linear_before_reset": [FLAG],
    "local_size": [COUNT],
    "mask_filter_value": [NUMBER],
    "mask_type": ["MultiheadAttentionMaskType | str"],
    "max": [ANY_NUMBER],
    "min": [ANY_NUMBER, NUMBER],
    "mode": ["ConvolutionMode | str"],
    "normalize_mean": [FLAG],
    "normalize_variance": [FLAG],
    "order": ["DepthSpaceOrder | str"],
    "output_axis_sizes": [SIZES],
    "output_cell_single": [FLAG],
    "output_data_type": [DATA_TYPE],
    "output_indices": [FLAG],
    "output_length": [COUNT],
    "output_padding": [SIZES],
    "output_pixel_offsets": ["Sequence[float]"],
    "output_present_key": [FLAG],
    "output_present_value": [FLAG],
    "output_sequence": [FLAG],
    "output_single": [FLAG],
    "output_sizes": [SIZES],
    "output_state": [FLAG],
    "p": [COUNT],
    "padding_mode": ["PaddingMode | str"],
    "padding_value": [ANY_NUMBER],
    "repeats": [SIZES],
    "rounding_direction": ["AxisDirection | str"],
    "rounding_mode": ["RoundingMode | str"],
    "scale": [NUMBER],
    "scale_bias": [SCALE_BIAS],
    "scales": ["Sequence[float]"],
    "scale_size": ["Size2D | tuple[int, int]"],
    "sigmoid_input_scale": [NUMBER],
    "spatial": [FLAG],
    "start_padding": [SIZES],
    "steepness": [NUMBER],
    "strides": [SIZES],
    "threshold": [NUMBER],
    "total_sequence_length": [COUNT],
    "trans_a": ["MatrixTransform | str"],
    "trans_b": ["MatrixTransform | str"],
    "value": [ANY_NUMBER],
    "value_delta": [ANY_NUMBER],
    "value_start": [ANY_NUMBER],
    "window_size": [SIZES],
    "window_sizes": [SIZES],
}
"""Every parameter that is no tensor, and its types. What is new here must not be another name of what is there."""

ORDER = ["window_size", "strides", "start_padding", "end_padding", "dilations", "output_sizes"]
"""What stands in this order wherever it stands, with whatever is an operator's own in between."""


def is_tensor(parameter: inspect.Parameter) -> bool:
    return "Operand" in parameter.annotation


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_by_position_and_parameters_by_name(name: str) -> None:
    parameters = list(inspect.signature(FUNCTIONS[name]).parameters.values())
    by_position = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters if p not in by_position)
    tensors = [p.name for p in parameters if is_tensor(p)]
    assert [p.name for p in by_position] == [*tensors, *BY_POSITION.get(name, [])]
    assert set(tensors) <= set(TENSORS)
    assert [p.name for p in parameters[-2:]] == ["device", "out"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_name_for_one_thing(name: str) -> None:
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    own = {p.name: p for p in parameters.values() if not is_tensor(p) and p.name not in ("device", "out")}
    for parameter in own.values():
        annotation = "SCALE_BIAS" if parameter.annotation == "Factors" else parameter.annotation
        annotation = annotation.replace("SCALE_BIAS", SCALE_BIAS).removesuffix(" | None")
        assert annotation in PARAMETERS[parameter.name], parameter
    assert [n for n in own if n in ORDER] == [n for n in ORDER if n in own]


def test_no_parameter_is_forgotten() -> None:
    used = {p.name for f in FUNCTIONS.values() for p in inspect.signature(f).parameters.values() if not is_tensor(p)}
    assert used - {"device", "out"} == set(PARAMETERS)


WITHOUT = {"hardmax": ["axes"]}
"""Parameters that an activation does not have where it is fused: HARDMAX1 cannot be."""


@pytest.mark.parametrize("name", [name for name, f in vars(dml.fused_activation).items() if inspect.isfunction(f)])
def test_fused_activations_take_the_same_parameters(name: str) -> None:
    function = getattr(dml.fused_activation, name)
    alone = FUNCTIONS.get(f"activation_{name}", FUNCTIONS.get(name))
    if function.__module__ != dml.fused_activation.__name__ or alone is None:
        pytest.skip("no activation")
    expected = [(p.name, p.kind, p.default) for p in inspect.signature(alone).parameters.values() if not is_tensor(p)]
    have = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    without = ("device", "out", *WITHOUT.get(name, ()))
    assert have == [entry for entry in expected if entry[0] not in without]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: dml.average_pooling(x, [3, 3], [2, 2]),  # type: ignore[call-overload]
            r"average_pooling\(input\) got 3 arguments by position; name the others: window_size=..., strides=...",
        ),
        (lambda x: dml.slice(x, [0], [1], [1]), "name the others: input_window_offsets=..., input_window_sizes=..."),  # type: ignore[call-overload]
        (lambda x: dml.fused_activation.elu(0.5), r"elu\(\) got 1 arguments by position; name the others: alpha=..."),  # type: ignore[call-arg]
        (lambda x: dml.max_pooling(x, window_sizes=[2, 2]), "no parameter 'window_sizes'; did you mean 'window_size'"),  # type: ignore[call-overload]
        (lambda x: dml.activation_relu(x, colour=3), "no parameter 'colour'; it has input, device, out"),  # type: ignore[call-overload]
        (dml.max_pooling, "missing 1 required keyword-only argument: 'window_size'"),
    ],
)
def test_calls_that_do_not_fit_say_what_to_write(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(np.zeros((1, 1, 4, 4), np.float32))
    with pytest.raises(TypeError, match=message):
        call(dml.Graph().input("float32", [1, 1, 4, 4]))


def test_other_type_errors_pass() -> None:
    """What goes wrong inside is not mistaken for a call that does not fit."""

    @operator_function
    def fails(input: Any, *, axis: int = 0) -> Any:
        raise TypeError(f"inside, with {input} and {axis}")

    with pytest.raises(TypeError, match="inside, with 1 and 2"):
        fails(1, axis=2)
