"""Work items at the ends of shares: each is done once, by whichever thread is done first with its own."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.expression.ir import Axis
from opendml.loops.nest import Cut, Items
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

POOLED = replace(TUNING, serial_work=0, pooled_work=0, pooled_part=0.5)
COUNTERS = 8


def graph_of(threads: int, tuning: Any = POOLED) -> dml.Graph:
    return dml.Graph(dml.Device("cpu", thread_count=threads, tuning=tuning))


def counters(text: str) -> list[str]:
    """What the kernels with pools are called with in the entry: which counters beside the barrier, or null."""
    entry = text[text.index(f"define void @{ENTRY}") :]
    chosen = dict(re.findall(r"(%\w+) = call ptr @pools\(ptr %barrier, i64 %threads, i64 (\d+)\)", entry))
    arguments = re.findall(r"i64 %threads, ptr (%\w+|null)", entry)
    return [chosen.get(argument, argument) for argument in arguments if argument == "null" or argument in chosen]


def texts(output: Any, *, tuning: Any = POOLED) -> str:
    """The text of a graph's program."""
    from opendml.graph.compilation import divide_and_fuse
    from opendml.graph.joining import join
    from opendml.targets.cpu.compilation import generate
    from opendml.targets.cpu.refine.refining import refining

    target = replace(host_target(), knobs=tuning)
    execution = divide_and_fuse(join(output, refining(target)), costs=target.costs).execution
    return "\n".join(generate(execution, target, in_place=False).modules)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_kernels_without_a_barrier_between_them_have_counters_of_their_own(threads: int) -> None:
    """There are eight; what more kernels there are is shared out whole. They begin anew with every dispatch."""
    graph = graph_of(threads)
    inputs = [graph.input("FLOAT32", [64, 5 + n]) for n in range(COUNTERS + 2)]
    program = graph.compile([dml.sqrt(tensor) for tensor in inputs])
    arrays = [np.arange(64 * (5 + n), dtype=np.float32).reshape(64, 5 + n) for n in range(len(inputs))]
    for _ in range(3):
        for found, array in zip(program(*arrays), arrays, strict=True):
            assert (found == np.sqrt(array)).all()


def test_counters_begin_anew_behind_a_barrier() -> None:
    graph = graph_of(2)
    inputs = [graph.input("FLOAT32", [64, 5 + n]) for n in range(COUNTERS + 2)]
    first = graph.describe([dml.sqrt(tensor) for tensor in inputs])
    assert counters(texts(first)) == [*(str(n) for n in range(COUNTERS)), "null", "null"]
    # A sum along the first axis waits for all the roots, and is read by two kernels.
    graph = graph_of(2)
    rows = dml.cumulative_summation(dml.sqrt(graph.input("FLOAT32", [64, 33])), axis=0)
    behind = graph.describe(dml.cumulative_summation(rows, axis=1))
    found = counters(texts(behind))
    assert found.count("0") == len(found) >= 2


def test_small_kernels_have_no_pool() -> None:
    graph = graph_of(2, TUNING)
    output = graph.describe(dml.sqrt(graph.input("FLOAT32", [256, 256])))
    assert counters(texts(output, tuning=TUNING)) == []
    assert counters(texts(output, tuning=replace(TUNING, pooled_work=1 << 12))) == ["0"]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("runs", [1, 3, 64, 1 << 20])
def test_items_are_taken_in_runs(threads: int, runs: int) -> None:
    """So many small ones that a counter that gives them out one by one would be what threads wait for: not more runs
    than wanted, whatever the number of items, and each item is done."""
    tuning = replace(POOLED, pooled_runs=runs)
    graph = graph_of(threads, tuning)
    tensor = graph.input("INT8", [1, 3, 118, 6])
    output = dml.max_pooling(tensor, window_size=[2, 2], strides=[2, 2]).values
    text = texts(graph.describe(output), tuning=tuning)
    ((count, kept, taken),) = re.findall(r"@next_run\(.*%threads, i64 (\d+), i64 (\d+), i64 (\d+), i64 %ahead", text)
    pool = int(3 * 59 * tuning.pooled_part)
    assert (int(count), int(kept), int(taken)) == (3 * 59, 3 * 59 - pool, -(-pool // runs))
    array = np.random.default_rng(runs).integers(-128, 128, (1, 3, 118, 6), np.int8)
    expected = array.reshape(1, 3, 59, 2, 3, 2).max((3, 5))
    program = graph.compile(output)
    for _ in range(2):
        assert (program(array) == expected).all()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("transposed", [False, True])
def test_panels_are_filled_for_the_items_that_a_thread_takes(threads: int, transposed: bool) -> None:
    """Of one panel or of several: its product has the bits of the interpreter, dispatch for dispatch."""
    generator = np.random.default_rng(threads)
    a = generator.standard_normal((96, 40), np.float32)
    b = generator.standard_normal((200, 40) if transposed else (40, 200), np.float32)
    transform = "TRANSPOSE" if transposed else "NONE"
    tuning = replace(POOLED, items=24, most_panel_bytes=1 << 16)
    expected = dml.gemm(a, b, trans_b=transform, device=dml.Device("reference"))
    graph = graph_of(threads, tuning)
    program = graph.compile(
        dml.gemm(graph.input("FLOAT32", a.shape), graph.input("FLOAT32", b.shape), trans_b=transform)
    )
    for _ in range(4):
        assert (program(a, b) == expected).all()


@pytest.mark.parametrize("threads", [2, 7])
def test_steps_of_a_network_have_no_pools(threads: int) -> None:
    """Kernels in a loop: each thread has the same share of the weights in every round."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((1, 4, 3, 8), np.float32)
    w = generator.standard_normal((1, 1, 480, 8), np.float32)
    r = generator.standard_normal((1, 1, 480, 160), np.float32)
    expected = dml.gru(x, w, r, device=dml.Device("reference"))
    graph = graph_of(threads)
    given = [graph.input("FLOAT32", array.shape) for array in (x, w, r)]
    outputs = list(dml.gru(*given))
    *before, first, second, _, _ = counters(texts(graph.describe(outputs)))
    assert (first, second) == ("null", "null") and "null" not in before
    program = graph.compile(outputs)
    for _ in range(3):
        for found, wanted in zip(program(x, w, r), expected, strict=True):
            assert (found == wanted).all()


@pytest.mark.parametrize("chosen", [(2, 7, 3, 16, 2), (16, 70, 2, 70)])
def test_pools_are_full_whichever_threads_took_part_before(chosen: tuple[int, ...]) -> None:
    """One team dispatches programs of few and many threads, more of them than have pools, too; an item that is left out
    stays what it was."""
    array = np.arange(96 * 40, dtype=np.float32).reshape(96, 40)
    programs = []
    for threads in chosen:
        graph = graph_of(threads)
        roots = dml.sqrt(graph.input("FLOAT32", array.shape))
        programs.append(graph.compile([roots, dml.cumulative_summation(roots, axis=0)]))
    expected = [np.sqrt(array), np.cumsum(np.sqrt(array), 0)]
    for repeat in range(3):
        for program in programs:
            for _ in range(repeat + 1):
                results = [np.full_like(array, np.nan) for _ in range(2)]
                program(array, out=results)
                assert (results[0] == expected[0]).all()
                assert np.allclose(results[1], expected[1])


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize(("count", "pool"), [(40, 38), (40, 1), (7, 3), (64, 16), (5, 5)])
def test_of_every_share_as_large_a_part_is_kept(threads: int, count: int, pool: int) -> None:
    items = Items((Cut(Axis("i", count)),), (), pool=pool)
    sizes = [(thread + 1) * count // threads - thread * count // threads for thread in range(threads)]
    kept = [items.kept(size) for size in sizes]
    assert all(0 <= part <= size for part, size in zip(kept, sizes, strict=True))
    assert sum(kept) <= count - pool < sum(kept) + threads
