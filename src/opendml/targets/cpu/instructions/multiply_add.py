"""A product that is added to where the sum is: x86's VFMADD231PS, of the registers that AVX2 has.

LLVM chooses among the forms of this instruction, of which others leave the result where a factor was. In loops it has
each sum come back to where it was; in steps that follow one another without a loop it moves sums around and, where it
has no register left, through memory.
"""

from __future__ import annotations

from typing import Final

from opendml.expression.element_types import F32
from opendml.expression.fused import fused_multiply_add
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.instructions import Instruction


def _write(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    text = f'call {c.llvm_type} asm "vfmadd231ps $2, $1, $0", "=x,x,x,0"({a.typed}, {b.typed}, {c.typed})'
    return c._replace(text=builder.assign(text))


MULTIPLY_ADD: Final = Instruction("vfmadd231ps", "multiply-add", F32, 8, ("avx2", "fma"), fused_multiply_add, _write)
