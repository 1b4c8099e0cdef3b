"""Softmaxes with denormal numbers, and products whose left matrix has them: which are bounded first, that no bit
changes, and that rows whose bounds tell nothing are summed up as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from execution import Array, assert_identical, assert_same_values, seeds
from hypothesis import given
from properties import examples
from sample_tensors import f32
from test_refinement import interpreted

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.expression.ir import Select
from opendml.expression.statements import Compute, Definition
from opendml.graph.constant_bounds import bounds_of_inputs
from opendml.graph.denormal_numbers import denormal_nodes
from opendml.graph.joining import join
from opendml.llvm.host import machine_of
from opendml.targets.cpu.refine.refining import refine, refining
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))
DENORMAL = 1e-40


def product(rows: int, steps: int, columns: int, batch: int = 1, type: str = "FLOAT32", **fields: Any) -> Operator:
    a, b, out = ([batch, 1, *sizes] for sizes in ([rows, steps], [steps, columns], [rows, columns]))
    given: dict[str, Any] = {
        "a_tensor": TensorDesc(type, a),
        "b_tensor": TensorDesc(type, b),
        "output_tensor": TensorDesc(type, out),
    }
    return operators.Gemm(**given, trans_a="NONE", trans_b="NONE", alpha=1, beta=0, **fields)


def bounded(desc: Operator, target: CpuTarget = TARGET) -> Definition:
    definition = desc.define()
    left = definition.inputs[0]
    assert left is not None
    return refine(definition, target, denormal=(left,))


def temporaries(definition: Definition) -> list[str]:
    return [t.name for t in definition.temporaries]


def unknown_rows(definition: Definition, arrays: Sequence[Array | None]) -> list[bool]:
    """Which rows have a sum that its bounds do not tell."""
    (flags,) = (t for t in definition.temporaries if t.name == "unknown_rows")
    temporaries = tuple(t for t in definition.temporaries if t is not flags)
    shown = replace(definition, outputs=(flags,), temporaries=temporaries, statements=definition.statements[:-2])
    (found,) = interpreted(shown, arrays)
    return list(np.asarray(found).ravel() != 0)


NUMBERS = np.array(
    [0, -0.0, 1, -1, 1.5, 1 + 2**-23, 3e-3, -7, 2**-24, 1e-20, -1e-20, 2**-126, 1e-38, 1e30, 3e38], np.float32
)
TINY = np.array([1e-45, -1e-45, 1e-40, -1e-40, 5e-39, 2**-126 - 2**-149], np.float32)
SPECIAL = np.array([np.inf, -np.inf, np.nan], np.float32)


@examples(150)
@given(
    st.tuples(st.integers(4, 9), st.integers(1, 12), st.integers(4, 20), st.integers(1, 3)),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    seeds,
)
def test_no_bit_changes(sizes: tuple[int, int, int, int], tiny: float, round: float, special: bool, seed: int) -> None:
    """Numbers of all sizes, and such whose products are in the middle between two numbers."""
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> Array:
        found = np.where(random.random(shape) < round, random.choice(NUMBERS, shape), random.normal(size=shape))
        found = np.where(random.random(shape) < tiny, random.choice(TINY, shape), found)
        if special:
            found = np.where(random.random(shape) < 0.02, random.choice(SPECIAL, shape), found)
        return found.astype(np.float32)

    rows, steps, columns, batch = sizes
    desc = product(rows, steps, columns, batch)
    refined = bounded(desc)
    assert "bounds" in temporaries(refined)
    arrays: list[Array | None] = [numbers(batch, 1, rows, steps), numbers(batch, 1, steps, columns), None]
    (expected,), (found,) = interpreted(desc.define(), arrays), interpreted(refined, arrays)
    assert_same_values(found, expected)


def result(row: list[float], column: list[float]) -> tuple[float, bool]:
    """The sum of a row times a column, others beside it being 1 times 1, and whether its bounds do not tell it."""
    left, right = np.ones((1, 1, 4, len(row)), np.float32), np.ones((1, 1, len(row), 4), np.float32)
    left[0, 0, 0], right[0, 0, :, 0] = row, column
    desc = product(4, len(row), 4)
    arrays = [left, right, None]
    (expected,), (found,) = interpreted(desc.define(), arrays), interpreted(bounded(desc), arrays)
    assert_same_values(found, expected)
    unknown = unknown_rows(bounded(desc), arrays)
    assert not any(unknown[1:]) or not np.isfinite(column).all()
    return float(np.asarray(found)[0, 0, 0, 0]), unknown[0]


@pytest.mark.parametrize("tiny", [DENORMAL, -DENORMAL])
def test_denormal_numbers_that_decide(tiny: float) -> None:
    """The product in the middle between two numbers goes where they say; so rows with one are summed up as they are."""
    middle = (1 + 2**-23) * 1.5  # of 1.5 + 2**-23 and 1.5 + 2**-22
    found, is_unknown = result([tiny, 1 + 2**-23], [1, 1.5])
    assert is_unknown and (found > middle) == (tiny > 0)
    # Behind it they come too late.
    assert not result([1 + 2**-23, tiny], [1.5, 1])[1]
    assert not result([tiny, 1, tiny], [1, 1.25, 1])[1]


def test_sums_of_denormal_numbers_alone_are_as_they_are() -> None:
    assert result([1e-40, 2e-40], [1, 1]) == (float(np.float32(1e-40) + np.float32(2e-40)), True)
    assert result([1, DENORMAL, -1], [1, 1, 1]) == (0, False)
    assert result([DENORMAL, 1], [0, 1]) == (1, False)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 3e38])
def test_what_denormal_numbers_are_multiplied_by_may_be_of_any_size(number: float) -> None:
    result([1, DENORMAL, 2], [1, number, 1])
    result([DENORMAL, 1, 2], [1, 1, number])


def test_which_products_are_bounded() -> None:
    def has_bounds(desc: Operator, target: CpuTarget = TARGET) -> bool:
        return "bounds" in temporaries(bounded(desc, target))

    assert has_bounds(product(8, 16, 8))
    assert not has_bounds(product(8, 16, 8), TARGET.tuned(slow_denormals=False))
    assert has_bounds(product(8, 16, 8, 3), TARGET.tuned(bounded_bytes=3 * 8 * 16 * 4 * 4))
    assert not has_bounds(product(8, 16, 8, 3), TARGET.tuned(bounded_bytes=3 * 8 * 16 * 4 * 4 - 1))
    assert not has_bounds(product(8, 16, 8, type="FLOAT16"))
    assert not has_bounds(product(8, 128, 1))  # has partial sums
    definition = product(8, 16, 8).define()
    assert not temporaries(refine(definition, TARGET))
    assert not temporaries(refine(definition, TARGET, denormal=[t for t in definition.inputs[1:] if t is not None]))


@examples(60)
@given(st.integers(1, 5), st.integers(1, 80), st.floats(0, 1), st.booleans(), seeds)
def test_shares_that_are_denormal_numbers(rows: int, count: int, masked: float, special: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(rows, count)) * random.choice([0.1, 3, 20])
    scores = np.where(random.random(scores.shape) < masked, scores - random.choice([84, 100, 300]), scores)
    if special:
        scores = np.where(random.random(scores.shape) < 0.05, random.choice(SPECIAL, scores.shape), scores)
    tensor = f32(rows, count)
    desc = operators.ActivationSoftmax1(input_tensor=tensor, output_tensor=tensor, axes=[1])
    definition = desc.define()
    refined = refine(definition, TARGET, denormal=[t for t in definition.outputs if t is not None])
    assert refined != definition
    arrays = [scores.astype(np.float32)]
    (expected,), (found,) = interpreted(definition, arrays), interpreted(refined, arrays)
    assert_same_values(found, expected)


def test_which_softmaxes_are_written_so() -> None:
    """Their arithmetic is the same on processors that are quick with denormal numbers, and of what has none."""
    tensor = f32(4, 40)
    definition = operators.ActivationSoftmax1(input_tensor=tensor, output_tensor=tensor, axes=[1]).define()
    outputs = [t for t in definition.outputs if t is not None]
    for target, denormal in ((TARGET.tuned(slow_denormals=False), outputs), (TARGET, []), (TARGET, outputs)):
        value = refine(definition, target, denormal=denormal).statements[-1]
        assert isinstance(value, Compute)
        assert isinstance(value.stores[0].value, Select) == (target is TARGET and bool(denormal))


def attention(x: Any, mask: Any, through: Callable[[Any], Any] = lambda shares: shares) -> Any:
    """Of tokens with themselves, masked: {batch, 1, tokens, 16}."""
    scores = dml.gemm(x, x, trans_b="TRANSPOSE") * 0.1 + mask
    return dml.gemm(through(dml.activation_softmax(scores, axes=[3])), x)


SIZES = [3, 1, 24, 16]
HALVES = np.arange(24) // 12
MASK = np.broadcast_to(np.where(HALVES[:, None] == HALVES, 0, -100), (3, 1, 24, 24)).astype(np.float32)


def masked_by_constant(x: Any) -> Any:
    """Where tokens are of different halves, by one number."""
    groups = x.graph.constant(np.broadcast_to(HALVES[:, None] == HALVES, MASK.shape).astype(np.uint8))
    number = x.graph.constant(np.full(MASK.shape, -100, np.float32)[:1, :, :1, :1])
    return attention(x, dml.if_(groups, x.graph.constant(0 * MASK), number.broadcast_to(MASK.shape)))


def bounded_in(network: Callable[[Any], Any]) -> int:
    """Products that are bounded first in a network's graph, whose results are those of the definitions."""
    graph = dml.Graph()
    output = network(graph.input("float32", SIZES))
    assembly = graph.assemble([output])
    x = np.random.default_rng(0).normal(size=SIZES).astype(np.float32)
    reference = dml.Graph(dml.Device("reference"))
    expected = reference.compile(network(reference.input("float32", SIZES)))(x)
    for threads in (1, 3):
        graph = dml.Graph(dml.Device("cpu", thread_count=threads, tuning=TUNING))
        assert_identical(graph.compile(network(graph.input("float32", SIZES)))(x), expected)
    joined = join(assembly.desc, refining(TARGET), assembly.bounds())
    return sum(t.name.endswith(".bounds") for t in joined.temporaries)


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (lambda x: attention(x, MASK), 1),
        (lambda x: attention(x, MASK[:1, :, :12, :12].repeat(2, 2).repeat(2, 3).repeat(3, 0)), 0),  # nothing but 0
        (lambda x: attention(x, 100 * MASK), 0),
        (lambda x: attention(x, MASK / 4), 0),
        (lambda x: attention(x, MASK, lambda shares: shares[:, :, ::-1]), 1),
        (lambda x: attention(x, MASK, dml.activation_relu), 0),
        (lambda x: attention(x, dml.activation_relu(x.graph.constant(MASK))), 0),
        (lambda x: attention(attention(x, MASK), 0 * MASK), 1),
        (masked_by_constant, 1),
    ],
)
def test_which_products_of_graphs_are_bounded(network: Callable[[Any], Any], count: int) -> None:
    assert bounded_in(network) == count


def test_small_masks_are_in_what_a_program_is_known_by() -> None:
    """They are nodes, whose numbers it does not depend on else."""
    for mask, is_bounded in ((-100, True), (-10, False)):
        graph = dml.Graph(dml.Device("cpu", tuning=TUNING))  # whatever this processor's denormal numbers take
        x = graph.input("float32", [1, 1, 8, 16])
        numbers = np.where(np.eye(8, dtype=bool), 0, mask).astype(np.float32)[None, None]
        program = graph.compile(attention(x, numbers))
        assert ("unknown_rows" in str(dml.explain(program))) == is_bounded


def test_bounds_of_masks() -> None:
    graph = dml.Graph()
    x = graph.input("float32", SIZES)
    mask = graph.input("float32", [3, 1, 24, 24], owned_by_dml=True)
    desc = graph.describe(attention(x, mask))
    assert bounds_of_inputs(desc, {1: MASK.tobytes()}) == {1: 128}
    assert bounds_of_inputs(desc, {1: (MASK / 10).tobytes()}) == {}
    assert denormal_nodes(desc, {1: 128}) and not denormal_nodes(desc, {})
    device = dml.Device("cpu")
    with pytest.raises(ConfigurationError, match="input 0 is no input of INT8, UINT8 or FLOAT32"):
        device.compile_graph(desc, bounds={0: 100})
    assert dict(device.compile_graph(desc, bounds={1: 1000}).bounds) == {}
    program = device.compile_graph(desc, bounds={1: 100})
    assert dict(program.bounds) == {1: 128}
    for number in (-129, 1000, np.inf, np.nan):
        with pytest.raises(BindingError, match=f"has the number {float(number)}; the graph was compiled for none"):
            program.initialize([None, np.where(MASK < 0, number, MASK).astype(np.float32)])
    program.initialize([None, MASK])
    tokens = np.random.default_rng(1).normal(size=SIZES).astype(np.float32)
    other = device.compile_graph(desc)
    other.initialize([None, MASK])
    assert_identical(program(tokens, None), other(tokens, None))
