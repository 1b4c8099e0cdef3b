"""DML graphs as ONNX Runtime's DirectML provider serialises them: `read` reads one, `save` writes one."""

from opendml.formats.serialized_graph.graph_file import load as read
from opendml.formats.serialized_graph.graph_file import save
from opendml.formats.serialized_graph.recognition import recognises

__all__ = ["read", "recognises", "save"]
