"""LLVM text for other processors, compiled in processes of their own."""

from __future__ import annotations

import pytest

from opendml.description.errors import CodeGenerationError
from opendml.llvm.foreign import compile_foreign

SPIRV = "spirv64-unknown-unknown"
KERNEL = """
define spir_kernel void @{name}(ptr addrspace(1) %p) {{
entry:
  store i32 {value}, ptr addrspace(1) %p, align 4
  ret void
}}
"""
ABORTS = """
define spir_kernel void @k(ptr addrspace(1) %p) {
entry:
  %x = load i128, ptr addrspace(1) %p, align 16
  %y = mul i128 %x, %x
  store i128 %y, ptr addrspace(1) %p, align 16
  ret void
}
"""
"""SPIR-V has no integers of 128 bits."""


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "0")


def compiled(*modules: str) -> list[bytes]:
    return compile_foreign(modules, SPIRV)[0]


def test_what_was_compiled_before_makes_no_difference() -> None:
    modules = [KERNEL.format(name=f"k{number}", value=number) for number in range(3)]
    first = [compiled(module)[0] for module in modules]
    assert len(set(first)) == 3
    assert compiled(*modules) == first
    assert compiled(*reversed(modules)) == first[::-1]


def test_a_comment_in_the_first_line_stays_with_the_object() -> None:
    module = KERNEL.format(name="k", value=1)
    (plain,), (told,) = compiled(module), compiled(f"; what to do\n{module}")
    assert told == b"; what to do\n" + plain


def test_text_that_does_not_parse_is_refused_in_llvms_words() -> None:
    with pytest.raises(CodeGenerationError, match="expected"):
        compiled("define nonsense")
    assert compiled(KERNEL.format(name="k", value=1))


def test_an_abort_is_an_error_and_no_end() -> None:
    with pytest.raises(CodeGenerationError, match=r"LLVM ended with status -?[0-9]+ on the generated code for spirv64"):
        compiled(ABORTS)
    assert compiled(KERNEL.format(name="k", value=1))


def test_objects_come_from_the_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "1")
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path))
    modules = [KERNEL.format(name="k", value=7)]
    progress: list[float] = []
    made, from_cache = compile_foreign(modules, SPIRV, progress=progress.append)
    assert (from_cache, progress) == (False, [1.0])
    assert compile_foreign(modules, SPIRV, progress=progress.append) == (made, True)
    assert progress == [1.0]
    other, from_cache = compile_foreign(modules, SPIRV, assembly=True)
    assert not from_cache and other != made
