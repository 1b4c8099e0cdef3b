"""Expressions and definitions as text, for people: what ``opendml explain`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    FusedMultiplyAdd,
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

NAMED_LENGTH: Final = 24
"""Length from which on what occurs several times is written once, under a name."""

Names = Mapping[Expression, str]


def format_expression(expression: Expression, names: Names | None = None) -> str:
    """One line in the grammar's own terms, with infix operators; what is in ``names`` is called by its name."""
    names = names or {}
    known = names.get(expression)
    return known if known is not None else _FORMAT.get(type(expression), _format_other)(expression, names)


def format_values(values: Sequence[tuple[str, Expression]]) -> list[str]:
    """``target = value`` lines, after lines that give names to folds and to what occurs several times.

    So the text is about as long as the expressions are large, however much they share. What has a name may depend on
    the axes of the fold in which it occurs.
    """
    names: dict[Expression, str] = {}
    lines = []
    counts = {"fold": 0, "x": 0}
    uses = _uses([value for _, value in values])
    for e, count in uses.items():
        is_fold = isinstance(e, Fold)
        if not is_fold and (count < 2 or not e.children or isinstance(e, Part)):
            continue
        text = _format_fold(e, names) if isinstance(e, Fold) else format_expression(e, names)
        if is_fold or len(text) >= NAMED_LENGTH:
            kind = "fold" if is_fold else "x"
            names[e] = f"{kind}{counts[kind]}"
            counts[kind] += 1
            lines.append(f"{names[e]} = {text}")
    return lines + [f"{target} = {format_expression(value, names)}" for target, value in values]


def format_definition(definition: Definition) -> str:
    """The tensors, then the statements of a definition, a line or a few each."""
    tensors = [*definition.inputs, *definition.outputs, *definition.temporaries]
    lines = [_format_tensor(tensor) for tensor in tensors if tensor is not None]
    lines += [f"view of {root.name}, {_format_tensor(view)}" for view, root in definition.views]
    for statement in definition.statements:
        lines += _format_statement(statement)
    return "\n".join(lines)


def _uses(roots: Iterable[Expression]) -> dict[Expression, int]:
    """How often each expression occurs in others, those that it consists of before it."""
    counts: dict[Expression, int] = {}

    def count(e: Expression) -> None:
        if e not in counts:
            for child in e.children:
                count(child)
        counts[e] = counts.get(e, 0) + 1

    for root in roots:
        count(root)
    return counts


def _format_tensor(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.sizes))
    strides = ", ".join(map(str, tensor.strides))
    offset = f", offset {tensor.offset}" if tensor.offset else ""
    return f"{tensor.role} {tensor.name}: {tensor.type}[{sizes}], strides [{strides}]{offset}"


def _axes(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name} < {axis.size}" for axis in axes)


def _format_stores(stores: Iterable[Store]) -> list[str]:
    return format_values([(f"{s.tensor.name}[{_list(s.coordinates, {})}]", s.value) for s in stores])


def _format_statement(statement: Statement) -> list[str]:
    if isinstance(statement, Compute):
        return [
            f"for {_axes(statement.axes) or 'one point'}:",
            *(f"  {line}" for line in _format_stores(statement.stores)),
        ]
    if isinstance(statement, Scatter):
        head = f"for {_axes(statement.axes)} in order, where {format_expression(statement.where)}:"
        return [head, *(f"  {line}" for line in _format_stores([statement.store]))]
    if isinstance(statement, Repeat):
        inner = [f"  {line}" for s in statement.statements for line in _format_statement(s)]
        return [f"repeat {_axes([statement.axis])}:", *inner]
    return _format_scan(statement)


def _format_scan(scan: Scan) -> list[str]:
    state = _list(scan.state, {})
    steps = [(f"next {variable.name}", step) for variable, step in zip(scan.state, scan.step, strict=True)]
    return [
        f"for {_axes(scan.axes) or 'one point'}:",
        f"  scan {_axes([scan.along])} with ({state}) = ({_list(scan.initial, {})}):",
        *(f"    {line}" for line in _format_stores(scan.stores)),
        *(f"    {line}" for line in format_values(steps)),
    ]


def _list(expressions: Iterable[Expression], names: Names) -> str:
    return ", ".join(format_expression(e, names) for e in expressions)


def _format_binary(e: Binary, names: Names) -> str:
    left, right = format_expression(e.left, names), format_expression(e.right, names)
    sign = _SIGNS.get(e.operation)
    return f"({left} {sign} {right})" if sign else f"{e.operation}({left}, {right})"


def _format_fold(fold: Fold, names: Names) -> str:
    combine = fold.combine
    operands = f"({_list(combine.left, names)}), ({_list(combine.right, names)})"
    guard = f" where {format_expression(fold.where, names)}" if fold.where is not None else ""
    lanes = f", {fold.lanes} lanes" if fold.lanes > 1 else ""
    fused = ", fused multiply-add" if fold.contract else ""
    return (
        f"fold[{_axes(fold.axes)}{guard}{lanes}{fused}]"
        f"({_list(fold.initial, names)}; {operands} -> ({_list(combine.result, names)}); {_list(fold.elements, names)})"
    )


def _format_part(e: Part, names: Names) -> str:
    fold = names.get(e.fold) or _format_fold(e.fold, names)
    return fold + (f".{e.number}" if len(e.fold.elements) > 1 else "")


def _format_constant(e: Const, names: Names) -> str:
    return str(e.value) if e.type.name in ("i64", "bool") else f"{e.value}:{e.type}"


def _format_other(e: Expression, names: Names) -> str:
    return str(e)


_FORMAT: Final[dict[type, Callable[[Any, Names], str]]] = {
    Const: _format_constant,
    Index: lambda e, names: e.axis.name,
    Variable: lambda e, names: e.name,
    Load: lambda e, names: f"{e.tensor.name}[{_list(e.coordinates, names)}]",
    Unary: lambda e, names: f"{e.operation}({format_expression(e.operand, names)})",
    Binary: _format_binary,
    Select: lambda e, names: f"select({_list((e.condition, e.then, e.otherwise), names)})",
    FusedMultiplyAdd: lambda e, names: f"fma({_list((e.x, e.y, e.z), names)})",
    Cast: lambda e, names: f"{e.type}({format_expression(e.operand, names)})",
    Bitcast: lambda e, names: f"bits_as_{e.type}({format_expression(e.operand, names)})",
    Part: _format_part,
}
