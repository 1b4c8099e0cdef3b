"""Exceptions of onnxruntime's names, with its codes in front of their messages."""

from __future__ import annotations

from typing import ClassVar, Final

from opendml.description.errors import OpendmlError

__all__ = [
    "CODES",
    "EPFail",
    "EngineError",
    "ExecutionError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "OnnxRuntimeError",
    "RuntimeException",
]


class OnnxRuntimeError(OpendmlError):
    """What all of them are. ``code`` and ``label`` are ONNX Runtime's status."""

    code: ClassVar[int] = 1
    label: ClassVar[str] = "FAIL"

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return f"[ONNXRuntimeError] : {self.code} : {self.label} : {self.args[0]}"


class Fail(OnnxRuntimeError):
    """A failure of no other kind."""


class InvalidArgument(OnnxRuntimeError, ValueError):
    """Inputs, outputs or options that the model or the interface does not have, or of a wrong type or sizes."""

    code = 2
    label = "INVALID_ARGUMENT"


class NoSuchFile(OnnxRuntimeError, FileNotFoundError):
    """There is no such file."""

    code = 3
    label = "NO_SUCHFILE"


class NoModel(OnnxRuntimeError):
    """There is no model."""

    code = 4
    label = "NO_MODEL"


class EngineError(OnnxRuntimeError):
    """Never raised here."""

    code = 5
    label = "ENGINE_ERROR"


class RuntimeException(OnnxRuntimeError):
    """Something went wrong while running, such as too little memory."""

    code = 6
    label = "RUNTIME_EXCEPTION"


class InvalidProtobuf(OnnxRuntimeError):
    """No ONNX model, or a damaged one."""

    code = 7
    label = "INVALID_PROTOBUF"


class ModelLoaded(OnnxRuntimeError):
    """Never raised here."""

    code = 8
    label = "MODEL_LOADED"


class NotImplemented(OnnxRuntimeError):
    """Nodes that DirectML's operators do not express, all of them, or an option that is not offered here."""

    code = 9
    label = "NOT_IMPLEMENTED"


class InvalidGraph(OnnxRuntimeError):
    """A model whose nodes or sets of operators make no sense."""

    code = 10
    label = "INVALID_GRAPH"


class EPFail(OnnxRuntimeError):
    """A provider that failed. Never raised here."""

    code = 11
    label = "EP_FAIL"


class ModelLoadCanceled(OnnxRuntimeError):
    """Never raised here."""

    code = 12
    label = "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(OnnxRuntimeError):
    """Never raised here."""

    code = 13
    label = "MODEL_REQUIRES_COMPILATION"


class NotFound(OnnxRuntimeError):
    """Never raised here."""

    code = 14
    label = "NOT_FOUND"


class ExecutionError(OpendmlError, RuntimeError):
    """Where onnxruntime raises Python's RuntimeError: bindings and values that do not fit."""


CODES: Final = (
    Fail,
    InvalidArgument,
    NoSuchFile,
    NoModel,
    EngineError,
    RuntimeException,
    InvalidProtobuf,
    ModelLoaded,
    NotImplemented,
    InvalidGraph,
    EPFail,
    ModelLoadCanceled,
    ModelRequiresCompilation,
    NotFound,
)
"""The exceptions by code, from 1 on."""
