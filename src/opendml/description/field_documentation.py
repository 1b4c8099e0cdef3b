"""What ``help`` shows of an operator's class: the signature of its constructor, and a line for each field."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from opendml.description.fields import ArrayField, CountField, Field, camel_case

_DIRECTIONS = {"input": "read", "output": "written"}


def signature_of(fields: Mapping[str, Field]) -> inspect.Signature:
    """The constructor's parameters: keywords only, in DirectML's order."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required else field.default,
            annotation=_given(field),
        )
        for name, field in fields.items()
    ]
    return inspect.Signature(parameters)


def documentation_of(documentation: str | None, struct: str, fields: Mapping[str, Field]) -> str:
    """The documentation of a class, and behind it its fields."""
    lines = [f"        {name}: {_description(field)}" for name, field in fields.items()]
    head = (documentation or "").rstrip()
    return "\n".join([head, "", f"    Fields, those of ``{struct}``:", "", *lines, "    "])


def _given(field: Field) -> str:
    """The Python type that a field is given."""
    may_be_none = field.optional or (isinstance(field, CountField) and not field.is_required)
    return f"{field.python_type} | None" if may_be_none else field.python_type


def _description(field: Field) -> str:
    """``InputWindowSizes, UINT[DimensionCount]``, and what else there is to say."""
    parts = [field.json_name, field.kind]
    parts += [_DIRECTIONS[direction] for direction in (getattr(field, "direction", None),) if direction]
    if isinstance(field, CountField):
        parts.append(f"the length of {camel_case(field.array)}")
    if isinstance(field, ArrayField):
        parts.append("any sequence")
    if field.optional:
        parts.append("may be left out")
    elif not field.is_required:
        parts.append("computed" if isinstance(field, CountField) else "left out of a fused activation")
    return ", ".join(parts)
