"""``opendml ops``: the catalogue."""

from __future__ import annotations

import sys
import textwrap
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from opendml.command_line.output import print_json, print_line, print_table, readable_errors
from opendml.inspection.text_table import Table

if TYPE_CHECKING:
    from opendml.description.descriptors import TensorSupport
    from opendml.inspection.decisions import Decision
    from opendml.operators.catalogue import CatalogueEntry, SupportByLevel

__all__ = ["execute"]


def execute(values: Namespace) -> int:
    """Show all operators, or one."""
    with readable_errors(None, values.json):
        from opendml.operators.catalogue import catalogue

        if values.json:
            entries = list(catalogue.values()) if values.name is None else [catalogue[values.name]]
            print_json([_as_json(entry) for entry in entries])
        elif values.name is None:
            _show_catalogue(list(catalogue.values()))
        else:
            _show_operator(catalogue[values.name])
    return 0


def _show_catalogue(entries: list[CatalogueEntry]) -> None:
    table = Table.of("Operator", "Since", "Summary")
    for entry in entries:
        table.add_row(entry.name, str(entry.since), entry.summary)
    print_table(table)


def _show_operator(entry: CatalogueEntry) -> None:
    in_place = "; can run in place" if entry.in_place else ""
    print_line(f"{entry.name} ({entry.struct}), since feature level {entry.since}{in_place}")
    print_line(f"{entry.summary}\n")
    table = Table.of("Field", "Role", "Kind", "In Python")
    for field in entry.fields:
        role = field.role + (", optional" if field.is_optional else "")
        table.add_row(field.name, role, field.kind, field.python_name)
    print_table(table)
    for field in entry.fields:
        if field.fusable:
            fusable = ", ".join(
                operator.name + (f" ({since})" if since > entry.since else "")
                for operator, since in field.fusable.items()
            )
            print_line(f"{field.name} may be: {fusable}\n")
    if entry.support_variants:
        for variant, support in entry.support_variants.items():
            print_line(f"{variant}:")
            print_table(_support_table(support))
    else:
        print_table(_support_table(entry.support))
    _show_decisions(entry.name)


def _show_decisions(name: str) -> None:
    """What opendml does where the documentation of DirectML leaves it open, under the titles of the page's sections."""
    from opendml.inspection.text_table import width_of

    width, title = width_of(sys.stdout), ""
    decisions = _decisions(name)
    if decisions:
        print_line("\nWhat the documentation leaves open (docs/semantics.md, whose general rules hold as well)")
    for decision in decisions:
        if decision.section != title:
            title = decision.section
            print_line(f"\n{title}")
        print_line(textwrap.fill(decision.text, width, initial_indent="- ", subsequent_indent="  "))


def _decisions(name: str) -> list[Decision]:
    from opendml.inspection.decisions import decisions_of
    from opendml.operators.catalogue import catalogue

    return decisions_of(name, catalogue)


def _support_table(support: SupportByLevel) -> Table:
    """A row for each level and each set of tensors that is supported alike."""
    table = Table.of("Level", "Tensors", "Ranks", "Data types")
    for level, tensors in support.items():
        groups: dict[TensorSupport, list[str]] = {}
        for name, supported in tensors.items():
            groups.setdefault(supported, []).append(name)
        for supported, names in groups.items():
            ranks = sorted({supported.minimum_rank, supported.maximum_rank})
            table.add_row(
                f"{level} on",
                "all" if len(groups) == 1 else ", ".join(names),
                " to ".join(map(str, ranks)),
                ", ".join(data_type.name for data_type in supported.data_types),
            )
    return table


def _as_json(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "struct": entry.struct,
        "summary": entry.summary,
        "since": str(entry.since),
        "in_place": entry.in_place,
        "fields": [
            {
                "name": field.name,
                "python_name": field.python_name,
                "kind": field.kind,
                "role": field.role,
                "optional": field.is_optional,
                "fusable": {operator.name: str(since) for operator, since in field.fusable.items()},
            }
            for field in entry.fields
        ],
        "support": _support_as_json(entry.support),
        "support_variants": {name: _support_as_json(table) for name, table in entry.support_variants.items()},
        "decisions": [{"section": section, "text": text} for section, text in _decisions(entry.name)],
    }


def _support_as_json(support: SupportByLevel) -> dict[str, Any]:
    return {
        str(level): {
            name: {
                "ranks": [supported.minimum_rank, supported.maximum_rank],
                "data_types": [data_type.name for data_type in supported.data_types],
            }
            for name, supported in tensors.items()
        }
        for level, tensors in support.items()
    }
