"""Where temporary tensors lie: only those alive at the same time are compared, with the answer of all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from opendml.expression.element_types import F32
from opendml.expression.ir import Tensor, temporary
from opendml.loops import memory_plan

Lives = dict[Tensor, tuple[int, int]]


def _tensors(count: int) -> list[Tensor]:
    return [temporary(f"t{n}", F32, [16]) for n in range(count)]


def _by_pairs(order: Sequence[Tensor], lives: Lives, sizes: Mapping[Tensor, int]) -> dict[Tensor, int]:
    """Each at the lowest place that is free all through its life, all that are placed before it looked at."""
    offsets: dict[Tensor, int] = {}
    for tensor in order:
        first, last = lives[tensor]
        met = [o for o in offsets if lives[o][0] <= last and first <= lives[o][1]]
        ends = sorted({0, *(offsets[o] + sizes[o] for o in met)})
        offsets[tensor] = next(
            place
            for place in ends
            if all(place + sizes[tensor] <= offsets[o] or offsets[o] + sizes[o] <= place for o in met)
        )
    return offsets


def test_places_are_those_of_all_pairs() -> None:
    generator = np.random.default_rng(6)
    for _ in range(50):
        tensors = _tensors(int(generator.integers(1, 30)))
        begins, lengths = generator.integers(0, 20, len(tensors)), generator.integers(0, 12, len(tensors))
        lives: Lives = {t: (int(a), int(a + n)) for t, a, n in zip(tensors, begins, lengths, strict=True)}
        sizes = {tensor: 64 * int(generator.integers(1, 6)) for tensor in tensors}
        assert memory_plan._placed(tensors, lives, sizes) == _by_pairs(tensors, lives, sizes)


def test_a_chain_looks_at_neighbours() -> None:
    """Of tensors that live for two statements each few are looked at, however many there are."""
    looked = 0

    class Counted(Lives):
        def __getitem__(self, tensor: Tensor) -> tuple[int, int]:
            nonlocal looked
            looked += 1
            return super().__getitem__(tensor)

    for count in (100, 200):
        tensors, looked = _tensors(count), 0
        lives = Counted({tensor: (n, n + 1) for n, tensor in enumerate(tensors)})
        found = memory_plan._placed(tensors, lives, dict.fromkeys(tensors, 64))
        assert set(found.values()) == {0, 64}
        assert looked <= 3 * count
