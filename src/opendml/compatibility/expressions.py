"""What the Python bindings of DirectMLX share: tensors' descriptions, expressions of a graph, fused activations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)
from opendml.description.errors import BindingError, DescriptorArgumentError
from opendml.description.quoting import quoted
from opendml.functions import fused_activation as activations

__all__ = [
    "ENUMERATIONS",
    "Described",
    "Expression",
    "FusedActivation",
    "GRUOutputOptions",
    "TensorPolicy",
    "as_buffer",
    "check_elements",
    "data_type_of",
]

Array = npt.NDArray[Any]

ENUMERATIONS: Final = (
    TensorDataType,
    TensorFlags,
    MatrixTransform,
    RecurrentNetworkDirection,
    ConvolutionMode,
    ConvolutionDirection,
    InterpolationMode,
    PaddingMode,
    ExecutionFlags,
    OperatorType,
)


class GRUOutputOptions(enum.Enum):
    """Which outputs a GRU has."""

    Both = 0
    Sequence = 1
    Single = 2


class TensorPolicy:
    """How the strides of a tensor follow from its sizes: ``default`` is packed, ``interleaved_channel`` is NHWC."""

    default: ClassVar[TensorPolicy]
    interleaved_channel: ClassVar[TensorPolicy]

    def __init__(self, channels_last: bool = False) -> None:
        self.channels_last = channels_last

    def strides(self, sizes: Sequence[int]) -> list[int] | None:
        """The strides, None where they are packed."""
        if not self.channels_last or len(sizes) < 3:
            return None
        order = [0, *range(2, len(sizes)), 1]
        strides, step = [0] * len(sizes), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= sizes[axis]
        return strides


TensorPolicy.default = TensorPolicy()
TensorPolicy.interleaved_channel = TensorPolicy(channels_last=True)


def data_type_of(given: object) -> TensorDataType:
    """A ``TensorDataType``, or what NumPy takes for a type. Raises DescriptorArgumentError, a TypeError."""
    if isinstance(given, TensorDataType):
        return given
    try:
        return dml.TensorDesc(np.dtype(given), [1]).data_type  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise DescriptorArgumentError(f"{quoted(given)} is not a tensor data type DirectML supports") from None


class Described:
    """What has a tensor's description. ``inner`` is opendml's."""

    inner: dml.TensorDesc

    @property
    def data_type(self) -> TensorDataType:
        """The type of the elements."""
        return self.inner.data_type

    @property
    def flags(self) -> TensorFlags:
        """OWNED_BY_DML or none."""
        return self.inner.flags

    @property
    def sizes(self) -> list[int]:
        """The sizes."""
        return list(self.inner.sizes)

    @property
    def strides(self) -> list[int] | None:
        """The strides in elements, None where it is packed."""
        return None if self.inner.strides is None else list(self.inner.strides)

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """The bytes of its buffer, a multiple of four."""
        return self.inner.total_size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        """What its place in a buffer is a multiple of, 0 for nothing."""
        return self.inner.guaranteed_base_offset_alignment

    @classmethod
    def of(cls, desc: dml.TensorDesc) -> Self:
        """The description of a tensor that there is."""
        made = cls.__new__(cls)
        made.inner = desc
        return made


class Expression:
    """A tensor of a graph. Arithmetic with expressions of the same sizes and type, and with numbers, gives others.

    Nothing broadcasts by itself. Comparisons are of identity, so that expressions are keys of dictionaries.
    """

    __slots__ = ("key", "tensor")

    def __init__(self, tensor: dml.GraphTensor) -> None:
        self.tensor = tensor
        self.key = object()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tensor.dtype.name} {list(self.tensor.sizes)}>"

    @classmethod
    def wrap(cls, tensor: Any) -> Self:
        """An expression of a graph tensor."""
        return cls(tensor)

    def _with(self, symbol: str, other: object, compute: Any, reflected: bool = False) -> Any:
        if isinstance(other, Expression):
            check_elements(symbol, self, other)
            operands = self.tensor, other.tensor
        elif isinstance(other, (int, float)) and not isinstance(other, bool):
            operands = (other, self.tensor) if reflected else (self.tensor, other)  # type: ignore[assignment]
        else:
            return NotImplemented
        return self.wrap(compute(*operands))

    def __add__(self, other: object) -> Any:
        return self._with("+", other, lambda a, b: a + b)

    def __sub__(self, other: object) -> Any:
        return self._with("-", other, lambda a, b: a - b)

    def __mul__(self, other: object) -> Any:
        return self._with("*", other, lambda a, b: a * b)

    def __truediv__(self, other: object) -> Any:
        return self._with("/", other, lambda a, b: a / b)

    def __radd__(self, other: object) -> Any:
        return self._with("+", other, lambda a, b: a + b, reflected=True)

    def __rsub__(self, other: object) -> Any:
        return self._with("-", other, lambda a, b: a - b, reflected=True)

    def __rmul__(self, other: object) -> Any:
        return self._with("*", other, lambda a, b: a * b, reflected=True)

    def __rtruediv__(self, other: object) -> Any:
        return self._with("/", other, lambda a, b: a / b, reflected=True)

    def __neg__(self) -> Any:
        return self.wrap(-self.tensor)


def check_elements(symbol: str, a: Expression, b: Expression) -> None:
    """Raises BindingError, a ValueError, for operands of different sizes or types."""
    if a.tensor.sizes != b.tensor.sizes:
        cure = "nothing broadcasts by itself, but dml.broadcast() and reinterpret() with strides of 0 do"
        raise BindingError(f"{a!r} {symbol} {b!r}: shapes differ; {cure}")
    if a.tensor.data_type is not b.tensor.data_type:
        raise BindingError(f"{a!r} {symbol} {b!r}: element types differ")


_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "celu": ("alpha",),
    "elu": ("alpha",),
    "gelu": (),
    "hard_sigmoid": ("alpha", "beta"),
    "identity": (),
    "leaky_relu": ("alpha",),
    "linear": ("alpha", "beta"),
    "parametric_softplus": ("alpha", "beta"),
    "relu": (),
    "scaled_elu": ("alpha", "gamma"),
    "scaled_tanh": ("alpha", "beta"),
    "shrink": ("bias", "threshold"),
    "sigmoid": (),
    "softplus": ("steepness",),
    "softsign": (),
    "tanh": (),
    "thresholded_relu": ("alpha",),
}
"""What ``param_1`` and ``param_2`` are called, by activation."""


class FusedActivation:
    """An activation behind an operator: its type, and up to two parameters in the order of its descriptor."""

    def __init__(self, activation: OperatorType, param_1: float = 0, param_2: float = 0) -> None:
        self.activation, self.param_1, self.param_2 = OperatorType(activation), param_1, param_2
        name = self._name
        if self.activation is not OperatorType.INVALID and name not in _PARAMETERS:
            raise BindingError(f"{self.activation.name} cannot be fused; these can: {', '.join(_PARAMETERS)}")

    @property
    def _name(self) -> str:
        return self.activation.name.removeprefix("ACTIVATION_").lower()

    @property
    def descriptor(self) -> Any:
        """opendml's descriptor without tensors; None for no activation."""
        if self.activation is OperatorType.INVALID:
            return None
        parameters = dict(zip(_PARAMETERS[self._name], (self.param_1, self.param_2), strict=False))
        return getattr(activations, self._name)(**parameters)


def as_buffer(array: Array, desc: dml.TensorDesc) -> Array:
    """The elements of an array, of the tensor's type, as a graph program takes a tensor: in its sizes, or flat.

    An array fills a packed tensor with as many elements, whatever its sizes; for a strided one it is the buffer.
    Raises BindingError where it is too small or, for a packed tensor, too large.
    """
    flat = np.ascontiguousarray(array, desc.data_type.dtype).reshape(-1)
    if desc.is_packed:
        if flat.size != desc.element_count:
            raise BindingError(f"an array of {flat.size} elements does not fill {desc!r}")
        return flat.reshape(desc.sizes)
    if flat.size < desc.element_span:
        raise BindingError(f"an array of {flat.size} elements does not fill {desc!r}, which needs {desc.element_span}")
    return flat[: desc.element_span]
