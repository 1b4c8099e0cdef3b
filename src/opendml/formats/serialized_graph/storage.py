"""A graph's file and the files of its constants, stored and read as one thing.

The graph's file comes last, in one step, and names the others. A constant whose usual file is there already, with other
content, gets a name that holds a hash of its content; so nothing that an older graph refers to is ever written over.
Who reads while a graph is replaced sees the old set of files or the new one; a saving that fails leaves the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import read_file, write_bytes
from opendml.description.quoting import quoted

__all__ = ["file_name", "plain_source", "replace_files", "stamp", "stored_sources"]

OTHER_GRAPHS_LIMIT: Final = 64 << 20
"""The largest file beside a graph that is looked at to see whether it is a graph too, and shares constants."""

_HASHED_NAME = re.compile(r"(.+)\.([0-9a-f]{32})", re.DOTALL)


def stamp(path: Path) -> tuple[int, ...]:
    """What differs once another file has taken the place of this one; empty if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def plain_source(source: str, data: bytes) -> str:
    """The name of a constant without the hash of its content, if it ends with that."""
    match = _HASHED_NAME.fullmatch(source)
    return match[1] if match is not None and match[2] == _hash(data) else source


def stored_sources(path: Path, constants: Mapping[str, bytes], file_name: Callable[[str], str]) -> dict[str, str]:
    """Under which source each constant is to be stored: its own, or that and the hash of its content.

    ``file_name`` tells the file of a source. Raises ModelFormatError where that is the graph's own.
    """
    replaces = path.exists()
    stored: dict[str, str] = {}
    taken: dict[str, bytes] = {}
    for source, data in constants.items():
        name = file_name(source)
        if name.casefold() == path.name.casefold():
            raise ModelFormatError("", f"the file of the constant {quoted(source)} would be that of the graph")
        # Some file systems take names for the same that differ in letter case.
        is_free = taken.setdefault(name.casefold(), data) == data
        has_place = _holds(path.parent / name, data) if (path.parent / name).exists() else not replaces
        stored[source] = source if is_free and has_place else f"{source}.{_hash(data)}"
    return stored


def replace_files(
    path: Path, graph: bytes, files: Mapping[str, bytes], files_of: Callable[[bytes], Iterable[str]]
) -> None:
    """Write the files of constants, then the graph's, then remove those that no graph of the folder needs any longer.

    ``files_of`` gives the names of the files that the bytes of a graph refer to. Raises OSError; then everything is as
    it was before.
    """
    folder = path.parent
    old = _files_of_graph(path, files_of)
    made: list[Path] = []
    try:
        for name, data in files.items():
            if not _holds(folder / name, data):
                if not (folder / name).exists():
                    made.append(folder / name)
                write_bytes(folder / name, data)
        write_bytes(path, graph)
    except BaseException:
        for file in made:
            with contextlib.suppress(OSError):
                file.unlink()
        raise
    unused = {name for name in old if name not in files and name != path.name}
    if unused:
        unused -= _files_of_other_graphs(path, unused | files.keys(), files_of)
    for name in unused:
        with contextlib.suppress(OSError):
            (folder / name).unlink()


def _files_of_graph(path: Path, files_of: Callable[[bytes], Iterable[str]]) -> set[str]:
    """The files that a graph refers to; none if it cannot be read."""
    try:
        return set(files_of(read_file(path, OTHER_GRAPHS_LIMIT)))
    except (OSError, ModelFormatError):
        return set()


def _files_of_other_graphs(path: Path, constants: set[str], files_of: Callable[[bytes], Iterable[str]]) -> set[str]:
    """The files that other graphs in the folder refer to; all, if there are files that are too large to look at."""
    found: set[str] = set()
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name in constants or entry.name == path.name or not entry.name.lower().endswith(".bin"):
                continue
            if entry.stat().st_size > OTHER_GRAPHS_LIMIT:
                return constants
            found |= _files_of_graph(Path(entry.path), files_of)
    return found


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file has this content."""
    try:
        return path.stat().st_size == len(data) and read_file(path, len(data)) == data
    except OSError:
        return False


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def file_name(source: str, path: str) -> str:
    """The name of the file of a constant; characters that are separators or special to some system become ``_``, as
    in the files that ONNX Runtime writes, so that it is always a name in the same folder."""
    if not source.isprintable():
        raise ModelFormatError(path, "the name of a constant has characters that no file may have")
    return "".join("_" if one in '\\/:*?"<>|' else one for one in source) + ".bin"
