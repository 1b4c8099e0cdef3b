"""``ModelSource``: the bytes of a model, in memory or in a file, and what they are known by.

A file that was read before, and has not changed since, is not read again before its weights are needed: what its inputs
and outputs are is kept in the disk cache (``opendml.llvm.object_cache``), under a hash of its content. That it has not
changed is told as Git tells it: by its place, its size and the times of its last changes, of which that of the file
system's own record cannot be set by anybody. Times that were recent when the content was read prove nothing.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular, read_open_file
from opendml.description.quoting import quoted
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.reading import MAXIMUM_SIZE, model_of_bytes
from opendml.llvm.object_cache import default_cache
from opendml.programs.graph_plan import package_digest

__all__ = ["ModelSource", "source_of_bytes", "source_of_file", "source_of_part"]

RECENT: Final = 3 * 10**9
"""Nanoseconds: what has changed within them before it was read may have changed again with the same times."""

PART: Final = 1 << 22
"""Bytes that one thread hashes."""

Stamp = tuple[int, ...]
_HEAD: Final = struct.Struct("<Q")


class ModelSource:
    """A model: ``head``, a ModelProto without nodes and weights, but for the names of these, and all else when it is
    asked for. ``node_count``: its nodes. ``folder``: where data beside its file lies."""

    def __init__(self, head: Any, node_count: int, path: Path | None, stamp: Stamp, data: bytes | None = None) -> None:
        self.head = head
        self.node_count = node_count
        self.folder = None if path is None else path.parent
        self._path = path
        self._stamp = stamp
        self._data = data

    @functools.cached_property
    def proto(self) -> Any:
        """The whole ModelProto. Raises ModelFormatError where the file has changed meanwhile."""
        return model_of_bytes(bytes(self.content()))

    def content(self) -> memoryview:
        """The bytes: those of a file where it is, as long as it stays. Raises ModelFormatError where it has changed."""
        if self._data is not None:
            return memoryview(self._data)
        assert self._path is not None
        try:
            with open_regular(self._path) as file:
                if _stamp(os.fstat(file.fileno())) == self._stamp:
                    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise ModelFormatError("", f"cannot read {quoted(self._path.name)}: {error.strerror or error}") from None
        raise ModelFormatError("", f"{quoted(self._path.name)} has changed since it was loaded: load it again")

    @functools.cached_property
    def digest(self) -> bytes | None:
        """A hash of the content; None where there is no cache to look into."""
        if default_cache() is None or package_digest() is None:
            return None
        found = _stored_digest(self._path, self._stamp)
        is_stored = found is not None and self._data is None
        found = found or _hash(self.content())
        if not is_stored:
            _store(self, found, self._path, self._stamp)
        return found


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
            now, stamp = time.time_ns(), _stamp(os.fstat(file.fileno()))
            found = _stored_head(path, stamp)
            if found is not None:
                return found
            data = read_open_file(file, MAXIMUM_SIZE)
            is_settled = _stamp(os.fstat(file.fileno())) == stamp != () and now - max(stamp[-2:]) >= RECENT
    except OSError as error:
        raise ModelFormatError("", f"cannot read {quoted(path.name)}: {error.strerror or error}") from None
    return _parsed(data, path, stamp if is_settled else ())


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


# ---- what is known of files


def _stamp(status: os.stat_result) -> Stamp:
    """What changes when a file does. Empty where the file system's own record has no time of changes."""
    if os.name != "posix":
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _key(*facts: object) -> bytes:
    return hashlib.sha256(repr((package_digest(), onnx_package().__version__, *facts)).encode()).digest()


def _stored_digest(path: Path | None, stamp: Stamp) -> bytes | None:
    cache = default_cache()
    if cache is None or path is None or not stamp or package_digest() is None:
        return None
    return cache.read(_key("file", str(path.absolute()), stamp))


def _stored_head(path: Path, stamp: Stamp) -> ModelSource | None:
    cache, digest = default_cache(), _stored_digest(path, stamp)
    stored = None if digest is None or cache is None else cache.read(_key("head", digest))
    if stored is None or digest is None:
        return None
    head = onnx_package().ModelProto()
    head.ParseFromString(stored[_HEAD.size :])
    source = ModelSource(head, _HEAD.unpack_from(stored)[0], path, stamp)
    source.__dict__["digest"] = digest
    return source


def _store(source: ModelSource, digest: bytes, path: Path | None, stamp: Stamp) -> None:
    cache = default_cache()
    if cache is None or path is None or not stamp:
        return
    cache.write(_key("head", digest), _HEAD.pack(source.node_count) + source.head.SerializeToString())
    cache.write(_key("file", str(path.absolute()), stamp), digest)


def _hash(content: memoryview) -> bytes:
    """A hash of all parts, which threads hash side by side."""
    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
    if len(parts) == 1:
        digests = [_part_hash(parts[0])]
    else:
        with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1, 8)) as pool:
            digests = list(pool.map(_part_hash, parts))
    return hashlib.sha256(b"".join((_HEAD.pack(len(content)), *digests))).digest()


def _part_hash(part: memoryview) -> bytes:
    return hashlib.blake2b(part, digest_size=32).digest()
