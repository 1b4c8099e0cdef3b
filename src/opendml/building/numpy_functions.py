"""NumPy's functions of elements on graph tensors: ``np.exp(x)``, where an operator means exactly the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opendml.building.graph_operators import (
    binary,
    comparison,
    is_graph_tensor,
    matrix_product,
    power,
    quotient,
    unary,
)
from opendml.description.enums import OperatorType, TensorDataType

if TYPE_CHECKING:
    from opendml.building.graph_tensor import GraphTensor

Function = Callable[..., "GraphTensor"]


def apply(function: np.ufunc, method: str, operands: tuple[Any, ...], options: dict[str, Any]) -> GraphTensor:
    """The tensor that a function of NumPy gives. Raises TypeError, which names what to use, where none is the same."""
    name = function.__name__
    if method != "__call__":
        raise TypeError(f"numpy.{name}.{method} cannot take a graph tensor; use opendml.reduce ")
    if options:
        raise TypeError(f"numpy.{name} of a graph tensor takes no {', '.join(options)}")
    if name not in _FUNCTIONS:
        hint = f"use {_INSTEAD[name]}" if name in _INSTEAD else "see opendml's functions"
        raise TypeError(f"no operator means exactly what numpy.{name} does; {hint}")
    return _FUNCTIONS[name](*operands)


def _of_one(name: str) -> Function:
    return lambda x: unary(OperatorType[f"ELEMENT_WISE_{name}"], x)


def _of_two(name: str) -> Function:
    return lambda a, b: binary(OperatorType[f"ELEMENT_WISE_{name}"], a, b)


def _of_bits(name: str) -> Function:
    """NumPy's operations on bits have no meaning for floating-point numbers; the operators take any type."""

    def call(*operands: Any) -> GraphTensor:
        if any(is_graph_tensor(x) and x.dtype.kind == "f" for x in operands):
            raise TypeError(f"numpy has no bits of floating-point numbers; use opendml.{name.lower()}")
        one_or_two = unary if len(operands) == 1 else binary
        return one_or_two(OperatorType[f"ELEMENT_WISE_{name}"], *operands)

    return call


def _comparison(name: str) -> Function:
    return lambda a, b: comparison(OperatorType[f"ELEMENT_WISE_LOGICAL_{name}"], a, b)


def _test(name: str, **fields: Any) -> Function:
    return lambda x: unary(OperatorType[f"ELEMENT_WISE_{name}"], x, TensorDataType.UINT8, **fields)


def _sign(x: GraphTensor) -> GraphTensor:
    if x.dtype.kind == "f":
        raise TypeError("numpy.sign gives NaN for NaN; use opendml.sign, which gives 0")
    return unary(OperatorType.ELEMENT_WISE_SIGN, x)


def _square(x: GraphTensor) -> GraphTensor:
    return x * x


# "Not equal" is no operator of its own, and a reciprocal has no meaning for integers, which the rules say.
_FUNCTIONS: Final[dict[str, Function]] = {
    "absolute": abs,
    "add": _of_two("ADD"),
    "arccos": _of_one("ACOS"),
    "arccosh": _of_one("ACOSH"),
    "arcsin": _of_one("ASIN"),
    "arcsinh": _of_one("ASINH"),
    "arctan": _of_one("ATAN"),
    "arctan2": _of_two("ATAN_YX"),
    "arctanh": _of_one("ATANH"),
    "bitwise_and": _of_bits("BIT_AND"),
    "bitwise_or": _of_bits("BIT_OR"),
    "bitwise_xor": _of_bits("BIT_XOR"),
    "ceil": _of_one("CEIL"),
    "cos": _of_one("COS"),
    "cosh": _of_one("COSH"),
    "divide": quotient,
    "equal": _comparison("EQUALS"),
    "exp": _of_one("EXP"),
    "fabs": abs,
    "floor": _of_one("FLOOR"),
    "fmod": _of_two("MODULUS_TRUNCATE"),
    "greater": _comparison("GREATER_THAN"),
    "greater_equal": _comparison("GREATER_THAN_OR_EQUAL"),
    "invert": _of_bits("BIT_NOT"),
    "isinf": _test("IS_INFINITY", infinity_mode="EITHER"),
    "isnan": _test("IS_NAN"),
    "left_shift": _of_two("BIT_SHIFT_LEFT"),
    "less": _comparison("LESS_THAN"),
    "less_equal": _comparison("LESS_THAN_OR_EQUAL"),
    "log": _of_one("LOG"),
    "logical_and": _of_two("LOGICAL_AND"),
    "logical_not": _of_one("LOGICAL_NOT"),
    "logical_or": _of_two("LOGICAL_OR"),
    "logical_xor": _of_two("LOGICAL_XOR"),
    "matmul": matrix_product,
    "maximum": _of_two("MAX"),
    "minimum": _of_two("MIN"),
    "multiply": _of_two("MULTIPLY"),
    "negative": lambda x: -x,
    "not_equal": lambda a, b: unary(OperatorType.ELEMENT_WISE_LOGICAL_NOT, _FUNCTIONS["equal"](a, b)),
    "positive": lambda x: x,
    "power": power,
    "reciprocal": _of_one("RECIP"),
    "remainder": _of_two("MODULUS_FLOOR"),
    "right_shift": _of_two("BIT_SHIFT_RIGHT"),
    "rint": lambda x: unary(OperatorType.ELEMENT_WISE_ROUND, x, rounding_mode="HALVES_TO_NEAREST_EVEN"),
    "sign": _sign,
    "sin": _of_one("SIN"),
    "sinh": _of_one("SINH"),
    "sqrt": _of_one("SQRT"),
    "square": _square,
    "subtract": _of_two("SUBTRACT"),
    "tan": _of_one("TAN"),
    "tanh": _of_one("TANH"),
    "trunc": lambda x: unary(OperatorType.ELEMENT_WISE_ROUND, x, rounding_mode="TOWARD_ZERO"),
}

_INSTEAD: Final = {
    "cbrt": "x ** (1 / 3) of numbers that are not negative",
    "clip": "opendml.clip",
    "exp2": "2 ** x",
    "expm1": "opendml.exp(x) - 1, which is less precise near 0",
    "floor_divide": "opendml.divide, which truncates, or opendml.floor of a quotient",
    "fmax": "opendml.max, which gives NaN where either is NaN",
    "fmin": "opendml.min, which gives NaN where either is NaN",
    "isfinite": "opendml.is_nan and opendml.is_infinity",
    "log10": "opendml.log(x) / np.log(10)",
    "log1p": "opendml.log(x + 1), which is less precise near 0",
    "log2": "opendml.log(x) / np.log(2)",
}
