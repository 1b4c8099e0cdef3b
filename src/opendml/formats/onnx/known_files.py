"""``KnownFile``: a file whose content is known by a hash, as long as it stays as it is.

That a file has not changed is told as Git tells it: by its place, its size and the times of its last changes, of which
that of the file system's own record cannot be set by anybody. Times that were recent when the content was read prove
nothing. The hashes of files are kept in the disk cache (``opendml.llvm.object_cache``).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular
from opendml.description.quoting import quoted
from opendml.formats.onnx.package import onnx_identity
from opendml.llvm.object_cache import default_cache
from opendml.programs.graph_plan import RECENT, package_digest
from opendml.targets.host_memory import MappedFile

__all__ = ["SIZE_IN_STAMP", "KnownFile", "file_stamp", "hash_of", "is_settled", "read_stored", "settled_file", "store"]

PART: Final = 1 << 22
"""Bytes that one thread hashes."""

Stamp = tuple[int, ...]
T = TypeVar("T")
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True)
class KnownFile:
    """A file as it was at some time; ``stamp``: what changes when it does, empty where nothing tells that."""

    path: Path
    stamp: Stamp

    def content(self) -> memoryview:
        """The bytes where they are, mapped. Raises ModelFormatError where the file has changed."""
        return self._read(_mapped)

    def _read(self, read: Callable[[BinaryIO], T]) -> T:
        try:
            with open_regular(self.path) as file:
                if file_stamp(file) == self.stamp:
                    return read(file)
        except OSError as error:
            raise ModelFormatError("", f"cannot read {quoted(self.path.name)}: {error.strerror or error}") from None
        raise ModelFormatError("", f"{quoted(self.path.name)} has changed since it was loaded: load it again")

    def check(self) -> None:
        """Raises ModelFormatError where the file has changed."""
        self._read(lambda _: None)

    def stored_digest(self) -> bytes | None:
        """The hash of the content, if it is known."""
        return read_stored(*self._name()) if self.stamp else None

    def store_digest(self, digest: bytes) -> None:
        """Keeps the hash of the content."""
        if self.stamp:
            store(digest, *self._name())

    def digest(self) -> bytes:
        """The hash of the content, known or not. Raises ModelFormatError where the file has changed."""
        found = self.stored_digest()
        if found is None:
            found = hash_of(self.content())
            self.content()  # it has not changed meanwhile
            self.store_digest(found)
        return found

    def _name(self) -> tuple[object, ...]:
        return "file", str(self.path.absolute()), self.stamp


def _mapped(file: BinaryIO) -> memoryview:
    size = os.fstat(file.fileno()).st_size
    return memoryview(MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


def settled_file(path: Path) -> KnownFile | None:
    """A file that has not changed just now; None where it has, or where nothing would tell. Raises OSError."""
    with open_regular(path) as file:
        now, stamp = time.time_ns(), file_stamp(file)
        return KnownFile(path, stamp) if is_settled(stamp, now) else None


def file_stamp(file: BinaryIO) -> Stamp:
    """What changes when a file does. Empty where the file system's own record has no time of changes."""
    if os.name != "posix":
        return ()
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


SIZE_IN_STAMP: Final = 2
"""Which number of a stamp is the size."""


def is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a file with this stamp would have another one had it changed since ``now``, in nanoseconds."""
    return bool(stamp) and now - max(stamp[-2:]) >= RECENT


def hash_of(content: memoryview) -> bytes:
    """A hash of all parts, which threads hash side by side."""
    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
    if len(parts) <= 1:
        digests = [_part_hash(part) for part in parts]
    else:
        from concurrent.futures import ThreadPoolExecutor  # and logging with it: for files that are new

        with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1, 8)) as pool:
            digests = list(pool.map(_part_hash, parts))
    return hashlib.sha256(b"".join((_LENGTH.pack(len(content)), *digests))).digest()


def _part_hash(part: memoryview) -> bytes:
    return hashlib.blake2b(part, digest_size=32).digest()


# ---- in the disk cache


def read_stored(*facts: object) -> bytes | None:
    """What the cache keeps under a name; None where there is no cache."""
    cache = default_cache()
    return None if cache is None or package_digest() is None else cache.read(_key(*facts))


def store(data: bytes, *facts: object) -> None:
    """Keeps data under a name, where there is a cache."""
    cache = default_cache()
    if cache is not None and package_digest() is not None:
        cache.write(_key(*facts), data)


def _key(*facts: object) -> bytes:
    return hashlib.sha256(repr((package_digest(), onnx_identity(), *facts)).encode()).digest()
