"""Object files are placed without LLVM where all in them is known, and do what LLVM's linker makes of them."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opendml.description.errors import CodeGenerationError
from opendml.llvm import native, processor_facts
from opendml.llvm.host import host_machine, machine_of
from opendml.llvm.native import LoadedObject, compile_object, load_object
from opendml.llvm.placement import PlacedCode, place
from opendml.llvm.processor_facts import ProcessorFacts

HOST = host_machine()
PLACED = pytest.mark.skipif(
    sys.platform != "linux" or HOST.architecture != "x86_64", reason="other objects are left to LLVM"
)

FIRST = """
@message = private constant [8 x i8] c"opendml\\00"
@counter = internal global i64 5
@shared = global i64 7
@functions = internal constant [2 x ptr] [ptr @length, ptr @twice]
declare i64 @strlen(ptr)
declare i64 @other(i64)
declare ptr @memset(ptr, i32, i64)
define linkonce_odr i64 @twice(i64 %x) {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @length(i64 %x) {
  %length = call i64 @strlen(ptr @message)
  ret i64 %length
}
define i64 @count() {
  %before = load i64, ptr @counter
  %after = add i64 %before, 1
  store i64 %after, ptr @counter
  ret i64 %after
}
define i64 @chosen(i64 %which, i64 %x) {
  %place = getelementptr ptr, ptr @functions, i64 %which
  %function = load ptr, ptr %place
  %result = call i64 %function(i64 %x)
  ret i64 %result
}
define i64 @far(i64 %x) {
  %result = call i64 @other(i64 %x)
  ret i64 %result
}
define ptr @address() {
  ret ptr @memset
}
"""

SECOND = """
@shared = external global i64
define linkonce_odr i64 @twice(i64 %x) {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @other(i64 %x) {
  %seven = load i64, ptr @shared
  %y = call i64 @twice(i64 %x)
  %z = add i64 %y, %seven
  ret i64 %z
}
"""

NAMES = ["length", "count", "chosen", "far", "address"]


def compiled(*texts: str) -> list[bytes]:
    return [compile_object(text, HOST) for text in texts]


def called(loaded: Any, name: str, *arguments: int) -> int:
    kinds = [ctypes.c_int64] * len(arguments)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(loaded[name])(*arguments))


def by_llvm(objects: list[bytes], names: list[str]) -> Any:
    return native._linked(objects, names, HOST)


@PLACED
@pytest.mark.parametrize("loader", [lambda objects, names: place(objects, names, HOST), by_llvm])
def test_objects_that_refer_to_one_another(loader: Callable[[list[bytes], list[str]], Any]) -> None:
    code = loader(compiled(FIRST, SECOND), NAMES)
    assert code is not None
    assert called(code, "length", 0) == 7
    assert [called(code, "count") for _ in range(3)] == [6, 7, 8]
    assert [called(code, "chosen", which, 21) for which in range(2)] == [7, 42]
    assert called(code, "far", 10) == 27
    assert called(code, "address") == ctypes.cast(ctypes.CDLL(None).memset, ctypes.c_void_p).value


@PLACED
def test_what_is_not_known_is_left_to_llvm() -> None:
    first, second = compiled(FIRST, SECOND)
    assert place([first], NAMES, HOST) is None  # nobody has other()
    assert place([first, second], ["nowhere"], HOST) is None
    assert place([first, second, second], NAMES, HOST) is None  # other() is defined twice
    assert place([b"not an object file"], [], HOST) is None
    assert place([b""], [], HOST) is None
    assert place([first, second], NAMES, machine_of("aarch64-unknown-linux-gnu", "baseline")) is None
    threads = "@x = thread_local global i64 1\ndefine ptr @f() {\n ret ptr @x\n}\n"
    assert place(compiled(threads), ["f"], HOST) is None
    for length in range(0, len(first), 64):
        with pytest.raises(CodeGenerationError):
            load_object(first[:length], ["count"])


@PLACED
def test_memory_is_given_back() -> None:
    text = "define i64 @f() {\n ret i64 1\n}\n"
    code = place(compiled(text), ["f"], HOST)
    assert isinstance(code, PlacedCode)
    start = f"{code['f'] & ~4095:x}-"
    kept = LoadedObject(place(compiled(text), ["f"], HOST), {})
    maps = Path("/proc/self/maps")
    rights = next(line for line in maps.read_text().splitlines() if line.startswith(start)).split()[1]
    assert rights == "r-xp"
    del code
    gc.collect()
    assert not any(line.startswith(start) for line in maps.read_text().splitlines())
    place_of_kept = f"{kept._tracker['f'] & ~4095:x}-"
    kept.keep_until_exit()
    del kept
    gc.collect()
    assert any(line.startswith(place_of_kept) for line in maps.read_text().splitlines())


# ---- what LLVM says of the processor


def test_facts_are_kept_for_this_start_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path))
    asked: list[ProcessorFacts] = []
    usual = processor_facts._asked

    def counted() -> ProcessorFacts:
        asked.append(usual())
        return asked[-1]

    monkeypatch.setattr(processor_facts, "_asked", counted)
    fresh = processor_facts.processor_facts.__wrapped__
    assert fresh() == fresh()
    has_boot = processor_facts._BOOT.exists()
    assert len(asked) == (1 if has_boot else 2)
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(processor_facts, "_BOOT", tmp_path / "boot")
    before = len(asked)
    assert fresh() == asked[0]
    assert len(asked) == before + 1
    monkeypatch.setattr(processor_facts, "_BOOT", tmp_path / "nothing")
    assert fresh() == asked[0]
    assert len(asked) == before + 2


QUIET = """
import sys
import numpy as np
import opendml as dml
graph = dml.Graph()
program = graph.compile(graph.input("float32", (3, 5)) + 1)
assert (program(np.ones((3, 5), "f")) == 2).all()
print(program.program.from_cache, "llvmlite.binding" in sys.modules)
"""


@PLACED
def test_code_from_the_cache_needs_no_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path))
    said = [
        subprocess.run([sys.executable, "-c", QUIET], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert said == [["False", "True"], ["True", "False"]]
