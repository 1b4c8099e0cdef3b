"""Compiled objects on disk, so that code is compiled once for a machine and not once a process.

An entry is found by the SHA-256 of everything that its bytes depend on: the LLVM text, the target, the options, the
versions of the compiler and of this format. It is written to a temporary file and renamed, so readers in other
processes see all of it or nothing, and is checked whole when it is read; what does not check is removed and compiled
again. The least recently used entries go when the directory grows past its bound.

Machine code that is loaded is run, so entries are trusted only as far as their origin:

- The directory is the user's own and nobody else can write to it (mode 0700). One that is not so is left alone and
  nothing is cached, with one warning.
- Every entry carries an HMAC-SHA256 made with a random key in the same directory that only the user can read (0600).
  This refuses files that came into the directory by other ways than this module: unpacked from an archive or a shared
  CI cache, copied from another user's cache, left from a time when the directory was writable by others, or damaged.
- It does not defend against a program that runs as the same user and can read the key: that program could as well
  change the Python files.

Environment: OPENDML_CACHE=0 switches the cache off; OPENDML_CACHE_DIR names its directory; OPENDML_CACHE_SIZE bounds
it, in bytes or with a suffix K, M or G (256M by default).
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import re
import stat
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from opendml.description.errors import ConfigurationError
from opendml.description.file_access import (
    FileTooLargeError,
    NotRegularFileError,
    open_regular,
    read_open_file,
    write_atomically,
)
from opendml.description.quoting import quoted
from opendml.llvm.forking import hold_while_forking

CACHE_VARIABLE = "OPENDML_CACHE"
DIRECTORY_VARIABLE = "OPENDML_CACHE_DIR"
SIZE_VARIABLE = "OPENDML_CACHE_SIZE"
DEFAULT_SIZE_LIMIT = 256 << 20

FORMAT_VERSION = 1
# magic, format version, key, payload length; then the HMAC of all that and the payload; then the payload.
_HEADER = struct.Struct("<8sI32sQ")
_MAGIC = b"opendml\0"
_HMAC_BYTES = _KEY_BYTES = 32
_OVERHEAD = _HEADER.size + _HMAC_BYTES
_SUFFIX = ".object"
_STALE_SECONDS = 3600


def get_or_make(key: bytes, make: Callable[[], bytes]) -> tuple[bytes, bool]:
    """The entry of a key, made and kept if there is none, and whether it came from the cache."""
    cache = default_cache()
    stored = None if cache is None else cache.read(key)
    if stored is not None:
        return stored, True
    made = make()
    if cache is not None:
        cache.write(key, made)
    return made, False


def default_cache() -> ObjectCache | None:
    """The cache that the environment asks for, or None where it is switched off or its directory cannot be trusted."""
    environment = os.environ.get
    if environment(CACHE_VARIABLE, "1").strip().lower() in ("0", "off", "false", "no"):
        return None
    return _open_cache(
        environment(DIRECTORY_VARIABLE) or str(_platform_directory()),
        _parse_size(environment(SIZE_VARIABLE, "").strip()),
    )


class CacheWarning(UserWarning):
    """The cache directory cannot be used, so every process compiles anew."""


_eviction = threading.Lock()
hold_while_forking(_eviction.acquire, _eviction.release)


class ObjectCache:
    """A directory of authenticated entries, at most `size_limit` bytes of them.

    Any number of threads and processes may use one directory at once. `authentication_key` is shared by all of them.
    """

    def __init__(self, directory: Path, size_limit: int, authentication_key: bytes) -> None:
        self.directory = directory
        self.size_limit = size_limit
        self._authentication_key = authentication_key
        self._room = 0  # Bytes that may still be written before the directory's size is measured again.

    def path(self, key: bytes) -> Path:
        """Where the entry of `key` is, or would be."""
        return self.directory / (key.hex() + _SUFFIX)

    def read(self, key: bytes) -> bytes | None:
        """The payload stored under `key`, or None. An entry that fails its checks is removed."""
        path = self.path(key)
        try:
            with open_regular(path) as file:
                head, payload = file.read(_OVERHEAD), read_open_file(file, self.size_limit)
        except (NotRegularFileError, FileTooLargeError):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        except OSError:
            return None
        is_valid = hmac.compare_digest(head, self._head(key, payload))
        with contextlib.suppress(OSError):
            if is_valid:
                os.utime(path)  # The order of eviction: access times are often not kept by the file system.
            else:
                path.unlink()
        return payload if is_valid else None

    def write(self, key: bytes, payload: bytes) -> None:
        """Store `payload` under `key`, if the file system lets us and it fits."""
        size = _OVERHEAD + len(payload)
        if size > self.size_limit:
            return
        with contextlib.suppress(OSError):
            self._make_room(size)
            _write(self.path(key), self._head(key, payload), payload)

    def _head(self, key: bytes, payload: bytes) -> bytes:
        """What stands before a payload, which may be large: it is not copied for that."""
        header = _HEADER.pack(_MAGIC, FORMAT_VERSION, key, len(payload))
        code = hmac.new(self._authentication_key, header, "sha256")
        code.update(payload)
        return header + code.digest()

    def _make_room(self, wanted: int) -> None:
        """Evict before the directory outgrows its bound; measure it only now and then, as others write to it too."""
        with _eviction:
            if wanted > self._room:
                self._room = max(self._evict(self.size_limit - wanted), 0) // 4 + wanted
            self._room -= wanted

    def _evict(self, target: int) -> int:
        """Remove entries, oldest use first, until at most `target` bytes are left. Gives the free bytes below it."""
        entries, now = [], time.time()
        with os.scandir(self.directory) as listing:
            for item in listing:
                with contextlib.suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if item.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime_ns, status.st_size, item.path))
                    elif item.name.startswith(_TEMPORARY_PREFIX) and now - status.st_mtime > _STALE_SECONDS:
                        Path(item.path).unlink()  # Its writer died.
        used = sum(size for _, size, _ in entries)
        if used <= target:
            return target - used
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                Path(path).unlink()
            used -= size
            if used <= target * 3 // 4:  # Well below, so that the next writes need not evict again.
                break
        return target - used


@functools.lru_cache(maxsize=8)  # One warning for a directory, not one for each operator.
def _open_cache(directory: str, size_limit: int) -> ObjectCache | None:
    path = Path(directory).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        complaint = _distrust(path.stat(), stat.S_ISDIR)
        if complaint is None:
            return ObjectCache(path, size_limit, _authentication_key(path / "key"))
    except OSError as error:
        complaint = error.strerror or str(error)
    warnings.warn(
        f"the cache directory {path} is not used, so code is compiled in every process: {complaint} "
        f"({DIRECTORY_VARIABLE} names another directory, {CACHE_VARIABLE}=0 switches the cache off)",
        CacheWarning,
        stacklevel=4,
    )
    return None


def _distrust(status: os.stat_result, is_expected_kind: Callable[[int], bool]) -> str | None:
    """Why a file or directory could have been written by somebody else; None if it could not."""
    if not is_expected_kind(status.st_mode):
        return "it is of another kind"
    if os.name != "posix":
        return None  # The user's own profile directory has an access list that keeps others out.
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & 0o022:
        return "other users can write to it"
    return None


def _authentication_key(path: Path) -> bytes:
    """The key in `path`, made now if there is none that can be trusted."""
    for _ in range(3):
        with contextlib.suppress(FileNotFoundError):
            key = _read_key(path)
            if key is not None:
                return key
            path.unlink()  # Only what was seen there: what is there by now may be another process's new key.
        # Another process may do the same now: the first to create the file wins, the other reads it.
        with contextlib.suppress(FileExistsError):
            _write(path, os.urandom(_KEY_BYTES), replace=False)
    raise OSError("its key file cannot be made")


def _read_key(path: Path) -> bytes | None:
    """The key in a file; None if it cannot be trusted. Raises FileNotFoundError where there is none."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            private = os.name != "posix" or not status.st_mode & 0o077
            if _distrust(status, stat.S_ISREG) is not None or not private:
                return None
            key = file.read(_KEY_BYTES + 1)
    except NotRegularFileError:
        return None
    return key if len(key) == _KEY_BYTES else None


_TEMPORARY_PREFIX = ".new-"


def _write(path: Path, *parts: bytes, replace: bool = True) -> None:
    """Give `path` the contents `parts` in one step, or raise OSError (FileExistsError unless `replace`)."""
    write_atomically(
        path,
        lambda file: file.writelines(parts),
        put_in_place=Path.replace if replace else _link,
        mode=0o600,
        prefix=_TEMPORARY_PREFIX,
    )


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # A file system without hard links: the last writer wins, and the others' entries are made anew.
        temporary.replace(path)


def _platform_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "opendml" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opendml"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opendml"


def _parse_size(text: str) -> int:
    if not text:
        return DEFAULT_SIZE_LIMIT
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)", text.upper())
    if match is None:
        raise ConfigurationError(
            f"{SIZE_VARIABLE}={quoted(text)}: expected a number of bytes such as 1000000, 512K, 64M or 2G"
        )
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
