"""Expressions and definitions as text, for people: what ``opendml explain`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Compute,
    Const,
    Definition,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    Repeat,
    Scan,
    Scatter,
    Select,
    Statement,
    Store,
    Tensor,
    Unary,
    Variable,
)

_SIGNS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "rem": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}


def format_expression(expression: Expression) -> str:
    """One line in the grammar's own terms, with infix operators."""
    return _FORMAT[type(expression)](expression)


def format_definition(definition: Definition) -> str:
    """The tensors, then the statements of a definition, a line or a few each."""
    tensors = [*definition.inputs, *definition.outputs, *definition.temporaries]
    lines = [_format_tensor(tensor) for tensor in tensors if tensor is not None]
    for statement in definition.statements:
        lines += _format_statement(statement)
    return "\n".join(lines)


def _format_tensor(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.sizes))
    strides = ", ".join(map(str, tensor.strides))
    offset = f", offset {tensor.offset}" if tensor.offset else ""
    return f"{tensor.role} {tensor.name}: {tensor.type}[{sizes}], strides [{strides}]{offset}"


def _axes(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name} < {axis.size}" for axis in axes)


def _format_store(store: Store) -> str:
    return f"{store.tensor.name}[{_list(store.coordinates)}] = {format_expression(store.value)}"


def _format_statement(statement: Statement) -> list[str]:
    if isinstance(statement, Compute):
        return [f"for {_axes(statement.axes) or 'one point'}:", *(f"  {_format_store(s)}" for s in statement.stores)]
    if isinstance(statement, Scatter):
        head = f"for {_axes(statement.axes)} in order, where {format_expression(statement.where)}:"
        return [head, f"  {_format_store(statement.store)}"]
    if isinstance(statement, Repeat):
        inner = [f"  {line}" for s in statement.statements for line in _format_statement(s)]
        return [f"repeat {_axes([statement.axis])}:", *inner]
    return _format_scan(statement)


def _format_scan(scan: Scan) -> list[str]:
    names = _list(scan.state)
    return [
        f"for {_axes(scan.axes) or 'one point'}:",
        f"  scan {_axes([scan.along])} with ({names}) = ({_list(scan.initial)}):",
        *(f"    {_format_store(store)}" for store in scan.stores),
        f"    ({names}) = ({_list(scan.step)})",
    ]


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(format_expression(e) for e in expressions)


def _format_binary(e: Binary) -> str:
    left, right = format_expression(e.left), format_expression(e.right)
    sign = _SIGNS.get(e.operation)
    return f"({left} {sign} {right})" if sign else f"{e.operation}({left}, {right})"


def _format_fold(fold: Fold) -> str:
    combine = fold.combine
    operands = f"({_list(combine.left)}), ({_list(combine.right)})"
    guard = f" where {format_expression(fold.where)}" if fold.where is not None else ""
    lanes = f", {fold.lanes} lanes" if fold.lanes > 1 else ""
    fused = ", fused multiply-add" if fold.contract else ""
    return (
        f"fold[{_axes(fold.axes)}{guard}{lanes}{fused}]"
        f"({_list(fold.initial)}; {operands} -> ({_list(combine.result)}); {_list(fold.elements)})"
    )


def _format_part(e: Part) -> str:
    return _format_fold(e.fold) + (f".{e.number}" if len(e.fold.elements) > 1 else "")


def _format_constant(e: Const) -> str:
    return str(e.value) if e.type.name in ("i64", "bool") else f"{e.value}:{e.type}"


_FORMAT: Final[dict[type, Callable[[Any], str]]] = {
    Const: _format_constant,
    Index: lambda e: e.axis.name,
    Variable: lambda e: e.name,
    Load: lambda e: f"{e.tensor.name}[{_list(e.coordinates)}]",
    Unary: lambda e: f"{e.operation}({format_expression(e.operand)})",
    Binary: _format_binary,
    Select: lambda e: f"select({_list((e.condition, e.then, e.otherwise))})",
    Cast: lambda e: f"{e.type}({format_expression(e.operand)})",
    Bitcast: lambda e: f"bits_as_{e.type}({format_expression(e.operand)})",
    Part: _format_part,
}
