"""The ``onnx`` package, imported when the first model is read: an extra that nobody else needs."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

from opendml.description.errors import ConfigurationError

__all__ = ["onnx_identity", "onnx_package"]

_SUBMODULES: Final = ("defs", "helper", "inliner", "numpy_helper", "reference")


@functools.cache
def onnx_package() -> ModuleType:
    """The package, with the modules of it that are used here. Raises ConfigurationError where it is not installed."""
    try:
        package = importlib.import_module("onnx")
        for name in _SUBMODULES:
            importlib.import_module(f"onnx.{name}")
    except ImportError as error:
        raise ConfigurationError(
            f"ONNX models are read with the package onnx: pip install 'opendml[onnx]' ({error})"
        ) from None
    return package


@functools.cache
def onnx_identity() -> str:
    """What tells one version of the package from another; the package, which takes long to load, is not loaded for it.

    Raises ConfigurationError where it is not installed.
    """
    found = importlib.util.find_spec("onnx")
    if found is not None and found.origin is not None:
        version = Path(found.origin).with_name("version.py")
        if version.is_file():
            return f"{found.origin}\n{version.read_text(errors='replace')}"
    return str(onnx_package().__version__)
