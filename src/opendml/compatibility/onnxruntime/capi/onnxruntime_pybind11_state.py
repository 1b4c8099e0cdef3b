"""Exceptions, and the names that scripts reach through the extension module."""

from typing import NoReturn

from opendml.compatibility.onnxruntime import (
    ExecutionMode,
    GraphOptimizationLevel,
    ModelMetadata,
    NodeArg,
    OrtDevice,
    RunOptions,
    SessionOptions,
    get_available_providers,
    get_device,
)
from opendml.compatibility.onnxruntime.absent import refuse
from opendml.compatibility.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtDevice",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "get_available_providers",
    "get_device",
]


def __getattr__(name: str) -> NoReturn:
    """Raises ``dml.UnknownNameError``, which says why a name of onnxruntime is not here."""
    refuse(__name__, name)
