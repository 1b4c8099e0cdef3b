"""Expressions and definitions as text, for people: what ``opendml explain`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opendml.expression.ir import Axis, Expression, Fold, Part, Tensor
from opendml.expression.notation import listed, written
from opendml.expression.rewriting import inner_first
from opendml.expression.statements import Compute, Definition, Each, Order, Repeat, Scan, Scatter, Statement, Store

NAMED_LENGTH: Final = 24
"""Length from which on what occurs several times is written once, under a name."""

Names = Mapping[Expression, str]


def format_expression(expression: Expression, names: Names | None = None, *, limit: int | None = None) -> str:
    """One line in the grammar's own terms, with infix operators; what is in ``names`` is called by its name.

    What is longer than ``limit`` characters ends in dots: without names, what occurs several times is written as often.
    """
    return written([expression], names, limit)


def format_values(values: Sequence[tuple[str, Expression]]) -> list[str]:
    """``target = value`` lines, after lines that give names to folds and to what occurs several times.

    So the text is about as long as the expressions are large, however much they share. What has a name may depend on
    the axes of the fold in which it occurs.
    """
    lines, texts = format_together([value for _, value in values])
    return lines + [f"{target} = {text}" for (target, _), text in zip(values, texts, strict=True)]


def format_together(expressions: Sequence[Expression]) -> tuple[list[str], list[str]]:
    """Lines that give names, as of ``format_values``, and the texts of the expressions by these names."""
    names: dict[Expression, str] = {}
    lines = []
    counts = {"fold": 0, "x": 0}
    for e, count in _uses(expressions).items():
        is_fold = isinstance(e, Fold)
        if not is_fold and (count < 2 or not e.children or isinstance(e, Part)):
            continue
        text = written(e.words(), names)
        if is_fold or len(text) >= NAMED_LENGTH:
            kind = "fold" if is_fold else "x"
            names[e] = f"{kind}{counts[kind]}"
            counts[kind] += 1
            lines.append(f"{names[e]} = {text}")
    return lines, [format_expression(e, names) for e in expressions]


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
    for root in roots:
        for e in inner_first(root, counts):
            counts[e] = 0
            for child in e.children:
                counts[child] += 1
        counts[root] += 1
    return counts


def _format_tensor(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.sizes))
    strides = ", ".join(map(str, tensor.strides))
    offset = f", offset {tensor.offset}" if tensor.offset else ""
    return f"{tensor.role} {tensor.name}: {tensor.type}[{sizes}], strides [{strides}]{offset}"


def _axes(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.name} < {axis.size}" for axis in axes)


def _format_stores(stores: Iterable[Store]) -> list[str]:
    return format_values([(f"{s.tensor.name}[{_list(s.coordinates)}]", s.value) for s in stores])


def _format_statement(statement: Statement) -> list[str]:
    if isinstance(statement, Compute):
        return [
            f"for {_axes(statement.axes) or 'one point'}:",
            *(f"  {line}" for line in _format_stores(statement.stores)),
        ]
    if isinstance(statement, Scatter):
        apart = "".join(f", apart along {axis.name}" for axis in statement.apart)
        named, (where,) = format_together([statement.where])
        head = f"for {_axes(statement.axes)} in order{apart}, where {where}:"
        return [*named, head, *(f"  {line}" for line in _format_stores([statement.store]))]
    if isinstance(statement, Repeat):
        inner = [f"  {line}" for s in statement.statements for line in _format_statement(s)]
        return [f"repeat {_axes([statement.axis])}:", *inner]
    if isinstance(statement, Each):
        inner = [f"  {line}" for s in statement.statements for line in _format_statement(s)]
        own = ", ".join(tensor.name for tensor in statement.own)
        return [f"each {_axes(statement.axes)}{f', with {own} of its own' if own else ''}:", *inner]
    if isinstance(statement, Order):
        named, (key,) = format_together([statement.key])
        order = f"order {_axes([statement.along])} by {key}"
        return [
            f"for {_axes(statement.axes) or 'one point'}:",
            *(f"  {line}" for line in named),
            f"  {order}, of the first {_axes([statement.rank])} the coordinate is {statement.chosen.name}:",
            *(f"    {line}" for line in _format_stores(statement.stores)),
        ]
    return _format_scan(statement)


def _format_scan(scan: Scan) -> list[str]:
    state = _list(scan.state)
    steps = [(f"next {variable.name}", step) for variable, step in zip(scan.state, scan.step, strict=True)]
    return [
        f"for {_axes(scan.axes) or 'one point'}:",
        f"  scan {_axes([scan.along])} with ({state}) = ({_list(scan.initial)}):",
        *(f"    {line}" for line in _format_stores(scan.stores)),
        *(f"    {line}" for line in format_values(steps)),
    ]


def _list(expressions: Iterable[Expression]) -> str:
    return written(listed(expressions))
