"""``ModelSource``: the bytes of a model, in memory or in a file, and what they are known by.

A file that was read before, and has not changed since (``known_files``), is not read again before its weights are
needed: what its inputs and outputs are, and which files beside it have its data, is kept in the disk cache
(``opendml.llvm.object_cache``), under a hash of its content.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
import time
from pathlib import Path
from typing import Any, Final

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular, read_open_file
from opendml.description.quoting import quoted
from opendml.formats.onnx.known_files import (
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
from opendml.llvm.object_cache import default_cache
from opendml.programs.graph_plan import package_digest

__all__ = ["ModelSource", "source_of_bytes", "source_of_file", "source_of_part"]

_HEAD: Final = struct.Struct("<QQ")
"""The nodes of a model, and the bytes of the names of the files beside it."""


class ModelSource:
    """A model: ``head``, a ModelProto without nodes and weights, but for the names of these, and all else when it is
    asked for. ``node_count``: its nodes. ``folder``: where data beside its file lies."""

    def __init__(self, head: Any, node_count: int, path: Path | None, stamp: Stamp, data: bytes | None = None) -> None:
        self.head = head
        self.node_count = node_count
        self.folder = None if path is None else path.parent
        self._file = None if path is None else KnownFile(path, stamp)
        self._data = data

    @functools.cached_property
    def proto(self) -> Any:
        """The whole ModelProto. Raises ModelFormatError where the file has changed meanwhile."""
        return model_of_bytes(bytes(self.content()))

    def content(self) -> memoryview:
        """The bytes: those of a file where it is, as long as it stays. Raises ModelFormatError where it has changed."""
        if self._data is not None:
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
            names = json.dumps(self.locations).encode()
            head = _HEAD.pack(self.node_count, len(names)) + names + self.head.SerializeToString()
            store(head, "head", digest)
            self._file.store_digest(digest)


def source_of_bytes(data: bytes, path: Path | None = None) -> ModelSource:
    """The model that bytes hold, which were made of the file of the path if there is one. Raises ModelFormatError."""
    return _parsed(data, path, ())


def source_of_part(proto: Any, folder: Path | None) -> ModelSource:
    """A part of a model, whose data may lie in the model's folder."""
    source = ModelSource(_head_of(proto), len(proto.graph.node), None, (), proto.SerializeToString())
    source.__dict__["proto"] = proto
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
            data = read_open_file(file, MAXIMUM_SIZE)
            stays = file_stamp(file) == stamp and is_settled(stamp, now)
    except OSError as error:
        raise ModelFormatError("", f"cannot read {quoted(path.name)}: {error.strerror or error}") from None
    return _parsed(data, path, stamp if stays else ())


def _parsed(data: bytes, path: Path | None, stamp: Stamp) -> ModelSource:
    proto = model_of_bytes(data)
    source = ModelSource(_head_of(proto), len(proto.graph.node), path, stamp, data)
    source.__dict__["proto"] = proto
    return source


def _head_of(proto: Any) -> Any:
    """The model without what is large: nodes, functions, and the contents of weights."""
    onnx = onnx_package()
    head, graph = onnx.ModelProto(), onnx.GraphProto()
    for kept, whole, left_out in ((head, proto, ("graph", "functions")), (graph, proto.graph, ("node", "initializer"))):
        for field, value in whole.ListFields():
            if field.name in left_out:
                continue
            if isinstance(value, (str, bytes, int, float)):
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
    node_count, length = _HEAD.unpack_from(stored)
    head = onnx_package().ModelProto()
    head.ParseFromString(stored[_HEAD.size + length :])
    source = ModelSource(head, node_count, path, stamp)
    source.__dict__["locations"] = tuple(json.loads(stored[_HEAD.size : _HEAD.size + length]))
    source.__dict__["_own_digest"] = digest
    return source
