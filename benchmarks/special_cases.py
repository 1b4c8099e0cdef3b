"""The cases of regions, of coordinates and random bits, and of training: what takes inputs of a certain form.

A case's ``fill`` makes them of random ones: corners in order, batch indices and variances, masks, states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.cases import IMAGE, RESAMPLED, Aim, Case
from benchmarks.function_cases import RESPONSE, RESPONSES
from benchmarks.peers import Array
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc

PYRAMID = (1, 256, 50, 50)
"""Features that detectors take regions of."""


def special_cases() -> list[Case]:
    """All of them, in the order of the table."""
    sections = (_regions, _coordinates, _random_bits, _training)
    return [case for section in sections for case in section()]


def _regions() -> Iterator[Case]:
    """Of values that do not cancel: coordinates of samples are rounded by each library in its own way."""
    group, aim, values = "regions", Aim(1.0), (25, 75)
    for name, count, pooled, samples in (
        ("7x7 of 100", 100, 7, 2),
        ("14x14 of 20", 20, 14, 2),
        ("7x7 of 100, adaptive", 100, 7, 0),
    ):
        yield Case(group, f"align {name} f32", region_align(PYRAMID, count, pooled, samples), aim, values, _corners)
    yield Case(group, "pooling 7x7 of 100 f32", region_pooling(PYRAMID, 100, 7), aim, values, _pooled_corners)
    for name, sizes, pooled in (("7x7 of 100", PYRAMID, 7), ("32x32 of 100, 3 channels", (1, 3, 224, 224), 32)):
        gradient = region_align(sizes, 100, pooled, 2, backward=True)
        yield Case(group, f"gradient of align {name} f32", gradient, aim, values, _corners)


def _coordinates() -> Iterator[Case]:
    for name, sizes in (("1,000,000 f32", (1, 1, 1000, 1000)), ("128 rows of 512 f32", (128, 512))):
        yield Case("nonzero coordinates", f"a tenth of {name}", nonzero_coordinates(sizes), Aim(1.0), fill=_mask)


def _random_bits() -> Iterator[Case]:
    for name, count in (("16 MiB", 1 << 22), ("64 KiB", 1 << 14)):
        yield Case("random bits", name, random_bits(count), Aim(1.0), fill=_state)


def _training() -> Iterator[Case]:
    group, aim = "training", Aim(1.0)
    for place, sizes in (("6 MiB", RESAMPLED), ("49 MiB", IMAGE)):
        yield Case(group, f"batch normalization f32, {place}", batch_training(sizes), aim)
        for kind, name in (
            (operators.BatchNormalizationTrainingGrad, "gradient of batch normalization"),
            (operators.BatchNormalizationGrad, "gradient of batch normalization by given statistics"),
        ):
            operator = batch_gradient(kind, sizes)
            yield Case(group, f"{name} f32, {place}", operator, aim, values=(-1, 1), fill=_statistics)
    for sizes in RESPONSES:
        name = f"gradient of local response over 5 of {sizes[1]} channels f32, {sizes[-1]}x{sizes[-1]}"
        yield Case(group, name, response_gradient(sizes), aim, values=(-1, 1))
    for place, count in (("16 MiB", 1 << 22), ("256 KiB", 1 << 16)):
        yield Case(group, f"Adam f32, {place}", adam(count), aim, values=(-1, 1), fill=_moments)


# ------------------------------------------------------------------------------------------------------------- inputs


def _corners(inputs: Sequence[Array]) -> None:
    """Regions of a tenth to four tenths of the image a side, of its only batch; the image is the first input of four
    dimensions, or as large as 50 pixels and more."""
    corners, batches = inputs[-2:]
    size = max(50, inputs[0].shape[-1])
    _place(corners, size)
    batches[...] = 0


def _pooled_corners(inputs: Sequence[Array]) -> None:
    image, rois = inputs
    rois[..., 0] = 0
    _place(rois[0, 0, :, 1:], image.shape[-1])


def _place(corners: Array, size: int) -> None:
    """Of numbers from 25 to 75, and as many pixels a side."""
    part = (corners - 25) / 50
    corners[:, :2] = part[:, :2] * 0.6 * size
    corners[:, 2:] = corners[:, :2] + (0.1 + 0.3 * part[:, 2:]) * size


def _mask(inputs: Sequence[Array]) -> None:
    (x,) = inputs
    x[x < 65] = 0


def _state(inputs: Sequence[Array]) -> None:
    inputs[0][..., :3] = 0


def _statistics(inputs: Sequence[Array]) -> None:
    """The mean and variance of the input, which a forward pass keeps."""
    x, _, mean, variance, _ = inputs
    mean[...] = x.mean((0, 2, 3), keepdims=True)
    variance[...] = x.var((0, 2, 3), keepdims=True)


def _moments(inputs: Sequence[Array]) -> None:
    """Second moments are squares; the tenth step."""
    inputs[2][...] **= 2
    inputs[4][...] = 10


# -------------------------------------------------------------------------------------------------------- descriptors


def region_align(sizes: Sequence[int], count: int, pooled: int, samples: int, *, backward: bool = False) -> Operator:
    """ROI_ALIGN with averages of so many samples a side, 0 for as many as there are pixels, or its gradient."""
    image, outputs = TensorDesc("FLOAT32", sizes), TensorDesc("FLOAT32", (count, sizes[1], pooled, pooled))
    fields: dict[str, Any] = {
        "roi_tensor": TensorDesc("FLOAT32", (count, 4)),
        "batch_indices_tensor": TensorDesc("UINT32", (count,)),
        "reduction_function": "AVERAGE",
        "interpolation_mode": "LINEAR",
        "spatial_scale_x": 1.0,
        "spatial_scale_y": 1.0,
        "minimum_samples_per_output": samples or 1,
        "maximum_samples_per_output": samples or 1 << 20,
    }
    if not backward:
        return operators.RoiAlign(input_tensor=image, output_tensor=outputs, out_of_bounds_input_value=0.0, **fields)
    return operators.RoiAlignGrad(
        input_gradient_tensor=outputs,
        output_gradient_tensor=image,
        input_pixel_offset=0.5,
        output_pixel_offset=-0.5,
        align_regions_to_corners=False,
        **fields,
    )


def region_pooling(sizes: Sequence[int], count: int, pooled: int) -> Operator:
    """ROI_POOLING."""
    return operators.RoiPooling(
        input_tensor=TensorDesc("FLOAT32", sizes),
        roi_tensor=TensorDesc("FLOAT32", (1, 1, count, 5)),
        output_tensor=TensorDesc("FLOAT32", (count, sizes[1], pooled, pooled)),
        spatial_scale=1.0,
        pooled_size=(pooled, pooled),
    )


def nonzero_coordinates(sizes: Sequence[int]) -> Operator:
    """NONZERO_COORDINATES with all coordinates."""
    image = TensorDesc("FLOAT32", sizes)
    return operators.NonzeroCoordinates(
        input_tensor=image,
        output_count_tensor=TensorDesc("UINT32", (1,)),
        output_coordinates_tensor=TensorDesc("UINT32", (image.element_count, len(sizes))),
    )


def random_bits(count: int) -> Operator:
    """RANDOM_GENERATOR of so many words, with the state behind them."""
    state = TensorDesc("UINT32", (6,))
    return operators.RandomGenerator(
        input_state_tensor=state, output_tensor=TensorDesc("UINT32", (count,)), output_state_tensor=state
    )


def batch_training(sizes: Sequence[int]) -> Operator:
    """BATCH_NORMALIZATION_TRAINING with a mean and a variance for each channel."""
    image, channel = TensorDesc("FLOAT32", sizes), TensorDesc("FLOAT32", (1, sizes[1], 1, 1))
    return operators.BatchNormalizationTraining(
        input_tensor=image,
        scale_tensor=channel,
        bias_tensor=channel,
        output_tensor=image,
        output_mean_tensor=channel,
        output_variance_tensor=channel,
        epsilon=1e-5,
    )


def batch_gradient(kind: type[Any], sizes: Sequence[int]) -> Operator:
    """BATCH_NORMALIZATION_GRAD or BATCH_NORMALIZATION_TRAINING_GRAD, all three gradients."""
    images = ("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
    channels = ("mean", "variance", "scale", "output_scale_gradient", "output_bias_gradient")
    image, channel = TensorDesc("FLOAT32", sizes), TensorDesc("FLOAT32", (1, sizes[1], 1, 1))
    tensors = dict.fromkeys(images, image) | {f"{name}_tensor": channel for name in channels}
    operator: Operator = kind(epsilon=1e-5, **tensors)
    return operator


def response_gradient(sizes: Sequence[int]) -> Operator:
    """LOCAL_RESPONSE_NORMALIZATION_GRAD over five channels."""
    image = TensorDesc("FLOAT32", sizes)
    return operators.LocalResponseNormalizationGrad(
        input_tensor=image, input_gradient_tensor=image, output_gradient_tensor=image, **RESPONSE
    )


def adam(count: int) -> Operator:
    """ADAM_OPTIMIZER of so many parameters."""
    names = [name for name in operators.AdamOptimizer.fields if name.endswith("_tensor")]
    tensors = dict.fromkeys(names, TensorDesc("FLOAT32", (1, 1, 1, count)))
    tensors["training_step_tensor"] = TensorDesc("UINT32", (1, 1, 1, 1))
    return operators.AdamOptimizer(**tensors, learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8)
