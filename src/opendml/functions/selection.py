"""The largest and the smallest elements: top_k."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from opendml.description.descriptors import Operator
from opendml.description.enums import AxisDirection, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate, replaced
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.selection import TopK1
from opendml.programs.device import Device

T = TypeVar("T")


@several
class TopKOutputs(NamedTuple, Generic[T]):
    """What ``top_k`` returns."""

    value: T
    index: T  # type: ignore[assignment]


@operator_function
def top_k(
    input: Operand,
    *,
    axis: int,
    k: int,
    axis_direction: AxisDirection | str = AxisDirection.DECREASING,
    device: Device | None = None,
    out: Any = None,
) -> TopKOutputs[Any]:
    """The ``k`` largest or smallest elements along an axis, in order (TOP_K1; TOP_K below level 2_1).

    ``input``: any rank, any type but float64. ``k``: at most the size of the axis, with which everything is sorted.
    ``axis_direction``: ``DECREASING``, the largest first, or ``INCREASING``, the smallest first. Returns ``value`` and
    ``index``, uint32, both of size ``k`` along the axis. Of equal elements the first ones come first; NaN is larger
    than every number.

    >>> top = dml.top_k(np.array([1, 5, 5, 2], "float32"), axis=0, k=3)
    >>> top.value.tolist(), top.index.tolist()
    ([5.0, 5.0, 2.0], [1, 2, 3])
    """
    return TopKOutputs(*evaluate(_top_k, (input,), (axis, k, axis_direction), device=device, out=out))


def _top_k(input: TensorDesc, axis: Any, k: Any, axis_direction: Any) -> Operator:
    sizes = replaced(input.sizes, axis, k)
    return TopK1(
        input_tensor=input,
        output_value_tensor=TensorDesc(input.data_type, sizes),
        output_index_tensor=TensorDesc(TensorDataType.UINT32, sizes),
        axis=axis,
        k=k,
        axis_direction=axis_direction,
    )
