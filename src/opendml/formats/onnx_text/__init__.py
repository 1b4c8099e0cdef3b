"""ONNX models as text: the package onnx writes and reads three spellings of them.

Its own language (``*.onnxtxt``), protocol buffers' text (``*.textproto``) and their JSON (``*.onnxjson``). What they
state is the model that `formats.onnx` translates.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opendml.formats.onnx_text.recognition import recognises

__all__ = ["read", "read_bytes", "recognises"]

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel


def read(path: Path) -> OnnxModel:
    """The model of a file; its data may lie beside it. Raises ModelFormatError, and ConfigurationError without onnx."""
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.sources import source_of_bytes
    from opendml.formats.onnx_text.reading import model_of_text, text_of_file

    return OnnxModel(source_of_bytes(model_of_text(text_of_file(path)), path), path.stem)


def read_bytes(data: bytes) -> OnnxModel:
    """The model that the bytes of a text state. Raises as ``read``."""
    from opendml.formats.onnx.model import OnnxModel
    from opendml.formats.onnx.sources import source_of_bytes
    from opendml.formats.onnx_text.reading import model_of_text

    return OnnxModel(source_of_bytes(model_of_text(data)))
