"""Exceptions, and the names that scripts reach through the extension module."""

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
from opendml.compatibility.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
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
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtDevice",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "get_available_providers",
    "get_device",
]
