"""Reading values of parsed JSON, with errors that say where: ``Desc.InputTensor.Sizes[2]: expected an integer``."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from opendml.description.enums import DirectMLEnum, DirectMLFlags
from opendml.description.errors import DescriptorFormatError, FormatProblem
from opendml.description.names import did_you_mean, nearest
from opendml.description.quoting import cut, printable

EnumType = TypeVar("EnumType", bound=DirectMLEnum)
FlagsType = TypeVar("FlagsType", bound=DirectMLFlags)

_SPECIAL_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def join(path: str, name: str) -> str:
    """The path of a member."""
    return f"{path}.{name}" if path else name


def describe(value: object, limit: int = 60) -> str:
    """A value for an error message, cut to a readable length."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    text = str(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return printable(cut(text, limit)).replace("\n", "\\n")


DXDISPATCH_MODEL: Final = "a DxDispatch model; opendml run, check, explain and profile read it"
"""What readers say that are given a whole model."""


def read_object(json: object, path: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(json, Mapping):
        hint = "; json.loads parses a text" if isinstance(json, (str, bytes)) and not path else ""
        raise DescriptorFormatError(path, f"expected an object, got {describe(json)}{hint}")
    return json


def read_array(json: object, path: str) -> list[Any] | tuple[Any, ...]:
    """A JSON array."""
    if not isinstance(json, (list, tuple)):
        raise DescriptorFormatError(path, f"expected an array, got {describe(json)}")
    return json


PROBLEMS: Final = 100
"""Problems that are told at once, at most."""


class Reading:
    """Collects what cannot be read, so that all of it is told at once and not only the first."""

    def __init__(self) -> None:
        self.problems: list[FormatProblem] = []

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Goes on behind a ``with`` block in which something could not be read."""
        try:
            yield
        except DescriptorFormatError as error:
            self.problems += error.problems
            if len(self.problems) >= PROBLEMS:
                self.finish()

    def finish(self) -> None:
        """Raises DescriptorFormatError with all problems, if there are any."""
        if self.problems:
            (path, message), *others = self.problems[:PROBLEMS]
            raise DescriptorFormatError(path, message, others)


def check_fields(json: Mapping[str, Any], known: Collection[str], required: Iterable[str], path: str) -> None:
    """Raises for unknown fields, naming the closest known ones, and for missing ones that none of them is meant for."""
    reading, meant = Reading(), set[str | None]()
    for name in json:
        if name not in known:
            meant.add(nearest(str(name), known))
            hint = did_you_mean(str(name), known) or (f"; expected {' or '.join(known)}" if len(known) <= 3 else "")
            with reading.attempt():
                raise DescriptorFormatError(join(path, str(name)), f"unknown field{hint}")
    for name in required:
        if name not in json and name not in meant:
            with reading.attempt():
                raise DescriptorFormatError(join(path, name), "the field is missing")
    reading.finish()


def read_integer(json: object, path: str) -> int:
    """An integer; a number with a fraction of 0 counts as one."""
    if isinstance(json, float) and json.is_integer():
        return int(json)
    if isinstance(json, bool) or not isinstance(json, int):
        raise DescriptorFormatError(path, f"expected an integer, got {describe(json)}")
    return json


def read_integers(json: object, path: str) -> tuple[int, ...]:
    """An array of integers."""
    return tuple(read_integer(value, f"{path}[{position}]") for position, value in enumerate(read_array(json, path)))


def read_float(json: object, path: str) -> float:
    """A number, or one of the strings inf, -inf and nan in any case."""
    if isinstance(json, str) and json.lower() in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[json.lower()]
    if isinstance(json, bool) or not isinstance(json, (int, float)):
        raise DescriptorFormatError(path, f"expected a number, 'inf', '-inf' or 'nan', got {describe(json)}")
    return to_float(json)


def read_bool(json: object, path: str) -> bool:
    """true, false, 1 or 0."""
    if isinstance(json, (bool, int)) and json in (0, 1):
        return bool(json)
    raise DescriptorFormatError(path, f"expected true or false, got {describe(json)}")


def read_enum(enumeration: type[EnumType], json: object, path: str) -> EnumType:
    """A member of an enumeration: its full or abbreviated name, or its number."""
    if isinstance(json, (str, int)) and not isinstance(json, bool):
        try:
            return enumeration.parse(json)
        except ValueError as error:
            raise DescriptorFormatError(path, str(error)) from None
    raise DescriptorFormatError(path, f"expected the name of a member, got {describe(json)}")


def read_flags(flags: type[FlagsType], json: object, path: str) -> FlagsType:
    """A set of flags: a name, an array of names, or a number."""
    for name in json if isinstance(json, list) else (json,):
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise DescriptorFormatError(path, f"expected the name of a flag or an array of names, got {describe(name)}")
    try:
        return flags.parse(json)
    except ValueError as error:
        raise DescriptorFormatError(path, str(error)) from None


def to_float(value: float) -> float:
    """A number as a double; integers beyond its range become infinities."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_float32(value: float) -> float:
    """The nearest IEEE single, ties to even; beyond the range an infinity. NaN loses its payload."""
    value = to_float(value)
    if math.isnan(value):
        return math.nan
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def write_float(value: float, single: bool = True) -> float | str:
    """A float for JSON: the shortest decimal that gives the same IEEE single again, or a string if not finite."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    candidates = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((short for short in candidates if to_float32(short) == value), value) if single else value
