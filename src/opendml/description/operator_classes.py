"""Which descriptor class an operator has. Classes register themselves when their files are imported.

It stands below fields and descriptors, since operators have fields, and a field may hold an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opendml import _loading
from opendml.description.enums import OperatorType
from opendml.description.errors import DescriptorFormatError
from opendml.description.json_values import DXDISPATCH_MODEL, join, read_enum

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator

_classes: dict[OperatorType, type[Operator]] = {}
"""Those that there are so far."""

_registered: set[type] = set()


def register(operator: type[Operator]) -> None:
    """Makes a class the one of its operator."""
    _classes[operator.type] = operator
    _registered.add(operator)


def operator_class(operator_type: OperatorType) -> type[Operator]:
    """The descriptor class of an operator; ``UnknownOperatorError`` if there is none."""
    if operator_type not in _classes:
        _loading.load_operator(operator_type)
    return _classes[operator_type]


def is_operator(value: object) -> bool:
    """Whether a value is a descriptor, of a registered class or of one made of it."""
    return not _registered.isdisjoint(type(value).__mro__)


def type_name_in(json: Mapping[str, Any]) -> str | None:
    """The member of an object that says which operator it is: beside "type" an inline "Type" is a field of
    RANDOM_GENERATOR."""
    return next((name for name in ("type", "Type") if name in json), None)


def operator_in(json: Mapping[str, Any], path: str) -> type[Operator]:
    """The class of the operator that JSON describes. Raises ``DescriptorFormatError`` where it names none."""
    type_name = type_name_in(json)
    if type_name is None:
        is_model = "dispatchables" in json and "commands" in json
        what = f"not a descriptor: it is {DXDISPATCH_MODEL}" if is_model else "the field is missing"
        raise DescriptorFormatError(path if is_model else join(path, "Type"), what)
    operator_type = read_enum(OperatorType, json[type_name], join(path, type_name))
    try:
        return operator_class(operator_type)
    except LookupError as error:
        raise DescriptorFormatError(join(path, type_name), str(error)) from None
