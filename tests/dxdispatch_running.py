"""Reading and running DxDispatch models in tests, by a device of NumPy functions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import ModelFormatError
from opendml.description.validation import validate_or_raise
from opendml.formats.dxdispatch import Executor, Folders, Model, RunOptions, parse_model
from opendml.formats.dxdispatch.reports import TextReport
from opendml.programs.device import Device


class NumpyDevice:
    """A device that runs operators by NumPy functions of the flat arrays, so that models are tested by themselves."""

    def __init__(self, feature_level: str = "6_4") -> None:
        self.feature_level = feature_level
        self.calls: list[str] = []
        self.execution_flags: list[ExecutionFlags] = []

    def create_operator(self, desc: Any) -> Any:
        validate_or_raise(desc, self.feature_level)
        return desc

    def compile(self, desc: Any, *, execution_flags: ExecutionFlags) -> NumpyProgram:
        self.execution_flags.append(execution_flags)
        return NumpyProgram(desc, self.calls)


class NumpyProgram:
    def __init__(self, desc: Any, calls: list[str]) -> None:
        self.desc = desc
        self.calls = calls

    def bind(self, inputs: list[Any], outputs: list[Any]) -> NumpyCall:
        def elements(named: Any, arrays: list[Any]) -> list[Any]:
            return [
                None if array is None else np.lib.stride_tricks.as_strided(
                    array, tensor.sizes, [stride * array.itemsize for stride in tensor.effective_strides]
                )
                for (_, tensor), array in zip(named, arrays, strict=True)
            ]  # fmt: skip

        def run() -> None:
            self.calls.append(self.desc.type.name)
            values = FUNCTIONS[self.desc.type.name](self.desc, *elements(self.desc.inputs(), inputs))
            for target, value in zip(elements(self.desc.outputs(), outputs), values, strict=True):
                target[...] = value

        return NumpyCall(run)


@dataclass
class NumpyCall:
    """A bound call, which is as quick as it will ever be."""

    run: Callable[[], None]

    def __call__(self) -> None:
        self.run()

    def hasten(self) -> None:
        """Nothing to make."""


def _slice(desc: Any, x: Any) -> list[Any]:
    return [x[tuple(slice(o, o + s * t, t) for o, s, t in zip(desc.offsets, desc.sizes, desc.strides, strict=True))]]


FUNCTIONS: dict[str, Callable[..., list[Any]]] = {
    "ELEMENT_WISE_ADD": lambda desc, a, b: [a + b],
    "ELEMENT_WISE_CLIP": lambda desc, x: [np.clip(x, desc.min, desc.max)],
    "JOIN": lambda desc, *tensors: [np.concatenate(tensors, desc.axis)],
    "SLICE": _slice,
    "SPLIT": lambda desc, x: np.split(x, np.cumsum([t.sizes[desc.axis] for t in desc.output_tensors])[:-1], desc.axis),
}


def read(model: Any, folder: Path = Path(), **options: Any) -> Model:
    text = model if isinstance(model, str) else json.dumps(model)
    return parse_model(text, Folders(folder, folder), **options)


def executor(model: Model, device: NumpyDevice | None = None, *rest: Any) -> Executor:
    """With a device of NumPy's functions, which has what an executor asks of a device."""
    return Executor(model, cast("Device", device or NumpyDevice()), *rest)


def run(model: Any, folder: Path = Path(), device: NumpyDevice | None = None, **options: Any) -> str:
    output = io.StringIO()
    parsed = model if isinstance(model, Model) else read(model, folder)
    settings = RunOptions(**options)
    executor(parsed, device, settings, TextReport(settings, output)).run()
    return output.getvalue()


def results(model: Any, folder: Path = Path()) -> list[str]:
    """The printed lines, but for those with times."""
    return [line for line in run(model, folder).splitlines() if not line.startswith("Dispatch")]


def resource(description: dict[str, Any], folder: Path = Path()) -> np.ndarray[Any, Any]:
    """The contents of a resource."""
    model = read({"resources": {"x": description}, "dispatchables": {}, "commands": []}, folder)
    return executor(model).contents("x")


def problem(model: Any, folder: Path = Path(), **options: Any) -> tuple[str, str]:
    """The path and message of the error that reading and preparing a model gives."""
    with pytest.raises(ModelFormatError) as caught:
        executor(read(model, folder, **options))
    return caught.value.path, caught.value.message
