"""Where tensors are not zero: nonzero_coordinates."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.nonzero import NonzeroCoordinates
from opendml.programs.device import Device

T = TypeVar("T")


@several
class NonzeroCoordinatesOutputs(NamedTuple, Generic[T]):
    """What ``nonzero_coordinates`` returns."""

    count: T  # type: ignore[assignment]
    coordinates: T


@operator_function
def nonzero_coordinates(
    input: Operand, *, device: Device | None = None, out: Any = None
) -> NonzeroCoordinatesOutputs[Any]:
    """The coordinates of all elements that are not zero, in element order (NONZERO_COORDINATES, from level 4_0 on).

    ``input``: any rank, float32, float16, and integers up to 32 bits; NaN is not zero, -0 is. Returns ``count``, {1},
    and ``coordinates``, {number of elements, rank}, both uint32; the rows behind the first ``count`` are zeros.

    >>> found = dml.nonzero_coordinates(np.array([[1, 0], [0, 2]], "float32"))
    >>> found.count.tolist(), found.coordinates[: found.count.item()].tolist()
    ([2], [[0, 0], [1, 1]])
    """
    return NonzeroCoordinatesOutputs(*evaluate(_nonzero_coordinates, (input,), device=device, out=out))


def _nonzero_coordinates(input: TensorDesc) -> Operator:
    return NonzeroCoordinates(
        input_tensor=input,
        output_count_tensor=TensorDesc(TensorDataType.UINT32, [1]),
        output_coordinates_tensor=TensorDesc(TensorDataType.UINT32, [input.element_count, input.rank]),
    )
