"""onnxruntime's interface: a script written for ``onnxruntime-directml`` runs with one line changed.

    import opendml.compatibility.onnxruntime as onnxruntime

    session = onnxruntime.InferenceSession("model.onnx", providers=["DmlExecutionProvider"])
    (y,) = session.run(["y"], {"x": x})

Code of others that imports onnxruntime calls this behind

    import sys
    import opendml.compatibility.onnxruntime as onnxruntime

    sys.modules["onnxruntime"] = onnxruntime

Models are read with the package onnx (extra ``onnx``). Training, quantisation tools, sparse tensors and plug-in
providers are not here; a name of onnxruntime that is missing says why when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from opendml.compatibility.onnxruntime.absent import refuse
from opendml.compatibility.onnxruntime.binding import IOBinding
from opendml.compatibility.onnxruntime.errors import ExecutionError
from opendml.compatibility.onnxruntime.node_arguments import ModelMetadata, NodeArg
from opendml.compatibility.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    set_global_thread_pool_sizes,
)
from opendml.compatibility.onnxruntime.providers import AVAILABLE
from opendml.compatibility.onnxruntime.session import InferenceSession
from opendml.compatibility.onnxruntime.values import OrtDevice, OrtDeviceMemoryType, OrtDeviceVendorId, OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "copy_tensors",
    "cuda_version",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "version",
]

__version__: Final = "1.24.0"
"""The version of onnxruntime whose interface this is; scripts compare it."""

version: Final = __version__
package_name: Final = "onnxruntime-directml"
cuda_version: Final = ""

SessionIOBinding = IOBinding


def __getattr__(name: str) -> Any:
    """``capi``, which scripts reach without importing it: onnxruntime imports it itself.

    Raises ``dml.UnknownNameError``, an AttributeError, which says why a name of onnxruntime is not here.
    """
    if name != "capi":
        refuse(__name__, name)
    import importlib

    return importlib.import_module(f"{__name__}.capi")


def get_available_providers() -> list[str]:
    """DirectML's provider and the processor's."""
    return list(AVAILABLE)


def get_all_providers() -> list[str]:
    """The same."""
    return list(AVAILABLE)


def get_device() -> str:
    """``CPU-DML``, as the package with DirectML says; the device of a session is that of its providers."""
    return "CPU-DML"


def get_version_string() -> str:
    """The version of onnxruntime whose interface this is."""
    return __version__


def get_build_info() -> str:
    """What computes: opendml and its version."""
    from opendml._version import __version__ as version

    return f"opendml {version}"


def has_collective_ops() -> bool:
    """False: nothing is computed on several machines together."""
    return False


def print_debug_info() -> None:
    """Prints what computes, and the version of onnxruntime whose interface this is."""
    import platform

    print(f"onnxruntime version: {__version__} (interface)\nplatform: {platform.platform()}\n{get_build_info()}")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: object = None) -> None:
    """Copies values into as many others of the same types and sizes, one by one. Raises ExecutionError."""
    if len(src) != len(dst):
        raise ExecutionError(f"copy_tensors: {len(src)} values for {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source.numpy())


def set_default_logger_severity(severity: int, /) -> None:
    """Accepted; nothing is logged."""


def set_default_logger_verbosity(verbosity: int, /) -> None:
    """Accepted; nothing is logged."""


def set_seed(seed: int, /) -> None:
    """Accepted; models have no random numbers whose seed is not in them."""


def enable_telemetry_events() -> None:
    """Accepted; nothing is ever sent."""


def disable_telemetry_events() -> None:
    """Accepted; nothing is ever sent."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted; there are no libraries to load."""
