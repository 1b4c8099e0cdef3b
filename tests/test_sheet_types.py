"""Every data type that a sheet of the specification has for a tensor is taken there, at each feature level: by some
descriptor in which the other tensors have the types that go with it. The sheets alone say what is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sample_descriptors import samples
from specification import needs_specification, sheet
from test_catalogue import SUPPORT_DEVIATIONS, TYPE_DEVIATIONS

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.operators.catalogue import catalogue

Place = tuple[str, int | None]
"""A tensor: the field's name in the sheet, and the number of one of several."""


def _tensors(desc: Operator) -> dict[Place, TensorDesc]:
    """The tensors that a descriptor has."""
    found: dict[Place, TensorDesc] = {}
    for field in catalogue[desc.type.name].fields:
        value = getattr(desc, field.python_name)
        if isinstance(value, TensorDesc):
            found[field.name, None] = value
        elif isinstance(value, tuple):
            found |= {(field.name, i): tensor for i, tensor in enumerate(value) if isinstance(tensor, TensorDesc)}
    return found


def _with_types(desc: Operator, types: Mapping[Place, str]) -> Operator:
    """The descriptor with tensors of other types, and numbers of the type of the first of them."""
    names = {field.name: field.python_name for field in catalogue[desc.type.name].fields}
    changes: dict[str, Any] = {
        name: next(iter(types.values())) for name, field in desc.fields.items() if field.kind == "DML_TENSOR_DATA_TYPE"
    }
    for (field, number), data_type in types.items():
        name = names[field]
        if number is None:
            changes[name] = getattr(desc, name).replace(data_type=data_type)
        else:
            tensors = list(changes.get(name, getattr(desc, name)))
            tensors[number] = tensors[number].replace(data_type=data_type)
            changes[name] = tuple(tensors)
    return desc.replace(**changes)


def _choices(
    place: Place, data_type: str, allowed: Mapping[Place, list[str]], tensors: Any
) -> Iterator[dict[Place, str]]:
    """Types of some tensors, that of ``place`` first: of those alike, of those that may have it, of one other; the rest
    have one of their own."""
    alike = [other for other in tensors if tensors[other].data_type == tensors[place].data_type]
    may = [other for other in tensors if data_type in allowed[other]]
    groups = [alike, [], may, [other for other in alike if other in may], *([other] for other in tensors)]
    bases = []
    for group in groups:
        chosen = {place: data_type} | dict.fromkeys(group, data_type)
        for other, tensor in tensors.items():
            if other not in chosen and tensor.data_type.name not in allowed[other]:
                chosen[other] = allowed[other][0]
        bases.append(chosen)
    yield from bases
    for base in bases:
        for other in tensors:
            yield from (base | {other: name} for name in allowed[other] if other != place)


def _tables(desc: Operator) -> Iterator[tuple[Operator, FeatureLevel, Mapping[str, Any]]]:
    """The tables of the sheet, each with the function and level that it is about."""
    specified, renamed = sheet(desc.type), SUPPORT_DEVIATIONS.get(desc.type.name, {})
    variants = specified.get("support_by_function") or [{"support": specified["support"]}]
    for variant in variants:
        of = desc.replace(function=variant["functions"][0]) if "functions" in variant else desc
        for level, rows in variant["support"].items():
            yield of, FeatureLevel.parse(renamed.get(level, level)), rows


@needs_specification
@pytest.mark.parametrize("desc", samples(), ids=lambda desc: desc.type.name)
def test_every_type_of_the_sheet_is_taken(desc: Operator) -> None:
    deviations, tensors = TYPE_DEVIATIONS.get(desc.type.name, {}), _tensors(desc)
    tried, refused = 0, []
    for of, level, rows in _tables(desc):
        if any(not row["ranks"][0] <= tensors[p].rank <= row["ranks"][1] for p in tensors for row in [rows[p[0]]]):
            continue
        allowed = {place: sorted(deviations.get(place[0], rows[place[0]]["types"])) for place in tensors}
        roles = _roles(desc, allowed)
        for place in tensors:
            for data_type in roles[place]:
                tried += 1
                choices = _choices(place, data_type, roles, tensors)
                if all(validate(_with_types(of, types), level) for types in choices):
                    refused.append((str(level), place, data_type))
    assert tried
    assert refused == []


def _roles(desc: Operator, allowed: dict[Place, list[str]]) -> dict[Place, list[str]]:
    """Of the tensors of QUANTIZE and DEQUANTIZE the first is a scale and the second a zero point."""
    if "quantization_tensors" not in desc.fields:
        return allowed
    floats = [name for name in allowed["QuantizationTensors", 0] if name.startswith("FLOAT")]
    integers = [name for name in allowed["QuantizationTensors", 1] if not name.startswith("FLOAT")]
    return allowed | {("QuantizationTensors", 0): floats, ("QuantizationTensors", 1): integers}
