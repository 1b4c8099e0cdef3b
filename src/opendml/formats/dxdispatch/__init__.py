"""Models in DxDispatch's JSON format: `read` reads one, `Executor` runs it on a device.

Its modules are loaded when they are first used: `recognises` alone is asked of every file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from opendml.formats.dxdispatch.recognition import recognises

if TYPE_CHECKING:
    from opendml.formats.dxdispatch.checking import ModelReport, check_model
    from opendml.formats.dxdispatch.executor import Executor, RunOptions
    from opendml.formats.dxdispatch.model import DEFAULT_MEMORY_LIMIT, Model, parse_model, read
    from opendml.formats.files import Folders

__all__ = [
    "DEFAULT_MEMORY_LIMIT",
    "Executor",
    "Folders",
    "Model",
    "ModelReport",
    "RunOptions",
    "check_model",
    "parse_model",
    "read",
    "recognises",
]

_MODULES: Final = {
    **dict.fromkeys(("ModelReport", "check_model"), "dxdispatch.checking"),
    **dict.fromkeys(("Executor", "RunOptions"), "dxdispatch.executor"),
    **dict.fromkeys(("DEFAULT_MEMORY_LIMIT", "Model", "parse_model", "read"), "dxdispatch.model"),
    "Folders": "files",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"opendml.formats.{_MODULES[name]}"), name)
