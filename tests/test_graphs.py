"""Compiled graphs give, bit for bit, what their nodes give one at a time: random graphs of all operators.

Graphs are drawn as a user builds them, by expression: every step takes tensors that are there already, views among
them, so that results are shared, read more than once, reinterpreted, and given out beside being read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from execution import ALL_THREADS, assert_same_values, random_values
from graph_reference import evaluate_graph, seen_as
from graph_running import check_graph, input_buffers, run_compiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import examples
from random_descriptors import descriptors, is_drawn

import opendml as dml
from opendml.building.graph_assembly import GraphAssembly
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.graph_paths import graph_output_tensors
from opendml.description.tensor import TensorDesc
from opendml.operators import implemented
from opendml.targets.cpu.target import host_target

Array = np.ndarray[Any, Any]

OPERATORS = [operator_type for operator_type in implemented() if is_drawn(operator_type)]
DEVICE = dml.Device()
Candidate = TypeVar("Candidate")
ELEMENTS = 600
"""Elements of a tensor of the pool at most: more only takes time."""


class Maker:
    """A graph that grows by random steps; ``pool`` are the tensors that there are, but for those of 4-bit types, which
    only QUANTIZE and DEQUANTIZE know: ``packed``."""

    def __init__(self, draw: st.DrawFn, device: dml.Device) -> None:
        self.draw = draw
        self.graph = dml.Graph(device)
        self.pool: list[dml.GraphTensor] = []
        self.packed: list[dml.GraphTensor] = []

    # ---- where tensors come from

    def number(self, lowest: int, highest: int) -> int:
        return self.draw(st.integers(lowest, highest))

    def any(self, candidates: Sequence[Candidate]) -> Candidate:
        return self.draw(st.sampled_from(candidates))

    def sizes(self) -> list[int]:
        sizes = [self.number(1, 4) for _ in range(self.number(1, 4))]
        sizes[-1] = self.any([1, 2, 3, 5, 8, 16, 17, 33])
        return sizes

    def source(self) -> None:
        """A new input of the graph or constant."""
        data_type = self.any(["float32", "float32", "float32", "float16", "int32", "int8", "uint8", "int64", "uint32"])
        sizes = self.sizes()
        if self.number(0, 15) == 15:
            self.packed.append(
                self.graph.input(self.any(["int4", "uint4"]), sizes, owned_by_dml=self.number(0, 1) == 0)
            )
            self.pool.append(dml.dequantize(self.packed[-1], np.float32(2)))
        elif self.number(0, 2):
            self.pool.append(self.graph.input(data_type, sizes, owned_by_dml=self.number(0, 3) == 0))
        else:
            values = random_values(TensorDataType.parse(data_type), math.prod(sizes), np.random.default_rng(7), False)
            self.pool.append(self.graph.constant(values.reshape(sizes)))

    def tensor(self) -> dml.GraphTensor:
        """A tensor of the pool, mostly one of the last."""
        recent = self.pool[-3:] if self.number(0, 2) else self.pool
        return self.any(recent)

    def float_tensor(self) -> dml.GraphTensor:
        """A tensor of float32 or float16."""
        x = self.tensor()
        return x if x.data_type.name in ("FLOAT32", "FLOAT16") else dml.cast(x, "float32")

    def like(self, desc: TensorDesc) -> dml.GraphTensor:
        """A tensor of the pool, converted, cut or lengthened, and seen in another way, so that it fits a description.

        Floats never become other types as bits: which NaN an operation gives is nobody's business.
        """
        if desc.data_type.bits == 4:
            return self.packed_like(desc)
        x = self.tensor()
        is_whole = x.desc.is_packed and x.desc.total_size_in_bytes == x.desc.minimum_size_in_bytes
        if x.desc.is_owned_by_dml or not is_whole:
            x = x.packed()
        if x.data_type != desc.data_type:
            x = dml.cast(x, desc.data_type)
        count, wanted = x.desc.element_count, desc.element_span
        x = x.reinterpret([count])
        if count > wanted:
            x = dml.slice(
                x,
                input_window_offsets=[self.number(0, count - wanted)],
                input_window_sizes=[wanted],
                input_window_strides=[1],
            )
        elif count < wanted:
            x = dml.padding(x, padding_mode="EDGE", padding_value=0, start_padding=[0], end_padding=[wanted - count])
        return x.reinterpret(desc.sizes, desc.strides)

    def packed_like(self, desc: TensorDesc) -> dml.GraphTensor:
        """What QUANTIZE gave, or bytes of the pool as two elements each: nothing converts to 4-bit types."""
        large = [x for x in self.packed if x.desc.element_span >= desc.element_span]
        if large and self.number(0, 2):
            return self.any(large).reinterpret(desc.sizes, desc.strides, desc.data_type)
        whole = self.like(TensorDesc("uint8", [desc.minimum_size_in_bytes]))
        return whole.reinterpret(desc.sizes, desc.strides, desc.data_type)

    def add(self, *tensors: dml.GraphTensor | None) -> None:
        """New tensors for the pool: large ones are cut, of packed ones it takes the bytes or what they stand for."""
        for x in tensors:
            if x is not None and x.data_type.bits == 4:
                self.packed.append(x)
                x = self.any([x.reinterpret(x.desc.in_memory.sizes, None, "uint8"), dml.dequantize(x, np.float32(0.5))])
            if x is not None:
                while x.desc.element_count > ELEMENTS:
                    axis = x.sizes.index(max(x.sizes))
                    window = [size // 2 if i == axis else size for i, size in enumerate(x.sizes)]
                    x = dml.slice(
                        x,
                        input_window_offsets=[0] * x.rank,
                        input_window_sizes=window,
                        input_window_strides=[1] * x.rank,
                    )
                self.pool.append(x)

    # ---- steps

    def operator(self, operator_type: OperatorType | None = None) -> None:
        """Any operator, or the one that is told, with any descriptor."""
        desc: Operator = self.draw(descriptors(operator_type or self.any(OPERATORS)))
        inputs = [None if tensor is None else self.like(tensor) for _, tensor in desc.inputs()]
        self.add(*self.graph.append(desc, *inputs))

    def unary(self) -> None:
        functions = (dml.activation_relu, dml.activation_sigmoid, dml.activation_tanh, dml.activation_elu)
        function = self.any(list[Callable[[Any], Any]](functions))
        self.add(function(self.float_tensor()))

    def binary(self) -> None:
        x = self.tensor()
        if x.data_type is TensorDataType.FLOAT64:
            return self.unary()
        y = self.any([x, 3, self.like(TensorDesc(x.data_type, x.sizes))])
        combine: Callable[[Any, Any], Any] = self.any(
            [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a <= b, lambda a, b: b + a]
        )
        self.add(combine(x, y))
        return None

    def view(self) -> None:
        x = self.tensor()
        match self.number(0, 4):
            case 0:
                self.add(x.transpose(self.draw(st.permutations(range(x.rank)))))
            case 1:
                self.add(x.reshape([x.desc.element_count]))
            case 2:
                self.add(x if x.rank == 8 else x.reshape([1, *x.sizes]).broadcast_to([2, *x.sizes]))
            case 3:
                self.add(self.parted(x))
            case 4:
                self.add(self.repeated(x))

    def parted(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """A dimension as several ones, or two as one, and all in another order; computed with, or not."""
        axis = self.number(0, x.rank - 1)
        size = x.sizes[axis]
        factor = self.any([n for n in range(1, size + 1) if size % n == 0])
        sizes = [*x.sizes[:axis], factor, size // factor, *x.sizes[axis + 1 :]]
        if self.number(0, 1) and axis + 1 < x.rank:
            sizes = [*x.sizes[:axis], size * x.sizes[axis + 1], *x.sizes[axis + 2 :]]
        y = x.reshape(sizes) if len(sizes) <= 8 else x
        if self.number(0, 1):
            y = y + y if y.data_type is not TensorDataType.FLOAT64 else dml.identity(y)
        return y.transpose(self.draw(st.permutations(range(y.rank))))

    def repeated(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """One of the elements along a dimension for all of them, combined with the others or not."""
        axis = self.number(0, x.rank - 1)
        one = dml.slice(
            x,
            input_window_offsets=[0] * x.rank,
            input_window_sizes=[1 if d == axis else n for d, n in enumerate(x.sizes)],
            input_window_strides=[1] * x.rank,
        )
        if self.number(0, 1) and x.data_type is TensorDataType.FLOAT32:
            one = self.any([dml.activation_tanh, dml.activation_relu])(one)
        return one.broadcast_to(x.sizes) if x.data_type is TensorDataType.FLOAT64 or self.number(0, 1) else x + one

    def bits(self) -> None:
        """Integers as other numbers of the same bits."""
        x = self.tensor()
        target = self.any(["float32", "uint32", "int16", "uint8"])
        if x.data_type.dtype.kind == "f" or not x.desc.is_packed:
            x = dml.cast(x, "int32")
        count = x.desc.element_count * x.data_type.dtype.itemsize // np.dtype(target).itemsize
        if count:
            self.add(x.reinterpret([count], data_type=target))

    def pieces(self) -> None:
        x = self.tensor()
        axis = self.number(0, x.rank - 1)
        if x.sizes[axis] == 1:
            return self.add(dml.join([x, x], axis=axis))
        first = self.number(1, x.sizes[axis] - 1)
        parts = dml.split(x, axis=axis, output_axis_sizes=[first, x.sizes[axis] - first])
        self.add(self.any([*parts, dml.join(parts[::-1], axis=axis), dml.join([parts[1], parts[1]], axis=axis)]))
        return None

    def window(self) -> None:
        x = self.tensor()
        strides = [self.any([1, 1, 2, -1, -2]) for _ in x.sizes]
        self.add(
            dml.slice(x, input_window_offsets=[0] * x.rank, input_window_sizes=x.sizes, input_window_strides=strides)
        )

    def normalisation(self) -> None:
        x = self.float_tensor()
        match self.number(0, 2):
            case 0:
                self.add(dml.activation_softmax(x, axes=[x.rank - 1]))
            case 1:
                self.add(dml.mean_variance_normalization(x, None, None, axes=[x.rank - 1]))
            case 2:
                self.add(x - dml.reduce(x, "AVERAGE", axes=[x.rank - 1]))

    def product(self) -> None:
        x = self.float_tensor()
        rows = x.desc.element_count // x.sizes[-1]
        if rows * rows <= ELEMENTS:
            matrix = x.reshape([rows, x.sizes[-1]])
            self.add(dml.gemm(matrix, matrix, trans_b="TRANSPOSE") + 0.5)

    def positions(self) -> None:
        """Two outputs of one node, of different types."""
        x = self.float_tensor()
        rows = x.desc.element_count // x.sizes[-1]
        window = [self.number(1, min(rows, 2)), self.number(1, min(x.sizes[-1], 2))]
        pooled = dml.max_pooling(
            x.reshape([1, 1, rows, x.sizes[-1]]), window_size=window, strides=window, output_indices=True
        )
        self.add(*pooled)

    def finish(self) -> GraphAssembly:
        """What nobody has read is given out, and something that may be read as well."""
        read = {tensor.source for node in self.graph._nodes for tensor in node.inputs if tensor is not None}
        unread = {tensor.source: tensor for tensor in (*self.packed, *self.pool) if tensor.source not in read}
        outputs = [*unread.values(), self.any(self.pool)]
        return self.graph.assemble(outputs, constant_limit=self.any([0, 64, 10**9]))


STEPS = (
    [Maker.operator] * 6
    + [Maker.unary, Maker.binary, Maker.view, Maker.view, Maker.bits, Maker.pieces, Maker.window, Maker.normalisation]
    + [Maker.binary, Maker.product, Maker.source, Maker.positions]
)


@st.composite
def assemblies(draw: st.DrawFn, device: dml.Device) -> GraphAssembly:
    """Graphs of a few steps."""
    maker = Maker(draw, device)
    maker.source()
    maker.source()
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=8)):
        step(maker)
    return maker.finish()


@st.composite
def surrounded(draw: st.DrawFn, operator_type: OperatorType) -> GraphAssembly:
    """An operator between others that are computed along with it where that can be."""
    maker = Maker(draw, DEVICE)
    maker.source()
    for step in (Maker.unary, Maker.view):
        step(maker)
    maker.operator(operator_type)
    for step in (Maker.unary, Maker.view, Maker.binary):
        step(maker)
    return maker.finish()


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", OPERATORS, ids=lambda operator_type: operator_type.name)
def test_every_operator_among_others(operator_type: OperatorType) -> None:
    """Fused is unfused, as the interpreter has it; few of the random graphs have any one operator."""

    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(assembly=surrounded(operator_type), seed=st.integers(0, 99))
    def check(assembly: GraphAssembly, seed: int) -> None:
        check_graph(assembly, host_target(), seed)

    check()


@pytest.mark.parametrize("thread_count", [1, 7])
def test_random_graphs(thread_count: int) -> None:
    """Fused is unfused, compiled is interpreted."""
    device = dml.Device(thread_count=thread_count, tuning=ALL_THREADS)

    @examples(30, suppress_health_check=list(HealthCheck))
    @given(assembly=assemblies(device), seed=st.integers(0, 99), apart=st.booleans())
    def check(assembly: GraphAssembly, seed: int, apart: bool) -> None:
        buffers = input_buffers(assembly, seed)
        expected = evaluate_graph(assembly.desc, buffers)
        actual = run_compiled(assembly, device, buffers, apart)
        for desc, memory, result in zip(graph_output_tensors(assembly.desc), expected, actual, strict=True):
            assert_same_values(result, seen_as(memory, desc))

    check()


def test_the_reference_is_what_the_interpreter_says() -> None:
    """Node by node, compiled or interpreted."""

    @examples(15, suppress_health_check=list(HealthCheck))
    @given(assembly=assemblies(dml.Device()), seed=st.integers(0, 99))
    def check(assembly: GraphAssembly, seed: int) -> None:
        buffers = input_buffers(assembly, seed)
        compiled = evaluate_graph(assembly.desc, buffers)
        interpreted = evaluate_graph(assembly.desc, buffers, interpreted=True)
        for desc, a, b in zip(graph_output_tensors(assembly.desc), compiled, interpreted, strict=True):
            assert_same_values(seen_as(a, desc), seen_as(b, desc))

    check()


def on_arrays_and_in_a_graph(network: Callable[[Any], Any], x: Array) -> None:
    """The functions give the same at once and compiled together."""
    graph = dml.Graph()
    for actual, expected in zip(graph.compile(network(graph.input(x.dtype, x.shape)))(x), network(x), strict=True):
        assert_same_values(actual, np.asarray(expected))


@pytest.mark.sampled
@pytest.mark.parametrize("strides", [[1, 2], [1, -2], [2, 1], [-1, -2], [1, 1]])
@pytest.mark.parametrize("normalise", [dml.activation_softmax, dml.mean_variance_normalization])
def test_part_of_a_normalisation(normalise: Callable[..., Any], strides: list[int]) -> None:
    """What reads several results of one reduction does not become part of it."""
    options: dict[str, Any] = (
        {"axes": [1]} if normalise is dml.activation_softmax else {"scale": None, "bias": None, "axes": [1]}
    )
    for columns in (2, 33):
        x = np.random.default_rng(0).normal(size=(12, columns)).astype("float32")

        def network(x: Any, window: Sequence[int] = (12, columns)) -> list[Any]:
            found = normalise(x, **options)
            return [
                dml.slice(found, input_window_offsets=[0, 0], input_window_sizes=window, input_window_strides=strides)
            ]

        on_arrays_and_in_a_graph(network, x)


def test_bytes_of_one_of_two_outputs() -> None:
    """A reader of another view of a result stays behind what writes it."""

    def network(x: Any) -> list[Any]:
        pooled: Any = dml.max_pooling(x, window_size=[2, 2], strides=[2, 2], output_indices=True)
        return [dml.activation_tanh(pooled.values.reshape([6, 3])), dml.cast(pooled.indices, "float32")]

    on_arrays_and_in_a_graph(network, np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype("float32"))
