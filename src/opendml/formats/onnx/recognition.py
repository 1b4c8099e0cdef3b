"""What tells ONNX models from other files."""

from __future__ import annotations

__all__ = ["recognises"]


def recognises(data: bytes) -> bool:
    """Whether a file, of which these are the first bytes, is a ModelProto of ONNX.

    Its first field is the version of the format, a small number; behind it comes another field of a model.
    """
    return data[:1] == b"\x08" and 1 <= data[1] < 64 and data[2:3] in _FIELDS if len(data) > 2 else False


_FIELDS = (b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42", b"\x72")
"""The tags of a model's other fields: producer, domain, version, documentation, graph, operator sets, metadata."""
