"""How messages quote what users give: readable, cut to a bounded length, and without what could steer a terminal."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final

__all__ = ["QUOTED_LENGTH", "argument", "arguments_as", "ascii_only", "cut", "listed", "printable", "quoted"]

QUOTED_LENGTH: Final = 80
"""Characters of a quotation, at most."""

LISTED_NAMES: Final = 12
"""Names of a list that a message shows, at most."""


def cut(text: str, limit: int = QUOTED_LENGTH) -> str:
    """Text of at most ``limit`` characters; three dots stand for what is left out."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def quoted(value: object, limit: int = QUOTED_LENGTH) -> str:
    """Any value as Python writes it, on one line and cut: ``'Szes'``, ``[1, 2, 3]``.

    Never raises: an object that cannot be shown is called by its type. Lone surrogates and control characters of a
    text are escaped.
    """
    if isinstance(value, str):
        return _quoted_text(value, limit)
    if type(value) is int and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = _REPRESENTATION.repr(value)
    except Exception:  # whatever an object's own code raises
        text = f"<{type(value).__name__}>"
    return cut(text if text.isprintable() else " ".join(ascii(text)[1:-1].replace("\\n", " ").split()), limit)


def listed(names: Iterable[object], nothing: str = "none", limit: int = LISTED_NAMES) -> str:
    """Names separated by commas, the first ``limit`` of them, each cut: ``InputTensor, OutputTensor``."""
    first = list(islice(names, limit + 1))
    shown = [_plain(name) for name in first[:limit]]
    rest = len(names) - limit if isinstance(names, Collection) else 0
    more = [f"... ({rest} more)" if rest else "..."] if len(first) > limit else []
    return ", ".join(shown + more) or nothing


def plural(count: int, noun: str) -> str:
    """``1 operator``, ``2 operators``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _in_python(name: str, value: object) -> str:
    return name if value is None else f"{name}={quoted(value)}"


_spelling: Final = ContextVar[Callable[[str, object], str]]("spelling", default=_in_python)


def argument(name: str, value: object = None) -> str:
    """An argument of a function, or its name alone, in the words of who reads the message: ``sizes={'batch': 1}`` of
    Python's, ``--size batch=1`` where the command line says so by ``arguments_as``."""
    return _spelling.get()(name, value)


@contextmanager
def arguments_as(spelling: Callable[[str, object], str]) -> Iterator[None]:
    """Inside, messages write arguments as ``spelling(name, value)`` does; a value of None is none."""
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)


def printable(text: str) -> str:
    """Text from a file without what could steer a terminal; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def ascii_only(text: str) -> str:
    """Text that a stream of any encoding can write: other characters as Python escapes them, ``\\xfc``."""
    return text if text.isascii() else text.encode("ascii", "backslashreplace").decode("ascii")


def _quoted_text(text: str, limit: int) -> str:
    shown = repr(str.__getitem__(text, slice(limit)))
    if len(text) <= limit and len(shown) <= 2 * limit:
        return shown
    return f"{shown[: limit - 4]}...{shown[-1]}"


def _plain(name: object) -> str:
    """A name without quotation marks where it can do without."""
    return cut(name) if isinstance(name, str) and name.isprintable() else quoted(name)


class _Representation(reprlib.Repr):
    """Python's notation with a bound on the elements and characters of each level."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = QUOTED_LENGTH
        self.maxlong = QUOTED_LENGTH
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = LISTED_NAMES
        self.maxlevel = 3

    def repr_int(self, value: int, level: int) -> str:
        """As Python writes it, as long as it does: it refuses thousands of digits."""
        return repr(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"

    def repr_instance(self, value: object, level: int) -> str:
        """An object as it shows itself, or by its type."""
        try:
            return cut(repr(value), self.maxother)
        except Exception:  # whatever an object's own code raises
            return f"<{type(value).__name__}>"

    def repr_ndarray(self, value: Any, level: int) -> str:
        """An array by its type and sizes."""
        return f"<array of {value.dtype} {list(value.shape)}>"


_REPRESENTATION = _Representation()
