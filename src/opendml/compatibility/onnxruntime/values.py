"""``OrtValue``: an array that a session takes or gives. Memory is the host's, whatever the device is called."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.compatibility.onnxruntime.absent import explains_what_is_absent
from opendml.compatibility.onnxruntime.errors import ExecutionError
from opendml.compatibility.onnxruntime.node_arguments import ELEMENT_TYPES, element_type_of, type_of
from opendml.description.quoting import quoted
from opendml.programs.binding import as_array
from opendml.targets.host_memory import address_of

__all__ = [
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtValue",
    "array_over",
    "checked_device",
    "data_type_of",
]

Array = npt.NDArray[Any]

DEVICES: Final = ("cpu", "dml")
"""Names of devices whose memory there is: DirectML's is the host's here."""


def checked_device(device_type: str) -> str:
    """A device's name. Raises ExecutionError for one that there is not."""
    if not isinstance(device_type, str) or device_type.lower() not in DEVICES:
        raise ExecutionError(f"no memory on the device {quoted(device_type)}; there are {', '.join(DEVICES)}")
    return device_type.lower()


def data_type_of(element_type: object) -> np.dtype[Any]:
    """NumPy's type: of ``numpy.float32``, of an ONNX number, or of what else NumPy takes. Raises ExecutionError."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        name = ELEMENT_TYPES.get(element_type, "")
        element_type = {"float": "float32", "double": "float64"}.get(name, name)
    try:
        found = np.dtype(element_type)  # type: ignore[call-overload]
        element_type_of(found)
    except (TypeError, KeyError):
        raise ExecutionError(f"no tensors of the type {quoted(element_type)}") from None
    return found  # type: ignore[no-any-return]


def array_over(address: int, data_type: np.dtype[Any], shape: Sequence[int]) -> Array:
    """An array over memory that somebody else owns and keeps. The address is taken at its word."""
    import ctypes

    sizes = tuple(int(size) for size in shape)
    count = int(np.prod(sizes, dtype=np.int64)) * data_type.itemsize
    if count == 0:
        return np.empty(sizes, data_type)
    if not isinstance(address, int) or address <= 0:
        raise ExecutionError(f"buffer_ptr: expected an address, got {quoted(address)}")
    memory = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memoryview(memory), data_type).reshape(sizes)


class OrtDeviceVendorId(enum.IntEnum):
    """Makers of devices by their PCI numbers."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtDeviceMemoryType(enum.Enum):
    """Kinds of memory of a device; there is but the host's."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDevice:
    """A place of memory by type and number, ``OrtDevice.make("cpu", 0)``."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type, self._id = checked_device(device_type), device_id

    @staticmethod
    def make(device_type: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """A device. Raises ExecutionError, a RuntimeError, for one that there is not."""
        return OrtDevice(device_type, device_id)

    def device_type(self) -> str:
        """``cpu`` or ``dml``."""
        return self._type

    def device_id(self) -> int:
        """Its number."""
        return self._id

    def device_vendor_id(self) -> int:
        """``OrtDeviceVendorId.NONE``: memory is the host's."""
        return OrtDeviceVendorId.NONE

    def device_mem_type(self) -> int:
        """The number of ``OrtDeviceMemoryType.DEFAULT``."""
        return OrtDeviceMemoryType.DEFAULT.value


@explains_what_is_absent
class OrtValue:
    """A tensor over an array; made by ``ortvalue_from_numpy`` and its relatives, and by sessions."""

    def __init__(self, array: Array, device_type: str = "cpu") -> None:
        self._array = array
        self._device = checked_device(device_type)

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value over an array, of ``cpu``, or over a copy of it, of ``dml``."""
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind not in "biuf":
            raise ExecutionError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        device = checked_device(device_type)
        array = np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape)
        return OrtValue(array if device == "cpu" else array.copy(), device)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: Array, /, onnx_element_type: int) -> OrtValue:
        """A value over an array whose type is ONNX's by number. Raises ExecutionError where their sizes differ."""
        data_type = data_type_of(onnx_element_type)
        if data_type.itemsize != data.dtype.itemsize:
            raise ExecutionError(f"{data.dtype} has no elements of the size of {data_type}")
        return OrtValue(np.ascontiguousarray(data).view(data_type))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: object, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value of zeros; ``element_type`` is NumPy's, or ONNX's by number."""
        return OrtValue(np.zeros(tuple(shape), data_type_of(element_type)), device_type)

    @staticmethod
    def from_dlpack(data: Any, /) -> OrtValue:
        """A value over the memory of anything with DLPack."""
        return OrtValue(as_array(data, "from_dlpack"))

    def numpy(self) -> Array:
        """The array."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def update_inplace(self, data: Array) -> None:
        """Copies an array of the same type and sizes into the value. Raises ExecutionError."""
        if data.dtype != self._array.dtype or data.shape != self._array.shape:
            expected = f"{self._array.dtype} {list(self._array.shape)}"
            raise ExecutionError(f"update_inplace: expected {expected}, got {data.dtype} {list(data.shape)}")
        np.copyto(self._array, data)

    def shape(self) -> list[int]:
        """The sizes."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Such as ``tensor(float)``."""
        return type_of(self._array.dtype)

    def element_type(self) -> int:
        """ONNX's number of the type."""
        return element_type_of(self._array.dtype)

    def device_name(self) -> str:
        """``cpu`` or ``dml``."""
        return self._device

    def data_ptr(self) -> int:
        """The address of the memory."""
        return address_of(self._array)

    def tensor_size_in_bytes(self) -> int:
        """The bytes of all elements."""
        return self._array.nbytes

    def has_value(self) -> bool:
        """True: there are no empty optionals here."""
        return True

    def is_tensor(self) -> bool:
        """True: there is nothing but tensors here."""
        return True

    def is_tensor_sequence(self) -> bool:
        """False."""
        return False

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False
