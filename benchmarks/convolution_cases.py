"""The cases of convolutions: layers of networks, and every other form, grouped, dilated, transposed, of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cases import Aim, Case
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import ConvolutionDirection, ConvolutionMode
from opendml.description.tensor import TensorDesc


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A convolution of images, rows or volumes of ``size`` along each of ``rank`` dimensions, without bias.

    Padding is what keeps the size, or divides it by the stride; of a transposed one, what multiplies it by the stride.
    """

    inputs: int
    outputs: int
    size: int
    window: int
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    rank: int = 2
    is_transposed: bool = False
    batch: int = 8

    def operator(self) -> Operator:
        """The descriptor."""
        reach = (self.window - 1) * self.dilation
        start, end = reach // 2, reach - reach // 2
        if self.is_transposed:
            result, filters = self.size * self.stride, (self.inputs, self.outputs // self.groups)
            start = end = -(-max(0, reach + 1 - self.stride) // 2)
            extra = result - (self.stride * (self.size - 1) + reach + 1 - start - end)
        else:
            result, filters, extra = (self.size - 1) // self.stride + 1, (self.outputs, self.inputs // self.groups), 0
        return operators.Convolution(
            input_tensor=self._tensor(self.batch, self.inputs, self.size),
            filter_tensor=self._tensor(*filters, self.window),
            output_tensor=self._tensor(self.batch, self.outputs, result),
            mode=ConvolutionMode.CROSS_CORRELATION,
            direction=ConvolutionDirection.BACKWARD if self.is_transposed else ConvolutionDirection.FORWARD,
            strides=[self.stride] * self.rank,
            dilations=[self.dilation] * self.rank,
            start_padding=[start] * self.rank,
            end_padding=[end] * self.rank,
            output_padding=[extra] * self.rank,
            group_count=self.groups,
        )

    def _tensor(self, first: int, second: int, size: int) -> TensorDesc:
        return TensorDesc("FLOAT32", [first, second, *[size] * self.rank])

    @property
    def name(self) -> str:
        """What the table calls it."""
        window = "x".join([str(self.window)] * (1 if self.rank == 1 else self.rank))
        sizes = "x".join([str(self.size)] * self.rank)
        stride = "" if self.stride == 1 else f"/{self.stride}"
        dilation = "" if self.dilation == 1 else f" dilated by {self.dilation}"
        channels = f"{self.inputs}" if self.inputs == self.outputs else f"{self.inputs} to {self.outputs}"
        return f"{window}{stride}{dilation} {channels}, {sizes} f32, batch {self.batch}"


def _depthwise(channels: int, size: int, window: int = 3, stride: int = 1, *, is_transposed: bool = False) -> Layer:
    return Layer(
        inputs=channels,
        outputs=channels,
        size=size,
        window=window,
        stride=stride,
        groups=channels,
        is_transposed=is_transposed,
    )


def _same(channels: int, size: int, window: int, rank: int = 2, groups: int = 1, dilation: int = 1) -> Layer:
    return Layer(
        inputs=channels, outputs=channels, size=size, window=window, rank=rank, groups=groups, dilation=dilation
    )


LAYERS = {
    "depthwise convolution": (  # MobileNetV2, then EfficientNet and ConvNeXt
        _depthwise(32, 112),
        _depthwise(96, 112, stride=2),
        _depthwise(144, 56),
        _depthwise(144, 56, stride=2),
        _depthwise(192, 28),
        _depthwise(192, 28, stride=2),
        _depthwise(576, 14),
        _depthwise(576, 14, stride=2),
        _depthwise(960, 7),
        _depthwise(240, 28, 5),
        _depthwise(96, 56, 7),
    ),
    "transposed convolution": (
        Layer(inputs=128, outputs=64, size=28, window=2, stride=2, is_transposed=True),
        Layer(inputs=128, outputs=64, size=28, window=4, stride=2, is_transposed=True),
        Layer(inputs=64, outputs=64, size=56, window=3, is_transposed=True),
        Layer(inputs=64, outputs=64, size=28, window=3, stride=2, is_transposed=True),
    ),
    "transposed depthwise convolution": (
        _depthwise(64, 56, is_transposed=True),
        _depthwise(64, 56, stride=2, is_transposed=True),
        _depthwise(64, 28, 4, 2, is_transposed=True),
    ),
    "grouped convolution": (  # ResNeXt-50
        _same(128, 56, 3, groups=32),
        _same(256, 28, 3, groups=32),
        _same(512, 14, 3, groups=32),
        _same(1024, 7, 3, groups=32),
    ),
    "other convolutions": (
        _same(64, 56, 3, dilation=2),
        _same(64, 28, 5),
        Layer(inputs=3, outputs=64, size=224, window=7, stride=2),
        _same(64, 4096, 9, rank=1),
        _same(32, 16, 3, rank=3),
    ),
}
"""By their group in the table."""


def convolution_cases() -> list[Case]:
    """All of them, in the order of the table, of values that do not cancel."""
    return [case for group, layers in LAYERS.items() for case in _cases(group, layers)]


def _cases(group: str, layers: tuple[Layer, ...]) -> Iterator[Case]:
    for layer in layers:
        yield Case(group, layer.name, layer.operator(), Aim(1.0), (0.5, 1.5))
