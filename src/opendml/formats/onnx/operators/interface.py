"""What a table of operators holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opendml.formats.onnx.nodes import Node, Results

__all__ = ["Function", "Table"]

Function = Callable[[Node], Results | None]
"""Gives the outputs of a node; None where ONNX's own definition of it by other operators is to be taken."""

Table = Mapping[str, Function]
