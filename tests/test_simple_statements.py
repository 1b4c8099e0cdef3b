"""What is little is one loop, point by point, where it runs once: the shortest code there is."""

from __future__ import annotations

from typing import Any

import pytest
from contraction_kernels import TARGETS, fixed_kernel, gemm
from nest_running import HOSTS, MANY_THREADS, check_nests, contents_of

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Definition
from opendml.loops.nest import Loop, Points, nodes_of
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.processor import Processor

SIMPLE = 1 << 19


pytestmark = pytest.mark.usefixtures("no_cache")


def copy(sizes: list[int], source: str = "float32", result: str = "float32") -> Definition:
    """A transposition of the last two dimensions."""
    *outer, rows, columns = sizes
    strides = [rows * columns] * len(outer)
    desc = operators.Cast(
        input_tensor=TensorDesc(source, [*outer, columns, rows], strides=[*strides, 1, columns]),
        output_tensor=TensorDesc(result, [*outer, columns, rows]),
    )
    return desc.define()


CASES: dict[str, Definition] = {
    "transposition": copy([1, 1, 40, 56]),
    "cast": copy([2, 1, 17, 9], "float16", "int8"),
    "one element": copy([1, 1, 1, 1]),
    "activation": operators.ActivationElu(
        input_tensor=TensorDesc("float32", [3, 33]), output_tensor=TensorDesc("float32", [3, 33]), alpha=0.5
    ).define(),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_definition(name: str) -> None:
    for machine in HOSTS:
        target = Processor(machine, MANY_THREADS).tuned(simple_work=SIMPLE)
        check_nests(CASES[name], target, contents_of(CASES[name], 1), (1, 0))


def size_of(code: Any) -> int:
    assert isinstance(code, ProgramCode)
    return sum(map(len, code.modules))


def test_only_what_runs_once_is_simple() -> None:
    """The first definition of a program runs again and again."""
    definition, target = CASES["transposition"], Processor(HOSTS[0], MANY_THREADS)
    always, once = target.build([definition, definition]).codes
    assert isinstance(once, ProgramCode)
    assert size_of(always) == size_of(target.generate(definition, in_place=False))
    assert size_of(once) * 2 < size_of(always)
    (kernel,) = once.kernels
    assert isinstance(kernel, ComputeKernel)
    assert (kernel.lanes, kernel.serial, kernel.shared) == (1, True, ())
    nodes = list(nodes_of(once.nests[0].body))
    assert sum(isinstance(node, Loop) for node in nodes) == 2
    assert not any(isinstance(node, Points) for node in nodes)


def test_what_is_more_and_what_has_sums_is_done_as_ever() -> None:
    for target in TARGETS:
        simple = target.tuned(simple_work=40 * 56)
        for definition, is_simple in ((CASES["transposition"], True), (copy([1, 1, 41, 56]), False)):
            (kernel,) = Processor(simple.machine, simple.tuning).generate(definition, in_place=False).kernels
            assert isinstance(kernel, ComputeKernel)
            assert (kernel.lanes == 1) == is_simple
        assert fixed_kernel(gemm(4, 8, 32), target.tuned(simple_work=SIMPLE)).lanes > 1
