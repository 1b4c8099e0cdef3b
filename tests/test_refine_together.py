"""Rules for several statements together: the same bits, where each of them is really taken and where it is not."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest
from execution import random_array, run_operator
from sample_tensors import f32
from test_recurrent import arrays_of, network
from test_refinement import TARGET, assert_refined_is_defined

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Dependencies
from opendml.expression.ir import Fold, Load, Part
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Each, Repeat, Scatter, stores_of, writes_of
from opendml.targets.cpu.refine.refining import refine

LENGTHS: Final = TensorDesc("INT32", [2])


def names(definition: Definition) -> set[str]:
    """The names of what is computed on the way."""
    return {tensor.name for tensor in definition.temporaries}


def scatter_nd(block: int, data_type: str = "FLOAT32") -> Operator:
    """Updates of blocks, some of them of the same one."""
    return operators.ScatterNd(
        input_tensor=TensorDesc(data_type, [5, block]),
        indices_tensor=TensorDesc("INT32", [7, 1]),
        updates_tensor=TensorDesc(data_type, [7, block]),
        output_tensor=TensorDesc(data_type, [5, block]),
        input_dimension_count=2,
        indices_dimension_count=2,
    )


def scatter_elements(strides: list[int] | None) -> Operator:
    """Updates along the first dimension, by indices that may be the same along the other one."""
    return operators.ScatterElements(
        input_tensor=f32(4, 20),
        indices_tensor=TensorDesc("INT32", [3, 20], strides),
        updates_tensor=f32(3, 20),
        output_tensor=f32(4, 20),
        axis=0,
    )


@pytest.mark.parametrize("desc", [scatter_nd(16), scatter_nd(40, "FLOAT16"), scatter_elements([1, 0])])
def test_blocks_are_updated_as_a_whole(desc: Operator) -> None:
    for seed in range(5):
        refined = assert_refined_is_defined(desc, seed=seed)
    assert names(refined) == {"last_update"}
    (scatter,) = [statement for statement in refined.statements if isinstance(statement, Scatter)]
    assert scatter.store.tensor.name == "last_update"
    assert not names(assert_refined_is_defined(desc, TARGET.tuned(scattered_block=41)))


@pytest.mark.parametrize("desc", [scatter_nd(15), scatter_elements(None)])
def test_small_blocks_and_single_elements_are_scattered(desc: Operator) -> None:
    assert not names(assert_refined_is_defined(desc))


def scatter_along(axis: int, sizes: list[int], count: int) -> Operator:
    """``count`` updates along a dimension, by indices that may be the same, negative ones too."""
    updates = [*sizes]
    updates[axis] = count
    return operators.ScatterElements(
        input_tensor=f32(*sizes),
        indices_tensor=TensorDesc("INT64", updates),
        updates_tensor=f32(*updates),
        output_tensor=f32(*sizes),
        axis=axis % len(sizes),
    )


def scatter_in_columns(sizes: list[int], count: int) -> Operator:
    """Every update stays in its column."""
    return scatter_along(-2, sizes, count)


def scatter_in_rows(sizes: list[int], count: int) -> Operator:
    """Every update stays in its row."""
    return scatter_along(-1, sizes, count)


def indices_along(axis: int, desc: Operator, seed: int) -> list[Any]:
    """Some of them out of the tensor."""
    generator = np.random.default_rng(seed)
    given = [generator.random(tensor.sizes, np.float32) for _, tensor in desc.inputs() if tensor is not None]
    size = given[0].shape[axis]
    return [given[0], generator.integers(-size - 1, size + 1, given[1].shape), given[2]]


IN_COLUMNS: Final = TARGET.tuned(
    prefetched_bytes=0, scattered_columns=32, scattered_columns_bytes=1 << 12, most_scattered_rows_bytes=0
)


@pytest.mark.parametrize(
    ("desc", "widths"),
    [
        (scatter_in_columns([5, 64], 9), [32]),
        (scatter_in_columns([5, 70], 2), [32, 6]),
        (scatter_in_columns([3, 4, 33], 4), [32, 1]),
        (scatter_in_columns([2, 60, 40], 50), [16, 8]),
    ],
)
def test_columns_are_scattered_in_blocks(desc: Operator, widths: list[int]) -> None:
    for seed in range(3):
        arrays = indices_along(-2, desc, seed)
        refined = assert_refined_is_defined(desc, IN_COLUMNS, arrays=arrays)
        run_operator(desc, arrays, tuning=IN_COLUMNS.tuning)
    assert [each.own[0].sizes[-1] for each in refined.statements if isinstance(each, Each)] == widths
    assert len(refined.statements) == len(widths)


IN_ROWS: Final = TARGET.tuned(prefetched_bytes=0, scattered_rows_bytes=64, most_scattered_rows_bytes=512)


@pytest.mark.parametrize(
    ("desc", "parts"),
    [
        (scatter_in_rows([5, 64], 70), [((5,), (1, 64))]),
        (scatter_in_rows([3, 4, 33], 20), [((3, 4), (1, 1, 33))]),
        (scatter_in_rows([17, 3], 2), [((3,), (5, 3)), ((1,), (2, 3))]),
        (scatter_in_rows([2, 8, 4], 9), [((2, 2), (1, 4, 4))]),
        (scatter_in_rows([2, 7, 1, 4], 3), [((2, 1), (1, 4, 1, 4)), ((2, 1), (1, 3, 1, 4))]),
    ],
)
def test_rows_are_scattered_one_or_some_at_a_time(
    desc: Operator, parts: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    for seed in range(3):
        arrays = indices_along(-1, desc, seed)
        refined = assert_refined_is_defined(desc, IN_ROWS, arrays=arrays)
        run_operator(desc, arrays, tuning=IN_ROWS.tuning)
    eachs = [each for each in refined.statements if isinstance(each, Each)]
    assert [(tuple(axis.size for axis in each.axes), each.own[0].sizes) for each in eachs] == parts
    assert len(refined.statements) == len(parts)


@pytest.mark.parametrize(
    ("axis", "sizes", "count", "target"),
    [
        (-2, [5, 64], 9, TARGET),
        (-2, [64, 64], 9, IN_COLUMNS),
        (-2, [5, 32], 9, IN_COLUMNS),
        (-2, [100, 64], 100, IN_COLUMNS),
        (-1, [5, 64], 70, TARGET),
        (-1, [5, 64], 1, IN_ROWS),
        (-1, [64], 64, IN_ROWS),
        (-1, [3, 2], 2, IN_ROWS),
        (-1, [2, 129], 129, IN_ROWS),
    ],
)
def test_near_or_long_rows_and_columns_and_few_of_them_or_of_updates_are_scattered_where_they_are(
    axis: int, sizes: list[int], count: int, target: Any
) -> None:
    desc = scatter_along(axis, sizes, count)
    arrays = indices_along(axis, desc, 0)
    assert not names(assert_refined_is_defined(desc, target, arrays=arrays))


def join(axis: int, *pieces: list[int], turned: bool = False) -> Operator:
    """Pieces put together along an axis, of two in memory that of the columns if they are ``turned``."""
    whole = [*pieces[0]]
    whole[axis] = sum(piece[axis] for piece in pieces)
    tensors = [TensorDesc("FLOAT32", sizes, [1, sizes[0]] if turned else None) for sizes in (*pieces, whole)]
    return operators.Join(input_tensors=tensors[:-1], output_tensor=tensors[-1], axis=axis)


def transposed_join() -> Operator:
    """Rows of pieces that lie in memory as columns."""
    pieces = [TensorDesc("FLOAT32", [3, width], [1, 3]) for width in (4, 2)]
    return operators.Join(input_tensors=pieces, output_tensor=f32(3, 6), axis=1)


@pytest.mark.parametrize(
    ("desc", "count"),
    [
        (join(1, [3, 4], [3, 1], [3, 2]), 1),
        (join(0, [1], [1]), 1),
        (join(0, [3, 4], [1, 4], turned=True), 1),
        (transposed_join(), 2),
        (join(0, [3, 4], [1, 4]), 2),
        (join(1, [3, 1000], [3, 25]), 2),
        (join(1, *[[3, 1]] * 9), 9),
        (join(1, [3, 4]), 1),
    ],
)
def test_copies_that_take_turns_within_short_rows_are_one_statement(desc: Operator, count: int) -> None:
    assert len(assert_refined_is_defined(desc).statements) == count


def pooling_gradient(
    kind: str, size: int, window: int, stride: int, padding: int, data_type: str = "FLOAT32"
) -> Operator:
    count = (size + 2 * padding - window) // stride + 1
    fields: dict[str, Any] = {
        "input_gradient_tensor": TensorDesc(data_type, [1, 2, count, count]),
        "output_gradient_tensor": TensorDesc(data_type, [1, 2, size, size]),
        "strides": [stride] * 2,
        "window_size": [window] * 2,
        "start_padding": [padding] * 2,
        "end_padding": [padding] * 2,
    }
    if kind == "max":
        image = TensorDesc(data_type, [1, 2, size, size])
        return operators.MaxPoolingGrad(input_tensor=image, dilations=[1, 1], **fields)
    return operators.AveragePoolingGrad(include_padding=kind == "whole", **fields)


def unfold(size: int, window: int, padding: int, data_type: str = "FLOAT32") -> Operator:
    count = size + 2 * padding - window + 1
    return operators.Unfold(
        input_tensor=TensorDesc(data_type, [1, 2, size, size]),
        output_tensor=TensorDesc(data_type, [1, 2 * window**2, count**2]),
        window_sizes=[window] * 2,
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[padding] * 2,
        end_padding=[padding] * 2,
    )


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize(
    ("kind", "window", "padded"),
    [
        ("max", (7, 3, 2, 1), {"positions", "padded_InputGradientTensor"}),
        ("max", (6, 4, 1, 2), {"positions", "padded_InputGradientTensor"}),
        ("even", (7, 3, 2, 1), {"quotients"}),
        ("even", (6, 4, 1, 2), {"quotients"}),
        ("whole", (7, 3, 2, 1), {"padded_InputGradientTensor"}),
    ],
)
def test_windows_have_margins(kind: str, window: tuple[int, int, int, int], padded: set[str], data_type: str) -> None:
    desc = pooling_gradient(kind, *window, data_type)
    for seed in range(3):
        refined = assert_refined_is_defined(desc, seed=seed)
    assert names(refined) == padded
    given = {tensor.name: tensor for tensor in desc.define().temporaries}
    assert all(tensor.sizes != given[tensor.name].sizes for tensor in refined.temporaries if tensor.name in given)
    without = TARGET.tuned(margin_growth=0, margin_elements=0)
    assert names(assert_refined_is_defined(desc, without)) == set(given)


@pytest.mark.parametrize(("size", "window", "padding", "count"), [(5, 3, 1, 1), (5, 3, 0, 0), (3, 1, 1, 0)])
def test_images_of_overlapping_blocks_have_margins(size: int, window: int, padding: int, count: int) -> None:
    for data_type in ("FLOAT32", "FLOAT16"):
        refined = assert_refined_is_defined(unfold(size, window, padding, data_type))
        assert len(refined.temporaries) == count


OPTIONAL = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor", "sequence_lengths_tensor", "peephole_tensor")


@pytest.mark.parametrize("operator", [operators.Rnn, operators.Gru, operators.Lstm])
@pytest.mark.parametrize("units", [2, 5, 33, 64])
def test_units_are_walked_in_blocks(operator: type[Operator], units: int) -> None:
    """Of a power of two, a whole number of them; what has no room is computed by the steps."""
    desc = network(operator, (2, 1 if units == 64 else 2, 2, units), "BIDIRECTIONAL", optional=OPTIONAL)
    arrays = arrays_of(desc, 3)
    refined = assert_refined_is_defined(desc, arrays=arrays)
    tensors = {tensor.name: tensor for tensor in refined.temporaries}
    block = {2: 2, 5: 8, 33: 32, 64: 64}[units]
    padded = -(-units // block) * block
    *_, blocks, _, _, lanes = tensors["packed_RecurrenceTensor"].sizes
    assert (blocks, lanes) == (padded // block, block)
    packed = ["packed_WeightTensor"] if padded > units else []
    assert "packed_WeightTensor" not in tensors or packed
    assert {tensors[name].sizes[-1] for name in (*packed, "projections", "forward_hidden")} == {padded}
    without = assert_refined_is_defined(desc, TARGET.tuned(projected_growth=0, projected_elements=0), arrays=arrays)
    assert names(without) == set(tensors) - {"projections"} | {"packed_WeightTensor"}


@pytest.mark.parametrize(
    ("data_type", "is_fixed", "is_packed"),
    [("float32", False, False), ("float32", True, True), ("float16", False, True)],
)
@pytest.mark.parametrize("operator", [operators.Rnn, operators.Gru, operators.Lstm])
def test_weights_of_projections_are_packed_where_that_is_done_once(
    operator: type[Operator], data_type: str, is_fixed: bool, is_packed: bool
) -> None:
    """Or widens them; others are read where they lie by the products, whose tiles pack what they need."""
    definition = network(operator, (3, 2, 8, 64), data_type=data_type).define()
    weights = definition.inputs[1]
    assert weights is not None and weights.name == "WeightTensor"
    found = refine(definition, TARGET, (weights,) if is_fixed else ())
    assert ("packed_WeightTensor" in names(found)) is is_packed


def test_a_network_of_one_unit_has_no_blocks() -> None:
    desc = network(operators.Lstm, (3, 2, 2, 1), optional=OPTIONAL)
    refined = assert_refined_is_defined(desc, arrays=arrays_of(desc, 1))
    assert names(refined) == {tensor.name for tensor in desc.define().temporaries}


@pytest.mark.parametrize("operator", [operators.Rnn, operators.Gru, operators.Lstm])
@pytest.mark.parametrize(("batch", "direction"), [(1, "FORWARD"), (1, "BIDIRECTIONAL"), (2, "BIDIRECTIONAL")])
def test_directions_are_apart_where_weights_of_one_stay_near(
    operator: type[Operator], batch: int, direction: str
) -> None:
    """And together where those of both do, or of neither; steps of one direction, or of several items, always are."""
    desc = network(operator, (3, batch, 2, 33), direction, optional=OPTIONAL)
    arrays, count = arrays_of(desc, 5), 2 if direction == "BIDIRECTIONAL" else 1
    apart = count if batch == 1 else 1
    one = 4 * math.prod(desc.recurrence_tensor.sizes) // count * 64 // 33

    def repeats(step_bytes: int) -> int:
        refined = assert_refined_is_defined(desc, TARGET.tuned(step_bytes=step_bytes), arrays=arrays)
        return sum(isinstance(statement, Repeat) for statement in refined.statements)

    assert [repeats(limit) for limit in (one // 2, one + one // 2, 3 * one)] == [1, apart, 1]


def attention(batch: int, queries: int, keys: int, heads: int, key_heads: int, size: int = 3, **given: Any) -> Operator:
    fields = {
        "query_tensor": f32(batch, queries, heads * size),
        "key_tensor": f32(batch, keys, key_heads * size),
        "value_tensor": f32(batch, keys, key_heads * size),
        "output_tensor": f32(batch, queries, heads * size),
    }
    return operators.MultiheadAttention1(
        **(fields | given),
        scale=0.5,
        mask_filter_value=-10000,
        query_head_count=heads,
        key_value_head_count=key_heads,
        mask_type="NONE",
    )


@pytest.mark.parametrize(
    ("desc", "outer", "blocks"),
    [
        (attention(2, 7, 5, 4, 2), [2, 2], [(3, 2), (1, 1)]),
        (attention(1, 6, 70, 2, 2), [2], [(2, 3)]),
        (attention(2, 8, 5, 6, 1), [2], [(8, 1)]),
        (attention(1, 1, 5, 4, 4), [4], [(1, 1)]),
    ],
)
def test_products_of_products_are_computed_in_blocks_of_rows(
    desc: Operator, outer: list[int], blocks: list[tuple[int, int]]
) -> None:
    """All heads that share keys, and so many queries; the rest of the queries apart."""
    fewest = 6 if blocks and blocks[0][0] != 8 else 48
    if blocks == [(2, 3)]:
        fewest = 2
    target = TARGET.tuned(rows_at_once=1, block_elements=1, fewest_rows=fewest)
    refined = assert_refined_is_defined(desc, target)
    found = [statement for statement in refined.statements if isinstance(statement, Each)]
    own = [[t.sizes[-2] for t in each.own if t.name == "weights"] for each in found]
    assert [(rows, each.axes[-1].size) for (rows,), each in zip(own, found, strict=True)] == blocks
    assert all([axis.size for axis in each.axes[:-1]] == outer for each in found)
    assert not any(isinstance(s, Each) for s in assert_refined_is_defined(desc).statements)


BETWEEN: Final = {"scores", "weights"}
PAST, CACHE = f32(2, 2, 9, 3), f32(2, 2, 9, 16)
"""Of two heads of keys and values, with short and longer elements."""


@pytest.mark.parametrize(
    ("desc", "copies"),
    [
        (attention(2, 16, 20, 2, 2), [("panels", (2, 2, 1, 3, 20)), ("packed_ValueTensor", (2, 2, 20, 3))]),
        (
            attention(1, 16, 130, 4, 2),
            [("panels", (2, 2, 3, 64)), ("panels", (2, 1, 3, 2)), ("packed_ValueTensor", ())],
        ),
        # Few rows read values where they are, and sums along the heads read keys there.
        (attention(1, 15, 20, 2, 2), [("panels", (2, 1, 3, 20))]),
        (attention(1, 2, 20, 2, 2, 16), []),
        # Values of one head lie row by row.
        (attention(1, 20, 20, 1, 1), [("panels", (1, 3, 20))]),
        # What takes more than a load is computed once for many rows.
        (
            attention(2, 9, 20, 4, 2, bias_tensor=f32(24)),
            [("packed_QueryTensor", (2, 2, 2, 9, 3)), ("panels", ()), ("packed_ValueTensor", ())],
        ),
        (
            attention(2, 16, 20, 2, 2, past_key_tensor=PAST, past_value_tensor=PAST),
            [("panels", (2, 2, 1, 3, 29)), ("packed_PastValueTensor", (2, 2, 29, 3))],
        ),
        (
            attention(
                2, 16, 1, 2, 2, past_key_tensor=PAST, past_value_tensor=PAST, past_sequence_lengths_tensor=LENGTHS
            ),
            [("panels", (2, 2, 1, 3, 10)), ("packed_PastSequenceLengthsTensor", (2, 2, 10, 3))],
        ),
        # Few rows have no copies of it.
        (
            attention(2, 2, 20, 4, 2, bias_tensor=f32(24)),
            [("packed_QueryTensor", (2, 2, 2, 2, 3)), ("panels", ())],
        ),
        (attention(2, 2, 20, 2, 2, past_key_tensor=PAST, past_value_tensor=PAST), [("panels", (2, 2, 1, 3, 29))]),
        (attention(2, 1, 1, 2, 2, 16, past_key_tensor=CACHE, past_value_tensor=CACHE), []),
        (
            attention(
                2,
                1,
                1,
                2,
                2,
                16,
                past_key_tensor=CACHE,
                past_value_tensor=CACHE,
                past_sequence_lengths_tensor=LENGTHS,
            ),
            [],
        ),
    ],
)
def test_factors_of_products_of_products_are_copied(desc: Operator, copies: list[tuple[str, tuple[int, ...]]]) -> None:
    """As blocks of rows read them, where they are read often or take more than a load."""
    refined = assert_refined_is_defined(desc)
    assert {tensor.name for tensor in desc.define().temporaries} >= BETWEEN
    made = [t for t in refined.temporaries if t.name.startswith("pa")]
    sizes = [tuple(size for size in t.sizes if size > 1) for t in made]
    assert [t.name for t in made] == [name for name, _ in copies]
    for found, (_, expected) in zip(sizes, copies, strict=True):
        assert found == tuple(size for size in expected if size > 1) or not expected


def test_blocks_of_keys_are_computed_in_blocks_of_rows() -> None:
    """Every block of keys again, from copies that are made once."""
    desc = attention(1, 16, 600, 2, 2, 2)
    refined = assert_refined_is_defined(desc, TARGET.tuned(rows_at_once=1, block_elements=1, fewest_rows=7))
    made = [(t.name, tuple(size for size in t.sizes if size > 1)) for t in refined.temporaries if t.name[:2] == "pa"]
    assert sorted(made) == [
        ("packed_ValueTensor", (2, 88, 2)),
        ("packed_ValueTensor", (2, 512, 2)),
        ("panels", (2, 2, 24)),
        ("panels", (2, 2, 64)),
        ("panels", (2, 8, 2, 64)),
    ]
    (repeat,) = [statement for statement in refined.statements if isinstance(statement, Repeat)]
    assert [type(statement) for statement in repeat.statements] == [Each, Each]
    for each in (*repeat.statements, *(s for s in refined.statements if isinstance(s, Each))):
        assert isinstance(each, Each)
        assert {tensor.name for tensor in each.own} == {"scores", "weights", "new_largest", "scales", "weighed"}
        assert {tensor.name for tensor in writes_of(each)} >= {"largest", "total", "sums"}


def test_values_are_copied_for_many_rows() -> None:
    desc = attention(1, 15, 20, 2, 2)
    assert "packed_ValueTensor" in names(assert_refined_is_defined(desc, TARGET.tuned(rows_worth_copies=15)))
    assert "packed_ValueTensor" not in names(assert_refined_is_defined(desc))


@pytest.mark.parametrize("queries", [1, 2, 15])
def test_values_of_two_places_are_two_sums_for_few_rows(queries: int) -> None:
    """The second one begins with what the first one comes to, so the order of the terms is the same."""
    desc = attention(2, queries, 4, 2, 2, past_key_tensor=PAST, past_value_tensor=PAST)
    last = assert_refined_is_defined(desc).statements[-1]
    (part,) = [store.value for store in stores_of(last)]
    assert isinstance(part, Part)
    (before,) = part.fold.initial
    assert isinstance(before, Part)
    assert [axis.size for fold in (before.fold, part.fold) for axis in fold.axes] == [9, 4]
    loaded = [
        {e.tensor.name for e in walk(fold.elements[0]) if isinstance(e, Load)} for fold in (before.fold, part.fold)
    ]
    assert loaded == [{"weights", "PastValueTensor"}, {"weights", "ValueTensor"}]


def test_rows_between_products_begin_at_lines() -> None:
    """An odd number of them apart, so that neighbours are at other places of a cache."""
    for target in (TARGET, TARGET.tuned(rows_at_once=1)):
        refined = assert_refined_is_defined(attention(1, 20, 40, 2, 2), target)
        between = [tensor for tensor in refined.temporaries if tensor.name in BETWEEN]
        assert {tensor.strides[-2] for tensor in between} == {48}
        assert {tensor.strides[-2] for tensor in refined.temporaries if tensor.name not in BETWEEN} != {48}


def resample(outputs: int, backward: bool, mode: str = "LINEAR") -> Operator:
    """Three rows of seven elements, or their gradient, by the widest operator."""
    scale = outputs / 7
    fields: dict[str, Any] = {"interpolation_mode": mode, "scales": [1, scale], "rounding_direction": "DECREASING"}
    fields |= {"input_pixel_offsets": [0.5, 0.5], "output_pixel_offsets": [-0.5, -0.5]}
    if backward:
        return operators.ResampleGrad1(
            input_gradient_tensor=f32(3, outputs), output_gradient_tensor=f32(3, 7), **fields
        )
    return operators.Resample3(input_tensor=f32(3, 7), output_tensor=f32(3, outputs), antialiased=True, **fields)


@pytest.mark.parametrize(
    "desc", [resample(3, False), resample(14, True), resample(14, True, "NEAREST_NEIGHBOR"), resample(4, True)]
)
def test_weights_of_sums_have_tables(desc: Operator) -> None:
    """Unless these would be out of proportion to what is summed."""
    for seed in range(3):
        assert "weights" in names(assert_refined_is_defined(desc, seed=seed))
    assert "weights" not in names(assert_refined_is_defined(desc, TARGET.tuned(table_growth=0)))
    assert "weights" not in names(assert_refined_is_defined(desc, TARGET.tuned(table_operations=100)))


def test_weights_of_lone_rows_have_no_tables() -> None:
    """Each would be read once."""
    gradient, image = f32(1, 14), f32(1, 7)
    fields: dict[str, Any] = {"interpolation_mode": "LINEAR", "scales": [1, 2]}
    desc = operators.ResampleGrad(
        input_gradient_tensor=gradient,
        output_gradient_tensor=image,
        input_pixel_offsets=[0.5, 0.5],
        output_pixel_offsets=[-0.5, -0.5],
        **fields,
    )
    assert "weights" not in names(assert_refined_is_defined(desc))


def test_only_what_is_read_again_is_copied() -> None:
    """Padding reads every element once; average pooling of an input asks at its edges only."""
    average = operators.AveragePooling(
        input_tensor=f32(1, 1, 6, 6),
        output_tensor=f32(1, 1, 6, 6),
        strides=[1, 1],
        window_size=[3, 3],
        start_padding=[1, 1],
        end_padding=[1, 1],
        include_padding=True,
    )
    for desc in (pooling_gradient("max", 6, 2, 2, 0), average):
        assert names(assert_refined_is_defined(desc)) <= {"positions"}


def regions(channels: int, count: int = 6, outputs: int = 4, samples: tuple[int, int] = (2, 2), **fields: Any) -> Any:
    """ROI_ALIGN of two images."""
    values = {
        "input_tensor": TensorDesc(
            fields.pop("data_type", "FLOAT32"), [2, channels, 5, 6], fields.pop("strides", None)
        ),
        "batch_indices_tensor": TensorDesc("UINT32", [count]),
        "reduction_function": fields.pop("function", "AVERAGE"),
        "interpolation_mode": fields.pop("mode", "LINEAR"),
        "spatial_scale_x": 0.75,
        "spatial_scale_y": 0.5,
        "minimum_samples_per_output": samples[0],
        "maximum_samples_per_output": samples[1],
    }
    data_type = values["input_tensor"].data_type
    values["roi_tensor"] = TensorDesc(data_type, [count, 4])
    pooled = TensorDesc(data_type, [count, channels, outputs, outputs])
    if fields:
        assert fields.pop("backward")
        image = values.pop("input_tensor")
        if values["reduction_function"] == "MAX":
            values["input_tensor"] = image
        values |= {"input_gradient_tensor": pooled, "output_gradient_tensor": image, "input_pixel_offset": 0.5}
        return operators.RoiAlignGrad(**values, output_pixel_offset=-0.5, align_regions_to_corners=False)
    return operators.RoiAlign(**values, output_tensor=pooled, out_of_bounds_input_value=3.0)


def arrays_of_regions(desc: Any, seed: int) -> list[Any]:
    """Regions in and around the images, of any image."""
    generator = np.random.default_rng(seed)
    arrays: list[Any] = [None if t is None else random_array(t, seed + n) for n, (_, t) in enumerate(desc.inputs())]
    corners = generator.uniform(-4, 12, (len(arrays[-2].ravel()) // 4, 4))
    arrays[-2] = corners.astype(arrays[-2].dtype)
    arrays[-1] = generator.integers(0, 3, arrays[-1].shape).astype(np.uint32)
    return arrays


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize(("function", "samples"), [("AVERAGE", (2, 2)), ("MAX", (1, 9)), ("AVERAGE", (1, 9))])
@pytest.mark.parametrize("backward", [False, True])
def test_samples_of_regions_have_tables_and_channels_lanes(
    data_type: str, mode: str, function: str, samples: tuple[int, int], backward: bool
) -> None:
    fields = {"backward": True} if backward else {}
    desc = regions(9, samples=samples, data_type=data_type, mode=mode, function=function, **fields)
    for seed in range(2):
        refined = assert_refined_is_defined(desc, arrays=arrays_of_regions(desc, seed))
    found = names(refined)
    assert {"places", "conditions"} <= found and (mode != "LINEAR" or "weights" in found)
    gradient = "InputGradientTensor_by_channels"
    copied = {"OutputGradientTensor_by_channels", gradient} if backward else {"OutputTensor_by_channels"}
    assert copied <= found
    plain = TARGET.tuned(table_operations=1000, fewest_channels=10)
    given = names(desc.define())
    assert names(assert_refined_is_defined(desc, plain, arrays=arrays_of_regions(desc, 5))) == given


@pytest.mark.parametrize(("channels", "own_conditions"), [(3, False), (9, True)])
def test_terms_that_some_lanes_have_are_added_by_all(channels: int, own_conditions: bool) -> None:
    """Whether a region reaches a column is no branch where lanes are columns, and one where they are channels."""
    desc = regions(channels, backward=True)
    for seed in range(3):
        refined = assert_refined_is_defined(desc, arrays=arrays_of_regions(desc, seed))
    (total, reached) = next(
        (s, e.where)
        for s in refined.statements
        if isinstance(s, Compute)
        for e in walk(s.stores[0].value)
        if isinstance(e, Fold) and e.axes[0].size == 6 and e.where is not None
    )
    assert len(Dependencies().of(reached) & {*total.axes}) == (3 if own_conditions else 2)


def by_channels(definition: Definition) -> set[str]:
    """The tensors whose channels are at their end."""
    return {name.removesuffix("_by_channels") for name in names(definition) if name.endswith("_by_channels")}


@pytest.mark.parametrize(
    ("desc", "copied"),
    [
        (regions(7), set()),
        (regions(8), {"InputTensor", "OutputTensor"}),
        (regions(8, count=1, outputs=1), set()),
        (regions(8, strides=[240, 1, 48, 8]), {"OutputTensor"}),
        (regions(8, outputs=1), set()),
    ],
)
def test_channels_are_copied_to_the_end_where_that_pays(desc: Operator, copied: set[str]) -> None:
    refined = assert_refined_is_defined(desc, arrays=arrays_of_regions(desc, 0))
    assert by_channels(refined) == copied


def test_elements_are_gathered_where_they_are() -> None:
    """One load for each result is no reason to copy a tensor."""
    desc = operators.Gather(
        input_tensor=f32(40, 8),
        indices_tensor=TensorDesc("INT32", [1, 6]),
        output_tensor=f32(40, 6),
        axis=1,
        index_dimensions=1,
    )
    assert assert_refined_is_defined(desc).temporaries == desc.define().temporaries


def test_regions_that_reach_no_element_are_found_once() -> None:
    """Which regions reach a row or a column is one table each, read for every element."""
    desc = regions(9, backward=True)
    refined = assert_refined_is_defined(desc, arrays=arrays_of_regions(desc, 1))
    tables = {t.sizes for t in refined.temporaries if t.name == "conditions"}
    assert {(6, 5), (6, 6)} <= tables
