"""The example networks in PyTorch, written as its users write them, to compare with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Mnist(nn.Module):
    """PyTorch's MNIST example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = torch.flatten(nn.functional.max_pool2d(x, 2), 1)
        return torch.log_softmax(self.fc2(torch.relu(self.fc1(x))), 1)


class Fire(nn.Module):
    """SqueezeNet's module."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.expand1x1(x)), torch.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()

        def pool() -> nn.Module:
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        fires = [Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128), Fire(256, 32, 128), pool()]
        fires += [Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)]
        self.features = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), *fires)
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return torch.flatten(self.classifier(self.features(x)), 1)


def normalized(channels: int, out: int, window: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """MobileNetV2's convolutions with normalisation and ReLU6."""
    convolution = nn.Conv2d(channels, out, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.ReLU6())


class InvertedResidual(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = channels * expansion
        expand = [normalized(channels, inner, 1)] if expansion != 1 else []
        reduce = [nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*expand, normalized(inner, inner, 3, stride, inner), *reduce)
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        features, channels = [normalized(3, 32, 3, 2)], 32
        for expansion, out, count, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for block in range(count):
                features.append(InvertedResidual(channels, out, expansion, stride if block == 0 else 1))
                channels = out
        self.features = nn.Sequential(*features, normalized(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.classifier(self.features(x).mean([2, 3]))


class Bottleneck(nn.Module):
    """ResNet-50's block."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = 4 * inner
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = nn.Identity()
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(self.downsample(x) + y)


class ResNet50(nn.Module):
    """ResNet-50."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = self.stage(64, 64, 3, 1), self.stage(256, 128, 4, 2)
        self.layer3, self.layer4 = self.stage(512, 256, 6, 2), self.stage(1024, 512, 3, 2)
        self.fc = nn.Linear(2048, classes)

    @staticmethod
    def stage(channels: int, inner: int, count: int, stride: int) -> nn.Sequential:
        """Blocks of the same sizes."""
        more = [Bottleneck(4 * inner, inner, 1) for _ in range(count - 1)]
        return nn.Sequential(Bottleneck(channels, inner, stride), *more)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean([2, 3]))


def transformer_encoder(
    features: int = 256, heads: int = 8, inner_features: int = 1024, count: int = 4
) -> nn.TransformerEncoder:
    """PyTorch's own transformer encoder."""
    layer = nn.TransformerEncoderLayer(features, heads, inner_features, 0.0, "gelu", batch_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


MODELS: dict[str, Callable[..., nn.Module]] = {
    "mnist": Mnist,
    "squeezenet": SqueezeNet,
    "mobilenet_v2": MobileNetV2,
    "resnet50": ResNet50,
    "transformer_encoder": transformer_encoder,
}
