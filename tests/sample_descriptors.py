"""One valid descriptor of every operator, as a starting point for tests that break it."""

from __future__ import annotations

import functools
from typing import Any

from sample_element_wise import activations, element_wise
from sample_tensors import f32, s8, u32

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc


def _window(rank: int = 2) -> dict[str, Any]:
    return {
        "strides": [2] * rank,
        "window_size": [3] * rank,
        "start_padding": [1] * rank,
        "end_padding": [1] * rank,
    }


def _pooling(cls: type[Operator], **fields: Any) -> Operator:
    return cls(input_tensor=f32(2, 3, 7, 8), output_tensor=f32(2, 3, 4, 4), **_window(), **fields)


def _resamplings() -> list[Operator]:
    small, large = f32(1, 2, 3, 4), f32(1, 2, 6, 3)
    forward: dict[str, Any] = {"input_tensor": small, "output_tensor": large, "scales": [1, 1, 2, 0.75]}
    backward: dict[str, Any] = {
        "input_gradient_tensor": large,
        "output_gradient_tensor": small,
        "scales": [1, 1, 2, 0.75],
    }
    centres: dict[str, Any] = {"input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4}
    up: dict[str, Any] = {"rounding_direction": "INCREASING"}
    return [
        op.Resample(**forward, interpolation_mode="LINEAR"),
        op.Resample1(**forward, **centres, interpolation_mode="NEAREST_NEIGHBOR"),
        op.Resample2(**forward, **centres, **up, interpolation_mode="NEAREST_NEIGHBOR"),
        op.Resample3(**forward, **centres, **up, interpolation_mode="LINEAR", antialiased=True),
        op.ResampleGrad(**backward, **centres, interpolation_mode="LINEAR"),
        op.ResampleGrad1(**backward, **centres, **up, interpolation_mode="NEAREST_NEIGHBOR"),
    ]


def _sliding_blocks() -> list[Operator]:
    image, columns = f32(2, 3, 5, 6), f32(2, 18, 8)
    fields: dict[str, Any] = {"window_sizes": [3, 2], "strides": [1, 2], "dilations": [2, 3]}
    fields |= {"start_padding": [1, 1], "end_padding": [2, 0]}
    return [
        op.Unfold(input_tensor=image, output_tensor=columns, **fields),
        op.Fold(input_tensor=columns, output_tensor=image, **fields),
    ]


def _quantized() -> list[Operator]:
    """Products and windows of quantized tensors, with one value for each row, column and channel."""
    a, b = s8(1, 2, 3, 4), s8(1, 2, 4, 5)
    rows, columns = (1, 1, 3, 1), (1, 1, 1, 5)
    zeros = {"a_zero_point_tensor": s8(*rows), "b_zero_point_tensor": s8(*columns)}
    scales = {"a_scale_tensor": f32(*rows), "b_scale_tensor": f32(*columns)}
    product = f32(1, 2, 3, 5)
    window: dict[str, Any] = {name: [1, 1] for name in ("strides", "dilations", "start_padding", "end_padding")}
    image: dict[str, Any] = {"input_tensor": s8(1, 4, 7, 7), "filter_tensor": s8(6, 2, 3, 3)}
    offsets: dict[str, Any] = {"input_zero_point_tensor": s8(1, 1, 1, 1), "filter_zero_point_tensor": s8(1, 6, 1, 1)}
    one, every = (1, 1, 1, 1), (1, 3, 1, 1)
    return [
        op.MatrixMultiplyInteger(a_tensor=a, b_tensor=b, output_tensor=TensorDesc("int32", [1, 2, 3, 5]), **zeros),
        op.MatrixMultiplyIntegerToFloat(
            a_tensor=a, b_tensor=b, bias_tensor=product, output_tensor=product, **zeros, **scales
        ),
        op.QuantizedLinearMatrixMultiply(
            a_tensor=a,
            b_tensor=b,
            output_scale_tensor=f32(*rows),
            output_zero_point_tensor=s8(*rows),
            output_tensor=s8(1, 2, 3, 5),
            **zeros,
            **scales,
        ),
        op.ConvolutionInteger(
            **image, **offsets, **window, output_tensor=TensorDesc("int32", [1, 6, 7, 7]), group_count=2
        ),
        op.QuantizedLinearConvolution(
            **image,
            **offsets,
            **window,
            input_scale_tensor=f32(*one),
            filter_scale_tensor=f32(1, 6, 1, 1),
            bias_tensor=TensorDesc("int32", [1, 6, 1, 1]),
            output_scale_tensor=f32(*one),
            output_zero_point_tensor=s8(*one),
            output_tensor=s8(1, 6, 7, 7),
            group_count=2,
        ),
        op.QuantizedLinearAveragePooling(
            input_tensor=s8(2, 3, 7, 8),
            input_scale_tensor=f32(*every),
            input_zero_point_tensor=s8(*every),
            output_scale_tensor=f32(*every),
            output_zero_point_tensor=s8(*every),
            output_tensor=s8(2, 3, 4, 4),
            **_window(),
            dilations=[1, 1],
            include_padding=False,
        ),
        op.Quantize(
            input_tensor=f32(2, 6),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(2, 3), s8(2, 3)],
            output_tensor=s8(2, 6),
        ),
        op.Dequantize(
            input_tensor=s8(2, 6),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(2, 3), s8(2, 3)],
            output_tensor=f32(2, 6),
        ),
        op.DynamicQuantizeLinear(
            input_tensor=f32(2, 3),
            output_tensor=s8(2, 3),
            output_scale_tensor=f32(1, 1),
            output_zero_point_tensor=s8(1, 1),
        ),
    ]


def _attentions() -> list[Operator]:
    """With new keys and values apart, and stacked."""
    common: dict[str, Any] = {
        "bias_tensor": f32(3 * 12),
        "relative_position_bias_tensor": f32(2, 3, 5, 9),
        "past_key_tensor": f32(2, 3, 3, 4),
        "past_value_tensor": f32(2, 3, 3, 4),
        "output_tensor": f32(2, 5, 12),
        "output_present_key_tensor": f32(2, 3, 9, 4),
        "output_present_value_tensor": f32(2, 3, 9, 4),
        "scale": 0.5,
        "mask_filter_value": -10000,
    }
    apart: dict[str, Any] = {"query_tensor": f32(2, 5, 12), "key_tensor": f32(2, 6, 12), "value_tensor": f32(2, 6, 12)}
    mask = TensorDesc("int32", [2, 3, 5, 9])
    grouped: dict[str, Any] = {
        **common,
        "bias_tensor": f32(12 + 4 + 4),
        "past_key_tensor": f32(2, 1, 3, 4),
        "past_value_tensor": f32(2, 1, 3, 4),
        "past_sequence_lengths_tensor": TensorDesc("int32", [2]),
        "output_present_key_tensor": f32(2, 1, 9, 4),
        "output_present_value_tensor": f32(2, 1, 9, 4),
        "mask_tensor": TensorDesc("int32", [1, 2]),
    }
    stacked: dict[str, Any] = {"query_tensor": f32(2, 5, 12), "stacked_key_value_tensor": f32(2, 6, 1, 2, 4)}
    heads: dict[str, Any] = {"query_head_count": 3, "key_value_head_count": 1}
    return [
        op.MultiheadAttention(**apart, **common, mask_tensor=mask, head_count=3, mask_type="BOOLEAN"),
        op.MultiheadAttention1(**stacked, **grouped, **heads, mask_type="KEY_SEQUENCE_LENGTH"),
    ]


def _regions() -> list[Operator]:
    pooled: dict[str, Any] = {"input_tensor": f32(2, 3, 7, 8), "output_tensor": f32(5, 3, 2, 4)}
    regions: dict[str, Any] = {"roi_tensor": f32(1, 5, 4), "batch_indices_tensor": u32(1, 5)}
    sampled: dict[str, Any] = {"reduction_function": "AVERAGE", "interpolation_mode": "LINEAR"}
    sampled |= {"spatial_scale_x": 1, "spatial_scale_y": 0.5}
    sampled |= {"minimum_samples_per_output": 1, "maximum_samples_per_output": 2}
    placed: dict[str, Any] = {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
    return [
        op.RoiAlign(**pooled, **regions, **sampled, out_of_bounds_input_value=0),
        op.RoiAlign1(**pooled, **regions, **sampled, **placed, out_of_bounds_input_value=0),
        op.RoiAlignGrad(
            input_tensor=f32(2, 3, 7, 8),
            input_gradient_tensor=f32(5, 3, 2, 4),
            output_gradient_tensor=f32(2, 3, 7, 8),
            output_roi_gradient_tensor=f32(1, 5, 4),
            **regions,
            **sampled,
            **placed,
        ),
        op.RoiPooling(**pooled, roi_tensor=f32(1, 1, 5, 5), spatial_scale=1, pooled_size=(4, 2)),
    ]


def _gradients() -> list[Operator]:
    """Gradients, and what else there is for training."""
    images = dict.fromkeys(("input_tensor", "input_gradient_tensor", "output_gradient_tensor"), f32(2, 3, 4, 5))
    pooled: dict[str, Any] = {"input_gradient_tensor": f32(2, 3, 4, 4), "output_gradient_tensor": f32(2, 3, 7, 8)}
    channels = dict.fromkeys(
        (
            "mean_tensor",
            "variance_tensor",
            "scale_tensor",
            "output_scale_gradient_tensor",
            "output_bias_gradient_tensor",
        ),
        f32(1, 3, 1, 1),
    )
    trained = dict.fromkeys(
        ("scale_tensor", "bias_tensor", "output_mean_tensor", "output_variance_tensor"), f32(1, 3, 1, 1)
    )
    parameters = [name for name in op.AdamOptimizer.fields if name.endswith("_tensor")]
    return [
        op.AveragePoolingGrad(**pooled, **_window(), include_padding=False),
        op.MaxPoolingGrad(input_tensor=f32(2, 3, 7, 8), **pooled, **_window(), dilations=[1, 1]),
        op.BatchNormalizationGrad(**images, **channels, epsilon=1e-5),
        op.BatchNormalizationTrainingGrad(**images, **channels, epsilon=1e-5),
        op.BatchNormalizationTraining(
            **dict.fromkeys(("input_tensor", "fused_add_tensor", "output_tensor"), f32(2, 3, 4, 5)),
            **trained,
            epsilon=1e-5,
            fused_activation=op.ActivationRelu(),
        ),
        op.LocalResponseNormalizationGrad(**images, cross_channel=True, local_size=3, alpha=1e-4, beta=0.75, bias=1),
        op.AdamOptimizer(
            **dict.fromkeys(parameters, f32(1, 2, 3, 4)) | {"training_step_tensor": u32(1, 1, 1, 1)},
            learning_rate=0.001,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-8,
        ),
    ]


def _normalizations() -> list[Operator]:
    images: dict[str, Any] = {"input_tensor": f32(2, 3, 4, 5), "output_tensor": f32(2, 3, 4, 5)}
    affine: dict[str, Any] = {"scale_tensor": f32(1, 3, 1, 1), "bias_tensor": f32(1, 3, 1, 1)}
    statistics: dict[str, Any] = {"mean_tensor": f32(1, 3, 1, 1), "variance_tensor": f32(1, 3, 1, 1)}
    fused: dict[str, Any] = {"epsilon": 1e-5, "fused_activation": op.ActivationRelu()}
    return [
        op.BatchNormalization(**images, **statistics, **affine, spatial=True, **fused),
        op.MeanVarianceNormalization(**images, **affine, cross_channel=False, normalize_variance=True, **fused),
        op.MeanVarianceNormalization1(**images, **affine, axes=[2, 3], normalize_variance=True, **fused),
        op.MeanVarianceNormalization2(**images, **affine, axes=[1, 3], use_mean=True, use_variance=True, **fused),
        op.LocalResponseNormalization(**images, cross_channel=True, local_size=3, alpha=1e-4, beta=0.75, bias=1),
        op.LpNormalization(**images, axis=3, epsilon=1e-5, p=2),
        op.ValueScale2D(**images, scale=0.5, bias=[1, -2, 0.25]),
    ]


@functools.cache
def samples() -> tuple[Operator, ...]:
    """A valid descriptor of every operator, valid at its own since-level too wherever a rank of 4 is."""
    two_images: dict[str, Any] = {"input_tensor": f32(1, 2, 3, 4), "output_tensor": f32(1, 2, 3, 4)}
    return (
        *activations(),
        *_normalizations(),
        *_gradients(),
        *_resamplings(),
        *_sliding_blocks(),
        op.TopK(
            input_tensor=f32(1, 2, 3, 6),
            output_value_tensor=f32(1, 2, 3, 2),
            output_index_tensor=u32(1, 2, 3, 2),
            axis=3,
            k=2,
        ),
        op.TopK1(
            input_tensor=f32(1, 2, 5, 3),
            output_value_tensor=f32(1, 2, 3, 3),
            output_index_tensor=u32(1, 2, 3, 3),
            axis=2,
            k=3,
            axis_direction="INCREASING",
        ),
        op.NonzeroCoordinates(
            input_tensor=f32(1, 2, 3, 4),
            output_count_tensor=u32(1, 1, 1, 1),
            output_coordinates_tensor=u32(1, 1, 24, 3),
        ),
        op.RandomGenerator(
            input_state_tensor=u32(1, 1, 1, 6), output_tensor=u32(1, 2, 3, 5), output_state_tensor=u32(1, 1, 1, 6)
        ),
        *_quantized(),
        *_attentions(),
        *_regions(),
        op.ActivationParameterizedRelu(**two_images, slope_tensor=f32(1, 2, 3, 4)),
        op.ActivationReluGrad(
            input_tensor=f32(1, 2, 3, 4),
            input_gradient_tensor=f32(1, 2, 3, 4),
            output_gradient_tensor=f32(1, 2, 3, 4),
        ),
        *element_wise(),
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
        op.GatherElements(
            input_tensor=f32(1, 2, 5, 3), indices_tensor=u32(1, 2, 4, 3), output_tensor=f32(1, 2, 4, 3), axis=2
        ),
        op.GatherNd(
            input_tensor=f32(1, 3, 4, 5),
            indices_tensor=u32(1, 1, 6, 2),
            output_tensor=f32(1, 1, 6, 5),
            input_dimension_count=3,
            indices_dimension_count=2,
        ),
        op.GatherNd1(
            input_tensor=f32(1, 3, 4, 5),
            indices_tensor=u32(1, 3, 6, 1),
            output_tensor=f32(1, 3, 6, 5),
            input_dimension_count=3,
            indices_dimension_count=3,
            batch_dimension_count=1,
        ),
        op.ScatterElements(
            input_tensor=f32(1, 2, 5, 3),
            indices_tensor=u32(1, 2, 4, 3),
            updates_tensor=f32(1, 2, 4, 3),
            output_tensor=f32(1, 2, 5, 3),
            axis=2,
        ),
        op.ScatterNd(
            input_tensor=f32(1, 3, 4, 5),
            indices_tensor=u32(1, 1, 6, 2),
            updates_tensor=f32(1, 1, 6, 5),
            output_tensor=f32(1, 3, 4, 5),
            input_dimension_count=3,
            indices_dimension_count=2,
        ),
        op.OneHot(indices_tensor=u32(1, 2, 3, 1), values_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 2, 3, 7), axis=3),
        op.ReverseSubsequences(**two_images, sequence_lengths_tensor=u32(1, 2, 3, 1), axis=3),
        op.DiagonalMatrix(output_tensor=f32(1, 2, 3, 4), offset=-1, value=2.5),
        op.DiagonalMatrix1(
            **two_images, value_data_type="FLOAT32", value=2.5, diagonal_fill_begin=-1, diagonal_fill_end=2
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
        op.Argmin(
            input_tensor=f32(1, 2, 3, 4), output_tensor=u32(1, 1, 3, 1), axes=[1, 3], axis_direction="INCREASING"
        ),
        op.Argmax(input_tensor=f32(1, 2, 3, 4), output_tensor=u32(1, 2, 3, 1), axes=[3], axis_direction="DECREASING"),
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
        op.Gru(
            input_tensor=f32(1, 6, 8, 4),
            weight_tensor=f32(1, 2, 15, 4),
            recurrence_tensor=f32(1, 2, 15, 5),
            bias_tensor=f32(1, 1, 2, 30),
            hidden_init_tensor=f32(1, 2, 8, 5),
            sequence_lengths_tensor=u32(1, 1, 1, 8),
            output_sequence_tensor=f32(6, 2, 8, 5),
            output_single_tensor=f32(1, 2, 8, 5),
            activation_descs=[op.ActivationSigmoid(), op.ActivationTanh(), op.ActivationHardmax(), op.ActivationRelu()],
            direction="BIDIRECTIONAL",
            linear_before_reset=True,
        ),
        op.Lstm(
            input_tensor=f32(1, 6, 8, 4),
            weight_tensor=f32(1, 1, 20, 4),
            recurrence_tensor=f32(1, 1, 20, 5),
            bias_tensor=f32(1, 1, 1, 40),
            hidden_init_tensor=f32(1, 1, 8, 5),
            cell_mem_init_tensor=f32(1, 1, 8, 5),
            sequence_lengths_tensor=u32(1, 1, 1, 8),
            peephole_tensor=f32(1, 1, 1, 15),
            output_sequence_tensor=f32(6, 1, 8, 5),
            output_single_tensor=f32(1, 1, 8, 5),
            output_cell_single_tensor=f32(1, 1, 8, 5),
            activation_descs=[op.ActivationSigmoid(), op.ActivationTanh(), op.ActivationElu(alpha=3.5)],
            direction="BACKWARD",
            clip_threshold=0.75,
            use_clip_threshold=True,
            couple_input_forget=False,
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
