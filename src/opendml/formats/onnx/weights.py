"""The contents of large initialisers, left where they are in the bytes of a ModelProto: protocol buffers parse, and
would copy, what is left without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opendml.description.errors import ModelFormatError
from opendml.formats.onnx.places import Bytes, fields

__all__ = ["LARGE", "Weights", "without_weights"]

LARGE: Final = 1 << 12
"""Bytes of an initialiser from which on its content is left out: to copy fewer takes less time than to find them."""

Weights = Mapping[int, memoryview]
"""Contents by the numbers of the initialisers that they are of."""

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""The fields on the way from a model to the bytes of its weights, by their numbers in onnx.proto."""


def without_weights(data: Bytes) -> tuple[Bytes, Weights]:
    """The bytes of the same model with empty ``raw_data`` of large initialisers, and what was there; what is written in
    another way than all writers of protocol buffers do is left as it is."""
    try:
        return _Rewriting(memoryview(data)).model()
    except (ModelFormatError, _UnusualError):
        return data, {}


class _UnusualError(Exception):
    """A tag or a length has more bytes than it needs."""


class _Rewriting:
    """Copies all but what is left out; lengths of what this is in are written anew."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._weights: dict[int, memoryview] = {}
        self._count = 0

    def model(self) -> tuple[bytes, Weights]:
        """The message, and what it is without. The initialisers of several graphs are those of one, in order."""
        parts = self._message(_GRAPH, 0, len(self._data))
        return b"".join(parts), self._weights

    def _message(self, field: int, start: int, end: int) -> list[Bytes]:
        """The bytes of a message whose fields of one number are written anew."""
        inner = self._graph if field == _GRAPH else self._initializer
        parts: list[Bytes] = []
        done = start
        for number, place, length in fields(self._data, start, end):
            if number == field and place is not None:
                parts += [self._data[done : self._head(number, place, length)], *_written(number, inner(place, length))]
                done = place + length
        return [*parts, self._data[done:end]]

    def _graph(self, start: int, length: int) -> list[Bytes]:
        return self._message(_INITIALIZER, start, start + length)

    def _initializer(self, start: int, length: int) -> list[Bytes]:
        """Of several contents in one tensor the last one counts, also if it is empty."""
        end = start + length
        contents = [pair for number, *pair in fields(self._data, start, end) if number == _RAW_DATA]
        place, size = contents[-1] if contents else (None, 0)
        self._count += 1
        if place is None or size is None or size < LARGE:
            return [self._data[start:end]]
        self._weights[self._count - 1] = self._data[place : place + size]
        before = self._data[start : self._head(_RAW_DATA, place, size)]
        return [before, *_written(_RAW_DATA, []), self._data[place + size : end]]

    def _head(self, number: int, place: int, length: int) -> int:
        """Where the tag and the length of a field begin whose content has this place."""
        head = _tag(number) + _number(length)
        if self._data[place - len(head) : place] != head:
            raise _UnusualError
        return place - len(head)


def _written(number: int, parts: list[Bytes]) -> list[Bytes]:
    """A field that has a length."""
    return [_tag(number), _number(sum(map(len, parts))), *parts]


def _tag(number: int) -> bytes:
    return _number(number << 3 | 2)


def _number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
