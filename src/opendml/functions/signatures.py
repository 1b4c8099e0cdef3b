"""What the public functions have in common as functions of Python: tensors by position, parameters by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from opendml.description.errors import InvalidDescriptorError
from opendml.description.names import did_you_mean
from opendml.description.quoting import quoted
from opendml.functions.arguments import in_words_of_call

P = ParamSpec("P")
R = TypeVar("R")


def operator_function(function: Callable[P, R]) -> Callable[P, R]:
    """A public function. Calls that do not fit its signature raise a TypeError that says what to write, and what is
    wrong with a descriptor is told in the words of the call."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            raise _explained(error, function, arguments, named) from None
        except InvalidDescriptorError as error:
            raise in_words_of_call(error, function, arguments, named) from None

    return call


def _explained(
    error: TypeError, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> TypeError:
    """The error, or one in plainer words where the arguments do not fit the function's signature."""
    parameters = inspect.signature(function).parameters
    by_position = [name for name, parameter in parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    by_name = [name for name in parameters if name not in by_position]
    if len(arguments) > len(by_position):
        expected = ", ".join(by_position)
        names = ", ".join(f"{name}=..." for name in by_name)
        return TypeError(
            f"{function.__name__}({expected}) got {len(arguments)} arguments by position; name the others: {names}"
        )
    for name in named:
        if name not in parameters:
            hint = did_you_mean(name, parameters) or f"; it has {', '.join(parameters)}"
            return TypeError(f"{function.__name__}() has no parameter {quoted(name)}{hint}")
    return error
