"""Layouts of the tensors between operators (``layouts.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class LayoutKnobs:
    """Where the channels of a point lie side by side."""

    most_run_registers: int = 32
    """Vector registers of a processor up to which they do. Where channels are planes each step of a sum of single
    points is on pages of its own, and a tile of few registers has few points, which it reads from as many places, and
    each of its vectors of channels is transposed before it is stored: ResNet-50's convolutions of one tap take 5 to 30%
    less time without (Zen 3). With many registers those that read many channels of 56x56 and 28x28 take a tenth to a
    third less: SqueezeNet, MobileNetV2 and EfficientNet 5 to 10% (Emerald Rapids, 2 threads), up to a quarter with 16.
    Depthwise convolutions of 14x14 take a quarter to a third longer. With two threads of Zen 4 SqueezeNet, EfficientNet
    and ConvNeXt take 3 to 6% less time, MobileNetV2, ResNet-50 and YOLOv8n up to 3%."""

    aliased_run_bytes: int = 1024
    """Bytes of a point's channels of which no multiple is the distance between points: those of a tile would share a
    few places of the nearest cache. Points are a cache line further apart then."""

    fewest_run_steps: int = 256
    """Channels of a sum over those of a point from which on it gains by that, too, where what it gives lies in planes:
    tiles of shorter sums are transposed too often. With 24 channels of 56x56 points they take a fifth longer, with 192
    of 7x7 7% less time (Zen 3)."""
