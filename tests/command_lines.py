"""The program ``opendml`` within this process."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from opendml.command_line import main


@dataclass(frozen=True)
class Result:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(*arguments: object) -> Result:
    """What a command line prints, and its exit status. Whatever the program does not handle is raised."""
    with contextlib.redirect_stdout(io.StringIO()) as stdout, contextlib.redirect_stderr(io.StringIO()) as stderr:
        status = main([str(argument) for argument in arguments])
    return Result(status, stdout.getvalue(), stderr.getvalue())
