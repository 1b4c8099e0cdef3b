"""Sums that write the margins around their rows: which do, that no bit differs, and that nothing else is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from execution import assert_identical
from hypothesis import given
from hypothesis import strategies as st
from nest_running import HOSTS, MANY_THREADS, ORDERS, check_nests, contents_of
from properties import examples

import opendml as dml
from opendml.description.errors import CodeGenerationError
from opendml.expression.interpreter import run_interpreted
from opendml.expression.statements import Compute, Definition, stores_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.contraction import schedule_contraction
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.refine.rows_with_margins import rows_with_margins
from opendml.targets.cpu.schedule import schedule_compute

PROCESSORS: Final = [Processor(machine, MANY_THREADS) for machine in HOSTS if machine.masks_vectors]

COLUMNS: Final = st.integers(7, 36) | st.integers(48, 99)
"""Of rows that hold a vector and a half, and of those long enough for most vectors to be inside of them."""

pytestmark = pytest.mark.skipif(not PROCESSORS, reason="stores of this processor leave no lanes out")


def execution(
    target: Processor,
    sizes: Sequence[int],
    channels: int,
    first: int,
    padding: tuple[int, int, int, int],
    *,
    stride: int = 1,
    data_type: str = "float32",
) -> Definition:
    """A convolution of single points, or of windows, and one that reads it with margins; all weights are inputs."""
    graph = dml.Graph()
    given = ([channels, sizes[1], first, first], [3, channels, 3, 3])
    x, a, b = (graph.input(data_type, one) for one in (sizes, *given))
    made = dml.activation_relu(dml.convolution(x, a, start_padding=[first // 2] * 2, end_padding=[first // 2] * 2))
    start, end = list(padding[:2]), list(padding[2:])
    desc = graph.describe(dml.convolution(made, b, start_padding=start, end_padding=end, strides=[stride, stride]))
    return divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution


def margins_of(definition: Definition) -> list[tuple[int, int, int]]:
    """Rows that have margins, and how wide these are before and behind."""
    found = (store.margins for statement in definition.statements for store in stores_of(statement))
    return [(margins.row, margins.before, margins.behind) for margins in found if margins is not None]


@examples(24)
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(16, 17), st.integers(3, 5), COLUMNS),
    channels=st.integers(1, 14),
    first=st.sampled_from([1, 1, 3]),
    padding=st.tuples(*[st.integers(0, 1)] * 4),
    stride=st.integers(1, 2),
    data_type=st.sampled_from(["float32", "float32", "float16"]),
    target=st.sampled_from(PROCESSORS),
    order=ORDERS,
    seed=st.integers(0, 99),
)
def test_code_and_nests_write_what_the_definition_says(
    sizes: tuple[int, int, int, int],
    channels: int,
    first: int,
    padding: tuple[int, int, int, int],
    stride: int,
    data_type: str,
    target: Processor,
    order: Sequence[int],
    seed: int,
) -> None:
    """Between guard pages, by 1, 2 and 7 threads."""
    definition = execution(target, sizes, channels, first, padding, stride=stride, data_type=data_type)
    check_nests(definition, target, contents_of(definition, seed), order)
    changed, _ = rows_with_margins(definition, target)
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=t.sizes).astype(data_type) for t in definition.inputs if t is not None]
    for found, expected in zip(run_interpreted(changed, arrays), run_interpreted(definition, arrays), strict=True):
        assert found is not None
        assert expected is not None
        assert_identical(found, expected)


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("columns", [7, 14, 28, 64])
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 1, 0)])
def test_who_writes_margins(first: int, columns: int, padding: tuple[int, int, int, int]) -> None:
    """Rows of all lengths, whether vectors end with them or not."""
    for target in PROCESSORS:
        definition = execution(target, [2, 16, 5, columns], 32, first, padding)
        changed, wholes = rows_with_margins(definition, target)
        assert margins_of(changed) == [(columns, padding[1], padding[3])]
        assert len(definition.statements) - len(changed.statements) == 1
        assert all(whole in definition.statements for whole in wholes.values())
        assert all(part in changed.statements for part in wholes)


def plain_stores(target: Processor, row: int) -> int:
    """Whole vectors that the kernel that writes margins stores without a mask."""
    code = generate(execution(target, [1, 32, 8, row], 16, 1, (1, 1, 1, 1)), target, in_place=False)
    functions = [text.partition("\n}")[0] for text in "".join(code.modules).split("\ndefine ")]
    (writing,) = (text for text in functions if "@llvm.masked.store" in text and "@llvm.fma" in text)
    return writing.count(f"store <{target.machine.lanes(32)} x float>")


def test_vectors_inside_of_long_rows_are_stored_without_masks() -> None:
    for target in PROCESSORS:
        lanes = target.machine.lanes(32)
        assert plain_stores(target, 4 * lanes) > 0 == plain_stores(target, 2 * lanes)


def test_all_places_are_one_row() -> None:
    """A vector goes on in the next row, and knows how far that is."""
    for target in PROCESSORS:
        changed, _ = rows_with_margins(execution(target, [1, 64, 14, 14], 64, 1, (1, 1, 1, 1)), target)
        (rows,) = (s for s in changed.statements if isinstance(s, Compute) and s.stores[0].margins is not None)
        kernel = schedule_contraction(rows, target)
        assert kernel is not None
        assert kernel.vector.size == 14 * 14
        assert "1 before and 1 behind every 14 along" in format_nest(kernel_nest(kernel, target))
        with pytest.raises(CodeGenerationError):
            schedule_compute(rows, target, in_place=False)


def test_others_leave_margins_to_statements_of_their_own() -> None:
    """Wide margins, rows shorter than any vector reaches four of, processors that store whole vectors alone."""
    (target, *_) = PROCESSORS
    wide: dict[str, Any] = {"start_padding": [2, 2], "end_padding": [2, 2]}
    graph = dml.Graph()
    x, a, b = (graph.input("float32", one) for one in ([1, 16, 14, 14], [8, 16, 1, 1], [3, 8, 5, 5]))
    desc = graph.describe(dml.convolution(dml.convolution(x, a), b, **wide))
    found = divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution
    assert margins_of(rows_with_margins(found, target)[0]) == []
    short = execution(target, [1, 16, 6, 6], 8, 1, (1, 1, 1, 1))
    assert margins_of(rows_with_margins(short, target)[0]) == []
    plain = replace(target, knobs=replace(target.tuning, graph=replace(target.tuning.graph, margined_row=None)))
    unchanged = execution(plain, [1, 16, 14, 14], 8, 1, (1, 1, 1, 1))
    assert rows_with_margins(unchanged, plain) == (unchanged, {})
