"""Checking a model without running it: all violations of operators and graphs, and what is wrong with the bindings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opendml.description.errors import InvalidDescriptorError, ModelFormatError
from opendml.description.graph_desc import GraphDesc
from opendml.description.graph_validation import validate_graph, validate_graph_or_raise
from opendml.description.validation import validate, validate_or_raise
from opendml.formats.dxdispatch.bindings import bind_dispatch, bind_initialization
from opendml.formats.dxdispatch.model import Dispatchable, DispatchCommand, Model

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.enums import FeatureLevel
    from opendml.description.rules import Violation

__all__ = ["ModelReport", "check_model", "check_operator", "violation_line"]


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What is wrong with a model at a feature level.

    Attributes:
        violations: by the names of the dispatchables whose descriptors are invalid.
        binding_problems: for each set of bindings the first problem; those of invalid operators are not judged.
    """

    violations: dict[str, list[Violation]]
    binding_problems: list[ModelFormatError]


def check_model(model: Model, feature_level: FeatureLevel | str) -> ModelReport:
    """Check all operators of a model at a feature level, and all bindings."""
    found = {name: _violations(entry.desc, feature_level) for name, entry in model.dispatchables.items()}
    violations = {name: own for name, own in found.items() if own}
    return ModelReport(violations, list(_binding_problems(model, found.keys() - violations.keys())))


def check_operator(dispatchable: Dispatchable, feature_level: FeatureLevel | str = "6_4") -> None:
    """Raise ModelFormatError, with every violation, if an operator or a graph is invalid at a feature level."""
    desc = dispatchable.desc
    try:
        if isinstance(desc, GraphDesc):
            validate_graph_or_raise(desc, feature_level)
        else:
            validate_or_raise(desc, feature_level)
    except InvalidDescriptorError as error:
        raise _invalid(dispatchable, error) from error


def _violations(desc: Operator | GraphDesc, feature_level: FeatureLevel | str) -> list[Violation]:
    return validate_graph(desc, feature_level) if isinstance(desc, GraphDesc) else validate(desc, feature_level)


def violation_line(dispatchable: Dispatchable, violation: Violation) -> str:
    """``dispatchables.slice.desc.InputWindowStrides[2]: must not be 0, got 0``."""
    separator = ("." if violation.field else ": ") if dispatchable.desc_path else ""
    return f"{dispatchable.desc_path}{separator}{violation}"


def _invalid(dispatchable: Dispatchable, error: InvalidDescriptorError) -> ModelFormatError:
    """The error of running it, with the path of every violation."""
    lines = [f"  {violation_line(dispatchable, violation)}" for violation in error.violations]
    return ModelFormatError(dispatchable.path, "\n".join([str(error).splitlines()[0], *lines]))


def _binding_problems(model: Model, valid: set[str]) -> Iterator[ModelFormatError]:
    for name in model.dispatchables:
        if name in valid:
            try:
                bind_initialization(model, model.dispatchables[name])
            except ModelFormatError as error:
                yield error
    for command in model.commands:
        if isinstance(command, DispatchCommand) and command.dispatchable in valid:
            try:
                bind_dispatch(model, model.dispatchables[command.dispatchable], command.bindings, command.path)
            except ModelFormatError as error:
                yield error
