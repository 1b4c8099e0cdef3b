"""``load``: what is in a file, by its content: an ONNX model, or a serialised DML graph."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opendml.description.errors import ModelFormatError
from opendml.formats import serialized_graph
from opendml.formats.recognition import first_bytes, onnx_format, other_format

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["load"]


def load(source: str | os.PathLike[str] | bytes) -> GraphDesc | OnnxModel:
    """Reads an ONNX model (``OnnxModel``) or a serialised DML graph (``GraphDesc``): the content tells which it is.

    ``source``: a path, beside which there may be files of weights and constants, or the bytes of an ONNX model that has
    all of its data inside. ONNX models may be texts, too: in ONNX's own language (``*.onnxtxt``), in protocol buffers'
    (``*.textproto``) or in JSON. They need the package onnx: ``pip install 'opendml[onnx]'``. Nothing is validated:
    ``OnnxModel.compile``, ``validate_graph`` and ``Device.compile_graph`` do that. Raises ``ModelFormatError`` for a
    file that is neither, or damaged, with the place in it, and ``ConfigurationError`` where onnx is not installed.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        if (known := onnx_format(data)) is None:
            raise ModelFormatError("", _why_not(data))
        return known.read_bytes(data)
    if isinstance(source, (str, os.PathLike)):
        path = _path(source)
        if path is not None and (known := onnx_format(first_bytes(path))) is not None:
            return known.read(path)
    return serialized_graph.read(source)


def _path(source: str | os.PathLike[str]) -> Path | None:
    """A path; None for what is none, which the reader says."""
    try:
        return Path(source)
    except Exception:  # whatever a foreign object raises
        return None


def _why_not(data: bytes) -> str:
    """Why bytes are not those of an ONNX model."""
    if not data:
        return "there are no bytes; expected those of an ONNX model"
    other = other_format(data, "onnx")
    return f"not an ONNX model: {other}" if other else "not an ONNX model"
