"""How kernels are written for one family of devices: the few lines of LLVM IR in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Dialect:
    """``triple`` and ``kernel``, the calling convention of what the host starts; ``position``: instructions that define
    ``%position``, the thread's number among all, an i64; ``declarations`` of what they call."""

    triple: str
    kernel: str
    position: tuple[str, ...]
    declarations: tuple[str, ...]


SPIRV: Final = Dialect(
    triple="spirv64-unknown-unknown",
    kernel="spir_kernel",
    position=("%position = call i64 @_Z13get_global_idj(i32 0)",),
    declarations=("declare i64 @_Z13get_global_idj(i32)",),
)

PTX: Final = Dialect(
    triple="nvptx64-nvidia-cuda",
    kernel="ptx_kernel",
    position=(
        "%block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        "%block_size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()",
        "%thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        "%block64 = zext i32 %block to i64",
        "%block_size64 = zext i32 %block_size to i64",
        "%thread64 = zext i32 %thread to i64",
        "%first = mul i64 %block64, %block_size64",
        "%position = add i64 %first, %thread64",
    ),
    declarations=(
        "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        "declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()",
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    ),
)
