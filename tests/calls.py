"""What the tests of functions share: devices that only record, and operands."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from properties import examples

import opendml as dml
from opendml.description.descriptors import Operator
from opendml.description.enums import ExecutionFlags
from opendml.description.operator_classes import operator_class
from opendml.operators import implemented
from opendml.programs.device import CheckedOperator, Flags

Array = np.ndarray[Any, Any]
bounded = examples(60)

# The functions are grouped as the operators are.
FAMILIES = sorted({operator_class(operator).__module__.rpartition(".")[2] for operator in implemented()})
FUNCTIONS = {
    name: function
    for family in FAMILIES
    for name, function in vars(importlib.import_module(f"opendml.functions.{family}")).items()
    if inspect.isfunction(function)
    and function.__module__ == f"opendml.functions.{family}"
    and "out" in inspect.signature(function).parameters
    and not name.startswith("_")
}


class Recorder(dml.Device):
    """A device that keeps the descriptors it compiles. Every one is a device of its own for the program cache."""

    numbers = itertools.count()

    def __init__(self, feature_level: str = "6_4", valid_only: bool = False) -> None:
        super().__init__("cpu", feature_level=feature_level)
        self.descs: list[Operator] = []
        self.valid_only = valid_only
        self.number = next(Recorder.numbers)

    @property
    def _key(self) -> tuple[object, ...]:
        return (*super()._key, self.number)

    def compile(
        self, operator: Operator | CheckedOperator, *, execution_flags: Flags = ExecutionFlags.NONE
    ) -> dml.Program:
        assert isinstance(operator, Operator)
        checked = self.create_operator(operator)
        self.descs.append(operator)
        if self.valid_only:
            raise ValidDescriptorError
        return super().compile(checked, execution_flags=execution_flags)


class ValidDescriptorError(Exception):
    """A descriptor was found valid; what remains is not compiled."""


def described(function: Callable[..., Any], *arguments: Any, level: str = "6_4", **options: Any) -> Any:
    """The valid descriptor that a call makes."""
    recorder = Recorder(level, valid_only=True)
    with pytest.raises(ValidDescriptorError):
        function(*arguments, device=recorder, **options)
    return recorder.descs[0]


def numbers(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    values = generator.integers(-9, 10, shape) if dtype[0] != "u" else generator.integers(0, 20, shape)
    return values.astype(dtype)
