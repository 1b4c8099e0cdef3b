"""Running totals along an axis: cumulative_summation, cumulative_product."""

from __future__ import annotations

from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import AxisDirection
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.cumulative import CumulativeProduct, CumulativeSummation
from opendml.programs.device import Device


@operator_function
def cumulative_summation(
    input: Operand,
    *,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    exclusive: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The sum of all elements up to each one along an axis (CUMULATIVE_SUMMATION).

    ``input``: float32, float16 or 32- and 64-bit integers, any rank. ``axis_direction``: from index 0 up
    (``INCREASING``) or from the last one down (``DECREASING``). ``exclusive``: without the element itself.

    >>> dml.cumulative_summation(np.array([1, 2, 3]), axis=0, exclusive=True).tolist()
    [0, 1, 3]
    """
    parameters = (axis, axis_direction, exclusive)
    return evaluate_single(_cumulative_summation, (input,), parameters, device=device, out=out)


def _cumulative_summation(input: TensorDesc, axis: Any, axis_direction: Any, exclusive: Any) -> Operator:
    return CumulativeSummation(
        input_tensor=input,
        output_tensor=packed(input),
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_sum=exclusive,
    )


@operator_function
def cumulative_product(
    input: Operand,
    *,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    exclusive: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The product of all elements up to each one along an axis (CUMULATIVE_PRODUCT).

    As ``cumulative_summation``.

    >>> dml.cumulative_product(np.array([1, 2, 3, 4]), axis=0, axis_direction="DECREASING").tolist()
    [24, 24, 12, 4]
    """
    parameters = (axis, axis_direction, exclusive)
    return evaluate_single(_cumulative_product, (input,), parameters, device=device, out=out)


def _cumulative_product(input: TensorDesc, axis: Any, axis_direction: Any, exclusive: Any) -> Operator:
    return CumulativeProduct(
        input_tensor=input,
        output_tensor=packed(input),
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_product=exclusive,
    )
