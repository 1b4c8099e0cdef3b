"""ONNX models: recognised, not read yet."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from opendml.description.errors import ModelFormatError
from opendml.formats.onnx.recognition import recognises

__all__ = ["read", "recognises"]


def read(path: Path) -> NoReturn:
    """Raises ModelFormatError: opendml does not read ONNX models yet."""
    raise ModelFormatError("", "opendml does not read ONNX models yet")
