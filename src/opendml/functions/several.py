"""Results of several tensors: what takes one of them for a tensor is told which to name."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

T = TypeVar("T", bound=type)

_OPERATORS = [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "mod",
    "rmod",
    "pow",
    "rpow",
    "matmul",
    "rmatmul",
    "and",
    "rand",
    "or",
    "ror",
    "xor",
    "rxor",
    "lshift",
    "rlshift",
    "rshift",
    "rrshift",
    "neg",
    "pos",
    "abs",
    "invert",
    "lt",
    "le",
    "gt",
    "ge",
    "array",
]
_ATTRIBUTES = [
    "shape",
    "dtype",
    "sizes",
    "strides",
    "data_type",
    "rank",
    "desc",
    "ndim",
    "T",
    "reshape",
    "transpose",
    "astype",
]


def several(outputs: T) -> T:
    """Makes a named tuple of tensors refuse what only a tensor can do, saying which fields there are."""
    fields = " or ".join(f".{name}" for name in outputs._fields)  # type: ignore[attr-defined]

    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{outputs.__name__} holds several tensors; use {fields} of it")

    def missing(self: Any, name: str) -> NoReturn:
        hint = f"; it holds several tensors, use {fields} of it" if name in _ATTRIBUTES else ""
        raise AttributeError(f"{outputs.__name__!r} has no attribute {name!r}{hint}", name=name, obj=self)

    for name in _OPERATORS:
        setattr(outputs, f"__{name}__", refuse)
    outputs.__array_ufunc__ = None  # type: ignore[attr-defined]
    outputs.__getattr__ = missing  # type: ignore[attr-defined]
    return outputs
