"""Layouts of graph tensors: what is known of them, and the same bytes seen otherwise, which costs nothing."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from opendml.building.places import at_place, caller_place
from opendml.description.enums import TensorDataType
from opendml.description.errors import InvalidDescriptorError
from opendml.description.quoting import quoted
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, TensorDesc

if TYPE_CHECKING:
    from opendml.building.graph_building import Graph


class LaidOut:
    """A tensor of a graph as a layout of bytes that are known when the program runs; ``GraphTensor`` computes, too."""

    __slots__ = ("desc", "graph", "source")

    def __init__(self, graph: Graph, desc: TensorDesc, source: Any) -> None:
        self.graph = graph
        self.desc = desc
        self.source = source

    @property
    def sizes(self) -> tuple[int, ...]:
        """Element counts, outermost dimension first."""
        return self.desc.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next along each dimension."""
        return self.desc.effective_strides

    @property
    def data_type(self) -> TensorDataType:
        """The type of the elements."""
        return self.desc.data_type

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.desc.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """``sizes``, as NumPy calls them."""
        return self.desc.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self.data_type.dtype

    @property
    def ndim(self) -> int:
        """``rank``, as NumPy calls it."""
        return self.desc.rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.desc.element_count

    # ---- the same bytes, seen otherwise

    def reinterpret(
        self,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        data_type: TensorDataType | str | Any = None,
    ) -> Self:
        """The same bytes with other sizes, strides or another type; costs nothing.

        Without ``sizes`` they stay, and so do the strides unless given; with ``sizes`` the default is packed. The new
        tensor must fit into the bytes of the old one. Bytes that the old one's strides leave out have no value.
        """
        if sizes is None:
            sizes, strides = self.sizes, self.desc.strides if strides is None else strides
        data_type = self.data_type if data_type is None else data_type
        with at_place(caller_place()):
            desc = TensorDesc(
                data_type,
                sizes,
                strides,
                flags=self.desc.flags,
                total_size_in_bytes=self.desc.total_size_in_bytes,
                guaranteed_base_offset_alignment=self.desc.guaranteed_base_offset_alignment,
            )
            check_layout(desc)
            room = self.desc.total_size_in_bytes
            if desc.minimum_size_in_bytes > room:
                needed = desc.minimum_size_in_bytes
                raise InvalidDescriptorError(f"{desc!r} needs {needed} bytes, but {self!r} has {room}")
        return type(self)(self.graph, desc, self.source)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Without dimensions of size 1: all of them, or those given; at least one dimension stays. Costs nothing."""
        axes = [i for i, size in enumerate(self.sizes) if size == 1] if axis is None else self.axes_of(axis, self.rank)
        if any(self.sizes[i] != 1 for i in axes):
            refuse(f"{self!r} has other sizes than 1 along {quoted(list(axes))}")
        kept = [i for i in range(self.rank) if i not in axes] or [0]
        return self.reinterpret([self.sizes[i] for i in kept], [self.strides[i] for i in kept])

    def expand_dims(self, axis: int | Sequence[int]) -> Self:
        """With new dimensions of size 1, whose places in the result are given; costs nothing."""
        rank = self.rank + (1 if isinstance(axis, int) else len(axis))
        new = self.axes_of(axis, rank)
        old = iter(zip(self.sizes, self.strides, strict=True))
        sizes, strides = zip(*((1, 1) if i in new else next(old) for i in range(rank)), strict=True)
        return self.reinterpret(sizes, strides)

    def transpose(self, *axes: int | Sequence[int] | None) -> Self:
        """The dimensions in another order, ``sizes[axes[0]]`` first, by default reversed; costs nothing."""
        given = range(self.rank)[::-1] if not axes or axes == (None,) else integers(axes)
        order = [axis + self.rank if -self.rank <= axis < 0 else axis for axis in given]
        if sorted(order) != list(range(self.rank)):
            refuse(f"{quoted(list(given))} is no order of the dimensions of {self!r}")
        return self.reinterpret([self.sizes[i] for i in order], [self.strides[i] for i in order])

    def broadcast_to(self, sizes: Sequence[int]) -> Self:
        """Repeated along dimensions of size 1, and in new ones in front, like NumPy's; costs nothing."""
        sizes = tuple(sizes)
        if sizes == self.sizes:
            return self
        new = len(sizes) - self.rank
        if new < 0 or any(have not in (1, want) for have, want in zip(self.sizes, sizes[new:], strict=True)):
            refuse(f"{self!r} does not broadcast to {quoted(list(sizes))}")
        strides = (
            0 if have == 1 and want != 1 else stride
            for have, want, stride in zip(self.sizes, sizes[new:], self.strides, strict=True)
        )
        return self.reinterpret(sizes, [*[0] * new, *strides])

    def axes_of(self, axes: int | Sequence[int], rank: int) -> list[int]:
        """Axes of a tensor of some rank, none of them negative."""
        given = [axes] if isinstance(axes, int) else list(axes)
        found = [axis + rank if -rank <= axis < 0 else axis for axis in given]
        if len(set(found)) != len(found) or not all(0 <= axis < rank for axis in found):
            refuse(f"{quoted(given)} are no axes of {self!r}")
        return found


def integers(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Integers given one by one or as one sequence."""
    if len(values) == 1 and not isinstance(values[0], (int, np.integer)):
        values = tuple(values[0])
    return tuple(operator.index(value) for value in values)


def refuse(message: str) -> NoReturn:
    """Raises InvalidDescriptorError that names the caller's place."""
    with at_place(caller_place()):
        raise InvalidDescriptorError(message)


def check_layout(desc: TensorDesc) -> None:
    """What no operator allows, of a tensor that no operator has yet."""
    if not 1 <= desc.rank <= MAXIMUM_DIMENSION_COUNT:
        raise InvalidDescriptorError(f"{desc!r} must have from 1 to {MAXIMUM_DIMENSION_COUNT} dimensions")
    if min(desc.sizes) < 1:
        raise InvalidDescriptorError(f"{desc!r} must not have sizes less than 1")
    if desc.strides is not None and (len(desc.strides) != desc.rank or min(desc.strides) < 0):
        raise InvalidDescriptorError(f"{desc!r} must have one stride a dimension, none of them negative")
