"""Where the data of tensors lies in the bytes of a ModelProto: found by the tags of protocol buffers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from opendml.description.errors import ModelFormatError
from opendml.targets.host_memory import address_of

__all__ = ["Bytes", "TensorPlaces", "fields"]

Bytes = bytes | memoryview

_NESTED: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
"""The messages inside of messages that lead to tensors, by the numbers of their fields in onnx.proto."""

_DATA: Final = (4, 5, 7, 9, 10, 11)
"""A tensor's fields of packed numbers and of raw bytes: both are as in memory where a number has all of its bytes."""

_ENTRY: Final = 13
_LOCATION: Final = 14
"""A tensor's fields that say where in another file its data is, and whether it is in another one."""

PART: Final = 1 << 16
"""Bytes that are compared at once."""


class TensorPlaces:
    """The data of a model's tensors by its length in bytes; ``external``: that in other files, by the names of these:
    offsets by lengths, None where no length is said.

    Raises ModelFormatError for bytes that are no message, which no parser would take either.
    """

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data)
        self._places: dict[int, list[int]] = {}
        self.external: dict[str, dict[int | None, set[int]]] = {}
        self._model("model", 0, len(data))

    def find(self, content: Bytes) -> int | None:
        """Where a content lies; None if it is nowhere."""
        return _found(content, self._data, self._places.get(len(content), ()))

    def find_beside(self, content: Bytes, location: str, file: memoryview) -> int | None:
        """Where a content lies in another file, which is that of the name; None if it is nowhere."""
        offsets = self.external.get(location, {})
        return _found(content, file, (*offsets.get(len(content), ()), *offsets.get(None, ())))

    def _model(self, kind: str, start: int, end: int) -> None:
        pending = [(kind, start, end)]
        while pending:
            kind, start, end = pending.pop()
            if kind == "tensor":
                self._tensor(start, end)
                continue
            for number, place, value in fields(self._data, start, end):
                if place is not None and number in _NESTED[kind]:
                    pending.append((_NESTED[kind][number], place, place + value))

    def _tensor(self, start: int, end: int) -> None:
        entries: dict[bytes, bytes] = {}
        is_external = False
        for number, place, value in fields(self._data, start, end):
            if number in _DATA and place is not None:
                self._places.setdefault(value, []).append(place)
            elif number == _ENTRY and place is not None:
                key, text = self._texts(place, place + value)
                entries[key] = text
            elif number == _LOCATION:
                is_external = value == 1
        if is_external:
            offset, length = (_number(entries.get(key, b"")) for key in (b"offset", b"length"))
            location = entries.get(b"location", b"").decode(errors="replace")
            self.external.setdefault(location, {}).setdefault(length, set()).add(offset or 0)

    def _texts(self, start: int, end: int) -> list[bytes]:
        """A key and what it stands for."""
        found = {number: (place, size) for number, place, size in fields(self._data, start, end)}
        places = [(place or 0, size if place else 0) for place, size in (found.get(n, (None, 0)) for n in (1, 2))]
        return [bytes(self._data[place : place + size]) for place, size in places]


def _found(content: Bytes, data: memoryview, starts: Iterable[int]) -> int | None:
    """The first of the places, unless the content itself is a part of the data."""
    wanted, known = np.frombuffer(content, np.uint8), np.frombuffer(data, np.uint8)
    start = address_of(wanted) - address_of(known)
    if 0 <= start <= known.size - wanted.size and wanted.size:
        return start
    return next((start for start in starts if _is_same(known[start : start + wanted.size], wanted)), None)


def _is_same(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> bool:
    """Whether bytes are the same: parts of them, so that what tells each byte of them stays small."""
    return a.size == b.size and all(np.array_equal(a[n : n + PART], b[n : n + PART]) for n in range(0, a.size, PART))


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) < 20 else None


def fields(data: memoryview, position: int, end: int) -> Iterator[tuple[int, int | None, int]]:
    """Numbers of fields, with the place and length of those that have a length, else None and the value."""
    while position < end:
        tag, position = _integer(data, position, end)
        kind = tag & 7
        if kind == 0:
            value, position = _integer(data, position, end)
            yield tag >> 3, None, value
        elif kind == 2:
            length, position = _integer(data, position, end)
            if position + length > end:
                raise ModelFormatError("", "it is no ONNX model, or a damaged one")
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
