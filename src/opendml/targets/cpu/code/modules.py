"""Functions into modules: one, or where there is much text several, which may be compiled at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from opendml.targets.cpu.target import CpuTarget

Begin = Callable[[str], None]
"""Told of a module that is written, while others are not."""


class _Function(NamedTuple):
    """A kernel's: its name, its text from the parameters on, and what it declares."""

    name: str
    text: str
    declarations: frozenset[str]


class Support(NamedTuple):
    """What programs have beside their own functions: the text of ``conversions`` of float16, which those modules begin
    with that need it, and of the module that is ``shared`` by all programs, with the declarations of what that has, by
    names."""

    conversions: str
    shared: str
    declarations: Mapping[str, str]


class ModuleWriter:
    """Takes functions one by one. ``begin`` is given the modules of functions as they become full, where there are
    several."""

    def __init__(self, support: Support, target: CpuTarget, begin: Begin | None = None) -> None:
        self._frame = _Frame(support, target)
        self._shared = support.shared
        self._largest = target.tuning.module_size
        self._begin = begin
        self._functions: list[_Function] = []
        self._group: list[_Function] = []  # those of the module that is not full yet, or of which none has followed
        self._size = self._room = min(target.tuning.first_module_size, self._largest)
        self._full: list[str] = []

    def add(self, name: str, text: str, declarations: frozenset[str]) -> None:
        """One more function. Only with the one behind it is a module full: all in one are a module with the entry."""
        if self._room <= 0:
            self._end_group()
        function = _Function(name, text, declarations)
        self._functions.append(function)
        self._group.append(function)
        self._room -= len(text)

    def modules(self, entry: str, globals: Sequence[str]) -> tuple[str, ...]:
        """The text of all modules, first the one with the entry and the ``globals``, last what they share."""
        if not self._full:
            defined = [f"define internal void @{f.name}{f.text}" for f in self._functions]
            own = [self._frame.module(_declared(self._functions), [*globals, *defined, entry])]
        else:
            self._end_group()
            declared = [f"declare void @{f.name}{_parameter_types(f.text)}" for f in self._functions]
            own = [self._frame.module([], [*globals, *declared, entry]), *self._full]
        return (*own, *([self._shared] if self._frame.refers_to_shared else []))

    def _end_group(self) -> None:
        defined = [f"define void @{f.name}{f.text}" for f in self._group]
        module = self._frame.module(_declared(self._group), defined)
        self._full.append(module)
        self._size = min(2 * self._size, self._largest)
        self._group, self._room = [], self._size
        if self._begin is not None:
            self._begin(module)


def _declared(functions: Sequence[_Function]) -> list[str]:
    return sorted(frozenset().union(*(f.declarations for f in functions)))


class _Frame:
    """What stands around the functions of every module."""

    def __init__(self, support: Support, target: CpuTarget) -> None:
        width = target.machine.vector_bytes * 8
        vectors = f'"min-legal-vector-width"="{width}" "prefer-vector-width"="{width}"'
        self._support = support
        self.refers_to_shared = False
        self._attributes = f"attributes #0 = {{ nounwind {vectors} }}"
        self._metadata = _METADATA + _stack_alignment(target.machine.vector_bytes)

    def module(self, declarations: Sequence[str], definitions: Sequence[str]) -> str:
        """The text of one."""
        parts = [*declarations, *definitions, self._attributes]
        shared = [
            declaration
            for name, declaration in self._support.declarations.items()
            if any(name in part for part in parts)
        ]
        self.refers_to_shared = self.refers_to_shared or bool(shared)
        converts = self._support.conversions and any("half" in part for part in parts)
        before = [self._support.conversions] if converts else []
        return "\n\n".join([*before, *shared, *parts, self._metadata]) + "\n"


def _parameter_types(function: str) -> str:
    """``(ptr noalias %p0, i64 %thread) noinline #0 {`` as what a declaration has: ``(ptr noalias, i64)``."""
    return re.sub(r" %\w+", "", function[: function.index(")") + 1])


def _stack_alignment(vector_bytes: int) -> str:
    """That functions find the stack aligned to whole registers, which the entry sees to, itself `REALIGNED`.

    What LLVM spills would lie across lines otherwise, and for one thread in some even across pages, at many cycles
    each; where LLVM were to align the stack in each function, it would take a register from all of them.
    """
    if vector_bytes <= _ABI_STACK_ALIGNMENT:
        return ""
    flag = f'!{{i32 1, !"override-stack-alignment", i32 {vector_bytes}}}'
    return f"\n!3 = {flag}\n!llvm.module.flags = !{{!3}}"


REALIGNED: Final = '"stackrealign"'
"""An attribute of functions that others call than those of the modules here, with a stack as the platform aligns it."""

_ABI_STACK_ALIGNMENT: Final = 16
"""Bytes: what every platform's calls align the stack to."""

_METADATA: Final = """\
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}"""
