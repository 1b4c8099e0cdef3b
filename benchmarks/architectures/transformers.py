"""Transformers: blocks of attention, BERT and GPT-2 with a cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn

attend = nn.functional.scaled_dot_product_attention


class Attention(nn.Module):
    """Attention of a sequence {N, length, features} to itself, by heads."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(features, features) for _ in range(3))
        self.out = nn.Linear(features, features)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (self.by_heads(part(x)) for part in (self.query, self.key, self.value))
        return self.out(joined(attend(query, key, value, mask)))

    def by_heads(self, x: Tensor) -> Tensor:
        """{N, length, features} as {N, heads, length, features of a head}."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """{N, heads, length, features of a head} as {N, length, features}."""
    return x.transpose(1, 2).flatten(2)


def perceptron(features: int, approximate: str = "none") -> nn.Sequential:
    """Two layers with GELU between them."""
    return nn.Sequential(
        nn.Linear(features, 4 * features), nn.GELU(approximate=approximate), nn.Linear(4 * features, features)
    )


class Block(nn.Module):
    """Attention and a perceptron, normalised before each."""

    def __init__(self, features: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(features, epsilon), nn.LayerNorm(features, epsilon)
        self.attention, self.perceptron = Attention(features, heads), perceptron(features)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.perceptron(self.norm2(x))


class Bert(nn.Module):
    """BERT-base (Devlin and others, 2018): words and a mask of those that count, the last layer and the first word's
    part of it."""

    def __init__(
        self, words: int = 30522, features: int = 768, heads: int = 12, count: int = 12, length: int = 512
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, features)
        self.positions, self.kinds = nn.Embedding(length, features), nn.Embedding(2, features)
        self.norm = nn.LayerNorm(features, 1e-12)
        self.layers = nn.ModuleList(BertLayer(features, heads) for _ in range(count))
        self.pooler = nn.Linear(features, features)

    def forward(self, words: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(words.shape[1], device=words.device)
        x = self.norm(self.words(words) + self.kinds(torch.zeros_like(words)) + self.positions(positions))
        mask = (1.0 - counts[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class BertLayer(nn.Module):
    """Attention and a perceptron, normalised after each."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.attention, self.perceptron = Attention(features, heads), perceptron(features)
        self.norm1, self.norm2 = nn.LayerNorm(features, 1e-12), nn.LayerNorm(features, 1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.perceptron(x))


class Gpt2(nn.Module):
    """GPT-2 (Radford and others, 2019) for one more word: the keys and values of those before it, two tensors a
    layer, go in and come out with the word's own at their end."""

    def __init__(
        self, words: int = 50257, features: int = 768, heads: int = 12, count: int = 12, length: int = 1024
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, features), nn.Embedding(length, features)
        self.blocks = nn.ModuleList(Gpt2Block(features, heads) for _ in range(count))
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: Tensor, positions: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        x, present = self.words(words) + self.positions(positions), []
        for number, block in enumerate(self.blocks):
            x, key, value = block(x, past[2 * number], past[2 * number + 1])
            present += [key, value]
        return self.head(self.norm(x)), *present


class Gpt2Block(nn.Module):
    """Attention to all words so far and a perceptron, normalised before each."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.projected, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.perceptron = perceptron(features, "tanh")

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = (
            part.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            for part in self.projected(self.norm1(x)).chunk(3, 2)
        )
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        x = x + self.out(joined(attend(query, keys, values)))
        return x + self.perceptron(self.norm2(x)), keys, values
