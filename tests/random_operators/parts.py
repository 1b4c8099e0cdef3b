"""What random descriptors are drawn from: types, ranks, sizes, layouts, numbers and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from execution import layouts
from hypothesis import strategies as st

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.fields import FloatField
from opendml.description.operator_classes import operator_class
from opendml.description.tensor import TensorDesc
from opendml.description.validation import support_at

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 200, 257)
"""Sizes at and beside multiples of vectors."""

HUGE_LENGTHS = (1, 1, 2, 3, 16, 255, 2**12, 2**16, 10**6 + 3, 2**24 + 1, 2**31 - 1, 2**32 - 1)

ELEMENTS = 2500
"""Elements of a tensor at most: more only takes time."""

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 7e4, float("inf"), float("-inf"), float("nan"))

Drawn = TypeVar("Drawn")

Build = Callable[[st.DrawFn, type[Operator]], Operator]


@dataclass
class HugeDraw:
    """Draws as any other; sizes and strides come out as large as DirectML allows."""

    draw: st.DrawFn

    def __call__(self, strategy: st.SearchStrategy[Drawn], label: object = None) -> Drawn:
        return self.draw(strategy, label)


def support_of(cls: type[Operator], field: str) -> tuple[int, int, tuple[TensorDataType, ...]]:
    found = support_at(cls.support, field, FeatureLevel.LEVEL_6_4)
    assert found is not None
    return found


def draw_type(draw: st.DrawFn, cls: type[Operator], field: str = "input_tensor") -> TensorDataType:
    return draw(st.sampled_from(support_of(cls, field)[2]))


def draw_rank(draw: st.DrawFn, cls: type[Operator], field: str = "input_tensor") -> int:
    lowest, highest, _ = support_of(cls, field)
    return draw(st.integers(lowest, highest))


def draw_length(draw: st.DrawFn, usual: Sequence[int]) -> int:
    """One of the usual sizes, steps or amounts of an operator, or a huge one."""
    return draw(st.sampled_from(HUGE_LENGTHS if isinstance(draw, HugeDraw) else tuple(usual)))


def draw_sizes(draw: st.DrawFn, rank: int, limit: int = ELEMENTS) -> list[int]:
    """Small sizes but for one or two, mostly the last; now and then a single element."""
    if isinstance(draw, HugeDraw):
        return limited([draw(st.sampled_from(HUGE_LENGTHS)) for _ in range(rank)], 2**32 - 1)
    if draw(st.integers(0, 11)) == 0:
        return [1] * rank
    sizes = [draw(st.integers(1, 3)) for _ in range(rank)]
    if draw(st.booleans()):
        sizes[draw(st.integers(0, rank - 1))] = draw(st.sampled_from(LENGTHS))
    if draw(st.integers(0, 3)):
        sizes[-1] = draw(st.sampled_from(LENGTHS))
    return limited(sizes, limit)


def limited(sizes: list[int], limit: int) -> list[int]:
    """Sizes from the last one on, as far as there is room."""
    result: list[int] = []
    for size in reversed(sizes):
        size = max(1, min(size, limit))
        limit //= size
        result.insert(0, size)
    return result


def draw_input(draw: st.DrawFn, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
    if draw(st.integers(0, 7)) == 0:
        # Windows over the same elements: neighbouring dimensions move by as much.
        return TensorDesc(data_type, sizes, draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes))))
    return _scaled(draw, TensorDesc(data_type, sizes, draw(layouts(sizes))))


def draw_output(draw: st.DrawFn, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
    return _scaled(draw, TensorDesc(data_type, sizes, draw(layouts(sizes, broadcast=False))))


def _scaled(draw: st.DrawFn, tensor: TensorDesc) -> TensorDesc:
    """With strides as large as they may be, now and then; those of single elements may be anything."""
    if tensor.strides is not None and 1 in tensor.sizes and draw(st.booleans()):
        odd = draw(st.sampled_from((0, 1, 7, 2**31, 2**32 - 1)))
        strides = [odd if size == 1 else s for size, s in zip(tensor.sizes, tensor.strides, strict=True)]
        tensor = TensorDesc(tensor.data_type, tensor.sizes, strides)
    strides = [s for size, s in zip(tensor.sizes, tensor.strides or (), strict=False) if s and size > 1]
    if not isinstance(draw, HugeDraw) or not strides or draw(st.booleans()):
        return tensor
    factor = max((2**32 - 1) // max(strides), 1)
    return TensorDesc(tensor.data_type, tensor.sizes, [stride * factor for stride in tensor.strides or ()])


def draw_pair(draw: st.DrawFn, cls: type[Operator]) -> dict[str, TensorDesc]:
    """An input and an output alike, often with the same layout."""
    sizes, data_type = draw_sizes(draw, draw_rank(draw, cls)), draw_type(draw, cls)
    output = draw_output(draw, data_type, sizes)
    same = draw(st.integers(0, 2)) == 0
    return {"input_tensor": output if same else draw_input(draw, data_type, sizes), "output_tensor": output}


def draw_number(draw: st.DrawFn) -> float:
    return draw(st.sampled_from(FLOATS))


def draw_floats(draw: st.DrawFn, cls: type[Operator]) -> dict[str, Any]:
    return {name: draw_number(draw) for name, field in cls.fields.items() if isinstance(field, FloatField)}


def maybe(draw: st.DrawFn, make: Callable[[], Any]) -> Any:
    return make() if draw(st.booleans()) else None


def draw_activation(draw: st.DrawFn, allowed: dict[OperatorType, FeatureLevel], rank: int) -> Operator:
    cls: type[Operator] = operator_class(draw(st.sampled_from(sorted(allowed))))
    fields: dict[str, Any] = draw_floats(draw, cls)
    if "axes" in cls.fields:
        fields["axes"] = draw_axes(draw, rank)
    if "scale_bias" in cls.fields:
        fields["scale_bias"] = maybe(draw, lambda: (draw_number(draw), draw_number(draw)))
    activation: Operator = cls(**fields)
    return activation


def draw_axes(draw: st.DrawFn, rank: int, least: int = 1) -> list[int]:
    return draw(st.lists(st.integers(0, rank - 1), min_size=least, max_size=rank, unique=True))


def draw_scalar(draw: st.DrawFn, data_type: TensorDataType) -> int | float:
    dtype = data_type.dtype
    if dtype.kind == "f":
        return draw_number(draw)
    bits, low = dtype.itemsize * 8, 0 if dtype.kind == "u" else -(1 << (dtype.itemsize * 8 - 1))
    return draw(st.sampled_from((0, 1, 3, low, low + 1, low + (1 << bits) - 1, 100)))
