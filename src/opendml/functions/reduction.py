"""One value out of many: reduce, argmin, argmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opendml.description.descriptors import Operator
from opendml.description.enums import AxisDirection, ReduceFunction, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, is_member, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.reduction import Argmax, Argmin, Reduce
from opendml.programs.device import Device


@operator_function
def reduce(
    input: Operand,
    function: ReduceFunction | str,
    *,
    axes: Sequence[int] | None = None,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """One value for all elements along some axes (REDUCE); the axes stay, with size 1.

    ``input``: any rank; its types depend on the function, and all but float64 are allowed for ``MIN``, ``MAX``,
    ``ARGMIN`` and ``ARGMAX``. ``function``: a ``ReduceFunction`` or its name. ``axes``: all by default; with
    ``[]``, no axes, the function is applied to each element alone.
    ``output_data_type``: by default that of the input; for ``ARGMIN`` and ``ARGMAX``, which count row-major over the
    axes, uint32, and any other index type if given.

    >>> x = np.array([[1, 5, 2], [4, 3, 9]], "float32")
    >>> dml.reduce(x, "SUM", axes=[1]).tolist()
    [[8.0], [16.0]]
    >>> dml.reduce(x, "ARGMAX").tolist()
    [[5]]
    """
    return evaluate_single(_reduce, (input,), (function, integers(axes), output_data_type), device=device, out=out)


_POSITIONS: Final = (ReduceFunction.ARGMIN, ReduceFunction.ARGMAX)


def _reduce(input: TensorDesc, function: Any, axes: Any, output_data_type: Any) -> Operator:
    if output_data_type is None:
        is_position = any(is_member(function, position) for position in _POSITIONS)
        output_data_type = TensorDataType.UINT32 if is_position else input.data_type
    return Reduce(function=function, **_reduced(input, axes, output_data_type))


def _reduced(input: TensorDesc, axes: Any, output_data_type: Any) -> dict[str, Any]:
    """Input, output and axes: all of them by default."""
    if axes is None:
        axes = tuple(range(input.rank))
    sizes = sizes_or(input.sizes, lambda: [1 if i in axes else size for i, size in enumerate(input.sizes)])
    return {"input_tensor": input, "output_tensor": TensorDesc(output_data_type, sizes), "axes": axes}


@operator_function
def argmin(
    input: Operand,
    *,
    axes: Sequence[int] | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT32,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The index of the smallest element along some axes, which stay with size 1 (ARGMIN).

    ``input``: all types but float64, any rank. ``axes``: all by default; the index counts row-major over them, in
    their order in the tensor, and with ``[]``, no axes, it is 0. ``axis_direction``: the first of equal elements
    (``INCREASING``) or the last one (``DECREASING``). NaN are passed over.
    ``output_data_type``: uint32, uint64, int32 or int64.

    >>> dml.argmin(np.array([[3, 1, 1], [0, 2, 0]]), axes=[1], axis_direction="DECREASING").tolist()
    [[2], [2]]
    """
    parameters = (integers(axes), axis_direction, output_data_type)
    return evaluate_single(_argmin, (input,), parameters, device=device, out=out)


def _argmin(input: TensorDesc, axes: Any, axis_direction: Any, output_data_type: Any) -> Operator:
    return Argmin(**_reduced(input, axes, output_data_type), axis_direction=axis_direction)


@operator_function
def argmax(
    input: Operand,
    *,
    axes: Sequence[int] | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT32,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The index of the largest element along some axes, which stay with size 1 (ARGMAX).

    As ``argmin``.

    >>> dml.argmax(np.array([[3, 1, 3], [0, 2, 0]])).tolist()
    [[0]]
    """
    parameters = (integers(axes), axis_direction, output_data_type)
    return evaluate_single(_argmax, (input,), parameters, device=device, out=out)


def _argmax(input: TensorDesc, axes: Any, axis_direction: Any, output_data_type: Any) -> Operator:
    return Argmax(**_reduced(input, axes, output_data_type), axis_direction=axis_direction)
