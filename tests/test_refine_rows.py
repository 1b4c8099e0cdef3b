"""Rules for what lies in rows, or does not: the same bits, where each of them is really taken and where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sample_tensors import f32
from test_refine_together import names
from test_refinement import TARGET, assert_refined_is_defined, convolution

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Dependencies
from opendml.expression.element_types import F32, I64
from opendml.expression.folds import sum_of
from opendml.expression.ir import Axis, Binary, Tensor, cast, grid, index, indices, load
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Order, Scan, Scatter, Store, writes_of
from opendml.targets.cpu.refine.refining import refine


def top_k(sizes: list[int], axis: int, strides: list[int] | None = None) -> Operator:
    """The two largest along an axis of a tensor with strides."""
    target = [2 if d == axis else size for d, size in enumerate(sizes)]
    return operators.TopK(
        input_tensor=TensorDesc("FLOAT32", sizes, strides),
        output_value_tensor=f32(*target),
        output_index_tensor=TensorDesc("UINT32", target),
        axis=axis,
        k=2,
    )


@pytest.mark.parametrize(
    ("desc", "copied"),
    [
        (top_k([3, 7], 1), False),
        (top_k([3, 7], 0), True),
        (top_k([3, 7], 1, [1, 3]), True),
        (top_k([3, 7], 0, [1, 3]), False),
        (top_k([3, 7], 1, [0, 2]), False),
        (top_k([7, 1], 0), False),
        (top_k([3, 7], 0, [0, 1]), False),
        (top_k([2, 7, 3], 1), True),
    ],
)
def test_keys_of_an_order_lie_side_by_side(desc: Operator, copied: bool) -> None:
    assert [type(statement) for statement in desc.define().statements] == [Order]
    assert names(assert_refined_is_defined(desc)) == ({"keys"} if copied else set())


def nonzero(*sizes: int) -> Operator:
    """The coordinates of what is not zero."""
    return operators.NonzeroCoordinates(
        input_tensor=f32(*sizes),
        output_count_tensor=TensorDesc("UINT32", [1]),
        output_coordinates_tensor=TensorDesc("UINT32", [math.prod(sizes), len(sizes)]),
    )


@pytest.mark.parametrize(("sizes", "length"), [((8,), 8), ((9,), 8), ((5, 7), 8), ((3, 2, 4), 8), ((5, 7), 1)])
@pytest.mark.parametrize("share", [0, 0.4, 1])
def test_compactions_are_done_piece_by_piece(sizes: tuple[int, ...], length: int, share: float) -> None:
    desc = nonzero(*sizes)
    x = (np.random.default_rng(len(sizes)).random(sizes) < share).astype(np.float32)
    refined = assert_refined_is_defined(desc, TARGET.tuned(compacted_piece=length), arrays=[x])
    kinds = [type(statement) for statement in refined.statements]
    in_pieces = math.prod(sizes) > length
    assert (kinds.count(Scan), kinds.count(Scatter)) == ((2, 1) if in_pieces else (1, 0))
    assert len(desc.define().statements) == 3
    assert not names(assert_refined_is_defined(desc, arrays=[x])) - {"is_nonzero", "places"}


def random_words(sizes: list[int], strides: list[int] | None = None) -> Operator:
    """Random numbers in a tensor with strides."""
    return operators.RandomGenerator(
        input_state_tensor=TensorDesc("UINT32", [1] * (len(sizes) - 1) + [6]),
        output_tensor=TensorDesc("UINT32", sizes, strides),
        output_state_tensor=None,
    )


@pytest.mark.parametrize(
    ("desc", "moved"),
    [
        (random_words([2, 7]), False),
        (random_words([1, 8]), False),
        (random_words([1, 3, 1, 4], [9, 4, 7, 1]), False),
        (random_words([2, 7], [1, 2]), True),
        (random_words([2, 7], [8, 1]), True),
    ],
)
def test_packed_outputs_are_stored_at_once(desc: Operator, moved: bool) -> None:
    assert names(desc.define()) == {"words"}
    assert names(assert_refined_is_defined(desc)) == ({"words"} if moved else set())


def batch_normalization(statistics: list[int], strides: list[int] | None = None) -> Operator:
    """Given statistics of images, which may lie channel by channel or channels last."""
    tensor, given = TensorDesc("FLOAT16", [2, 6, 3, 5], strides), TensorDesc("FLOAT16", statistics)
    return operators.BatchNormalization(
        input_tensor=tensor,
        mean_tensor=given,
        variance_tensor=given,
        scale_tensor=given,
        bias_tensor=given,
        output_tensor=tensor,
        spatial=True,
        epsilon=1e-5,
    )


@pytest.mark.parametrize(
    ("desc", "shared"),
    [
        (batch_normalization([1, 6, 1, 1]), False),  # one value a row
        (batch_normalization([1, 6, 1, 1], [90, 1, 30, 6]), True),
        (batch_normalization([1, 1, 1, 5]), True),
        (batch_normalization([1, 6, 3, 5]), True),
        (batch_normalization([2, 6, 3, 5]), False),  # one an element
        (batch_normalization([1, 1, 1, 1]), False),
    ],
)
def test_values_that_rows_have_in_common_are_computed_once(desc: Operator, shared: bool) -> None:
    assert not names(desc.define())
    assert names(assert_refined_is_defined(desc)) == ({"shared"} if shared else set())
    assert not names(assert_refined_is_defined(desc, TARGET.tuned(column_repeats=91)))


def with_bias(data_type: str, flags: str = "OWNED_BY_DML") -> Operator:
    """A convolution to six channels of 5x5."""
    return convolution(
        [1, 4, 5, 5],
        [6, 4, 1, 1],
        data_type=data_type,
        bias_tensor=TensorDesc(data_type, [1, 6, 1, 1], flags=flags),
    )


@pytest.mark.parametrize(
    ("desc", "shared"),
    [
        (with_bias("FLOAT16"), True),
        (with_bias("FLOAT32"), False),
        (with_bias("FLOAT16", "NONE"), False),  # it may be another one for every run
    ],
)
def test_fixed_biases_of_float16_are_widened_once(desc: Operator, shared: bool) -> None:
    assert ("shared" in names(assert_refined_is_defined(desc))) == shared
    assert "shared" not in names(assert_refined_is_defined(desc, TARGET.tuned(column_repeats=26)))


def average_gradient(sizes: list[int], window: int, stride: int, padding: int) -> Operator:
    """The gradient of an average pooling without padding in its divisor."""
    counts = [(size + 2 * padding - window) // stride + 1 for size in sizes]
    return operators.AveragePoolingGrad(
        input_gradient_tensor=f32(2, 1, *counts),
        output_gradient_tensor=f32(2, 1, *sizes),
        strides=[stride] * 2,
        window_size=[window] * 2,
        start_padding=[padding] * 2,
        end_padding=[padding] * 2,
        include_padding=False,
    )


def fold(sizes: list[int], window: int, stride: int, padding: int) -> Operator:
    """The columns of an image's blocks summed up."""
    count = math.prod((size + 2 * padding - window) // stride + 1 for size in sizes)
    return operators.Fold(
        input_tensor=f32(2, window * window, count),
        output_tensor=f32(2, 1, *sizes),
        window_sizes=[window] * 2,
        strides=[stride] * 2,
        dilations=[1, 1],
        start_padding=[padding] * 2,
        end_padding=[padding] * 2,
    )


@pytest.mark.parametrize(
    ("desc", "stores"),
    [
        (average_gradient([9, 8], 3, 1, 1), 1),
        (average_gradient([8, 8], 2, 2, 0), 1),
        (average_gradient([9, 8], 2, 2, 0), 2),  # a row behind the last whole block
        (average_gradient([9, 9], 3, 2, 1), 4),
        (average_gradient([11, 9], 5, 3, 2), 2),
        (average_gradient([3, 3], 3, 2, 1), 1),  # all windows are asked
        (fold([8, 8], 3, 2, 1), 1),
        (fold([9, 9], 3, 2, 1), 2),  # of FOLD the axis of rows alone
        (fold([9, 9], 3, 1, 1), 1),
    ],
)
def test_strides_are_divided_into_blocks(desc: Operator, stores: int) -> None:
    """The definition divides, and has one statement for all elements; what is refined has no quotients of
    blocks, nor rests of what is not a step within one."""
    definition, refined = desc.define(), assert_refined_is_defined(desc)
    of_output, found = (
        [s for s in d.statements for t in d.outputs if t is not None and t in writes_of(s)]
        for d in (definition, refined)
    )
    assert (len(of_output), len(found)) == (1, stores)
    for statement in found:
        assert isinstance(statement, Compute)
        quotients = (e for s in statement.stores for e in walk(s.value) if isinstance(e, Binary) and e.type is I64)
        divided = [e for e in quotients if e.operation in ("div", "rem")]
        assert not any(statement.axes[-2] in Dependencies().of(e) for e in divided)


@pytest.mark.parametrize("is_sum", [False, True])
def test_what_occurs_many_times_is_looked_at_once(is_sum: bool) -> None:
    """Two hundred squares of one another: as many ways to the innermost one as no machine can go."""
    source = Tensor("x", F32, (3, 700), (0, 1), "input")
    target = Tensor("y", F32, (3, 700), (700, 1), "output")
    axes, step = grid((3, 700)), Axis("t", 5)
    row, column = indices(axes)
    value = load(source, (row, column)) + (cast(index(step), F32) if is_sum else 1)
    for _ in range(200):
        value = value * value
    stored = sum_of((step,), value) if is_sum else value
    definition = Definition((source,), (target,), (Compute(axes, (Store(target, (row, column), stored),)),))
    assert refine(definition, TARGET) == definition
