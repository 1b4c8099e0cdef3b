"""What a model was translated to, in the disk cache: a model that was compiled before needs no translation again.

An entry is data: JSON, and behind it the bytes of constants that the model's file does not have as they are. It is
found by a hash of the model's content, of what was asked for, and of all code that had a part in it, and is
authenticated as all of the cache is (``opendml.llvm.object_cache``). Weights stay in the model's file and in those
beside it, whose content that hash has verified. What a model's nodes lack is kept as well: whoever asks again gets the
same answer.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.graph_assembly import GraphInterface, KeptConstant
from opendml.description.enums import TensorDataType, TensorFlags
from opendml.description.errors import FormatProblem
from opendml.description.tensor import TensorDesc
from opendml.formats.onnx.package import onnx_identity
from opendml.formats.onnx.places import TensorPlaces
from opendml.formats.onnx.sources import ModelSource
from opendml.formats.onnx.values import Value
from opendml.llvm.object_cache import default_cache
from opendml.programs.binding import Binding
from opendml.programs.compiled_graph import CompiledGraph
from opendml.programs.device import Device, default_device
from opendml.programs.graph_outline import GraphOutline

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc

__all__ = ["Outcome", "StoredModel", "entry_key", "read_entry", "write_failure", "write_model"]

Array = npt.NDArray[Any]
FORMAT: Final = 2
LARGEST_REST: Final = 1 << 25
"""Bytes of constants beside those of the model's file up to which an entry is written."""

_LENGTH: Final = struct.Struct("<Q")
_ALIGNMENT: Final = 64
_HERE, _MODEL, _BESIDE = 0, 1, 2
"""Where bytes are: behind the entry's head, in the model, or in the first, second, ... of the files beside it."""


class Outcome(NamedTuple):
    """What became of a model's nodes: those without an expression, the inputs whose values they need, those that are
    computed in FLOAT32, and the first outputs of nodes that only the host can drive."""

    problems: tuple[FormatProblem, ...]
    needed: frozenset[str]
    narrowed: tuple[str, ...]
    loops: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredModel:
    """An entry: the outcome, and where there are no problems the outputs, the names of the graph's inputs, and the
    graph's program as it was, by its ``key``; None for both where all outputs are known."""

    outcome: Outcome
    outputs: Mapping[str, Value]
    bound: Sequence[str]
    interface: GraphInterface | None
    outline: GraphOutline
    key: bytes


def entry_key(source: ModelSource, device: Device | None, request: Sequence[object]) -> bytes | None:
    """The name of the entry for what was asked for; None where nothing is kept. ``request``: values whose text says
    all that the translation depends on."""
    facts = (device or default_device()).facts()
    if facts is None or source.digest is None:
        return None
    text = repr((FORMAT, onnx_identity(), source.digest, facts, *request))
    return hashlib.sha256(text.encode()).digest()


# ---- writing


def write_failure(key: bytes, source: ModelSource, outcome: Outcome) -> None:
    """Keeps what a model lacks. Raises ModelFormatError where one of its files has changed meanwhile."""
    source.contents_beside()
    _write(key, {"outcome": _of_outcome(outcome)}, b"")


def write_model(
    key: bytes,
    source: ModelSource,
    outcome: Outcome,
    outputs: Mapping[str, Value],
    bound: Sequence[str],
    part: tuple[CompiledGraph, GraphInterface] | None,
) -> None:
    """Keeps what a model was translated to, unless it has too many weights beside those of its files. ``part``: the
    program and what its inputs and outputs are, where there is one. Raises ModelFormatError where one of its files has
    changed meanwhile."""
    beside = dict(zip(source.locations, source.contents_beside(), strict=True))
    if part is not None and part[0].key is None:
        return
    if sum(value.array.nbytes for value in outputs.values() if value.array is not None) > LARGEST_REST:
        return  # Before any of it is copied: a few numbers can be repeated to more than fits into memory.
    rest = _Rest(TensorPlaces(source.content()), beside)
    header: dict[str, Any] = {"outcome": _of_outcome(outcome), "bound": list(bound)}
    header["outputs"] = [
        [name, value.data_type.str, value.sizes, None if value.array is None else rest.add(value.array.tobytes())]
        for name, value in outputs.items()
    ]
    if part is not None:
        program, interface = part
        assert program.key is not None
        kept = [[number, one.owned, rest.place(one.data)] for number, one in interface.kept.items()]
        header["interface"] = [_of_tensors(interface.inputs), _of_tensors(interface.outputs), kept]
        sides = ([(b.name, b.desc) for b in side] for side in (program.inputs, program.outputs))
        constants = [[number, rest.add(data)] for number, data in program.kept_constants.items()]
        header["graph"] = [*map(_of_tensors, sides), constants, program.key.hex()]
    if rest.size <= LARGEST_REST:
        _write(key, header, b"".join(rest.parts))


class _Rest:
    """The bytes that stand behind an entry's head, each part from a multiple of ``_ALIGNMENT`` on."""

    def __init__(self, places: TensorPlaces, beside: Mapping[str, memoryview]) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._places = places
        self._beside = beside

    def place(self, data: bytes | memoryview) -> list[int]:
        """The place and length of bytes, and where: in the model, here, or in one of the files beside the model."""
        start = self._places.find(data)
        if start is not None:
            return [start, len(data), _MODEL]
        for number, (location, file) in enumerate(self._beside.items()):
            start = self._places.find_beside(data, location, file)
            if start is not None:
                return [start, len(data), _BESIDE + number]
        return self.add(data)

    def add(self, data: bytes | memoryview) -> list[int]:
        """The place and length of bytes that are put here."""
        start = self.size
        self.parts.append(bytes(data) + bytes(-len(data) % _ALIGNMENT))
        self.size += len(self.parts[-1])
        return [start, len(data), _HERE]


def _write(key: bytes, header: Mapping[str, Any], rest: bytes) -> None:
    cache = default_cache()
    if cache is not None:
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNMENT)
        cache.write(key, _LENGTH.pack(len(text)) + text + rest)


def _of_outcome(outcome: Outcome) -> list[Any]:
    return [
        [[one.path, one.message] for one in outcome.problems],
        sorted(outcome.needed),
        outcome.narrowed,
        outcome.loops,
    ]


def _of_tensors(tensors: Sequence[tuple[str, TensorDesc | None]]) -> list[Any]:
    return [[name, None if desc is None else _of_tensor(desc)] for name, desc in tensors]


def _of_tensor(desc: TensorDesc) -> list[Any]:
    aligned = desc.guaranteed_base_offset_alignment
    return [int(desc.data_type), desc.sizes, desc.strides, int(desc.flags), desc.total_size_in_bytes, aligned]


# ---- reading


def read_entry(key: bytes, source: ModelSource, describe: Callable[[], GraphDesc]) -> StoredModel | None:
    """The entry of a key; ``describe`` gives the graph itself, if anybody asks.

    Raises ModelFormatError where one of the model's files has changed since it was loaded.
    """
    cache = default_cache()
    stored = None if cache is None else cache.read(key)
    if stored is None:
        return None
    (length,) = _LENGTH.unpack_from(stored)
    header = json.loads(stored[_LENGTH.size : _LENGTH.size + length])
    rest = memoryview(stored)[_LENGTH.size + length :]
    problems, needed, narrowed, loops = header["outcome"]
    outcome = Outcome(tuple(FormatProblem(*one) for one in problems), frozenset(needed), tuple(narrowed), tuple(loops))
    outputs = {
        name: _value(np.dtype(kind), sizes, place, rest) for name, kind, sizes, place in header.get("outputs", ())
    }
    interface = None
    if "graph" in header:
        kept = [place[2] for *_, place in header["interface"][2]]
        model = source.content() if _MODEL in kept else memoryview(b"")
        beside = source.contents_beside() if max(kept, default=0) >= _BESIDE else []
        interface = _interface(header["interface"], [rest, model, *beside])
    inputs, written, constants, program = header.get("graph", ((), (), (), ""))
    outline = GraphOutline(
        tuple(Binding(*one) for one in _tensors(inputs)),
        tuple(Binding(*one) for one in _tensors(written)),
        {number: _part(rest, place) for number, place in constants},
        describe,
    )
    return StoredModel(outcome, outputs, header.get("bound", ()), interface, outline, bytes.fromhex(program))


def _interface(header: Sequence[Any], contents: Sequence[memoryview]) -> GraphInterface:
    inputs, outputs, kept = header
    constants = {}
    for number, owned, place in kept:
        data = _part(contents[place[2]], place)
        constants[number] = KeptConstant(data if owned or place[2] == _HERE else bytes(data), owned)
    return GraphInterface(_tensors(inputs), _tensors(outputs), constants, "")


def _part(memory: memoryview, place: Sequence[int]) -> memoryview:
    start, length, _ = place
    return memory[start : start + length]


def _value(kind: np.dtype[Any], sizes: Sequence[int], place: Sequence[int] | None, rest: memoryview) -> Value:
    array = None if place is None else np.frombuffer(_part(rest, place), kind).reshape(sizes)
    return Value(kind, tuple(sizes), array)


def _tensors(header: Sequence[Any]) -> Any:
    return tuple((name, None if fields is None else _tensor(*fields)) for name, fields in header)


def _tensor(kind: int, sizes: list[int], strides: Any, flags: int, size: int, aligned: int) -> TensorDesc:
    return TensorDesc(
        TensorDataType(kind),
        sizes,
        strides,
        flags=TensorFlags(flags),
        total_size_in_bytes=size,
        guaranteed_base_offset_alignment=aligned,
    )
