"""The command line: ``opendml run``, ``check``, ``ops``, ``explain``, ``profile``, ``map`` and ``completion``.

Exit status: 0 success; 1 the model was read and is invalid (``check``), or the reader of the output has gone; 2 the
input cannot be used; 130 and 143 interrupted and terminated. Results go to standard output, errors, notes and progress
to standard error.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from opendml.command_line.commands import COMMANDS, overview
from opendml.command_line.output import ExitRequest, complain, reported_errors
from opendml.command_line.parsing import UsageError, help_text, option_of, parse
from opendml.description.names import did_you_mean
from opendml.description.quoting import arguments_as, listed, quoted

__all__ = ["main", "run_program"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The program ``opendml``: executes a command line, by default this process's, and returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names in a model may hold what the terminal's encoding does not.
            stream.reconfigure(errors="backslashreplace")
    try:
        with reported_errors():
            return _execute(list(sys.argv[1:] if arguments is None else arguments))
    except ExitRequest as request:
        return request.status


def run_program() -> NoReturn:
    """``main`` as the whole of a process, which ends with its status."""
    # A termination takes the way of any other exception, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(main())


def _terminate(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _execute(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help", "help", ""):
        sys.stdout.write(overview())
        return 0 if first else 2
    if first == "--version":
        from opendml._version import __version__

        sys.stdout.write(f"opendml {__version__}\n")
        return 0
    if first not in COMMANDS:
        kind = "option" if first.startswith("-") else "command"
        hint = did_you_mean(first, [*COMMANDS, "--help", "--version"]) or f"; known: {listed(COMMANDS)}"
        complain(f"unknown {kind} {quoted(first)}{hint} (opendml --help tells all)")
        return 2
    command = COMMANDS[first]
    try:
        values = parse(command, arguments[1:])
    except UsageError as error:
        complain(f"{error} (opendml {command.name} --help tells all)")
        return 2
    if values is None:
        sys.stdout.write(help_text(command))
        return 0
    with arguments_as(option_of):
        return command.load()(values)
