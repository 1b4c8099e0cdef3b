"""The nests that kernels of graphics processors are written from: run by their interpreter they give the definitions'
bits, whatever the order of the threads."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from execution import assert_same_values, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nest_running import contents_of, run_by_nests_of
from properties import examples
from random_definitions import definitions
from random_descriptors import descriptors, is_drawn
from sample_descriptors import samples

from opendml.description.enums import OperatorType
from opendml.expression.interpreter import interpret
from opendml.expression.statements import Definition, Each, Order, Repeat, Scan, Scatter, Statement
from opendml.loops.nest import Items, Leaf, Loop, nodes_of
from opendml.targets.gpu.dialect import SPIRV
from opendml.targets.gpu.nests import nest_of
from opendml.targets.gpu.program import generate

DRAWN = [operator_type for operator_type in OperatorType if is_drawn(operator_type)]


MOST_POINTS = 1500
"""Points of the statements that are checked, at most: the interpreter goes from one to the next."""


def _points(statement: Statement) -> int:
    if isinstance(statement, Repeat):
        return statement.axis.size * sum(map(_points, statement.statements))
    if isinstance(statement, Each):
        return math.prod(axis.size for axis in statement.axes) * sum(map(_points, statement.statements))
    along = statement.along.size if isinstance(statement, Scan | Order) else 1
    ranks = statement.rank.size if isinstance(statement, Order) else 1
    return math.prod(axis.size for axis in statement.axes) * along * ranks


def _check(definition: Definition, seed: int) -> None:
    contents = contents_of(definition, seed)
    expected = {tensor: content.copy() for tensor, content in contents.items()}
    interpret(definition, expected)
    found = run_by_nests_of(definition, contents, nest_of, (1, 0))
    for tensor, buffer in found.items():
        assert_same_values(buffer, expected[tensor])


@examples(10, suppress_health_check=list(HealthCheck))
@given(definitions(), seeds)
def test_random_definitions(definition: Definition, seed: int) -> None:
    _check(definition, seed)


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=seeds)
def test_random_descriptors(operator_type: Any, data: st.DataObject, seed: int) -> None:
    definition = data.draw(descriptors(operator_type)).define()
    if sum(map(_points, definition.statements)) <= MOST_POINTS:
        _check(definition, seed)


def test_every_kernel_is_written_from_its_nest() -> None:
    """A thread for each work item; what the text stores, carries and loops over is what the nest says."""
    kinds = set()
    for desc in samples():
        code = generate(desc.define(), SPIRV, divides_exactly=True, has_float64=True)
        assert [kernel.text for kernel in code.describe_kernels()]
        for kernel in code.kernels:
            kinds.add(type(kernel.statement))
            (items,) = kernel.nest.body
            assert isinstance(items, Items)
            assert f"icmp ult i64 %position, {items.count}" in kernel.text
            nodes = list(nodes_of(items.body))
            stores = sum(len(node.stores) for node in nodes if isinstance(node, Leaf))
            assert len(re.findall(r"  store .*addrspace\(1\)", kernel.text)) == stores
            assert kernel.text.count("phi i64 [ 0,") >= sum(isinstance(node, Loop) for node in nodes)
    assert {Scan, Scatter, Order} <= kinds
