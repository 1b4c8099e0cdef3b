"""FlatBuffers (flatbuffers.dev), as much of them as serialised graphs need: a reader that trusts nothing and a writer.

A file is read in place: tables point to their fields by offsets, relative to where these stand. `Table` checks each
offset and each length before it is followed. Nothing in the format keeps a file from pointing to the same piece again
and again, so that a few bytes could stand for gigabytes; what is read altogether is therefore limited to a small
multiple of the size of the file. Source of the format: FlatBuffers' "internals" page.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from opendml.description.errors import ModelFormatError

__all__ = ["Reader", "Reference", "Schema", "Table", "Writer"]

Schema = Mapping[str, tuple[str, ...]]
"""The fields of each type of table, in the order of their declaration."""

READING_FACTOR: Final = 4
"""Bytes read altogether for each byte of a file, at most. Writers share strings and little else: 1 is usual."""

MAXIMUM_SIZE: Final = 2**31 - 1
"""Offsets in FlatBuffers are signed where tables point to their layout, so no file is longer."""


class Reader:
    """The bytes of a file, and how much of them was read."""

    def __init__(self, data: bytes, schema: Schema) -> None:
        self.data = data
        self.schema = schema
        self._left = READING_FACTOR * len(data) + 1024
        self._texts: dict[int, str] = {}
        if not 8 <= len(data) <= MAXIMUM_SIZE:
            raise ModelFormatError("", f"not a serialised graph: it has {len(data)} bytes")

    def root(self, table_type: str) -> Table:
        """The table that the file begins with."""
        return Table(self, self.follow(0, ""), "", table_type)

    def take(self, position: int, size: int, path: str) -> int:
        """The position, once it is certain that so many bytes lie there and that not too much was read before."""
        if size < 0 or not 0 <= position <= len(self.data) - size:
            raise ModelFormatError(path, f"the file is damaged: it leads to byte {position} of {len(self.data)}")
        self._left -= size
        if self._left < 0:
            raise ModelFormatError(path, "the file is damaged: it leads to the same bytes again and again")
        return position

    def unpack(self, form: str, position: int, path: str) -> tuple[Any, ...]:
        """The numbers at a position, of a little-endian form as in Python's `struct`."""
        return struct.unpack_from(f"<{form}", self.data, self.take(position, struct.calcsize(f"<{form}"), path))

    def follow(self, position: int, path: str) -> int:
        """Where the offset at a position leads."""
        offset: int = self.unpack("I", position, path)[0]
        if offset == 0:
            raise ModelFormatError(path, "the file is damaged: an offset is 0")
        return position + offset

    def vector(self, position: int, element_size: int, path: str) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        count: int = self.unpack("I", position, path)[0]
        return self.take(position + 4, count * element_size, path), count

    def text(self, position: int, path: str) -> str:
        """A string. The same one is not read twice."""
        if position not in self._texts:
            begin, size = self.vector(position, 1, path)
            try:
                self._texts[position] = self.data[begin : begin + size].decode()
            except UnicodeDecodeError:
                raise ModelFormatError(path, "the file is damaged: a text is not UTF-8") from None
        return self._texts[position]


class Table:
    """A table of a file; `path` is its place, in the names of the schema. Absent fields are None, or 0 for numbers."""

    __slots__ = ("_fields", "_layout", "_reader", "_size", "path", "position")

    def __init__(self, reader: Reader, position: int, path: str, table_type: str) -> None:
        self.path = path
        self.position = position
        self._reader = reader
        self._fields = reader.schema[table_type]
        layout = position - reader.unpack("i", position, path)[0]
        layout_size, self._size = reader.unpack("HH", layout, path)
        if layout_size < 4 or layout_size % 2 or self._size < 4:
            self.fail("the file is damaged: the layout of a table is impossible")
        reader.take(position, self._size, path)
        entries = min((layout_size - 4) // 2, len(self._fields))
        self._layout = reader.unpack(f"{entries}H", layout + 4, path)

    def fail(self, message: str, field: str = "") -> NoReturn:
        """Raise ModelFormatError about this table, or one of its fields."""
        raise ModelFormatError(self._path(field) if field else self.path, message)

    def number(self, field: str, form: str) -> int:
        """A number stored in the table itself."""
        position = self._position(field, struct.calcsize(f"<{form}"))
        return 0 if position is None else int(self._reader.unpack(form, position, self._path(field))[0])

    def structure(self, field: str, form: str) -> tuple[Any, ...] | None:
        """The numbers of a struct that a union leads to."""
        position = self._target(field)
        return None if position is None else self._reader.unpack(form, position, self._path(field))

    def text(self, field: str) -> str:
        """A string; an absent one is empty."""
        position = self._target(field)
        return "" if position is None else self._reader.text(position, self._path(field))

    def table(self, field: str, table_type: str) -> Table | None:
        """A table."""
        position = self._target(field)
        return None if position is None else Table(self._reader, position, self._path(field), table_type)

    def numbers(self, field: str, form: str) -> tuple[Any, ...] | None:
        """A vector of numbers."""
        vector = self._vector(field, struct.calcsize(f"<{form}"))
        return None if vector is None else struct.unpack_from(f"<{vector[1]}{form}", self._reader.data, vector[0])

    def content(self, field: str) -> bytes | None:
        """A vector of bytes."""
        vector = self._vector(field, 1)
        return None if vector is None else self._reader.data[vector[0] : vector[0] + vector[1]]

    def texts(self, field: str) -> list[str]:
        """A vector of strings; an absent one is empty."""
        return [self._reader.text(position, path) for position, path in self._targets(field)]

    def tables(self, field: str, table_type: str) -> Iterator[Table]:
        """A vector of tables; an absent one is empty."""
        return (Table(self._reader, position, path, table_type) for position, path in self._targets(field))

    def _path(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path else field

    def _position(self, field: str, size: int) -> int | None:
        """Where a field of the table lies, None if it is absent."""
        slot = self._fields.index(field)
        offset = self._layout[slot] if slot < len(self._layout) else 0
        if offset == 0:
            return None
        if offset < 4 or offset + size > self._size:
            self.fail("the file is damaged: a field lies outside its table", field)
        return self.position + int(offset)

    def _target(self, field: str) -> int | None:
        position = self._position(field, 4)
        return None if position is None else self._reader.follow(position, self._path(field))

    def _vector(self, field: str, element_size: int) -> tuple[int, int] | None:
        position = self._target(field)
        return None if position is None else self._reader.vector(position, element_size, self._path(field))

    def _targets(self, field: str) -> Iterator[tuple[int, str]]:
        """Where the elements of a vector of offsets lie, with their paths."""
        begin, count = self._vector(field, 4) or (0, 0)
        for index in range(count):
            path = f"{self._path(field)}[{index}]"
            yield self._reader.follow(begin + 4 * index, path), path


class Reference(int):
    """Something written, by its distance from the end of the file."""


class Writer:
    """Builds a file from its end to its beginning, so that offsets always lead to what is there already."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._pieces: list[bytes] = []
        self._size = 0
        self._texts: dict[str, Reference] = {}
        self._layouts: dict[bytes, int] = {}

    def finish(self, root: Reference) -> bytes:
        """The file whose root is that table."""
        self._align(4, _ALIGNMENT)
        self._put(struct.pack("<I", self._size + 4 - root))
        if self._size > MAXIMUM_SIZE:
            raise ModelFormatError("", f"a serialised graph of {self._size} bytes is too large for its format")
        return b"".join(reversed(self._pieces))

    def text(self, text: str) -> Reference:
        """A string; equal ones are written once."""
        if text not in self._texts:
            data = text.encode()
            self._texts[text] = self._vector(data + b"\0", 1, len(data))
        return self._texts[text]

    def content(self, data: bytes) -> Reference:
        """A vector of bytes."""
        return self._vector(data, 1, len(data))

    def numbers(self, values: Sequence[float], form: str) -> Reference:
        """A vector of numbers, of a form as in Python's `struct`."""
        return self._vector(struct.pack(f"<{len(values)}{form}", *values), struct.calcsize(f"<{form}"), len(values))

    def references(self, targets: Sequence[Reference]) -> Reference:
        """A vector of strings or tables."""
        self._align(4 * len(targets), 4)
        end = self._size + 4 * len(targets)
        offsets = [end - 4 * index - target for index, target in enumerate(targets)]
        return self._vector(struct.pack(f"<{len(offsets)}I", *offsets), 4, len(offsets))

    def texts(self, texts: Sequence[str]) -> Reference:
        """A vector of strings."""
        return self.references([self.text(text) for text in texts])

    def structure(self, form: str, *values: float | bytes) -> Reference:
        """A struct, for a union to lead to."""
        data = struct.pack(f"<{form}", *values)
        self._align(len(data), _ALIGNMENT)
        return self._put(data)

    def table(self, table_type: str, **fields: Reference | tuple[str, int] | None) -> Reference:
        """A table with these fields: what was written before, or a number as (form, value); None leaves one out."""
        present = {name: value for name, value in fields.items() if value is not None}
        sizes = {name: _size_of(value) for name, value in present.items()}
        places, size = _arrange(sizes)
        self._align(size, _ALIGNMENT)
        position = self._size + size
        data = bytearray(size)
        for name, value in present.items():
            form, number = value if isinstance(value, tuple) else ("I", position - places[name] - value)
            struct.pack_into(f"<{form}", data, places[name], number)
        layout = self._layout(table_type, places, size)
        known = self._layouts.get(layout)
        struct.pack_into("<i", data, 0, (position + len(layout) if known is None else known) - position)
        reference = self._put(bytes(data))
        if known is None:
            self._layouts[layout] = self._put(layout)
        return reference

    def _layout(self, table_type: str, places: Mapping[str, int], size: int) -> bytes:
        slots = [places.get(name, 0) for name in self._schema[table_type]]
        return struct.pack(f"<{len(slots) + 2}H", 4 + 2 * len(slots), size, *slots)

    def _vector(self, data: bytes, element_size: int, count: int) -> Reference:
        self._align(len(data), max(element_size, 4))
        self._put(data)
        return self._put(struct.pack("<I", count))

    def _align(self, size: int, alignment: int) -> None:
        """Pad so that what is written next, of that size, begins at a multiple of the alignment."""
        self._put(bytes(-(self._size + size) % alignment))

    def _put(self, data: bytes) -> Reference:
        self._pieces.append(data)
        self._size += len(data)
        return Reference(self._size)


_ALIGNMENT = 8


def _size_of(value: Reference | tuple[str, int]) -> int:
    return struct.calcsize(f"<{value[0]}") if isinstance(value, tuple) else 4


def _arrange(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Where each field of a table lies, every one at a multiple of its size, and the size of the table."""
    places: dict[str, int] = {}
    end = 4
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        places[name] = -(-end // size) * size
        end = places[name] + size
    return places, -(-end // 4) * 4
