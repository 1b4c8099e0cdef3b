"""All violations at once: what one breach of a rule violates is named beside any other breach that it does not follow
from. ``tools/check_rule_pairs.py`` tries all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from breaches import breaches, missing
from sample_descriptors import sample, samples, transposed_convolution
from sample_tensors import f32

import opendml as dml
from opendml import operators as op
from opendml.description import rules
from opendml.description.descriptors import Operator
from opendml.description.errors import InvalidDescriptorError
from opendml.description.overlap import overlaps_itself
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

PAIRS = 40
"""Pairs an operator; the tool tries them all."""


def fields(desc: Operator) -> set[str]:
    """The places of the violations."""
    return {violation.field for violation in validate(desc)}


@pytest.mark.sampled
@pytest.mark.parametrize("desc", [*samples(), transposed_convolution()], ids=lambda desc: desc.type.name)
def test_pairs_of_breaches_are_both_named(desc: Operator) -> None:
    random = Random(desc.type.name)
    found = list(breaches(desc))
    assert {str(breach.change.path[0]) for breach in found} >= {
        name for name, field in desc.fields.items() if getattr(desc, name) is not None and field.kind != "FLOAT"
    } - {"scale_bias", "spatial"}
    tried = 0
    while tried < PAIRS:
        first, second = random.sample(found, 2)
        if first.change.is_apart_from(second.change):
            assert missing(first, second) == [], (first.change, second.change)
            tried += 1


def test_a_pair_that_is_not_named_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails where a rule is left out beside a breach that has nothing to do with it."""
    desc = sample(op.Slice1)
    check = op.Slice1.check

    def careless(self: op.Slice1, rules: object) -> None:
        if all(size > 0 for size in self.output_tensor.sizes):
            check(self, rules)  # type: ignore[arg-type]

    found = list(breaches(desc))
    empty = next(b for b in found if b.change.path == ("output_tensor", "sizes", 2) and b.change.value == 0)
    outside = next(b for b in found if b.change.path == ("input_window_offsets", 3) and b.change.value == 1000)
    assert missing(empty, outside) == []
    monkeypatch.setattr(op.Slice1, "check", careless)
    assert missing(empty, outside) == ["InputWindowOffsets[3]"]


def test_a_size_of_0_hides_nothing_else() -> None:
    pooling = sample(op.MaxPooling1, output_tensor=TensorDesc("float16", [1, 5, 0, 9]))
    assert fields(pooling) >= {"OutputTensor", *(f"OutputTensor.Sizes[{i}]" for i in range(4))}


def test_a_negative_offset_hides_no_other_offset() -> None:
    assert fields(sample(op.Slice1, input_window_offsets=[-1, 0, 0, 3])) == {
        "InputWindowOffsets[0]",
        "InputWindowOffsets[3]",
    }


def test_a_rank_of_9_hides_no_types() -> None:
    for name in ("input_tensor", "output_tensor"):
        found = validate(sample(op.Slice1, **{name: TensorDesc("int4", [1] * 9)}))
        rules = [violation.rule for violation in found if violation.field.startswith(dml_name(name))]
        assert any("from 1 to 8" in rule for rule in rules)
        assert any("must be FLOAT64" in rule for rule in rules)
    both = validate(sample(op.Slice1, output_tensor=TensorDesc("int8", [1] * 9), input_window_offsets=[0, 0, 0, 3]))
    assert [violation.field for violation in both] == [
        "OutputTensor.DimensionCount",
        "OutputTensor",
        "InputWindowOffsets[3]",
    ]


def dml_name(name: str) -> str:
    """``InputTensor`` for ``input_tensor``."""
    return "".join(part.capitalize() for part in name.split("_"))


def test_pieces_add_up_whatever_their_other_sizes() -> None:
    pieces = [f32(1, 1, 2, 3), f32(1, 1, 5, 2)]
    assert fields(sample(op.Split, output_tensors=pieces)) == {"OutputTensors", "OutputTensors[0].Sizes[3]"}


def test_the_array_of_another_length_is_blamed() -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    with pytest.raises(InvalidDescriptorError, match=r"input_window_offsets: must have .* = 4 elements, got 3"):
        dml.slice(x, input_window_offsets=[0, 0, 0], input_window_sizes=[1, 1, 4, 3], input_window_strides=[1, 1, 2, 2])
    desc = sample(op.Slice1, input_window_offsets=[0, 0, 0])
    assert isinstance(desc, op.Slice1) and desc.dimension_count == 4
    assert [str(violation) for violation in validate(desc)] == [
        "InputWindowOffsets: must have DimensionCount = 4 elements, got 3"
    ]
    assert fields(sample(op.Slice1, dimension_count=3)) == {"DimensionCount"}
    assert fields(sample(op.Slice1, dimension_count=3, input_window_offsets=[0, 0, 0])) == {
        "DimensionCount",
        "InputWindowOffsets",
    }


def test_few_layouts_of_a_descriptor_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the addresses of an output overlap may be hard to tell: of a descriptor of very many only some are
    searched, and no valid one is refused."""
    searched = []

    def search(sizes: Sequence[int], strides: Sequence[int]) -> bool:
        searched.append(strides)
        return overlaps_itself(sizes, strides)

    monkeypatch.setattr(rules, "overlaps_itself", search)
    strides = [2**31 + 5**i for i in range(8)]
    piece = TensorDesc("float32", [3] * 8, strides)
    alike = op.Split(input_tensor=f32(3 * 200, *[3] * 7), output_tensors=[piece] * 200, axis=0)
    assert validate(alike) == []
    assert len(searched) == 1
    others = [TensorDesc("float32", [3] * 8, [stride - i for stride in strides]) for i in range(40)]
    assert validate(op.Split(input_tensor=f32(3 * 40, *[3] * 7), output_tensors=others, axis=0)) == []
    assert len(searched) == 1 + rules.SEARCHED_LAYOUTS


@pytest.mark.parametrize(
    ("desc", "named"),
    [
        (sample(op.Gather, input_tensor=None, axis=0), {"IndicesTensor.Sizes[2]", "OutputTensor.Sizes[0]"}),
        (sample(op.Gather, input_tensor=f32(1, 5, 3), axis=3), {"Axis", "OutputTensor.Sizes[2]"}),
        (sample(op.Gather, indices_tensor=None, index_dimensions=0), {"OutputTensor.Sizes[1]"}),
        (sample(op.GatherNd, input_tensor=None, input_dimension_count=4), {"OutputTensor.Sizes[1]"}),
        (sample(op.GatherNd1, input_dimension_count=0, indices_dimension_count=0),
         {"InputDimensionCount", "IndicesDimensionCount"}),
        (sample(op.Argmin, input_tensor=None, axes=[2]), {"OutputTensor.Sizes[2]"}),
        (sample(op.ReverseSubsequences, input_tensor=None, axis=2), {"SequenceLengthsTensor.Sizes[2]"}),
        (sample(op.Tile, repeats_count=4, repeats=[1, 2, 1], input_tensor=f32(1, 2, 3)), {"RepeatsCount", "Repeats"}),
    ],
    ids=lambda value: value.type.name if isinstance(value, Operator) else "",
)  # fmt: skip
def test_what_does_not_depend_on_a_broken_tensor_is_judged(desc: Operator, named: set[str]) -> None:
    assert fields(desc) >= named


@pytest.mark.parametrize("pieces", [True, 3, None, ()])
def test_pieces_that_are_no_tensors_raise_nothing(pieces: object) -> None:
    named = {field.partition("[")[0] for field in fields(sample(op.Split, output_tensors=pieces))}
    assert named & {"OutputTensors", "OutputCount"}
