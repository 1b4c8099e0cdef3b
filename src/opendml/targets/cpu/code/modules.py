"""Functions into modules: one, or where there is much text several, which may be compiled at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opendml.targets.cpu.target import CpuTarget


def modules_of(
    entry: str,
    globals: Sequence[str],
    functions: Mapping[str, str],
    declarations: Iterable[str],
    support: str,
    target: CpuTarget,
) -> tuple[str, ...]:
    """The text of the modules, first the one with the entry and the ``globals``. ``functions``: texts without their
    names, to the names. ``declarations`` stand in all modules, and ``support`` in those that need it."""
    frame = _Frame(sorted(declarations), support, target)
    groups = _groups(functions, target.tuning.module_size)
    if len(groups) < 2:
        defined = [f"define internal void @{name}{text}" for text, name in functions.items()]
        return (frame.module([*globals, *defined, entry]),)
    declared = [f"declare void @{name}{_parameter_types(text)}" for text, name in functions.items()]
    kernels = ([f"define void @{functions[text]}{text}" for text in group] for group in groups)
    return (frame.module([*globals, *declared, entry]), *map(frame.module, kernels))


class _Frame:
    """What stands around the functions of every module."""

    def __init__(self, declarations: Sequence[str], support: str, target: CpuTarget) -> None:
        width = target.machine.vector_bytes * 8
        vectors = f'"min-legal-vector-width"="{width}" "prefer-vector-width"="{width}"'
        self._declarations = declarations
        self._support = support
        self._attributes = f"attributes #0 = {{ nounwind {vectors} }}"

    def module(self, parts: Sequence[str]) -> str:
        """The text of one."""
        parts = [*self._declarations, *parts, self._attributes]
        needs_support = any(name in part for part in parts for name in ("@barrier_wait", "@go_on", "half"))
        return "\n\n".join([*([self._support] if needs_support else []), *parts, _METADATA]) + "\n"


def _groups(functions: Iterable[str], size: int) -> list[list[str]]:
    """The texts of kernels, in groups of about ``size`` characters."""
    groups: list[list[str]] = []
    room = 0
    for text in functions:
        if room <= 0:
            groups.append([])
            room = size
        groups[-1].append(text)
        room -= len(text)
    return groups


def _parameter_types(function: str) -> str:
    """``(ptr noalias %p0, i64 %thread) noinline #0 {`` as what a declaration has: ``(ptr noalias, i64)``."""
    return re.sub(r" %\w+", "", function[: function.index(")") + 1])


_METADATA: Final = """\
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}"""
