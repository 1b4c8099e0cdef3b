"""What tells ONNX models as text from other files: the first field that they state."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["recognises", "spelling_of"]


def recognises(data: bytes) -> bool:
    """Whether a file, of which these are the first bytes, is an ONNX model as text."""
    return bool(spelling_of(data))


def spelling_of(data: bytes) -> str:
    """The spelling of a text, of which these are the first bytes: ``language``, ``protobuf`` or ``json``; or empty."""
    return next((name for name, pattern in _BEGINNINGS.items() if pattern.match(data)), "")


# Possessive: spaces and comments can be divided in one way only, so that a file of spaces is read once, not 2^n times.
_MARK: Final = rb"(?:\xef\xbb\xbf)?"
_SPACE: Final = rb"(?>\s+|#[^\n]*)*+"
_FIELD: Final = rb"(?:ir_version|opset_import|producer_name)"
_BEGINNINGS: Final = {
    "language": re.compile(_MARK + _SPACE + rb"<" + _SPACE + _FIELD + _SPACE + rb":"),
    "protobuf": re.compile(_MARK + _SPACE + _FIELD + rb"\s*+[:{<]"),
    "json": re.compile(_MARK + rb'\s*+\{\s*+"(?:' + _FIELD + rb'|irVersion|opsetImport|producerName)"\s*+:'),
}
"""How texts of each spelling begin. A model's graph may come first, too, but says less than these fields do."""
