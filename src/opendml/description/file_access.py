"""Reading and writing files: regular ones only, never more than expected, written whole or not at all.

Paths come from users and from the files of other people. A device such as /dev/zero has no end, and a pipe may make a
reader wait forever, so that neither is read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

__all__ = [
    "UNFINISHED",
    "FileTooLargeError",
    "NotRegularFileError",
    "open_regular",
    "read_file",
    "read_open_file",
    "write_atomically",
    "write_bytes",
]

UNFINISHED: Final = ".unfinished"
"""What the names of files that are being written end with."""


class NotRegularFileError(OSError):
    """A device, a pipe or a socket stands where a file is expected."""


class FileTooLargeError(OSError):
    """A file has more bytes than anybody expects."""


_READ_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_BINARY", "O_CLOEXEC", "O_NOCTTY"))


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened for reading without ever waiting. Raises OSError, also for what is no regular file."""
    _check_regular(os.stat(path), path)  # noqa: PTH116 - opening some devices does something already
    descriptor = os.open(path, _READ_FLAGS)
    try:
        _check_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb", closefd=True)
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Raises OSError, also for what is longer or no file."""
    with open_regular(path) as file:
        return read_open_file(file, limit)


def read_open_file(file: BinaryIO, limit: int) -> bytes:
    """The rest of a file that has at most ``limit`` bytes. Raises OSError if it has more."""
    size = os.fstat(file.fileno()).st_size
    # A size may be wrong: files grow, and those of /proc have none. Reading takes memory for what it is asked for.
    content = b"" if size > limit else file.read(size + 1)
    while size < len(content) <= limit:
        size = len(content)
        content += file.read(min(max(size, _PART), limit + 1 - size))
    if size > limit or len(content) > limit:
        raise FileTooLargeError(errno.EFBIG, f"it has {max(size, len(content))} bytes, more than {limit}", file.name)
    return content


_PART: Final = 1 << 16
"""Bytes of a file of unknown size that are read at once, at least."""


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file of these bytes, as ``write_atomically``."""

    write_atomically(path, lambda file: file.write(data))


def write_atomically(
    path: Path,
    write: Callable[[BinaryIO], object],
    *,
    put_in_place: Callable[[Path, Path], object] = Path.replace,
    mode: int = 0o666,
    prefix: str = ".",
) -> None:
    """Write a file whole or not at all: it appears under its name only once it is complete.

    Whatever ends the writing before, an interrupt too, nothing is left behind. What is there and no regular file, such
    as /dev/stdout, is written to as it is. ``put_in_place`` gives the finished file its name; ``mode`` are its
    permissions and ``prefix`` is what the name of the unfinished one begins with. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_special(path):
        with path.open("wb") as file:
            write(file)
        return
    unfinished = path.with_name(f"{prefix}{path.name[:100]}.{os.urandom(8).hex()}{UNFINISHED}")
    try:
        with os.fdopen(os.open(unfinished, _WRITE_FLAGS, mode), "wb") as file:
            write(file)
        put_in_place(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()


_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _check_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularFileError(errno.EINVAL, "it is no regular file", str(path))


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
