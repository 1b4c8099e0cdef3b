"""JSON as DxDispatch writes it: the standard grammar, comments and trailing commas.

`parse` gives plain Python values; `Node` is a value together with its path inside the file, so that every complaint
names the place it is about (``resources.A.initialValues[3]``).
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Collection
from itertools import islice
from typing import Any, NoReturn

from opendml.description.errors import ModelFormatError
from opendml.description.names import COMPARED_NAMES, did_you_mean
from opendml.description.quoting import QUOTED_LENGTH, cut, listed, quoted

__all__ = ["Node", "is_remark", "member_path", "parse", "unknown_name"]


def parse(text: str) -> Node:
    """The root of a JSON document.

    Accepted beyond standard JSON: ``//`` and ``/* */`` comments, and a comma before a closing bracket.
    Numbers stay exact: integers of any length, real numbers as IEEE double precision.

    Raises:
        ModelFormatError: malformed text (with line and column), a name that occurs twice in one object (with its
            path), a number outside the range of double precision.
    """
    plain = _without_extensions(text)
    repeated: list[_Object] = []

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = _Object(pairs)
        if len(members) != len(pairs):
            members.find_repeated(pairs)
            repeated.append(members)
        return members

    try:
        value = json.loads(plain, object_pairs_hook=build_object, parse_float=_real_number)
    except json.JSONDecodeError as error:
        raise _malformed(text, error.pos, error.msg[:1].lower() + error.msg[1:]) from None
    except _NumberOutOfRangeError as error:
        raise _malformed(text, plain.find(error.digits), "a number is outside the range of double precision") from None
    except RecursionError:
        raise ModelFormatError("", "objects and arrays are nested too deeply") from None
    except ValueError:  # Python refuses to convert integers of more than some thousand digits
        digits = _MANY_DIGITS.search(plain)
        raise _malformed(text, digits.start() if digits else 0, "a number has too many digits") from None
    if repeated:
        path, name = _first_repeated_name(value)
        raise ModelFormatError(path, f"the name {json.dumps(cut(name))} occurs more than once in this object")
    return Node(value, "")


class Node:
    """A JSON value and its path from the root of the file ("" for the root itself)."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path

    def fail(self, message: str) -> NoReturn:
        """Raise ModelFormatError about this value."""
        raise ModelFormatError(self.path, message)

    def expected(self, what: str) -> NoReturn:
        """Raise ModelFormatError: `what` was expected, and this is what stands here."""
        self.fail(f"expected {what}, got {_describe(self.value)}")

    def __contains__(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def members(self, known: Collection[str] | None = None) -> dict[str, Node]:
        """The members of an object; names outside `known`, where it is given, are errors unless they are remarks."""
        if not isinstance(self.value, dict):
            self.expected("an object")
        if known is not None:
            for name in self.value:
                if name not in known and not is_remark(name):
                    self.fail(unknown_name("member", name, known))
        return {name: Node(value, member_path(self.path, name)) for name, value in self.value.items()}

    def member(self, name: str) -> Node:
        """The member `name` of an object, which must be there."""
        found = self.optional(name)
        if found is None:
            self.fail(f"member {name!r} is required")
        return found

    def optional(self, name: str) -> Node | None:
        """The member `name` of an object, or None."""
        if not isinstance(self.value, dict):
            self.expected("an object")
        return Node(self.value[name], member_path(self.path, name)) if name in self.value else None

    def elements(self, count: int | None = None) -> list[Node]:
        """The elements of an array, `count` of them where that is given."""
        if not isinstance(self.value, list):
            self.expected("an array")
        if count is not None and len(self.value) != count:
            self.fail(f"expected {count} elements, got {len(self.value)}")
        return [Node(value, f"{self.path}[{index}]") for index, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.expected("a string")
        return self.value

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.expected("true or false")
        return self.value

    def unsigned(self, bits: int, minimum: int = 0) -> int:
        """An integer from `minimum` to 2^bits - 1."""
        if type(self.value) is not int:
            self.expected("an unsigned integer")
        if not minimum <= self.value < 1 << bits:
            self.fail(f"{_describe(self.value)} is outside {minimum} to {(1 << bits) - 1}")
        return self.value


def is_remark(name: str) -> bool:
    """Whether a member is there for the reader only: ``$schema``, ``comment``, ``// anything``."""
    return name in ("comment", "description", "name") or name[:1] in ("$", "_", "/")


def member_path(path: str, name: str) -> str:
    """The path of member `name`: dotted where the name is an identifier, in brackets and quotes otherwise."""
    if not re.fullmatch(r"[\w$-]+", name):
        return f"{path}[{json.dumps(cut(name))}]"
    return f"{path}.{cut(name)}" if path else cut(name)


def unknown_name(kind: str, name: str, known: Collection[str]) -> str:
    """``unknown member 'Szes'; did you mean 'Sizes'?``, or the known names where none is close."""
    hint = did_you_mean(name, known) or (
        f"; known: {listed(sorted(islice(known, COMPARED_NAMES)))}" if known else "; there are none"
    )
    return f"unknown {kind} {quoted(name)}{hint}"


class _Object(dict[str, Any]):
    """A JSON object that remembers which name it was given more than once."""

    __slots__ = ("repeated",)

    repeated: str

    def find_repeated(self, pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                self.repeated = name
                return
            seen.add(name)


class _NumberOutOfRangeError(ArithmeticError):
    def __init__(self, digits: str) -> None:
        super().__init__(digits)
        self.digits = digits


# A string (complete or cut off by the end of the text), a comment, or a literal that JSON does not have.
_TOKENS = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|//[^\n\r]*+|/\*.*?\*/|(?P<open>/\*)|(?P<constant>-?\bInfinity\b|\bNaN\b)', re.DOTALL
)
_TRAILING_COMMAS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|,(?=[ \t\n\r]*+[\]}])', re.DOTALL)
# Looks at no digit twice: a long row of them is entered at its beginning only.
_MANY_DIGITS = re.compile(r"(?<![0-9])[0-9]{600,}")
_LINE_BREAK_OR_NOT = re.compile(r"[^\n\r]")


def _without_extensions(text: str) -> str:
    """`text` with comments and trailing commas blanked out: positions stay as they are."""

    def blank_comment(token: re.Match[str]) -> str:
        if token["open"]:
            raise _malformed(text, token.start(), "a comment is not closed")
        if token["constant"]:
            raise _malformed(text, token.start(), f'{token[0]} is not a JSON number; write "nan", "inf" or "-inf"')
        return _LINE_BREAK_OR_NOT.sub(" ", token[0]) if token[0].startswith("/") else token[0]

    def blank_comma(token: re.Match[str]) -> str:
        if token[0] != ",":
            return token[0]
        before = token.start() - 1
        while before >= 0 and plain[before] in " \t\n\r":
            before -= 1
        return " " if before >= 0 and plain[before] not in "[{," else ","

    plain = _TOKENS.sub(blank_comment, text)
    return _TRAILING_COMMAS.sub(blank_comma, plain)


def _real_number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _NumberOutOfRangeError(digits)
    return value


def _malformed(text: str, position: int, message: str) -> ModelFormatError:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    snippet = text[position : position + 40].split("\n", 1)[0].strip()
    near = f" at {snippet!r}" if snippet else " at the end of the line" if position < len(text) else " at the end"
    return ModelFormatError("", f"malformed JSON, line {line}, column {column}: {message}{near}")


def _first_repeated_name(root: Any) -> tuple[str, str]:
    """The path of the first object, outermost first, that has a name more than once, and the name.

    Paths are written for that one only: those of all values of a deep document would take more memory than it.
    """
    pending: deque[tuple[Any, _Step | None]] = deque([(root, None)])
    while pending:
        value, step = pending.popleft()
        if isinstance(value, _Object) and hasattr(value, "repeated"):
            return _path_of(step), value.repeated
        if isinstance(value, (dict, list)):
            children = value.items() if isinstance(value, dict) else enumerate(value)
            pending.extend((child, (step, key)) for key, child in children if isinstance(child, (dict, list)))
    raise AssertionError("no object has a name more than once")


_Step = tuple["_Step | None", str | int]
"""The way to a value: that to what it lies in, and its name or its position there."""


def _path_of(step: _Step | None) -> str:
    keys: list[str | int] = []
    while step is not None:
        step, key = step
        keys.append(key)
    path = ""
    for key in reversed(keys):
        path = member_path(path, key) if isinstance(key, str) else f"{path}[{key}]"
    return path


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if type(value) is int and abs(value) >= 1 << 256:
        return "an integer of very many digits"
    return cut(json.dumps(value[:QUOTED_LENGTH]) if isinstance(value, str) else json.dumps(value))
