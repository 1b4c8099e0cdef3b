"""Outputs that are written past the caches, and layouts that are transposed in registers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from execution import random_array, run_operator, run_single

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.inspection.explanation import explain_operator
from opendml.llvm.host import machine_of
from opendml.programs.device import Device
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING, Tuning


@pytest.fixture(params=["cached", "asked for", "streamed", "staged"])
def written(request: pytest.FixtureRequest) -> Tuning:
    """Outputs that stay in the caches, or leave as ``streamed`` says."""
    return TUNING if request.param == "cached" else _streaming(request.param)


@pytest.fixture(params=["asked for", "streamed", "staged"])
def streamed(request: pytest.FixtureRequest) -> Tuning:
    """Every tensor counts as too large for the caches; its lines are asked for ahead, its rows are written as they are,
    or gathered in a stage."""
    return _streaming(request.param)


def _streaming(how: str) -> Tuning:
    if how == "asked for":
        return replace(TUNING, prefetched_bytes=0, stored_prefetch_distance=64, streamed_bytes=1 << 40)
    row = 0 if how == "streamed" else 1 << 40
    return replace(TUNING, streamed_bytes=0, prefetched_bytes=0, streamed_row_bytes=row)


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("width", [1, 15, 63, 64, 65, 200, 1000])
def test_streamed_copies(data_type: str, width: int, streamed: Tuning) -> None:
    source = TensorDesc(data_type, [3, width], [width + 3, 1])
    x = random_array(source, width)
    copied = operators.ElementWiseIdentity(input_tensor=source, output_tensor=TensorDesc(data_type, [3, width]))
    np.testing.assert_array_equal(run_single(copied, x, tuning=streamed), x)
    padded = operators.Padding(
        input_tensor=source,
        output_tensor=TensorDesc(data_type, [5, width + 5]),
        padding_mode="EDGE",
        padding_value=0.0,
        start_padding=[1, 3],
        end_padding=[1, 2],
    )
    np.testing.assert_array_equal(run_single(padded, x, tuning=streamed), np.pad(x, [(1, 1), (3, 2)], mode="edge"))


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["float32", "float16", "uint8", "int64"])
@pytest.mark.parametrize(("rows", "width"), [(2, 1), (3, 7), (40, 33), (130, 100), (1000, 16), (3, 4000)])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_rows_at_any_place_of_a_line(data_type: str, rows: int, width: int, offset: int, streamed: Tuning) -> None:
    """A block begins and ends anywhere in a line, and the memory around the output stays as it is."""
    source = TensorDesc(data_type, [2, rows, width], [rows * (width + 2), width + 2, 1])
    target = TensorDesc(data_type, [2, rows, width])
    desc = operators.ElementWiseIdentity(input_tensor=source, output_tensor=target)
    program = Device(tuning=streamed).compile(desc)
    x = random_array(source, width, special=False)
    memory = np.full(target.element_count + 80, 7, x.dtype)
    out = memory[40 + offset :][: target.element_count].reshape(2, rows, width)
    program(x, out=[out])
    np.testing.assert_array_equal(out, x)
    assert (memory[: 40 + offset] == 7).all()
    assert (memory[40 + offset + target.element_count :] == 7).all()


@pytest.mark.parametrize("data_type", ["float32", "float16", "int8"])
def test_rows_of_two_outputs(data_type: str, streamed: Tuning) -> None:
    source, target = TensorDesc(data_type, [3, 5, 42, 46]), TensorDesc(data_type, [3, 5, 21, 23])
    x = random_array(source, 3, special=False)
    pooled = operators.MaxPooling1(
        input_tensor=source,
        output_tensor=target,
        output_indices_tensor=TensorDesc("uint32", target.sizes),
        strides=[2, 2],
        window_size=[2, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )
    values, indices = run_operator(pooled, [x], tuning=streamed)
    np.testing.assert_array_equal(values, x.reshape(3, 5, 21, 2, 23, 2).max((3, 5)))
    np.testing.assert_array_equal(x.reshape(-1)[indices], values)


@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
@pytest.mark.parametrize("block", [2, 3])
def test_blocks(order: str, block: int, streamed: Tuning) -> None:
    """Rows of several planes, and rows between which others lie."""
    deep, wide = [2, 5 * block * block, 9, 21], [2, 5, 9 * block, 21 * block]
    x = random_array(TensorDesc("float32", wide), block)
    there = operators.SpaceToDepth1(
        input_tensor=TensorDesc("float32", wide),
        output_tensor=TensorDesc("float32", deep),
        block_size=block,
        order=order,
    )
    back = operators.DepthToSpace1(
        input_tensor=TensorDesc("float32", deep),
        output_tensor=TensorDesc("float32", wide),
        block_size=block,
        order=order,
    )
    y = run_single(there, x, tuning=streamed)
    n, c, h, w = wide
    parts = x.reshape(n, c, h // block, block, w // block, block)
    axes = (0, 3, 5, 1, 2, 4) if order == "DEPTH_COLUMN_ROW" else (0, 1, 3, 5, 2, 4)
    np.testing.assert_array_equal(y, parts.transpose(axes).reshape(deep))
    np.testing.assert_array_equal(run_single(back, y, tuning=streamed), x)


def test_staged_rows_in_place(streamed: Tuning) -> None:
    tensor = TensorDesc("float32", [3, 200, 37])
    row = TensorDesc("float32", [3, 200, 37], [0, 0, 1])
    x, y = random_array(tensor, 1, special=False), random_array(row, 2, special=False)
    program = Device(tuning=streamed).compile(
        operators.ElementWiseAdd(a_tensor=tensor, b_tensor=row, output_tensor=tensor)
    )
    expected = x + y
    program(x, y, out=[x])
    np.testing.assert_array_equal(x, expected)


def test_streamed_in_place_operator(streamed: Tuning) -> None:
    tensor = TensorDesc("float32", [999])
    x = random_array(tensor, 1, special=False)
    add = operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    np.testing.assert_array_equal(run_single(add, x, x, tuning=streamed), x + x)


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("width", [16, 17, 63, 64, 65, 100, 1000])
def test_streamed_rows_that_are_reduced_first(data_type: str, width: int, streamed: Tuning) -> None:
    """``run_single`` compares with the interpreter, bit for bit."""
    tensor = TensorDesc(data_type, [3, width], [width + 3, 1])
    row = TensorDesc(data_type, [1, width])
    x, scale, bias = random_array(tensor, 1), random_array(row, 2), random_array(row, 3)
    normalization = operators.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=row,
        bias_tensor=row,
        output_tensor=tensor,
        axes=(1,),
        normalize_variance=True,
        epsilon=1e-5,
    )
    run_single(normalization, x, scale, bias, tuning=streamed)
    run_single(operators.ActivationSoftmax1(input_tensor=tensor, output_tensor=tensor, axes=(1,)), x, tuning=streamed)


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize(("channels", "width"), [(5, 8), (16, 16), (17, 33), (64, 40), (100, 5), (8, 129), (530, 777)])
def test_transpositions(data_type: str, channels: int, width: int, written: Tuning) -> None:
    packed = TensorDesc(data_type, [2, channels, width])
    last = TensorDesc(data_type, [2, channels, width], [channels * width, 1, channels])
    x = random_array(packed, channels)
    for source, target in ((packed, last), (last, packed)):
        desc = operators.ElementWiseIdentity(input_tensor=source, output_tensor=target)
        np.testing.assert_array_equal(run_single(desc, x, tuning=written), x)
    added = operators.ElementWiseAdd(a_tensor=packed, b_tensor=last, output_tensor=packed)
    if data_type != "int8":
        np.testing.assert_array_equal(run_single(added, x, x, tuning=written), x + x)


@pytest.mark.parametrize(("channels", "width"), [(17, 33), (16, 18), (9, 9)])
def test_transposed_operand_in_place(channels: int, width: int, written: Tuning) -> None:
    packed = TensorDesc("float32", [2, channels, width])
    last = TensorDesc("float32", [2, channels, width], [channels * width, 1, channels])
    a, b = (random_array(packed, seed, special=False) for seed in (1, 2))
    program = Device(tuning=written).compile(
        operators.ElementWiseAdd(a_tensor=packed, b_tensor=last, output_tensor=packed)
    )
    expected = a + b
    program(a, np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1), out=[a])
    np.testing.assert_array_equal(a, expected)


PADDED = operators.Padding(
    input_tensor=TensorDesc("FLOAT32", [40, 112]),
    output_tensor=TensorDesc("FLOAT32", [42, 114]),
    padding_mode="EDGE",
    padding_value=0.0,
    start_padding=[1, 1],
    end_padding=[1, 1],
)
"""Rows of seven registers of 64 bytes between two elements."""


def _text(tuning: Tuning, level: str) -> str:
    processor = Processor(machine_of("x86_64-unknown-linux-gnu", level), tuning)
    (text,) = generate(processor.refine(PADDED.define()), processor, in_place=False).modules
    return text


@pytest.mark.parametrize(("level", "stored"), [("avx512", "<16 x float>"), ("avx2", "<8 x float>")])
def test_rows_are_stored_once_and_register_by_register(level: str, stored: str) -> None:
    """Four registers at a time would write one of a row's seven twice, and LLVM stores their second half first."""
    stores = re.findall("store (<.*?>) ", _text(TUNING, level))
    assert stores and set(stores) == {stored}
    assert set(re.findall("store (<.*?>) ", _text(replace(TUNING, repeated_part=1.0), level))) == {stored}


def test_registers_are_stored_in_order() -> None:
    text = _text(replace(TUNING, repeated_part=1.0), "avx512")
    values, places = {}, []
    for line in text.splitlines():
        if found := re.match(r" *(%\w+) = getelementptr float, ptr (%\w+), i64 (\d+)$", line):
            values[found[1]] = (found[2], int(found[3]))
        elif found := re.match(r" *store <16 x float> .*, ptr (%\w+),", line):
            places.append(values.get(found[1], (found[1], 0)))
    bases = {base for base, _ in places}
    assert len(places) == 4 * len(bases) > 0
    for base in bases:
        offsets = [offset for other, offset in places if other == base]
        assert offsets == [offsets[0] + 16 * n for n in range(4)]


def test_lines_of_outputs_are_asked_for_ahead_where_they_are_not_past_the_caches() -> None:
    asking = replace(TUNING, prefetched_bytes=0, stored_prefetch_distance=64, streamed_bytes=1 << 40)
    assert re.search(r"prefetch.p0\(ptr %\w+, i32 1,", _text(asking, "avx512"))
    for other in (replace(asking, stored_prefetch_distance=0), replace(asking, streamed_bytes=0)):
        assert not re.search(r"prefetch.p0\(ptr %\w+, i32 1,", _text(other, "avx512"))


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("most", [1, 2])
def test_lines_of_several_runs_side_by_side_are_asked_for_where_that_pays(inputs: int, most: int) -> None:
    """Each a tensor of its own, as large as none that stays in a cache."""
    tensor = TensorDesc("float32", [TUNING.prefetched_bytes // 4096, 1024])
    both = operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    desc = both if inputs == 2 else operators.ActivationRelu(input_tensor=tensor, output_tensor=tensor)
    knobs = replace(TUNING, stored_prefetch_distance=0, runs_side_by_side=most)
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), knobs)
    (kernel,) = generate(desc.define(), target, in_place=False).describe_kernels()
    assert kernel.text.count("prefetch") == (inputs if inputs <= most else 0)


@pytest.mark.parametrize(("strides", "rows"), [((1, 2), None), ((2, 1), 10), ((2, 2), 10), ((3, 3), 10)])
def test_whole_rows_further_are_asked_for_where_half_of_a_run_is_not_read(
    strides: tuple[int, int], rows: int | None
) -> None:
    """Of every second row of 56 elements the part that is read, as many of them ahead as are so many bytes together."""
    sizes, height, width = [8, 256, 56, 56], 56 // strides[0], 56 // strides[1]
    desc = operators.Slice1(
        input_tensor=TensorDesc("float32", sizes),
        output_tensor=TensorDesc("float32", [8, 256, height, width]),
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(8, 256, height * strides[0], width * strides[1]),
        input_window_strides=(1, 1, *strides),
    )
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), replace(TUNING, streamed_bytes=1 << 40))
    (kernel,) = generate(desc.define(), target, in_place=False).describe_kernels()
    expected = TUNING.prefetch_distance if rows is None else rows * strides[0] * 56 * 4
    assert f"prefetch InputTensor {expected} bytes ahead" in kernel.text


@pytest.mark.parametrize(("heads", "size"), [(16, 64), (8, 256), (16, 1024)])
def test_the_rows_that_come_next_are_asked_for_where_others_lie_between(heads: int, size: int) -> None:
    """Of each of 1024 words the part of one head after the other: those of other heads, which are nearer, come later.
    Rows as long as what is asked for are read as they lie."""
    words, whole = 1024, heads * size
    desc = operators.ElementWiseIdentity(
        input_tensor=TensorDesc("float32", [1, heads, words, size], [words * whole, size, whole, 1]),
        output_tensor=TensorDesc("float32", [1, heads, words, size]),
    )
    tuning = replace(TUNING, prefetched_bytes=1 << 20, streamed_bytes=1 << 40)
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), tuning)
    (kernel,) = generate(desc.define(), target, in_place=False).describe_kernels()
    rows = tuning.prefetch_distance // (4 * size)
    expected = rows * 4 * whole if rows > 1 else tuning.prefetch_distance
    assert f"prefetch InputTensor {expected} bytes ahead" in kernel.text


def test_few_threads_of_some_processors_write_through_the_caches() -> None:
    """What all knobs but those of streams and of shares are is the same for all."""
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    assert tuning_of(machine, TUNING.many_threads) == TUNING
    few, many = (tuning_of(replace(machine, cpu_name="cascadelake"), threads) for threads in (8, 9))
    assert (many.streamed_bytes, many.stored_prefetch_distance) == (
        TUNING.streamed_bytes,
        TUNING.stored_prefetch_distance,
    )
    assert few.streamed_bytes > TUNING.streamed_bytes and few.stored_prefetch_distance > 0
    names = ("streamed_bytes", "stored_prefetch_distance", "blocks_of_channels", "shares")
    knobs = {name: getattr(many, name) for name in names}
    assert replace(few, **knobs) == many


@pytest.mark.parametrize(("sizes", "asks"), [((64, 4096), False), ((4096, 64), True)])
def test_lines_of_squares_are_asked_for_ahead_where_their_rows_are_near(sizes: tuple[int, int], asks: bool) -> None:
    """A matrix is transposed, of rows that are as long as what is asked for, or a small part of it: then the next
    square's lines are among them."""
    rows, columns = sizes
    desc = operators.ElementWiseIdentity(
        input_tensor=TensorDesc("float32", [rows, columns]),
        output_tensor=TensorDesc("float32", [rows, columns], [1, rows]),
    )
    tuning = replace(TUNING, prefetched_bytes=0)
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), tuning)
    text = "".join(generate(desc.define(), target, in_place=False).modules)
    assert "shufflevector" in text
    assert bool(re.search(r"prefetch.p0\(ptr %\w+, i32 0,", text)) == asks


def test_registers_of_wide_elements_beside_narrow_ones() -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    desc = operators.Cast(
        input_tensor=TensorDesc("float32", [64, 4096]), output_tensor=TensorDesc("float16", [64, 4096])
    )
    assert "step 128" in explain_operator(desc, Processor(machine, TUNING))
    assert "step 64" in explain_operator(desc, Processor(machine, replace(TUNING, mixed_registers=4)))
