"""Element-wise transcendental functions: exponential, logarithm, trigonometric, hyperbolic, error function, powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from opendml.building.graph_operators import POWER
from opendml.building.graph_tensor import GraphTensor
from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.structs import ScaleBias
from opendml.description.tensor import TensorDesc
from opendml.functions.builders import of_one_scaled, of_two
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.element_wise_functions import (
    ElementWiseAcos,
    ElementWiseAcosh,
    ElementWiseAsin,
    ElementWiseAsinh,
    ElementWiseAtan,
    ElementWiseAtanh,
    ElementWiseAtanYx,
    ElementWiseConstantPow,
    ElementWiseCos,
    ElementWiseCosh,
    ElementWiseErf,
    ElementWiseExp,
    ElementWiseLog,
    ElementWisePow,
    ElementWiseSin,
    ElementWiseSinh,
    ElementWiseTan,
    ElementWiseTanh,
)
from opendml.programs.device import Device

Factors = ScaleBias | tuple[float, float] | None


@operator_function
def exp(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """``exp(input)`` (ELEMENT_WISE_EXP), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.exp(np.array([0.0, 1.0], "float32")).tolist()
    [1.0, 2.7182817459106445]
    """
    return evaluate_single(_exp, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def log(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The natural logarithm (ELEMENT_WISE_LOG), of ``input * scale + bias``; minus infinity for 0, NaN below.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.log(np.array([1.0, 0.0], "float32")).tolist()
    [0.0, -inf]
    """
    return evaluate_single(_log, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def sin(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The sine of an angle in radians (ELEMENT_WISE_SIN), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.sin(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 0.8414709568023682]
    """
    return evaluate_single(_sin, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def cos(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The cosine of an angle in radians (ELEMENT_WISE_COS), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.cos(np.array([0.0, 1.0], "float32")).tolist()
    [1.0, 0.5403022766113281]
    """
    return evaluate_single(_cos, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def tan(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The tangent of an angle in radians (ELEMENT_WISE_TAN), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.tan(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 1.5574078559875488]
    """
    return evaluate_single(_tan, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def asin(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The arc sine, in radians (ELEMENT_WISE_ASIN), of ``input * scale + bias``; NaN beyond 1.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.asin(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 1.5707963705062866]
    """
    return evaluate_single(_asin, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def acos(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The arc cosine, in radians (ELEMENT_WISE_ACOS), of ``input * scale + bias``; NaN beyond 1.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.acos(np.array([1.0, 0.0], "float32")).tolist()
    [0.0, 1.5707963705062866]
    """
    return evaluate_single(_acos, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def atan(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The arc tangent, in radians (ELEMENT_WISE_ATAN), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.atan(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 0.7853981852531433]
    """
    return evaluate_single(_atan, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def sinh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The hyperbolic sine (ELEMENT_WISE_SINH), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.sinh(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 1.175201177597046]
    """
    return evaluate_single(_sinh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def cosh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The hyperbolic cosine (ELEMENT_WISE_COSH), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.cosh(np.array([0.0, 1.0], "float32")).tolist()
    [1.0, 1.5430805683135986]
    """
    return evaluate_single(_cosh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def tanh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The hyperbolic tangent (ELEMENT_WISE_TANH), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.tanh(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 0.7615941762924194]
    """
    return evaluate_single(_tanh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def asinh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The inverse hyperbolic sine (ELEMENT_WISE_ASINH), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.asinh(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 0.8813735842704773]
    """
    return evaluate_single(_asinh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def acosh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The inverse hyperbolic cosine (ELEMENT_WISE_ACOSH), of ``input * scale + bias``; NaN below 1.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.acosh(np.array([1.0, 2.0], "float32")).tolist()
    [0.0, 1.316957950592041]
    """
    return evaluate_single(_acosh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def atanh(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The inverse hyperbolic tangent (ELEMENT_WISE_ATANH), of ``input * scale + bias``; NaN beyond 1.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.atanh(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, inf]
    """
    return evaluate_single(_atanh, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def erf(input: Operand, *, scale_bias: Factors = None, device: Device | None = None, out: Any = None) -> Array:
    """The Gaussian error function (ELEMENT_WISE_ERF), of ``input * scale + bias``.

    ``input``: float32 or float16, any rank. Returns an array of the same type and sizes.

    >>> dml.erf(np.array([0.0, 1.0], "float32")).tolist()
    [0.0, 0.8427007794380188]
    """
    return evaluate_single(_erf, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def atan_yx(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The angle of the point with y = ``a`` and x = ``b``, in radians from -pi to pi (ELEMENT_WISE_ATAN_YX).

    ``a``, ``b``: float32 or float16, the same type and sizes.

    >>> dml.atan_yx(np.array([1, 0], "float32"), np.array([0, -1], "float32")).tolist()
    [1.5707963705062866, 3.1415927410125732]
    """
    return evaluate_single(_atan_yx, (a, b), device=device, out=out)


@operator_function
def pow(
    input: Operand,
    exponent: Operand | float,
    *,
    scale_bias: Factors = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``input * scale + bias`` to a power: an array of exponents (ELEMENT_WISE_POW) or a number (CONSTANT_POW).

    ``input``: float32, float16, or an integer type of up to 32 bits, with a number as ``exponent`` float32 or float16.
    ``exponent``: of any of these types and of the same sizes, or a number. Powers of integers are exact, modulo two to
    their width.

    >>> dml.pow(np.array([2, 3], "int32"), np.array([10, 3], "int32")).tolist()
    [1024, 27]
    >>> dml.pow(np.array([4, 9], "float32"), 0.5).tolist()
    [2.0, 3.0]
    """
    if isinstance(exponent, int | float) and not _has_integers(input):
        return evaluate_single(_constant_pow, (input,), numbers=(float(exponent), scale_bias), device=device, out=out)
    return evaluate_single(_pow, (input, exponent), numbers=(scale_bias,), device=device, out=out)


def _has_integers(operand: Operand) -> bool:
    return isinstance(operand, np.ndarray | GraphTensor) and operand.dtype.kind in "iu"


@operand_rules(POWER)
def _pow(input: TensorDesc, exponent: TensorDesc, scale_bias: ScaleBias | None) -> Operator:
    return ElementWisePow(
        input_tensor=input, exponent_tensor=exponent, output_tensor=packed(input), scale_bias=scale_bias
    )


@operand_rules(ALONE)
def _constant_pow(input: TensorDesc, exponent: float, scale_bias: ScaleBias | None) -> Operator:
    return ElementWiseConstantPow(
        input_tensor=input, output_tensor=packed(input), scale_bias=scale_bias, exponent=exponent
    )


_exp = of_one_scaled(ElementWiseExp)
_log = of_one_scaled(ElementWiseLog)
_sin = of_one_scaled(ElementWiseSin)
_cos = of_one_scaled(ElementWiseCos)
_tan = of_one_scaled(ElementWiseTan)
_asin = of_one_scaled(ElementWiseAsin)
_acos = of_one_scaled(ElementWiseAcos)
_atan = of_one_scaled(ElementWiseAtan)
_sinh = of_one_scaled(ElementWiseSinh)
_cosh = of_one_scaled(ElementWiseCosh)
_tanh = of_one_scaled(ElementWiseTanh)
_asinh = of_one_scaled(ElementWiseAsinh)
_acosh = of_one_scaled(ElementWiseAcosh)
_atanh = of_one_scaled(ElementWiseAtanh)
_erf = of_one_scaled(ElementWiseErf)
_atan_yx = of_two(ElementWiseAtanYx)
