"""Native functions that run a compiled function on NumPy's arrays, called by the interpreter without any conversion.

Of a call from Python, most is Python: asking arrays for their addresses, filling in a table, and the conversions of
a foreign call, which alone take a microsecond. These functions are the interpreter's own kind (``METH_FASTCALL``). They
take the arrays themselves, as objects, and read where their elements are, which NumPy's binary interface fixes as the
first field behind an object's head. They build the table of a dispatch on their own stack, so that any number of
threads may use one at a time.

What a function is made for stands in an array of words of 64 bits, its ``self`` (``Words``). It takes the inputs, then
the output, and gives -1 and runs nothing where an array is not aligned as the words say, or the output overlaps an
input:

    call_new(*inputs, buffer)     # to the first multiple of ALIGNMENT in a buffer of bytes; gives its offset
    call_into(*inputs, output)    # to the memory of an array; gives 0
    call_bound()                  # on a table that its words name; gives 0
    call_table(*arrays)           # on a copy of a table, where each array has a place; gives 0, and looks at no address

They know nothing of their arguments' types: the caller has looked.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from opendml.llvm.compiled_objects import get_or_compile
from opendml.llvm.host import host_machine
from opendml.llvm.native import CompileOptions, load_object
from opendml.loops.alignment import ALIGNMENT
from opendml.targets.cpu.runtime.thread_team import CALL_WORDS, ThreadTeam

MAXIMUM_INPUTS: Final = 8

PythonFunction = Callable[..., int]


class Words(NamedTuple):
    """What a function is made for. ``masks``: bits of an address that must be 0, the output's last. ``sizes``: bytes
    from the first element to behind the last one, likewise. ``in_place``: 1 for inputs that may be the output."""

    team_call: int
    team: int
    entry: int
    asked: int
    masks: Sequence[int]
    sizes: Sequence[int]
    in_place: Sequence[int]

    def pack(self) -> np.ndarray[Any, Any]:
        """As an array, behind what the functions call in Python."""
        head = (self.team_call, self.team, self.entry, self.asked)
        words = (*_python_functions(), *head, *self.masks, *self.sizes, *self.in_place)
        return np.array(words, np.uint64)


_MAKE_INTEGER, _ERROR, _TEAM_CALL, _TEAM, _ENTRY, _ASKED, _HEAD = range(7)
"""Numbers of the words; from the last on, masks, sizes and in_place."""


@functools.cache
def _python_functions() -> tuple[int, ...]:
    names = "PyLong_FromLongLong", "PyErr_Occurred"
    return tuple(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names)


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


class _MethodDefinition(ctypes.Structure):
    """Python's PyMethodDef, of its stable interface."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    ]


_METH_FASTCALL: Final = 0x80
_METH_NOARGS: Final = 0x04


class ArrayCalls(NamedTuple):
    """What functions are made of, by the number of inputs."""

    new: tuple[_MethodDefinition, ...]
    into: tuple[_MethodDefinition, ...]


def array_call(words: Words, *, into: bool) -> PythonFunction:
    """A function for what the words say. It is good as long as the team and the entry are."""
    calls = _array_calls()
    return _function_of((calls.into if into else calls.new)[len(words.masks) - 1], words.pack())


def bound_call(team: ThreadTeam, table: int) -> Callable[[], object] | None:
    """A function that does what ``team.call_function(table)`` does; None where there is none. It is good as long as the
    table is."""
    if data_offset() is None:
        return None
    return _function_of(_bound_call(), np.array((*_python_functions(), team.call_address, table), np.uint64))


def table_call(head: Sequence[int], addresses: Sequence[int], places: Sequence[int]) -> PythonFunction:
    """A function of arrays that runs on ``addresses`` with those of the arrays at their places.

    ``head``: the address of the team's call, the team, the entry and the number of threads. It is good as long as these
    are, and what lies at the addresses.
    """
    words = (*_python_functions(), *head, len(places), len(addresses), *addresses, *places)
    return _function_of(_table_call(), np.array(words, np.uint64))


def _function_of(definition: _MethodDefinition, words: np.ndarray[Any, Any]) -> PythonFunction:
    function: PythonFunction = _new_function(ctypes.addressof(definition), words, None)
    return function


_new_function: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


@functools.cache
def _array_calls() -> ArrayCalls:
    counts = range(MAXIMUM_INPUTS + 1)
    new, into = ([f"call_{kind}_{count}" for count in counts] for kind in ("new", "into"))
    definitions = _definitions(calls_ir(_offset()), [*new, *into], _METH_FASTCALL)
    return ArrayCalls(definitions[: len(new)], definitions[len(new) :])


@functools.cache
def _bound_call() -> _MethodDefinition:
    return _definitions(bound_call_ir(_offset()), ["call_bound"], _METH_NOARGS)[0]


@functools.cache
def _table_call() -> _MethodDefinition:
    return _definitions(table_call_ir(_offset()), ["call_table"], _METH_FASTCALL)[0]


def _definitions(llvm_ir: str, names: Sequence[str], flags: int) -> tuple[_MethodDefinition, ...]:
    """Functions of this process, which stay for ever: Python's functions refer to their definitions, and of two threads
    that make them at once only one's are remembered by a cache."""
    host = host_machine()
    data, _ = get_or_compile(llvm_ir, host, CompileOptions(codegen_level=1, between_functions=True))
    code = load_object(data, names, host)
    code.keep_until_exit()
    definitions = tuple(_MethodDefinition(name.encode(), code[name], flags, None) for name in names)
    _KEPT.append(definitions)
    return definitions


_KEPT: Final[list[tuple[_MethodDefinition, ...]]] = []


def _offset() -> int:
    offset = data_offset()
    assert offset is not None
    return offset


def calls_ir(offset: int) -> str:
    """LLVM text of the functions; ``offset``: that of the elements' address in an array's object."""
    return "\n".join(_call(count, into, offset) for into in (False, True) for count in range(MAXIMUM_INPUTS + 1))


def bound_call_ir(offset: int) -> str:
    """LLVM text of the function for bound tensors: the table's address stands where others have the team's."""
    lines = [*_data("words", "%self", offset), *_function("function", _TEAM_CALL), *_word("table", _TEAM)]
    lines += ["%table_place = inttoptr i64 %table to ptr", "call void %function(ptr %table_place)"]
    lines += [*_raised(), "give:", *_given("0")]
    return _native("call_bound(ptr %self, ptr %nothing)", lines)


def table_call_ir(offset: int) -> str:
    """LLVM text of the function for a copy of a table: two loops, as tables and calls may be of any length."""
    counts, first = _HEAD, _HEAD + 2
    lines = [*_data("words", "%self", offset), *_word("expected", counts), *_word("length", counts + 1)]
    lines += [
        "%wrong_count = icmp ne i64 %count, %expected",
        "br i1 %wrong_count, label %refuse, label %begin",
        "begin:",
    ]
    lines += [f"%size = add i64 %length, {CALL_WORDS}", "%table = alloca i64, i64 %size, align 16"]
    for number, word in enumerate((_TEAM, _ENTRY, None, _ASKED)):
        slot = f"%slot{number}"
        lines += [f"{slot} = getelementptr i64, ptr %table, i64 {number}"]
        if word is not None:
            lines += [*_word(f"head{number}", word), f"store i64 %head{number}, ptr {slot}, align 8"]
    lines += [f"%arguments = getelementptr i64, ptr %table, i64 {CALL_WORDS}", "store ptr %arguments, ptr %slot2"]
    lines += _loop(
        "copy",
        "%length",
        "begin",
        [
            f"%source_number = add i64 %copy, {first}",
            "%source = getelementptr i64, ptr %words, i64 %source_number",
            "%copied = load i64, ptr %source, align 8",
            "%copy_place = getelementptr i64, ptr %arguments, i64 %copy",
            "store i64 %copied, ptr %copy_place, align 8",
        ],
    )
    lines += _loop(
        "fill",
        "%count",
        "copy_end",
        [
            f"%after = add i64 %length, {first}",
            "%place_number = add i64 %after, %fill",
            "%place_word = getelementptr i64, ptr %words, i64 %place_number",
            "%place = load i64, ptr %place_word, align 8",
            "%argument_place = getelementptr ptr, ptr %given, i64 %fill",
            "%array = load ptr, ptr %argument_place, align 8",
            *_data("data", "%array", offset),
            "%fill_place = getelementptr ptr, ptr %arguments, i64 %place",
            "store ptr %data, ptr %fill_place, align 8",
        ],
    )
    lines += [*_function("function", _TEAM_CALL), "call void %function(ptr %table)", *_raised()]
    lines += ["refuse:", "br label %give", "give:", "%result = phi i64 [ -1, %refuse ], [ 0, %fill_end ]"]
    return _native("call_table(ptr %self, ptr %given, i64 %count)", [*lines, *_given("%result")])


def _loop(name: str, count: str, before: str, body: Sequence[str]) -> list[str]:
    """A loop over ``%name`` below a count; it goes on at ``name_end``."""
    head = [f"br label %{name}_head", f"{name}_head:"]
    head += [f"%{name} = phi i64 [ 0, %{before} ], [ %{name}_next, %{name}_body ]"]
    head += [f"%{name}_goes = icmp ult i64 %{name}, {count}"]
    head += [f"br i1 %{name}_goes, label %{name}_body, label %{name}_end", f"{name}_body:"]
    return [*head, *body, f"%{name}_next = add i64 %{name}, 1", f"br label %{name}_head", f"{name}_end:"]


def _call(count: int, into: bool, offset: int) -> str:
    """One of the functions, for a number of inputs."""
    lines = [*_data("words", "%self", offset), f"%wrong_count = icmp ne i64 %count, {count + 1}"]
    lines += ["br i1 %wrong_count, label %refuse, label %look", "look:"]
    for i in range(count + 1):
        lines += [
            f"%argument_place{i} = getelementptr ptr, ptr %given, i64 {i}",
            f"%array{i} = load ptr, ptr %argument_place{i}, align 8",
            *_data(f"data{i}", f"%array{i}", offset),
            f"%address{i} = ptrtoint ptr %data{i} to i64",
        ]
    lines += ["%wrong0 = add i64 0, 0"]
    checked = count + 1 if into else count
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
    lines += [f"%refused = icmp ne i64 {wrong}, 0", "br i1 %refused, label %refuse, label %run", "run:"]
    if into:
        lines += ["%start = add i64 0, 0"]
    else:
        lines += [f"%negated = sub i64 0, %address{count}", f"%start = and i64 %negated, {ALIGNMENT - 1}"]
    lines += [f"%target = getelementptr i8, ptr %data{count}, i64 %start", *_dispatch(count)]
    lines += [*_raised(), "refuse:", "br label %give", "give:"]
    lines += ["%result = phi i64 [ -1, %refuse ], [ %start, %run ]", *_given("%result")]
    kind = "into" if into else "new"
    return _native(f"call_{kind}_{count}(ptr %self, ptr %given, i64 %count)", lines)


def _raised() -> list[str]:
    """What a signal's handler has raised meanwhile comes out of the call."""
    lines = [*_function("error", _ERROR), "%raised = call ptr %error()", "%is_raised = icmp ne ptr %raised, null"]
    return [*lines, "br i1 %is_raised, label %raise, label %give", "raise:", "ret ptr null"]


def _given(value: str) -> list[str]:
    """An integer of Python."""
    return [*_function("make", _MAKE_INTEGER), f"%integer = call ptr %make(i64 {value})", "ret ptr %integer"]


def _native(signature: str, lines: Sequence[str]) -> str:
    body = "\n".join(line if line.endswith(":") else f"  {line}" for line in lines)
    return f"define ptr @{signature} {{\nstart_of_call:\n{body}\n}}\n"


def _data(name: str, array: str, offset: int) -> list[str]:
    """The address of an array's elements."""
    return [
        f"%{name}_place = getelementptr i8, ptr {array}, i64 {offset}",
        f"%{name} = load ptr, ptr %{name}_place, align 8",
    ]


def _function(name: str, number: int) -> list[str]:
    return [*_word(f"{name}_address", number), f"%{name} = inttoptr i64 %{name}_address to ptr"]


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
    for number, name in ((_TEAM, "team"), (_ENTRY, "entry"), (_ASKED, "threads")):
        lines += _word(name, number)
    lines += _function("function", _TEAM_CALL)
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
