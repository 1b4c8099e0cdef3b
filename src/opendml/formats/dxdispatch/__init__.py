"""Models in DxDispatch's JSON format: `read` reads one, `Executor` runs it on a device."""

from opendml.formats.dxdispatch.checking import ModelReport, check_model
from opendml.formats.dxdispatch.executor import Executor, RunOptions
from opendml.formats.dxdispatch.model import DEFAULT_MEMORY_LIMIT, Model, parse_model, read
from opendml.formats.dxdispatch.recognition import recognises
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
