"""The ``onnx`` package, imported when the first model is read: an extra that nobody else needs."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Final

from opendml.description.errors import ConfigurationError

__all__ = ["onnx_package"]

_SUBMODULES: Final = ("defs", "helper", "inliner", "numpy_helper", "reference")


@functools.cache
def onnx_package() -> ModuleType:
    """The package, with the modules of it that are used here. Raises ConfigurationError where it is not installed."""
    try:
        import importlib

        package = importlib.import_module("onnx")
        for name in _SUBMODULES:
            importlib.import_module(f"onnx.{name}")
    except ImportError as error:
        raise ConfigurationError(
            f"ONNX models are read with the package onnx: pip install 'opendml[onnx]' ({error})"
        ) from None
    return package
