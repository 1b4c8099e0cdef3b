"""``OnnxChoices``: how an ONNX model is compiled, as command lines and DxDispatch's models say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opendml.formats.onnx.types import info_of

if TYPE_CHECKING:
    from opendml.formats.onnx.model import OnnxModel

__all__ = ["ALL_LEVELS", "OnnxChoices", "fuses_quantization"]

Sizes = dict[str, Any]

PLAIN_QUANTIZATION: Final = "session.disable_quant_qdq"
"""ONNX Runtime's entry of the configuration that leaves quantised nodes in float32 where it is ``1``."""

EXTENDED_LEVEL: Final = 2
"""ONNX Runtime's level of optimisation from which on quantised nodes are fused."""


ALL_LEVELS: Final = 99
"""ONNX Runtime's level of all optimisations, which is the usual one."""


@dataclass(frozen=True, slots=True)
class OnnxChoices:
    """Arguments of ``OnnxModel.compile`` for a model that is yet to be read.

    ``denotations``: sizes of dimensions by what the model says that they are, ``{"DATA_BATCH": 1}``; ``sizes`` come
    first.
    """

    sizes: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    denotations: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    narrow_float64: bool = False
    fuse_quantization: bool = True

    def sizes_for(self, model: OnnxModel) -> Sizes:
        """The sizes of a model: those that are given, and those of dimensions of a denotation."""
        found: Sizes = {}
        for value in model.head.graph.input if self.denotations else ():
            named = _denoted(value, self.denotations)
            found |= named if isinstance(named, dict) else {value.name: named}
        return found | dict(self.sizes)

    def arguments(self, model: OnnxModel) -> dict[str, Any]:
        """The arguments for a model."""
        return {
            "sizes": self.sizes_for(model),
            "values": self.values,
            "narrow_float64": self.narrow_float64,
            "fuse_quantization": self.fuse_quantization,
        }


def fuses_quantization(level: int, entries: Mapping[str, str]) -> bool:
    """Whether ONNX Runtime fuses quantised nodes at a level of optimisation, 0, 1, 2 or 99, with entries of its
    configuration."""
    return level >= EXTENDED_LEVEL and entries.get(PLAIN_QUANTIZATION) != "1"


def _denoted(value: Any, denotations: Mapping[str, int]) -> Sizes | list[int]:
    """The sizes that denotations give to an input: all of them, where others are numbers, or those with names."""
    info = info_of(value)
    dimensions = value.type.tensor_type.shape.dim
    both = [
        denotations.get(dimension.denotation, size) if not isinstance(size, int) else size
        for dimension, size in zip(dimensions, info.sizes or (), strict=False)
    ]
    if both != list(info.sizes or ()) and all(isinstance(size, int) for size in both):
        return [int(size) for size in both if isinstance(size, int)]
    pairs = zip(info.sizes or (), both, strict=True)
    return {name: size for name, size in pairs if isinstance(name, str) and isinstance(size, int)}
