"""Products of small signed bytes, whose sums of pairs fit in 16 bits: where weights are known to be small, and what is
done with that. Every level of processor that has them is interpreted; this one's is compiled, too."""

from __future__ import annotations

import pickle
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical
from hypothesis import given
from hypothesis import strategies as st
from test_refine_words import (
    CASES,
    DEPTHWISE,
    LEVELS,
    TYPES,
    can_run,
    convolution,
    depthwise,
    product,
    products_of,
    target_of,
)

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.graph_desc import GraphDesc, InputEdge, OperatorNode, OutputEdge
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import I32
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Const, Tensor, binary, constant, grid, indices, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.graph.constant_bounds import bounds_of_constants, power_of_two
from opendml.graph.joining import join
from opendml.llvm.host import host_machine
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refine, refining
from opendml.targets.cpu.target import host_target

RIGHT = ("BTensor", "FilterTensor")
WITH_PAIRS = ("avx2", "avx512")
"""Levels that have sums of pairs and nothing better."""


def extreme(desc: TensorDesc, bound: int, seed: int) -> Array:
    """Numbers at the ends of a type, or at those of a bound, and some in between."""
    limits = np.iinfo(desc.data_type.dtype)
    low, high = max(limits.min, -bound), min(limits.max, bound)
    generator = np.random.default_rng(seed)
    ends = generator.choice([low, high], desc.sizes)
    some = generator.integers(low, high, desc.sizes, endpoint=True)
    return np.where(generator.random(desc.sizes) < 0.7, ends, some).astype(desc.data_type.dtype)


def refined(desc: Operator, level: str, bound: float) -> Definition:
    """For a processor, the right factor being fixed and no larger than a bound."""
    definition = desc.define()
    right = definition.inputs[next(n for n, (name, _) in enumerate(desc.inputs()) if name in RIGHT)]
    assert right is not None
    return refine(definition, target_of(level), [right], {right: bound})


def assert_same(desc: Operator, level: str, bound: int) -> None:
    definition = desc.define()
    arrays = []
    for seed, ((name, desc_of), own) in enumerate(zip(desc.inputs(), definition.inputs, strict=True)):
        most = bound if name in RIGHT else 255
        arrays.append(None if desc_of is None or own is None else extreme(desc_of, most, seed).reshape(own.sizes))
    (expected,) = run_interpreted(definition, arrays)
    (found,) = run_interpreted(refined(desc, level, bound), arrays)
    assert found is not None and expected is not None
    assert_identical(found, expected)


@pytest.mark.parametrize("level", WITH_PAIRS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_small_weights_are_summed_in_pairs(number: int, level: str) -> None:
    """Whatever the types: 64 is small for signed weights, 128 for unsigned ones beside signed bytes."""
    desc = CASES[number]
    (weights,) = (d.data_type.name for name, d in desc.inputs() if d is not None and name in RIGHT)
    bound = 64 if weights == "INT8" else 128
    assert products_of(refined(desc, level, bound).statements) == {"dot4_saturating"}
    assert_same(desc, level, bound)
    assert products_of(refined(desc, level, 2 * bound).statements) == {"dot2"}
    assert products_of(refined(desc, "vnni", bound).statements) == {"dot4"}


@pytest.mark.parametrize("level", WITH_PAIRS)
@pytest.mark.parametrize("number", range(len(DEPTHWISE)))
def test_small_windows(number: int, level: str) -> None:
    """Words of neighbours in a row."""
    desc = DEPTHWISE[number]
    assert products_of(refined(desc, level, 64).statements) == {"dot4_saturating"}
    assert_same(desc, level, 64)


def test_nothing_is_known_of_factors_that_are_not_fixed() -> None:
    desc = product(TYPES[0], (True, False), 9)
    assert products_of(refine(desc.define(), target_of("avx2")).statements) == {"dot2"}


# ---- the operation


@given(st.lists(st.integers(-128, 255), min_size=8, max_size=8))
def test_saturated_pairs(numbers: list[int]) -> None:
    """Of constants, by the interpreter, and by its definition."""
    unsigned, signed = np.array(numbers[:4]).astype(np.uint8), np.array(numbers[4:]).astype(np.int8)
    products = unsigned.astype(int) * signed
    expected = int(np.clip(products.reshape(2, 2).sum(1), -32768, 32767).sum())
    a, b = (int(x.view(np.int32)[0]) for x in (unsigned, signed))
    folded = binary("dot4_saturating", constant(a, I32), constant(b, I32))
    assert isinstance(folded, Const) and folded.value == expected


def _definition(count: int) -> Definition:
    x, y, z = (Tensor(name, I32, (count,), (1,), role) for name, role in zip("xyz", ROLES, strict=True))
    axes = grid([count])
    value = binary("dot4_saturating", load(x, indices(axes)), load(y, indices(axes)))
    return Definition((x, y), (z,), (Compute(axes, (Store(z, indices(axes), value),)),))


ROLES: Any = ("input", "input", "output")


@pytest.mark.parametrize("level", [level for level in LEVELS if can_run(level)])
def test_compiled_pairs_saturate(level: str) -> None:
    """By an instruction, and one by one where there is none or lanes are left."""
    words = [0, -1, 0x7F7F7F7F, 0x80808080 - 2**32, 0x7F80FF01, 0x80FF80FF - 2**32, 0x40C040C0, 2**31 - 1]
    edges = np.array(list(pairs(words, words)), np.int32)
    drawn = np.random.default_rng(0).integers(-(2**31), 2**31, (75, 2)).astype(np.int32)
    a, b = (np.ascontiguousarray(column) for column in np.concatenate([edges, drawn]).T)
    definition = _definition(a.size)
    (expected,) = run_interpreted(definition, [a, b])
    machine = host_machine(level)
    flat = TensorDesc("INT32", [a.size])
    program = compile_definition(
        definition,
        inputs=[Binding("x", flat), Binding("y", flat)],
        outputs=[Binding("z", flat)],
        in_place=False,
        target=Processor(machine, host_target().tuning),
        thread_count=1,
    )
    assert expected is not None
    assert_identical(program(a, b), expected)


# ---- bounds of inputs


def graph_of(desc: Operator) -> GraphDesc:
    """A graph whose inputs are the operator's."""
    given = [number for number, (_, d) in enumerate(desc.inputs()) if d is not None]
    edges = tuple(InputEdge(new, 0, number) for new, number in enumerate(given))
    return GraphDesc(
        input_count=len(given),
        output_count=1,
        nodes=(OperatorNode(desc),),
        input_edges=edges,
        output_edges=(OutputEdge(0, 0, 0),),
    )


def owned_product() -> Operator:
    return operators.MatrixMultiplyInteger(
        a_tensor=TensorDesc("UINT8", [17, 40]),
        b_tensor=TensorDesc("INT8", [40, 33], flags="OWNED_BY_DML"),
        output_tensor=TensorDesc("INT32", [17, 33]),
    )


X = np.random.default_rng(1).integers(0, 256, (17, 40), np.uint8)
SMALL = np.random.default_rng(2).integers(-64, 65, (40, 33)).astype(np.int8)
EXPECTED = X.astype(np.int32) @ SMALL.astype(np.int32)


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("bound", [64, 63.5, 127, 1000])
def test_bounds_of_inputs(bound: float, name: str) -> None:
    program = dml.Device(name).compile_graph(graph_of(owned_product()), bounds={1: bound})
    assert dict(program.bounds) == ({1: 64} if bound <= 64 else {})
    program.initialize([None, SMALL])
    assert_identical(program(X, None), EXPECTED)


def test_what_is_beyond_its_bound_is_an_error() -> None:
    program = dml.Device("cpu").compile_graph(graph_of(owned_product()), bounds={1: 64})
    for number in (65, -65, -128):
        weights = SMALL.copy()
        weights[3, 4] = number
        with pytest.raises(BindingError, match=rf"has the number {number}; the graph was compiled for none beyond 64"):
            program.initialize([None, weights])
    program.initialize([None, SMALL])
    assert_identical(program(X, None), EXPECTED)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({0: 64}, "bounds: input 0 is no input of INT8, UINT8 or FLOAT32 that is OWNED_BY_DML"),
        ({2: 64}, "bounds: input 2 is no input"),
        ({-1: 64}, "bounds: input -1 is no input"),
        ({1: -1}, "bounds: of input 1: expected a number from 0 on, got -1"),
        ({1: float("nan")}, "bounds: of input 1: expected a number from 0 on, got nan"),
    ],
)
def test_bounds_that_there_is_no_use_for(bounds: dict[int, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        dml.Device("cpu").compile_graph(graph_of(owned_product()), bounds=bounds)


def test_programs_with_bounds_are_pickled_with_them() -> None:
    program = dml.Device("cpu").compile_graph(graph_of(owned_product()), bounds={1: 64})
    program.initialize([None, SMALL])
    again = pickle.loads(pickle.dumps(program))
    assert dict(again.bounds) == {1: 64}
    assert_identical(again(X, None), EXPECTED)
    assert pickle.loads(pickle.dumps(dml.Device("cpu").compile_graph(graph_of(owned_product())))).bounds == {}


def _has_pairs() -> bool:
    found = machine_instructions(host_machine())
    return found.find("dot4", I32) is None and found.find("dot4_saturating", I32) is not None


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize("largest", [64, 65])
def test_weights_of_graphs_are_looked_at(limit: int, largest: int) -> None:
    """Be they nodes or inputs; what is explained is what runs."""
    weights = SMALL.copy()
    weights[0, 0] = largest
    graph = dml.Graph()
    x = graph.input("uint8", [17, 40], name="x")
    result = dml.matrix_multiply_integer(x, None, graph.constant(weights))
    program = graph.compile(result, constant_limit=limit)
    assert_identical(program(x=X), X.astype(np.int32) @ weights.astype(np.int32))
    if _has_pairs():
        assert ("dot4_saturating of" in str(dml.explain(program))) == (largest == 64)


@pytest.mark.parametrize("name", ["uint4", "int4"])
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_packed_smaller_numbers_have_no_bounds(limit: int, name: str) -> None:
    """Constants of them, too large for a node or not."""
    data = np.random.default_rng(3).integers(0, 256, 64, np.uint8)
    graph = dml.Graph()
    x = graph.input("float32", [1, 128], name="x")
    numbers = dml.dequantize(graph.constant(data), np.float32(0.5), input_data_type=name, input_sizes=[1, 128])
    program = graph.compile(dml.add(x, numbers), constant_limit=limit)
    expected = dml.dequantize(data, np.float32(0.5), input_data_type=name, input_sizes=[1, 128])
    assert_identical(program(x=np.ones((1, 128), np.float32)), np.asarray(expected) + np.float32(1))


def test_bounds_of_constants_by_what_reads_them() -> None:
    graph = dml.Graph()
    x = graph.input("uint8", [17, 40], name="x")
    described = graph.describe(dml.matrix_multiply_integer(x, None, graph.constant(SMALL)))
    assert bounds_of_constants(described) == {1: {"i8": 64.0}}
    target = target_of("avx2")
    assert products_of(join(described, refining(target)).statements) == {"dot4_saturating"}


@pytest.mark.parametrize(("number", "bound"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (64.5, 128), (65, 128)])
def test_powers_of_two(number: float, bound: float) -> None:
    assert power_of_two(number) == bound


# ---- whole graphs


@pytest.mark.parametrize("bound", [64, 128])
def test_networks_of_small_weights(bound: int) -> None:
    """Convolutions of bytes with one another, whose tensors lie with channels side by side: by several threads, and as
    the interpreter has it."""
    x = extreme(TensorDesc("UINT8", [2, 16, 9, 11]), 255, 5)
    expected = _network(bound, dml.Device("reference"))(x=x)
    for threads in (1, 2, 7):
        assert_identical(_network(bound, dml.Device("cpu", thread_count=threads))(x=x), expected)


def _network(bound: int, device: dml.Device) -> Any:
    graph = dml.Graph(device)
    value: Any = graph.input("uint8", [2, 16, 9, 11], name="x")
    scale = graph.constant(np.full((1, 1, 1, 1), 0.01, np.float32))
    channels = 16
    for number, (outputs, window) in enumerate([(32, 3), (24, 1), (32, 3)]):
        sizes = TensorDesc("INT8", [outputs, channels, window, window])
        weights = graph.constant(extreme(sizes, bound, number))
        value = dml.quantized_linear_convolution(
            value,
            scale,
            None,
            weights,
            graph.constant(np.full((1, outputs, 1, 1), 0.02, np.float32)),
            None,
            None,
            graph.constant(np.full((1, 1, 1, 1), 0.9 * 4**number, np.float32)),
            None,
            start_padding=[window // 2] * 2,
            end_padding=[window // 2] * 2,
        )
        channels = outputs
    return graph.compile(value, constant_limit=256)


def test_convolutions_and_windows_of_this_processor() -> None:
    """Compiled with what is known of the weights, for every number of threads."""
    cases = [convolution(TYPES[0], (True, True), 8), depthwise(TYPES[0]), depthwise(TYPES[0], size=33, stride=2)]
    for seed, desc in enumerate(cases):
        arrays = {name: extreme(d, 64 if name == "FilterTensor" else 255, seed) for name, d in desc.inputs() if d}
        (expected,) = run_interpreted(desc.define(), [arrays.get(name) for name, _ in desc.inputs()])
        owned = desc.replace(filter_tensor=desc.filter_tensor.replace(flags="OWNED_BY_DML"))  # type: ignore[attr-defined]
        names = list(arrays)
        number = names.index("FilterTensor")
        for threads in (1, 2, 7):
            program = dml.Device("cpu", thread_count=threads).compile_graph(graph_of(owned), bounds={number: 64})
            program.initialize([a if n == number else None for n, a in enumerate(arrays.values())])
            found = program(*(None if n == number else a for n, a in enumerate(arrays.values())))
            assert expected is not None
            assert_identical(found, expected.reshape(found.shape))
