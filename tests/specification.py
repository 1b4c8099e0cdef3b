"""The facts that the tests compare with: one YAML sheet an operator, and one of all enumerations.

They are not part of the project: ``OPENDML_SHARED`` names the folder that holds them, by default ``shared`` beside the
checkout. Tests that need them are skipped where they are absent.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.operator_classes import operator_class

SHARED = Path(os.environ.get("OPENDML_SHARED") or Path(__file__).resolve().parents[2] / "shared")
SPECIFICATION = SHARED / "spec"

needs_specification = pytest.mark.skipif(not SPECIFICATION.is_dir(), reason="the specification is not here")

IMPLEMENTED = operators.implemented()

# Attributes that an example of the documentation leaves out because its mode does not use them.
UNUSED_ATTRIBUTES: dict[str, dict[str, Any]] = {"PADDING": {"PaddingValue": 0}, "PADDING1": {"PaddingValue": 0}}

# What a page leaves open, and a sheet took for something else than opendml: docs/semantics.md says why.
OTHER_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "RESAMPLE_GRAD": {"InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [0] * 4}
}

# Operators whose sheet has their older name.
SHEET_NAMES = {"SCATTER_ELEMENTS": "SCATTER"}


class Example(NamedTuple):
    """An example of the documentation: the descriptor, and flat data by the names of tensors (``InputTensors[0]``)."""

    title: str
    desc: Operator
    inputs: dict[str, list[Any]]
    outputs: dict[str, list[Any]]


def load(name: str) -> Any:
    """A YAML file of the specification; skips the test if there is none."""
    yaml = pytest.importorskip("yaml")
    path = SPECIFICATION / name
    if not path.is_file():
        pytest.skip("the specification is not here")
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@functools.cache
def sheet(operator_type: OperatorType) -> Mapping[str, Any]:
    """The sheet of an operator."""
    name = SHEET_NAMES.get(operator_type.name, operator_type.name)
    loaded: Mapping[str, Any] = load(f"operators/{name.lower()}.yaml")
    return loaded


def examples(operator_type: OperatorType) -> Iterator[Example]:
    """The documentation's examples of an operator."""
    for example in sheet(operator_type).get("examples", ()):
        tensors = {**example["inputs"], **example["outputs"]}
        json = UNUSED_ATTRIBUTES.get(operator_type.name, {}) | example.get("attributes", {})
        json |= OTHER_ATTRIBUTES.get(operator_type.name, {})
        json = json | {name: _tensor_json(tensor) for name, tensor in tensors.items()}
        desc = operator_class(operator_type).from_json({"Type": operator_type.name, "Desc": json})
        yield Example(example["title"], desc, _data(example["inputs"]), _data(example["outputs"]))


def _tensor_json(tensor: Any) -> Any:
    if isinstance(tensor, list):
        return [_tensor_json(item) for item in tensor]
    return {"DataType": tensor["type"], "Sizes": tensor["sizes"]}


def _data(tensors: Mapping[str, Any]) -> dict[str, list[Any]]:
    data: dict[str, list[Any]] = {}
    for name, tensor in tensors.items():
        items = {f"{name}[{i}]": item for i, item in enumerate(tensor)} if isinstance(tensor, list) else {name: tensor}
        data |= {place: item["data"] for place, item in items.items()}
    return data
