"""The classes, where onnxruntime defines them."""

from opendml.compatibility.onnxruntime import (
    InferenceSession,
    IOBinding,
    OrtValue,
)

__all__ = [
    "IOBinding",
    "InferenceSession",
    "OrtValue",
]
