"""The exceptions of the package. Everything that it raises on purpose is an ``OpendmlError``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.enums import FeatureLevel
    from opendml.description.rules import Violation


class OpendmlError(Exception):
    """Base of all errors of the package."""


_LISTED_VIOLATIONS = 100


class InvalidDescriptorError(OpendmlError, ValueError):
    """A descriptor breaks rules of its operator. ``violations`` has all of them, the message the first hundred.

    ``desc`` and ``feature_level`` are the descriptor and the level that it was held to, where the error is about one.
    """

    def __init__(
        self,
        message: str,
        violations: Iterable[Violation] = (),
        desc: Operator | None = None,
        feature_level: FeatureLevel | None = None,
    ) -> None:
        self.message = message
        self.violations: tuple[Violation, ...] = tuple(violations)
        self.desc = desc
        self.feature_level = feature_level
        lines = [f"  {violation}" for violation in self.violations[:_LISTED_VIOLATIONS]]
        rest = len(self.violations) - len(lines)
        super().__init__("\n".join([message, *lines, *([f"  ... and {rest} more"] if rest else [])]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.violations, self.desc, self.feature_level)


class DescriptorArgumentError(OpendmlError, TypeError):
    """A descriptor is constructed with a field that it does not have, or without one that it needs."""


class FormatProblem(NamedTuple):
    """Something that cannot be read, and where it stands."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UnreadableError(OpendmlError, ValueError):
    """Something cannot be read. ``problems`` are all reasons; ``path`` and ``message`` are those of the first one."""

    def __init__(self, path: str, message: str, others: Iterable[FormatProblem] = ()) -> None:
        self.path = path
        self.message = message
        self.problems: tuple[FormatProblem, ...] = (FormatProblem(path, message), *others)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.message, self.problems[1:])


class DescriptorFormatError(UnreadableError):
    """A descriptor in JSON cannot be read. ``path`` is where, such as ``Desc.InputWindowStrides[2]``."""


class UnknownMemberError(OpendmlError, ValueError):
    """A name or a number is no member of an enumeration; the message lists those that are."""


class UnknownNameError(OpendmlError, AttributeError):
    """The package has no such name; the message says which one is meant, or that its operator is not here yet."""


class UnknownOperatorError(OpendmlError, KeyError):
    """No operator has this name or number, or it is not implemented yet."""

    def __str__(self) -> str:
        return str(self.args[0])


class ModelFormatError(UnreadableError):
    """A model file cannot be read or run. ``path`` is where, such as ``resources.A.initialValues[3]``."""


class BindingError(OpendmlError, ValueError):
    """Arrays do not fit the tensors of a program: their number, types, sizes, memory layout or overlap."""


class OutOfMemoryError(OpendmlError, MemoryError):
    """There is no memory for the outputs or the temporaries of a program."""


class ConfigurationError(OpendmlError, ValueError):
    """An environment variable or an option of the runtime has a value that means nothing, or not on this machine."""


class CodeGenerationError(OpendmlError, RuntimeError):
    """The generated code was refused by LLVM, or its object file could not be loaded: a fault of this package."""


class DeviceError(OpendmlError, RuntimeError):
    """A device did not run a program that was made for it, in its driver's words."""


class UnknownAdapterError(OpendmlError, LookupError):
    """Nothing on this machine that programs can run on has such a name."""


class NotPicklableError(OpendmlError, TypeError):
    """An object holds memory or code of this process, so it can neither be pickled nor copied."""
