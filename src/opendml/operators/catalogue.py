"""The catalogue: what every operator is called, takes and supports, to be asked by programs and shown to people.

``catalogue["SLICE1"].since`` is the feature level of SLICE1; names may be those of DirectML's pages too,
``DML_OPERATOR_SLICE1`` and ``DML_SLICE1_OPERATOR_DESC``, or of classes, ``Slice1``, in any letter case.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opendml.description.descriptors import Operator, Support, TensorSupport, struct_name
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.description.errors import UnknownOperatorError
from opendml.description.fields import Field, OperatorField
from opendml.description.notebook import table
from opendml.description.operator_classes import operator_class
from opendml.operators import implemented

SupportByLevel = Mapping[FeatureLevel, Mapping[str, TensorSupport]]


@dataclass(frozen=True, slots=True)
class CatalogueField:
    """One field of an operator's struct. ``role`` is input, output or attribute."""

    name: str
    python_name: str
    kind: str
    role: str
    is_optional: bool
    fusable: Mapping[OperatorType, FeatureLevel]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One operator. ``support`` has the newest level first; each level's row holds until the next higher one.

    ``support_variants`` is for operators whose support depends on an attribute (REDUCE: by function); ``support`` is
    then their union.
    """

    name: str
    struct: str
    operator_class: type[Operator]
    summary: str
    since: FeatureLevel
    in_place: bool
    fields: tuple[CatalogueField, ...]
    support: SupportByLevel
    support_variants: Mapping[str, SupportByLevel]

    def __repr__(self) -> str:
        fields = ", ".join(field.name for field in self.fields)
        return f"<{self.name}, from feature level {self.since} on: {fields}>"

    def _repr_html_(self) -> str:
        rows = (
            (field.name, field.python_name, field.kind, field.role, "yes" if field.is_optional else "no")
            for field in self.fields
        )
        title = f"{self.name}, from feature level {self.since} on. {self.summary}"
        return table(title, ("Field", "In Python", "Type", "Role", "Optional"), rows)


class Catalogue(Mapping[str, CatalogueEntry]):
    """All operators by name. An operator's file is imported when the operator is first asked for."""

    def __getitem__(self, name: str) -> CatalogueEntry:
        try:
            operator_type = OperatorType.parse(name)
        except ValueError as error:
            raise UnknownOperatorError(str(error)) from None
        return _entry(operator_class(operator_type))

    def __repr__(self) -> str:
        names = list(self)
        return f"<Catalogue of {len(names)} operators: {names[0]}, {names[1]} ... {names[-1]}>"

    def _repr_html_(self) -> str:
        rows = ((name, self[name].since, self[name].summary) for name in self)
        return table(f"{len(self)} operators", ("Operator", "Since", "What it does"), rows)

    def __iter__(self) -> Iterator[str]:
        return (operator_type.name for operator_type in implemented())

    def __len__(self) -> int:
        return len(implemented())


catalogue = Catalogue()


def _entry(operator: type[Operator]) -> CatalogueEntry:
    tensors = {name: field for name, field in operator.fields.items() if hasattr(field, "direction")}
    return CatalogueEntry(
        name=operator.type.name,
        struct=struct_name(operator.type),
        operator_class=operator,
        summary=" ".join((inspect.getdoc(operator) or "").partition("\n\n")[0].split()),
        since=operator.since,
        in_place=operator.in_place,
        fields=tuple(_field(field) for field in operator.fields.values()),
        support=_support(operator.support, tensors),
        support_variants={name: _support(table, tensors) for name, table in operator.support_variants.items()},
    )


def _field(field: Field) -> CatalogueField:
    element = getattr(field, "element", field)
    return CatalogueField(
        name=field.json_name,
        python_name=field.name,
        kind=field.kind,
        role=getattr(field, "direction", "attribute"),
        is_optional=field.optional,
        fusable=element.accepts if isinstance(element, OperatorField) else {},
    )


def _support(table: Support, tensors: Mapping[str, Field]) -> SupportByLevel:
    return {row.level: {field.json_name: row.of(name) for name, field in tensors.items()} for row in table}
