"""``ModelSource``: the bytes of a model, in memory or in a file, and what they are known by.

A large file stays where it is, mapped. One that was read before, and has not changed since (``known_files``), is not
read again before its weights are needed: what its inputs and outputs are, and which files beside it have its data, is
kept in the disk cache (``opendml.llvm.object_cache``), under a hash of its content.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
import time
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final, NamedTuple

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular, read_open_file
from opendml.description.quoting import quoted
from opendml.formats.onnx.known_files import (
    SIZE_IN_STAMP,
    KnownFile,
    Stamp,
    file_stamp,
    hash_of,
    is_settled,
    read_stored,
    settled_file,
    store,
)
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.places import TensorPlaces
from opendml.formats.onnx.reading import MAXIMUM_SIZE, model_of_bytes
from opendml.formats.onnx.tensors import path_beside
from opendml.formats.onnx.types import TensorInfo, info_of
from opendml.formats.onnx.weights import Weights, without_weights
from opendml.llvm.object_cache import default_cache
from opendml.programs.graph_plan import package_digest
from opendml.targets.host_memory import LARGE

__all__ = ["ModelSource", "source_of_bytes", "source_of_file", "source_of_part"]

_HEAD: Final = struct.Struct("<Q")
"""The bytes of what is known of a model; behind these is its head."""


class Outline(NamedTuple):
    """What is to be known of a model before it is compiled: its name, how many nodes it has, its inputs but for its
    initialisers, and its outputs."""

    name: str
    node_count: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    @classmethod
    def of(cls, proto: Any) -> Outline:
        """The outline of a ModelProto."""
        graph = proto.graph
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = tuple(info_of(one) for one in graph.input if one.name not in initializers)
        return cls(graph.name, len(graph.node), inputs, tuple(info_of(one) for one in graph.output))

    def to_json(self) -> list[Any]:
        """What ``from_json`` makes an outline of."""
        return [self.name, self.node_count, *([astuple(one) for one in side] for side in (self.inputs, self.outputs))]

    @classmethod
    def from_json(cls, name: str, node_count: int, *sides: list[Any]) -> Outline:
        """The outline that ``to_json`` was asked for."""
        inputs, outputs = (tuple(TensorInfo(one[0], one[1], _sizes(one[2]), one[3]) for one in side) for side in sides)
        return cls(name, node_count, inputs, outputs)


def _sizes(given: list[Any] | None) -> tuple[Any, ...] | None:
    return None if given is None else tuple(given)


class ModelSource:
    """A model: its ``outline``, and all else when it is asked for. ``folder``: where data beside its file lies."""

    def __init__(
        self, outline: Outline, path: Path | None, stamp: Stamp, data: bytes | memoryview | None = None
    ) -> None:
        self.outline = outline
        self.folder = None if path is None else path.parent
        self._file = None if path is None else KnownFile(path, stamp)
        self._data = data  # a memoryview: of the file, mapped

    def __getstate__(self) -> dict[str, Any]:
        """With the bytes of a file that is mapped, and without what follows from them."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_light", "proto")}
        return state | ({"_data": bytes(self.content())} if isinstance(self._data, memoryview) else {})

    @functools.cached_property
    def head(self) -> Any:
        """The ModelProto without nodes and weights, but for the names of these."""
        return _head_of(self._light[0])

    @functools.cached_property
    def proto(self) -> Any:
        """The whole ModelProto. Raises ModelFormatError where the file has changed meanwhile."""
        return model_of_bytes(bytes(self.content()))

    @property
    def light(self) -> tuple[Any, Weights]:
        """The ModelProto without the contents of its large initialisers, and these. Raises as ``proto``."""
        self._check()
        return self._light

    @functools.cached_property
    def _light(self) -> tuple[Any, Weights]:
        return _light(self.content())

    def _check(self) -> None:
        if self._file is not None and isinstance(self._data, memoryview):
            self._file.check()

    def content(self) -> memoryview:
        """The bytes: those of a file where it is, as long as it stays. Raises ModelFormatError where it has changed."""
        if self._data is not None:
            self._check()
            return memoryview(self._data)
        assert self._file is not None
        return self._file.content()

    @functools.cached_property
    def locations(self) -> tuple[str, ...]:
        """The files beside the model that have data of it, by the names that it has for them."""
        return tuple(sorted(TensorPlaces(self.content()).external))

    def contents_beside(self) -> list[memoryview]:
        """The bytes of the files beside the model. Of a model with a ``digest``; raises ModelFormatError where one has
        changed since that was asked for."""
        return [file.content() for file in self._files_beside or ()]

    @functools.cached_property
    def digest(self) -> bytes | None:
        """A hash of all content, that of files beside the model too; None where there is no cache to look into, and
        where such a file is not there or has just changed."""
        if default_cache() is None or package_digest() is None:
            return None
        if not self.locations:
            return self._own_digest
        if self._files_beside is None:
            return None
        digests = [file.digest() for file in self._files_beside]
        return hashlib.sha256(b"".join((self._own_digest, *digests))).digest()

    @functools.cached_property
    def _own_digest(self) -> bytes:
        """A hash of the model's own content."""
        found = None if self._file is None else self._file.stored_digest()
        is_stored = found is not None and self._data is None
        found = found or hash_of(self.content())
        if not is_stored:
            self._store(found)
        return found

    @functools.cached_property
    def _files_beside(self) -> tuple[KnownFile, ...] | None:
        try:
            files = [settled_file(path_beside(self.folder, location, "")) for location in self.locations]
        except (ModelFormatError, OSError):  # said when its data is read
            return None
        known = tuple(file for file in files if file is not None)
        return known if len(known) == len(files) else None

    def _store(self, digest: bytes) -> None:
        """Keeps what is to be known of the model without reading it."""
        if self._file is not None and self._file.stamp:
            text = json.dumps([self.locations, self.outline.to_json()]).encode()
            store(_HEAD.pack(len(text)) + text + self.head.SerializeToString(), "head", digest)
            self._file.store_digest(digest)


def source_of_bytes(data: bytes, path: Path | None = None) -> ModelSource:
    """The model that bytes hold, which were made of the file of the path if there is one. Raises ModelFormatError."""
    return _parsed(data, path, ())


def source_of_part(proto: Any, folder: Path | None) -> ModelSource:
    """A part of a model, whose data may lie in the model's folder."""
    source = ModelSource(Outline.of(proto), None, (), proto.SerializeToString())
    source.__dict__["proto"], source.__dict__["_light"] = proto, (proto, {})
    source.folder = folder
    return source


def source_of_file(path: Path) -> ModelSource:
    """The model of a file. Raises ModelFormatError."""
    try:
        with open_regular(path) as file:
            now, stamp = time.time_ns(), file_stamp(file)
            found = _stored_source(path, stamp)
            if found is not None:
                return found
            settled = is_settled(stamp, now)
            if settled and LARGE <= stamp[SIZE_IN_STAMP] <= MAXIMUM_SIZE:
                return _parsed(KnownFile(path, stamp).content(), path, stamp)
            data = read_open_file(file, MAXIMUM_SIZE)
            stays = file_stamp(file) == stamp and settled
    except OSError as error:
        raise ModelFormatError("", f"cannot read {quoted(path.name)}: {error.strerror or error}") from None
    return _parsed(data, path, stamp if stays else ())


def _parsed(data: bytes | memoryview, path: Path | None, stamp: Stamp) -> ModelSource:
    light = _light(data)
    source = ModelSource(Outline.of(light[0]), path, stamp, data)
    source.__dict__["_light"] = light
    return source


def _light(data: bytes | memoryview) -> tuple[Any, Weights]:
    rest, weights = without_weights(data)
    return model_of_bytes(bytes(rest)), weights


def _head_of(proto: Any) -> Any:
    """The model without what is large: nodes, functions, and the contents of weights."""
    onnx = onnx_package()
    head, graph = onnx.ModelProto(), onnx.GraphProto()
    for kept, whole, left_out in ((head, proto, ("graph", "functions")), (graph, proto.graph, ("node", "initializer"))):
        for field, value in whole.ListFields():
            if field.name in left_out or isinstance(value, bytes):  # a text that is not UTF-8
                continue
            if isinstance(value, (str, int, float)):
                setattr(kept, field.name, value)
            else:
                getattr(kept, field.name).MergeFrom(value)
    graph.initializer.extend(onnx.TensorProto(name=one.name) for one in proto.graph.initializer)
    head.graph.CopyFrom(graph)
    return head


def _stored_source(path: Path, stamp: Stamp) -> ModelSource | None:
    """The source of a file that was read before."""
    digest = KnownFile(path, stamp).stored_digest()
    stored = None if digest is None else read_stored("head", digest)
    if stored is None or digest is None:
        return None
    (length,) = _HEAD.unpack_from(stored)
    locations, outline = json.loads(stored[_HEAD.size : _HEAD.size + length])
    source = _StoredSource(Outline.from_json(*outline), path, stamp, stored[_HEAD.size + length :])
    source.__dict__["locations"] = tuple(locations)
    source.__dict__["_own_digest"] = digest
    return source


class _StoredSource(ModelSource):
    """The source of a file that was read before. ``head``: its bytes, which are not parsed before they are needed."""

    def __init__(self, outline: Outline, path: Path, stamp: Stamp, head: bytes) -> None:
        super().__init__(outline, path, stamp)
        self._head = head

    @functools.cached_property
    def head(self) -> Any:
        """As it was."""
        head = onnx_package().ModelProto()
        head.ParseFromString(self._head)
        return head
