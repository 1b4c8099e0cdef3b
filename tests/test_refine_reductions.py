"""Rules for what is reduced: the same bits, where each of them is really taken and where it is not."""

from __future__ import annotations

import pytest
from sample_tensors import f32
from test_refine_together import names
from test_refinement import assert_refined_is_defined

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.ir import Fold
from opendml.expression.rewriting import walk
from opendml.expression.statements import Definition, expressions_of


def reduced(sizes: list[int], strides: list[int] | None, axes: list[int], function: str = "SUM") -> Operator:
    """A reduction of a tensor with strides."""
    target = [1 if d in axes else size for d, size in enumerate(sizes)]
    positions = function.startswith("ARG")
    return operators.Reduce(
        function=function,
        input_tensor=TensorDesc("FLOAT32", sizes, strides),
        output_tensor=TensorDesc("UINT32" if positions else "FLOAT32", target),
        axes=axes,
    )


def softmax(sizes: list[int], strides: list[int] | None, axes: list[int], output: list[int] | None = None) -> Operator:
    """A softmax of a tensor with strides to one with others."""
    return operators.ActivationSoftmax1(
        input_tensor=TensorDesc("FLOAT32", sizes, strides),
        output_tensor=TensorDesc("FLOAT32", sizes, output),
        axes=axes,
    )


def folds(definition: Definition) -> list[Fold]:
    """The folds of all statements."""
    roots = [root for statement in definition.statements for root in expressions_of(statement)]
    return list(dict.fromkeys(e for root in roots for e in walk(root) if isinstance(e, Fold)))


@pytest.mark.parametrize("function", ["SUM", "ARGMAX", "LOG_SUM_EXP"])
@pytest.mark.parametrize(
    ("sizes", "strides", "axes", "copied", "axes_of_folds"),
    [
        ([3, 4, 20], None, [1, 2], False, [1]),
        ([3, 4, 20], [1, 3, 12], [1, 2], True, [1]),  # a run at the end is copied
        ([3, 4, 20], [100, 20, 1], [1, 2], False, [1]),  # it is one in memory, whatever lies behind it
        ([3, 4, 5], [24, 6, 1], [0, 1], False, [1]),
        ([3, 4, 5], [5, 15, 1], [0, 1], False, [2]),  # a run before others is walked dimension by dimension
        ([2, 3, 1, 4, 5], [20, 60, 0, 5, 1], [0, 1, 3], False, [3]),
        ([4, 2, 5], [0, 5, 1], [0, 1], False, [2]),
        ([2, 40, 1000], [1000, 2000, 1], [0, 1, 2], True, [1]),  # in pieces
        ([20, 3, 40], [1, 800, 20], [0, 2], False, [2]),  # two runs
    ],
)
def test_runs_follow_memory(
    function: str, sizes: list[int], strides: list[int] | None, axes: list[int], copied: bool, axes_of_folds: list[int]
) -> None:
    desc = reduced(sizes, strides, axes, function)
    plain = reduced(sizes, None, axes, function)
    assert str(desc.define().statements) == str(plain.define().statements)
    refined = assert_refined_is_defined(desc)
    assert ("packed_InputTensor" in names(refined)) == copied
    assert {len(fold.axes) for fold in folds(refined)} == set(axes_of_folds)


def test_a_run_of_three_dimensions_becomes_three_axes() -> None:
    desc = reduced([2, 3, 4, 5], [5, 10, 30, 1], [0, 1, 2])
    (fold,) = folds(assert_refined_is_defined(desc))
    assert [axis.size for axis in fold.axes] == [2, 3, 4]


@pytest.mark.parametrize(
    ("desc", "count"),
    [
        (softmax([6, 75], None, [1]), 1),
        (softmax([6, 5, 15], None, [1, 2]), 1),
        (softmax([6, 5, 15], None, [1, 2], [75, 1, 5]), 2),  # the rows of the output are no runs
        (softmax([6, 75], None, [1], [1, 6]), 2),  # they do not lie apart
        (softmax([6, 75], [1, 6], [1]), 1),
        (softmax([6, 5, 15], [1, 6, 30], [1, 2]), 2),  # a packed copy, and then one
        (softmax([6, 15], None, [1]), 2),  # rows are too short for partial results
        (softmax([75, 6], None, [0]), 2),
        (softmax([1, 40000], None, [1]), 5),  # in pieces
        (softmax([6, 1], None, [1]), 1),
        (operators.ActivationHardmax1(input_tensor=f32(6, 75), output_tensor=f32(6, 75), axes=[1]), 1),
        (operators.ActivationHardmax1(input_tensor=f32(6, 5, 15), output_tensor=f32(6, 5, 15), axes=[1, 2]), 2),
    ],
)
def test_values_of_rows_are_computed_with_the_rows(desc: Operator, count: int) -> None:
    refined = assert_refined_is_defined(desc)
    assert len(refined.statements) == count
    assert (count > 1) == bool(refined.temporaries)


def test_scales_beside_rows_are_runs_too() -> None:
    """What broadcasts along one of a row's dimensions only is no run."""

    def normalization(*scale: int) -> Operator:
        return operators.MeanVarianceNormalization1(
            input_tensor=f32(2, 3, 4, 20),
            scale_tensor=f32(*scale),
            bias_tensor=f32(*scale),
            output_tensor=f32(2, 3, 4, 20),
            axes=[2, 3],
            normalize_variance=True,
            epsilon=1e-5,
        )

    assert len(assert_refined_is_defined(normalization(1, 3, 1, 1)).statements) == 1
    assert len(assert_refined_is_defined(normalization(1, 1, 4, 20)).statements) == 1
    assert len(assert_refined_is_defined(normalization(1, 1, 4, 1)).statements) == 2


def test_values_that_others_read_stay_where_they_are() -> None:
    statistics = f32(6, 1, 1, 1)
    training = operators.BatchNormalizationTraining(
        input_tensor=f32(6, 1, 5, 15),
        scale_tensor=statistics,
        bias_tensor=statistics,
        output_tensor=f32(6, 1, 5, 15),
        output_mean_tensor=statistics,
        output_variance_tensor=statistics,
        epsilon=1e-5,
    )
    assert {"mean", "variance"} <= names(assert_refined_is_defined(training))
