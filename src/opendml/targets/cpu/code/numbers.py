"""Whether values are numbers, all of them: asked in few instructions, for code with another way where they are not."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from opendml.expression.element_types import BOOL
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value


class Numbers:
    """Elements of a fold of extremes that is written as if all were numbers, and whether they are.

    Two values, a register of each, are asked by one comparison as soon as both are there, and answers are joined as in
    a tree, those of as many: few of them wait in registers, and LLVM takes lanes of registers from few steps of a chain
    only.
    """

    def __init__(self, builder: Builder, comparison: str, initial: Iterable[str], register_bits: int) -> None:
        self.comparison = comparison
        self.initial = frozenset(initial)
        self._builder = builder
        self._register_bits = register_bits
        self._seen = set[str]()
        self._waiting: dict[int, Value] = {}
        self._answers: dict[tuple[int, int], Value] = {}

    def see(self, value: Value) -> None:
        """An element, which may have been seen before."""
        if value.text in self._seen:
            return
        self._seen.add(value.text)
        before = self._waiting.pop(value.lanes, None)
        if before is None:
            self._waiting[value.lanes] = value
        else:
            self._ask(before, value)

    def _ask(self, a: Value, b: Value) -> None:
        size = min(a.lanes, self._register_bits // a.type.bits)
        for at in range(0, a.lanes, size):
            left, right = (self._builder.shuffle(v, None, range(at, at + size)) for v in (a, b))
            text = self._builder.assign(f"fcmp uno {left.typed}, {right.text}")
            self._join(Value(text, BOOL, size), 1)

    def _join(self, answer: Value, count: int) -> None:
        while (before := self._answers.pop((answer.lanes, count), None)) is not None:
            answer, count = self._builder.binary("or", before, answer), 2 * count
        self._answers[answer.lanes, count] = answer

    def has_nan(self, is_sure: bool) -> Value:
        """Whether one of the elements is NaN. ``is_sure``: lanes that are undefined are none of theirs."""
        for value in list(self._waiting.values()):
            self._ask(value, value)
        self._waiting.clear()
        asked = functools.reduce(functools.partial(self._builder.binary, "or"), self._answers.values())
        if not is_sure:
            asked = asked._replace(text=self._builder.assign(f"freeze {asked.typed}"))
        return self._builder.any_lane(asked)
