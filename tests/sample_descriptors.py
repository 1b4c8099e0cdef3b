"""One valid descriptor of every operator, as a starting point for tests that break it."""

from __future__ import annotations

import functools
from typing import Any

from opendml import operators as op
from opendml.descriptors import Operator
from opendml.tensor import TensorDesc


def f32(*sizes: int, **options: Any) -> TensorDesc:
    """A FLOAT32 tensor."""
    return TensorDesc("float32", sizes, **options)


def u32(*sizes: int) -> TensorDesc:
    """A UINT32 tensor."""
    return TensorDesc("uint32", sizes)


def _window(rank: int = 2) -> dict[str, Any]:
    return {
        "strides": [2] * rank,
        "window_size": [3] * rank,
        "start_padding": [1] * rank,
        "end_padding": [1] * rank,
    }


def _pooling(cls: type[Operator], **fields: Any) -> Operator:
    return cls(input_tensor=f32(2, 3, 7, 8), output_tensor=f32(2, 3, 4, 4), **_window(), **fields)


def _activations() -> list[Operator]:
    parameters: dict[type[Operator], dict[str, Any]] = {
        op.ActivationCelu: {"alpha": 1},
        op.ActivationElu: {"alpha": 0.5},
        op.ActivationGelu: {},
        op.ActivationHardSigmoid: {"alpha": 0.2, "beta": 0.5},
        op.ActivationIdentity: {},
        op.ActivationLeakyRelu: {"alpha": 0.01},
        op.ActivationLinear: {"alpha": 2, "beta": -1},
        op.ActivationParametricSoftplus: {"alpha": 1, "beta": 2},
        op.ActivationRelu: {},
        op.ActivationScaledElu: {"alpha": 1.6732, "gamma": 1.0507},
        op.ActivationScaledTanh: {"alpha": 1, "beta": 0.5},
        op.ActivationShrink: {"bias": 0, "threshold": 0.5},
        op.ActivationSigmoid: {},
        op.ActivationSoftmax: {},
        op.ActivationSoftmax1: {"axes": [1, 3]},
        op.ActivationSoftplus: {"steepness": 1},
        op.ActivationSoftsign: {},
        op.ActivationTanh: {},
        op.ActivationThresholdedRelu: {"alpha": 1},
    }
    tensors = {"input_tensor": f32(1, 1, 3, 4), "output_tensor": f32(1, 1, 3, 4)}
    return [cls(**tensors, **values) for cls, values in parameters.items()]


@functools.cache
def samples() -> tuple[Operator, ...]:
    """A valid descriptor of every operator, valid at its own since-level too wherever a rank of 4 is."""
    two_images = {"input_tensor": f32(1, 2, 3, 4), "output_tensor": f32(1, 2, 3, 4)}
    return (
        *_activations(),
        _pooling(op.MaxPooling),
        _pooling(op.MaxPooling1, output_indices_tensor=u32(2, 3, 4, 4)),
        _pooling(op.MaxPooling2, output_indices_tensor=u32(2, 3, 4, 4), dilations=[1, 1]),
        _pooling(op.AveragePooling, include_padding=True),
        _pooling(op.AveragePooling1, include_padding=False, dilations=[1, 1]),
        _pooling(op.LpPooling, p=2),
        _pooling(op.LpPooling1, p=1, dilations=[1, 1]),
        op.MaxUnpooling(input_tensor=f32(1, 1, 2, 2), indices_tensor=u32(1, 1, 2, 2), output_tensor=f32(1, 1, 4, 4)),
        op.Slice(
            input_tensor=f32(1, 2, 5, 6),
            output_tensor=f32(1, 1, 2, 3),
            offsets=[0, 1, 0, 1],
            sizes=[1, 1, 2, 3],
            strides=[1, 1, 3, 2],
        ),
        op.Slice1(
            input_tensor=f32(1, 1, 4, 4),
            output_tensor=f32(1, 1, 2, 2),
            input_window_offsets=[0, 0, 0, 1],
            input_window_sizes=[1, 1, 4, 3],
            input_window_strides=[1, 1, -2, 2],
        ),
        op.SliceGrad(
            input_gradient_tensor=f32(1, 1, 2, 2),
            output_gradient_tensor=f32(1, 1, 4, 4),
            input_window_offsets=[0, 0, 0, 1],
            input_window_sizes=[1, 1, 4, 3],
            input_window_strides=[1, 1, -2, 2],
        ),
        op.Split(input_tensor=f32(1, 1, 6, 2), output_tensors=[f32(1, 1, 2, 2), f32(1, 1, 4, 2)], axis=2),
        op.Join(input_tensors=[f32(1, 1, 2, 2), f32(1, 1, 4, 2)], output_tensor=f32(1, 1, 6, 2), axis=2),
        op.Padding(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 5, 4),
            padding_mode="EDGE",
            padding_value=0,
            start_padding=[0, 0, 1, 2],
            end_padding=[0, 0, 2, 0],
        ),
        op.Padding1(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 5, 4),
            padding_mode="CONSTANT",
            padding_value_data_type="FLOAT32",
            padding_value=1.5,
            start_padding=[0, 0, 1, 2],
            end_padding=[0, 0, 2, 0],
        ),
        op.Tile(input_tensor=f32(1, 1, 2, 3), output_tensor=f32(1, 2, 2, 9), repeats=[1, 2, 1, 3]),
        op.Cast(input_tensor=f32(1, 2, 3, 4), output_tensor=TensorDesc("int8", [1, 2, 3, 4])),
        op.Gather(
            input_tensor=f32(1, 1, 5, 3),
            indices_tensor=u32(1, 1, 2, 4),
            output_tensor=f32(1, 2, 4, 3),
            axis=2,
            index_dimensions=2,
        ),
        op.SpaceToDepth(input_tensor=f32(1, 2, 4, 6), output_tensor=f32(1, 8, 2, 3), block_size=2),
        op.SpaceToDepth1(
            input_tensor=f32(1, 2, 4, 6), output_tensor=f32(1, 8, 2, 3), block_size=2, order="COLUMN_ROW_DEPTH"
        ),
        op.DepthToSpace(input_tensor=f32(1, 8, 2, 3), output_tensor=f32(1, 2, 4, 6), block_size=2),
        op.DepthToSpace1(
            input_tensor=f32(1, 8, 2, 3), output_tensor=f32(1, 2, 4, 6), block_size=2, order="DEPTH_COLUMN_ROW"
        ),
        op.ElementWiseIdentity(**two_images, scale_bias=(2, 10)),
        op.ElementWiseAdd(a_tensor=f32(1, 2, 3, 4), b_tensor=f32(1, 2, 3, 4), output_tensor=f32(1, 2, 3, 4)),
        op.ElementWiseAdd1(
            a_tensor=f32(1, 2, 3, 4),
            b_tensor=f32(1, 2, 3, 4),
            output_tensor=f32(1, 2, 3, 4),
            fused_activation=op.ActivationElu(alpha=0.5),
        ),
        op.ElementWiseClip(**two_images, min=-1, max=float("inf")),
        op.ElementWiseClip1(**two_images, min_max_data_type="FLOAT32", min=-1, max=0.1),
        op.Reduce(function="SUM", input_tensor=f32(1, 2, 3, 4), output_tensor=f32(1, 1, 3, 1), axes=[1, 3]),
        op.FillValueConstant(output_tensor=f32(1, 1, 2, 4), value_data_type="FLOAT32", value=13),
        op.FillValueSequence(
            output_tensor=TensorDesc("uint8", [1, 1, 2, 2]), value_data_type="UINT8", value_start=10, value_delta=-2
        ),
        op.CumulativeSummation(**two_images, axis=3, axis_direction="INCREASING", has_exclusive_sum=False),
        op.CumulativeProduct(**two_images, axis=0, axis_direction="DECREASING", has_exclusive_product=True),
        op.Upsample2D(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 6, 4),
            scale_size=(2, 3),
            interpolation_mode="LINEAR",
        ),
        convolution(),
        op.Gemm(
            a_tensor=f32(1, 2, 3, 4),
            b_tensor=f32(1, 2, 5, 4),
            c_tensor=f32(1, 2, 3, 5),
            output_tensor=f32(1, 2, 3, 5),
            trans_a="NONE",
            trans_b="TRANSPOSE",
            alpha=1,
            beta=0.5,
            fused_activation=op.ActivationRelu(),
        ),
        op.Rnn(
            input_tensor=f32(1, 6, 8, 4),
            weight_tensor=f32(1, 2, 5, 4),
            recurrence_tensor=f32(1, 2, 5, 5),
            bias_tensor=f32(1, 1, 2, 10),
            hidden_init_tensor=f32(1, 2, 8, 5),
            sequence_lengths_tensor=u32(1, 1, 1, 8),
            output_sequence_tensor=f32(6, 2, 8, 5),
            output_single_tensor=f32(1, 2, 8, 5),
            activation_descs=[op.ActivationTanh(), op.ActivationElu(alpha=3.5)],
            direction="BIDIRECTIONAL",
        ),
    )


def convolution(**changes: Any) -> op.Convolution:
    """A grouped convolution of {1, 4, 7, 7} with 6 filters {2, 3, 3}, stride 2."""
    fields: dict[str, Any] = {
        "input_tensor": f32(1, 4, 7, 7),
        "filter_tensor": f32(6, 2, 3, 3),
        "bias_tensor": f32(1, 6, 1, 1),
        "output_tensor": f32(1, 6, 4, 4),
        "mode": "CROSS_CORRELATION",
        "direction": "FORWARD",
        "strides": [2, 2],
        "dilations": [1, 1],
        "start_padding": [1, 1],
        "end_padding": [1, 1],
        "output_padding": [0, 0],
        "group_count": 2,
    }
    return op.Convolution(**(fields | changes))


def transposed_convolution(**changes: Any) -> op.Convolution:
    """A transposed convolution of {1, 4, 5, 5} with filters {4, 3, 3, 3} in 2 groups, stride 2: output 11 x 11."""
    fields: dict[str, Any] = {
        "input_tensor": f32(1, 4, 5, 5),
        "filter_tensor": f32(4, 3, 3, 3),
        "bias_tensor": f32(1, 6, 1, 1),
        "output_tensor": f32(1, 6, 11, 11),
        "direction": "BACKWARD",
        "start_padding": [0, 0],
        "end_padding": [0, 0],
    }
    return convolution(**(fields | changes))


def sample(cls: type[Operator], **changes: Any) -> Operator:
    """The sample of an operator, with some fields changed."""
    return next(desc for desc in samples() if type(desc) is cls).replace(**changes)
