"""Networks on images {N, 3, H, W}: EfficientNet, ConvNeXt, a U-Net and a vision transformer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.architectures.transformers import Block


class EfficientNet(nn.Module):
    """EfficientNet-B0 (Tan and Le, 2019): inverted residual blocks that weigh their channels."""

    STAGES = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    """Expansion, channels, blocks, stride of the first one and window of each stage."""

    def __init__(self, classes: int = 1000, stages: int = len(STAGES)) -> None:
        super().__init__()
        blocks, channels = [normalized(3, 32, 3, 2)], 32
        for expansion, out, count, stride, window in self.STAGES[:stages]:
            for block in range(count):
                blocks.append(WeighedBlock(channels, out, expansion, stride if block == 0 else 1, window))
                channels = out
        self.features = nn.Sequential(*blocks, normalized(channels, 1280, 1))
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class WeighedBlock(nn.Module):
    """A depthwise convolution between two pointwise ones; channels are weighed by what all of them are on average."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int, window: int) -> None:
        super().__init__()
        inner, squeezed = channels * expansion, channels // 4
        self.expand = normalized(channels, inner, 1) if expansion != 1 else nn.Identity()
        self.depthwise = normalized(inner, inner, window, stride, inner)
        self.squeeze, self.excite = nn.Conv2d(inner, squeezed, 1), nn.Conv2d(squeezed, inner, 1)
        self.project = nn.Sequential(nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        weights = self.excite(nn.functional.silu(self.squeeze(nn.functional.adaptive_avg_pool2d(y, 1))))
        y = self.project(y * torch.sigmoid(weights))
        return x + y if self.adds else y


def normalized(channels: int, out: int, window: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution with batch normalisation and SiLU."""
    convolution = nn.Conv2d(channels, out, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.SiLU())


class ConvNeXt(nn.Module):
    """ConvNeXt-Tiny (Liu and others, "A ConvNet for the 2020s", 2022)."""

    def __init__(
        self,
        classes: int = 1000,
        counts: tuple[int, ...] = (3, 3, 9, 3),
        channels: tuple[int, ...] = (96, 192, 384, 768),
    ) -> None:
        super().__init__()
        stages: list[nn.Module] = [nn.Conv2d(3, channels[0], 4, 4), ChannelNorm(channels[0])]
        for stage, (count, width) in enumerate(zip(counts, channels, strict=True)):
            if stage:
                stages += [ChannelNorm(channels[stage - 1]), nn.Conv2d(channels[stage - 1], width, 2, 2)]
            stages += [ConvNeXtBlock(width) for _ in range(count)]
        self.features = nn.Sequential(*stages)
        self.norm, self.head = nn.LayerNorm(channels[-1], 1e-6), nn.Linear(channels[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.features(x).mean([2, 3])))


class ChannelNorm(nn.Module):
    """A layer normalisation of the channels of every pixel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A depthwise 7x7 convolution, and a perceptron for each pixel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, 1e-6)
        self.expand, self.project = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full([channels], 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.project(nn.functional.gelu(self.expand(y)))
        return x + y.permute(0, 3, 1, 2)


class UNet(nn.Module):
    """A U-Net (Ronneberger and others, 2015) with batch normalisation: down by pooling, up by transposed convolutions,
    with what was there on the way down joined to it."""

    def __init__(self, channels: int = 32, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [channels << level for level in range(levels + 1)]
        self.enter = double_convolution(3, channels)
        steps = list(pairwise(widths))
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), double_convolution(*step)) for step in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(low, high, 2, 2) for high, low in reversed(steps))
        self.join = nn.ModuleList(double_convolution(low, high) for high, low in reversed(steps))
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        passed = [self.enter(x)]
        for down in self.down:
            passed.append(down(passed[-1]))
        y = passed.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat([passed.pop(), up(y)], 1))
        return self.head(y)


def double_convolution(channels: int, out: int) -> nn.Sequential:
    """Two convolutions, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for width in (channels, out):
        layers += [nn.Conv2d(width, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers)


class VisionTransformer(nn.Module):
    """ViT-B/16 (Dosovitskiy and others, 2021): patches of an image as a sequence."""

    def __init__(
        self,
        image_size: int = 224,
        features: int = 768,
        heads: int = 12,
        count: int = 12,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        patches = (image_size // 16) ** 2
        self.patch = nn.Conv2d(3, features, 16, 16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, features))
        self.position = nn.Parameter(torch.empty(1, patches + 1, features).normal_(0, 0.02))
        self.blocks = nn.Sequential(*(Block(features, heads, 1e-6) for _ in range(count)))
        self.norm, self.head = nn.LayerNorm(features, 1e-6), nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])
