"""LLVM text is compiled and loaded, and called."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from opendml.description.errors import CodeGenerationError
from opendml.llvm import native
from opendml.llvm.host import host_machine
from opendml.llvm.native import (
    STRAIGHT,
    CompileOptions,
    assembly,
    compile_object,
    load_object,
    optimised_ir,
)

ADD = "define i64 @add(i64 %a, i64 %b) {\n  %sum = add i64 %a, %b\n  ret i64 %sum\n}\n"
EMPTY = "define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {\n  ret void\n}\n"


def test_compile_load_call() -> None:
    loaded = load_object(compile_object(ADD, host_machine()), ["add"])
    add = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded["add"])
    assert add(40, 2) == 42


def test_objects_of_the_same_symbols_live_side_by_side() -> None:
    sources = [ADD, ADD.replace("add i64", "sub i64")]
    loaded = [load_object(compile_object(source, host_machine()), ["add"]) for source in sources]
    results = [ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(o["add"])(9, 4) for o in loaded]
    assert results == [13, 5]


def test_code_reaches_process_symbols_and_constants() -> None:
    source = """
@text = private constant [8 x i8] c"opendml\\00"
declare i64 @strlen(ptr)
define i64 @length() {
  %length = call i64 @strlen(ptr @text)
  ret i64 %length
}
"""
    loaded = load_object(compile_object(source, host_machine()), ["length"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(loaded["length"])() == 7


@pytest.mark.parametrize(
    "source",
    ["define void @f() { ret i32 1 }", "nonsense", "define void @f() {\n  call void @g()\n  ret void\n}"],
    ids=["types", "syntax", "undeclared"],
)
def test_bad_text_raises(source: str) -> None:
    with pytest.raises(CodeGenerationError, match="LLVM"):
        compile_object(source, host_machine())


def test_bad_objects_raise() -> None:
    host = host_machine()
    with pytest.raises(CodeGenerationError):
        load_object(compile_object(ADD, host), ["subtract"])
    with pytest.raises(CodeGenerationError):
        load_object(
            compile_object("declare void @nowhere()\n" + EMPTY.replace("ret", "call void @nowhere()\n  ret"), host),
            ["entry"],
        )
    with pytest.raises(CodeGenerationError):
        load_object(b"not an object file", ["entry"])


def test_listings() -> None:
    assert "add:" in assembly(ADD, host_machine())
    text = "define i64 @f(i64 %a) {\n %s = alloca i64\n store i64 %a, ptr %s\n %b = load i64, ptr %s\n ret i64 %b\n}\n"
    assert "alloca" not in optimised_ir(text, host_machine())


CALLING = """
define internal i64 @more(i64 %a) {
  %b = add i64 %a, 1
  ret i64 %b
}
define i64 @f(i64 %a) {
  %b = call i64 @more(i64 %a)
  %c = call i64 @more(i64 %b)
  ret i64 %c
}
"""


@pytest.mark.parametrize("between", [False, True])
def test_functions_become_parts_of_others_where_that_is_asked_for(between: bool) -> None:
    options = CompileOptions(between_functions=between)
    assert optimised_ir(CALLING, host_machine(), options).count("call i64 @more") == (0 if between else 2)
    loaded = load_object(compile_object(CALLING, host_machine(), options), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded["f"])(5) == 7


def test_what_was_compiled_before_changes_nothing() -> None:
    native._idle_machines.clear()
    first = compile_object(long_text(40, 10), host_machine())
    compile_object(CALLING, host_machine(), CompileOptions(between_functions=True))
    assert compile_object(long_text(40, 10), host_machine()) == first


def test_threads_compile_side_by_side() -> None:
    """To the same bytes; and a fork waits until none does, but for the thread that forks."""
    texts = [long_text(100 + n, 10) for n in range(4)]
    expected = [compile_object(text, host_machine()) for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        assert list(pool.map(lambda text: compile_object(text, host_machine()), texts * 4)) == expected * 4
        lock, begun, left = native._llvm_lock, threading.Event(), threading.Event()

        def compile_slowly() -> None:
            with lock.compiling():
                begun.set()
                time.sleep(0.05)
                left.set()

        compilation = pool.submit(compile_slowly)
        assert begun.wait(60)
        with lock.compiling():
            lock.acquire()
        assert left.is_set()
        lock.release()
        compilation.result()


def long_text(steps: int, block: int, attribute: str = "") -> str:
    """``x = x * a + b`` so many times, and in memory what is added once more; a block has so many steps."""
    head = f"define float @f(float %a, float %b) {attribute} {{"
    lines = [head, "entry:", "  %s = alloca float", "  store float %b, ptr %s"]
    for n in range(steps):
        if n % block == 0:
            lines += [f"  br label %next{n}", f"next{n}:"]
        lines += [f"  %p{n} = fmul float %{f'x{n - 1}' if n else 'a'}, %a", f"  %l{n} = load float, ptr %s"]
        lines += [f"  %x{n} = fadd float %p{n}, %l{n}", f"  %unused{n} = fsub float %x{n}, %l{n}"]
    return "\n".join([*lines, f"  ret float %x{steps - 1}", "}"]) + "\n"


@pytest.mark.parametrize(
    ("steps", "block", "attribute", "few"),
    [
        (700, 700, "", True),
        (700, 10, "", True),
        (700, 1, "", False),
        (700, 1, STRAIGHT, False),
        (20, 20, "", False),
        (20, 20, STRAIGHT, True),
    ],
)
def test_long_straight_text_is_optimised_by_fewer_passes(
    steps: int, block: int, attribute: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same bits; short text if it says so."""
    shortened: list[object] = []
    add = native._add_straight_passes

    def added(passes: object, options: CompileOptions) -> None:
        shortened.append(passes)
        add(passes, options)

    monkeypatch.setattr(native, "_add_straight_passes", added)
    text = long_text(steps, block, attribute)
    loaded = load_object(compile_object(text, host_machine()), ["f"])
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_float)(loaded["f"])
    x = a = np.float32(0.9971)
    b = np.float32(0.013)
    for _ in range(steps):
        x = x * a + b
    assert function(a, b) == x
    assert len(shortened) == few
    optimised = optimised_ir(text, host_machine())
    assert "alloca" not in optimised
    assert "fsub" not in optimised


def test_floating_point_is_not_contracted() -> None:
    text = "define float @f(float %a, float %b) {\n %p = fmul float %a, %b\n %s = fadd float %p, %a\n ret float %s\n}\n"
    listing = assembly(text, host_machine()).replace("fmadd", "fma")
    assert "fma" not in listing
    assert "mul" in listing


def test_compiling_from_several_threads() -> None:
    def work(number: int) -> None:
        source = ADD.replace("%a, %b\n", f"%a, {number}\n")
        loaded = load_object(compile_object(source, host_machine()), ["add"])
        results[number] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded["add"])(100, 0)

    results: dict[int, int] = {}
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 100 + number for number in range(6)}
