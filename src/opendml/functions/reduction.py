"""One value out of many: reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opendml.descriptors import Operator
from opendml.device import Device
from opendml.enums import ReduceFunction, TensorDataType
from opendml.functions.core import Array, Operand, evaluate_single, integers, is_member, sizes_or
from opendml.operators.reduction import Reduce
from opendml.tensor import TensorDesc


def reduce(
    input: Operand,
    function: ReduceFunction | str,
    axes: Sequence[int] | None = None,
    output_data_type: TensorDataType | str | Any = None,
    *,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """One value for all elements along some axes (REDUCE); the axes stay, with size 1.

    ``input``: any rank; its types depend on the function, and all but float64 are allowed for ``MIN``, ``MAX``,
    ``ARGMIN`` and ``ARGMAX``. ``function``: a ``ReduceFunction`` or its name. ``axes``: all by default.
    ``output_data_type``: by default that of the input; for ``ARGMIN`` and ``ARGMAX``, which count row-major over the
    axes, uint32, and any other index type if given.

    >>> x = np.array([[1, 5, 2], [4, 3, 9]], "float32")
    >>> dml.reduce(x, "SUM", [1]).tolist()
    [[8.0], [16.0]]
    >>> dml.reduce(x, "ARGMAX").tolist()
    [[5]]
    """
    return evaluate_single(_reduce, (input,), (function, integers(axes), output_data_type), device=device, out=out)


_POSITIONS: Final = (ReduceFunction.ARGMIN, ReduceFunction.ARGMAX)


def _reduce(input: TensorDesc, function: Any, axes: Any, output_data_type: Any) -> Operator:
    if axes is None or axes == ():
        axes = tuple(range(input.rank))
    if output_data_type is None:
        is_position = any(is_member(function, position) for position in _POSITIONS)
        output_data_type = TensorDataType.UINT32 if is_position else input.data_type
    sizes = sizes_or(input.sizes, lambda: [1 if i in axes else size for i, size in enumerate(input.sizes)])
    return Reduce(function=function, input_tensor=input, output_tensor=TensorDesc(output_data_type, sizes), axes=axes)
