"""Long results of sums of products: loops over the sums of a tile, whose bits are those of results written out."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from contraction_kernels import TARGETS, convolution, gemm
from nest_running import HOSTS, MANY_THREADS, check_nests, contents_of
from windows import depthwise

from opendml import operators
from opendml.expression.ir import Binary, Expression, Tensor, load, select
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Store
from opendml.loops.nest import Leaf, Nest, Turn, nodes_of
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.knobs.tiles import TileKnobs
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refine
from opendml.targets.cpu.target import CpuTarget

WRITTEN_OUT = 1 << 30
"""So many operations that no result has them."""


pytestmark = pytest.mark.usefixtures("no_cache")


Added = Literal["nothing", "before", "behind"]


def activated(desc: operators.Convolution | operators.Gemm, target: CpuTarget, added: Added = "nothing") -> Definition:
    """What a long function makes of the results of an operator; something that lies as they do is added before or
    behind that."""
    definition = desc.define()
    (*others, statement), (output,) = definition.statements, definition.outputs
    assert isinstance(statement, Compute)
    assert output is not None
    (store,) = statement.stores
    more = Tensor("more", output.type, output.sizes, output.strides, "input")
    beside, inputs = load(more, store.coordinates), (*definition.inputs, more)
    if added == "nothing":
        inputs, value = definition.inputs, _function(store.value)
    elif added == "before":
        value = _function(store.value + beside)
    else:
        value = _function(store.value) + beside
    statements = (*others, Compute(statement.axes, (Store(store.tensor, store.coordinates, value),)))
    return refine(Definition(inputs, definition.outputs, statements), target, ())


def _function(x: Expression) -> Expression:
    for _ in range(2):
        x = x / (1.5 + x * x)
    return select(x < -0.25, x * 0.5 - 0.125, x)


CASES: dict[str, Any] = {
    "one image": convolution(1, 5, 24, 14),
    "rows of short rows": convolution(1, 9, 16, 7),
    "points left over": convolution(1, 3, 16, 20),
    "channels last": convolution(2, 5, 24, 7, has_channels_last=True),
    "one tap": convolution(1, 6, 10, 9, window=1),
    "few channels": convolution(1, 4, 3, 20),
    "windows that overlap": depthwise([2, 24, 7, 9]),
    "large windows": depthwise([1, 40, 9, 11], (5, 5), start=(2, 2), end=(2, 2)),
    "matrix": gemm(13, 24, 37),
    "transposed matrix": gemm(13, 24, 37, trans_b=True),
    "one row": gemm(1, 24, 37),
    "many columns": gemm(20, 7, 100),
}


@pytest.mark.parametrize("added", get_args(Added))
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_definition(name: str, added: Added) -> None:
    for machine in HOSTS:
        target = Processor(machine, MANY_THREADS)
        definition = activated(CASES[name], target, added)
        check_nests(definition, target, contents_of(definition, 3), (1, 0))


def code_of(definition: Definition, target: CpuTarget) -> ProgramCode:
    return Processor(target.machine, target.tuning).generate(definition, in_place=False)


def divisions(code: ProgramCode) -> int:
    return sum(module.count("fdiv") for module in code.modules)


@pytest.mark.parametrize("name", [name for name in CASES if name != "one row"])
@pytest.mark.parametrize("target", TARGETS)
def test_they_are_written_out_once_for_the_points_of_a_tile(name: str, target: CpuTarget) -> None:
    definition = activated(CASES[name], target)
    found = divisions(code_of(definition, target))
    written_out = divisions(code_of(definition, target.tuned(long_results=WRITTEN_OUT)))
    assert 0 < found <= written_out / 2
    assert found == divisions(code_of(definition, target.tuned(long_results=TileKnobs.long_results)))


def test_tiles_of_one_point_have_no_loop() -> None:
    for target in TARGETS:
        definition = activated(CASES["one row"], target)
        found, written_out = (code_of(definition, target.tuned(long_results=n)).modules for n in (1, WRITTEN_OUT))
        assert found == written_out


def operations_of(nest: Nest) -> set[str]:
    """Those of what is stored, but for what is kept in memory of a thread."""
    leaves = (node for node in nodes_of(nest.body) if isinstance(node, Leaf))
    values = [store.value for leaf in leaves for store in leaf.stores if store.tensor not in nest.rows]
    return {e.operation for value in values for e in walk(value) if isinstance(e, Binary)}


def test_what_belongs_to_single_sums_is_computed_before_a_tile_is_transposed() -> None:
    """What is added behind it lies across the tile, and is not."""
    target = TARGETS[1]
    *_, nest = code_of(activated(CASES["points left over"], target, "behind"), target).nests
    assert any(isinstance(node, Turn) for node in nodes_of(nest.body))
    assert "add" in operations_of(nest)
    assert "div" not in operations_of(nest)


def test_what_needs_its_neighbours_across_the_tile_stays_behind_the_transposition() -> None:
    """A function of a sum and of what lies across the tile is no function of single sums."""
    target = TARGETS[1]
    *_, nest = code_of(activated(CASES["points left over"], target, "before"), target).nests
    assert any(isinstance(node, Turn) for node in nodes_of(nest.body))
    assert "div" in operations_of(nest)
