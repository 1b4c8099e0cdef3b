"""Einsum: sums of products by labels of dimensions, two operands after another."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from typing import Final, NamedTuple

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.description.quoting import quoted
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["EINSUM"]


class _Labelled(NamedTuple):
    """A tensor whose dimensions have labels, each another one."""

    tensor: GraphTensor
    labels: str

    def ordered(self, labels: str) -> GraphTensor:
        """The dimensions in another order, those that it does not have with size 1."""
        have = [label for label in labels if label in self.labels]
        moved = self.tensor.transpose([self.labels.index(label) for label in have]) if have else self.tensor
        sizes = dict(zip(have, moved.sizes, strict=False))
        return moved.reshape([sizes.get(label, 1) for label in labels] or [1])

    def sizes(self) -> dict[str, int]:
        """By label."""
        return dict(zip(self.labels, self.tensor.sizes, strict=False))


def _einsum(node: Node) -> Results:
    if node.type_of().kind != "f":
        raise NotExpressibleError(f"sums of products of {node.type_of()} are not done yet")
    terms, result = _terms(node)
    operands = [_diagonal(node.tensor(i), term) for i, term in enumerate(terms)]
    for number, operand in enumerate(operands):
        others = "".join(one.labels for i, one in enumerate(operands) if i != number)
        operands[number] = _summed(operand, {*result, *others})
    left = operands[0]
    for number, right in enumerate(operands[1:], 1):
        later = "".join(one.labels for one in operands[number + 1 :])
        left = _product(left, right, {*result, *later})
    sizes = functools.reduce(lambda found, one: found | one.sizes(), operands, dict[str, int]())
    return node.result(left.ordered(result), [sizes[label] for label in result])


def _terms(node: Node) -> tuple[list[str], str]:
    """The labels of each operand and of the result; those of an ellipsis become labels that are not used."""
    equation = node.text("equation").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    free = [label for label in string.printable[:62] if label not in equation][:8]
    ranks = [len(node.sizes(i)) - len(term.replace("...", "")) for i, term in enumerate(terms)]
    widest = max((rank for rank, term in zip(ranks, terms, strict=True) if "..." in term), default=0)
    dots = "".join(free[:widest])
    if not arrow:
        once = [label for label in sorted({*left} - {*".,"}) if left.count(label) == 1]
        result = "..." * ("..." in left) + "".join(once)
    found = [term.replace("...", dots[widest - rank :]) for rank, term in zip(ranks, terms, strict=True)]
    result = result.replace("...", dots)
    if len({*result}) < len(result) or {*result} - {*"".join(found)}:
        raise NotExpressibleError(f"equation: {quoted(equation)} has a label in its result twice, or only there")
    return found, result


def _diagonal(tensor: GraphTensor, labels: str) -> _Labelled:
    """Dimensions with the same label become one, of the elements whose places are the same in both."""
    once = "".join(dict.fromkeys(labels))
    if len(once) == len(labels):
        return _Labelled(tensor, labels)
    packed = tensor if tensor.desc.is_packed else tensor.packed()
    sizes = [min(size for size, one in zip(packed.sizes, labels, strict=True) if one == label) for label in once]
    strides = [sum(step for step, one in zip(packed.strides, labels, strict=True) if one == label) for label in once]
    return _Labelled(packed.reinterpret(sizes, strides), once)


def _summed(operand: _Labelled, needed: set[str]) -> _Labelled:
    """Without the dimensions that nothing else has."""
    axes = [i for i, label in enumerate(operand.labels) if label not in needed]
    if not axes:
        return operand
    kept = "".join(label for label in operand.labels if label in needed)
    sums = dml.reduce(operand.tensor, "SUM", axes=axes)
    return _Labelled(sums.reshape([operand.sizes()[label] for label in kept] or [1]), kept)


def _product(left: _Labelled, right: _Labelled, needed: set[str]) -> _Labelled:
    """Products of matrices: what both have and is needed are stacks of them, what is not needed is summed."""
    both = [label for label in left.labels if label in right.labels]
    stacks = "".join(label for label in both if label in needed)
    inner = "".join(label for label in both if label not in needed)
    rows = "".join(label for label in left.labels if label not in both)
    columns = "".join(label for label in right.labels if label not in both)
    sizes = _joint(left.sizes(), right.sizes())
    first = _matrix(left, sizes, stacks, rows, inner)
    second = _matrix(right, sizes, stacks, inner, columns)
    labels = stacks + rows + columns
    product: GraphTensor = first @ second
    return _Labelled(product.reshape([sizes[label] for label in labels] or [1]), labels)


def _joint(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """The sizes of the labels of both; a size of 1 is repeated."""
    return left | {label: size for label, size in right.items() if left.get(label, 1) == 1}


def _matrix(operand: _Labelled, sizes: dict[str, int], stacks: str, rows: str, columns: str) -> GraphTensor:
    """One stack of matrices."""
    labels = stacks + rows + columns
    whole = operand.ordered(labels).broadcast_to([sizes[label] for label in labels] or [1])
    return whole.reshape(*(_count(sizes, part) for part in (stacks, rows, columns)))


def _count(sizes: dict[str, int], labels: Sequence[str]) -> int:
    return math.prod(sizes[label] for label in labels)


EINSUM: Final[Table] = {"Einsum": _einsum}
