"""Programs of many kernels: what has to wait for what is found without comparing all pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.llvm.host import host_target
from opendml.programs.program import generate
from opendml.targets.cpu.code import program_code


def _join(count: int) -> Operator:
    pieces = [TensorDesc("float32", [1, 4])] * count
    return op.Join(input_tensors=pieces, output_tensor=TensorDesc("float32", [count, 4]), axis=0)


def _split(count: int) -> Operator:
    pieces = [TensorDesc("float32", [1, 4])] * count
    return op.Split(input_tensor=TensorDesc("float32", [count, 4]), output_tensors=pieces, axis=0)


@pytest.mark.parametrize("operator", [_join, _split])
def test_regions_are_compared_with_their_neighbours(
    operator: Callable[[int], Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    meet = program_code._meet

    def counted(a: program_code._Region, b: program_code._Region) -> bool:
        nonlocal compared
        compared += 1
        return meet(a, b)

    monkeypatch.setattr(program_code, "_meet", counted)
    for count in (64, 128):
        compared = 0
        code = generate(operator(count).define(), host_target(), in_place=False)
        assert len(code.kernels) == count
        assert compared <= 2 * count
        assert "@barrier_wait(ptr %barrier" not in code.modules[0]


def test_regions_meet_as_boxes_do() -> None:
    """The answer is that of comparing all pairs."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        rank = int(generator.integers(0, 4))
        regions = program_code._Regions(rank)
        known: list[program_code._Region] = []
        for _ in range(30):
            low, extent = generator.integers(0, 12, rank), generator.integers(0, 3, rank)
            region = tuple((int(a), int(a + b)) for a, b in zip(low, extent, strict=True))
            assert regions.meet(region) == any(program_code._meet(region, other) for other in known)
            regions.add(region)
            known.append(region)
