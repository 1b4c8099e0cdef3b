"""Graphs whose statements are done block by block behind fusion: which blocks there are, and that no bit differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from execution import assert_identical

import opendml as dml
from opendml.description.graph_desc import GraphDesc
from opendml.expression.interpreter import run_interpreted
from opendml.expression.statements import Definition, Each, Single
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import CpuTarget, host_target
from opendml.targets.cpu.tuning import Tuning

Array = npt.NDArray[np.float32]
Network = Callable[..., Any]
Rule = Callable[[Definition, CpuTarget], tuple[Definition, dict[Single, Single]]]


def described(network: Network, sizes: Sequence[Sequence[int]]) -> GraphDesc:
    """A graph whose weights are inputs, too."""
    graph = dml.Graph()
    return graph.describe(network(*(graph.input("float32", one) for one in sizes)))


def blocks_of(rule: Rule, network: Network, sizes: Sequence[Sequence[int]], tuning: Tuning) -> list[Each]:
    """What a rule makes of a graph. Results are those of operators one at a time: interpreted, and compiled, by any
    number of threads."""
    desc = described(network, sizes)
    random = np.random.default_rng(0)
    arrays = [random.normal(size=one).astype(np.float32) for one in sizes]
    expected = results(dml.Device("reference"), desc, arrays)
    for count in (1, 2, 3, 7):
        found = results(dml.Device(thread_count=count, tuning=tuning), desc, arrays)
        for one, other in zip(found, expected, strict=True):
            assert_identical(one, other)
    execution = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs).execution
    cut, wholes = rule(execution, host_target(tuning=tuning))
    for interpreted, other in zip(run_interpreted(cut, arrays), expected, strict=True):
        assert interpreted is not None
        assert_identical(interpreted.reshape(other.shape), other)
    eaches = [statement for statement in cut.statements if isinstance(statement, Each)]
    assert set(wholes) == {part for each in eaches for part in each.statements}
    assert all(whole in execution.statements for whole in wholes.values())
    return eaches


def results(device: dml.Device, desc: GraphDesc, arrays: Sequence[Array]) -> list[Array]:
    found = device.compile_graph(desc)(*arrays)
    return [np.asarray(one) for one in (found if isinstance(found, (tuple, list)) else [found])]
