"""Definitions do not grow with tensors: the largest ones that DirectML allows are stated as briefly as small ones."""

from __future__ import annotations

from typing import Any

import pytest

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.printer import format_definition

LARGE = 2**28


def _tensor(*sizes: int) -> TensorDesc:
    return TensorDesc("FLOAT16", sizes)


def _padding(mode: str, start: int) -> Operator:
    return operators.Padding(
        input_tensor=_tensor(3),
        output_tensor=_tensor(LARGE + 3),
        padding_mode=mode,
        padding_value=1,
        start_padding=[start],
        end_padding=[LARGE - start],
    )


def _window(**fields: object) -> dict[str, Any]:
    return {"input_window_offsets": [0], "input_window_sizes": [LARGE], "input_window_strides": [-3], **fields}


PAIR = {"input_tensor": _tensor(LARGE), "output_tensor": _tensor(LARGE)}

DESCRIPTORS = [
    operators.Slice1(**_window(input_tensor=_tensor(LARGE), output_tensor=_tensor(LARGE // 3))),
    operators.SliceGrad(**_window(input_gradient_tensor=_tensor(LARGE // 3), output_gradient_tensor=_tensor(LARGE))),
    *(_padding(mode, LARGE // 2) for mode in ("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")),
    operators.Tile(input_tensor=_tensor(2), output_tensor=_tensor(LARGE), repeats=[LARGE // 2]),
    operators.SpaceToDepth1(
        input_tensor=_tensor(1, 1, 2**14, 2**14), output_tensor=_tensor(1, 2**28, 1, 1), block_size=2**14, order=0
    ),
    operators.DepthToSpace1(
        input_tensor=_tensor(1, 2**28, 1, 1), output_tensor=_tensor(1, 1, 2**14, 2**14), block_size=2**14, order=1
    ),
    operators.Gather(
        input_tensor=_tensor(LARGE),
        indices_tensor=TensorDesc("INT64", [LARGE]),
        output_tensor=_tensor(LARGE),
        axis=0,
        index_dimensions=1,
    ),
    operators.ElementWiseIdentity(**PAIR, scale_bias=(2, 1)),
    operators.FillValueSequence(output_tensor=_tensor(LARGE), value_data_type="FLOAT16", value_start=0, value_delta=1),
    operators.CumulativeSummation(**PAIR, axis=0, axis_direction=1, has_exclusive_sum=True),
    operators.Upsample2D(
        input_tensor=_tensor(1, 1, 2, 1),
        output_tensor=_tensor(1, 1, 2**14, 2**14),
        scale_size=(2**14, 2**13),
        interpolation_mode="LINEAR",
    ),
    operators.GatherNd(
        input_tensor=_tensor(LARGE, 1),
        indices_tensor=TensorDesc("INT64", [LARGE, 2]),
        output_tensor=_tensor(1, LARGE),
        input_dimension_count=2,
        indices_dimension_count=2,
    ),
    *(
        operators.ScatterNd(
            input_tensor=_tensor(LARGE // block, block),
            indices_tensor=TensorDesc("INT64", [LARGE // block, 1]),
            updates_tensor=_tensor(LARGE // block, block),
            output_tensor=_tensor(LARGE // block, block),
            input_dimension_count=2,
            indices_dimension_count=2,
        )
        for block in (1, 2**14)
    ),
    operators.OneHot(
        indices_tensor=TensorDesc("INT64", [2**14, 1]),
        values_tensor=_tensor(LARGE, 1),
        output_tensor=_tensor(2**14, 2**14),
        axis=1,
    ),
    operators.ReverseSubsequences(**PAIR, sequence_lengths_tensor=TensorDesc("UINT64", [1]), axis=0),
    operators.DiagonalMatrix(output_tensor=_tensor(2**14, 2**14), offset=-(2**31), value=1),
    operators.Argmax(
        input_tensor=_tensor(LARGE), output_tensor=TensorDesc("INT64", [1]), axes=[0], axis_direction="DECREASING"
    ),
    operators.LocalResponseNormalization(
        input_tensor=_tensor(1, 1, 2**14, 2**14),
        output_tensor=_tensor(1, 1, 2**14, 2**14),
        cross_channel=False,
        local_size=2**32 - 1,
        alpha=1,
        beta=0.75,
        bias=1,
    ),
    operators.MaxUnpooling(
        input_tensor=_tensor(1, 1, 1, LARGE),
        indices_tensor=TensorDesc("UINT64", [1, 1, 1, LARGE]),
        output_tensor=_tensor(1, 1, 2, LARGE),
    ),
]


@pytest.mark.parametrize("desc", DESCRIPTORS, ids=lambda desc: desc.type.name)
def test_the_largest_tensors_have_short_definitions(desc: Operator) -> None:
    assert not validate(desc)
    definition = desc.define()
    assert len(definition.statements) <= 3
    assert len(format_definition(definition)) < 2500
