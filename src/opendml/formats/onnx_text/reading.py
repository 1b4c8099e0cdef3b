"""ONNX's texts as the bytes of a ModelProto, by the parsers of the packages onnx and protobuf."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import read_file
from opendml.description.quoting import cut, printable, quoted
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.reading import MAXIMUM_SIZE
from opendml.formats.onnx_text.recognition import spelling_of

__all__ = ["MOST_NESTED", "model_of_text", "text_of_file"]

MOST_NESTED: Final = 100
"""Brackets in brackets of ONNX's language. Protocol buffers allow no more messages in messages, and the parser, which
calls itself for each, has no bound of its own: it would end the process."""

MOST_OF_A_MESSAGE: Final = 200
"""Characters that are shown of what a parser says."""


def text_of_file(path: Path) -> bytes:
    """The bytes of a file. Raises ModelFormatError."""
    try:
        return read_file(path, MAXIMUM_SIZE)
    except OSError as error:
        raise ModelFormatError("", f"cannot read {quoted(path.name)}: {error.strerror or error}") from None


def model_of_text(data: bytes) -> bytes:
    """The bytes of the model that a text states. Raises ModelFormatError, with the line where the parser says it."""
    onnx = onnx_package()
    spelling = spelling_of(data)
    if not spelling:
        raise ModelFormatError("", "it is no ONNX model as text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"byte {error.start}", "not a text in UTF-8") from None
    return _PARSERS[spelling](onnx, text)


def _of_language(onnx: Any, text: str) -> bytes:
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += {"opens": 1, "closes": -1}.get(found.lastgroup or "", 0)
        if depth > MOST_NESTED:
            line = 1 + text.count("\n", 0, found.start())
            raise ModelFormatError(f"line {line}", f"more than {MOST_NESTED} brackets in brackets")
    parser = importlib.import_module("onnx.parser")
    return _parsed(lambda: parser.parse_model(text))


def _of_protobuf(onnx: Any, text: str) -> bytes:
    text_format = importlib.import_module("google.protobuf.text_format")
    return _parsed(lambda: text_format.Parse(text, onnx.ModelProto()))


def _of_json(onnx: Any, text: str) -> bytes:
    json_format = importlib.import_module("google.protobuf.json_format")
    return _parsed(lambda: json_format.Parse(text, onnx.ModelProto()))


_PARSERS: Final = {"language": _of_language, "protobuf": _of_protobuf, "json": _of_json}

# Strings and comments, which may hold any bracket, then brackets. Without `<` and `>`, which are half an arrow, too:
# whatever nests has other brackets inside.
_BRACKETS: Final = re.compile(r'"(?:\\.|[^"\\])*+"?|#[^\n]*|(?P<opens>[({\[])|(?P<closes>[)}\]])', re.DOTALL)


def _parsed(parse: Callable[[], Any]) -> bytes:
    try:
        return bytes(parse().SerializeToString())
    except Exception as error:  # many classes, by implementation; RecursionError where texts are nested deeply
        raise ModelFormatError(*_place_and_message(error)) from None


def _place_and_message(error: Exception) -> tuple[str, str]:
    """Where, and the parser's words: of ONNX's the last line, since those between repeat the text."""
    given = error.args[0] if error.args else ""
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    found = _PLACE.match(text)
    if found is not None:
        text = text[found.end() :] if found["short"] else text.strip().rpartition("\n")[2]
    words = cut(printable(" ".join(text.split())), MOST_OF_A_MESSAGE) or type(error).__name__
    place = "" if found is None else " ".join(one for one in found.group("short", "long") if one)
    return re.sub(r"^(\d+)\D+(\d+)$", r"line \1, column \2", place), words


_PLACE: Final = re.compile(r"(?P<short>\d+:\d+) : |.*?\(line: (?P<long>\d+ column: \d+)\)")
"""Protocol buffers' way to say where, and ONNX's."""
