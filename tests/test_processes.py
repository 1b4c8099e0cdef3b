"""What processes do to programs: they fork, their threads have small stacks, or they may have no thread at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from execution import frames
from properties import HANGS
from sample_descriptors import samples
from sample_tensors import f32

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.llvm import compile_workers, stacks
from opendml.llvm.host import host_machine, machine_of
from opendml.llvm.native import assembly, compile_object
from opendml.llvm.stacks import COMPILING, STACK_BOUND, on_large_stack
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import host_target

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs fork")
X86 = pytest.mark.skipif(host_machine().architecture != "x86_64", reason="reads x86's assembly")


def run_script(script: str, **environment: str) -> None:
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert not done.stderr, done.stderr
    assert done.returncode == 0


# ---- forks

FORK = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that this process has threads is the point
import numpy as np
import opendml as dml
from opendml.llvm.host import host_machine
from opendml.llvm.native import compile_object, load_object

def compile_and_drop(number):
    while True:
        number += 2
        text = f"define i64 @f(i64 %x) {{\\n %y = mul i64 %x, {number}\\n ret i64 %y\\n}}\\n"
        load_object(compile_object(text, host_machine()), ["f"])

def call_and_drop(_):
    while True:
        dml.functions.core.PROGRAMS.clear()
        dml.add(np.ones(3, np.float32), np.ones(3, np.float32))

import opendml.functions.core
x = np.ones((2, 5000), np.float32)
assert dml.add(x, x)[0, 0] == 2
for number, work in enumerate((compile_and_drop, call_and_drop)):
    threading.Thread(target=work, args=(number,), daemon=True).start()
for number in range(16):
    time.sleep(0.001 * (number % 7))
    child = os.fork()
    if child == 0:
        signal.alarm(1200)
        text = f"define i64 @g(i64 %x) {{\\n %y = add i64 %x, {number}\\n ret i64 %y\\n}}\\n"
        load_object(compile_object(text, host_machine()), ["g"])
        dml.functions.core.PROGRAMS.clear()
        assert (dml.subtract(x, x) == 0).all()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (number, status)
os._exit(0)
"""


@POSIX
def test_children_of_forks_compile_and_run() -> None:
    """Whatever other threads were doing in LLVM: compiling, loading, disposing of what nobody needs any longer."""
    run_script(FORK, OPENDML_NUM_THREADS="2")


# ---- no threads


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("can't start new thread")


def test_compiling_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [f"define i64 @f(i64 %x) {{\n %y = mul i64 %x, {n}\n ret i64 %y\n}}\n" for n in range(3, 9)]
    monkeypatch.setattr(compile_workers, "WORKER_SIZE", 1)
    monkeypatch.setattr(compile_workers, "default_thread_count", lambda: 4)
    expected = [compile_object(module, host_machine()) for module in modules]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert compile_workers.compile_objects(modules, host_machine()) == expected


NO_THREADS = """
import os, resource, threading
import numpy as np
import opendml as dml
from opendml.llvm import compile_workers

def compiled(rows):
    graph = dml.Graph(dml.Device(thread_count=4))
    x = graph.input("float32", [rows, 1024])
    return graph.compile([dml.activation_softmax(dml.activation_tanh(x)), dml.reduce(x, "SUM", axes=[0])])

# All modules are there before this process is a user that may not read them; NumPy imports its generators late.
array = np.random.default_rng(0).random((256, 1024), np.float32)
compiled(2)
compile_workers.WORKER_SIZE = 1
if os.geteuid() == 0:
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    os._exit(0)  # this system does not count threads
softmax, total = compiled(256)(array)
assert np.allclose(softmax.sum(axis=1), 1)
assert np.allclose(np.ravel(total), array.sum(axis=0))
"""


@POSIX
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_process_that_may_not_start_a_thread_compiles_and_runs_alone() -> None:
    run_script(NO_THREADS, OPENDML_CACHE="0", OPENDML_NUM_THREADS="4")


# ---- subinterpreters

IN_ANOTHER = """
import warnings
warnings.simplefilter("ignore")  # NumPy says that it is not made for this
import numpy as np
import opendml as dml
x = np.ones((2, 50000), np.float32)
print(dml.add(x, x)[0, 0], flush=True)
t = dml.TensorDesc("float32", [2, 50000])
desc = dml.operators.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t)
print(dml.Device(thread_count=2).compile(desc)(x, x)[1, 0], flush=True)
"""

INTERPRETERS = """
import importlib, importlib.util, sys
name = next((n for n in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(n)), None)
if name is None:
    print("skipped")
    sys.exit()
interpreters = importlib.import_module(name)
{before}
interpreter = interpreters.create({config})
try:
    failure = interpreters.run_string(interpreter, {script!r})
except Exception as error:
    failure = error
if failure is not None:
    print(getattr(failure, "formatted", failure))
{after}
"""


def output_of_interpreters(before: str = "", after: str = "") -> str:
    """What a process prints in which a second interpreter runs programs, between what the first one does."""
    config = "'legacy'" if sys.version_info >= (3, 13) else "isolated=False"
    script = INTERPRETERS.format(before=before, after=after, config=config, script=IN_ANOTHER)
    environment = {**os.environ, "OPENDML_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 0, done.stderr
    if "skipped" in done.stdout:
        pytest.skip("this Python has no subinterpreters")
    return done.stdout


@pytest.mark.parametrize("after", ["interpreters.destroy(interpreter)", ""], ids=["destroyed", "left"])
def test_a_process_with_a_subinterpreter_ends(after: str) -> None:
    """Its team's workers end with it, also where Python itself is ending already."""
    output = output_of_interpreters(after=after)
    if "numpy" in output.lower():
        pytest.skip("NumPy refuses subinterpreters")
    assert output.split() == ["2.0", "2.0"]


def test_a_subinterpreter_says_what_numpy_says() -> None:
    """Where the first interpreter has imported NumPy, it may refuse to be imported again."""
    output = output_of_interpreters(before="import opendml as dml; dml.add([1], [2])")
    assert output.split() == ["2.0", "2.0"] or "cannot load module more than once per process" in output


# ---- small stacks


def kinds() -> Iterator[Operator]:
    """Kernels that need much memory of their own, each in another way."""
    x = f32(64, 16000)
    yield operators.ActivationSoftmax(input_tensor=x, output_tensor=x)  # rows that are kept
    x = f32(1, 64, 1, 768)
    yield operators.MeanVarianceNormalization1(
        input_tensor=x, output_tensor=x, axes=[3], normalize_variance=True, epsilon=1e-5
    )
    large = f32(1, 1500, 1500, 1)
    turned = TensorDesc("float32", [1, 1500, 1500, 1], [1500 * 1500, 1, 1500, 1])
    yield operators.ElementWiseIdentity(input_tensor=turned, output_tensor=large)  # stages of squares
    yield operators.Split(  # and of rows
        input_tensor=f32(1, 1, 18000, 120), output_tensors=[f32(1, 1, 18000, 50), f32(1, 1, 18000, 70)], axis=3
    )
    yield operators.CumulativeSummation(
        input_tensor=f32(1, 64, 4096), output_tensor=f32(1, 64, 4096), axis=1, axis_direction="INCREASING",
        has_exclusive_sum=False,
    )  # fmt: skip
    square = f32(1, 1, 256, 256)
    yield operators.Gemm(
        a_tensor=square, b_tensor=square, output_tensor=square, trans_a="NONE", trans_b="TRANSPOSE", alpha=1, beta=0
    )


STACK = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_processes import kinds
import opendml as dml
failures = []

def compare(size):
    for desc in kinds():
        arrays = [None if b.desc is None else np.random.default_rng(0).random(b.desc.element_span, np.float32)
                  for b in programs[desc].inputs]
        expected = programs[desc](*arrays)
        outputs = programs[desc].new_outputs()
        call = programs[desc].bind(arrays, outputs)
        in_thread(size, call)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for a, b in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(a, b)

def in_thread(size, work):
    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)
    threading.stack_size(size)
    thread = threading.Thread(target=guarded)
    thread.start()
    threading.stack_size(0)
    thread.join()
    if failures:
        raise failures[0]

device = dml.Device(thread_count=1)
programs = {desc: device.compile(desc) for desc in kinds()}
for size in (32768, 65536):
    compare(size)

def compile_and_run():
    x = np.random.default_rng(1).random((3, 77), np.float32)
    np.testing.assert_allclose(dml.activation_softmax(x).sum(axis=1), 1, rtol=1e-5)
    graph = dml.Graph()
    y = dml.activation_tanh(graph.input("float32", [3, 77])) + 1
    np.testing.assert_allclose(graph.compile(y)(x), np.tanh(x) + 1, rtol=1e-5)
    try:
        dml.activation_softmax(x, axes=[7])
    except dml.InvalidDescriptorError:
        pass
    else:
        raise AssertionError
in_thread(131072, compile_and_run)
"""


def test_threads_with_small_stacks() -> None:
    """Every kind of kernel runs on the least stack that Python gives, and compiles on a small one."""
    source = STACK.replace("sys.argv[1]", repr(str(Path(__file__).parent)))
    run_script(source, OPENDML_CACHE="0", OPENDML_NUM_THREADS="1")


def test_work_goes_to_a_large_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    here = threading.get_ident()
    monkeypatch.setattr(stacks, "_stack_size", lambda: COMPILING)
    assert on_large_stack(threading.get_ident) == here
    monkeypatch.setattr(stacks, "_stack_size", lambda: COMPILING - 1)
    assert on_large_stack(threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        on_large_stack(lambda: 1 // 0)
    assert threading.stack_size() == 0
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(dml.OutOfMemoryError, match="no other thread can be started"):
            on_large_stack(threading.get_ident)
    assert threading.stack_size() == 0


def test_frames_are_found() -> None:
    text = "define void @f() {\n %s = alloca [5000 x i8]\n call void @g(ptr %s)\n ret void\n}\ndeclare void @g(ptr)\n"
    if host_machine().architecture == "x86_64":
        assert max(frames(assembly(text, host_machine()))) >= 5000


@pytest.mark.sampled
@X86
@pytest.mark.parametrize("level", ["native", "baseline"])
def test_kernels_use_little_stack(level: str) -> None:
    target = host_target(level)
    few: list[Callable[[], Any]] = [kinds, lambda: [d for d in samples() if type(d).__name__ in CHOSEN]]
    for desc in (desc for some in few for desc in some()):
        for module in generate(refined_definition(desc, target), target, in_place=desc.in_place).modules:
            assert max(frames(assembly(module, target.machine)), default=0) <= STACK_BOUND, desc


@X86
@pytest.mark.parametrize(("level", "size"), [("avx512", 64), ("avx2", 32)])
def test_registers_lie_in_lines_of_the_stack(level: str, size: int) -> None:
    """Those that LLVM spills: the entry, which others call, aligns the stack for the functions that it calls."""
    machine = machine_of("x86_64-unknown-linux-gnu", level)
    target = Processor(machine, tuning_of(machine, 2))
    desc = operators.ActivationGelu(input_tensor=f32(1, 64, 56, 56), output_tensor=f32(1, 64, 56, 56))
    module = generate(refined_definition(desc, target), target, in_place=False).modules[0]
    text = assembly(module, machine)
    kernel, entry = text.split("opendml_entry:")
    register = {64: "zmm", 32: "ymm"}[size]
    spilled = re.findall(rf"(vmov\w+)\t%{register}\d+, (\d*)\(%rsp\)", kernel)
    assert spilled
    assert {(name, int(place or 0) % size) for name, place in spilled} == {("vmovaps", 0)}
    assert f"andq\t$-{size}, %rsp" in entry


@X86
def test_stacks_are_aligned_as_each_module_says() -> None:
    """One that LLVM compiled before, in the same thread, is none of the next one's business: others call it."""
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    plain = "declare void @g(ptr)\ndefine void @f() {\n  %a = alloca <16 x float>, align 64\n"
    plain += "  call void @g(ptr %a)\n  ret void\n}\n"
    aligned = plain + '!llvm.module.flags = !{!0}\n!0 = !{i32 1, !"override-stack-alignment", i32 64}\n'
    for text in (aligned, plain, aligned, plain):
        assert ("andq\t$-64, %rsp" in assembly(text, machine)) == (text is plain)


CHOSEN = ("ElementWiseSin", "Rnn", "ScatterNd")
"""Operators whose functions keep more values than there are registers, and others with loops of their own."""
