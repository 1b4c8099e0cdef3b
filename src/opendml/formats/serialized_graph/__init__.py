"""DML graphs as ONNX Runtime's DirectML provider serialises them: `read` reads one, `save` writes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opendml.formats.serialized_graph.recognition import recognises

if TYPE_CHECKING:
    from opendml.formats.serialized_graph.graph_file import load as read
    from opendml.formats.serialized_graph.graph_file import save

__all__ = ["read", "recognises", "save"]


def __getattr__(name: str) -> Any:
    """What reads and writes is loaded when it is first used: `recognises` alone is asked of every file."""
    if name not in ("read", "save"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from opendml.formats.serialized_graph import graph_file

    return graph_file.load if name == "read" else graph_file.save
