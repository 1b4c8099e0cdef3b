"""Serialised graphs: the files ``Partition_0.bin`` that ONNX Runtime's DirectML provider writes (its option
``enable_graph_serialization``) and DxDispatch runs.

    graph = dml.load("Partition_0.bin")
    dml.save(graph, "copy/Partition_0.bin")

A file is a FlatBuffer: nodes, each with the names of the tensors that it reads and gives, and the names of the graph's
own inputs and outputs. Equal names are what the edges of the graph are made of. An operator's tensors stand in one list
for inputs and one for outputs, its attributes in a third, in the order of the fields of DirectML's struct; absent
optional tensors have an empty name. Constants are stored in the file, or each in one of its own beside it.

Source of the format: the tables and the reader in microsoft/DirectML, DxDispatch/src/dxdispatch/DirectMLHelpers, and
the writer in microsoft/onnxruntime, DmlGraphSerialization.
"""

from __future__ import annotations

import os
from pathlib import Path

from opendml.description.errors import (
    ModelFormatError,
)
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
)
from opendml.description.quoting import quoted
from opendml.formats.serialized_graph.flat_buffers import MAXIMUM_SIZE
from opendml.formats.serialized_graph.reading import constant_files, read_bytes, read_graph
from opendml.formats.serialized_graph.storage import file_name, replace_files, stamp, stored_sources
from opendml.formats.serialized_graph.writing import write_graph

__all__ = ["load", "save"]


def load(path: str | os.PathLike[str]) -> GraphDesc:
    """Reads a serialised graph, and the constants that lie in files beside it.

    The graph is not validated: ``validate_graph`` and ``Device.compile_graph`` do that. Raises ``ModelFormatError`` for
    what is no serialised graph, or a damaged one, with the place in it.
    """
    path = _path(path)
    while True:
        before = stamp(path)
        try:
            graph = read_graph(read_bytes(path, MAXIMUM_SIZE, ""), path.parent)
        except ModelFormatError:
            if stamp(path) == before:
                raise
        else:
            # The files of constants belong to the graph's file that was there before they were read.
            if stamp(path) == before or not any(isinstance(n, ConstantNode) and n.source for n in graph.nodes):
                return graph


def save(graph: GraphDesc, path: str | os.PathLike[str]) -> None:
    """Writes a graph as ONNX Runtime does, and each constant with a ``source`` into a file beside it.

    All files are replaced as one: whoever loads the graph meanwhile gets the old one or the new one, and a saving that
    fails changes nothing. No file that another graph may need is written over: a constant whose usual file has other
    content already goes into a file whose name ends with a hash of its content.

    Nodes come in topological order; tensors and nodes without a name are given one. What the format has no place for is
    refused with ``ModelFormatError``: inputs OWNED_BY_DML, guaranteed alignments, one output of a node as several
    outputs of the graph. Raises ``InvalidDescriptorError`` for an invalid graph.
    """
    path = _path(path)
    write_graph(graph)  # What cannot be written is refused before any file is looked at.
    constants = {node.source: node.data for node in graph.nodes if isinstance(node, ConstantNode) and node.source}
    stored = stored_sources(path, constants, lambda source: file_name(source, ""))
    data, files = write_graph(graph, stored)
    try:
        replace_files(path, data, files, constant_files)
    except OSError as error:
        raise ModelFormatError("", f"cannot write {quoted(path.name)}: {error.strerror or error}") from error


def _path(path: object) -> Path:
    try:
        return Path(path)  # type: ignore[arg-type]
    except Exception:  # whatever a foreign object raises
        raise ModelFormatError("", f"expected the path of a file, got {quoted(path)}") from None
