"""Fusion across edges on which tensors are seen with other dimensions: how few kernels are left, and that their results
are those of the nodes one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import assert_identical
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.expression.affine import address_of, affine
from opendml.expression.element_types import F32, I32, I64, U8
from opendml.expression.ir import Axis, Binary, Const, Fold, Index, Load, Tensor, constant, index, packed_strides
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Definition, Statement, expressions_of, stores_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import Refine, join
from opendml.graph.layouts import coordinate_digits, coordinate_factors, moved_digits
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

Array = np.ndarray[Any, Any]
Network = Callable[[Any], Any]


def fused(network: Network, sizes: list[int], refine: Refine | None = None) -> Definition:
    """What is left of a network of one input; its results are checked against the same network without fusion."""
    graph = dml.Graph()
    desc = graph.describe(network(graph.input("float32", sizes)))
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    device = dml.Device()
    alone, together = (device.compile_graph(desc, fusion=fusion)(x) for fusion in (False, True))
    assert_identical(together, alone)
    return divide_and_fuse(join(desc, refine)).execution


def has_fold(definition: Definition) -> bool:
    return any(isinstance(x, Fold) for s in definition.statements for e in expressions_of(s) for x in walk(e))


def bias(size: int) -> Array:
    return np.linspace(-1, 1, size, dtype=np.float32)


def layer(x: Any) -> Any:
    """A product with 6 columns."""
    weights = np.random.default_rng(1).normal(size=(6, x.sizes[1])).astype(np.float32)
    return dml.gemm(x, weights, trans_b="TRANSPOSE")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("network", "kernels"),
    [
        (lambda x: dml.activation_relu(layer(x) + bias(6)), 1),
        (lambda x: dml.activation_relu(layer(x).reshape([2, 2, 6])), 1),
        (lambda x: dml.activation_relu(layer(x).reshape([2, 2, 2, 3])), 1),
        (lambda x: dml.activation_tanh(layer(x).reshape([2, 2, 2, 3]).transpose([0, 2, 1, 3])).packed(), 2),
        (lambda x: dml.activation_relu(layer(x).reshape([2, 2, 6]).transpose([1, 0, 2])).packed(), 2),
        (lambda x: dml.activation_relu(layer(x).transpose([1, 0])).packed(), 2),
        (lambda x: (layer(x).reshape([2, 2, 6]) * 2.0).reshape([24]) + bias(24), 1),
        (lambda x: (layer(x).reshape([24]) + bias(24)).reshape([2, 12]) * 3.0, 1),
        (lambda x: (x * 2.0).transpose([1, 0]) + x.transpose([1, 0]), 1),
        (lambda x: dml.reduce(dml.activation_tanh(x), "SUM", axes=[1]), 1),
        (lambda x: x - dml.reduce(x, "AVERAGE", axes=[1]), 2),
        (
            lambda x: dml.activation_relu(
                x
                + dml.activation_tanh(
                    dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[4, 1], input_window_strides=[1, 1])
                )
            ),
            2,
        ),
        (
            lambda x: dml.activation_relu(
                x
                + (
                    dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[4, 1], input_window_strides=[1, 1])
                    + 1.0
                )
            ),
            1,
        ),
    ],
)
def test_kernels_that_are_left(network: Network, kernels: int) -> None:
    definition = fused(network, [4, 5])
    assert len(definition.statements) == kernels, definition
    assert not definition.views


def test_attention() -> None:
    """Queries, keys and values are read from one product as they are; what is put together again is stored in place."""

    factors = np.random.default_rng(1).normal(size=[48, 16]).astype(np.float32)

    def network(x: Any) -> Any:
        parts = dml.split(dml.gemm(x, factors, trans_b="TRANSPOSE"), axis=1, output_axis_sizes=[16] * 3)
        query, key, value = (part.reshape([1, 8, 2, 8]).transpose([0, 2, 1, 3]) for part in parts)
        weights = dml.activation_softmax(dml.gemm(query, key, trans_b="TRANSPOSE"), axes=[3])
        return dml.gemm(weights, value).transpose([0, 2, 1, 3]).reshape([8, 16])

    definition = fused(network, [8, 16])
    assert not definition.views
    written = [store.tensor.name for s in definition.statements for store in stores_of(s)]
    assert not any("split" in name for name in written), written
    assert has_fold(Definition((), (), definition.statements[-1:]))


def test_attention_of_stacked_batches() -> None:
    """Queries, keys and values of (row, image) in one product, one matrix for each head of each image: a dimension of
    the views goes along two of the copies. Those that read them read the product."""
    factors = np.random.default_rng(1).normal(size=[24, 8]).astype(np.float32)

    def network(x: Any) -> Any:
        stacked = dml.gemm(x, factors, trans_b="TRANSPOSE").reshape([5, 3, 24])
        query, key, value = (
            dml.slice(stacked, **window([0, 0, 8 * number], [5, 3, 8])).reshape([5, 3 * 2, 4]).transpose([1, 0, 2])
            for number in range(3)
        )
        weights = dml.activation_softmax(dml.gemm(query * 0.5, key * 0.5, trans_b="TRANSPOSE"), axes=[2])
        return dml.gemm(weights, value).transpose([1, 0, 2]).reshape([15, 8])

    definition = fused(network, [15, 8])
    assert not definition.views, definition
    written = [store.tensor.name for s in definition.statements for store in stores_of(s)]
    assert not any("SLICE" in name for name in written), written


@pytest.mark.parametrize(
    ("network", "kernels"),
    [
        # The innermost loop would divide its coordinate, and so would that of the fold.
        (lambda x: merged(x, 16) - dml.reduce(merged(x, 16), "MAX", axes=[0]), 3),
        # So would a loop of a sum of products.
        (lambda x: layer(merged(x, 2, 8)), 2),
    ],
)
def test_copies_whose_readers_would_divide_in_inner_loops_stay(network: Network, kernels: int) -> None:
    assert len(fused(network, [4, 5]).statements) == kernels


def test_rows_of_products_are_divided_by_no_loop() -> None:
    """The points of an image window by window, as Swin's attention has them: read where they are, the rows of a product
    would be walked by quotients, and it would be done in no tiles."""

    def network(x: Any) -> Any:
        points = normalized(x)
        windows = points.transpose([0, 2, 1, 3, 4]).reshape([3 * 5 * 4 * 7, 32])
        return dml.join([layer(windows), layer(points.reshape([3 * 4 * 5 * 7, 32]))], axis=0)

    for refine in (None, refining(host_target())):
        statements = fused(network, [3, 4, 5, 7, 32], refine).statements
        assert any(isinstance(store.value, Load) for s in statements for store in stores_of(s))
        read = [e for s in statements if has_fold(Definition((), (), (s,))) for e in loads(s)]
        assert read and all(address_of(e.tensor, e.coordinates).is_pure for e in read)


def loads(statement: Statement) -> list[Load]:
    return [e for root in expressions_of(statement) for e in walk(root) if isinstance(e, Load)]


def merged(x: Any, *sizes: int) -> Any:
    """All columns but one, with other sizes."""
    return dml.slice(x, **window([0, 1], [4, 4])).reshape(list(sizes))


def window(offsets: list[int], sizes: list[int]) -> dict[str, Any]:
    """Fields of a slice of neighbours."""
    return {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": [1] * len(sizes)}


def normalized(x: Any) -> Any:
    return dml.mean_variance_normalization(x, None, None, axes=[x.rank - 1])


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [16, 33, 100])
@pytest.mark.parametrize(
    ("network", "kernels"),
    [
        (lambda x: normalized(x + x), 1),
        (lambda x: normalized(x + x.reshape([x.sizes[0], x.sizes[1]]) * bias(x.sizes[1])), 1),
        (lambda x: normalized(dml.activation_gelu(x)), 1),
        (lambda x: dml.activation_softmax(dml.activation_tanh(x) * 2.0, axes=[1]), 1),
        (lambda x: dml.activation_log_softmax(dml.activation_gelu(x), axes=[1]), 1),
        (lambda x: dml.activation_relu(normalized(dml.activation_gelu(x)) + x), 1),
        (lambda x: dml.activation_softmax(dml.activation_tanh(x), axes=[0]), 3),
        (lambda x: normalized(dml.activation_gelu(x).transpose([1, 0])), 3),
    ],
)
def test_reductions_of_rows(network: Network, kernels: int, columns: int) -> None:
    """What enters the reductions of a row is computed for the row, once, in the same kernel; columns are no rows."""
    assert len(fused(network, [5, columns], refining(host_target())).statements) == kernels


@pytest.mark.parametrize(("columns", "kernels"), [(32768, 1), (32769, 2)])
def test_long_rows_are_stored(columns: int, kernels: int) -> None:
    """What is expensive to compute is not computed again and again where it cannot be kept."""
    refine = refining(host_target())
    assert len(fused(lambda x: normalized(dml.activation_gelu(x)), [40, columns], refine).statements) == kernels
    assert len(fused(lambda x: normalized(x + x), [40, columns], refine).statements) == 1


def tensor(sizes: list[int], strides: list[int] | None = None, **changes: Any) -> Tensor:
    return Tensor("t", F32, tuple(sizes), tuple(strides or packed_strides(sizes)), "temporary", **changes)


def test_factors_of_split_dimensions() -> None:
    heads = tensor([2, 3, 4, 5], [60, 5, 15, 1])
    assert coordinate_factors(heads, tensor([2, 4, 15])) == ((1, 0, 0, 0), (0, 0, 1, 0), (0, 5, 0, 1))


@pytest.mark.parametrize(
    "own",
    [
        tensor([60]),  # merged
        tensor([2, 4, 14], [60, 15, 1], offset=1),
        Tensor("t", I32, (2, 4, 15), (60, 15, 1), "temporary"),
        tensor([2, 4, 16], [60, 15, 1]),  # reads on in the next row
    ],
)
def test_what_has_no_factors(own: Tensor) -> None:
    assert coordinate_factors(own, tensor([2, 4, 15])) is None


@examples(300)
@given(st.data())
def test_factors_lead_to_the_same_bytes(data: st.DataObject) -> None:
    """Every coordinate is inside of the source and has the same address there."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    steps = [n + data.draw(st.integers(0, 1)) for n in sizes]
    order = data.draw(st.permutations(range(len(sizes))))
    strides = [packed_strides([steps[d] for d in order])[order.index(d)] for d in range(len(sizes))]
    source = tensor(sizes, strides)
    own_sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    step = st.sampled_from([0, *strides, *(2 * s for s in strides), 1])
    own = tensor(own_sizes, data.draw(st.lists(step, min_size=len(own_sizes), max_size=len(own_sizes))))
    factors = coordinate_factors(own, source)
    places = {int(np.dot(place, strides)) for place in np.ndindex(*sizes)}
    if factors is None:
        return
    for place in np.ndindex(*own_sizes):
        there = np.array(factors) @ place
        assert (there >= 0).all() and (there < sizes).all()
        assert np.dot(there, strides) == np.dot(place, own.strides)
        assert np.dot(there, strides) in places


def test_digits_of_merged_dimensions() -> None:
    """What goes along the second dimension and then the first takes a quotient and a remainder, but where the
    coordinate is a sum that tells them."""
    own, source = tensor([6, 5, 4], [4, 24, 1]), tensor([5, 3, 8])
    digits = coordinate_digits(own, source)
    assert digits is not None
    heads, rows, columns, images = (Axis(name, size) for name, size in (("h", 2), ("r", 5), ("c", 4), ("n", 3)))
    both = Axis("b", 6)
    divided = moved_digits((index(both), index(rows), index(columns)), digits)
    assert [str(c) for c in divided] == ["r", "(b / 2)", "(((b % 2) * 4) + c)"]
    told = moved_digits((index(images) * 2 + index(heads), index(rows), index(columns)), digits)
    assert [affine(c) for c in told] == [
        affine(c) for c in (index(rows), index(images), index(heads) * 4 + index(columns))
    ]


@examples(300)
@given(st.data())
def test_digits_lead_to_the_same_bytes(data: st.DataObject) -> None:
    """Every coordinate is inside of the source and has the same address there, for views that merge dimensions, too."""
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    steps = [n + data.draw(st.sampled_from([0, 0, 0, 1])) for n in sizes]
    strides = packed_strides(steps)
    source = tensor(sizes, list(strides))
    step = st.sampled_from([0, 1, *strides, *(2 * s for s in strides), *(3 * s for s in strides)])
    own_sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    own = tensor(own_sizes, data.draw(st.lists(step, min_size=len(own_sizes), max_size=len(own_sizes))))
    digits = coordinate_digits(own, source)
    if digits is None:
        return
    axes = [Axis(f"a{d}", n) for d, n in enumerate(own_sizes)]
    moved = moved_digits([index(axis) for axis in axes], digits)
    for place in np.ndindex(*own_sizes):
        values = [affine(substitute(dict(zip(map(Index, axes), map(whole, place), strict=True)))(c)) for c in moved]
        there = [form.constant for form in values]
        assert all(not form.terms for form in values)
        assert all(0 <= c < n for c, n in zip(there, sizes, strict=True))
        assert np.dot(there, strides) == np.dot(place, own.strides)


def whole(number: int) -> Const:
    return constant(int(number), I64)


def test_what_widens_the_result_of_a_fold_is_computed_by_those_who_read_it() -> None:
    """Of two quantized products, dequantized and added, one is in memory: as bytes."""

    def product(x: Any, seed: int) -> Any:
        factor = np.random.default_rng(seed).integers(-9, 10, (8, 16)).astype(np.int8)
        zero_point = np.array([3], np.uint8)
        found: Any = dml.quantized_linear_matrix_multiply(
            x, np.float32(0.5), zero_point, factor, np.float32(0.1), None, np.float32(0.7), zero_point
        )
        return dml.dequantize_linear(found, np.array([[0.7]], np.float32), zero_point.reshape(1, 1))

    def network(x: Any) -> Any:
        bytes_of = dml.quantize_linear(x, np.array([[0.02]], np.float32), np.array([[3]], np.uint8))
        return product(bytes_of, 1) + product(bytes_of, 2)

    execution = fused(network, [32, 8])
    assert [tensor.type for tensor in execution.temporaries if np.prod(tensor.sizes) == 32 * 16] == [U8]
    assert sum(has_fold(Definition((), (), (s,))) for s in execution.statements) == 2


def test_factors_by_which_sums_are_quantized_are_made_once() -> None:
    factor, scales = np.ones((8, 16), np.int8), np.linspace(0.1, 0.2, 16, dtype=np.float32)
    graph = dml.Graph()
    x = graph.input("uint8", [32, 8])
    desc = graph.describe(
        dml.quantized_linear_matrix_multiply(x, np.float32(0.5), None, factor, scales, None, np.float32(0.7))
    )
    found = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs)
    divisions = [
        sum(
            isinstance(e, Binary) and e.operation == "div"
            for s in part.statements
            for v in expressions_of(s)
            for e in walk(v)
        )
        for part in (found.initialisation, found.execution)
        if part is not None
    ]
    assert divisions == [1, 0]
    given = np.random.default_rng(1).integers(0, 256, (32, 8)).astype(np.uint8)
    device = dml.Device()
    alone, together = (device.compile_graph(desc, fusion=fusion)(given) for fusion in (False, True))
    assert_identical(together, alone)


@pytest.mark.parametrize("data_type", ["uint8", "int8"])
@pytest.mark.parametrize("zero_point", [0, 5])
def test_numbers_that_are_quantized_between_others_have_the_bits_of_integers(data_type: str, zero_point: int) -> None:
    """No integer is made of them where both are one kernel: limits, ties, zeros of both signs, NaN."""
    values = [0.0, -0.0, 0.5, 1.5, -0.5, -0.25, 2.5, 127.5, 128, -128.5, -129, 255.5, 256, 1e9, -1e9, 3e38, 1e-45]
    x = np.array([*values, np.nan, np.inf, -np.inf] * 2, np.float32)
    zero = np.array([zero_point], data_type)
    graph = dml.Graph()
    bytes_of: Any = dml.quantize_linear(graph.input("float32", [x.size]), np.ones(1, np.float32), zero)
    numbers: Any = dml.dequantize_linear(bytes_of, np.array([-0.5], np.float32), zero)
    desc = graph.describe(numbers)
    compiled = dml.Device().compile_graph(desc)(x)
    expected = dml.Device("reference").compile_graph(desc)(x)
    np.testing.assert_array_equal(compiled.view(np.uint32), expected.view(np.uint32))


@pytest.mark.sampled
def test_what_several_read_is_computed_with_the_fold_behind_it() -> None:
    """An activation of what a product gives, which several read: not once by each of them."""

    def network(x: Any) -> Any:
        made = layer(x)
        made = made * dml.activation_sigmoid(made)
        first, second = dml.split(made, output_axis_sizes=[2, 4], axis=1)
        return dml.join([second, first], axis=1)

    statements = fused(network, [5, 8]).statements
    folding = [s for s in statements if has_fold(Definition((), (), (s,)))]
    assert len(folding) == 1 and len(statements) == 3
    assert all(isinstance(store.value, Load) for s in statements if s not in folding for store in stores_of(s))
