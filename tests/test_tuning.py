"""The knobs of the CPU: each in the class of one stage, and each is read."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path

import opendml
from opendml.targets.cpu.tuning import TUNING, Tuning

SOURCE = Path(opendml.__file__).parent


def attributes() -> set[str]:
    """Every name that the package reads of some value."""
    return {
        node.attr
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }


def test_a_knob_stands_in_the_class_of_one_stage() -> None:
    """Of two of one name the second would be silent."""
    stages = [stage for stage in Tuning.__mro__ if is_dataclass(stage)]
    counts = Counter(name for stage in stages for name in vars(stage).get("__annotations__", {}))
    assert {name for name, count in counts.items() if count > 1} == set()
    assert set(counts) == {knob.name for knob in fields(Tuning)}


def test_every_knob_is_read() -> None:
    read = attributes()
    values = {knob.name: getattr(TUNING, knob.name) for knob in fields(Tuning)}
    names = {part.name for value in values.values() if is_dataclass(value) for part in fields(value)} | set(values)
    assert names - read == set()
