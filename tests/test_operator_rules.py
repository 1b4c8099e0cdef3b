"""The rules of single operators: what each of them reports of descriptors that break them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from breaches import texts
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import convolution, sample, transposed_convolution
from sample_tensors import f32, u32

from opendml import operators as op
from opendml.description.enums import FeatureLevel
from opendml.description.errors import InvalidDescriptorError
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate, validate_or_raise

# ---- operators


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"input_window_strides": [1, 0, 2, 2]}, ["InputWindowStrides[1]: must not be 0, got 0"]),
        ({"input_window_sizes": [1, 0, 4, 3]}, ["InputWindowSizes[1]: must be at least 1, got 0"]),
        (
            {"input_window_offsets": [0, 0, 1, 1]},
            [
                "InputWindowOffsets[2]: must keep the window inside the tensor: InputWindowOffsets[2]"
                " + InputWindowSizes[2] <= InputTensor.Sizes[2] = 4, got 5"
            ],
        ),
        (
            {"output_tensor": f32(1, 1, 3, 2)},
            [
                "OutputTensor.Sizes[2]: must be from 1 to 2 (1 + (InputWindowSizes[2] - 1)"
                " / |InputWindowStrides[2]|), got 3"
            ],
        ),
        ({"output_tensor": f32(1, 1, 1, 1)}, []),
        ({"input_window_strides": [-(2**31), 2**31 - 1, -2, 2]}, []),
        (
            {"output_tensor": TensorDesc("float16", [1, 2, 2])},
            [
                "OutputTensor: must have the DataType of InputTensor, FLOAT32, got FLOAT16",
                "OutputTensor: must have the DimensionCount of InputTensor, 4, got 3",
            ],
        ),
    ],
)
def test_slice1(changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(sample(op.Slice1, **changes)) == expected


def test_everything_is_reported_at_once() -> None:
    desc = sample(
        op.Slice1,
        input_tensor=TensorDesc("float64", [1, 1, 4, 4], [0, 0, 4, 1]),
        output_tensor=TensorDesc("int8", [1, 1, 2, 5]),
        input_window_strides=[1, 0, -2, 9],
    )
    with pytest.raises(InvalidDescriptorError) as raised:
        validate_or_raise(desc, "2_0")
    assert str(raised.value).splitlines() == [
        "DML_OPERATOR_SLICE1 is invalid at feature level 2_0:",
        "  DML_OPERATOR_SLICE1 does not exist at feature level 2_0 (allowed from feature level 2_1 on)",
        "  InputTensor: must be FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16 or UINT8 at feature level 2_1,"
        " got FLOAT64 (allowed from feature level 4_1 on)",
        "  OutputTensor: must have the DataType of InputTensor, FLOAT64, got INT8",
        "  InputWindowStrides[1]: must not be 0, got 0",
        "  OutputTensor.Sizes[3]: must be from 1 to 1 (1 + (InputWindowSizes[3] - 1) / |InputWindowStrides[3]|), got 5",
    ]
    assert [violation.field for violation in raised.value.violations] == [
        "",
        "InputTensor",
        "OutputTensor",
        "InputWindowStrides[1]",
        "OutputTensor.Sizes[3]",
    ]


def test_slice() -> None:
    assert texts(sample(op.Slice, strides=[1, 1, 5, 2])) == [
        "Offsets[2]: must keep the window inside the input: Offsets[2] + (Sizes[2] - 1) * Strides[2]"
        " < InputTensor.Sizes[2] = 5, got 5"
    ]
    assert texts(sample(op.Slice, strides=[1, 1, 0, 2])) == ["Strides[2]: must be at least 1, got 0"]
    assert texts(sample(op.Slice, output_tensor=f32(1, 1, 2, 2))) == [
        "OutputTensor.Sizes[3]: must be Sizes[3] = 3, got 2"
    ]
    assert texts(sample(op.SliceGrad, input_gradient_tensor=f32(1, 1, 2, 3)))[0].startswith(
        "InputGradientTensor.Sizes[3]: must be from 1 to 2"
    )


def test_split_and_join() -> None:
    assert texts(sample(op.Split, output_tensors=[f32(1, 1, 2, 2), f32(1, 1, 3, 2)])) == [
        "OutputTensors: must add up along Axis: all OutputTensors[i].Sizes[2] to InputTensor.Sizes[2] = 6, got 5"
    ]
    assert texts(sample(op.Split, output_tensors=[f32(1, 1, 2, 2), f32(1, 1, 4, 3)])) == [
        "OutputTensors[1].Sizes[3]: must be InputTensor.Sizes[3] = 2, as in all dimensions but Axis, got 3"
    ]
    assert texts(sample(op.Join, input_tensors=[f32(1, 1, 6, 2), TensorDesc("int8", [1, 1, 1, 2]), f32(6)])) == [
        "InputTensors[1]: must have the DataType of OutputTensor, FLOAT32, got INT8",
        "InputTensors[2]: must have the DimensionCount of OutputTensor, 4, got 1",
    ]
    assert texts(sample(op.Join, input_tensors=[f32(1, 1, 6, 2)])) == []
    assert texts(sample(op.Join, input_tensors=[f32(1, 1, 6, 2), None])) == ["InputTensors[1]: must be given"]


FORMULAS = [
    f"by (InputTensor.Sizes[{i + 2}] + StartPadding[{i}] + EndPadding[{i}] - WindowSize[{i}]) / Strides[{i}] + 1"
    for i in range(2)
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"output_tensor": f32(2, 3, 4, 6)},
            [f"OutputTensor.Sizes[3]: must be 4 (or 5, rounded up), {FORMULAS[1]}, got 6"],
        ),
        (
            {"output_tensor": f32(1, 4, 4, 4)},
            [
                "OutputTensor.Sizes[0]: must be InputTensor.Sizes[0] = 2, got 1",
                "OutputTensor.Sizes[1]: must be InputTensor.Sizes[1] = 3, got 4",
            ],
        ),
        ({"strides": [2, 0]}, ["Strides[1]: must be at least 1, got 0"]),
        ({"window_size": [0, 3]}, ["WindowSize[0]: must be at least 1, got 0"]),
        (
            {"window_size": [3, 11]},
            [
                "WindowSize[1]: must fit into the padded input: WindowSize[1] <= InputTensor.Sizes[3] + StartPadding[1]"
                " + EndPadding[1] = 10, got 11"
            ],
        ),
        (
            {"strides": [2] * 3, "window_size": [3] * 3, "start_padding": [1] * 3, "end_padding": [1] * 3},
            ["DimensionCount: must be InputTensor.DimensionCount - 2 = 2, got 3"],
        ),
        ({"start_padding": [2**32 - 1, 1]}, [f"OutputTensor.Sizes[2]: must be 2147483651, {FORMULAS[0]}, got 4"]),
    ],
)
def test_pooling(changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(sample(op.MaxPooling, **changes)) == expected


def pooled(size: int, window: int, stride: int, padding: tuple[int, int], output: int, dilation: int = 1) -> list[str]:
    """The violations of a pooling along one dimension."""
    desc = op.MaxPooling2(
        input_tensor=f32(1, 1, 1, size),
        output_tensor=f32(1, 1, 1, output),
        strides=[1, stride],
        window_size=[1, window],
        start_padding=[0, padding[0]],
        end_padding=[0, padding[1]],
        dilations=[1, dilation],
    )
    return texts(desc)


DILATED = (
    "by (InputTensor.Sizes[3] + StartPadding[1] + EndPadding[1] - ((WindowSize[1] - 1) * Dilations[1] + 1))"
    " / Strides[1] + 1"
)


def test_pooling_may_round_up() -> None:
    assert pooled(8, 3, 2, (0, 0), 3) == pooled(8, 3, 2, (0, 0), 4) == []
    assert pooled(8, 3, 2, (0, 0), 5) == [f"OutputTensor.Sizes[3]: must be 3 (or 4, rounded up), {DILATED}, got 5"]
    # The documentation's formula, rounding down, may put a window wholly into the padding; rounding up never does.
    assert pooled(5, 1, 3, (0, 2), 3) == []
    assert pooled(4, 2, 4, (0, 1), 2) == [f"OutputTensor.Sizes[3]: must be 1, {DILATED}, got 2"]


@examples(300)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.integers(1, 3),
)
def test_pooling_sizes_are_pytorchs(
    size: int, window: int, stride: int, padding: tuple[int, int], dilation: int
) -> None:
    span, end = 1 + (window - 1) * dilation, size + padding[1]
    whole = [start for start in range(-padding[0], end, stride) if start + span <= end]
    allowed = {len(whole)} if whole else set()
    # Rounded up: one more window that sticks out at the end, if it begins before the end padding.
    if whole and whole[-1] + span < end and whole[-1] + stride < size:
        allowed.add(len(whole) + 1)
    for output in range(1, size + 9):
        assert (pooled(size, window, stride, padding, output, dilation) == []) == (output in allowed)


def test_pooling_versions() -> None:
    indices = sample(op.MaxPooling1, output_indices_tensor=TensorDesc("uint64", [2, 3, 4, 4]))
    assert texts(indices, "5_0") == []
    assert texts(indices, "4_1") == [
        "OutputIndicesTensor: must be UINT32 at feature level 4_1, got UINT64 (allowed from feature level 5_0 on)"
    ]
    assert texts(sample(op.MaxPooling1, output_indices_tensor=u32(2, 3, 4, 5))) == [
        "OutputIndicesTensor.Sizes[3]: must be OutputTensor.Sizes[3] = 4, got 5"
    ]
    assert texts(sample(op.MaxPooling2, dilations=[0, 1])) == ["Dilations[0]: must be at least 1, got 0"]
    assert texts(sample(op.LpPooling, p=0)) == ["P: must be at least 1, got 0"]
    assert texts(sample(op.MaxUnpooling, output_tensor=f32(7, 1, 1, 3))) == []
    assert texts(sample(op.MaxUnpooling), "2_0") == []


def test_padding_and_tile() -> None:
    assert texts(sample(op.Padding, end_padding=[0, 0, 2, 1])) == [
        "OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] + StartPadding[3] + EndPadding[3] = 5, got 4"
    ]
    far = sample(op.Padding, padding_mode="REFLECTION", start_padding=[0, 0, 9, 9], output_tensor=f32(1, 1, 13, 11))
    assert texts(far) == []
    assert texts(sample(op.Padding1, padding_value_data_type="FLOAT16")) == [
        "PaddingValueDataType: must be the DataType of OutputTensor, FLOAT32, got FLOAT16"
    ]
    assert texts(sample(op.Tile, repeats=[1, 2, 0, 3])) == ["Repeats[2]: must be at least 1, got 0"]
    assert texts(sample(op.Tile, repeats=[1, 2])) == ["RepeatsCount: must be InputTensor.DimensionCount = 4, got 2"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"index_dimensions": 5}, ["IndexDimensions: must be at most IndicesTensor.DimensionCount = 4, got 5"]),
        (
            {"indices_tensor": u32(1, 3, 2, 4)},
            ["IndicesTensor.Sizes[1]: must be 1, as the dimension is not among the last IndexDimensions ones, got 3"],
        ),
        (
            {"input_tensor": f32(2, 1, 5, 3)},
            [
                "InputTensor.Sizes[0]: must be 1: Axis and IndexDimensions = 2 leave no room in OutputTensor for the"
                " dimension, got 2"
            ],
        ),
        (
            {"output_tensor": f32(1, 2, 4, 4)},
            ["OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] = 3, by Axis and IndexDimensions, got 4"],
        ),
        ({"indices_tensor": u32(1, 1, 1, 1), "index_dimensions": 0, "output_tensor": f32(1, 1, 1, 3)}, []),
        ({"axis": 4}, ["Axis: must be less than InputTensor.DimensionCount = 4, got 4"]),
    ],
)
def test_gather(changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(sample(op.Gather, **changes)) == expected


def test_space_and_depth() -> None:
    assert texts(sample(op.SpaceToDepth, input_tensor=f32(1, 2, 4, 7))) == [
        "InputTensor.Sizes[3]: must be a multiple of BlockSize = 2, got 7"
    ]
    assert texts(sample(op.DepthToSpace1, input_tensor=f32(1, 6, 2, 3))) == [
        "InputTensor.Sizes[1]: must be a multiple of BlockSize * BlockSize = 4, got 6"
    ]
    assert texts(sample(op.DepthToSpace, block_size=0)) == ["BlockSize: must be at least 1, got 0"]
    assert texts(sample(op.DepthToSpace, output_tensor=f32(1, 2, 4, 5))) == [
        "OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] * (BlockSize) = 6, got 5"
    ]


def test_element_wise() -> None:
    assert texts(sample(op.ElementWiseAdd, b_tensor=f32(1, 2, 3, 1))) == [
        "BTensor.Sizes[3]: must be ATensor.Sizes[3] = 4, got 1"
    ]
    assert texts(sample(op.ElementWiseAdd, b_tensor=f32(1, 2, 3, 4, strides=[0, 0, 1, 0]))) == []
    assert texts(sample(op.ElementWiseClip, min=math.nan, max=-1)) == []
    assert texts(sample(op.ElementWiseClip1, min_max_data_type="INT32", min=0, max=1)) == [
        "MinMaxDataType: must be the DataType of OutputTensor, FLOAT32, got INT32"
    ]
    assert texts(sample(op.Cast, output_tensor=TensorDesc("int64", [1, 2, 3, 4])), "2_1") == [
        "OutputTensor: must be FLOAT32, FLOAT16, INT16, INT8, UINT16 or UINT8 at feature level 2_1, got INT64"
        " (allowed from feature level 3_0 on)"
    ]


def test_axes() -> None:
    assert texts(sample(op.ActivationSoftmax1, axes=[])) == ["Axes: must name at least one dimension, got none"]
    assert texts(sample(op.Reduce, axes=[1, 1])) == ["Axes[1]: must not name a dimension again, got 1"]
    assert texts(sample(op.Reduce, axes=[1, 4])) == ["Axes[1]: must be less than InputTensor.DimensionCount = 4, got 4"]
    assert texts(sample(op.Reduce, axes=[1])) == [
        "OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] = 4, as Axes does not name the dimension, got 1"
    ]
    assert texts(sample(op.CumulativeSummation, axis=4)) == [
        "Axis: must be less than InputTensor.DimensionCount = 4, got 4"
    ]


def test_upsample() -> None:
    assert texts(sample(op.Upsample2D, scale_size=(0, 3))) == ["ScaleSize.Width: must be at least 1, got 0"]
    assert texts(sample(op.Upsample2D, scale_size=(3, 3))) == [
        "OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] * ScaleSize.Width = 6, got 4"
    ]


# ---- convolution


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group_count": 0}, ["GroupCount: must be at least 1, got 0"]),
        (
            {"group_count": 4},
            [
                "FilterTensor.Sizes[0]: must be a multiple of GroupCount = 4, got 6",
                "FilterTensor.Sizes[1]: must be InputTensor.Sizes[1] / GroupCount = 4 / 4, got 2",
            ],
        ),
        ({"bias_tensor": f32(1, 5, 1, 1)}, ["BiasTensor.Sizes[1]: must be FilterTensor.Sizes[0] = 6, got 5"]),
        ({"dilations": [0, 1]}, ["Dilations[0]: must be at least 1, got 0"]),
        (
            {"filter_tensor": f32(6, 2, 10, 3)},
            [
                "FilterTensor.Sizes[2]: must fit into the padded input: (FilterTensor.Sizes[2] - 1) * Dilations[0] + 1"
                " <= InputTensor.Sizes[2] + StartPadding[0] + EndPadding[0] = 9, got 10"
            ],
        ),
        (
            {"output_tensor": f32(2, 6, 4, 5)},
            [
                "OutputTensor.Sizes[0]: must be InputTensor.Sizes[0] = 1, got 2",
                "OutputTensor.Sizes[3]: must be 4, by (InputTensor.Sizes[3] + StartPadding[1] + EndPadding[1]"
                " - (FilterTensor.Sizes[3] - 1) * Dilations[1] - 1) / Strides[1] + 1 + OutputPadding[1], got 5",
            ],
        ),
        ({"output_padding": [0, 1], "output_tensor": f32(1, 6, 4, 5)}, []),
        ({"bias_tensor": None}, []),
    ],
)
def test_forward_convolution(changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(convolution(**changes)) == expected


TRANSPOSED = (
    "Strides[0] * (InputTensor.Sizes[2] - 1) + (FilterTensor.Sizes[2] - 1) * Dilations[0] + 1 - StartPadding[0]"
    " - EndPadding[0] + OutputPadding[0]"
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"output_tensor": f32(1, 6, 12, 11)}, []),
        ({"output_padding": [1, 0], "output_tensor": f32(1, 6, 12, 11)}, []),
        (
            {"output_padding": [1, 0]},
            [
                f"OutputTensor.Sizes[2]: must be 12, by {TRANSPOSED}, got 11",
            ],
        ),
        (
            {"output_tensor": f32(1, 6, 13, 11)},
            [
                f"OutputTensor.Sizes[2]: must be from 11 to 12, by {TRANSPOSED}, got 13",
            ],
        ),
        (
            {"output_padding": [2, 0]},
            ["OutputPadding[0]: must be less than the larger one of Strides[0] and Dilations[0], 2, got 2"],
        ),
        (
            {"filter_tensor": f32(3, 3, 3, 3)},
            ["FilterTensor.Sizes[0]: must be InputTensor.Sizes[1] = 4, got 3"],
        ),
        (
            {"group_count": 3},
            [
                "InputTensor.Sizes[1]: must be a multiple of GroupCount = 3, got 4",
                "OutputTensor.Sizes[1]: must be FilterTensor.Sizes[1] * GroupCount = 9, got 6",
                "BiasTensor.Sizes[1]: must be FilterTensor.Sizes[1] * GroupCount = 9, got 6",
            ],
        ),
    ],
)
def test_transposed_convolution(changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(transposed_convolution(**changes)) == expected


def test_one_spatial_dimension() -> None:
    arrays = {"strides": [1], "dilations": [1], "start_padding": [0], "end_padding": [0], "output_padding": [0]}
    tensors = {
        "input_tensor": f32(1, 4, 7),
        "filter_tensor": f32(6, 2, 3),
        "bias_tensor": f32(1, 6, 1),
        "output_tensor": f32(1, 6, 5),
    }
    desc = convolution(**arrays, **tensors)
    assert texts(desc) == []
    assert {violation.allowed_at for violation in validate(desc, "3_1")} == {FeatureLevel.LEVEL_4_0}


# ---- matrix products and recurrent networks


def test_gemm() -> None:
    assert texts(sample(op.Gemm, b_tensor=f32(1, 2, 5, 6))) == [
        "BTensor.Sizes[3]: must be ATensor.Sizes[3] = 4, the inner size by TransA and TransB, got 6"
    ]
    assert texts(sample(op.Gemm, b_tensor=f32(1, 3, 5, 4))) == [
        "BTensor.Sizes[1]: must be ATensor.Sizes[1] = 2, got 3",
    ]
    assert texts(sample(op.Gemm, trans_a="TRANSPOSE", a_tensor=f32(1, 2, 4, 3))) == []
    assert texts(sample(op.Gemm, c_tensor=f32(1, 2, 3, 1))) == [
        "CTensor.Sizes[3]: must be OutputTensor.Sizes[3] = 5, got 1"
    ]
    matrices = {"a_tensor": f32(3, 4), "b_tensor": f32(5, 4), "c_tensor": None, "output_tensor": f32(3, 5)}
    assert texts(sample(op.Gemm, **matrices), "4_0") == []
    assert len(texts(sample(op.Gemm, **matrices), "3_1")) == 3


def test_rnn() -> None:
    assert texts(sample(op.Rnn, activation_descs=[op.ActivationTanh()])) == [
        "ActivationDescCount: must be 2, one activation a direction, got 1"
    ]
    assert texts(sample(op.Rnn, output_sequence_tensor=None, output_single_tensor=None)) == [
        "OutputSequenceTensor or OutputSingleTensor must be given"
    ]
    assert texts(sample(op.Rnn, weight_tensor=f32(1, 2, 5, 4, flags="OWNED_BY_DML"))) == [
        "WeightTensor.Flags: must not have DML_TENSOR_FLAG_OWNED_BY_DML, which this operator does not support"
    ]
    assert texts(sample(op.Rnn, bias_tensor=f32(1, 1, 2, 5), sequence_lengths_tensor=u32(1, 1, 1, 6))) == [
        "BiasTensor.Sizes[3]: must be 2 * RecurrenceTensor.Sizes[3] = 10, got 5",
        "SequenceLengthsTensor.Sizes[3]: must be InputTensor.Sizes[2] = 8, got 6",
    ]
    assert texts(sample(op.Rnn, activation_descs=[op.ActivationTanh(), op.ActivationSoftmax()]))[0].startswith(
        "ActivationDescs[1]: must be an activation that RNN can fuse at feature level 6_4,"
    )


def test_gru_and_lstm() -> None:
    three = [op.ActivationSigmoid(), op.ActivationHardmax(), op.ActivationTanh()]
    assert texts(sample(op.Gru, activation_descs=three), "1_0") == [
        "ActivationDescCount: must be 4, two activations a direction, got 3"
    ]
    assert texts(sample(op.Gru, recurrence_tensor=f32(1, 2, 5, 5), bias_tensor=f32(1, 1, 2, 15))) == [
        "RecurrenceTensor.Sizes[2]: must be 3 * RecurrenceTensor.Sizes[3] = 15, got 5",
        "BiasTensor.Sizes[3]: must be 6 * RecurrenceTensor.Sizes[3] = 30, got 15",
    ]
    assert texts(sample(op.Lstm, activation_descs=three, peephole_tensor=f32(1, 1, 1, 20))) == [
        "PeepholeTensor.Sizes[3]: must be 3 * RecurrenceTensor.Sizes[3] = 15, got 20"
    ]
    nothing = dict.fromkeys(("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor"))
    assert texts(sample(op.Lstm, **nothing, direction="BIDIRECTIONAL"))[:2] == [
        "OutputSequenceTensor, OutputSingleTensor or OutputCellSingleTensor must be given",
        "ActivationDescCount: must be 6, three activations a direction, got 3",
    ]
    assert texts(sample(op.Lstm, **nothing | {"output_cell_single_tensor": f32(1, 1, 8, 5)})) == []
    owned = f32(1, 1, 8, 5, flags="OWNED_BY_DML")
    assert texts(sample(op.Lstm, cell_mem_init_tensor=owned)) == [
        "CellMemInitTensor.Flags: must not have DML_TENSOR_FLAG_OWNED_BY_DML, which this operator does not support"
    ]


# ---- activations


def test_softplus_and_softmax() -> None:
    steep = sample(op.ActivationSoftplus, steepness=0.5)
    assert texts(steep) == []
    assert texts(steep, "6_3") == [
        "Steepness: must be at least 1 at feature level 6_3, got 0.5 (allowed from feature level 6_4 on)"
    ]
    deep = {"input_tensor": f32(2, 1, 1, 5), "output_tensor": f32(2, 1, 1, 5)}
    assert texts(sample(op.ActivationSoftmax, **deep)) == [
        "InputTensor.Sizes[0]: must be 1, as in all but the last two dimensions, got 2"
    ]
    assert texts(sample(op.ActivationSoftmax1, **deep)) == []
    assert texts(sample(op.ActivationSoftmax1, axes=[4])) == [
        "Axes[0]: must be less than InputTensor.DimensionCount = 4, got 4"
    ]


def test_fused_activations() -> None:
    assert texts(sample(op.ElementWiseAdd1, fused_activation=sample(op.ActivationElu))) == [
        'FusedActivation.InputTensor: must not be given in a fused activation, got TensorDesc',
        'FusedActivation.OutputTensor: must not be given in a fused activation, got TensorDesc',
    ]  # fmt: skip
    assert texts(sample(op.ElementWiseAdd1, fused_activation=op.ActivationSoftmax())) == [
        "FusedActivation: must be an activation that ELEMENT_WISE_ADD1 can fuse at feature level 6_4,"
        " got DML_OPERATOR_ACTIVATION_SOFTMAX"
    ]
    assert texts(sample(op.ElementWiseAdd1, fused_activation=sample(op.Slice1)))[0].startswith("FusedActivation: must")
    clip = op.ElementWiseClip(min=0, max=6)
    assert texts(convolution(fused_activation=clip)) == []
    assert texts(convolution(fused_activation=clip), "5_2") == [
        "FusedActivation: must be an activation that CONVOLUTION can fuse at feature level 5_2,"
        " got DML_OPERATOR_ELEMENT_WISE_CLIP (allowed from feature level 6_0 on)"
    ]
    assert texts(convolution(fused_activation=op.ActivationSoftplus(steepness=0.5)), "6_3") == [
        "FusedActivation.Steepness: must be at least 1 at feature level 6_3, got 0.5"
        " (allowed from feature level 6_4 on)"
    ]
    assert texts(convolution(fused_activation=op.ActivationElu(alpha="x"))) == [  # type: ignore[arg-type]
        "FusedActivation.Alpha: must be a number, got x"
    ]


def test_softmax_in_gemm() -> None:
    flat = {
        "a_tensor": f32(1, 1, 3, 4),
        "b_tensor": f32(1, 1, 5, 4),
        "c_tensor": None,
        "output_tensor": f32(1, 1, 3, 5),
    }
    assert texts(sample(op.Gemm, **flat, fused_activation=op.ActivationSoftmax())) == []
    assert len(texts(sample(op.Gemm, **flat, fused_activation=op.ActivationSoftmax()), "6_0")) == 1
    assert texts(sample(op.Gemm, fused_activation=op.ActivationSoftmax1(axes=[3, 3]))) == [
        "FusedActivation.Axes[1]: must not name a dimension again, got 3"
    ]
    assert texts(sample(op.Gemm, fused_activation=op.ActivationSoftmax())) == [
        "OutputTensor.Sizes[1]: must be 1, as in all but the last two dimensions, for FusedActivation, got 2"
    ]
