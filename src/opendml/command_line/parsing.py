"""What a command of the program looks like, stated once: parsed, explained by ``--help`` and completed by shells."""

from __future__ import annotations

import argparse
import importlib
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from opendml.description.names import did_you_mean
from opendml.description.quoting import quoted

__all__ = [
    "Command",
    "Option",
    "UsageError",
    "dimension",
    "entry",
    "files",
    "help_text",
    "names",
    "number",
    "numbers",
    "parse",
    "path",
    "several",
    "shape",
    "sizes",
]

Values = argparse.Namespace
HELP_WIDTH: Final = 100


class UsageError(Exception):
    """A command line that means nothing, in one line."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument of a command: an option with names such as ``--threads``, or, without dashes, an argument by place.

    ``metavar`` is what its value is called in the help; without one it is a switch. ``convert`` makes the value of its
    text, or raises ``argparse.ArgumentTypeError``. ``completes``: files, folders, or one of these words.
    ``merges``: it may be given several times, and its values, dictionaries, become one. ``means_nothing`` is the reason
    why DxDispatch's option is accepted and does nothing here.
    """

    names: tuple[str, ...]
    help: str = ""
    metavar: str = ""
    convert: Callable[[str], Any] = str
    default: Any = None
    required: bool = False
    completes: tuple[str, ...] | str = ()
    means_nothing: str = ""
    merges: bool = False

    @property
    def is_positional(self) -> bool:
        """Whether it is given by its place."""
        return not self.names[0].startswith("-")

    @property
    def variable(self) -> str:
        """The name of its value."""
        return next((name for name in self.names if not _is_short(name)), self.names[0]).lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Command:
    """A command; ``module`` has the function ``execute``, which takes the values and gives the exit status."""

    name: str
    module: str
    summary: str
    description: str
    examples: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]

    def load(self) -> Callable[[Values], int]:
        """The function that executes the command."""
        execute: Callable[[Values], int] = importlib.import_module(self.module).execute
        return execute


def number(minimum: int, maximum: int = 2**32 - 1) -> Callable[[str], int]:
    """What reads an integer from ``minimum`` to ``maximum``."""

    def convert(text: str) -> int:
        digits = text.strip()
        value = int(digits) if digits.lstrip("-").isdecimal() and digits.isascii() and len(digits) < 20 else None
        if value is None or not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"expected a number from {minimum} to {maximum}, got {quoted(text)}")
        return value

    return convert


def sizes(text: str) -> dict[str, int | list[int]]:
    """What reads sizes of dimensions and inputs: ``batch=1,image=1x3x480x640``."""
    found: dict[str, int | list[int]] = {}
    for part in text.split(","):
        name, equals, given = part.rpartition("=")
        numbers = [number(0)(size) for size in given.split("x")] if equals and name else []
        if not numbers:
            raise argparse.ArgumentTypeError(f"expected NAME=SIZE or NAME=SIZExSIZE, got {quoted(part)}")
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def dimension(text: str) -> dict[str, int]:
    """What reads DxDispatch's size of dimensions: ``N:2``."""
    return {name: number(1)(given) for name, given in entry(text).items()}


def shape(text: str) -> dict[str, list[int]]:
    """What reads DxDispatch's sizes of a tensor: ``image:1,3,480,640``."""
    return {name: [number(1)(size) for size in given.split(",")] for name, given in entry(text).items()}


def entry(text: str) -> dict[str, str]:
    """What reads DxDispatch's pairs, ``key:value``."""
    name, colon, given = text.rpartition(":")
    if not (colon and name):
        raise argparse.ArgumentTypeError(f"expected NAME:VALUE, got {quoted(text)}")
    return {name: given}


def numbers(text: str) -> dict[str, float | list[float]]:
    """What reads values of inputs: ``sr=16000,axes=0x1``."""
    found: dict[str, float | list[float]] = {}
    for part in text.split(","):
        name, equals, given = part.rpartition("=")
        try:
            values = [int(one) if one.strip().lstrip("-").isdecimal() else float(one) for one in given.split("x")]
        except ValueError:
            values = []
        if not (equals and name and values):
            raise argparse.ArgumentTypeError(f"expected NAME=NUMBER or NAME=NUMBERxNUMBER, got {quoted(part)}")
        found[name] = values if len(values) > 1 else values[0]
    return found


def files(text: str) -> dict[str, str]:
    """What reads files for inputs: ``image=cat.png``; a file alone is for all inputs, under the name ``*``."""
    name, equals, given = text.partition("=")
    if not equals:
        name, given = "*", text
    if not name or not given or "\0" in given:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {quoted(text)}")
    return {name: given}


def names(text: str) -> dict[str, str]:
    """What reads names for names: ``x=image,y=mask``; a name alone is its own."""
    found = {}
    for part in text.split(","):
        name, equals, given = part.partition("=")
        if not name or (equals and not given):
            raise argparse.ArgumentTypeError(f"expected NAME=NAME, got {quoted(part)}")
        found[name] = given or name
    return found


def several(convert: Callable[[str], Any], separator: str) -> Callable[[str], tuple[Any, ...]]:
    """What reads some values, one after another: ``224x224``, ``0.485,0.456,0.406``."""

    def read(text: str) -> tuple[Any, ...]:
        try:
            return tuple(convert(part) for part in text.split(separator))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"expected numbers with {separator!r} between them, got {quoted(text)}"
            ) from None

    return read


def path(text: str) -> Path:
    """A path of the command line."""
    if "\0" in text:
        raise argparse.ArgumentTypeError("a path cannot have the character \\0")
    return Path(text)


def parse(command: Command, arguments: Sequence[str]) -> Values | None:
    """The values of a command's arguments by their variables; None where help is asked for. Raises UsageError."""
    parser = _Parser(prog=f"opendml {command.name}", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    for option in command.options:
        _declare(parser, option)
    if _asks_for_help(arguments):
        return None
    values, rest = parser.parse_known_intermixed_args(arguments)
    if rest:
        known = [name for option in command.options for name in option.names if name.startswith("-")]
        kind = "option" if rest[0].startswith("-") else "argument"
        raise UsageError(f"unknown {kind} {quoted(rest[0])}{did_you_mean(rest[0], known if kind == 'option' else ())}")
    for option in command.options:
        if option.required and getattr(values, option.variable) is None:
            raise UsageError(f"{option.metavar} is missing")
    return values


_OPTIONS: Final = {
    "batch_size": "--batch",
    "cluster": "--ray",
    "columns": "--column",
    "fuse_quantization": "--no-fuse-quantization",
    "sizes": "--size",
    "values": "--value",
}
"""The options of arguments of functions that have another name."""


def option_of(name: str, value: object = None) -> str:
    """What a user of the command line types for an argument of a function: ``--size batch=1,x=1x3`` for
    ``sizes={"batch": 1, "x": [1, 3]}``."""
    option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    if value is None or value is True:
        return option
    pairs = value.items() if isinstance(value, Mapping) else None
    return f"{option} {_typed(value) if pairs is None else ','.join(f'{one}={_typed(own)}' for one, own in pairs)}"


def _typed(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def help_text(command: Command) -> str:
    """What ``--help`` prints."""
    usage = [f"opendml {command.name}", *(_usage(option) for option in command.options if option.is_positional)]
    parts = [" ".join([*usage, "[OPTIONS]"]), command.description, "", "Examples:"]
    width = max(len(line) for line, _ in command.examples)
    parts += [f"  {line.ljust(width)}   {what}".rstrip() for line, what in command.examples]
    groups = {
        "Arguments": [option for option in command.options if option.is_positional],
        "Options": [option for option in command.options if not option.is_positional and not option.means_nothing],
        "Options of DxDispatch that mean nothing here": [option for option in command.options if option.means_nothing],
    }
    text = "\n".join(["Usage: " + parts[0], "", *parts[1:], ""])
    return text + "".join(f"\n{title}:\n{_rows(options)}" for title, options in groups.items() if options)


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong with a command line."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message.removeprefix("argument ")[:400])


class _Merged(argparse.Action):
    """Puts the entries of a dictionary to those that are there."""

    def __call__(self, parser: object, namespace: Values, values: Any, option_string: str | None = None) -> None:
        """What argparse calls."""
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), **values})


def _declare(parser: _Parser, option: Option) -> None:
    if option.is_positional:
        parser.add_argument(option.variable, nargs="?", type=option.convert, default=option.default)
    elif option.merges:
        parser.add_argument(*option.names, dest=option.variable, type=option.convert, action=_Merged)
    elif option.metavar:
        parser.add_argument(*option.names, dest=option.variable, type=option.convert, default=option.default)
    else:
        parser.add_argument(*option.names, dest=option.variable, action="store_true")


def _asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether help is asked for, whatever else is wrong."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "-h" in own or "--help" in own


def _usage(option: Option) -> str:
    return option.metavar if option.required else f"[{option.metavar}]"


def _is_short(name: str) -> bool:
    return name.startswith("-") and not name.startswith("--")


def _rows(options: Sequence[Option]) -> str:
    heads = [_head(option) for option in options]
    indent = min(34, max(map(len, heads)) + 4)
    width = min(HELP_WIDTH, max(60, shutil.get_terminal_size((HELP_WIDTH, 24)).columns))
    lines = []
    for option, head in zip(options, heads, strict=True):
        text = textwrap.wrap(option.means_nothing or option.help, width - indent)
        if len(head) + 4 > indent:
            lines.append(f"  {head}")
        else:
            text[0] = f"  {head}".ljust(indent) + text[0]
        lines += [line if line.startswith("  ") else " " * indent + line for line in text]
    return "\n".join(lines) + "\n"


def _head(option: Option) -> str:
    if option.is_positional:
        return option.metavar
    return ", ".join(option.names) + (f" {option.metavar}" if option.metavar else "")
