"""Pages of the documentation that follow from the code: a hook of MkDocs (``hooks`` in mkdocs.yml).

The operators by family (from the catalogue), the functions by family (from their docstrings), the command line (from
its own help), and the index of the semantics by operator. Nothing is written to the folder of the documentation.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

import opendml as dml  # noqa: E402
from opendml.inspection.decisions import find_names, find_sections  # noqa: E402
from opendml.operators import class_name, families  # noqa: E402

if TYPE_CHECKING:
    from opendml.operators.catalogue import CatalogueEntry

INTERNALS: Final = ("expression", "graph", "loops", "targets", "targets/cpu", "inspection")
"""Packages whose README is a page of the documentation."""


# ---- MkDocs


def on_config(config: Any) -> Any:
    """The generated pages in the navigation."""
    reference = next(section["Reference"] for section in config.nav if "Reference" in section)
    for kind in ("operators", "functions"):
        place = next(i for i, item in enumerate(reference) if isinstance(item, dict) and kind.capitalize() in item)
        pages = [f"reference/{kind}.md", *(f"reference/{kind}/{family}.md" for family in sorted(families()))]
        reference[place] = {kind.capitalize(): pages}
    return config


def on_files(files: Any, config: Any) -> Any:
    """The generated pages among the files."""
    from mkdocs.structure.files import File

    for path, content in generated_pages(ROOT / "docs"):
        files.append(File.generated(config, path, content=content))
    return files


def generated_pages(documents: Path) -> Iterator[tuple[str, str]]:
    """Path and content of every generated page."""
    index = semantics_index((documents / "semantics.md").read_text(), list(dml.catalogue))
    yield "reference/operators.md", _operators_index()
    yield "reference/functions.md", _functions_index()
    for family, names in families().items():
        entries = [dml.catalogue[name] for name in names]
        yield f"reference/operators/{family}.md", _family_page(family, entries, index)
        yield f"reference/functions/{family}.md", _functions_page(family)
    yield "reference/command_line.md", _command_line_page()
    for package in INTERNALS:
        yield (
            f"internals/{package.replace('/', '_')}.md",
            (ROOT / "src" / "opendml" / package / "README.md").read_text(),
        )
    yield "semantics_by_operator.md", _semantics_page(index)


# ---- operators


def _title(family: str) -> str:
    return family.replace("_", " ").capitalize()


def _anchor(name: str) -> str:
    return name.lower()


def _operators_index() -> str:
    rows = [
        f"| [{entry.name}](operators/{family}.md#{_anchor(entry.name)}) | {entry.since} | {_one_line(entry.summary)} |"
        for family, entry in sorted(
            ((family, dml.catalogue[name]) for family, names in families().items() for name in names),
            key=lambda pair: pair[1].name,
        )
    ]
    head = ["# Operators", "", f"{len(rows)} operators, by name. `opendml ops` prints the same table.", ""]
    return "\n".join([*head, "| operator | since | what it does |", "| --- | --- | --- |", *rows, ""])


def _family_page(family: str, entries: Sequence[CatalogueEntry], index: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    parts = [f"# {_title(family)}", "", f"As functions: [{_title(family)}](../functions/{family}.md).", ""]
    for entry in entries:
        parts += _operator_section(entry, index[entry.name])
    return "\n".join(parts) + "\n"


def _operator_section(entry: CatalogueEntry, sections: Sequence[tuple[str, str]]) -> list[str]:
    name = class_name(dml.OperatorType.parse(entry.name))
    in_place = " May run in place." if entry.in_place else ""
    lines = [f"## {entry.name} {{ #{_anchor(entry.name)} }}", "", entry.summary, ""]
    lines += [f"`dml.operators.{name}`, `{entry.struct}`, since feature level {entry.since}.{in_place}", ""]
    lines += ["| field | role | kind | in Python |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {f.name} | {f.role}{', optional' if f.is_optional else ''} | {f.kind} | `{f.python_name}` |"
        for f in entry.fields
    ]
    variants = entry.support_variants or {"": entry.support}
    for variant, support in variants.items():
        lines += ["", *([f"**{variant}**", ""] if variant else [])]
        lines += ["| from level | tensor | ranks | data types |", "| --- | --- | --- | --- |"]
        for level, tensors in support.items():
            for tensor, allowed in tensors.items():
                types = ", ".join(data_type.name for data_type in allowed.data_types)
                ranks = " to ".join(map(str, dict.fromkeys((allowed.minimum_rank, allowed.maximum_rank))))
                lines.append(f"| {level} | {tensor} | {ranks} | {types} |")
    links = ", ".join(f"[{title}](../../semantics.md#{anchor})" for title, anchor in sections)
    return [*lines, "", f"Decisions: {links}", ""]


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ---- functions


def _functions_index() -> str:
    lines = ["# Functions", "", "::: opendml.functions", "    options:", "      members: false"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false", ""]
    return "\n".join([*lines, *(f"- [{_title(family)}](functions/{family}.md)" for family in sorted(families())), ""])


def _functions_page(family: str) -> str:
    options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    return f"# {_title(family)}\n\n::: opendml.functions.{family}\n{options}"


# ---- the command line


def _command_line_page() -> str:
    from opendml.command_line.commands import COMMANDS

    parts = ["# Command line", ""]
    for command in ((), *((name,) for name in COMMANDS)):
        heading = " ".join(("opendml", *command))
        parts += [f"## {heading}", "", "```text", help_of(*command).rstrip(), "```", ""]
    return "\n".join(parts)


def help_of(*command: str) -> str:
    """What ``opendml COMMAND --help`` prints."""
    from opendml.command_line import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return text.getvalue()


# ---- semantics by operator


def semantics_index(text: str, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """For every operator the sections of the page that name it: (title, anchor), in their order."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for title, body in find_sections(text):
        for name in find_names(f"{title} {body}", names):
            found[name].append((title, anchor_of(title)))
    return found


def anchor_of(title: str) -> str:
    """Where a link to the section with this title goes."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def _semantics_page(index: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    head = ["# Semantics by operator", ""]
    head += ["Where the page of [semantics](semantics.md) speaks of an operator; its general rules hold for all."]
    rows = [
        f"| {name} | {', '.join(f'[{title}](semantics.md#{anchor})' for title, anchor in sections)} |"
        for name, sections in sorted(index.items())
    ]
    return "\n".join([*head, "", "| operator | decided under |", "| --- | --- |", *rows, ""])
