"""DLPack for memory that is not the host's: tensors as capsules, and capsules of others, which are checked whole.

NumPy exchanges what lies in the host's memory. The structs are those of ``dlpack.h`` 1.1, with and without a version;
the exchange is that of the array API: a capsule is named ``dltensor`` or ``dltensor_versioned`` until whoever takes it
renames it, and from then on owes one call of its deleter.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opendml.description.enums import TensorDataType
from opendml.description.errors import BindingError, OpendmlError
from opendml.description.quoting import cut, quoted
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, TensorDesc

HOST: Final = 1
"""``kDLCPU``."""

VERSION: Final = (1, 1)
READ_ONLY, IS_COPIED = 1, 2
KINDS: Final = {"int": 0, "uint": 1, "float": 2}
"""Codes of ``DLDataTypeCode`` that tensors of DirectML have."""

NAME, VERSIONED_NAME = b"dltensor", b"dltensor_versioned"


class DLDataType(ctypes.Structure):
    """A type of elements."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """A tensor: sizes and strides in elements, ``byte_offset`` behind ``data``, which for OpenCL is a ``cl_mem``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """A tensor and what frees it, before version 1."""

    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    """A tensor and what frees it, since version 1."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


class ExportError(OpendmlError, BufferError):
    """A tensor cannot be exported in the way that is asked for."""


class Imported(NamedTuple):
    """What a capsule describes, once it is taken: where it is (``device``, ``handle``, ``offset`` in bytes), what it
    is, and what gives it back, to be called once."""

    device: tuple[int, int]
    handle: int
    offset: int
    desc: TensorDesc
    is_read_only: bool
    give_back: Callable[[], None]


# Export --------------------------------------------------------------------------------------------------------------

_exported: Final[dict[int, Any]] = {}
"""What exported structs refer to, by their addresses, until their deleters are called."""


def export(
    desc: TensorDesc,
    device: tuple[int, int],
    handle: int,
    offset: int,
    keep: object,
    *,
    versioned: bool,
    flags: int = 0,
) -> Any:
    """A capsule of a tensor whose memory lives as long as ``keep``."""
    rank = len(desc.sizes)
    shape, strides = (ctypes.c_int64 * rank)(*desc.sizes), (ctypes.c_int64 * rank)(*desc.effective_strides)
    dtype = desc.data_type.dtype
    kind = {"i": "int", "u": "uint", "f": "float"}[dtype.kind]
    element = DLDataType(KINDS[kind], dtype.itemsize * 8, 1)
    tensor = DLTensor(handle, *device, rank, element, shape, strides, offset)
    deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    if versioned:
        managed: Any = DLManagedTensorVersioned(*VERSION, None, deleter, flags, tensor)
    else:
        managed = DLManagedTensor(tensor, None, deleter)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, strides, keep)
    return _new_capsule(address, VERSIONED_NAME if versioned else NAME, _destroy)


def exported_count() -> int:
    """Capsules, and tensors taken from them, whose deleters were not called yet."""
    return len(_exported)


def _forget(address: int | None) -> None:
    """A deleter: only the first call finds something."""
    _exported.pop(address or 0, None)


def _destroyed(capsule: int) -> None:
    """A capsule that nobody took frees its tensor."""
    for name in (NAME, VERSIONED_NAME):
        if _is_valid(capsule, name):
            _forget(_pointer(capsule, name))


_delete: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_forget)
_destroy: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroyed)
for _function in (_delete, _destroy):  # Consumers may call them when this module is gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_function))

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_USED: Final = {NAME: b"used_dltensor", VERSIONED_NAME: b"used_dltensor_versioned"}


# Import --------------------------------------------------------------------------------------------------------------


def device_of(value: Any) -> tuple[int, int]:
    """The type and number of the device that an object with DLPack lies on. Raises BindingError."""
    try:
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)
    except Exception as error:  # foreign code
        raise BindingError(f"from_dlpack: {_named(value)} does not tell its device: {quoted(str(error))}") from error


def take(value: Any) -> Imported:
    """The tensor of an object with DLPack. Nothing is taken where BindingError is raised."""
    try:
        try:
            capsule = value.__dlpack__(max_version=VERSION)
        except TypeError:  # of the time before versions
            capsule = value.__dlpack__()
    except Exception as error:  # foreign code
        raise BindingError(f"from_dlpack: {_named(value)} gives no capsule: {quoted(str(error))}") from error
    return taken(capsule)


def _named(value: object) -> str:
    return cut(type(value).__name__)


def taken(capsule: Any) -> Imported:
    """The tensor of a capsule, every field of which is checked before it is taken."""
    identity = id(capsule)
    name = next((name for name in (VERSIONED_NAME, NAME) if _is_valid(identity, name)), None)
    if name is None:
        raise BindingError("from_dlpack: expected a capsule that nobody has taken yet")
    address = _pointer(identity, name)
    flags = 0
    if name == VERSIONED_NAME:
        managed: Any = DLManagedTensorVersioned.from_address(address)
        if managed.major != VERSION[0]:
            raise BindingError(f"from_dlpack: version {managed.major}.{managed.minor} is not known here")
        flags = managed.flags
    else:
        managed = DLManagedTensor.from_address(address)
    tensor = managed.dl_tensor
    desc = _desc_of(tensor)
    if not tensor.data:
        raise BindingError("from_dlpack: the tensor has no memory")
    deleter = managed.deleter
    _rename(identity, _USED[name])

    def give_back() -> None:
        if deleter and not sys.is_finalizing():
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)

    device = tensor.device_type, tensor.device_id
    return Imported(device, tensor.data, tensor.byte_offset, desc, bool(flags & READ_ONLY), give_back)


def _desc_of(tensor: DLTensor) -> TensorDesc:
    """What a foreign tensor is in DirectML's terms. Raises BindingError for what none can be."""
    rank = tensor.ndim
    if not 0 <= rank <= MAXIMUM_DIMENSION_COUNT or (rank and not tensor.shape):
        raise BindingError(f"from_dlpack: expected up to {MAXIMUM_DIMENSION_COUNT} dimensions with sizes, got {rank}")
    sizes = [tensor.shape[d] for d in range(rank)] or [1]
    strides = [tensor.strides[d] for d in range(rank)] or [1] if tensor.strides else None
    if any(not 1 <= size < 1 << 31 for size in sizes):
        raise BindingError(f"from_dlpack: expected sizes from 1 on, got {sizes}")
    if strides is not None and any(not 0 <= stride < 1 << 31 for stride in strides):
        raise BindingError(f"from_dlpack: expected strides from 0 on, got {strides}")
    element = tensor.dtype
    names = {code: kind for kind, code in KINDS.items()}
    name = f"{names.get(element.code, '')}{element.bits}".upper()
    if element.lanes != 1 or element.bits < 8 or name not in TensorDataType.__members__:
        given = f"code {element.code}, {element.bits} bits, {element.lanes} lanes"
        raise BindingError(f"from_dlpack: no tensor has elements of this type ({given})")
    desc = TensorDesc(name, sizes, strides)
    if tensor.byte_offset % desc.data_type.dtype.itemsize:
        raise BindingError(f"from_dlpack: the elements are not aligned: they begin at byte {tensor.byte_offset}")
    return desc
