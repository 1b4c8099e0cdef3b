"""Tensors of ``directml``: their descriptions, expressions of graphs, and buffers of a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import opendml
from opendml.compatibility.expressions import (
    Described,
    TensorPolicy,
    data_type_of,
)
from opendml.compatibility.expressions import Expression as _Expression
from opendml.description.enums import (
    TensorFlags,
)
from opendml.description.errors import BindingError, DescriptorArgumentError

__all__ = [
    "Buffer",
    "Device",
    "Expression",
    "TensorDesc",
    "check_conversion",
]

Array = npt.NDArray[Any]
Numbers = Sequence[int]


class TensorDesc(Described):
    """A tensor: type (also NumPy's), sizes, and where its elements lie."""

    def __init__(
        self,
        data_type: Any,
        sizes: Numbers,
        *,
        flags: TensorFlags = TensorFlags.NONE,
        strides: Numbers | None = None,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        tensor_policy: TensorPolicy | None = None,
    ) -> None:
        if strides is not None and tensor_policy is not None:
            raise DescriptorArgumentError("strides and tensor_policy exclude one another: the policy gives strides")
        found = strides if tensor_policy is None else tensor_policy.strides(list(sizes))
        self.inner = opendml.TensorDesc(
            data_type_of(data_type),
            list(sizes),
            None if found is None else list(found),
            flags=flags,
            total_size_in_bytes=total_tensor_size_in_bytes,
            guaranteed_base_offset_alignment=guaranteed_base_offset_alignment,
        )

    def __repr__(self) -> str:
        return f"<dml.TensorDesc {self.data_type.name.lower()} {self.sizes}>"


class _Shaped:
    """What expressions and buffers say of their tensor."""

    __slots__ = ()

    @property
    def _inner(self) -> opendml.TensorDesc:
        raise NotImplementedError

    @property
    def desc(self) -> TensorDesc:
        """The tensor's description."""
        return TensorDesc.of(self._inner)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self._inner.sizes

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides in elements, None where it is packed."""
        return self._inner.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self._inner.data_type.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._inner.sizes)


class Expression(_Shaped, _Expression):
    """A tensor of a graph. Arithmetic with expressions of the same sizes and type, and with numbers, gives others."""

    __slots__ = ()

    @property
    def _inner(self) -> opendml.TensorDesc:
        return self.tensor.desc

    def __mod__(self, other: object) -> Any:
        return self._with("%", other, lambda a, b: a % b)


class Device:
    """Where graphs are compiled and run. ``name`` is that of a ``dml.Device`` of opendml."""

    def __init__(self, *, use_gpu: bool = True, use_debug_layer: bool = False, name: str = "cpu") -> None:
        self.use_gpu = use_gpu
        self.inner = opendml.Device(name)

    def __repr__(self) -> str:
        return f"<dml.Device on {self.inner.name}>"


class Buffer(_Shaped):
    """A tensor in a device's memory: a copy of an array, bound to inputs where it is.

    Raises BindingError, a ValueError, for an array whose type converts unsafely, and DescriptorArgumentError, a
    TypeError, for a type that there is not.
    """

    __slots__ = ("_described", "array", "device")

    def __init__(self, device: Device, array: Any, dtype: Any = None) -> None:
        given = np.asarray(array)
        data_type = data_type_of(given.dtype if dtype is None else dtype)
        check_conversion(given, data_type.dtype, "the buffer")
        self.device = device
        self.array: Array = np.array(given, data_type.dtype, order="C", ndmin=1)
        self._described = opendml.TensorDesc(data_type, self.array.shape)

    @classmethod
    def _over(cls, device: Device, array: Array) -> Buffer:
        made = cls.__new__(cls)
        made.device, made.array = device, array
        made._described = opendml.TensorDesc(array.dtype, array.shape)
        return made

    @property
    def _inner(self) -> opendml.TensorDesc:
        return self._described

    def __repr__(self) -> str:
        return f"<Buffer {self.dtype.name} {list(self.shape)}>"

    @property
    def nbytes(self) -> int:
        """The bytes of its memory, a multiple of four."""
        return self._described.total_size_in_bytes

    def numpy(self) -> Array:
        """A copy of the values."""
        return self.array.copy()


def check_conversion(array: Any, target: np.dtype[Any], what: str) -> None:
    """Types of one kind convert into one another, others only where NumPy calls it safe. Raises BindingError."""
    if array.dtype.kind != target.kind and not np.can_cast(array.dtype, target, "safe"):
        raise BindingError(f"{what}: {array.dtype} does not convert to {target.name} by itself; astype() does")
