"""What reads files and messages of others looks at no part of them again and again: patterns whose search takes steps
in proportion to a text, paths of errors that are written once, lists of names that are compared in part."""

from __future__ import annotations

import ast
import json
import re._constants as constants
import re._parser as regular
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opendml as dml
from opendml.description import names
from opendml.formats import json_text
from opendml.formats.dxdispatch import Folders, parse_model
from opendml.formats.dxdispatch.model import MOST_PROBLEMS

SOURCE = Path(dml.__file__).parent


def patterns() -> list[str]:
    """All patterns of the package."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                module, first = node.func.value, node.args[0]
                if isinstance(module, ast.Name) and module.id == "re" and isinstance(first, ast.Constant):
                    value = first.value
                    assert isinstance(value, (str, bytes))
                    found.append(value.decode("latin-1") if isinstance(value, bytes) else value)
    return found


LOOSE = (constants.MAX_REPEAT, constants.MIN_REPEAT)
"""Repeats that can give back what they took; possessive ones and atomic groups cannot."""


def can_give_back(kind: Any, argument: Any) -> bool:
    """Whether it is a repeat without a bound that may end at many places."""
    return kind in LOOSE and argument[1] == constants.MAXREPEAT


def repeats_in_repeats(parsed: Any, inside: bool = False) -> Iterator[str]:
    """Repeats without a bound inside of others: a text can be divided among the two in exponentially many ways."""
    for kind, argument in parsed:
        loose = can_give_back(kind, argument)
        if loose and inside:
            yield str(argument)
        # An atomic group, and a possessive repeat, is never entered again; each round of it must still end.
        firm = kind in (constants.ATOMIC_GROUP, constants.POSSESSIVE_REPEAT)
        parts = argument if isinstance(argument, tuple | list) else (argument,)
        for part in parts:
            for child in part if isinstance(part, list) else (part,):
                if isinstance(child, regular.SubPattern):
                    yield from repeats_in_repeats(child, (inside or loose) and not firm)


def repeats_in_a_row(parsed: Any) -> Iterator[str]:
    """Two repeats without a bound one behind the other: as many ways as the square of the text."""
    for (kind, argument), (other, behind) in zip(parsed, list(parsed)[1:], strict=False):
        if can_give_back(kind, argument) and can_give_back(other, behind):
            yield f"{argument}{behind}"


def test_no_pattern_can_divide_a_text_in_many_ways() -> None:
    found = patterns()
    assert len(found) > 20
    for pattern in found:
        parsed = regular.parse(pattern)
        assert not [*repeats_in_repeats(parsed), *repeats_in_a_row(parsed)], pattern


@pytest.mark.parametrize("pattern", [r"(\s+|//.*)*\{", r"(a*)*", r"(?:x|y+)+z", r"\s*\s*x", r"(?:a(b*c)*)+?"])
def test_such_a_pattern_is_found(pattern: str) -> None:
    parsed = regular.parse(pattern)
    assert [*repeats_in_repeats(parsed), *repeats_in_a_row(parsed)]


@pytest.mark.parametrize(
    "text",
    ["," * 60000, '"' * 60001, '"\\' * 30000, "[1," + " " * 60000, "// " * 20000, "/* " * 20000, " " * 60000,
     "1" * 599 + " " + "2" * 5000, "[" * 60000, '{"a":' * 20000, "-Infinity" * 7000, "\\" * 60000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_no_text_is_looked_at_again_and_again(text: str) -> None:
    """A text of 60 KB for which a step each pair of characters would take minutes."""
    with pytest.raises(dml.ModelFormatError):
        json_text.parse(text)


def test_paths_are_written_for_the_value_that_is_wrong_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of all values of a deep document would take as much as its size times its depth."""
    written: list[object] = []
    usual = json_text.member_path

    def member_path(*way: Any) -> Any:
        written.append(way)
        return usual(*way)

    monkeypatch.setattr(json_text, "member_path", member_path)
    depth = 50
    text = '{"name":' * depth + '{"a": 1, "a": 2}, ' + ", ".join(f'"{i}": {{}}' for i in range(500)) + "}" * depth
    text = text.replace('{"a": 1, "a": 2}, ', '{"a": 1, "a": 2, ', 1)
    with pytest.raises(dml.ModelFormatError, match='the name "a" occurs more than once') as caught:
        json_text.parse(text + "}")
    assert len(written) == depth
    assert caught.value.path == ".".join(["name"] * depth)


def test_names_are_compared_with_so_many_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def plain(name: str) -> str:
        looked_at.append(name)
        return name

    monkeypatch.setattr(names, "plain", plain)
    assert names.did_you_mean("Szes", (f"resource{i}" for i in range(10**9))) == ""
    assert len(looked_at) <= names.COMPARED_NAMES + 1


def test_problems_of_a_model_are_listed_up_to_a_number(tmp_path: Path) -> None:
    command = {"type": "print", "resource": "nothing"}
    model: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": [command] * 50}
    folders = Folders(tmp_path, tmp_path)
    assert len(parse_model(json.dumps(model), folders, in_part=True).unreadable) == 50
    model["commands"] = [command] * (MOST_PROBLEMS * 3)
    with pytest.raises(dml.ModelFormatError) as caught:
        parse_model(json.dumps(model), folders, in_part=True)
    assert len(caught.value.problems) == MOST_PROBLEMS + 1
    assert caught.value.problems[-1].message == f"reading ends here: these are {MOST_PROBLEMS} problems"
