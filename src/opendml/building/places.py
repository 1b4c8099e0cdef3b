"""Lines of the user's program, for messages and names of nodes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from opendml.description.errors import InvalidDescriptorError


class Place(NamedTuple):
    """A line of a program."""

    file: str
    line: int


_PACKAGE: Final = str(Path(__file__).parent.parent)


def caller_place() -> Place:
    """The innermost line outside of this package that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


@contextlib.contextmanager
def at_place(place: Place) -> Iterator[None]:
    """InvalidDescriptorErrors raised inside say where the program was."""
    try:
        yield
    except InvalidDescriptorError as error:
        raise located(error, place) from None


def located(error: InvalidDescriptorError, place: Place) -> InvalidDescriptorError:
    """The error with a line of the program in its message."""
    message = str(error).split("\n", 1)[0]
    if message.startswith('File "'):
        return error
    text = f'File "{place.file}", line {place.line}: {message}'
    return InvalidDescriptorError(text, error.violations, desc=error.desc, feature_level=error.feature_level)
