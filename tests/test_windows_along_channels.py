"""Depthwise convolutions of tensors whose channels lie side by side: lanes are channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, run_operator
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from windows import depthwise, side_by_side

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Definition
from opendml.llvm.host import machine_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING, Tuning

AVX2 = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2"))

BLOCKS = replace(
    TUNING, serial_work=0, pooled_work=0, near_window_bytes=0, window_run_bytes=32, shares=2, border_steps=25
)
"""Threads share everything out, some channels after the others; few windows reach over the ends."""

PHASES = replace(BLOCKS, border_steps=0, overlapping_steps=0)
"""Windows that reach over an end are in phases, however small they are."""

LONG = replace(BLOCKS, near_window_steps=4, most_window_rows=6)
"""Windows of few steps, too, have many rows."""


def arrays_of(desc: operators.Convolution) -> list[Array | None]:
    random = np.random.default_rng(0)
    tensors = (desc.input_tensor, desc.filter_tensor)
    return [*(random.normal(size=t.sizes).astype(t.data_type.dtype) for t in tensors), None]


def copies(definition: Definition) -> list[str]:
    return [tensor.name for tensor in definition.temporaries]


pairs = st.tuples(st.integers(0, 3), st.integers(0, 3))
ways = st.tuples(st.integers(1, 3), st.integers(1, 3))


@examples(80)
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(8, 40), st.integers(1, 9), st.integers(1, 19)),
    window=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    strides=ways,
    dilations=ways,
    start=pairs,
    end=pairs,
    type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    mode=st.sampled_from(["CROSS_CORRELATION", "CONVOLUTION"]),
    gap=st.sampled_from([0, 3, 16]),
    tuning=st.sampled_from(
        [TUNING, BLOCKS, replace(BLOCKS, border_steps=1 << 20), replace(BLOCKS, items=1), PHASES, LONG]
    ),
)
def test_no_bit_differs(sizes: Any, window: Any, start: Any, end: Any, tuning: Tuning, **options: Any) -> None:
    """Nor is anything touched beside the tensors."""
    reach = [(w - 1) * d for w, d in zip(window, options["dilations"], strict=True)]
    end = [max(e, r + 1 - n - s) for e, r, n, s in zip(end, reach, sizes[2:], start, strict=True)]
    desc = depthwise(sizes, window, start=start, end=end, **options)
    run_operator(desc, arrays_of(desc), tuning=tuning)


@examples(40)
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(8, 40), st.integers(3, 9), st.integers(3, 19)),
    types=st.tuples(*[st.sampled_from(["UINT8", "INT8"])] * 2),
    zero_points=st.tuples(st.booleans(), st.sampled_from([0, 1, 2])),
    strides=ways,
    padding=pairs,
)
def test_no_bit_of_integers_differs(sizes: Any, types: Any, zero_points: Any, strides: Any, padding: Any) -> None:
    """With a zero point of the input, and one of the filter or one for each of its channels."""
    batch, channels, *places = sizes
    counts = [(n + 2 * p - 3) // s + 1 for n, p, s in zip(places, padding, strides, strict=True)]
    of_input, of_filter = zero_points
    desc = operators.ConvolutionInteger(
        input_tensor=side_by_side(types[0], sizes),
        input_zero_point_tensor=TensorDesc(types[0], [1]) if of_input else None,
        filter_tensor=TensorDesc(types[1], [channels, 1, 3, 3]),
        filter_zero_point_tensor=TensorDesc(types[1], [(0, 1, channels)[of_filter]]) if of_filter else None,
        output_tensor=side_by_side("INT32", [batch, channels, *counts]),
        strides=strides,
        dilations=[1, 1],
        start_padding=padding,
        end_padding=padding,
        group_count=channels,
    )
    random = np.random.default_rng(0)
    arrays = [
        None if t is None else random.integers(-100, 100, t.sizes).astype(t.data_type.dtype) for _, t in desc.inputs()
    ]
    run_operator(desc, arrays)


@pytest.mark.parametrize("type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("padding", [0, 1])
def test_filters_are_turned_and_inputs_stay_where_they_are(type: str, padding: int) -> None:
    """Of float16 without padding they are widened, as they lie."""
    ends = (padding, padding)
    made = refined_definition(depthwise([2, 24, 7, 9], start=ends, end=ends, type=type), AVX2)
    turned, *others = made.temporaries
    assert turned.name == "turned_filter" and turned.sizes == (3, 3, 24)
    widened = [(t.name, t.strides) for t in others]
    assert widened == ([("packed_InputTensor", (24 * 63, 1, 24 * 9, 24))] if type == "FLOAT16" and not padding else [])


def kernel_of(desc: operators.Convolution, target: CpuTarget = AVX2) -> ComputeKernel:
    """What convolves, behind the copy of the filter."""
    *_, kernel = generate(refined_definition(desc, target), target, in_place=False).kernels
    assert isinstance(kernel, ComputeKernel)
    return kernel


def lines_of(desc: operators.Convolution, target: CpuTarget = AVX2) -> str:
    return format_nest(kernel_nest(kernel_of(desc, target), target, ()))


@pytest.mark.parametrize("padding", [0, 1])
def test_points_whose_windows_overlap_share_what_they_load(padding: int) -> None:
    """Along the axis where they do, and without padding, too."""
    ends = (padding, padding)
    rows = kernel_of(depthwise([1, 24, 9, 14], start=ends, end=ends)).rows
    assert rows is not None and rows.together == 4 and rows.step == rows.reach == 24


@pytest.mark.parametrize(("window", "level", "together"), [(5, "avx512", 4), (7, "avx512", 8), (7, "avx2", 4)])
def test_more_points_of_long_windows_share_what_they_load(window: int, level: str, together: int) -> None:
    """Where there are registers for their sums and the weights of a row of the filter. Planes stay as they are."""
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", level))
    ends = (window // 2, window // 2)
    sizes = [1, 64, 9, 16]
    desc, plane = depthwise(sizes, (window, window), start=ends, end=ends), TensorDesc("FLOAT32", sizes)
    rows = kernel_of(desc, target).rows
    assert rows is not None and rows.together == together
    wide = kernel_of(desc.replace(input_tensor=plane, output_tensor=plane), target).rows
    assert wide is not None and wide.together <= 5


@pytest.mark.parametrize(("width", "together"), [(7, 7), (8, 4), (10, 5), (11, 4), (14, 7), (28, 4)])
def test_no_points_are_left_over_where_more_together_leave_none(width: int, together: int) -> None:
    """With few registers it is four of 14 points, of which two are computed twice."""
    desc = depthwise([1, 64, 9, width], start=(1, 1), end=(1, 1))
    many = kernel_of(desc, CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))).rows
    few = kernel_of(desc).rows
    assert many is not None and few is not None
    assert (many.together, few.together) == (together, 4)


@pytest.mark.parametrize(
    ("sizes", "window", "share"),
    [
        ([1, 384, 14, 14], 3, 7),
        ([4, 384, 14, 14], 3, 14),
        ([1, 960, 7, 7], 3, 7),
        ([1, 240, 28, 28], 5, 14),
        ([1, 128, 28, 28], 3, 0),
        ([1, 384, 14, 14], 7, 0),
    ],
)
def test_channels_too_many_for_a_cache_are_done_in_blocks(sizes: list[int], window: int, share: int) -> None:
    """By each of two threads in its own part of the rows, or of the images."""
    ends = (window // 2, window // 2)
    target = AVX2.tuned(shares=2, near_window_bytes=24 << 10)
    kernel = kernel_of(depthwise(sizes, (window, window), start=ends, end=ends), target)
    assert (kernel.vector_block, kernel.share) == ((64, share) if share else (None, 0))


@pytest.mark.parametrize("height", [7, 14])
@pytest.mark.parametrize(("steps", "jumps"), [(100, False), (8, True)])
def test_at_few_places_it_is_known_which_steps_are_outside(height: int, steps: int, jumps: bool) -> None:
    lines = lines_of(depthwise([1, 64, height, 14]), AVX2.tuned(border_steps=steps))
    assert ("by a jump" in lines) == jumps
    assert ("at x = 0" in lines) != jumps


@pytest.mark.parametrize("window", [5, 7])
@pytest.mark.parametrize("height", [7, 14])
@pytest.mark.parametrize("stride", [1, 2])
def test_places_of_large_windows_have_the_same_code(window: int, height: int, stride: int) -> None:
    """Whatever of a window is outside: the steps that are, and those that are not, are loops of as many as there are,
    and nothing is asked at any of them; so are all steps of windows that are inside."""
    ends = (window // 2, window // 2)
    desc = depthwise([1, 64, height, 14], (window, window), start=ends, end=ends, strides=(stride, stride))
    lines = lines_of(desc, AVX2.tuned(border_steps=0))
    is_small = (window, height, stride) == (7, 7, 2)  # all windows reach over an end
    bodies = lines.count("together y + 0..")
    assert "by a jump" not in lines
    assert lines.count("before, reduce") == (bodies if is_small else bodies * 2 // 3)
    assert is_small or f"reduce unrolled c < 1, t < {window}, unrolled u < {window}" in lines
    code = generate(refined_definition(desc, AVX2), AVX2, in_place=False).modules
    written_out = AVX2.tuned(overlapping_steps=1 << 30, border_steps=1 << 30)
    more = generate(refined_definition(desc, written_out), written_out, in_place=False).modules
    assert sum(map(len, code)) * 3 < sum(map(len, more)) * 2


@pytest.mark.parametrize(
    ("window", "height", "dilation", "start", "end"),
    [
        (5, 3, 1, 2, 2),  # one has steps outside at both ends
        (5, 14, 2, 4, 4),  # the count of steps outside is a quotient
        (5, 14, 1, 7, 2),  # of the first windows all are outside
    ],
)
def test_other_places_have_code_of_their_own_or_ask(
    window: int, height: int, dilation: int, start: int, end: int
) -> None:
    desc = depthwise([1, 64, height, 14], (window, 5), start=(start, 2), end=(end, 2), dilations=(dilation, 1))
    assert "by a jump" in lines_of(desc, AVX2.tuned(border_steps=0))
    assert "by a jump" not in lines_of(desc, AVX2.tuned(border_steps=1 << 20))


@pytest.mark.parametrize("where", [(0, 0), (2, 2), (4, 1)])
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_what_is_outside_is_multiplied_too(where: tuple[int, int], number: float) -> None:
    """Zeros by infinity are no numbers, as the definition says, in whichever phase they are."""
    desc = depthwise([1, 16, 7, 9], (5, 5), start=(2, 2), end=(2, 2))
    image, weights, _ = arrays_of(desc)
    assert weights is not None
    weights[3, 0, where[0], where[1]] = number
    run_operator(desc, [image, weights, None], tuning=PHASES)


@pytest.mark.parametrize(
    "desc",
    [
        depthwise([1, 4, 7, 9]),
        depthwise([1, 24, 7, 9], outputs=2),
        depthwise([1, 24, 7, 9], plane="input"),
        depthwise([1, 24, 7, 9], plane="output"),
    ],
)
def test_others_are_done_as_ever(desc: operators.Convolution) -> None:
    """Channels that fill no vector, several outputs of each, and planes on one side."""
    assert "turned_filter" not in copies(refined_definition(desc, AVX2))
    run_operator(desc, arrays_of(desc))
