"""The types that fields of descriptors are declared with: what a field holds, and what it may be given.

    input_window_sizes: Integers = uint_array(count="dimension_count")

says that ``desc.input_window_sizes`` is a ``tuple[int, ...]``, that the constructor takes any iterable of integers,
NumPy's included, and that nothing can be assigned to it. Nothing here runs, it is for type checkers: a descriptor
keeps its values in its ``__dict__``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Never, Self, SupportsFloat, SupportsIndex, TypeAlias, TypeVar, overload

from opendml.description.enums import DirectMLEnum

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.structs import ScalarUnion, ScaleBias, Size2D
    from opendml.description.tensor import TensorDesc

__all__ = [
    "ActivationList",
    "Count",
    "Integer",
    "Integers",
    "Member",
    "Number",
    "Numbers",
    "OptionalScaleBias",
    "Scalar",
    "Size",
    "TensorList",
    "Value",
]

Held = TypeVar("Held")
Given = TypeVar("Given")
Enumeration = TypeVar("Enumeration", bound=DirectMLEnum)


class _Field(Generic[Held, Given]):
    """A field that holds one type and is given another."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Held: ...
    def __get__(self, instance: object, owner: type) -> Any:
        raise NotImplementedError("fields are declared with this type, and never made of it")

    # The constructors that type checkers see take what may be set; no instance is ever right for setting it later.
    def __set__(self, instance: Never, value: Given) -> None:
        raise NotImplementedError("fields are declared with this type, and never made of it")


AnyInteger: TypeAlias = SupportsIndex
AnyNumber: TypeAlias = SupportsFloat | SupportsIndex

Value: TypeAlias = _Field[Held, Held]
"""A field that holds what it is given: a ``TensorDesc``, a BOOL, a fused activation."""
Integer: TypeAlias = _Field[int, AnyInteger]
"""UINT or INT."""
Count: TypeAlias = _Field[int, AnyInteger | None]
"""UINT: the length of an array, computed from the array where it is not given."""
Integers: TypeAlias = _Field[tuple[int, ...], Iterable[AnyInteger]]
"""An array of UINT or INT."""
Number: TypeAlias = _Field[float, AnyNumber]
"""FLOAT."""
Numbers: TypeAlias = _Field[tuple[float, ...], Iterable[AnyNumber]]
"""An array of FLOAT."""
Member: TypeAlias = _Field[Enumeration, Enumeration | str | int]
"""A member of an enumeration, or its name or number."""
Scalar: TypeAlias = "_Field[ScalarUnion, ScalarUnion | AnyNumber]"
"""DML_SCALAR_UNION, or the number that it is to hold."""
OptionalScaleBias: TypeAlias = "_Field[ScaleBias | None, ScaleBias | tuple[AnyNumber, AnyNumber] | list[float] | None]"
"""DML_SCALE_BIAS or a pair of numbers, if given."""
Size: TypeAlias = "_Field[Size2D, Size2D | tuple[AnyInteger, AnyInteger] | list[int]]"
"""DML_SIZE_2D or a pair of integers: width, height."""
TensorList: TypeAlias = "_Field[tuple[TensorDesc, ...], Iterable[TensorDesc]]"
"""An array of tensors."""
ActivationList: TypeAlias = "_Field[tuple[Operator, ...], Iterable[Operator]]"
"""An array of activations."""
