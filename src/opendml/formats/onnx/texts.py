"""What attributes that are texts may say: a word that ONNX does not have is an error, not the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opendml.description.quoting import quoted
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["check_text"]

_RECURRENT: Final = ("forward", "reverse", "bidirectional")
_PLACES: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)

_TEXTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "approximate": {"": ("none", "tanh")},
    "auto_pad": {"": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "coordinate_transformation_mode": {"Resize": _PLACES, "RoiAlign": ("half_pixel", "output_half_pixel")},
    "direction": {"": _RECURRENT, "BitShift": ("LEFT", "RIGHT")},
    "keep_aspect_ratio_policy": {"": ("stretch", "not_larger", "not_smaller")},
    "mode": {
        "DepthToSpace": ("DCR", "CRD"),
        "GridSample": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
        "Momentum": ("standard", "nesterov"),
        "Pad": ("constant", "reflect", "edge", "wrap"),
        "Resize": ("nearest", "linear", "cubic"),
        "RoiAlign": ("avg", "max"),
        "SpaceToDepth": ("DCR", "CRD"),
        "TensorScatter": ("linear", "circular"),
        "Upsample": ("nearest", "linear"),
    },
    "nearest_mode": {"": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")},
    "padding_mode": {"": ("zeros", "border", "reflection")},
    "reduction": {"": ("none", "add", "mul", "max", "min")},
}
"""What ONNX's specification has, by attribute and by operator; of all others under the empty name."""


def check_text(operator: str, name: str, text: str) -> None:
    """Raises NotExpressibleError for a text that an attribute of an operator cannot have. An empty one says nothing."""
    words = _TEXTS.get(name, {})
    allowed = words.get(operator, words.get(""))
    if text and allowed is not None and text not in allowed:
        raise NotExpressibleError(f"{name}: expected {', '.join(allowed[:-1])} or {allowed[-1]}, got {quoted(text)}")
