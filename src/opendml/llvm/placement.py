"""Object files placed into this process without LLVM: x86-64's ELF, as LLVM writes it for the small code model.

Loading code that is in the cache then needs nothing of LLVM, whose library takes 40 MiB of memory and longer to load
than a network of some layers. What an object has that is not known here, LLVM's linker is left to place, or to refuse.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import struct
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.llvm.host import Machine

__all__ = ["PlacedCode", "place"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_HEADER: Final = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION: Final = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8")),
        *(("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry_size", "<u8")),
    ]
)
_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION: Final = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])

_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS, _UNWINDING = 2, 4, 8, 0x70000001
_KINDS: Final = frozenset({0, 1, 2, 3, 4, 8, 9, 17, 0x6FFF4C03, _UNWINDING})
"""Types of sections that are known: nothing, bits, symbols, names, relocations, no bits, groups, LLVM's addresses."""
_WRITE, _ALLOCATED, _CODE, _THREADS = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00
_LOCAL, _WEAK = 0, 2

# Kinds of relocations: the address S of a symbol, an addend A, the place P; a slot G that holds S.
_ADDRESS, _NEAR, _CALL, _FAR = 1, 2, 4, 24  # S + A; S + A - P in 32 bits; the same of a function; in 64 bits
_SLOTS: Final = (9, 41, 42)  # G + A - P in 32 bits

_JUMP: Final = b"\xff\x25"  # jmp [rip + 32 bits]
_WORD: Final = 8


class _UnknownError(Exception):
    """An object has something that is left to LLVM."""


class PlacedCode:
    """Code in memory, with the addresses of its symbols; the memory is given back when this dies."""

    def __init__(self, pages: _Pages, addresses: Mapping[str, int]) -> None:
        self._pages = pages
        self._addresses = addresses
        self._end = weakref.finalize(self, pages.free)
        self._end.atexit = False  # threads may still be in the code when the interpreter ends

    def __getitem__(self, symbol: str) -> int:
        return self._addresses[symbol]

    def detach(self) -> None:
        """The memory stays for ever."""
        self._end.detach()


def place(objects: Sequence[bytes], symbols: Iterable[str], host: Machine) -> PlacedCode | None:
    """Place objects, which may refer to one another and to this process; None where that is left to LLVM."""
    if sys.platform != "linux" or host.architecture != "x86_64" or struct.calcsize("P") != _WORD:
        return None
    with contextlib.suppress(_UnknownError, ValueError, IndexError, struct.error, OSError):
        return _placed([_Object.of(data) for data in objects], list(symbols))
    return None


@dataclass
class _Object:
    """An object file: its sections, its symbols with their names, and where its sections are placed."""

    data: bytes
    sections: Array
    symbols: Array
    names: bytes
    places: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, data: bytes) -> _Object:
        """An object of its bytes. Raises what reading bytes raises, and _UnknownError."""
        magic, bits, order, _, _, kind, machine, *_, start, _, _, _, _, entry, count, _ = _HEADER.unpack_from(data)
        expected = b"\x7fELF", 2, 1, _RELOCATABLE, _X86_64, _SECTION.itemsize
        if (magic, bits, order, kind, machine, entry) != expected:
            raise _UnknownError
        sections = np.frombuffer(data, _SECTION, count, start)
        tables = np.flatnonzero(sections["type"] == _SYMBOLS)
        if not _KINDS.issuperset(sections["type"].tolist()) or len(tables) != 1 or (sections["flags"] & _THREADS).any():
            raise _UnknownError
        table = sections[tables[0]]
        symbols = np.frombuffer(data, _SYMBOL, int(table["size"]) // _SYMBOL.itemsize, int(table["offset"]))
        names = sections[table["link"]]
        return cls(data, sections, symbols, data[int(names["offset"]) : int(names["offset"] + names["size"])])

    def name_of(self, symbol: int) -> str:
        """The name of a symbol."""
        start = int(self.symbols["name"][symbol])
        return self.names[start : self.names.index(b"\0", start)].decode()

    @functools.cached_property
    def placed(self) -> Array:
        """Which sections are in memory. What unwinds stacks is not: no exception passes through the code."""
        placed: Array = (self.sections["flags"] & _ALLOCATED != 0) & (self.sections["type"] != _UNWINDING)
        return placed

    @functools.cached_property
    def relocations(self) -> list[tuple[int, Array]]:
        """Sections that are placed, and what is to be filled in there."""
        found = []
        for section in self.sections[self.sections["type"] == _RELOCATIONS]:
            target = int(section["info"])
            if self.placed[target]:
                count = int(section["size"]) // _RELOCATION.itemsize
                found.append((target, np.frombuffer(self.data, _RELOCATION, count, int(section["offset"]))))
        return found


class _Pages:
    """Memory of this process: written first, then protected."""

    def __init__(self, size: int) -> None:
        self._libc = _libc()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = self._libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap")
        self.address, self.size = int(address), size
        self.content: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.address))

    def protect(self, start: int, end: int, rights: int) -> None:
        """Gives the bytes of whole pages these rights. Raises OSError."""
        if end > start and self._libc.mprotect(self.address + start, end - start, rights):
            raise OSError(ctypes.get_errno(), "mprotect")

    def free(self) -> None:
        """Gives the memory back."""
        self._libc.munmap(self.address, self.size)


@functools.cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    size, pointer, integer = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    library.mmap.restype = pointer
    library.mmap.argtypes = [pointer, size, integer, integer, integer, ctypes.c_long]
    library.mprotect.argtypes = [pointer, size, integer]
    library.munmap.argtypes = [pointer, size]
    return library


def _placed(objects: Sequence[_Object], symbols: Sequence[str]) -> PlacedCode:
    """Code first, with jumps to functions elsewhere; then constants, with slots for addresses; then variables."""
    count = sum(_slot_bound(one) for one in objects)
    jumps, code_end = _laid_out(objects, _CODE, _CODE | _WRITE, 0, _WORD * count)
    slots, constants_end = _laid_out(objects, 0, _CODE | _WRITE, code_end, _WORD * count)
    _, end = _laid_out(objects, _WRITE, _CODE | _WRITE, constants_end, 0)
    pages = _Pages(max(end, mmap.PAGESIZE))
    try:
        for one in objects:
            _copy(one, pages)
        known = _addresses_of(objects, pages.address)
        _Linking(pages, jumps, slots, count).link(objects, known)
        pages.protect(0, code_end, mmap.PROT_READ | mmap.PROT_EXEC)
        pages.protect(code_end, constants_end, mmap.PROT_READ)
        if not known.keys() >= set(symbols):
            raise _UnknownError
    except BaseException:
        pages.free()
        raise
    return PlacedCode(pages, {symbol: known[symbol] for symbol in symbols})


def _slot_bound(one: _Object) -> int:
    """Symbols that may need a slot: those that are not defined, and those that the code asks for a slot of."""
    asked = [np.flatnonzero(one.symbols["section"] == _UNDEFINED)]
    for _, relocations in one.relocations:
        kinds, numbers = _kinds_of(relocations)
        asked.append(numbers[np.isin(kinds, _SLOTS)])
    return len(_distinct(np.concatenate(asked)))


def _distinct(numbers: Array) -> Array:
    """The different ones, in order. NumPy's ``unique`` imports masked arrays, for which it takes longer than for all
    else here."""
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _laid_out(objects: Sequence[_Object], wanted: int, mask: int, position: int, room: int) -> tuple[int, int]:
    """Gives sections of some kind their places, from a page on; the place of room behind them, and the next page."""
    for one in objects:
        if not len(one.places):
            one.places = np.full(len(one.sections), -1, np.int64)
        for number in np.flatnonzero(one.placed & (one.sections["flags"] & mask == wanted)):
            section = one.sections[number]
            alignment = max(int(section["alignment"]), 1)
            if alignment > mmap.PAGESIZE:
                raise _UnknownError
            position = -(-position // alignment) * alignment
            one.places[number] = position
            position += int(section["size"])
    position = -(-position // _WORD) * _WORD
    return position, -(-(position + room) // mmap.PAGESIZE) * mmap.PAGESIZE


def _copy(one: _Object, pages: _Pages) -> None:
    for number in np.flatnonzero(one.placed & (one.sections["type"] != _NO_BITS)):
        offset, size = int(one.sections["offset"][number]), int(one.sections["size"][number])
        start = int(one.places[number])
        if start < 0:
            raise _UnknownError
        pages.content[start : start + size] = np.frombuffer(one.data, np.uint8, size, offset)


def _addresses_of(objects: Sequence[_Object], base: int) -> dict[str, int]:
    """The addresses of symbols that objects define for one another: of several, that of a weak one does not count."""
    found: dict[str, int] = {}
    weak: set[str] = set()
    for one in objects:
        binding = one.symbols["info"] >> 4
        for symbol in np.flatnonzero((binding != _LOCAL) & (one.symbols["section"] != _UNDEFINED)).tolist():
            name, is_weak = one.name_of(symbol), int(binding[symbol]) == _WEAK
            if name in found and not is_weak and name not in weak:
                raise _UnknownError
            if name in found and is_weak:
                continue
            weak = weak | {name} if is_weak else weak - {name}
            found[name] = _own_address(one, symbol, base)
    return found


def _own_address(one: _Object, symbol: int, base: int) -> int:
    section, value = int(one.symbols["section"][symbol]), int(one.symbols["value"][symbol])
    if section == _ABSOLUTE:
        return value
    if section >= _RESERVED or one.places[section] < 0:
        raise _UnknownError
    return base + int(one.places[section]) + value


def _kinds_of(relocations: Array) -> tuple[Array, Array]:
    """What is to be filled in, and the symbol that it is of."""
    return relocations["info"] & 0xFFFFFFFF, (relocations["info"] >> 32).astype(np.int64)


class _Linking:
    """Addresses filled in. ``jumps`` and ``slots``: where these stand, ``count`` of each at most."""

    def __init__(self, pages: _Pages, jumps: int, slots: int, count: int) -> None:
        self.pages = pages
        self.jumps = jumps
        self.slots = slots
        self.count = count
        self.numbers: dict[int, int] = {}  # of slots, by the address that they hold

    def link(self, objects: Sequence[_Object], known: Mapping[str, int]) -> None:
        """Fills in all that objects refer to."""
        for one in objects:
            addresses = self._symbols(one, known)
            for section, relocations in one.relocations:
                self._section(int(one.places[section]), relocations, addresses)

    def _symbols(self, one: _Object, known: Mapping[str, int]) -> Array:
        """The addresses of an object's symbols that something refers to, 0 for others."""
        used = _distinct(np.concatenate([np.zeros(0, np.int64), *(_kinds_of(r)[1] for _, r in one.relocations)]))
        found = np.zeros(len(one.symbols), np.int64)
        for symbol in used.tolist():
            if int(one.symbols["info"][symbol]) >> 4 == _LOCAL:
                found[symbol] = _own_address(one, symbol, self.pages.address)
            else:
                name = one.name_of(symbol)
                found[symbol] = known[name] if name in known else _address_elsewhere(name)
        return found

    def _section(self, start: int, relocations: Array, addresses: Array) -> None:
        kinds, symbols = _kinds_of(relocations)
        offsets = start + relocations["offset"].astype(np.int64)
        targets = addresses[symbols]
        for kind in _distinct(kinds).tolist():
            chosen = kinds == kind
            places, target = offsets[chosen], targets[chosen]
            addend = relocations["addend"][chosen]
            if kind in _SLOTS:
                target = self._each(target, self._slot)
            elif kind == _CALL:
                target = self._each(target, self._callable)
            elif kind not in (_ADDRESS, _NEAR, _FAR):
                raise _UnknownError
            value = target + addend - (0 if kind == _ADDRESS else places + self.pages.address)
            self._write(places, value, 8 if kind in (_ADDRESS, _FAR) else 4)

    def _each(self, targets: Array, function: Any) -> Array:
        """A function of every address."""
        different = _distinct(targets)
        return np.array([function(int(one)) for one in different], np.int64)[np.searchsorted(different, targets)]

    def _write(self, places: Array, values: Array, size: int) -> None:
        if size == 4 and (values != values.astype(np.int32)).any():
            raise _UnknownError
        words = values.astype(f"<i{size}")
        self.pages.content[places[:, None] + np.arange(size)] = words.view(np.uint8).reshape(-1, size)

    def _slot(self, target: int) -> int:
        """The address of a slot that holds an address."""
        number = self.numbers.setdefault(target, len(self.numbers))
        if number >= self.count:
            raise _UnknownError
        place = self.slots + _WORD * number
        self._write(np.array([place]), np.array([target]), _WORD)
        return self.pages.address + place

    def _callable(self, target: int) -> int:
        """The address to call a function at: its own if it is near, else that of a jump to it."""
        if 0 <= target - self.pages.address < self.pages.size:
            return target
        slot = self._slot(target)
        place = self.jumps + _WORD * self.numbers[target]
        self.pages.content[place : place + len(_JUMP)] = np.frombuffer(_JUMP, np.uint8)
        behind = place + len(_JUMP) + 4
        self._write(np.array([behind - 4]), np.array([slot - self.pages.address - behind]), 4)
        return self.pages.address + place


def _address_elsewhere(name: str) -> int:
    """The address of a symbol of this process."""
    try:
        return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise _UnknownError from None
