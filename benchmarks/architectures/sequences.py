"""Recurrent networks."""

from __future__ import annotations

from torch import Tensor, nn


class Recurrent(nn.Module):
    """Two layers of LSTM in both directions, and a linear layer for each step of {N, length, features}."""

    def __init__(self, features: int = 128, hidden: int = 256, classes: int = 64) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])
