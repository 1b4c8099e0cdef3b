"""The cases of element-wise operators, activations, softmax and normalisations, alone and in chains.

Each is measured on a tensor larger than the caches and on one that fits into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.cases import IMAGE, Aim, Case, Values
from benchmarks.chains import AddLayerNormalization, BiasGelu, Chain, GatedSigmoid, ResidualRelu, ScaleBiasRelu
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc

SMALL_IMAGE: Final = (1, 16, 64, 64)
ROWS: Final = (1, 24, 512, 1024)
SMALL_ROWS: Final = (1, 1, 64, 1024)
"""Sizes of 256 KiB in float32, and of many rows of 1024 (48 MiB)."""

IMAGES: Final = {"49 MiB": IMAGE, "256 KiB": SMALL_IMAGE}
LINES: Final = {"48 MiB": ROWS, "256 KiB": SMALL_ROWS}
RESPONSES: Final = ((8, 96, 55, 55), (8, 256, 27, 27))
GROUPED: Final = 4
LARGE_GROUPS: Final = {"12 images of 1024x1024": (1, 12, 1024, 1024), "2 groups of 6 of them": (1, 2, 6, 1024, 1024)}
"""Groups beyond the caches: few of them, in which all threads take part."""

RESPONSE: Final[Mapping[str, Any]] = {
    "cross_channel": True,
    "local_size": 5,
    "alpha": 1e-4,
    "beta": 0.75,
    "bias": 1.0,
}
"""As networks of that time have it."""

AROUND_ZERO: Final = (-5.0, 5.0)
POSITIVE: Final = (0.1, 2.0)
COPY_SHARE: Final = 0.8
"""What of the copy bandwidth is reached by operators that compute little for each byte that they move."""

EAGER: Final = 2.0
"""How much faster than PyTorch's eager calls a fused chain is."""


def function_cases() -> list[Case]:
    """All of them, in the order of the table."""
    sections = (_element_wise, _other_types, _activations, _softmax, _normalizations, _running_sums, _chains)
    return [case for section in sections for case in section()]


def _element_wise() -> Iterator[Case]:
    for name, (build, values, is_simple) in _ELEMENT_WISE.items():
        for place, sizes in IMAGES.items():
            yield Case("element-wise", f"{name} f32, {place}", build("FLOAT32", sizes), _aim(place, is_simple), values)


def _other_types() -> Iterator[Case]:
    for name, data_type in (
        ("multiply", "FLOAT16"),
        ("exp", "FLOAT16"),
        ("greater", "FLOAT16"),
        ("multiply", "INT32"),
        ("clip", "INT32"),
    ):
        build, values, is_simple = _ELEMENT_WISE[name]
        short = {"FLOAT16": "f16", "INT32": "i32"}[data_type]
        sizes = (32, *IMAGE[1:]) if data_type == "FLOAT16" else IMAGE
        yield Case("element-wise", f"{name} {short}, 49 MiB", build(data_type, sizes), _aim("49", is_simple), values)


def _activations() -> Iterator[Case]:
    for name, (build, is_simple) in _ACTIVATIONS.items():
        for place, sizes in IMAGES.items():
            aim = _aim(place, is_simple)
            yield Case("activation", f"{name} f32, {place}", build("FLOAT32", sizes), aim, AROUND_ZERO)


def _softmax() -> Iterator[Case]:
    rows = {"rows of 1024": (ROWS, SMALL_ROWS), "rows of 32000": ((1, 1, 384, 32000),)}
    images = {"64 and 16 channels": (IMAGE, SMALL_IMAGE)}
    for group, operator in (
        ("softmax", operators.ActivationSoftmax1),
        ("log softmax", operators.ActivationLogSoftmax1),
    ):
        for axis, shapes in ((3, rows), (1, images)):
            for name, choices in shapes.items():
                for sizes in choices:
                    tensor = TensorDesc("FLOAT32", sizes)
                    built = operator(input_tensor=tensor, output_tensor=tensor, axes=(axis,))
                    place = "256 KiB" if sizes in (SMALL_ROWS, SMALL_IMAGE) else "49 MiB"
                    yield Case(group, f"{name} f32, {place}", built, Aim(1.0), AROUND_ZERO)


def _normalizations() -> Iterator[Case]:
    for place, sizes in LINES.items():
        operator = layer_normalization(sizes)
        yield Case("normalization", f"layer, rows of 1024 f32, {place}", operator, _aim(place, True), POSITIVE)
    for place, sizes in IMAGES.items():
        operator = batch_normalization(sizes)
        yield Case("normalization", f"batch f32, {place}", operator, _aim(place, True), POSITIVE)
    for place, sizes in IMAGES.items():
        yield Case("normalization", f"instance f32, {place}", group_normalization(sizes), Aim(1.0), POSITIVE)
        batch, channels, *image = sizes
        operator = group_normalization((batch, channels // GROUPED, GROUPED, *image))
        yield Case("normalization", f"groups of {GROUPED} channels f32, {place}", operator, Aim(1.0), POSITIVE)
    for name, groups in LARGE_GROUPS.items():
        yield Case("normalization", f"{name} f32, 48 MiB", group_normalization(groups), Aim(1.0), POSITIVE)
    for sizes in RESPONSES:
        name = f"local response over 5 of {sizes[1]} channels f32, {sizes[-1]}x{sizes[-1]}"
        yield Case("normalization", name, local_response_normalization(sizes), Aim(1.0), POSITIVE)


def _running_sums() -> Iterator[Case]:
    group, aim = "running sum", Aim(1.0)
    for place, sizes in LINES.items():
        yield Case(group, f"along rows of 1024 f32, {place}", running_sum("FLOAT32", sizes, 3), aim, POSITIVE)
    yield Case(group, "along rows of 1024 i32, 48 MiB", running_sum("INT32", ROWS, 3), aim)
    yield Case(group, "along columns f32, 48 MiB", running_sum("FLOAT32", ROWS, 2), aim, POSITIVE)


def _chains() -> Iterator[Case]:
    for name, (chain, shapes, is_simple) in _CHAINS.items():
        for place, sizes in shapes.items():
            aim = _aim(place, is_simple)
            yield Case("chain", f"{name} f32, {place}", chain(sizes), Aim(aim.ratio, aim.share, EAGER), POSITIVE)


def _aim(place: str, is_simple: bool) -> Aim:
    """Never below the best peer, and near the bandwidth where the arrays are large and little is computed."""
    return Aim(1.0, COPY_SHARE if is_simple and not place.startswith("256") else None)


# -------------------------------------------------------------------------------------------------------- descriptors

Build = Callable[[str, Sequence[int]], Operator]


def unary(operator: Callable[..., Operator], **fields: Any) -> Build:
    """An operator of one tensor, of whatever type and sizes."""

    def build(data_type: str, sizes: Sequence[int]) -> Operator:
        tensor = TensorDesc(data_type, sizes)
        return operator(input_tensor=tensor, output_tensor=tensor, **fields)

    return build


def binary(operator: Callable[..., Operator], output_type: str | None = None) -> Build:
    """An operator of two tensors."""

    def build(data_type: str, sizes: Sequence[int]) -> Operator:
        tensor = TensorDesc(data_type, sizes)
        output = TensorDesc(output_type or data_type, sizes)
        return operator(a_tensor=tensor, b_tensor=tensor, output_tensor=output)

    return build


def choice(data_type: str, sizes: Sequence[int]) -> Operator:
    """ELEMENT_WISE_IF."""
    tensor = TensorDesc(data_type, sizes)
    condition = TensorDesc("UINT8", sizes)
    return operators.ElementWiseIf(condition_tensor=condition, a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)


def layer_normalization(sizes: Sequence[int]) -> Operator:
    """MEAN_VARIANCE_NORMALIZATION1 of rows, with a scale and a bias for each column."""
    tensor, row = TensorDesc("FLOAT32", sizes), TensorDesc("FLOAT32", (*[1] * (len(sizes) - 1), sizes[-1]))
    return operators.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=row,
        bias_tensor=row,
        output_tensor=tensor,
        axes=(len(sizes) - 1,),
        normalize_variance=True,
        epsilon=1e-5,
    )


def group_normalization(sizes: Sequence[int]) -> Operator:
    """MEAN_VARIANCE_NORMALIZATION1 of images, or groups of them: all dimensions but two, with a scale and a bias for
    each channel."""
    tensor = TensorDesc("FLOAT32", sizes)
    channels = TensorDesc("FLOAT32", (1, *sizes[1:-2], 1, 1))
    return operators.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=channels,
        bias_tensor=channels,
        output_tensor=tensor,
        axes=tuple(range(2, len(sizes))),
        normalize_variance=True,
        epsilon=1e-5,
    )


def local_response_normalization(sizes: Sequence[int]) -> Operator:
    """LOCAL_RESPONSE_NORMALIZATION over five channels."""
    tensor = TensorDesc("FLOAT32", sizes)
    return operators.LocalResponseNormalization(input_tensor=tensor, output_tensor=tensor, **RESPONSE)


def running_sum(data_type: str, sizes: Sequence[int], axis: int) -> Operator:
    """CUMULATIVE_SUMMATION along one axis."""
    tensor = TensorDesc(data_type, sizes)
    return operators.CumulativeSummation(
        input_tensor=tensor, output_tensor=tensor, axis=axis, axis_direction="INCREASING", has_exclusive_sum=False
    )


def batch_normalization(sizes: Sequence[int]) -> Operator:
    """BATCH_NORMALIZATION with a mean, a variance, a scale and a bias for each channel."""
    tensor, channels = TensorDesc("FLOAT32", sizes), TensorDesc("FLOAT32", (1, sizes[1], 1, 1))
    return operators.BatchNormalization(
        input_tensor=tensor,
        mean_tensor=channels,
        variance_tensor=channels,
        scale_tensor=channels,
        bias_tensor=channels,
        output_tensor=tensor,
        spatial=True,
        epsilon=1e-5,
    )


# Name: the descriptor, the values of its inputs, and whether it computes little for each byte that it moves.
_ELEMENT_WISE: Mapping[str, tuple[Build, Values | None, bool]] = {
    "add": (binary(operators.ElementWiseAdd), None, True),
    "multiply": (binary(operators.ElementWiseMultiply), None, True),
    "divide": (binary(operators.ElementWiseDivide), POSITIVE, True),
    "exp": (unary(operators.ElementWiseExp), AROUND_ZERO, False),
    "sqrt": (unary(operators.ElementWiseSqrt), POSITIVE, True),
    "erf": (unary(operators.ElementWiseErf), AROUND_ZERO, False),
    "clip": (unary(operators.ElementWiseClip, min=0.0, max=6.0), None, True),
    "greater": (binary(operators.ElementWiseLogicalGreaterThan, "UINT8"), None, True),
    "if": (choice, (0.0, 1.0), True),
}

_ACTIVATIONS: Mapping[str, tuple[Build, bool]] = {
    "relu": (unary(operators.ActivationRelu), True),
    "leaky relu": (unary(operators.ActivationLeakyRelu, alpha=0.01), True),
    "sigmoid": (unary(operators.ActivationSigmoid), False),
    "tanh": (unary(operators.ActivationTanh), False),
    "gelu": (unary(operators.ActivationGelu), False),
    "softplus": (unary(operators.ActivationSoftplus, steepness=1.0), False),
}

_CHAINS: Mapping[str, tuple[Callable[[tuple[int, ...]], Chain], Mapping[str, tuple[int, ...]], bool]] = {
    "relu(x * scale + bias)": (ScaleBiasRelu, IMAGES, True),
    "layer normalization(x + y)": (AddLayerNormalization, LINES, True),
    "gelu(x + bias)": (BiasGelu, LINES, False),
    "relu(batch normalization(x) + y)": (ResidualRelu, IMAGES, True),
    "sigmoid(x) * x * y": (GatedSigmoid, LINES, False),
}
