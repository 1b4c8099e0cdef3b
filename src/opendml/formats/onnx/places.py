"""Where the data of tensors lies in the bytes of a ModelProto: found by the tags of protocol buffers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opendml.description.errors import ModelFormatError

__all__ = ["TensorPlaces"]

Bytes = bytes | memoryview

_MODEL: Final = {7: "graph"}
_NESTED: Final[dict[str, dict[int, str]]] = {
    "model": _MODEL,
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
"""The messages inside of messages that lead to tensors, by the numbers of their fields in onnx.proto."""

_DATA: Final = (4, 5, 7, 9, 10, 11)
"""A tensor's fields of packed numbers and of raw bytes: both are as in memory where a number has all of its bytes."""

_LOCATION: Final = 14


class TensorPlaces:
    """The data of a model's tensors by its length in bytes; ``is_external``: whether some is in other files.

    Raises ModelFormatError for bytes that are no message, which no parser would take either.
    """

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data)
        self._places: dict[int, list[int]] = {}
        self.is_external = False
        self._model("model", 0, len(data))

    def find(self, content: Bytes) -> int | None:
        """Where a content lies; None if it is nowhere."""
        length = len(content)
        for start in self._places.get(length, ()):
            if self._data[start : start + length] == content:
                return start
        return None

    def _model(self, kind: str, start: int, end: int) -> None:
        pending = [(kind, start, end)]
        while pending:
            kind, start, end = pending.pop()
            for number, place, value in _fields(self._data, start, end):
                if kind == "tensor":
                    if number in _DATA and place is not None:
                        self._places.setdefault(value, []).append(place)
                    self.is_external |= number == _LOCATION and value == 1
                elif place is not None and number in _NESTED[kind]:
                    pending.append((_NESTED[kind][number], place, place + value))


def _fields(data: memoryview, position: int, end: int) -> Iterator[tuple[int, int | None, int]]:
    """Numbers of fields, with the place and length of those that have a length, else None and the value."""
    while position < end:
        tag, position = _integer(data, position, end)
        kind = tag & 7
        if kind == 0:
            value, position = _integer(data, position, end)
            yield tag >> 3, None, value
        elif kind == 2:
            length, position = _integer(data, position, end)
            yield tag >> 3, position, length
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ModelFormatError("", "it is no ONNX model, or a damaged one")
    if position > end:
        raise ModelFormatError("", "it is no ONNX model, or a damaged one")


def _integer(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and what comes behind it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ModelFormatError("", "it is no ONNX model, or a damaged one")
