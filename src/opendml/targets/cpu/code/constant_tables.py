"""Constants that kernels read from tables of the program."""

from __future__ import annotations

from collections.abc import Mapping

from opendml.expression.element_types import ElementType
from opendml.expression.ir import Const, Tensor
from opendml.llvm.values import literal, vector_type


def constant_tables(constants: Mapping[Tensor, Const]) -> tuple[list[str], dict[Tensor, tuple[str, int]]]:
    """Definitions of tables that hold constants; for each tensor the name of its table, and how many bytes it lies
    behind the beginning of that."""
    rows: dict[ElementType, list[Const]] = {}
    places: dict[Tensor, tuple[str, int]] = {}
    for tensor, const in constants.items():
        row = rows.setdefault(const.type, [])
        places[tensor] = f"@constants_{const.type}", len(row) * const.type.bits // 8
        row.append(const)
    tables = []
    for type, row in rows.items():
        element = vector_type(type, 1)
        elements = ", ".join([f"{element} {literal(const)}" for const in row])
        tables.append(f"@constants_{type} = internal constant [{len(row)} x {element}] [{elements}]")
    return tables, places
