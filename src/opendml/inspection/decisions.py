"""What is decided about an operator where the documentation of DirectML leaves it open.

The page of semantics (``docs/semantics.md``, ``semantics.md`` in an installed package) is written for people; what it
says of one operator is found by the names in it. A paragraph is about the operators that its beginning names, up to
the first colon, or else about those that the heading above it, and what stands right below that, names, or else about
all that it names. Names may leave out ``ELEMENT_WISE_`` and ``ACTIVATION_``, stand for later versions too, and have a
``*`` for what they leave open.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Decision", "Section", "decisions_of", "find_decisions", "find_names", "find_sections", "read_semantics"]

SHARED_PREFIXES: Final = ("ELEMENT_WISE_", "ACTIVATION_")
"""What names leave out where it is clear."""

AMBIGUOUS: Final = {"LINEAR"}
"""Names without their prefix that are those of modes, too."""

OTHER_SUBJECTS: Final = (
    "Building graphs by expression",
    "Graphs",
    "Execution flags, and the reference device",
    "Tolerances",
    "ONNX models",
    "DxDispatch models and the command line",
)
"""Beginnings of the titles of sections that name operators, but are not about what these compute."""

ROOT: Final = Path(__file__).parent.parent


class Decision(NamedTuple):
    """A paragraph, and the title of the section that it stands in."""

    section: str
    text: str


class Section(NamedTuple):
    """A part of a page under a heading of its own; of one with parts, what comes before these."""

    title: str
    body: str


def decisions_of(name: str, names: Iterable[str]) -> list[Decision]:
    """What the page of semantics says of one of the operators with these ``names``, in its order."""
    return find_decisions(read_semantics(), tuple(names)).get(name, [])


@functools.cache
def read_semantics() -> str:
    """The page of semantics: beside the installed package, or in the checkout that it is run from."""
    places = (ROOT / "semantics.md", ROOT.parent.parent / "docs" / "semantics.md")
    return next((place.read_text(encoding="utf-8") for place in places if place.is_file()), "")


@functools.lru_cache(maxsize=2)
def find_decisions(text: str, names: Sequence[str]) -> dict[str, list[Decision]]:
    """The decisions of every operator."""
    found: dict[str, list[Decision]] = {name: [] for name in names}
    for section in find_sections(text):
        if section.title.startswith(OTHER_SUBJECTS):
            continue
        title = section.title.partition(" (")[0]
        preface, *paragraphs = re.split(r"^- ", section.body, flags=re.MULTILINE)
        headed = find_names(f"{section.title} {preface}", names)
        for paragraph in paragraphs:
            whole = " ".join(paragraph.partition("\n\n")[0].split()).replace("**", "").replace("`", "")
            for name in _subjects(whole, headed, names):
                found[name].append(Decision(title, whole))
    return found


def _subjects(paragraph: str, headed: set[str], names: Sequence[str]) -> set[str]:
    """The operators that a paragraph is about."""
    beginning = find_names(re.split(r":\s", paragraph, maxsplit=1)[0], names)
    if headed:
        return beginning & headed or headed
    return beginning or find_names(paragraph, names)


def find_sections(text: str) -> Iterator[Section]:
    """The sections of a page, those inside of others too."""
    for part in re.split(r"^(?=#{2,3} )", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield Section(heading.lstrip("# ").strip(), body)


def find_names(text: str, names: Sequence[str]) -> set[str]:
    """Those of the operators with these ``names`` that a text names."""
    by_spelling = _names_by_spelling(tuple(names))
    found: set[str] = set()
    for word in set(re.findall(r"\*?[A-Z_][A-Z0-9_]+\*?", text)):
        if "*" in word:
            found.update(*(those for spelling, those in by_spelling.items() if fnmatchcase(spelling, word)))
        found.update(by_spelling.get(word, ()))
    return found


@functools.lru_cache(maxsize=2)
def _names_by_spelling(names: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        for spelling in _spellings(name):
            found.setdefault(spelling, []).append(name)
    return found


def _spellings(name: str) -> set[str]:
    """Under which words a page speaks of an operator."""
    spellings = {name, re.sub(r"(?<=[A-Z])\d$", "", name)}
    for prefix in SHARED_PREFIXES:
        spellings |= {spelling.removeprefix(prefix) for spelling in spellings if spelling.startswith(prefix)}
    return spellings - AMBIGUOUS
