"""Memory of an OpenCL device: buffers of its context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

from opendml.description.errors import BindingError
from opendml.targets.opencl.platform import Opened, driver_errors, opened, pyopencl_module

Array = npt.NDArray[Any]

DLPACK_OPENCL: Final = 4
"""``kDLOpenCL``."""


@dataclass(eq=False)
class OpenClMemory:
    """``buffer`` is the memory itself: the whole of ``root``, or the part of it that begins at ``offset``."""

    device: Opened
    root: Any
    buffer: Any
    size: int
    offset: int = 0

    @property
    def handle(self) -> int:
        """The ``cl_mem``."""
        return int(self.root.int_ptr)

    def read(self, target: Array) -> None:
        """Copy as many bytes as ``target`` has to it."""
        with driver_errors():
            pyopencl_module().enqueue_copy(self.device.queue, target, self.buffer)

    def write(self, source: Array) -> None:
        """Copy the bytes of ``source`` to the device."""
        with driver_errors():
            pyopencl_module().enqueue_copy(self.device.queue, self.buffer, source)


@dataclass(frozen=True, slots=True)
class OpenClMemorySpace:
    """The memory of a device by its number."""

    number: int

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """``kDLOpenCL``, and the number among this package's devices."""
        return DLPACK_OPENCL, self.number

    def allocate(self, size: int) -> OpenClMemory:
        """New memory."""
        cl, device = pyopencl_module(), opened(self.number)
        with driver_errors():
            buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(size, 1))
        return OpenClMemory(device, buffer, buffer, size)

    def adopt(self, handle: int, offset: int, size: int) -> OpenClMemory:
        """A ``cl_mem`` of the same context, which is retained, from ``offset`` on."""
        cl, device = pyopencl_module(), opened(self.number)
        with driver_errors():
            root = cl.Buffer.from_int_ptr(handle, retain=True)
            if root.context != device.context:
                raise BindingError("the memory belongs to another OpenCL context than this package's")
            if offset + size > root.size:
                raise BindingError(f"the memory has {root.size} bytes, and the tensor ends at byte {offset + size}")
            if not offset:
                return OpenClMemory(device, root, root, size)
            alignment = device.device.mem_base_addr_align // 8
            if offset % alignment:
                raise BindingError(
                    f"the tensor begins at byte {offset}; on this device it must be a multiple of {alignment}"
                )
            return OpenClMemory(device, root, root.get_sub_region(offset, size), size, offset)
