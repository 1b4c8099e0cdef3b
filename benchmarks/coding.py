"""Dataclasses as JSON and back: what a file says is compared with the types of the fields, and with their ranges."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from typing import Any, Final

LARGEST: Final = 1 << 63
"""No number of rounds, bytes or operations is as large."""


CAME_LATER: Final = types.MappingProxyType({"came_later": True})
"""Of a field that files from before it lack: its default stands for what nobody wrote down."""


class InvalidDataError(ValueError):
    """Something in a file is not what its place asks for; the message has both."""


def encode(value: Any) -> Any:
    """What ``json`` writes: dataclasses as objects, text on one line."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, dict):
        return {encode(key): encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() else " " for letter in value)
    return value


def decode(kind: Any, found: Any, where: str = "") -> Any:
    """A value of a type: a dataclass, ``list[T]``, ``tuple[T, ...]``, ``tuple[T, U]``, ``dict[str, T]``, ``T | None``,
    a number, a truth or a line of text. Raises InvalidDataError where the data are something else."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _object(kind, found, where)
    if origin in (typing.Union, types.UnionType):
        (one,) = (argument for argument in arguments if argument is not type(None))
        return None if found is None else decode(one, found, where)
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        members = _expect(list, "a list", found, where)
        return origin(decode(arguments[0], member, f"{where}[{number}]") for number, member in enumerate(members))
    if origin is tuple:
        members = _expect(list, "a list", found, where)
        if len(members) != len(arguments):
            raise InvalidDataError(f"{where}: expected {len(arguments)} members, got {len(members)}")
        pairs = enumerate(zip(arguments, members, strict=True))
        return tuple(decode(argument, member, f"{where}[{number}]") for number, (argument, member) in pairs)
    if origin is dict:
        members = _expect(dict, "an object", found, where)
        return {_text(key, where): decode(arguments[1], member, f"{where}.{key}") for key, member in members.items()}
    return _SIMPLE[kind](found, where)


def _object(kind: Any, found: Any, where: str) -> Any:
    members = _expect(dict, "an object", found, where)
    hints = typing.get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    members = {field.name: field.default for field in fields if field.metadata == CAME_LATER} | members
    names = [field.name for field in fields]
    for name in names:
        if name not in members:
            raise InvalidDataError(f"{where or 'the file'}: {name!r} is missing")
    for name in members:
        if name not in names:
            raise InvalidDataError(f"{where or 'the file'}: {_short(name)} is not known")
    values = {name: decode(hints[name], members[name], f"{where}.{name}".lstrip(".")) for name in names}
    try:
        return kind(**values)
    except ValueError as error:
        raise InvalidDataError(f"{where}: {error}") from None


def _expect(kind: type, name: str, found: Any, where: str) -> Any:
    if not isinstance(found, kind):
        raise InvalidDataError(f"{where or 'the file'}: expected {name}, got {_short(found)}")
    return found


def _text(found: Any, where: str) -> str:
    if not isinstance(found, str) or not found.isprintable():
        raise InvalidDataError(f"{where}: expected a line of text, got {_short(found)}")
    return found


def _truth(found: Any, where: str) -> bool:
    truth: bool = _expect(bool, "true or false", found, where)
    return truth


def _count(found: Any, where: str) -> int:
    if type(found) is not int or not 0 <= found < LARGEST:
        raise InvalidDataError(f"{where}: expected a number from 0 on, got {_short(found)}")
    return found


def _amount(found: Any, where: str) -> float:
    if type(found) not in (int, float) or not 0 <= found < LARGEST or not math.isfinite(found):
        raise InvalidDataError(f"{where}: expected a finite number from 0 on, got {_short(found)}")
    return float(found)


_SIMPLE: Final = {str: _text, bool: _truth, int: _count, float: _amount}


def _short(found: Any) -> str:
    """The beginning of what a file has, for a message."""
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:60]}..."
