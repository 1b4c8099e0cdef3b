"""Models in DxDispatch's JSON format: `read_model` reads one, `Executor` runs it on a device."""

from opendml.models.checking import ModelReport, check_model
from opendml.models.dxdispatch import DEFAULT_MEMORY_LIMIT, Model, parse_model, read_model
from opendml.models.executor import Executor, RunOptions
from opendml.models.files import Folders

__all__ = [
    "DEFAULT_MEMORY_LIMIT",
    "Executor",
    "Folders",
    "Model",
    "ModelReport",
    "RunOptions",
    "check_model",
    "parse_model",
    "read_model",
]
