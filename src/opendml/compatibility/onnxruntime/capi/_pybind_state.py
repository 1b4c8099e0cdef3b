"""The extension module under its other name."""

from opendml.compatibility.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
