"""A network that finds objects in images {N, 3, H, W}: YOLOv8."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.architectures.images import normalized

BINS = 16
"""The distances that each side of a box is a mean of."""


class Yolo(nn.Module):
    """YOLOv8n (Jocher and others, 2023) without the choice among boxes: {N, 4 + classes, boxes}, the middle, width and
    height of each and how much it is of each class."""

    STRIDES = (8, 16, 32)

    def __init__(self, image_size: int = 640, classes: int = 80, width: int = 16) -> None:
        super().__init__()
        a, b, c, d, e = (width << step for step in range(5))
        self.down1 = nn.Sequential(normalized(3, a, 3, 2), normalized(a, b, 3, 2), Split(b, b, 1, True))
        self.down2 = nn.Sequential(normalized(b, c, 3, 2), Split(c, c, 2, True))
        self.down3 = nn.Sequential(normalized(c, d, 3, 2), Split(d, d, 2, True))
        self.down4 = nn.Sequential(normalized(d, e, 3, 2), Split(e, e, 1, True), Pyramid(e))
        self.grow = nn.Upsample(scale_factor=2)
        self.join3, self.join2 = Split(d + e, d, 1, False), Split(c + d, c, 1, False)
        self.shrink2, self.shrink3 = normalized(c, c, 3, 2), normalized(d, d, 3, 2)
        self.again3, self.again4 = Split(c + d, d, 1, False), Split(d + e, e, 1, False)
        self.sides = nn.ModuleList(head(channels, max(16, c // 4, 64), 4 * BINS) for channels in (c, d, e))
        self.kinds = nn.ModuleList(head(channels, max(c, min(classes, 100)), classes) for channels in (c, d, e))
        middles, strides = anchors(image_size, self.STRIDES)
        self.register_buffer("middles", middles)
        self.register_buffer("strides", strides)
        self.register_buffer("distances", torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        level2 = self.down2(self.down1(x))
        level3 = self.down3(level2)
        level4 = self.down4(level3)
        inner3 = self.join3(torch.cat([self.grow(level4), level3], 1))
        found2 = self.join2(torch.cat([self.grow(inner3), level2], 1))
        found3 = self.again3(torch.cat([self.shrink2(found2), inner3], 1))
        found4 = self.again4(torch.cat([self.shrink3(found3), level4], 1))
        levels = (found2, found3, found4)
        sides = torch.cat([side(level).flatten(2) for side, level in zip(self.sides, levels, strict=True)], 2)
        kinds = torch.cat([kind(level).flatten(2) for kind, level in zip(self.kinds, levels, strict=True)], 2)
        return torch.cat([self.boxes(sides), torch.sigmoid(kinds)], 1)

    def boxes(self, sides: Tensor) -> Tensor:
        """The middle, width and height of boxes, in pixels."""
        n, _, count = sides.shape
        likely = sides.view(n, 4, BINS, count).transpose(1, 2).softmax(1)
        before, behind = (likely * self.distances).sum(1).chunk(2, 1)
        start, end = self.middles - before, self.middles + behind
        return torch.cat([(start + end) / 2, end - start], 1) * self.strides


class Split(nn.Module):
    """A convolution whose second half goes through blocks of two more; all that comes out is joined (C2f)."""

    def __init__(self, channels: int, out: int, count: int, adds: bool) -> None:
        super().__init__()
        self.inner, self.adds = out // 2, adds
        self.enter, self.leave = normalized(channels, out, 1), normalized((2 + count) * self.inner, out, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(normalized(self.inner, self.inner, 3), normalized(self.inner, self.inner, 3))
            for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]) if self.adds else block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """The maxima of windows of 5, 9 and 13 beside the values (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter, self.leave = normalized(channels, channels // 2, 1), normalized(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.leave(torch.cat(parts, 1))


def head(channels: int, inner: int, out: int) -> nn.Sequential:
    """What is said of each pixel of a level."""
    return nn.Sequential(normalized(channels, inner, 3), normalized(inner, inner, 3), nn.Conv2d(inner, out, 1))


def anchors(image_size: int, strides: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The middles {2, boxes} of all pixels of all levels, in their own units, and these in pixels {1, boxes}."""
    middles, units = [], []
    for stride in strides:
        places = torch.arange(image_size // stride) + 0.5
        y, x = torch.meshgrid(places, places, indexing="ij")
        middles.append(torch.stack([x.flatten(), y.flatten()]))
        units.append(torch.full([1, x.numel()], float(stride)))
    return torch.cat(middles, 1), torch.cat(units, 1)
