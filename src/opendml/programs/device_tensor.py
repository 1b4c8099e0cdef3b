"""Tensors that live on a device: programs read and write them where they are, and copy nothing."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opendml.description.enums import TensorDataType
from opendml.description.errors import BindingError, NotPicklableError, UnknownMemberError
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, TensorDesc
from opendml.programs import dlpack
from opendml.targets.host_memory import aligned_empty, new_array, place_of

if TYPE_CHECKING:
    from opendml.targets.interface import DeviceMemory, MemorySpace

Array = npt.NDArray[Any]


class DeviceTensor:
    """A tensor in the memory of a device; ``Device.tensor``, ``Device.empty`` and ``Device.from_dlpack`` make them, and
    programs that are called with one.

        >>> import numpy as np
        >>> import opendml as dml
        >>> device = dml.Device("cpu")
        >>> x = device.tensor(np.arange(4, dtype=np.float32))
        >>> desc = dml.TensorDesc("FLOAT32", [4])
        >>> program = device.compile(dml.operators.ActivationRelu(input_tensor=desc, output_tensor=desc))
        >>> y = program(program(x))  # stays on the device
        >>> y.numpy()
        array([0., 1., 2., 3.], dtype=float32)

    Memory is the host's on the processor and the reference device, where ``numpy`` is a view, and the device's own on
    others, where it is a copy. ``desc`` is its type, sizes and strides. It offers DLPack, without a copy, and NumPy
    takes it for an array, with one where need be. ``release`` gives the memory back before Python does. There are no
    locks: nobody should write to it while a program runs on it.
    """

    def __init__(
        self,
        device: str,
        desc: TensorDesc,
        *,
        array: Array | None = None,
        memory: DeviceMemory | None = None,
        space: MemorySpace | None = None,
        is_read_only: bool = False,
    ) -> None:
        self.device = device
        self.desc = desc
        self.is_read_only = is_read_only
        self._array = array
        self._memory = memory
        self._space = space

    def __repr__(self) -> str:
        state = ", released" if self.is_released else ""
        return f"<DeviceTensor {self.desc.data_type.name.lower()} {list(self.desc.sizes)} on {self.device}{state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotPicklableError("a device tensor is memory of this process: pickle what numpy() gives")

    @property
    def is_released(self) -> bool:
        """Whether the memory was given back."""
        return self._array is None and self._memory is None

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to behind the last one."""
        return self.desc.element_span * self.desc.data_type.dtype.itemsize

    @property
    def array(self) -> Array | None:
        """The elements in the host's memory; None for one in a device's own."""
        self._check()
        return self._array

    @property
    def memory(self) -> DeviceMemory | None:
        """The device's own memory; None where it is the host's."""
        self._check()
        return self._memory

    def _check(self) -> None:
        if self.is_released:
            raise BindingError(f"the tensor {list(self.desc.sizes)} on {self.device} was released")

    def release(self) -> None:
        """Give the memory back as soon as nothing that was bound to it needs it."""
        self._array = self._memory = None

    def numpy(self) -> Array:
        """The elements as an array of the host: a view where they are there, else a copy."""
        self._check()
        if self._array is not None:
            return self._array
        assert self._memory is not None
        content = aligned_empty(self.nbytes)
        self._memory.read(content)
        return _viewed(content, self.desc)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False and self._memory is not None:
            raise dlpack.ExportError(f"the tensor lives on {self.device}: its elements cannot be had without a copy")
        return np.array(self.numpy(), dtype, copy=copy if self._memory is None else None)

    def seen_as(self, desc: TensorDesc) -> DeviceTensor:
        """The same memory as another tensor. Raises BindingError where it is too small, or has gaps."""
        self._check()
        needed = desc.element_span * desc.data_type.dtype.itemsize
        if not self.desc.is_packed or needed > (self.nbytes if self._memory is None else self._memory.size):
            raise BindingError(f"{self!r} cannot be seen as {desc.data_type.name.lower()} {list(desc.sizes)}")
        array = None if self._array is None else _viewed(self._array.reshape(-1).view(np.uint8), desc)
        return DeviceTensor(
            self.device, desc, array=array, memory=self._memory, space=self._space, is_read_only=self.is_read_only
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """``(kDLCPU, 0)``, or the type and number of the device."""
        self._check()
        return (dlpack.HOST, 0) if self._space is None else self._space.dlpack_device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the tensor, versioned for consumers of version 1, without a copy unless one is asked for.

        Commands on the tensor are done when it is exported, so ``stream`` has no meaning. Raises ExportError, a
        BufferError, for another device without a copy, and for a read-only tensor without a version.
        """
        own = self.__dlpack_device__()
        if self._memory is None or (dl_device is not None and tuple(dl_device) == (dlpack.HOST, 0)):
            return self._host_capsule(max_version, dl_device, copy)
        if stream is not None:
            raise dlpack.ExportError(f"the tensor is exported when all is done, so expected no stream, got {stream!r}")
        if dl_device is not None and tuple(dl_device) != own:
            raise dlpack.ExportError(f"the tensor lives on the device {own}, not on {tuple(dl_device)}")
        versioned = max_version is not None and max_version[0] >= 1
        if self.is_read_only and not versioned and not copy:
            raise dlpack.ExportError("the tensor is read-only, which consumers without versions cannot be told")
        memory, flags = self._memory, dlpack.READ_ONLY if self.is_read_only else 0
        if copy:
            assert self._space is not None
            memory, flags = self._space.allocate(memory.size), dlpack.IS_COPIED
            content = aligned_empty(self.nbytes)
            self._memory.read(content)
            memory.write(content)
        return dlpack.export(self.desc, own, memory.handle, memory.offset, memory, versioned=versioned, flags=flags)

    def _host_capsule(self, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
        if self._memory is not None and copy is False:
            raise dlpack.ExportError(f"the tensor lives on {self.device}: the host has it with a copy only")
        array = self.numpy()
        try:
            if self._memory is not None:
                return array.__dlpack__(max_version=max_version)
            return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        except (BufferError, ValueError, TypeError) as error:
            raise dlpack.ExportError(str(error)) from error


def tensor_on(device: str, space: MemorySpace | None, desc: TensorDesc) -> DeviceTensor:
    """A new tensor; its content is random."""
    if space is None:
        return DeviceTensor(device, desc, array=new_array(place_of(desc)))
    size = desc.element_span * desc.data_type.dtype.itemsize
    return DeviceTensor(device, desc, memory=space.allocate(size), space=space)


def tensor_of(device: str, space: MemorySpace | None, array: Array) -> DeviceTensor:
    """An array on a device: itself where that uses the host's memory, else a packed copy. Raises BindingError for one
    that is no tensor of DirectML's."""
    array = array.reshape(array.shape or (1,))
    if space is None:
        return DeviceTensor(device, _desc_of(array), array=array, is_read_only=not array.flags.writeable)
    packed = np.ascontiguousarray(array)
    found = tensor_on(device, space, _desc_of(packed))
    assert found.memory is not None
    found.memory.write(packed.reshape(-1).view(np.uint8))
    return found


def _desc_of(array: Array) -> TensorDesc:
    try:
        data_type = TensorDataType.parse(array.dtype)
    except UnknownMemberError as error:
        raise BindingError(f"tensor: {error}") from None
    if not array.size or array.ndim > MAXIMUM_DIMENSION_COUNT:
        raise BindingError(
            f"tensor: expected elements in up to {MAXIMUM_DIMENSION_COUNT} dimensions, got sizes {list(array.shape)}"
        )
    strides = [stride // array.itemsize for stride in array.strides]
    if min(strides) < 0 or any(stride % array.itemsize for stride in array.strides):
        raise BindingError(f"tensor: expected strides of whole elements from 0 on, got {list(array.strides)} bytes")
    return TensorDesc(data_type, array.shape, None if array.flags.c_contiguous else strides)


def adopted(device: str, space: MemorySpace, value: Any) -> DeviceTensor:
    """A foreign tensor of the same device, where it is. Raises BindingError."""
    found = dlpack.take(value)
    try:
        if found.device != space.dlpack_device:
            raise BindingError(f"from_dlpack: the tensor lives on the device {found.device}, not on {device}")
        size = found.desc.element_span * found.desc.data_type.dtype.itemsize
        memory = space.adopt(found.handle, found.offset, size)
    except BaseException:
        found.give_back()
        raise
    weakref.finalize(memory, found.give_back)
    return DeviceTensor(device, found.desc, memory=memory, space=space, is_read_only=found.is_read_only)


def _viewed(content: npt.NDArray[np.uint8], desc: TensorDesc) -> Array:
    dtype = desc.data_type.dtype
    return np.ndarray(desc.sizes, dtype, content, 0, tuple(s * dtype.itemsize for s in desc.effective_strides))
