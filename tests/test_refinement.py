"""Refinement moves bits: what a target makes of a definition is, bit for bit, what the definition says."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from execution import Array, assert_same_values, random_array, seeds
from hypothesis import given
from properties import examples
from random_descriptors import descriptors, is_drawn

from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.expression.interpreter import run_interpreted
from opendml.expression.statements import Definition
from opendml.llvm.host import machine_of
from opendml.operators import implemented
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget

TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))


def interpreted(definition: Definition, arrays: list[Array | None]) -> list[Any]:
    return run_interpreted(
        definition,
        [
            None if a is None or t is None else a.reshape(t.sizes)
            for a, t in zip(arrays, definition.inputs, strict=True)
        ],
    )


def assert_refined_is_defined(desc: Operator, target: CpuTarget = TARGET, seed: int = 0) -> Definition:
    """What the target computes is what the definition says; returns what the target computes."""
    arrays = [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    refined = refined_definition(desc, target)
    for found, expected in zip(interpreted(refined, arrays), interpreted(desc.define(), arrays), strict=True):
        if expected is not None:
            assert_same_values(found, expected)
    return refined


@examples(1000)
@given(data=st.data(), seed=seeds, operator_type=st.sampled_from([o for o in implemented() if is_drawn(o)]))
def test_any_operator(data: st.DataObject, seed: int, operator_type: OperatorType) -> None:
    assert_refined_is_defined(data.draw(descriptors(operator_type)), seed=seed % 1000)
