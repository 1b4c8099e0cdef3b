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
    from opendml.programs.device import Device

__all__ = ["device_with_kernels", "feature_level", "note_meaningless", "read_unlimited"]


def read_unlimited(
    path: Path,
    input_path: Path | None,
    in_part: bool = False,
    sizes: dict[str, int | list[int]] | None = None,
    values: dict[str, Any] | None = None,
    narrow_float64: bool = False,
    feature_level: FeatureLevel | str = "6_4",
) -> Model:
    """A model of which nothing will be allocated, so that there is nothing to limit; or what can be read of it."""
    from opendml.formats.models import read_model

    return read_model(
        path,
        input_path=input_path,
        memory_limit=sys.maxsize,
        in_part=in_part,
        sizes=sizes,
        values=values,
        narrow_float64=narrow_float64,
        feature_level=feature_level,
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
