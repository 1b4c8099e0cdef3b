"""Rules for several statements together: the same bits, where each of them is really taken and where it is not."""

from __future__ import annotations

import pytest
from sample_descriptors import f32
from test_recurrent import arrays_of, network
from test_refinement import TARGET, assert_refined_is_defined

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Definition, Scatter


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


def join(axis: int, *pieces: list[int], strides: list[int] | None = None) -> Operator:
    whole = [*pieces[0]]
    whole[axis] = sum(piece[axis] for piece in pieces)
    output = TensorDesc("FLOAT32", whole, strides)
    return operators.Join(input_tensors=[f32(*piece) for piece in pieces], output_tensor=output, axis=axis)


@pytest.mark.parametrize(
    ("desc", "count"),
    [
        (join(1, [3, 4], [3, 1], [3, 2]), 1),
        (join(0, [1], [1]), 1),
        (join(0, [3, 4], [1, 4], strides=[1, 4]), 1),
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
    fields = {
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
    assert {tensors[name].sizes[-1] for name in ("packed_WeightTensor", "projections", "forward_hidden")} == {padded}
    without = assert_refined_is_defined(desc, TARGET.tuned(projected_growth=0, projected_elements=0), arrays=arrays)
    assert names(without) == set(tensors) - {"projections"}


def test_a_network_of_one_unit_has_no_blocks() -> None:
    desc = network(operators.Lstm, (3, 2, 2, 1), optional=OPTIONAL)
    refined = assert_refined_is_defined(desc, arrays=arrays_of(desc, 1))
    assert names(refined) == {tensor.name for tensor in desc.define().temporaries}


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
