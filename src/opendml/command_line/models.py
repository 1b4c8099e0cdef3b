"""What the commands about models share: reading one, and the feature level by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opendml.command_line.output import fail

if TYPE_CHECKING:
    from opendml.description.enums import FeatureLevel
    from opendml.formats.dxdispatch import Model

__all__ = ["feature_level", "read_unlimited"]


def read_unlimited(path: Path, input_path: Path | None, in_part: bool = False) -> Model:
    """A model of which nothing will be allocated, so that there is nothing to limit; or what can be read of it."""
    from opendml.formats.models import read_model

    return read_model(path, input_path=input_path, memory_limit=sys.maxsize, in_part=in_part)


def feature_level(name: str) -> FeatureLevel:
    """A level by the package's name, ``3_0``, or another that it understands, such as DxDispatch's ``3.0``."""
    from opendml.description.enums import FeatureLevel
    from opendml.description.errors import OpendmlError

    try:
        return FeatureLevel.parse(name)
    except OpendmlError as error:
        fail(f"--feature-level: {error}")
