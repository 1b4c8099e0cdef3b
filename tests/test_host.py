"""What is known of this machine, and what its environment says of it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from opendml.description.errors import ConfigurationError
from opendml.llvm.host import default_thread_count, host_machine, machine_of, usable_processors
from opendml.llvm.native import (
    assembly,
)

X86 = pytest.mark.skipif(not host_machine().triple.startswith("x86_64"), reason="x86-64 only")


def test_host_machine_describes_the_processor() -> None:
    host = host_machine()
    assert host == host_machine()
    assert hash(host) == hash(host_machine())
    assert host.vector_bytes in (16, 32, 64)
    assert pickle.loads(pickle.dumps(host)) == host
    assert host.masks_vectors == (host.vector_bytes == 64)
    assert (host.vector_bytes == 64) == all(
        f"+avx512{part}," in host.llvm_features + "," for part in ("f", "bw", "vl", "dq")
    )


@X86
@pytest.mark.parametrize(("level", "width", "register"), [("avx2", 32, "ymm"), ("baseline", 16, "xmm")])
def test_a_level_limits_the_instructions(
    monkeypatch: pytest.MonkeyPatch, level: str, width: int, register: str
) -> None:
    if host_machine().vector_bytes < width:
        pytest.skip("the processor lacks the level")
    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    host = host_machine()
    assert (host.vector_bytes, host.converts_float16) == (width, level == "avx2")
    assert (host.has("avx2", "fma"), host.has("avx512f"), host.has()) == (level == "avx2", False, True)
    text = "define void @f(ptr %p, ptr %q) {\n %v = load <16 x float>, ptr %p\n %w = fadd <16 x float> %v, %v\n"
    listing = assembly(text + " store <16 x float> %w, ptr %q\n ret void\n}\n", host)
    assert register in listing
    assert "zmm" not in listing


def test_a_level_with_an_instruction_set_besides() -> None:
    """Processors since Alder Lake have AVX-VNNI and no AVX-512: LLVM is told, and takes the form with a VEX prefix."""
    plain, newer = (machine_of("x86_64-unknown-linux-gnu", level) for level in ("avx2", "avx2,avxvnni"))
    assert set(newer.features) - set(plain.features) == {"avxvnni"}
    assert (plain.llvm_features, newer.llvm_features) == ("", "+avxvnni")
    assert replace(newer, features=plain.features, llvm_features="") == plain
    words, name = "<8 x i32>", "@llvm.x86.avx512.vpdpbusd.256"
    text = f"define {words} @f({words} %a, {words} %b, {words} %c) {{\n"
    text += f" %d = call {words} {name}({words} %c, {words} %a, {words} %b)\n ret {words} %d\n}}\n"
    text += f"declare {words} {name}({words}, {words}, {words})\n"
    listing = assembly(text, newer)
    assert "{vex}" in listing and "vpdpbusd" in listing


@pytest.mark.parametrize(
    "level", ["avx2,avx512vnni", "avx2,avxvnni,avxvnni", "baseline,avxvnni", "avx2,", "native,avxvnni"]
)
def test_instruction_sets_that_a_level_does_not_know_are_refused(level: str) -> None:
    with pytest.raises(ConfigurationError, match="avx2 \\(with ,avxvnni\\)"):
        machine_of("x86_64-unknown-linux-gnu", level)


def test_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CPU_FEATURES", "mmx")
    with pytest.raises(ConfigurationError, match="OPENDML_CPU_FEATURES='mmx': expected one of native"):
        host_machine()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1e9", "99999999999999999999", "٣"])
def test_thread_count_of_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OPENDML_NUM_THREADS", text)
    with pytest.raises(ConfigurationError, match="OPENDML_NUM_THREADS"):
        default_thread_count()


def test_default_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_NUM_THREADS", "3")
    assert default_thread_count() == 3
    monkeypatch.delenv("OPENDML_NUM_THREADS")
    assert 1 <= default_thread_count() <= usable_processors()
