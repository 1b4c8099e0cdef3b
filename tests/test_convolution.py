"""CONVOLUTION against plain loops in the scatter form of the specification, and against PyTorch where it is there."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, assert_same_values, inputs, outputs, random_array, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from rounding import assert_within_rounding

import opendml as dml
from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, FeatureLevel
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.ir import Fold
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute
from opendml.llvm.host import host_machine
from opendml.targets.cpu.refine import convolutions
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget, host_target
from opendml.targets.cpu.tuning import TUNING, Tuning

bounded = examples(25)


def _can_run(level: str) -> bool:
    try:
        host_machine(level)
    except ConfigurationError:
        return False
    return True


LEVELS = [level for level in ("native", "avx2", "baseline") if _can_run(level)]
FORWARD, BACKWARD = ConvolutionDirection.FORWARD, ConvolutionDirection.BACKWARD


@st.composite
def problems(draw: st.DrawFn, direction: ConvolutionDirection) -> dict[str, Any]:
    """The fields of a descriptor, tensors as sizes."""
    rank = draw(st.integers(1, 3))
    groups, group_inputs, group_outputs = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    batch = draw(st.integers(1, 2))
    lists: dict[str, list[int]] = {
        name: []
        for name in (
            "inputs", "taps", "outputs", "strides", "dilations", "start_padding", "end_padding", "output_padding"
        )
    }  # fmt: skip
    for _ in range(rank):
        size, taps = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        span = 1 + (taps - 1) * dilation
        if direction == FORWARD:
            start, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            end = max(end, span - size - start)
            extra = draw(st.sampled_from([0, 0, 0, 2]))
            output = (size + start + end - span) // stride + 1 + extra
        else:
            full = stride * (size - 1) + span
            extra = draw(st.integers(0, max(stride, dilation) - 1))
            start = draw(st.integers(0, min(3, full - 1)))
            end = draw(st.integers(0, min(3, full - 1 - start)))
            output = full - start - end + extra
            extra = draw(st.sampled_from([0, extra]))
        for own, value in zip(lists.values(), (size, taps, output, stride, dilation, start, end, extra), strict=True):
            own.append(value)
    filter_channels = (
        (groups * group_outputs, group_inputs) if direction == FORWARD else (groups * group_inputs, group_outputs)
    )
    return {
        "input_tensor": [batch, groups * group_inputs, *lists.pop("inputs")],
        "filter_tensor": [*filter_channels, *lists.pop("taps")],
        "bias_tensor": [1, groups * group_outputs, *[1] * rank] if draw(st.booleans()) else None,
        "output_tensor": [batch, groups * group_outputs, *lists.pop("outputs")],
        "mode": draw(st.sampled_from(ConvolutionMode)),
        "direction": direction,
        "group_count": groups,
        **{name: tuple(values) for name, values in lists.items()},
    }


def _channel(channel: int, place: Sequence[int]) -> tuple[Any, ...]:
    """One place of a channel of all images."""
    return (slice(None), channel, *place)


def convolve(desc: operators.Convolution, x: Array, w: Array) -> Array:
    """The sums of the specification, in float64: FORWARD gathers, BACKWARD scatters."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    if desc.mode == ConvolutionMode.CONVOLUTION:
        w = np.flip(w, tuple(range(2, w.ndim)))
    y = np.zeros(desc.output_tensor.sizes)
    forward = desc.direction == FORWARD
    many, few = (y, x) if forward else (x, y)
    # FORWARD: "many" is stepped by the filters' first dimension, the output; BACKWARD: the input.
    group_many, group_few = many.shape[1] // desc.group_count, few.shape[1] // desc.group_count
    limit = [n - e for n, e in zip(y.shape[2:], desc.output_padding, strict=True)] if forward else x.shape[2:]
    walk = [range(n) for n in limit]
    for first, second in itertools.product(range(many.shape[1]), range(group_few)):
        other = first // group_many * group_few + second
        for place, taps in itertools.product(itertools.product(*walk), np.ndindex(*w.shape[2:])):
            position = tuple(
                o * s + t * d - p
                for o, s, t, d, p in zip(place, desc.strides, taps, desc.dilations, desc.start_padding, strict=True)
            )
            if all(0 <= p < n for p, n in zip(position, few.shape[2:], strict=True)):
                weight = w[(first, second, *taps)]
                if forward:
                    y[_channel(first, place)] += x[_channel(other, position)] * weight
                else:
                    y[_channel(other, position)] += x[_channel(first, place)] * weight
    return y


def expected(desc: operators.Convolution, x: Array, w: Array, bias: Array | None) -> tuple[Array, Array]:
    """The result and the sum of the terms' magnitudes."""
    y, magnitude = convolve(desc, x, w), convolve(desc, np.abs(x), np.abs(w))
    if bias is not None:
        inside = np.zeros(y.shape, bool)
        padded = desc.output_padding if desc.direction == FORWARD else (0,) * (y.ndim - 2)
        inside[(slice(None), slice(None), *(slice(n - e) for n, e in zip(y.shape[2:], padded, strict=True)))] = True
        y = y + np.where(inside, bias.astype(np.float64), 0)
        magnitude = magnitude + np.where(inside, np.abs(bias.astype(np.float64)), 0)
    return y, magnitude


def build(data: st.DataObject, problem: dict[str, Any], data_type: str) -> operators.Convolution:
    fields = dict(problem)
    for name in ("input_tensor", "filter_tensor", "bias_tensor"):
        if fields[name] is not None:
            fields[name] = data.draw(inputs(data_type, fields[name]))
    fields["output_tensor"] = data.draw(outputs(data_type, fields["output_tensor"]))
    return operators.Convolution(**fields)


def run(desc: operators.Convolution, seed: int, tuning: Tuning = TUNING) -> tuple[Array, list[Array | None]]:
    tensors = [desc.input_tensor, desc.filter_tensor, desc.bias_tensor]
    arrays = [None if t is None else random_array(t, seed + n, special=False) for n, t in enumerate(tensors)]
    return run_single(desc, *arrays, tuning=tuning), arrays


def copies(desc: operators.Convolution, tuning: Tuning = TUNING) -> set[str]:
    """The names of the copies that the processor makes; the definition has none."""
    assert not desc.define().temporaries
    return {tensor.name for tensor in refined_definition(desc, CpuTarget(host_machine(), tuning)).temporaries}


def check(desc: operators.Convolution, seed: int, tuning: Tuning = TUNING) -> None:
    output, arrays = run(desc, seed, tuning)
    x, w, bias = arrays
    assert x is not None and w is not None
    exact, magnitude = expected(desc, x, w, bias)
    assert_within_rounding(output, exact, magnitude, w.size + 2)


@bounded
@given(
    data=st.data(),
    problem=problems(FORWARD),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    has_columns=st.booleans(),
    seed=seeds,
)
def test_forward(data: st.DataObject, problem: dict[str, Any], data_type: str, has_columns: bool, seed: int) -> None:
    tuning = replace(TUNING, outputs_worth_columns=0) if has_columns else TUNING
    check(build(data, problem, data_type), seed, tuning)


@bounded
@given(data=st.data(), problem=problems(BACKWARD), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_backward(data: st.DataObject, problem: dict[str, Any], data_type: str, seed: int) -> None:
    check(build(data, problem, data_type), seed)


@st.composite
def phased_problems(draw: st.DrawFn) -> dict[str, Any]:
    """Transposed windows over planes of their own, with as many outputs in every phase, in rows longer than vectors."""
    channels, batch, lists = draw(st.integers(1, 3)), draw(st.integers(1, 2)), list[tuple[int, ...]]()
    for widest in (6, 40):
        size, taps, dilation = draw(st.integers(1, widest)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
        stride, span = draw(st.integers(1, 3)), 1 + (taps - 1) * dilation
        extra = max(stride - span, 0)
        start = draw(st.integers(0, max(span - stride, 0)))
        lists.append((size, taps, size * stride, stride, dilation, start, span - stride - start + extra, extra))
    inputs, taps_of, outputs, strides, dilations, starts, ends, extras = zip(*lists, strict=True)
    return {
        "input_tensor": [batch, channels, *inputs],
        "filter_tensor": [channels, 1, *taps_of],
        "bias_tensor": [1, channels, 1, 1] if draw(st.booleans()) else None,
        "output_tensor": [batch, channels, *outputs],
        "mode": draw(st.sampled_from(ConvolutionMode)),
        "direction": BACKWARD,
        "group_count": channels,
        "strides": strides,
        "dilations": dilations,
        "start_padding": starts,
        "end_padding": ends,
        "output_padding": extras,
        "fused_activation": draw(st.sampled_from([None, operators.ActivationRelu()])),
    }


@bounded
@given(data=st.data(), problem=phased_problems(), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_phases_of_single_channels(data: st.DataObject, problem: dict[str, Any], data_type: str, seed: int) -> None:
    desc = build(data, problem, data_type)
    run(desc, seed)
    if desc.fused_activation is None:
        check(desc, seed)


@st.composite
def depthwise_problems(draw: st.DrawFn) -> dict[str, Any]:
    """Windows over planes of their own: rows longer and shorter than vectors, paddings wider than windows too."""
    rank, channels, batch = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    names = ("input_tensor", "filter_tensor", "output_tensor", "strides", "dilations", "start_padding", "end_padding")
    lists: dict[str, list[int]] = {name: [] for name in names}
    for i in range(rank):
        size = draw(st.integers(1, 70 if i == rank - 1 else 12 if i == rank - 2 else 3))
        taps, stride, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
        span = 1 + (taps - 1) * dilation
        widest = draw(st.sampled_from([span // 2, span - 1, 2 * span, 40 if i == rank - 1 else 10]))
        start, end = draw(st.integers(0, widest)), draw(st.integers(0, widest))
        end = max(end, span - size - start)
        output = (size + start + end - span) // stride + 1
        for own, value in zip(lists.values(), (size, taps, output, stride, dilation, start, end), strict=True):
            own.append(value)
    return {
        "input_tensor": [batch, channels, *lists.pop("input_tensor")],
        "filter_tensor": [channels, 1, *lists.pop("filter_tensor")],
        "bias_tensor": [1, channels, *[1] * rank] if draw(st.booleans()) else None,
        "output_tensor": [batch, channels, *lists.pop("output_tensor")],
        "mode": draw(st.sampled_from(ConvolutionMode)),
        "direction": FORWARD,
        "group_count": channels,
        "output_padding": (0,) * rank,
        "fused_activation": draw(st.sampled_from([None, operators.ActivationRelu()])),
        **{name: tuple(values) for name, values in lists.items()},
    }


@bounded
@given(
    data=st.data(),
    problem=depthwise_problems(),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    is_guarded=st.sampled_from([True, True, False]),
    level=st.sampled_from(LEVELS),
    seed=seeds,
)
def test_depthwise(
    data: st.DataObject, problem: dict[str, Any], data_type: str, is_guarded: bool, level: str, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENDML_CPU_FEATURES", level)
        patch.setattr(convolutions._Refined, "_is_worth_guards", lambda *_: is_guarded)
        desc = build(data, problem, data_type)
        output, (x, w, bias) = run(desc, seed)
    assert x is not None and w is not None
    exact, magnitude = expected(desc, x, w, bias)
    exact = exact if desc.fused_activation is None else np.maximum(exact, 0)
    assert_within_rounding(output, exact, magnitude, w.size + 2)


def simple(**changes: Any) -> operators.Convolution:
    """A small convolution with padding and strides."""
    fields: dict[str, Any] = {
        "input_tensor": TensorDesc("float32", [1, 2, 4, 5]),
        "filter_tensor": TensorDesc("float32", [3, 2, 3, 2]),
        "output_tensor": TensorDesc("float32", [1, 3, 2, 3]),
        "mode": ConvolutionMode.CROSS_CORRELATION,
        "direction": FORWARD,
        "strides": [2, 2],
        "dilations": [1, 1],
        "start_padding": [1, 0],
        "end_padding": [0, 1],
        "output_padding": [0, 0],
        "group_count": 1,
    }
    return operators.Convolution(**(fields | changes))


def transposed(**changes: Any) -> operators.Convolution:
    """The transposed convolution that goes back."""
    forward = simple()
    fields: dict[str, Any] = {
        "input_tensor": forward.output_tensor,
        "output_tensor": TensorDesc("float32", [1, 2, 4, 5]),
        "direction": BACKWARD,
    }
    return simple(**(fields | changes))


def depthwise(
    sizes: Sequence[int], window: int, stride: int = 1, dilation: int = 1, data_type: str = "float32"
) -> operators.Convolution:
    """A depthwise convolution whose padding is half the window."""
    channels, padding = sizes[1], window // 2 * dilation
    outputs = [(n + 2 * padding - (window - 1) * dilation - 1) // stride + 1 for n in sizes[2:]]
    return simple(
        input_tensor=TensorDesc(data_type, sizes),
        filter_tensor=TensorDesc(data_type, [channels, 1, window, window]),
        output_tensor=TensorDesc(data_type, [*sizes[:2], *outputs]),
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        start_padding=[padding] * 2,
        end_padding=[padding] * 2,
        group_count=channels,
    )


DEPTHWISE = [((1, 3, n, n), 3, stride, 1) for n in (7, 14, 28, 56, 112) for stride in (1, 2)]
DEPTHWISE += [
    ((2, 2, 14, 33), 5, 1, 1),
    ((1, 2, 11, 40), 3, 1, 1),
    ((1, 2, 20, 7), 7, 1, 1),
    ((1, 2, 9, 70), 3, 3, 2),
    ((1, 70, 5, 2), 3, 1, 1),
]


LARGE = [((1, 2, 9, 20), 9, 1, 1), ((1, 3, 14, 14), 13, 1, 1), ((2, 1, 11, 33), 9, 2, 1), ((1, 2, 10, 25), 9, 1, 2)]
LARGE += [((1, 2, 6, 18), 15, 1, 1)]


@pytest.mark.parametrize(("sizes", "window", "stride", "dilation"), DEPTHWISE)
def test_depthwise_as_torch(sizes: Sequence[int], window: int, stride: int, dilation: int) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    desc = depthwise(sizes, window, stride, dilation)
    output, (x, w, _) = run(desc, window)
    padding, wide = desc.start_padding, [torch.from_numpy(np.array(a, np.float64)) for a in (x, w)]
    reference = torch.nn.functional.conv2d(*wide, None, stride, padding, dilation, groups=sizes[1]).numpy()
    np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize(("sizes", "window", "stride", "dilation"), DEPTHWISE)
def test_depthwise_sums_of_guarded_elements_have_the_bits_of_padded_ones(
    sizes: Sequence[int], window: int, stride: int, dilation: int, data_type: str
) -> None:
    desc = depthwise(sizes, window, stride, dilation, data_type)
    arrays = [random_array(t, window, special=True) for t in (desc.input_tensor, desc.filter_tensor)]
    assert "padded_input" not in copies(desc)
    guarded = run_single(desc, *arrays, None)
    tuning = replace(TUNING, most_guarded_taps=0)
    assert "padded_input" in copies(desc, tuning)
    padded = run_single(desc, *arrays, None, tuning=tuning)
    assert_same_values(guarded, padded)


def test_rows_whose_windows_overlap_are_computed_together() -> None:
    assert re.search(r"together x \+ 0\.\.[2-8]\b", dml.explain(depthwise((1, 64, 14, 14), 3)))
    assert "together" not in dml.explain(simple(group_count=3, **_apart()))


@pytest.mark.parametrize("mode", ConvolutionMode)
@pytest.mark.parametrize(("sizes", "window", "stride", "dilation"), DEPTHWISE[-5:] + LARGE)
def test_windows_of_many_taps_are_computed_in_loops_over_the_rows_that_they_share(
    sizes: Sequence[int], window: int, stride: int, dilation: int, mode: ConvolutionMode
) -> None:
    """Those of fewer taps are so here, too: there may be more rows together than a window has."""
    plain = depthwise(sizes, window, stride, dilation)
    desc = operators.Convolution(**({name: getattr(plain, name) for name in plain.fields} | {"mode": mode}))
    for tuning in (TUNING, replace(TUNING, unrolled_steps=2, most_guarded_taps=0, staged_steps=0)):
        check(desc, window, tuning)


def test_rows_of_large_windows_are_computed_together() -> None:
    text = dml.explain(depthwise((1, 64, 28, 28), 9))
    assert re.search(r"together x \+ 0\.\.7\b", text) and "unrolled" not in text


def test_large_planes_are_shared_out_by_rows() -> None:
    """Of one image; of several, and of many planes, each thread has some as they are."""
    for sizes, first in (((1, 8, 96, 96), "x"), ((1, 64, 96, 96), "g"), ((2, 8, 96, 96), "n")):
        assert re.search(rf"work items, [^:]*: {first} < \d+", dml.explain(depthwise(sizes, 3))), sizes


@pytest.mark.parametrize("sizes", [(1, 3, 61, 40), (2, 2, 61, 40)])
def test_planes_shared_out_by_rows_are_complete(sizes: tuple[int, ...]) -> None:
    output, (x, w, bias) = run(depthwise(sizes, 3), 1)
    assert x is not None and w is not None
    exact, magnitude = expected(depthwise(sizes, 3), x, w, bias)
    assert_within_rounding(output, exact, magnitude, w.size + 2)


def _apart() -> dict[str, Any]:
    """Depthwise windows that do not overlap, without padding."""
    return {
        "input_tensor": TensorDesc("float32", [1, 3, 12, 30]),
        "filter_tensor": TensorDesc("float32", [3, 1, 3, 3]),
        "output_tensor": TensorDesc("float32", [1, 3, 4, 10]),
        "strides": [3, 3],
        "start_padding": [0, 0],
        "end_padding": [0, 0],
    }


def test_what_is_not_depthwise_reads_a_padded_copy() -> None:
    plain = depthwise((1, 4, 20, 20), 3)
    strided = TensorDesc("float32", [1, 4, 20, 20], [1600, 1, 80, 4])
    others: dict[str, dict[str, Any]] = {
        "channels of a group": {"filter_tensor": TensorDesc("float32", [4, 2, 3, 3]), "group_count": 2},
        "several outputs": {
            "filter_tensor": TensorDesc("float32", [8, 1, 3, 3]),
            "output_tensor": TensorDesc("float32", [1, 8, 20, 20]),
        },
        "rows that are not contiguous": {"input_tensor": strided},
        "padding wider than the window": {
            "start_padding": [1, 4],
            "output_tensor": TensorDesc("float32", [1, 4, 20, 23]),
        },
    }
    assert not copies(plain)
    for what, changes in others.items():
        changed = operators.Convolution(**({name: getattr(plain, name) for name in plain.fields} | changes))
        assert "padded_input" in copies(changed), what
        assert not validate(changed, FeatureLevel.parse("6_4")), what


@pytest.mark.parametrize("desc", [simple(), transposed()], ids=["forward", "backward"])
@pytest.mark.parametrize(
    "knobs", [{"padded_growth": 0, "unpadded_elements": 0}, {"outputs_worth_columns": 0}, {"most_phases": 0}], ids=str
)
def test_all_ways_to_read_the_input_give_the_same_bits(desc: operators.Convolution, knobs: dict[str, Any]) -> None:
    plain, _ = run(desc, 3)
    other, _ = run(desc, 3, replace(TUNING, **knobs))
    assert_identical(other, plain)


@pytest.mark.parametrize(("stride", "dilation"), [(70, 1), (70, 3), (65, 65)])
def test_large_strides(stride: int, dilation: int) -> None:
    for direction, sizes in ((FORWARD, (stride + 2 * dilation + 4, 2)), (BACKWARD, (2, stride + 2 * dilation - 1))):
        check(
            operators.Convolution(
                input_tensor=TensorDesc("float32", [1, 1, sizes[0]]),
                filter_tensor=TensorDesc("float32", [1, 1, 3]),
                output_tensor=TensorDesc("float32", [1, 1, sizes[1]]),
                mode=ConvolutionMode.CONVOLUTION,
                direction=direction,
                strides=[stride],
                dilations=[dilation],
                start_padding=[1],
                end_padding=[1],
                output_padding=[0],
                group_count=1,
            ),
            stride,
        )


def test_the_activation_comes_last() -> None:
    relu = operators.ActivationRelu()
    bias = TensorDesc("float32", [1, 3, 1, 1])
    plain, arrays = run(simple(bias_tensor=bias), 9)
    fused = run_single(simple(bias_tensor=bias, fused_activation=relu), *arrays)
    assert (plain < 0).any()
    assert_identical(fused, np.maximum(plain, 0))


def test_padding_is_zeros_that_take_part() -> None:
    desc = simple(
        input_tensor=TensorDesc("float32", [1, 1, 1, 1]),
        filter_tensor=TensorDesc("float32", [1, 1, 1, 2]),
        output_tensor=TensorDesc("float32", [1, 1, 1, 2]),
        strides=[1, 1],
        start_padding=[0, 1],
        end_padding=[0, 1],
    )
    output = run_single(desc, np.full((1, 1, 1, 1), 2, np.float32), np.array([[[[np.inf, 1]]]], np.float32), None)
    np.testing.assert_array_equal(output.ravel(), np.array([np.nan, np.inf], np.float32))


@bounded
@given(data=st.data(), problem=problems(FORWARD))
def test_sums_go_from_the_first_to_the_last_tap_that_reads_an_element(
    data: st.DataObject, problem: dict[str, Any]
) -> None:
    desc = build(data, problem, "float32")
    counts = [n - e for n, e in zip(desc.output_tensor.sizes[2:], desc.output_padding, strict=True)]
    wanted = []
    ways = (desc.input_tensor.sizes[2:], desc.filter_tensor.sizes[2:], counts, desc.strides, desc.dilations)
    for size, taps, count, stride, dilation, padding in zip(*ways, desc.start_padding, strict=True):
        places = ((t, o * stride + t * dilation - padding) for t in range(taps) for o in range(count))
        reading = [tap for tap, place in places if 0 <= place < size]
        wanted.append(max(reading) - min(reading) + 1 if reading else 1)
    sums, *_ = desc.define().statements
    assert isinstance(sums, Compute)
    (fold,) = {e for e in walk(sums.stores[0].value) if isinstance(e, Fold)}
    assert [axis.size for axis in fold.axes[1:]] == wanted


@pytest.mark.parametrize("mode", ConvolutionMode)
@pytest.mark.parametrize(
    ("size", "taps", "stride", "dilation", "padding", "reading"),
    [
        (5, 3, 1, 5, (5, 5), (1, 2)),
        (5, 3, 1, 4, (4, 4), (0, 3)),
        (5, 4, 1, 3, (0, 9), (0, 2)),
        (5, 4, 1, 3, (9, 0), (2, 4)),
        (4, 5, 3, 2, (5, 4), (1, 5)),
        (1, 3, 2, 1, (3, 2), (1, 2)),  # the strides step over it at the others
        (1, 2, 1, 2, (1, 1), (0, 1)),  # none reads it; one is left
    ],
)
def test_taps_in_the_padding_everywhere_are_not_read(
    size: int, taps: int, stride: int, dilation: int, padding: tuple[int, int], reading: tuple[int, int], mode: Any
) -> None:
    """Their weights may be anything."""
    count = (size + sum(padding) - (taps - 1) * dilation - 1) // stride + 1
    desc = simple(
        input_tensor=TensorDesc("float32", [2, 1, 1, size]),
        filter_tensor=TensorDesc("float32", [3, 1, 1, taps]),
        output_tensor=TensorDesc("float32", [2, 3, 1, count]),
        mode=mode,
        strides=[1, stride],
        dilations=[1, dilation],
        start_padding=[0, padding[0]],
        end_padding=[0, padding[1]],
    )
    random = np.random.default_rng(0)
    x, w = (random.normal(size=t.sizes).astype(np.float32) for t in (desc.input_tensor, desc.filter_tensor))
    output = run_single(desc, x, w, None)
    np.testing.assert_allclose(output, convolve(desc, x, w), rtol=1e-5, atol=1e-6)
    is_read = np.zeros(taps, bool)
    is_read[slice(*reading)] = True
    is_read = is_read if mode == ConvolutionMode.CROSS_CORRELATION else is_read[::-1]
    assert_identical(run_single(desc, x, np.where(is_read, w, np.float32(np.nan)), None), output)
    for tap in np.flatnonzero(is_read):
        w[..., tap] = np.nan
        assert np.isnan(run_single(desc, x, w, None)).any()


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
@pytest.mark.parametrize("groups", [1, 2])
def test_as_torch(direction: ConvolutionDirection, groups: int) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    x = np.random.default_rng(1).normal(size=(2, 4, 6, 7)).astype(np.float32)
    w = np.random.default_rng(2).normal(size=(4, 4 // groups, 3, 2)).astype(np.float32)
    bias = np.random.default_rng(3).normal(size=4).astype(np.float32)
    function = torch.nn.functional.conv2d if direction == FORWARD else torch.nn.functional.conv_transpose2d
    arrays = [torch.from_numpy(a) for a in (x, w, bias)]
    reference = function(*arrays, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=groups).numpy()
    desc = simple(
        input_tensor=TensorDesc("float32", x.shape),
        filter_tensor=TensorDesc("float32", w.shape),
        bias_tensor=TensorDesc("float32", [1, 4, 1, 1]),
        output_tensor=TensorDesc("float32", reference.shape),
        direction=direction,
        strides=[2, 1],
        dilations=[1, 2],
        start_padding=[1, 0],
        end_padding=[1, 0],
        group_count=groups,
    )
    output = run_single(desc, x, w, bias.reshape(1, 4, 1, 1))
    np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 64, 2**31])
@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_definitions_do_not_grow_with_sizes(direction: ConvolutionDirection, stride: int) -> None:
    many, few = (2**31 // stride, 2**31) if direction == FORWARD else (2**31, 2**31 // stride)
    desc = operators.Convolution(
        input_tensor=TensorDesc("float16", [1, 1, few]),
        filter_tensor=TensorDesc("float16", [1, 1, 2**30]),
        output_tensor=TensorDesc("float16", [1, 1, many]),
        mode=ConvolutionMode.CONVOLUTION,
        direction=direction,
        strides=[stride],
        dilations=[1],
        start_padding=[2**30],
        end_padding=[2**30],
        output_padding=[0],
        group_count=1,
    )
    assert len(desc.define().statements) == 1
    definition, tuning = refined_definition(desc, host_target()), TUNING
    assert len(definition.statements) <= 2 + tuning.most_phases
    room = tuning.padded_growth * (many + few) + tuning.unpadded_elements
    assert all(math.prod(tensor.sizes) <= room for tensor in definition.temporaries)
