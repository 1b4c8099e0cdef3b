"""Native functions that run a compiled function on NumPy's arrays: one foreign call finds the arrays' memory and runs.

Of a call from Python, most is Python: asking arrays for their addresses, filling in a table. These functions
take the arrays themselves, as objects, and read where their elements are, which NumPy's binary interface fixes as the
first field behind an object's head. They build the table of a dispatch on their own stack, so that any number of
threads may use one at a time.

All take the address of words of 64 bits (``words``), then the inputs, then the output. They give -1 and run nothing
where an array is not aligned as the words say, or the output overlaps an input:

    call_new(words, *inputs, buffer)    # to the first multiple of ALIGNMENT in a buffer of bytes; gives its offset
    call_into(words, *inputs, output)   # to the memory of an array; gives 0
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opendml.llvm.host import Machine
from opendml.llvm.native import CompileOptions, load_object
from opendml.llvm.object_cache import get_or_compile
from opendml.targets.cpu.runtime.thread_team import CALL_WORDS

MAXIMUM_INPUTS: Final = 8

ALIGNMENT: Final = 64


class Words(NamedTuple):
    """What a call takes beside its arrays. ``masks``: bits of an address that must be 0, the output's last. ``sizes``:
    bytes from the first element to behind the last one, likewise. ``in_place``: 1 for inputs that may be the output."""

    team_call: int
    team: int
    entry: int
    thread_count: int
    data_offset: int
    masks: Sequence[int]
    sizes: Sequence[int]
    in_place: Sequence[int]

    def pack(self) -> Any:
        """As memory."""
        head = (self.team_call, self.team, self.entry, self.thread_count, self.data_offset)
        words = (*head, *self.masks, *self.sizes, *self.in_place)
        return (ctypes.c_int64 * len(words))(*words)


_HEAD: Final = 5


@functools.cache
def data_offset() -> int | None:
    """Where in an array's object the address of its elements is; None where that is not as expected."""
    if sys.implementation.name != "cpython":
        return None
    offset = object.__basicsize__
    for array in (np.zeros(3), np.zeros((2, 5), np.uint8)[1:, 3:]):
        if array.__sizeof__() < offset + ctypes.sizeof(ctypes.c_void_p):
            return None
        address = ctypes.c_void_p.from_address(id(array) + offset).value
        if address != array.__array_interface__["data"][0]:
            return None
    return offset


class ArrayCalls(NamedTuple):
    """The functions, by the number of inputs."""

    new: tuple[Callable[..., int], ...]
    into: tuple[Callable[..., int], ...]


@functools.cache
def array_calls(host: Machine) -> ArrayCalls:
    """The functions for this process."""
    counts = range(MAXIMUM_INPUTS + 1)
    data, _ = get_or_compile(calls_ir(), host, CompileOptions(speed_level=1, codegen_level=1))
    code = load_object(data, [f"call_{kind}_{count}" for kind in ("new", "into") for count in counts], host)
    code.keep_until_exit()

    def functions(kind: str) -> tuple[Callable[..., int], ...]:
        return tuple(
            ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.py_object] * (count + 1))(
                code[f"call_{kind}_{count}"]
            )
            for count in counts
        )

    return ArrayCalls(functions("new"), functions("into"))


def calls_ir() -> str:
    """LLVM text of the functions."""
    return "\n".join(_call(count, into) for into in (False, True) for count in range(MAXIMUM_INPUTS + 1))


def _call(count: int, into: bool) -> str:
    """One of the functions, for a number of inputs."""
    arrays = [*(f"%input{i}" for i in range(count)), "%output"]
    lines = ["%offset_word = getelementptr i64, ptr %words, i64 4", "%offset = load i64, ptr %offset_word, align 8"]
    for i, array in enumerate(arrays):
        lines += [
            f"%place{i} = getelementptr i8, ptr {array}, i64 %offset",
            f"%data{i} = load ptr, ptr %place{i}, align 8",
            f"%address{i} = ptrtoint ptr %data{i} to i64",
        ]
    lines += ["%wrong0 = add i64 0, 0"]
    checked = len(arrays) if into else count
    for i in range(checked):
        lines += [
            *_word(f"mask{i}", _HEAD + i),
            f"%low{i} = and i64 %address{i}, %mask{i}",
            f"%wrong{i + 1} = or i64 %wrong{i}, %low{i}",
        ]
    wrong = f"%wrong{checked}"
    if into:
        overlap, wrong = _overlaps(count, wrong)
        lines += overlap
    lines += [f"%refused = icmp ne i64 {wrong}, 0", "br i1 %refused, label %refuse, label %run"]
    lines += ["refuse:", "ret i64 -1", "run:"]
    if into:
        lines += ["%start = add i64 0, 0"]
    else:
        lines += [f"%negated = sub i64 0, %address{count}", f"%start = and i64 %negated, {ALIGNMENT - 1}"]
    lines += [f"%target = getelementptr i8, ptr %data{count}, i64 %start", *_dispatch(count), "ret i64 %start"]
    parameters = ", ".join(f"ptr {array}" for array in arrays)
    kind = "into" if into else "new"
    body = "\n".join(line if line.endswith(":") else f"  {line}" for line in lines)
    return f"define i64 @call_{kind}_{count}(ptr %words, {parameters}) nounwind {{\nstart_of_call:\n{body}\n}}\n"


def _word(name: str, number: int) -> list[str]:
    place = f"%{name}_word"
    return [f"{place} = getelementptr i64, ptr %words, i64 {number}", f"%{name} = load i64, ptr {place}, align 8"]


def _overlaps(count: int, wrong: str) -> tuple[list[str], str]:
    """Whether the output shares memory with an input that it may not be exactly; adds to ``wrong``."""
    sizes, in_place = _HEAD + count + 1, _HEAD + 2 * (count + 1)
    lines = [*_word("size_out", sizes + count), f"%end_out = add i64 %address{count}, %size_out"]
    for i in range(count):
        lines += [
            *_word(f"size{i}", sizes + i),
            *_word(f"same{i}", in_place + i),
            f"%end{i} = add i64 %address{i}, %size{i}",
            f"%before{i} = icmp ult i64 %address{i}, %end_out",
            f"%behind{i} = icmp ult i64 %address{count}, %end{i}",
            f"%shares{i} = and i1 %before{i}, %behind{i}",
            f"%equal{i} = icmp eq i64 %address{i}, %address{count}",
            f"%allowed{i} = icmp ne i64 %same{i}, 0",
            f"%exact{i} = and i1 %equal{i}, %allowed{i}",
            f"%other{i} = xor i1 %exact{i}, true",
            f"%bad{i} = and i1 %shares{i}, %other{i}",
            f"%bad_word{i} = zext i1 %bad{i} to i64",
            f"%overlapping{i} = or i64 {wrong}, %bad_word{i}",
        ]
        wrong = f"%overlapping{i}"
    return lines, wrong


def _dispatch(count: int) -> list[str]:
    """The team's call, with a table on the stack: CALL_WORDS words, then the arguments."""
    lines = [f"%table = alloca [{CALL_WORDS + count + 1} x ptr], align 16"]
    for number, name in ((1, "team"), (2, "entry"), (3, "threads")):
        lines += _word(name, number)
    lines += [*_word("team_call", 0), "%function = inttoptr i64 %team_call to ptr"]
    lines += [
        f"%arguments = getelementptr ptr, ptr %table, i64 {CALL_WORDS}",
        "%arguments_word = ptrtoint ptr %arguments to i64",
    ]
    for number, value in enumerate(("%team", "%entry", "%arguments_word", "%threads")):
        lines += [
            f"%slot{number} = getelementptr i64, ptr %table, i64 {number}",
            f"store i64 {value}, ptr %slot{number}, align 8",
        ]
    for i in range(count + 1):
        data = f"%data{i}" if i < count else "%target"
        lines += [
            f"%argument{i} = getelementptr ptr, ptr %table, i64 {CALL_WORDS + i}",
            f"store ptr {data}, ptr %argument{i}, align 8",
        ]
    return [*lines, "call void %function(ptr %table)"]
