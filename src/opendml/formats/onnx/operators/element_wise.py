"""Operators of single elements: arithmetic, comparisons, logic, functions, conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Function, Table
from opendml.formats.onnx.types import has_tensors
from opendml.formats.onnx.values import NotExpressibleError, Value

__all__ = ["ELEMENT_WISE", "converted"]

BOOL: Final = np.dtype(np.bool_)


def _sizes(node: Node) -> tuple[int, ...]:
    """The sizes to which all inputs broadcast."""
    return np.broadcast_shapes(*(value.sizes for value in node.inputs if value is not None))


def _of_one(function: Callable[..., GraphTensor], data_type: Any = None, **parameters: Any) -> Function:
    def express(node: Node) -> Results:
        return node.result(function(node.tensor(), **parameters), node.sizes(), data_type)

    return express


def _of_one_with(function: Callable[..., GraphTensor], **numbers: tuple[str, float]) -> Function:
    """A function whose parameters are attributes: their names and usual values."""

    def express(node: Node) -> Results:
        parameters = {name: node.number(attribute, usual) for name, (attribute, usual) in numbers.items()}
        return node.result(function(node.tensor(), **parameters), node.sizes())

    return express


def _of_two(function: Callable[..., GraphTensor], data_type: Any = None) -> Function:
    def express(node: Node) -> Results:
        return node.result(function(node.tensor(0), node.tensor(1)), _sizes(node), data_type)

    return express


def _of_all(function: Callable[..., GraphTensor]) -> Function:
    """A function of two, applied from left to right."""

    def express(node: Node) -> Results:
        tensors = node.tensors()
        found = functools.reduce(function, tensors) if len(tensors) > 1 else dml.identity(tensors[0])
        return node.result(found, _sizes(node))

    return express


def _mean(node: Node) -> Results:
    tensors = node.tensors()
    return node.result(functools.reduce(dml.add, tensors) / float(len(tensors)), _sizes(node))


def _mod(node: Node) -> Results:
    function = dml.modulus_truncate if node.integer("fmod") else dml.modulus_floor
    return node.result(function(node.tensor(0), node.tensor(1)), _sizes(node))


def _abs(node: Node) -> Results:
    """Of unsigned numbers nothing is to be done."""
    return node.value(0) if node.type_of().kind == "u" else node.result(dml.abs(node.tensor()), node.sizes())


def _pow(node: Node) -> Results:
    base, exponent = node.tensor(0), node.value(1)
    if base.dtype.kind != "f":
        return node.result(_integer_power(base, exponent, node), _sizes(node))
    if exponent.array is not None and exponent.array.size == 1:
        power = dml.pow(base, float(exponent.array.reshape(())))
        return node.result(power.broadcast_to(_sizes(node) or (1,)), _sizes(node))
    exponents = node.tensor(1)
    if exponents.dtype != base.dtype:
        exponents = dml.cast(exponents, base.data_type)
    return node.result(dml.pow(base, exponents), _sizes(node))


_POWER_BITS: Final = 6
"""Bits of an exponent that matter: an integer to the power of 64 or more is 0, 1, -1 or wraps to what it is."""


def _integer_power(base: GraphTensor, exponent: Value, node: Node) -> GraphTensor:
    """Exact, by squaring; an exponent that is known is not negative and less than 64."""
    if exponent.array is None or exponent.array.size != 1:
        return _integer_powers(base, node.tensor(1))
    power = float(exponent.array.reshape(()))
    if not power.is_integer() or not 0 <= power < 1 << _POWER_BITS:
        raise NotExpressibleError(f"integers to the power of {power} are no integers, or too large")
    found: GraphTensor | None = None
    square = base
    for bit in range(_POWER_BITS):
        if int(power) >> bit & 1:
            found = square if found is None else found * square
        if int(power) >> (bit + 1):
            square = square * square
    if found is None:
        one = np.ones(base.sizes, base.dtype)
        return node.graph.constant(np.broadcast_to(one[(slice(0, 1),) * one.ndim], base.sizes))
    return found


def _integer_powers(base: GraphTensor, exponents: GraphTensor) -> GraphTensor:
    """Each by an exponent of its own: exact for those from 0 to 63; others are rounded towards zero."""
    if exponents.dtype.kind == "f":
        whole = dml.cast(dml.floor(exponents), "int32")
        is_exact = dml.equals(dml.floor(exponents), exponents)
    else:
        whole = dml.cast(exponents, "int32")
        is_exact = dml.equals(whole, whole)
    rest = dml.bit_and(whole, np.full((1,) * whole.rank, -1 << _POWER_BITS, np.int32))
    is_exact = dml.logical_and(is_exact, dml.equals(rest, np.zeros((1,) * whole.rank, np.int32)))
    found: GraphTensor | None = None
    square = base
    one = np.ones((1,) * base.rank, base.dtype)
    for bit in range(_POWER_BITS):
        has_bit = dml.bit_and(whole, np.full((1,) * whole.rank, 1 << bit, np.int32))
        factor = dml.if_(dml.logical_not(dml.equals(has_bit, np.zeros((1,) * whole.rank, np.int32))), square, one)
        found = factor if found is None else found * factor
        square = square * square
    assert found is not None
    rounded = dml.pow(dml.cast(base, "float32"), dml.cast(exponents, "float32"))
    return dml.if_(is_exact, found, dml.cast(rounded, base.data_type))


def _clip(node: Node) -> Results:
    """``min(max(x, low), high)``: the upper limit prevails, and bounds may be computed."""
    found = node.tensor()
    if node.version < 11:
        bounds = [node.attributes.get("min"), node.attributes.get("max")]
        limits = [None if bound is None else np.full((1,) * found.rank, bound, found.dtype) for bound in bounds]
    else:
        limits = [node.optional(1), node.optional(2)]  # type: ignore[list-item]
    low, high = limits
    found = found if low is None else dml.max(found, low)
    return node.result(found if high is None else dml.min(found, high), node.sizes())


def _shift(node: Node) -> Results:
    """By as many bits as the type has, or more, all are shifted out; of signed integers the sign comes in."""
    to_left = node.text("direction") == "LEFT"
    bits, counts, data_type = node.tensor(0), node.tensor(1), node.type_of()
    is_signed = data_type.kind == "i"
    if is_signed:
        unsigned = f"uint{8 * data_type.itemsize}"
        bits, counts = (one.reinterpret(data_type=unsigned) for one in (bits, counts))
    found = dml.bit_shift_left(bits, counts) if to_left else dml.bit_shift_right(bits, counts)
    if is_signed and not to_left:
        negative = dml.less_than(node.tensor(0), np.zeros((1,) * bits.rank, data_type))
        found = dml.if_(negative, ~dml.bit_shift_right(~bits, counts), found)
    return node.result(found.reinterpret(data_type=data_type), _sizes(node))


def _is_infinity(node: Node) -> Results:
    negative, positive = node.integer("detect_negative", 1), node.integer("detect_positive", 1)
    if not negative and not positive:
        return np.zeros(node.sizes(), BOOL)
    mode = "EITHER" if negative and positive else "NEGATIVE" if negative else "POSITIVE"
    return node.result(dml.is_infinity(node.tensor(), infinity_mode=mode), node.sizes(), BOOL)


def _where(node: Node) -> Results:
    condition, first, second = (node.tensor(position) for position in range(3))
    return node.result(dml.if_(condition, first, second), _sizes(node), node.type_of(1))


# ---- conversions


def converted(node: Node, value: Value, data_type: np.dtype[Any]) -> Value:
    """A value in another type. A number becomes true where it is not 0."""
    if value.data_type == data_type:
        return value
    for one in (value.data_type, data_type):
        if not has_tensors(one):
            raise NotExpressibleError(f"DirectML has no tensors of {one}")
    tensor = node.tensor(node.inputs.index(value))
    if data_type == BOOL:
        zero = np.zeros((1,) * tensor.rank, tensor.dtype)
        return node.result(dml.logical_not(dml.equals(tensor, zero)), value.sizes, BOOL)
    return node.result(dml.cast(tensor, data_type), value.sizes)


def _cast(node: Node) -> Results:
    return converted(node, node.value(0), node.data_type("to"))


def _cast_like(node: Node) -> Results:
    return converted(node, node.value(0), node.type_of(1))


def _bit_cast(node: Node) -> Results:
    data_type = node.data_type("to")
    if not has_tensors(data_type):
        raise NotExpressibleError(f"DirectML has no tensors of {data_type}")
    seen = np.dtype(np.uint8) if data_type == BOOL else data_type
    return node.result(node.tensor().packed().reinterpret(data_type=seen), node.sizes(), data_type)


def _prelu(node: Node) -> Results:
    return node.result(dml.activation_parameterized_relu(node.tensor(0), node.tensor(1)), node.sizes())


def _relu(node: Node) -> Results:
    if node.type_of().kind == "i":
        return node.result(dml.max(node.tensor(), np.zeros((1,) * node.tensor().rank, node.type_of())), node.sizes())
    return node.result(dml.activation_relu(node.tensor()), node.sizes())


def _gelu(node: Node) -> Results | None:
    if node.text("approximate", "none") != "none":
        return None
    return node.result(dml.activation_gelu(node.tensor()), node.sizes())


ELEMENT_WISE: Final[Table] = {
    "Abs": _abs,
    "Acos": _of_one(dml.acos),
    "Acosh": _of_one(dml.acosh),
    "Add": _of_two(dml.add),
    "And": _of_two(dml.logical_and, BOOL),
    "Asin": _of_one(dml.asin),
    "Asinh": _of_one(dml.asinh),
    "Atan": _of_one(dml.atan),
    "Atanh": _of_one(dml.atanh),
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "BitwiseAnd": _of_two(dml.bit_and),
    "BitwiseNot": _of_one(dml.bit_not),
    "BitwiseOr": _of_two(dml.bit_or),
    "BitwiseXor": _of_two(dml.bit_xor),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _of_one(dml.ceil),
    "Celu": _of_one_with(dml.activation_celu, alpha=("alpha", 1.0)),
    "Clip": _clip,
    "Cos": _of_one(dml.cos),
    "Cosh": _of_one(dml.cosh),
    "Div": _of_two(dml.divide),
    "Elu": _of_one_with(dml.activation_elu, alpha=("alpha", 1.0)),
    "Equal": _of_two(dml.equals, BOOL),
    "Erf": _of_one(dml.erf),
    "Exp": _of_one(dml.exp),
    "Floor": _of_one(dml.floor),
    "Gelu": _gelu,
    "Greater": _of_two(dml.greater_than, BOOL),
    "GreaterOrEqual": _of_two(dml.greater_than_or_equal, BOOL),
    "HardSigmoid": _of_one_with(dml.activation_hard_sigmoid, alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "HardSwish": _of_one(dml.activation_hard_swish, alpha=1 / 6, beta=0.5),
    "IsInf": _is_infinity,
    "IsNaN": _of_one(dml.is_nan, BOOL),
    "LeakyRelu": _of_one_with(dml.activation_leaky_relu, alpha=("alpha", 0.01)),
    "Less": _of_two(dml.less_than, BOOL),
    "LessOrEqual": _of_two(dml.less_than_or_equal, BOOL),
    "Log": _of_one(dml.log),
    "Max": _of_all(dml.max),
    "Mean": _mean,
    "Min": _of_all(dml.min),
    "Mod": _mod,
    "Mul": _of_two(dml.multiply),
    "Neg": _of_one(dml.negate),
    "Not": _of_one(dml.logical_not, BOOL),
    "Or": _of_two(dml.logical_or, BOOL),
    "PRelu": _prelu,
    "Pow": _pow,
    "Reciprocal": _of_one(dml.recip),
    "Relu": _relu,
    "Round": _of_one(dml.round),
    "Selu": _of_one_with(
        dml.activation_scaled_elu, alpha=("alpha", 1.6732632423543772), gamma=("gamma", 1.0507009873554804)
    ),
    "Shrink": _of_one_with(dml.activation_shrink, bias=("bias", 0.0), threshold=("lambd", 0.5)),
    "Sigmoid": _of_one(dml.activation_sigmoid),
    "Sign": _of_one(dml.sign),
    "Sin": _of_one(dml.sin),
    "Sinh": _of_one(dml.sinh),
    "Softplus": _of_one(dml.activation_softplus),
    "Softsign": _of_one(dml.activation_softsign),
    "Sqrt": _of_one(dml.sqrt),
    "Sub": _of_two(dml.subtract),
    "Sum": _of_all(dml.add),
    "Swish": _of_one_with(dml.activation_swish, sigmoid_input_scale=("alpha", 1.0)),
    "Tan": _of_one(dml.tan),
    "Tanh": _of_one(dml.activation_tanh),
    "ThresholdedRelu": _of_one_with(dml.activation_thresholded_relu, alpha=("alpha", 1.0)),
    "Where": _where,
    "Xor": _of_two(dml.logical_xor, BOOL),
}
