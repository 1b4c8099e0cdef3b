"""What is wrong with ``x + y``, in the words of the expression: its operands instead of the fields of a descriptor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from opendml.description.data_types import nearest_data_type
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.errors import InvalidDescriptorError
from opendml.description.rules import Violation
from opendml.description.validation import support_at

EXPRESSIONS: Final = {
    OperatorType.ELEMENT_WISE_ADD: "left + right",
    OperatorType.ELEMENT_WISE_SUBTRACT: "left - right",
    OperatorType.ELEMENT_WISE_MULTIPLY: "left * right",
    OperatorType.ELEMENT_WISE_DIVIDE: "left / right",
    OperatorType.ELEMENT_WISE_MODULUS_FLOOR: "left % right",
    OperatorType.ELEMENT_WISE_POW: "left ** right",
    OperatorType.ELEMENT_WISE_BIT_AND: "left & right",
    OperatorType.ELEMENT_WISE_BIT_OR: "left | right",
    OperatorType.ELEMENT_WISE_BIT_XOR: "left ^ right",
    OperatorType.ELEMENT_WISE_BIT_SHIFT_LEFT: "left << right",
    OperatorType.ELEMENT_WISE_BIT_SHIFT_RIGHT: "left >> right",
    OperatorType.ELEMENT_WISE_LOGICAL_EQUALS: "left == right",
    OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN: "left < right",
    OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: "left <= right",
    OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN: "left > right",
    OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: "left >= right",
    OperatorType.GEMM: "left @ right",
    OperatorType.ELEMENT_WISE_NEGATE: "-operand",
    OperatorType.ELEMENT_WISE_ABS: "abs(operand)",
    OperatorType.ELEMENT_WISE_BIT_NOT: "~operand",
}
"""How operators are written in Python."""

OPERANDS: Final = {
    "ATensor": "left",
    "BTensor": "right",
    "InputTensor": "operand",
    "ExponentTensor": "right",
}

_MEMBERS: Final = {"DataType": "data type", "DimensionCount": "rank", "Sizes": "sizes", "Strides": "strides"}


def in_words_of_expression(error: InvalidDescriptorError) -> InvalidDescriptorError:
    """The error of an operator's descriptor as one of the expression; as it is where it is none of a descriptor.

    What is only inferred, outputs above all, is left out beside what is wrong with an operand.
    """
    desc = error.desc
    if desc is None:
        return error
    operands = {field.json_name: OPERANDS[field.json_name] for field in desc.fields.values()
                if field.json_name in OPERANDS}  # fmt: skip
    if "ExponentTensor" in operands:
        operands["InputTensor"] = "left"
    causes = [violation for violation in error.violations if _root(violation.field) in operands]
    violations = [_reworded(desc, violation, operands, error) for violation in causes or error.violations]
    first, name = str(error).split("\n", 1)[0], desc.type.dml_name
    expression = EXPRESSIONS.get(desc.type)
    message = first.replace(f"{name} is invalid", f"{expression}: {name} is invalid", 1) if expression else first
    return InvalidDescriptorError(message, violations)


def _root(place: str) -> str:
    return re.split(r"[.\[]", place, maxsplit=1)[0]


def _reworded(
    desc: Operator, violation: Violation, operands: Mapping[str, str], error: InvalidDescriptorError
) -> Violation:
    def words(text: str) -> str:
        return re.sub(r"[A-Z]\w*", lambda found: operands.get(found[0]) or _MEMBERS.get(found[0], found[0]), text)

    operand = operands.get(_root(violation.field), "")
    return replace(
        violation,
        field=words(violation.field),
        rule=words(violation.rule),
        cure=_cure(desc, violation, operand, error) if operand else "",
    )


def _cure(desc: Operator, violation: Violation, operand: str, error: InvalidDescriptorError) -> str:
    """A conversion where a type is wrong; nothing where there is no telling."""
    right = right_data_type(desc, violation, error.feature_level or desc.since)
    return "" if right is None else f'{operand}.astype("{right.name.lower()}")'


def right_data_type(desc: Operator, violation: Violation, level: FeatureLevel) -> TensorDataType | None:
    """The data type that an input should have of which a violation says that its own is wrong; None where there is no
    telling, or something else is wrong."""
    tensors = dict(desc.inputs())
    tensor, other = tensors.get(violation.field), re.match(r"must have the DataType of (\w+)", violation.rule)
    if other is not None:
        like = tensors.get(other[1])
        return None if like is None else like.data_type
    field = next((name for name, field in desc.fields.items() if field.json_name == _root(violation.field)), "")
    support = support_at(desc.support_table(), field, level)
    if tensor is None or support is None or not tensor.data_type.bits:
        return None
    if tensor.data_type in support.data_types or violation.got != tensor.data_type.name:
        return None
    return nearest_data_type(tensor.data_type, support.data_types)
