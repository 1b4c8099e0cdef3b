"""ONNX models: `read` reads one from a file, `read_bytes` from bytes; it is compiled for sizes and run.

The model's nodes become nodes of a graph (`translation`), each by a short function on graph tensors (`operators`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opendml.formats.onnx.recognition import recognises

__all__ = ["read", "read_bytes", "recognises"]

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel


def read(path: Path) -> OnnxModel:
    """The model of a file; its data may lie beside it. Raises ModelFormatError, and ConfigurationError without onnx."""
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.sources import source_of_file

    return OnnxModel(source_of_file(path), path.stem)


def read_bytes(data: bytes) -> OnnxModel:
    """The model that bytes hold. Raises as ``read``."""
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.sources import source_of_bytes

    return OnnxModel(source_of_bytes(data))
