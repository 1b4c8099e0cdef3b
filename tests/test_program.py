"""Programs: what may be bound to them, copies of inputs, overlap, threads, processes, memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution import ALL_THREADS
from hypothesis import given
from hypothesis import strategies as st
from properties import HANGS, SHARE, examples, some

from opendml import operators as op
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.llvm.object_cache import default_cache
from opendml.loops.alignment import ALIGNMENT
from opendml.programs.binding import BoundTensor, bind_all
from opendml.programs.device import Device, compile_operator
from opendml.programs.graph_plan import operator_key, stored_program
from opendml.programs.program import Program
from opendml.targets.cpu.runtime.array_calls import data_offset
from opendml.targets.host_memory import aligned_empty, aligned_parts, empty

Array = np.ndarray[Any, Any]

VECTOR = TensorDesc("float32", [6])
MATRIX = TensorDesc("float32", [2, 3])


def _add(desc: TensorDesc, b: TensorDesc | None = None, output: TensorDesc | None = None) -> Program:
    b, output = b or desc, output or desc
    return compile_operator(op.ElementWiseAdd(a_tensor=desc, b_tensor=b, output_tensor=output), thread_count=1)


def _numbers(*shape: int, start: int = 0) -> Array:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


# Calls ---------------------------------------------------------------------------------------------------------------


def test_a_call_allocates_outputs() -> None:
    first, second = _add(MATRIX)(_numbers(2, 3), _numbers(2, 3)), _add(MATRIX)(_numbers(2, 3), _numbers(2, 3))
    np.testing.assert_array_equal(first, 2 * _numbers(2, 3))
    assert not np.shares_memory(first, second)
    assert first.ctypes.data % ALIGNMENT == 0


def test_a_call_writes_where_it_is_told() -> None:
    program, y = _add(MATRIX), np.zeros((2, 3), np.float32)
    assert program(_numbers(2, 3), _numbers(2, 3), out=[y]) is y
    np.testing.assert_array_equal(y, 2 * _numbers(2, 3))
    assert program(_numbers(2, 3), _numbers(2, 3), out=y) is y


def test_outputs_have_the_strides_of_the_descriptor() -> None:
    output = TensorDesc("float32", [2, 3], [1, 4])
    y = _add(MATRIX, output=output)(_numbers(2, 3), _numbers(2, 3))
    assert y.strides == (4, 16)
    np.testing.assert_array_equal(y, 2 * _numbers(2, 3))
    assert empty(output).strides == (4, 16)


def test_several_outputs_and_absent_ones() -> None:
    pieces = [TensorDesc("int8", [1, 2]), TensorDesc("int8", [1, 3])]
    split = op.Split(input_tensor=TensorDesc("int8", [1, 5]), output_tensors=pieces, axis=1)
    a, b = compile_operator(split, 1)(np.arange(5, dtype=np.int8).reshape(1, 5))
    np.testing.assert_array_equal(a, [[0, 1]])
    np.testing.assert_array_equal(b, [[2, 3, 4]])
    image, pooled = TensorDesc("float32", [1, 1, 2, 2]), TensorDesc("float32", [1, 1, 1, 1])
    window: dict[str, Any] = {"strides": [1, 1], "window_size": [2, 2], "start_padding": [0, 0], "end_padding": [0, 0]}
    program = compile_operator(op.MaxPooling1(input_tensor=image, output_tensor=pooled, **window), 1)
    assert [binding.desc is None for binding in program.outputs] == [False, True]
    assert program(_numbers(1, 1, 2, 2)).item() == 3
    y = np.zeros((1, 1, 1, 1), np.float32)
    program.bind([_numbers(1, 1, 2, 2)], [y, None])()
    assert y.item() == 3
    with pytest.raises(BindingError, match="OutputIndicesTensor: the descriptor does not have this tensor"):
        program.bind([_numbers(1, 1, 2, 2)], [y, np.zeros((1, 1, 1, 1), np.uint32)])


def test_run_unchecked_is_a_call() -> None:
    program = _add(MATRIX)
    (y,) = program.run_unchecked([_numbers(2, 3), _numbers(2, 3)])
    np.testing.assert_array_equal(y, program(_numbers(2, 3), _numbers(2, 3)))


# What may be bound ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([_numbers(6)], [_numbers(6)], r"expected 2 inputs \(ATensor, BTensor\), got 1"),
        ([_numbers(6)] * 3, [_numbers(6)], "expected 2 inputs .*, got 3"),
        ([_numbers(6)] * 2, [], r"expected 1 outputs \(OutputTensor\), got 0"),
        ([_numbers(6), None], [_numbers(6)], "BTensor: an array is needed"),
        ([_numbers(6)] * 2, [None], "OutputTensor: an array is needed"),
        ([_numbers(6), _numbers(6).astype(np.float64)], [_numbers(6)], "BTensor: expected elements of float32, got fl"),
        ([_numbers(6), _numbers(6).astype(">f4")], [_numbers(6)], "BTensor: expected elements of float32, got >f4"),
        ([_numbers(5), _numbers(6)], [_numbers(6)], r"ATensor: expected sizes \[6\], got \[5\]"),
        ([_numbers(7), _numbers(6)], [_numbers(6)], r"ATensor: expected sizes \[6\], got \[7\]"),
        ([_numbers(6)] * 2, [_numbers(7)], r"OutputTensor: expected sizes \[6\], got \[7\]"),
        ([_numbers(2, 3), _numbers(6)], [_numbers(6)], r"ATensor: expected sizes \[6\], got \[2, 3\]"),
        ([_numbers(6)] * 2, [_numbers(12)[::2]], "OutputTensor: expected aligned memory with strides of"),
        ([_numbers(6), [1, 2, 3]], [_numbers(6)], "BTensor: expected an array, or .*, got list"),
        ([_numbers(6), "abcdef"], [_numbers(6)], "BTensor: expected an array, or .*, got str"),
        ([_numbers(6), 3.0], [_numbers(6)], "BTensor: expected an array, or .*, got float"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], outputs: list[Any], message: str) -> None:
    with pytest.raises(BindingError, match=message):
        _add(VECTOR).bind(inputs, outputs)


def test_read_only_arrays_are_inputs_only() -> None:
    x = _numbers(6)
    x.flags.writeable = False
    np.testing.assert_array_equal(_add(VECTOR)(x, x), 2 * x)
    with pytest.raises(BindingError, match="OutputTensor: the array is read-only"):
        _add(VECTOR).bind([_numbers(6), _numbers(6)], [x])
    with pytest.raises(BindingError, match="OutputTensor: the array is read-only"):
        _add(VECTOR).bind([x, x], [bytes(24) and memoryview(bytes(24)).cast("f")])


def test_misaligned_inputs_are_read_where_they_are_and_outputs_refused() -> None:
    raw = np.zeros(25, np.uint8)
    odd = raw[1:].view(np.float32)
    odd[:] = _numbers(6)
    assert not odd.flags.aligned
    program = _add(VECTOR)
    (bound,) = bind_all(program.inputs[:1], [odd], "input", program.target)
    assert program.target is not None
    assert isinstance(bound, BoundTensor)
    assert (bound.array is odd) == program.target.reads_anywhere == (bound.refresh is None)
    np.testing.assert_array_equal(program(odd, odd), 2 * _numbers(6))
    with pytest.raises(BindingError, match="aligned"):
        program.bind([_numbers(6), _numbers(6)], [odd])


def test_flat_buffers() -> None:
    padded = TensorDesc("float32", [2, 3], [4, 1])
    program = _add(padded, output=MATRIX)
    flat = _numbers(7)
    y = program(flat, flat)
    np.testing.assert_array_equal(y, 2 * np.array([[0, 1, 2], [4, 5, 6]]))
    np.testing.assert_array_equal(program(_numbers(100), flat), y)  # larger buffers will do
    with pytest.raises(BindingError, match="ATensor: a buffer of 7 elements is needed, got 6"):
        program(_numbers(6), flat)
    out = np.zeros(6, np.float32)
    program(flat, flat, out=out)
    np.testing.assert_array_equal(out.reshape(2, 3), y)
    # Beside a flat tensor a buffer is one of its total size, a multiple of four bytes: any other length is wrong.
    bytes_of_five = _add(TensorDesc("uint8", [5]))
    np.testing.assert_array_equal(bytes_of_five(np.arange(8, dtype="uint8"), np.ones(5, "uint8")), [1, 2, 3, 4, 5])
    for length in (4, 6, 7, 9):
        with pytest.raises(BindingError, match=rf"ATensor: expected sizes \[5\], got \[{length}\]"):
            bytes_of_five(np.zeros(length, "uint8"), np.ones(5, "uint8"))
    # A flat buffer that is not aligned is copied as such.
    raw = np.zeros(4 * 7 + 1, np.uint8)[1:].view(np.float32)
    raw[:] = flat
    np.testing.assert_array_equal(program(raw, flat), y)


def test_arrays_with_the_strides_of_the_descriptor_are_used_in_place() -> None:
    permuted = TensorDesc("float32", [2, 3], [1, 2])
    x = np.asfortranarray(_numbers(2, 3))
    call = _add(permuted, output=MATRIX).bind([x, x], [y := np.zeros((2, 3), np.float32)])
    assert not call._refreshed
    call()
    np.testing.assert_array_equal(y, 2 * x)
    repeated = TensorDesc("float32", [2, 3], [0, 1])
    row = np.broadcast_to(_numbers(3), (2, 3))
    call = _add(MATRIX, repeated).bind([_numbers(2, 3), row], [y])
    assert not call._refreshed
    call()
    np.testing.assert_array_equal(y, _numbers(2, 3) + row)


def test_copied_inputs_are_read_anew_at_every_call() -> None:
    x, y = _numbers(3, 2).T, np.zeros((2, 3), np.float32)
    call = _add(MATRIX).bind([x, x], [y])
    for factor in (1, 5):
        x[...] *= factor
        call()
        np.testing.assert_array_equal(y, 2 * x)


def test_a_repeated_input_given_in_full() -> None:
    """Of an array larger than the memory that a stride of 0 describes, the first elements count."""
    repeated = TensorDesc("float32", [2, 3], [0, 1])
    y = _add(MATRIX, repeated)(np.zeros((2, 3), np.float32), _numbers(2, 3))
    np.testing.assert_array_equal(y, [[0, 1, 2], [0, 1, 2]])


def test_an_output_is_not_changed_before_everything_is_checked() -> None:
    y = _numbers(6)
    with pytest.raises(BindingError):
        _add(VECTOR)(_numbers(6), _numbers(5), out=[y])
    np.testing.assert_array_equal(y, _numbers(6))


def test_anything_with_a_buffer() -> None:
    x = _numbers(6)
    program = _add(VECTOR)
    expected = 2 * x
    np.testing.assert_array_equal(program(x.data, memoryview(x.tobytes()).cast("f")), expected)
    out = bytearray(24)
    program(x, x, out=[memoryview(out).cast("f")])
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), expected)


class _Exporter:
    """DLPack, and nothing else."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class _Refuser(_Exporter):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("on another planet")


def test_anything_with_dlpack() -> None:
    x = _numbers(6)
    np.testing.assert_array_equal(_add(VECTOR)(_Exporter(x), x), 2 * x)
    with pytest.raises(BindingError, match=r"ATensor: the tensor is not accessible .*: on another planet"):
        _add(VECTOR)(_Refuser(x), x)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(6, dtype=torch.float32), torch.zeros(6)
    _add(VECTOR)(x, x, out=[y])
    assert y.tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(BindingError):
        _add(VECTOR)(x.to(torch.complex64), x)
    with pytest.raises(BindingError, match="not accessible"):
        _add(VECTOR)(x.clone().requires_grad_(), x)


# Overlap -------------------------------------------------------------------------------------------------------------


def test_in_place_on_exactly_the_same_elements() -> None:
    x = _numbers(6)
    _add(VECTOR)(x, _numbers(6), out=[x])
    np.testing.assert_array_equal(x, 2 * _numbers(6))
    memory = _numbers(7)
    with pytest.raises(BindingError, match=r"OutputTensor overlaps the memory of ATensor.*exactly the same elements"):
        _add(VECTOR)(memory[:6], _numbers(6), out=[memory[1:]])
    np.testing.assert_array_equal(memory, _numbers(7))


def test_the_same_memory_with_other_strides_is_not_in_place() -> None:
    transposed = TensorDesc("float32", [3, 3], [1, 3])
    square = TensorDesc("float32", [3, 3])
    memory = _numbers(3, 3)
    with pytest.raises(BindingError, match="overlaps"):
        _add(transposed, square, square)(memory.T, _numbers(3, 3), out=[memory])


def test_an_operator_that_does_not_work_in_place() -> None:
    tile = op.Tile(input_tensor=VECTOR, output_tensor=VECTOR, repeats=[1])
    x = _numbers(6)
    with pytest.raises(BindingError, match="the operator does not work in place"):
        compile_operator(tile, 1)(x, out=[x])


def test_outputs_may_not_overlap() -> None:
    pieces = [TensorDesc("int8", [2]), TensorDesc("int8", [3])]
    program = compile_operator(op.Split(input_tensor=TensorDesc("int8", [5]), output_tensors=pieces, axis=0), 1)
    memory = np.zeros(5, np.int8)
    program(np.arange(5, dtype=np.int8), out=[memory[:2], memory[2:]])
    np.testing.assert_array_equal(memory, np.arange(5))
    with pytest.raises(BindingError, match="overlaps the memory of OutputTensors"):
        program(np.arange(5, dtype=np.int8), out=[memory[1:3], memory[2:]])


def test_arrays_that_interleave_do_not_overlap() -> None:
    even = TensorDesc("float32", [6], [2])
    memory = _numbers(12)
    _add(even)(memory[::2], memory[::2], out=[memory[1::2]])
    np.testing.assert_array_equal(memory[1::2], 2 * memory[::2])


def test_views_of_one_tensor_may_be_inputs_together() -> None:
    x = _numbers(7)
    np.testing.assert_array_equal(_add(VECTOR)(x[:6], x[1:]), x[:6] + x[1:])


@examples(60)
@given(st.integers(0, 12), st.integers(0, 12))
def test_what_is_allowed_is_right(first: int, second: int) -> None:
    """Wherever an output lies in the memory of an input: refused, or the same result."""
    memory = _numbers(20)
    x, y = memory[first : first + 6], memory[second : second + 6]
    expected = x + _numbers(6)
    try:
        _ADD_VECTORS(x, _numbers(6), out=[y])
    except BindingError:
        assert abs(first - second) < 6 and first != second
        np.testing.assert_array_equal(memory, _numbers(20))
    else:
        np.testing.assert_array_equal(y, expected)


_ADD_VECTORS = _add(VECTOR)


# Memory --------------------------------------------------------------------------------------------------------------


def test_aligned_memory() -> None:
    for size in (0, 1, 63, 64, 1000):
        memory = aligned_empty(size)
        assert memory.size == size
        assert size == 0 or memory.ctypes.data % ALIGNMENT == 0


def test_memory_for_several() -> None:
    sizes = [0, 1, 64, 0, 65, 1000]
    parts = aligned_parts(sizes)
    assert [part.size for part in parts] == sizes
    for number, part in enumerate(parts):
        assert part.size == 0 or part.ctypes.data % ALIGNMENT == 0
        part[...] = number
    assert all((part == number).all() for number, part in enumerate(parts))
    assert aligned_parts([]) == []


def test_a_bound_call_keeps_what_it_needs() -> None:
    y = np.zeros(6, np.float32)
    call = _add(VECTOR).bind([_numbers(6), _numbers(6)], [y])
    gc.collect()
    call()
    np.testing.assert_array_equal(y, 2 * _numbers(6))


def test_a_bound_call_that_is_hastened_has_one_way_to_run_from_the_beginning() -> None:
    y = np.zeros(6, np.float32)
    call = _add(VECTOR).bind([_numbers(6), _numbers(6)], [y])
    first = call._run
    call.hasten()
    hastened = call._run
    assert data_offset() is None or hastened is not first
    call.hasten()
    call()
    assert call._run is hastened
    np.testing.assert_array_equal(y, 2 * _numbers(6))


def test_programs_are_freed() -> None:
    script = """
import gc, resource
import numpy as np
from opendml import operators as op
from opendml.programs.device import compile_operator
from opendml.description.tensor import TensorDesc
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def rounds(count):
    for number in range(count):
        tensor = TensorDesc("float32", [1 + number % 3])
        desc = op.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
        x = np.ones(tensor.sizes, np.float32)
        assert (compile_operator(desc, 1)(x, x) == 2).all()
    gc.collect()
rounds(EARLIER)
before = peak()
rounds(ROUNDS)
print(peak() - before)
"""
    rounds = max(round(1600 * SHARE), 300)
    grown = int(_run(script.replace("ROUNDS", str(rounds)).replace("EARLIER", str(min(rounds, 400)))))
    scale = 1024 if sys.platform == "darwin" else 1
    assert grown / scale < 3000, f"{grown / rounds} KiB a program"


def _run(script: str, **environment: str) -> str:
    pytest.importorskip("resource")
    source = str(Path(__file__).parent.parent / "src")
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Threads and processes -----------------------------------------------------------------------------------------------


def test_one_program_from_several_python_threads() -> None:
    tensor, result = TensorDesc("float32", [40, 50]), TensorDesc("float32", [40, 1])
    desc = op.Reduce(function="LOG_SUM_EXP", input_tensor=tensor, output_tensor=result, axes=[1])
    shared = compile_operator(desc, thread_count=2, tuning=ALL_THREADS)
    assert shared.temporary_size > 0
    arrays = [np.random.default_rng(seed).normal(size=(40, 50)).astype(np.float32) for seed in range(4)]
    expected = [shared(array) for array in arrays]
    _at_once(lambda number: np.testing.assert_array_equal(shared(arrays[number]), expected[number]))


def test_different_programs_from_several_python_threads() -> None:
    def work(number: int) -> None:
        tensor = TensorDesc("int32", [number + 1, 33])
        x = np.full(tensor.sizes, number, np.int32)
        desc = op.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
        y = compile_operator(desc, 3, tuning=ALL_THREADS)(x, x)
        np.testing.assert_array_equal(y, 2 * x)

    _at_once(work, rounds=5)


def _at_once(work: Any, threads: int = 4, rounds: int = 100) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for _ in range(rounds):
                work(number)
        except BaseException as error:
            errors.append(error)

    team = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert not errors, errors[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_programs_run_in_a_child_process() -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore")
import numpy as np
from opendml import operators as op
from opendml.programs.device import compile_operator
from opendml.description.tensor import TensorDesc
tensor = TensorDesc("float32", [300, 1000])
program = compile_operator(op.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor), 2)
x = np.ones(tensor.sizes, np.float32)
call = program.bind([x, x], [y := np.zeros_like(x)])
call()
child = os.fork()
if child == 0:
    y[...] = 0
    call()
    other = TensorDesc("float32", [300, 1001])
    again = compile_operator(op.ElementWiseAdd(a_tensor=other, b_tensor=other, output_tensor=other), 2)
    z = np.ones(other.sizes, np.float32)
    os._exit(0 if (y == 2).all() and (again(z, z) == 2).all() else 1)
_, status = os.waitpid(child, 0)
y[...] = 0
call()
print(os.waitstatus_to_exitcode(status), bool((y == 2).all()))
"""
    assert _run(script).split() == ["0", "True"]


@pytest.mark.parametrize("thread_count", [0, -1, 1025, 2.0, True])
def test_thread_counts_are_checked(thread_count: Any) -> None:
    with pytest.raises(ConfigurationError, match="thread_count="):
        _add(VECTOR).with_thread_count(thread_count)


def test_a_program_without_work_for_others_has_one_thread() -> None:
    """Whenever it is asked: nobody makes room for what they would need."""
    small, large = _add(VECTOR), compile_operator(next(_reductions()), thread_count=1)
    assert [program.with_thread_count(3).executable.thread_count for program in (small, large)] == [1, 3]


# The same bits every time --------------------------------------------------------------------------------------------


def _reductions() -> Iterator[op.Reduce]:
    for sizes, axes in (([1000, 777], [0]), ([1000, 777], [1]), ([1000, 777], [0, 1]), ([7, 501, 130], [0, 2])):
        for function in ("SUM", "L2", "LOG_SUM_EXP", "MULTIPLY", "ARGMAX", "AVERAGE"):
            output = [1 if d in axes else n for d, n in enumerate(sizes)]
            output_type = "uint32" if function == "ARGMAX" else "float32"
            tensors = (TensorDesc("float32", sizes), TensorDesc(output_type, output))
            yield op.Reduce(function=function, input_tensor=tensors[0], output_tensor=tensors[1], axes=axes)


def test_large_reductions_do_not_depend_on_threads_or_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for desc in some(list(_reductions())):
        x = np.random.default_rng(1).normal(1, 0.2, desc.input_tensor.sizes).astype(np.float32)
        results = []
        for level in ("native", "avx2", "baseline"):
            monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
            program = compile_operator(desc, thread_count=1)
            results += [program.with_thread_count(count)(x) for count in (1, 2, 3, 7)]
        for result in results[1:]:
            assert result.tobytes() == results[0].tobytes(), (desc.function.name, desc.axes)


def test_the_cache_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / "cache"))
    tensor = TensorDesc("float16", [3, 65])
    desc = op.ActivationGelu(input_tensor=tensor, output_tensor=tensor)
    x = np.random.default_rng(2).normal(size=(3, 65)).astype(np.float16)
    found, results = [], []
    for cache in ("0", "1", "1"):
        monkeypatch.setenv("OPENDML_CACHE", cache)
        program = Device(thread_count=2).compile(desc)
        found.append(program.from_cache)
        results.append(program(x).tobytes())
    assert found == [False, False, True]
    assert len(set(results)) == 1


def _fail(*_: Any, **__: Any) -> None:
    raise AssertionError("code is written again")


def test_an_operator_from_the_cache_passes_no_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / "cache"))
    first, x = _add(VECTOR), _numbers(6)
    monkeypatch.setattr("opendml.targets.cpu.compilation.generate", _fail)
    again = _add(VECTOR)
    assert (first.from_cache, again.from_cache) == (False, True)
    np.testing.assert_array_equal(again(x, x), first(x, x))
    strided = TensorDesc("float32", [6], [2])
    others = [
        (op.ElementWiseAdd(a_tensor=VECTOR, b_tensor=b, output_tensor=VECTOR), tuning)
        for b, tuning in ((strided, None), (VECTOR, ALL_THREADS))
    ]
    for other, tuning in others:
        with pytest.raises(AssertionError, match="written again"):
            compile_operator(other, 1, tuning=tuning)


def test_an_operator_whose_code_is_gone_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan and its objects are entries of their own."""
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / "cache"))
    first, x, cache = _add(VECTOR), _numbers(6), default_cache()
    assert first.desc is not None and first.target is not None and cache is not None
    key = operator_key(first.desc, first.target)
    stored = stored_program(key)
    assert key is not None and stored is not None
    for entry in map(cache.path, (key, *stored.keys)):
        content = entry.read_bytes()
        entry.unlink()
        program = _add(VECTOR)
        np.testing.assert_array_equal(program(x, x), first(x, x))
        assert entry.read_bytes() == content
        assert _add(VECTOR).from_cache
