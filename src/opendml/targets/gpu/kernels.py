"""Nests into kernels: a function that every thread runs with its own number, which tells it its work item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Expression, Tensor, Variable
from opendml.expression.statements import Single, reads_of, stores_of
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, index_value
from opendml.loops.nest import Body, Branch, Items, Leaf, Loop, Nest, nodes_of
from opendml.targets.gpu.dialect import Dialect
from opendml.targets.gpu.evaluation import Evaluator, Name
from opendml.targets.gpu.nests import nest_of

Registers = dict[Name, Value]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One statement within ``loops``, which the host runs: ``tensors`` are its pointers, in order, behind which the
    positions of the loops come; ``points``: how many threads it needs, one for each work item of its ``nest``."""

    name: str
    statement: Single
    loops: tuple[Axis, ...]
    nest: Nest
    text: str
    declarations: frozenset[str]
    tensors: tuple[Tensor, ...]
    points: int


def write_kernel(
    name: str,
    statement: Single,
    loops: Sequence[Axis],
    start: Callable[[Tensor], int],
    dialect: Dialect,
    *,
    divides_exactly: bool,
) -> Kernel:
    """The kernel of a statement within ``loops``. ``start`` gives how many elements into its buffer a tensor begins."""
    used = {*reads_of(statement), *(store.tensor for store in stores_of(statement))}
    tensors = tuple(sorted(used, key=lambda tensor: (tensor.role, tensor.name, id(tensor))))
    numbers = {tensor: number for number, tensor in enumerate(tensors)}
    builder = Builder()
    evaluator = Evaluator(builder, lambda t: (f"%p{numbers[t]}", start(t)), divides_exactly=divides_exactly)
    nest = nest_of(statement)
    (items,) = nest.body
    assert isinstance(items, Items)
    axes = [cut.axis for cut in items.cuts]
    for line in dialect.position:
        builder.line(line)
    builder.line(f"%is_point = icmp ult i64 %position, {items.count}")
    builder.line("br i1 %is_point, label %point, label %end")
    builder.begin("point")
    around: dict[Name, Value] = {axis: index_value(f"%l{number}") for number, axis in enumerate(loops)}
    with evaluator.at({**around, **_decoded(builder, axes)}):
        _write(evaluator, items.body)
    builder.jump("end")
    parameters = [f"ptr addrspace(1) %p{number}" for number in range(len(tensors))]
    parameters += [f"i64 %l{number}" for number in range(len(loops))]
    head = f"define {dialect.kernel} void @{name}({', '.join(parameters)}) {{\nentry:"
    text = "\n".join((head, *evaluator.allocations, *builder.lines, "end:\n  ret void\n}"))
    declarations = frozenset((*builder.declarations, *dialect.declarations))
    return Kernel(name, statement, tuple(loops), nest, text, declarations, tensors, items.count)


def _decoded(builder: Builder, axes: Sequence[Axis]) -> dict[Name, Value]:
    """The coordinates of a thread, in row-major order."""
    coordinates: dict[Name, Value] = {}
    rest = Value("%position", I64)
    large = [axis for axis in axes if axis.size > 1]
    coordinates |= {axis: index_value(0) for axis in axes if axis.size == 1}
    for axis in reversed(large):
        if axis is large[0]:
            coordinates[axis] = rest
        else:
            coordinates[axis] = builder.binary("rem", rest, index_value(axis.size))
            rest = builder.binary("div", rest, index_value(axis.size))
    return coordinates


# The nodes of plain nests: each gives the registers that it has set --------------------------------------------------


def _write(evaluator: Evaluator, body: Body, wanted: Sequence[Variable] = ()) -> list[Value]:
    """A body, node by node; what the registers that are ``wanted`` hold behind it."""
    with ExitStack() as scopes:
        for node in body:
            registers = _WRITE[type(node)](evaluator, node)
            if registers:
                scopes.enter_context(evaluator.at(registers))
        return [evaluator.bound(variable) for variable in wanted]


def _leaf(evaluator: Evaluator, leaf: Leaf) -> Registers:
    """All values are known before the first is stored."""
    values = evaluator.values(store.value for store in leaf.stores)
    registers = evaluator.values(leaf.values)
    for store, value in zip(leaf.stores, values, strict=True):
        evaluator.store(store.tensor, store.address, value)
    return dict(zip(leaf.registers, registers, strict=True))


def _loop(evaluator: Evaluator, loop: Loop) -> Registers:
    carried = loop.carried
    if carried:
        evaluator.prepare(_evaluated(loop.body), frozenset((*_standing(loop.body), loop.axis, *carried)))

    def step(values: list[Value]) -> Sequence[Value]:
        with evaluator.at(dict(zip(carried, values, strict=True))):
            return _write(evaluator, loop.body, carried)

    before = [evaluator.bound(variable) for variable in carried]
    return dict(zip(carried, evaluator.loop(loop.axis, before, step), strict=True))


def _branch(evaluator: Evaluator, branch: Branch) -> Registers:
    assert isinstance(branch.condition, Expression)
    evaluator.when(evaluator.value(branch.condition), lambda: _write(evaluator, branch.then))
    return {}


def _evaluated(body: Body) -> list[Expression]:
    """What is sure to be evaluated in a body."""
    leaves = [node for node in body if isinstance(node, Leaf)]
    return [e for leaf in leaves for e in (*leaf.values, *(store.value for store in leaf.stores))]


def _standing(body: Body) -> list[Name]:
    """The axes and registers that a body gives values to."""
    found: list[Name] = []
    for node in nodes_of(body):
        found += node.registers if isinstance(node, Leaf) else [node.axis] if isinstance(node, Loop) else []
    return found


_WRITE: Final[dict[type, Callable[[Evaluator, Any], Registers]]] = {Leaf: _leaf, Loop: _loop, Branch: _branch}
