"""What commands print, and how errors become one line and an exit status."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from opendml.description.errors import OpendmlError
from opendml.description.quoting import cut, printable

if TYPE_CHECKING:
    from opendml.formats.dxdispatch.executor import Progress
    from opendml.inspection.text_table import Table

__all__ = [
    "ExitRequest",
    "complain",
    "fail",
    "note",
    "print_json",
    "print_line",
    "print_table",
    "progress_bar",
    "readable_errors",
    "reported_errors",
]


class ExitRequest(Exception):  # noqa: N818 - it is no error
    """The program is to end with this status; everything has been said."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)


def print_line(text: str = "") -> None:
    """A line on standard output, without what could steer a terminal."""
    sys.stdout.write(printable(text) + "\n")


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_table(table: Table) -> None:
    """A table on standard output, as wide as the terminal is."""
    from opendml.inspection.text_table import width_of

    print_line(table.text(width_of(sys.stdout)))


def note(message: str) -> None:
    """A remark on standard error."""
    _write_error("note: ", "33", message)


def complain(message: str) -> None:
    """An error on standard error."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    _write_error("error: ", "1;31", message)


def fail(message: str) -> NoReturn:
    """An error on standard error, and the end of the program with status 2."""
    complain(message)
    raise ExitRequest(2)


@contextlib.contextmanager
def readable_errors(model: Path | None, as_json: bool = False) -> Iterator[None]:
    """Errors of the package and of the operating system as one message, with the model's name, and exit status 2.

    With ``as_json`` standard output gets them too: ``{"error": {"path", "message"}}``.
    """
    try:
        yield
    except OpendmlError as error:
        if as_json:
            path, message = getattr(error, "path", ""), getattr(error, "message", str(error))
            print_json({"error": {"path": path, "message": message}})
        fail(f"{cut(str(model), 300)}: {error}" if model is not None else str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        message = f"{cut(str(error.filename or model), 300)}: {error.strerror or error}"
        if as_json:
            print_json({"error": {"path": "", "message": message}})
        fail(message)


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """What any command may end with."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone, `opendml ops | head` for instance: nothing is left to say.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ExitRequest(1) from None
    except MemoryError:
        fail("out of memory")
    except KeyboardInterrupt:
        complain("interrupted")
        raise ExitRequest(130) from None


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """Something to tell how far a compilation or a dispatch is, drawn on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    drawn = False

    def report(name: str, share: float) -> None:
        nonlocal drawn
        if share < 1:
            _draw(name, max(share, 0.0))
            drawn = True
        elif drawn:
            _erase()
            drawn = False

    try:
        yield report
    finally:
        if drawn:
            _erase()


_BAR_WIDTH = 30


def _draw(name: str, share: float) -> None:
    """``compiling x  ########------  55%``, over the line drawn before."""
    import shutil

    full = round(share * _BAR_WIDTH)
    bar = f"{'#' * full}{'-' * (_BAR_WIDTH - full)} {share:4.0%}"
    room = max(8, shutil.get_terminal_size().columns - len(bar) - 3)
    sys.stderr.write(f"\r\x1b[K{printable(name).replace(chr(10), ' ')[:room]}  {bar}")
    sys.stderr.flush()


def _erase() -> None:
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _write_error(prefix: str, color: str, message: str) -> None:
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb":
        prefix = f"\x1b[{color}m{prefix}\x1b[0m"
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{prefix}{printable(message)}\n")
