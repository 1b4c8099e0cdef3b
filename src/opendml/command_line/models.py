"""What the commands about models share: reading one, and the feature level by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendml.command_line.output import fail, note

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from opendml.command_line.parsing import Option
    from opendml.description.enums import FeatureLevel
    from opendml.formats.dxdispatch import Model
    from opendml.formats.onnx.choices import OnnxChoices
    from opendml.programs.device import Device

__all__ = ["device_with_kernels", "feature_level", "note_meaningless", "onnx_choices", "read_unlimited"]


def read_unlimited(
    path: Path,
    input_path: Path | None,
    in_part: bool = False,
    onnx: OnnxChoices | None = None,
    feature_level: FeatureLevel | str = "6_4",
) -> Model:
    """A model of which nothing will be allocated, so that there is nothing to limit; or what can be read of it."""
    from opendml.formats.models import read_model

    return read_model(
        path,
        input_path=input_path,
        memory_limit=sys.maxsize,
        in_part=in_part,
        onnx=onnx_choices(None) if onnx is None else onnx,
        feature_level=feature_level,
    )


def onnx_choices(values: Namespace | None) -> OnnxChoices:
    """How a command line says that ONNX models are compiled."""
    from opendml.formats.onnx.choices import ALL_LEVELS, OnnxChoices, fuses_quantization

    given = {} if values is None else vars(values)

    def pairs(*options: str) -> dict[str, Any]:
        return {name: one for option in options for name, one in (given.get(option) or {}).items()}

    level, entries = given.get("onnx_graph_optimization_level", ALL_LEVELS), pairs("onnx_session_config_entry")
    return OnnxChoices(
        sizes=pairs("onnx_free_dim_name_override", "binding_shape", "size"),
        denotations=pairs("onnx_free_dim_denotation_override"),
        values=pairs("value"),
        narrow_float64=given.get("narrow_float64", False),
        fuse_quantization=not given.get("no_fuse_quantization", False) and fuses_quantization(level, entries),
    )


def feature_level(name: str) -> FeatureLevel:
    """A level by the package's name, ``3_0``, or another that it understands, such as DxDispatch's ``3.0``."""
    from opendml.description.enums import FeatureLevel
    from opendml.description.errors import OpendmlError

    try:
        return FeatureLevel.parse(name)
    except OpendmlError as error:
        fail(f"--feature-level: {error}")


def note_meaningless(options: Iterable[Option], values: Namespace) -> None:
    """Say of each option that is given and changes nothing why it does not."""
    for option in options:
        if option.means_nothing and getattr(values, option.variable):
            note(f"{option.names[0]} changes nothing here: {option.means_nothing}")


def device_with_kernels(name: str, what: str, thread_count: int | None = None) -> Device:
    """A device. Fails for one that compiles nothing, or that there is not."""
    from opendml.programs.device import Device

    found = Device(name, thread_count=thread_count)
    if found.target is None:
        fail(f"--device {name}: it interprets the operators' definitions, so there are no kernels to {what}")
    return found
