"""ONNX files and bytes as a ModelProto."""

from __future__ import annotations

from typing import Any, Final

from opendml.description.errors import FormatProblem, ModelFormatError
from opendml.formats.onnx.package import onnx_package

__all__ = ["MAXIMUM_SIZE", "model_of_bytes"]

MAXIMUM_SIZE: Final = (1 << 31) - 1
"""Bytes of a file: protocol buffers have no more; larger models have their data beside them."""

OLDEST: Final = 7
"""The version of ONNX's operators from which on they broadcast as NumPy does."""


def model_of_bytes(data: bytes) -> Any:
    """The ModelProto that bytes hold. Raises ModelFormatError for what is damaged, or too old or too new."""
    onnx = onnx_package()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # protocol buffers' own class, by implementation
        raise ModelFormatError("", "it is no ONNX model, or a damaged one") from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelFormatError("", "it is no ONNX model: it has no graph or no set of operators")
    _check_names(model.graph)
    for imported in model.opset_import:
        _check_version(onnx, imported, model)
    return model


def _check_names(graph: Any) -> None:
    """What is not UTF-8 protocol buffers give as bytes; nodes with such names are refused one by one."""
    parts = (("input", graph.input), ("output", graph.output), ("initializer", graph.initializer))
    problems = [
        FormatProblem(f"{kind} {one.name!r}", "its name is not UTF-8")
        for kind, several in parts
        for one in several
        if not isinstance(one.name, str)
    ]
    if problems:
        raise ModelFormatError(problems[0].path, problems[0].message, problems[1:])


def _check_version(onnx: Any, imported: Any, model: Any) -> None:
    """A model of an older version is one of the oldest that is read if its operators have not changed up to there."""
    if imported.domain not in ("", "ai.onnx"):
        return
    newest = onnx.defs.onnx_opset_version()
    if 1 <= imported.version < OLDEST and not _has_changed(onnx, imported.version, model):
        imported.version = OLDEST
    if imported.version < OLDEST:
        cure = "onnx.version_converter converts it"
        raise ModelFormatError("opset_import", f"version {imported.version} is older than {OLDEST}; {cure}")
    if imported.version > newest:
        cure = "a newer one may know it"
        raise ModelFormatError(
            "opset_import", f"version {imported.version}; the installed package onnx knows up to {newest}; {cure}"
        )


def _has_changed(onnx: Any, version: int, model: Any) -> bool:
    """Whether an operator of the model means something else in the oldest version that is read."""
    has = onnx.defs.has
    for name in {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}:
        if not has(name, version, "") or not has(name, OLDEST, ""):
            return True
        versions = (onnx.defs.get_schema(name, one, "").since_version for one in (version, OLDEST))
        if len({*versions}) > 1 or name in ("If", "Loop", "Scan"):
            return True
    return False
