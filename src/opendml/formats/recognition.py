"""What a file is, told by its content: for readers that were given something else than they read.

Where a reader fails, it asks ``other_format`` whether the file is something else, and says so instead of calling it
damaged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from opendml.description.file_access import open_regular
from opendml.description.json_values import DXDISPATCH_MODEL
from opendml.formats import dxdispatch, onnx, onnx_text, serialized_graph

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["EMPTY", "FORMATS", "RECOGNISED_BYTES", "Format", "first_bytes", "format_of", "onnx_format", "other_format"]

RECOGNISED_BYTES: Final = 1 << 16
"""The bytes at the beginning of a file that tell what it is."""


class OnnxFormat(Protocol):
    """The folder of a format whose files are ONNX models."""

    def read(self, path: Path) -> OnnxModel:
        """The model of a file."""

    def read_bytes(self, data: bytes) -> OnnxModel:
        """The model that bytes hold."""


class Format(NamedTuple):
    """A kind of file: its name with an article, what reads it, whether the first bytes of a file are of it, and its
    folder where its files are ONNX models."""

    name: str
    reader: str
    recognises: Callable[[bytes], bool]
    onnx: OnnxFormat | None = None


def _begins(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(marks)


def _is_descriptor(data: bytes) -> bool:
    return re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[Tt]ype"\s*:', data) is not None


def _is_json(data: bytes) -> bool:
    return re.match(rb'(?:\xef\xbb\xbf)?\s*[\[{]\s*["\[\]{}/0-9-]', data) is not None


_RESOURCES: Final = "resources of DxDispatch models, and inputs of serialised graphs, may be read from it"

_MODEL_NAME, _, _MODEL_READER = DXDISPATCH_MODEL.partition("; ")

_LOADED: Final = "opendml.load, and opendml run, check, explain and profile, read it"

FORMATS: Final = {
    "onnx_text": Format("an ONNX model as text", _LOADED, onnx_text.recognises, onnx_text),
    "dxdispatch": Format(_MODEL_NAME, _MODEL_READER, dxdispatch.recognises),
    "onnx": Format("an ONNX model", _LOADED, onnx.recognises, onnx),
    "numpy": Format("a NumPy array", f"numpy.load reads it; {_RESOURCES}", _begins(b"\x93NUMPY")),
    "archive": Format(
        "a zip archive, as of PyTorch or NumPy", "opendml does not read it", _begins(b"PK\x03\x04", b"PK\x05\x06")
    ),
    "image": Format("an image", _RESOURCES, _begins(b"\x89PNG\r\n", b"\xff\xd8\xff")),
    "descriptor": Format("a descriptor in JSON", "opendml.OperatorDesc.from_json reads it parsed", _is_descriptor),
    "json": Format("JSON text of another kind", "opendml reads DxDispatch models and descriptors", _is_json),
    "serialized_graph": Format("a serialised DML graph", _LOADED, serialized_graph.recognises),
}
"""The formats, the surest first."""

EMPTY: Final = (
    f"the file is empty; expected {FORMATS['onnx'].name}, {FORMATS['serialized_graph'].name} or {_MODEL_NAME}"
)
"""What readers of models say of a file of no bytes."""


def format_of(data: bytes) -> str:
    """The name in ``FORMATS`` of the format of a file, of which these are the first bytes; empty if it is none."""
    head = data[:RECOGNISED_BYTES]
    return next((name for name, known in FORMATS.items() if known.recognises(head)), "")


def onnx_format(data: bytes) -> OnnxFormat | None:
    """What reads a file, of which these are the first bytes, if it is an ONNX model."""
    name = format_of(data)
    return FORMATS[name].onnx if name else None


def other_format(data: bytes, own: str) -> str:
    """``it is a NumPy array; numpy.load reads it`` if a file is of another format than its reader's."""
    name = format_of(data)
    if name in ("", own) or (name == "json" and own == "dxdispatch"):
        return ""
    return f"it is {FORMATS[name].name}; {FORMATS[name].reader}"


def first_bytes(path: Path) -> bytes:
    """What tells the format of a file; nothing if it cannot be read, which its reader will say."""
    try:
        with open_regular(path) as file:
            return file.read(RECOGNISED_BYTES)
    except (OSError, ValueError):
        return b""
