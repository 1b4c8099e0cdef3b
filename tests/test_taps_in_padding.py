"""Sums over windows that leave out what is in the padding: which do, and that no bit is another for it, whatever the
weights are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from contraction_kernels import TARGETS
from execution import assert_same_values
from hypothesis import given
from hypothesis import strategies as st
from nest_running import HOST_TARGETS, ORDERS, check_nests
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode
from opendml.description.tensor import TensorDesc
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import Fold, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition
from opendml.llvm.host import machine_of
from opendml.loops.nest import Accumulate, Loop, nodes_of
from opendml.loops.nest_integers import Either, Greatest
from opendml.targets.cpu.contraction import schedule_contraction
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refine
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """Of a convolution of two dimensions: of everything that has one for each of these, both in a row."""

    batch: int = 1
    channels: int = 2
    outputs: int = 64
    groups: int = 1
    sizes: tuple[int, int] = (14, 14)
    filter: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (1, 1)
    behind: tuple[int, int] = (1, 1)

    @property
    def places(self) -> tuple[int, int]:
        """The sizes of the output."""
        ways = zip(self.sizes, self.filter, self.strides, self.dilations, self.before, self.behind, strict=True)
        height, width = ((n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in ways)
        return height, width

    def desc(self, *, has_bias: bool = True) -> operators.Convolution:
        """The operator."""
        outputs = self.outputs * self.groups
        return operators.Convolution(
            input_tensor=TensorDesc("float32", [self.batch, self.channels * self.groups, *self.sizes]),
            filter_tensor=TensorDesc("float32", [outputs, self.channels, *self.filter]),
            bias_tensor=TensorDesc("float32", [1, outputs, 1, 1]) if has_bias else None,
            output_tensor=TensorDesc("float32", [self.batch, outputs, *self.places]),
            mode=ConvolutionMode.CROSS_CORRELATION,
            direction=ConvolutionDirection.FORWARD,
            output_padding=(0, 0),
            **self._windows,
        )

    def desc_of_bytes(self, input: str, filter: str, *, zero_points: tuple[bool, bool]) -> operators.ConvolutionInteger:
        """The operator of such integers, with a zero point of the input and one of the filter, or without."""
        outputs = self.outputs * self.groups
        of_input, of_filter = zero_points
        return operators.ConvolutionInteger(
            input_tensor=TensorDesc(input, [self.batch, self.channels * self.groups, *self.sizes]),
            input_zero_point_tensor=TensorDesc(input, [1, 1, 1, 1]) if of_input else None,
            filter_tensor=TensorDesc(filter, [outputs, self.channels, *self.filter]),
            filter_zero_point_tensor=TensorDesc(filter, [1, 1, 1, 1]) if of_filter else None,
            output_tensor=TensorDesc("int32", [self.batch, outputs, *self.places]),
            **self._windows,
        )

    @property
    def _windows(self) -> dict[str, Any]:
        """The fields that say where windows are, and of what channels."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "start_padding": self.before,
            "end_padding": self.behind,
            "group_count": self.groups,
        }


def refined(definition: Definition, target: CpuTarget, *, is_fixed: bool = True) -> Definition:
    """With a filter and a bias that are fixed, or are bound for every run."""
    _, *weights = definition.inputs
    return refine(definition, target, [tensor for tensor in weights if tensor is not None] if is_fixed else [])


def sums_of(definition: Definition) -> list[Compute]:
    """The statements of sums of products."""
    found = [s for s in definition.statements if isinstance(s, Compute)]
    return [
        s for s in found if any(isinstance(e, Fold) and e.contract for store in s.stores for e in walk(store.value))
    ]


def leaves_out(definition: Definition) -> bool:
    folds = {e for s in sums_of(definition) for store in s.stores for e in walk(store.value) if isinstance(e, Fold)}
    return any(fold.is_same_anywhere for fold in folds)


two = st.tuples
SHAPES = st.builds(
    Shape,
    batch=st.integers(1, 2),
    channels=st.integers(1, 2),
    outputs=st.sampled_from([16, 24, 32, 33, 40]),
    groups=st.sampled_from([1, 1, 1, 2]),
    sizes=two(st.integers(1, 8), st.sampled_from([1, 3, 5, 7, 8, 14, 15])),
    filter=two(st.integers(1, 4), st.sampled_from([1, 2, 3, 3, 3, 5])),
    strides=two(st.integers(1, 2), st.integers(1, 2)),
    dilations=two(st.integers(1, 3), st.integers(1, 3)),
    before=two(st.integers(0, 3), st.integers(0, 3)),
    behind=two(st.integers(0, 3), st.integers(0, 3)),
).filter(lambda shape: min(shape.places) > 0)

VALUES = ("plain", "infinite weight", "no number", "negative zero", "tiny", "zeros")


def contents_of(definition: Definition, values: str, seed: int) -> dict[Tensor, Array]:
    """Numbers for a convolution's tensors."""
    random = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    found = {t: random.normal(size=t.extent).astype(np.float32) for t in tensors}
    _, weights, *biases = (found[t] for t in definition.inputs if t is not None)
    bias = biases[0] if biases else np.empty(1, np.float32)  # one that nobody reads
    if values == "infinite weight":
        weights[random.integers(weights.size)] = random.choice([np.inf, -np.inf])
    elif values == "no number":
        weights[random.integers(weights.size)] = np.nan
    elif values == "negative zero":
        bias[random.integers(bias.size)] = -0.0
    elif values == "tiny":  # products that are less than any number are zeros of either sign
        for tensor in definition.inputs:
            if tensor is not None:
                found[tensor] *= np.float32(1e-30)
        bias[random.random(bias.size) < 0.7] = random.choice([0.0, -0.0])
    elif values == "zeros":
        for tensor in definition.inputs:
            if tensor is not None:
                found[tensor] *= random.choice([0.0, -0.0, 1.0], tensor.extent).astype(np.float32)
        bias[bias == 0] = random.choice([0.0, -0.0])
    return found


FLAGS = st.booleans()


@examples(40)
@given(SHAPES, HOST_TARGETS, ORDERS, st.sampled_from(VALUES), two(FLAGS, FLAGS), st.integers(0, 1 << 20))
def test_bits(shape: Shape, target: Any, order: list[int], values: str, kinds: tuple[bool, bool], seed: int) -> None:
    """With a bias and without one, of filters that are fixed and of those that are looked at every time."""
    has_bias, is_fixed = kinds
    definition = shape.desc(has_bias=has_bias).define()
    target = target.tuned(padding_worth_looking=0, padding_worth_code=0)
    check(definition, target, contents_of(definition, values, seed), order, is_fixed=is_fixed)


WITH_BYTE_PRODUCTS = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512,avx512vnni"))
BYTES = st.sampled_from(["int8", "uint8"])


@examples(40)
@given(SHAPES, st.integers(1, 9), HOST_TARGETS, ORDERS, two(BYTES, BYTES), two(FLAGS, FLAGS), st.integers(0, 1 << 20))
def test_bits_of_integers(
    shape: Shape,
    channels: int,
    target: Any,
    order: list[int],
    types: tuple[str, str],
    zero_points: tuple[bool, bool],
    seed: int,
) -> None:
    desc = replace(shape, channels=channels).desc_of_bytes(*types, zero_points=zero_points)
    definition = desc.define()
    check(definition, target, integers_of(definition, seed), order)


@pytest.mark.parametrize("outputs", [16, 96])
def test_words_of_taps(outputs: int) -> None:
    """Words of what a row of a window reads are there as a whole: of their bytes none is left out."""
    desc = Shape(channels=1, outputs=outputs, sizes=(5, 5)).desc_of_bytes("uint8", "int8", zero_points=(False, False))
    definition = desc.define()
    check(definition, Processor(WITH_BYTE_PRODUCTS.machine, TUNING), integers_of(definition, 0), [0])


def integers_of(definition: Definition, seed: int) -> dict[Tensor, Array]:
    """Random bytes for a convolution's tensors."""
    random = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    bytes = {t: random.integers(0, 256, t.extent * t.type.bits // 8, np.uint8) for t in tensors}
    return {t: content.view(NUMPY_TYPES[t.type.name]) for t, content in bytes.items()}


def check(
    definition: Definition, target: Any, contents: dict[Tensor, Array], order: list[int], *, is_fixed: bool = True
) -> None:
    """That nests and what is left of the expressions give what the definition says."""
    made = refined(definition, target, is_fixed=is_fixed)
    check_nests(made, target, contents, order)
    found, expected = ({t: content.copy() for t, content in contents.items()} for _ in range(2))
    interpret(made, found)
    interpret(definition, expected)
    for tensor, content in expected.items():
        assert_same_values(found[tensor], content)


SQUARES = [Shape(sizes=(n, n)) for n in (7, 13, 14, 16, 28, 56)]


@pytest.mark.parametrize("shape", SQUARES[:5], ids=lambda shape: shape.sizes[0])
@pytest.mark.parametrize("values", VALUES)
def test_networks(shape: Shape, values: str) -> None:
    """Behind each other, and with what fusion makes of them, by several threads."""
    definition = shape.desc().define()
    contents = contents_of(definition, values, 1)
    x, weights, bias = (contents[t].reshape(t.sizes) for t in definition.inputs if t is not None)
    more = np.random.default_rng(2).normal(size=(16, 64, 3, 3)).astype(np.float32)
    more.ravel()[:3] = weights.ravel()[:3]
    padding: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1]}

    def network(x: Any) -> Any:
        first = dml.activation_relu(dml.convolution(x, weights, bias, **padding))
        return first, dml.convolution(first, more, bias[:, :16], **padding)

    graph = dml.Graph()
    desc = graph.describe(network(graph.input("float32", x.shape)))
    expected = dml.Device("reference").compile_graph(desc)(x)
    for threads in (1, 3):
        for found, one in zip(dml.Device(thread_count=threads).compile_graph(desc)(x), expected, strict=True):
            assert_same_values(found, one)


@pytest.mark.parametrize("target", TARGETS[:2], ids=["many registers", "few registers"])
def test_what_is_left_out(target: CpuTarget) -> None:
    """Rows of taps wherever tiles have one row of places, and single taps of points; of dilated windows, too. Where
    registers are few the sums of these stay in theirs."""
    dilated = Shape(sizes=(28, 28), dilations=(6, 6), before=(6, 6), behind=(6, 6))
    for shape in (*SQUARES[2:5], dilated):
        definition = refined(replace(shape, channels=64).desc().define(), target)
        assert leaves_out(definition)
        for statement in sums_of(definition):
            kernel = schedule_contraction(statement, target)
            assert kernel is not None
            nodes = list(nodes_of(kernel_nest(kernel, target).body))
            some = [node for node in nodes if isinstance(node, Accumulate) and node.numbers is not None]
            assert some and all(node.stays == target.has_few_registers for node in some)
            assert any(isinstance(node, Loop) and isinstance(node.first, Either) for node in nodes)


@pytest.mark.parametrize("types", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("zero_points", [(False, False), (False, True), (True, False)])
def test_what_is_left_out_of_integers(types: tuple[str, str], zero_points: tuple[bool, bool]) -> None:
    """What is in the padding, if its bytes are 0 where they are multiplied: of two alike the first are moved by 128."""
    for shape in SQUARES[2:5]:
        desc = replace(shape, channels=64).desc_of_bytes(*types, zero_points=zero_points)
        definition = refined(desc.define(), WITH_BYTE_PRODUCTS)
        assert leaves_out(definition) == (not zero_points[0] and types[0] != types[1])
        for statement in sums_of(definition)[-1:] if leaves_out(definition) else ():
            kernel = schedule_contraction(statement, WITH_BYTE_PRODUCTS)
            assert kernel is not None
            nodes = list(nodes_of(kernel_nest(kernel, WITH_BYTE_PRODUCTS).body))
            assert any(isinstance(node, Accumulate) and node.numbers is not None for node in nodes)
            assert any(isinstance(node, Loop) and isinstance(node.first, Greatest) for node in nodes)


def test_sums_of_words_do_not_stay() -> None:
    """The instruction for that is one of floats; with few registers, too, words have theirs."""
    target = TARGETS[1]
    desc = Shape(channels=64, sizes=(7, 7)).desc_of_bytes("uint8", "int8", zero_points=(False, False))
    *_, statement = sums_of(refined(desc.define(), target))
    kernel = schedule_contraction(statement, target)
    assert kernel is not None
    nodes = [node for node in nodes_of(kernel_nest(kernel, target).body) if isinstance(node, Accumulate)]
    assert any(node.numbers is not None for node in nodes) and not any(node.stays for node in nodes)


@pytest.mark.parametrize("target", TARGETS[:2], ids=["many registers", "few registers"])
def test_filters_that_are_looked_at(target: CpuTarget) -> None:
    """Every time they run, where they are not fixed: where there is so much padding for each weight that it pays off,
    and so much in all that it is worth code of its own.
    Where registers are few that is not worth panels for narrow rows."""
    for sizes, batch, has_bias in (((14, 14), 2, True), ((14, 14), 8, False), ((7, 7), 8, False)):
        shape = Shape(channels=64, batch=batch, sizes=sizes)
        definition = refine(shape.desc(has_bias=has_bias).define(), target)
        assert leaves_out(definition) == (sizes[0] > 7 or not target.has_few_registers)
    assert not leaves_out(refine(Shape(channels=64, sizes=(12, 12)).desc().define(), target))
    few = Shape(channels=16, outputs=16, batch=8, sizes=(14, 14)).desc().define()
    assert not leaves_out(refine(few, target)) and leaves_out(refine(few, target.tuned(padding_worth_code=0)))


def test_zeros_without_bias() -> None:
    """Of both signs, and of products that are too small for numbers: +0, unless sums are of single channels."""
    x, weights = np.full((1, 2, 4, 4), -1e-30, np.float32), np.full((2, 2, 1, 1), 1e-30, np.float32)
    for device in (dml.Device("reference"), dml.Device()):
        assert not np.signbit(np.asarray(device.compile_graph(graph_of(x, weights, 1))(x))).any()
        assert np.signbit(np.asarray(device.compile_graph(graph_of(x, weights[:, :1], 2))(x))).all()


def graph_of(x: Array, weights: Array, groups: int) -> Any:
    graph = dml.Graph()
    return graph.describe(dml.convolution(graph.input("float32", x.shape), weights, group_count=groups))


def test_what_forbids_it() -> None:
    """A bias that is not fixed as the filter is, no padding, or little of it."""
    target, shape = TARGETS[0], Shape()
    definition = shape.desc().define()
    assert leaves_out(refined(definition, target))
    assert leaves_out(refined(shape.desc(has_bias=False).define(), target))
    assert not leaves_out(refine(definition, target, [definition.inputs[1]] if definition.inputs[1] else []))
    for other in (Shape(before=(0, 0), behind=(0, 0)), Shape(sizes=(256, 256))):
        assert not leaves_out(refined(other.desc().define(), target))
