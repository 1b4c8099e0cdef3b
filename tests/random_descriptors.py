"""Random valid descriptors of every operator: ``descriptors(operator_type)`` is a hypothesis strategy.

Sizes gather around the widths of vectors, ranks and data types are all that the support tables allow, layouts are
packed, permuted, padded, repeated and overlapping, parameters are what the rules accept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from execution import layouts
from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import DepthSpaceOrder, FeatureLevel, OperatorType, ReduceFunction, TensorDataType
from opendml.description.fields import BooleanField, EnumField, FloatField, ScalarUnionField, TensorField
from opendml.description.operator_classes import operator_class
from opendml.description.tensor import TensorDesc
from opendml.description.validation import support_at
from opendml.operators.activation import FUSABLE, FUSABLE_WITH_CLIP, FUSABLE_WITH_HARDMAX, FUSABLE_WITH_SOFTMAX

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 200, 257)
"""Sizes at and beside multiples of vectors."""

HUGE_LENGTHS = (1, 1, 2, 3, 16, 255, 2**12, 2**16, 10**6 + 3, 2**24 + 1, 2**31 - 1, 2**32 - 1)

ELEMENTS = 2500
"""Elements of a tensor at most: more only takes time."""

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 7e4, float("inf"), float("-inf"), float("nan"))

Build = Callable[[st.DrawFn, type[Any]], Operator]


def descriptors(operator_type: OperatorType, *, huge: bool = False) -> st.SearchStrategy[Operator]:
    """Valid descriptors of an operator. ``huge``: of sizes and strides up to the largest; not all of them are valid."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Operator:
        source = _HugeDraw(draw) if huge else draw
        return BUILDERS[operator_type](source, operator_class(operator_type))

    return drawn()


@dataclass
class _HugeDraw:
    """Draws as any other; sizes and strides come out as large as DirectML allows."""

    draw: st.DrawFn

    def __call__(self, strategy: st.SearchStrategy[Any], label: Any = None) -> Any:
        return self.draw(strategy, label)


def is_drawn(operator_type: OperatorType) -> bool:
    """Whether there is a way to draw an operator; the others want a function and a line in ``_BY_NAME``."""
    return operator_type in BUILDERS


# Parts ---------------------------------------------------------------------------------------------------------------


def _support(cls: type[Operator], field: str) -> tuple[int, int, tuple[TensorDataType, ...]]:
    found = support_at(cls.support, field, FeatureLevel.LEVEL_6_4)
    assert found is not None
    return found


def _type(draw: st.DrawFn, cls: type[Operator], field: str = "input_tensor") -> TensorDataType:
    return draw(st.sampled_from(_support(cls, field)[2]))


def _rank(draw: st.DrawFn, cls: type[Operator], field: str = "input_tensor") -> int:
    lowest, highest, _ = _support(cls, field)
    return draw(st.integers(lowest, highest))


def _length(draw: st.DrawFn, usual: Sequence[int]) -> int:
    """One of the usual sizes, steps or amounts of an operator, or a huge one."""
    return draw(st.sampled_from(HUGE_LENGTHS if isinstance(draw, _HugeDraw) else tuple(usual)))


def _sizes(draw: st.DrawFn, rank: int, limit: int = ELEMENTS) -> list[int]:
    """Small sizes but for one or two, mostly the last; now and then a single element."""
    if isinstance(draw, _HugeDraw):
        return _limited([draw(st.sampled_from(HUGE_LENGTHS)) for _ in range(rank)], 2**32 - 1)
    if draw(st.integers(0, 11)) == 0:
        return [1] * rank
    sizes = [draw(st.integers(1, 3)) for _ in range(rank)]
    if draw(st.booleans()):
        sizes[draw(st.integers(0, rank - 1))] = draw(st.sampled_from(LENGTHS))
    if draw(st.integers(0, 3)):
        sizes[-1] = draw(st.sampled_from(LENGTHS))
    return _limited(sizes, limit)


def _limited(sizes: list[int], limit: int) -> list[int]:
    """Sizes from the last one on, as far as there is room."""
    result: list[int] = []
    for size in reversed(sizes):
        size = max(1, min(size, limit))
        limit //= size
        result.insert(0, size)
    return result


def _input(draw: st.DrawFn, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
    if draw(st.integers(0, 7)) == 0:
        # Windows over the same elements: neighbouring dimensions move by as much.
        return TensorDesc(data_type, sizes, draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes))))
    return _scaled(draw, TensorDesc(data_type, sizes, draw(layouts(sizes))))


def _output(draw: st.DrawFn, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
    return _scaled(draw, TensorDesc(data_type, sizes, draw(layouts(sizes, broadcast=False))))


def _scaled(draw: st.DrawFn, tensor: TensorDesc) -> TensorDesc:
    """With strides as large as they may be, now and then; those of single elements may be anything."""
    if tensor.strides is not None and 1 in tensor.sizes and draw(st.booleans()):
        odd = draw(st.sampled_from((0, 1, 7, 2**31, 2**32 - 1)))
        strides = [odd if size == 1 else s for size, s in zip(tensor.sizes, tensor.strides, strict=True)]
        tensor = TensorDesc(tensor.data_type, tensor.sizes, strides)
    strides = [s for size, s in zip(tensor.sizes, tensor.strides or (), strict=False) if s and size > 1]
    if not isinstance(draw, _HugeDraw) or not strides or draw(st.booleans()):
        return tensor
    factor = max((2**32 - 1) // max(strides), 1)
    return TensorDesc(tensor.data_type, tensor.sizes, [stride * factor for stride in tensor.strides or ()])


def _pair(draw: st.DrawFn, cls: type[Operator]) -> dict[str, TensorDesc]:
    """An input and an output alike, often with the same layout."""
    sizes, data_type = _sizes(draw, _rank(draw, cls)), _type(draw, cls)
    output = _output(draw, data_type, sizes)
    same = draw(st.integers(0, 2)) == 0
    return {"input_tensor": output if same else _input(draw, data_type, sizes), "output_tensor": output}


def _number(draw: st.DrawFn) -> float:
    return draw(st.sampled_from(FLOATS))


def _floats(draw: st.DrawFn, cls: type[Operator]) -> dict[str, float]:
    return {name: _number(draw) for name, field in cls.fields.items() if isinstance(field, FloatField)}


def _maybe(draw: st.DrawFn, make: Callable[[], Any]) -> Any:
    return make() if draw(st.booleans()) else None


def _fused(draw: st.DrawFn, allowed: dict[OperatorType, FeatureLevel], rank: int) -> Operator:
    cls: type[Any] = operator_class(draw(st.sampled_from(sorted(allowed))))
    fields: dict[str, Any] = _floats(draw, cls)
    if "axes" in cls.fields:
        fields["axes"] = _axes(draw, rank)
    if "scale_bias" in cls.fields:
        fields["scale_bias"] = _maybe(draw, lambda: (_number(draw), _number(draw)))
    activation: Operator = cls(**fields)
    return activation


def _axes(draw: st.DrawFn, rank: int, least: int = 1) -> list[int]:
    return draw(st.lists(st.integers(0, rank - 1), min_size=least, max_size=rank, unique=True))


def _scalar(draw: st.DrawFn, data_type: TensorDataType) -> int | float:
    dtype = data_type.dtype
    if dtype.kind == "f":
        return _number(draw)
    bits, low = dtype.itemsize * 8, 0 if dtype.kind == "u" else -(1 << (dtype.itemsize * 8 - 1))
    return draw(st.sampled_from((0, 1, 3, low, low + 1, low + (1 << bits) - 1, 100)))


# Operators -----------------------------------------------------------------------------------------------------------


def _activation(draw: st.DrawFn, cls: type[Any]) -> Operator:
    return cls(**_pair(draw, cls), **_floats(draw, cls))


def _softmax(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes = _sizes(draw, _rank(draw, cls))
    fields: dict[str, Any] = {"axes": _axes(draw, len(sizes))} if "axes" in cls.fields else {}
    if not fields:
        sizes[:-2] = [1] * len(sizes[:-2])
    data_type = _type(draw, cls)
    return cls(input_tensor=_input(draw, data_type, sizes), output_tensor=_output(draw, data_type, sizes), **fields)


def _alike(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """Inputs and an output of one type and sizes."""
    names = [name for name, field in cls.fields.items() if isinstance(field, TensorField)]
    sizes, data_type = _sizes(draw, _rank(draw, cls)), _type(draw, cls)
    tensors = {name: _input(draw, data_type, sizes) for name in names[:-1]}
    return cls(**tensors, **{names[-1]: _output(draw, data_type, sizes)})


def _normalization(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """By given or computed statistics, which broadcast."""
    tensors = _pair(draw, cls)
    sizes, data_type = tensors["output_tensor"].sizes, tensors["output_tensor"].data_type
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and name not in tensors and (not field.optional or draw(st.booleans())):
            part = [draw(st.sampled_from((1, size))) for size in sizes]
            tensors[name] = _input(draw, data_type, part)
    fields: dict[str, Any] = {name: draw(st.booleans()) for name, field in cls.fields.items() if field.kind == "BOOL"}
    if "axes" in cls.fields:
        fields["axes"] = _axes(draw, len(sizes), 0)
    activation = _maybe(draw, lambda: _fused(draw, FUSABLE, len(sizes)))
    return cls(**tensors, **fields, epsilon=draw(st.sampled_from((1e-5, 0.0, 0.5))), fused_activation=activation)


def _statistics_gradient(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """Batch normalisation in training and its gradients: images alike, and statistics alike."""
    sizes, data_type = _sizes(draw, _rank(draw, cls)), _type(draw, cls)
    statistics = [draw(st.sampled_from((1, size))) for size in sizes]
    images = ("input_tensor", "input_gradient_tensor", "fused_add_tensor", "output_gradient_tensor", "output_tensor")
    fields: dict[str, Any] = {}
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and (not field.optional or draw(st.booleans())):
            make = _input if field.direction == "input" else _output
            fields[name] = make(draw, data_type, sizes if name in images else statistics)
    if "fused_activation" in cls.fields:
        fields["fused_activation"] = _maybe(draw, lambda: _fused(draw, FUSABLE, len(sizes)))
    return cls(**fields, epsilon=draw(st.sampled_from((1e-5, 0.0, 0.5))))


def _local_response_normalization_grad(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes, data_type = _sizes(draw, 4), _type(draw, cls)
    return cls(
        input_tensor=_input(draw, data_type, sizes),
        input_gradient_tensor=_input(draw, data_type, sizes),
        output_gradient_tensor=_output(draw, data_type, sizes),
        **_local_response(draw, cls),
    )


def _local_response_normalization(draw: st.DrawFn, cls: type[Any]) -> Operator:
    return cls(**_pair(draw, cls), **_local_response(draw, cls))


def _local_response(draw: st.DrawFn, cls: type[Any]) -> dict[str, Any]:
    beta = draw(st.sampled_from((0.75, 0.5, 2.25, 0.3, -1.0)))
    return {
        **_floats(draw, cls),
        "cross_channel": draw(st.booleans()),
        "local_size": draw(st.sampled_from((1, 2, 3, 4, 5, 6, 7, 2**32 - 1))),
        "beta": beta,
    }


def _adam_optimizer(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes, data_type = _sizes(draw, 4), _type(draw, cls, "gradient_tensor")
    output = _output(draw, data_type, sizes)
    fields: dict[str, Any] = {"training_step_tensor": _input(draw, TensorDataType.UINT32, [1] * 4)}
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and name not in fields:
            same = draw(st.booleans())
            fields[name] = (
                output if same else (_input if field.direction == "input" else _output)(draw, data_type, sizes)
            )
    return cls(**fields, **_floats(draw, cls))


def _lp_normalization(draw: st.DrawFn, cls: type[Any]) -> Operator:
    pair = _pair(draw, cls)
    axis = draw(st.integers(0, pair["output_tensor"].rank - 1))
    return cls(**pair, axis=axis, epsilon=_number(draw), p=draw(st.sampled_from((1, 2))))


def _value_scale(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, (batch, _, *image) = _type(draw, cls), _sizes(draw, 4, ELEMENTS // 3)
    sizes = [batch, draw(st.sampled_from((1, 3))), *image]
    tensors = {"input_tensor": _input(draw, data_type, sizes), "output_tensor": _output(draw, data_type, sizes)}
    return cls(**tensors, scale=_number(draw), bias=[_number(draw) for _ in range(sizes[1])])


def _identity(draw: st.DrawFn, cls: type[Any]) -> Operator:
    return cls(**_pair(draw, cls), scale_bias=_maybe(draw, lambda: (_number(draw), _number(draw))))


def _add(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes, data_type = _sizes(draw, _rank(draw, cls, "a_tensor")), _type(draw, cls, "a_tensor")
    a, b = (_input(draw, data_type, sizes) for _ in range(2))
    output = a if a.strides is None and draw(st.booleans()) else _output(draw, data_type, sizes)
    fused = {}
    if "fused_activation" in cls.fields:
        fused = {"fused_activation": _maybe(draw, lambda: _fused(draw, FUSABLE, len(sizes)))}
    return cls(a_tensor=a, b_tensor=b, output_tensor=output, **fused)


def _clip(draw: st.DrawFn, cls: type[Any]) -> Operator:
    pair = _pair(draw, cls)
    scale_bias = _maybe(draw, lambda: (_number(draw), _number(draw)))
    if "min_max_data_type" not in cls.fields:
        return cls(**pair, scale_bias=scale_bias, min=_number(draw), max=_number(draw))
    data_type = pair["output_tensor"].data_type
    limits = {"min": _scalar(draw, data_type), "max": _scalar(draw, data_type)}
    return cls(**pair, scale_bias=scale_bias, min_max_data_type=data_type, **limits)


def _element_wise(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """Tensors of the same sizes, alike in type within the groups that the class names, and parameters of all kinds."""
    directions = {name: field.direction for name, field in cls.fields.items() if isinstance(field, TensorField)}
    sizes = _sizes(draw, _rank(draw, cls, next(iter(directions))))
    grouped = cls.alike or (tuple(directions),)
    single = [(name,) for name in directions if not any(name in group for group in grouped)]
    fields: dict[str, Any] = {}
    for group in (*grouped, *single):
        data_type = _type(draw, cls, group[0])
        for name in group:
            make = _input if directions[name] == "input" else _output
            fields[name] = make(draw, data_type, sizes)
    if not cls.alike and draw(st.booleans()):
        # The same layout as the output's.
        fields[next(iter(directions))] = fields[list(directions)[-1]]
    return cls(**fields, **_parameters(draw, cls, fields))


def _parameters(draw: st.DrawFn, cls: type[Any], tensors: dict[str, TensorDesc]) -> dict[str, Any]:
    """Everything but tensors; the numbers of a scalar union have the type of the tensors."""
    parameters: dict[str, Any] = _floats(draw, cls)
    (data_type, *_) = (tensor.data_type for tensor in tensors.values())
    for name, field in cls.fields.items():
        if name == "scale_bias":
            parameters[name] = _maybe(draw, lambda: (_number(draw), _number(draw)))
        elif isinstance(field, ScalarUnionField):
            parameters |= {field.data_type: data_type, name: _scalar(draw, data_type)}
        elif isinstance(field, EnumField) and field.enumeration is not TensorDataType:
            parameters[name] = draw(st.sampled_from(list(field.enumeration)))
    return parameters


def _quantization(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """As ``_element_wise``; zero points may be absent, and scales are what the rules want."""
    drawn = _element_wise(draw, cls)
    sizes, changes = drawn.outputs()[0][1].sizes, {}
    for name in cls.fields:
        if "zero_point" in name and draw(st.booleans()):
            changes[name] = None
        elif cls is op.ElementWiseQuantizedLinearAdd and ("scale" in name or "zero_point" in name):
            changes[name] = TensorDesc(getattr(drawn, name).data_type, [1] * len(sizes))
    if cls is op.ElementWiseQuantizeLinear:
        input_type = drawn.input_tensor.data_type
        scale_type = TensorDataType.FLOAT32 if input_type is TensorDataType.INT32 else input_type
        changes["scale_tensor"] = _input(draw, scale_type, sizes)
    return drawn.replace(**changes)


def _cast(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes = _sizes(draw, _rank(draw, cls))
    source = _input(draw, _type(draw, cls), sizes)
    return cls(input_tensor=source, output_tensor=_output(draw, _type(draw, cls, "output_tensor"), sizes))


def _pooling(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, spatial = _type(draw, cls), _rank(draw, cls) - 2
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *_sizes(draw, spatial, 300)]
    fields, output = _windows(draw, cls, sizes[2:])
    source = _input(draw, data_type, sizes)
    target = _output(draw, data_type, [*sizes[:2], *output])
    if "p" in cls.fields:
        fields["p"] = draw(st.sampled_from((1, 2, 3, 5)))
    if "include_padding" in cls.fields:
        fields["include_padding"] = draw(st.booleans())
    if "output_indices_tensor" in cls.fields:
        index_type = draw(st.sampled_from(_support(cls, "output_indices_tensor")[2]))
        fields["output_indices_tensor"] = _maybe(draw, lambda: _output(draw, index_type, target.sizes))
    return cls(input_tensor=source, output_tensor=target, **fields)


def _pooling_gradient(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, spatial = _type(draw, cls, "input_gradient_tensor"), _rank(draw, cls, "input_gradient_tensor") - 2
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *_sizes(draw, spatial, 300)]
    fields: dict[str, Any]
    fields, pooled = _windows(draw, cls, sizes[2:])
    if "include_padding" in cls.fields:
        fields["include_padding"] = draw(st.booleans())
    if "input_tensor" in cls.fields:
        fields["input_tensor"] = _input(draw, data_type, sizes)
    return cls(
        input_gradient_tensor=_input(draw, data_type, [*sizes[:2], *pooled]),
        output_gradient_tensor=_output(draw, data_type, sizes),
        **fields,
    )


def _sliding_blocks(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, spatial = _type(draw, cls), _rank(draw, cls) - 2
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *_sizes(draw, spatial, 60)]
    fields: dict[str, Any]
    fields, _ = _windows(draw, cls, sizes[2:])
    fields["window_sizes"] = fields.pop("window_size")
    image = TensorDesc(data_type, sizes)
    counts = cls(input_tensor=image, output_tensor=image, **fields).block_counts(sizes)
    columns = [sizes[0], sizes[1] * math.prod(fields["window_sizes"]), math.prod(counts)]
    (source, target) = (sizes, columns) if cls is op.Unfold else (columns, sizes)
    return cls(input_tensor=_input(draw, data_type, source), output_tensor=_output(draw, data_type, target), **fields)


def _regions(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """Regions of images, and their gradients."""
    data_type, count = _type(draw, cls, "roi_tensor"), draw(st.integers(1, 4))
    channels, height, width = draw(st.integers(1, 9)), draw(st.integers(1, 3)), _length(draw, (1, 2, 3, 7, 8, 17))
    image = [draw(st.integers(1, 2)), channels, *_sizes(draw, 2, 200)]
    pooled = [count, channels, height, width]
    if cls is op.RoiPooling:
        return cls(
            input_tensor=_input(draw, data_type, image),
            roi_tensor=_input(draw, data_type, [1, 1, count, 5]),
            output_tensor=_output(draw, data_type, pooled),
            spatial_scale=draw(st.sampled_from((1, 0.5, 1e30))),
            pooled_size=(width, height),
        )
    ones = [1] * draw(st.integers(0, 2))
    least = draw(st.integers(0, 3))
    fields: dict[str, Any] = {
        "reduction_function": draw(st.sampled_from(("AVERAGE", "MAX"))),
        "minimum_samples_per_output": least,
        "maximum_samples_per_output": draw(st.sampled_from((least, least + 1, 2**32 - 1))),
    }
    fields = _parameters(draw, cls, {"roi_tensor": TensorDesc(data_type, [1])}) | fields
    if "align_regions_to_corners" in cls.fields:
        fields["align_regions_to_corners"] = draw(st.booleans())
    index_type = _type(draw, cls, "batch_indices_tensor")
    regions = {
        "roi_tensor": _input(draw, data_type, [*ones, count, 4]),
        "batch_indices_tensor": _input(draw, index_type, [*ones, count]),
    }
    if cls is not op.RoiAlignGrad:
        tensors = {"input_tensor": _input(draw, data_type, image), "output_tensor": _output(draw, data_type, pooled)}
        return cls(**tensors, **regions, **fields)
    which = draw(st.integers(1, 3))
    is_needed = which > 1 or fields["reduction_function"] == "MAX"
    return cls(
        input_tensor=_input(draw, data_type, image) if is_needed or draw(st.booleans()) else None,
        input_gradient_tensor=_input(draw, data_type, pooled),
        output_gradient_tensor=_output(draw, data_type, image) if which & 1 else None,
        output_roi_gradient_tensor=_output(draw, data_type, [*ones, count, 4]) if which & 2 else None,
        **regions,
        **fields,
    )


def _windows(draw: st.DrawFn, cls: type[Any], sizes: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """Windows over spatial dimensions, and the sizes of their output."""
    names = ("strides", "window_size", "start_padding", "end_padding", "dilations")
    fields: dict[str, list[int]] = {name: [] for name in names}
    output = []
    for size in sizes:
        dilation = _length(draw, (1, 1, 2, 3, 50)) if "dilations" in cls.fields else 1
        start, end = _length(draw, (0, 0, 1, 2, 3, 4)), _length(draw, (0, 0, 1, 2, 3, 4))
        longest = (size + start + end - 1) // dilation + 1
        window = draw(st.integers(1, longest if isinstance(draw, _HugeDraw) else min(longest, 5)))
        stride = _length(draw, (1, 1, 2, 3, 4, 2**31))
        room = size + start + end - 1 - (window - 1) * dilation
        count = room // stride + 1
        if room % stride and count * stride < size + start and draw(st.booleans()):
            count += 1
        output.append(count)
        for name, value in zip(names, (stride, window, start, end, dilation), strict=True):
            fields[name].append(value)
    return {name: values for name, values in fields.items() if name in cls.fields or name == "window_size"}, output


def _max_unpooling(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type = _type(draw, cls)
    sizes, target = _sizes(draw, 4, 300), _sizes(draw, 4, 600)
    places = _input(draw, draw(st.sampled_from(_support(cls, "indices_tensor")[2])), sizes)
    source = _input(draw, data_type, sizes)
    return cls(input_tensor=source, indices_tensor=places, output_tensor=_output(draw, data_type, target))


def _slice(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, whole = _type(draw, cls), _sizes(draw, _rank(draw, cls))
    steps = [draw(st.sampled_from((1, 1, 2, 3, 5))) for _ in whole]
    offsets = [draw(st.integers(0, min(size - 1, 4))) for size in whole]
    sizes = [
        draw(st.integers(1, (size - offset - 1) // step + 1))
        for size, offset, step in zip(whole, offsets, steps, strict=True)
    ]
    source, target = _input(draw, data_type, whole), _output(draw, data_type, sizes)
    return cls(input_tensor=source, output_tensor=target, offsets=offsets, sizes=sizes, strides=steps)


def _slice1(draw: st.DrawFn, cls: type[Any]) -> Operator:
    whole_name = "input_tensor" if "input_tensor" in cls.fields else "output_gradient_tensor"
    data_type, whole = _type(draw, cls, whole_name), _sizes(draw, _rank(draw, cls, whole_name))
    steps = [draw(st.sampled_from((1, 1, -1, 2, -2, 3, -3, 4, 5, -7, 2**31 - 1, -(2**31)))) for _ in whole]
    offsets = [draw(st.integers(0, min(size - 1, 4))) for size in whole]
    windows = [
        size - offset if draw(st.booleans()) else draw(st.integers(1, size - offset))
        for size, offset in zip(whole, offsets, strict=True)
    ]
    most = [1 + (window - 1) // abs(step) for window, step in zip(windows, steps, strict=True)]
    part = [n if draw(st.booleans()) else draw(st.integers(1, n)) for n in most]
    fields = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": steps}
    if cls is op.Slice1:
        source, target = _input(draw, data_type, whole), _output(draw, data_type, part)
        return cls(input_tensor=source, output_tensor=target, **fields)
    source, target = _input(draw, data_type, part), _output(draw, data_type, whole)
    return cls(input_gradient_tensor=source, output_gradient_tensor=target, **fields)


def _pieces(draw: st.DrawFn, cls: type[Any], field: str) -> tuple[TensorDataType, list[list[int]], list[int], int]:
    """Sizes of pieces, and of the whole along the axis."""
    data_type, whole = _type(draw, cls, field), _sizes(draw, _rank(draw, cls, field), 900)
    axis = draw(st.integers(0, len(whole) - 1))
    lengths = [_length(draw, (1, 1, 2, 3, 5, 16, 17, 33)) for _ in range(draw(st.integers(1, 5)))]
    pieces = [[*whole[:axis], length, *whole[axis + 1 :]] for length in lengths]
    return data_type, pieces, [*whole[:axis], sum(lengths), *whole[axis + 1 :]], axis


def _split(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, pieces, whole, axis = _pieces(draw, cls, "input_tensor")
    targets = [_output(draw, data_type, sizes) for sizes in pieces]
    return cls(input_tensor=_input(draw, data_type, whole), output_tensors=targets, axis=axis)


def _join(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, pieces, whole, axis = _pieces(draw, cls, "output_tensor")
    sources = [_input(draw, data_type, sizes) for sizes in pieces]
    return cls(input_tensors=sources, output_tensor=_output(draw, data_type, whole), axis=axis)


def _padding(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls), _sizes(draw, _rank(draw, cls), 600)
    amounts = (0, 0, 1, 2, 3, 7, 17) if len(sizes) < 4 else (0, 0, 0, 1, 2)
    start, end = ([_length(draw, amounts) for _ in sizes] for _ in range(2))
    target = _output(draw, data_type, [sum(parts) for parts in zip(sizes, start, end, strict=True)])
    value: dict[str, Any] = {"padding_value": _number(draw)}
    if "padding_value_data_type" in cls.fields:
        value = {"padding_value_data_type": data_type, "padding_value": _scalar(draw, data_type)}
    mode = draw(st.sampled_from(("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")))
    fields = {"padding_mode": mode, "start_padding": start, "end_padding": end, **value}
    return cls(input_tensor=_input(draw, data_type, sizes), output_tensor=target, **fields)


def _tile(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls), _sizes(draw, _rank(draw, cls), 300)
    repeats = [_length(draw, (1, 2, 3) if len(sizes) < 4 else (1, 2)) for _ in sizes]
    target = _output(draw, data_type, [n * r for n, r in zip(sizes, repeats, strict=True)])
    return cls(input_tensor=_input(draw, data_type, sizes), output_tensor=target, repeats=repeats)


def _blocks(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, block = _type(draw, cls), _length(draw, (1, 2, 3, 4))
    batch, depth, height, width = _sizes(draw, 4, 300)
    deep = [batch, depth * block * block, height, width]
    wide = [batch, depth, height * block, width * block]
    to_depth = issubclass(cls, op.SpaceToDepth)
    source, target = (wide, deep) if to_depth else (deep, wide)
    order = {"order": draw(st.sampled_from(DepthSpaceOrder))} if "order" in cls.fields else {}
    tensors = {"input_tensor": _input(draw, data_type, source), "output_tensor": _output(draw, data_type, target)}
    return cls(**tensors, block_size=block, **order)


def _gather(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, rank = _type(draw, cls), _rank(draw, cls)
    sizes = _sizes(draw, rank, 300)
    index_dimensions = draw(st.integers(0, rank))
    spare = max(index_dimensions - 1, 0)
    sizes[:spare] = [1] * len(sizes[:spare])
    axis = draw(st.integers(min(spare, rank - 1), rank - 1))
    chosen = [1] * (rank - index_dimensions) + (_sizes(draw, index_dimensions, 30) if index_dimensions else [])
    gathered = [*sizes[:axis], *chosen[rank - index_dimensions :], *sizes[axis + 1 :]]
    target = [1] * (rank - len(gathered)) + gathered[max(len(gathered) - rank, 0) :]
    index_type = draw(st.sampled_from(_support(cls, "indices_tensor")[2]))
    tensors = {
        "input_tensor": _input(draw, data_type, sizes),
        "indices_tensor": _input(draw, index_type, chosen),
        "output_tensor": _output(draw, data_type, target),
    }
    return cls(**tensors, axis=axis, index_dimensions=index_dimensions)


def _gather_elements(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """And SCATTER_ELEMENTS, with updates where the other one has an output."""
    data_type, rank = _type(draw, cls), _rank(draw, cls)
    whole = _sizes(draw, rank, 400)
    axis = draw(st.integers(0, rank - 1))
    part = _limited([draw(st.sampled_from(LENGTHS)) if d == axis else n for d, n in enumerate(whole)], 900)
    whole = [n if d == axis else part[d] for d, n in enumerate(whole)]
    tensors = {"indices_tensor": _input(draw, draw(st.sampled_from(_support(cls, "indices_tensor")[2])), part)}
    return cls(**tensors, **_whole_and_part(draw, cls, data_type, whole, part), axis=axis)


def _whole_and_part(
    draw: st.DrawFn, cls: type[Any], data_type: TensorDataType, whole: list[int], part: list[int]
) -> dict[str, TensorDesc]:
    """An input and what is gathered from it, or is scattered to a copy of it."""
    tensors = {"input_tensor": _input(draw, data_type, whole)}
    if "updates_tensor" not in cls.fields:
        return tensors | {"output_tensor": _output(draw, data_type, part)}
    return tensors | {
        "updates_tensor": _input(draw, data_type, part),
        "output_tensor": _output(draw, data_type, whole),
    }


def _index_tuples(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """GATHER_ND and SCATTER_ND."""
    data_type, rank = _type(draw, cls), _rank(draw, cls)
    batches = draw(st.integers(0, min(2, rank - 1))) if "batch_dimension_count" in cls.fields else 0
    count = draw(st.integers(batches + 1, rank))
    tuple_size = draw(st.integers(1, count - batches))
    indices_count = draw(st.integers(batches + 1, rank - max(count - batches - tuple_size - 1, 0)))
    whole = _sizes(draw, count, 400)
    indices = [*whole[:batches], *_sizes(draw, indices_count - batches, 60)[:-1], tuple_size]
    part = _limited([*indices[:-1], *whole[batches + tuple_size :]], 900)
    whole[:batches], whole[batches + tuple_size :] = part[:batches], part[indices_count - 1 :]
    indices[:-1] = part[: indices_count - 1]
    whole, indices, part = ([1] * (rank - len(sizes)) + sizes for sizes in (whole, indices, part))
    fields = {"input_dimension_count": count, "indices_dimension_count": indices_count}
    if "batch_dimension_count" in cls.fields:
        fields["batch_dimension_count"] = batches
    tensors = {"indices_tensor": _input(draw, draw(st.sampled_from(_support(cls, "indices_tensor")[2])), indices)}
    return cls(**tensors, **_whole_and_part(draw, cls, data_type, whole, part), **fields)


def _one_hot(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, target = _type(draw, cls, "output_tensor"), _sizes(draw, _rank(draw, cls, "output_tensor"))
    axis = draw(st.integers(0, len(target) - 1))
    lines = [1 if d == axis else n for d, n in enumerate(target)]
    values = [draw(st.integers(1, 3)) for _ in target]
    values[draw(st.integers(0, len(target) - 1))] = 2
    return cls(
        indices_tensor=_input(draw, draw(st.sampled_from(_support(cls, "indices_tensor")[2])), lines),
        values_tensor=_input(draw, data_type, values),
        output_tensor=_output(draw, data_type, target),
        axis=axis,
    )


def _reverse(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls), _sizes(draw, _rank(draw, cls))
    axis = draw(st.integers(0, len(sizes) - 1))
    lines = [1 if d == axis else n for d, n in enumerate(sizes)]
    return cls(
        input_tensor=_input(draw, data_type, sizes),
        sequence_lengths_tensor=_input(draw, draw(st.sampled_from(_support(cls, "sequence_lengths_tensor")[2])), lines),
        output_tensor=_output(draw, data_type, sizes),
        axis=axis,
    )


def _diagonal(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls, "output_tensor"), _sizes(draw, _rank(draw, cls, "output_tensor"))
    diagonals = st.sampled_from((*range(-4, 20), -(2**31), 2**31 - 1))
    target = _output(draw, data_type, sizes)
    if cls is op.DiagonalMatrix:
        return cls(output_tensor=target, offset=draw(diagonals), value=_number(draw))
    return cls(
        input_tensor=_maybe(draw, lambda: _input(draw, data_type, sizes)),
        output_tensor=target,
        value_data_type=data_type,
        value=_scalar(draw, data_type),
        diagonal_fill_begin=draw(diagonals),
        diagonal_fill_end=draw(diagonals),
    )


def _fill(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls, "output_tensor"), _sizes(draw, _rank(draw, cls, "output_tensor"))
    names = [name for name in ("value", "value_start", "value_delta") if name in cls.fields]
    values = {name: _scalar(draw, data_type) for name in names}
    return cls(output_tensor=_output(draw, data_type, sizes), value_data_type=data_type, **values)


def _random_generator(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type = TensorDataType.UINT32
    sizes = [1] * (_rank(draw, cls, "input_state_tensor") - 1) + [6]
    return cls(
        input_state_tensor=_input(draw, data_type, sizes),
        output_tensor=_output(draw, data_type, _sizes(draw, _rank(draw, cls, "output_tensor"))),
        output_state_tensor=_output(draw, data_type, sizes) if draw(st.booleans()) else None,
    )


def _top_k(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls), _sizes(draw, _rank(draw, cls))
    axis = draw(st.integers(0, len(sizes) - 1))
    k = min(_length(draw, LENGTHS), sizes[axis])
    wanted = [*sizes[:axis], k, *sizes[axis + 1 :]]
    direction = {"axis_direction": draw(st.sampled_from(("INCREASING", "DECREASING")))}
    return cls(
        input_tensor=_input(draw, data_type, sizes),
        output_value_tensor=_output(draw, data_type, wanted),
        output_index_tensor=_output(draw, _type(draw, cls, "output_index_tensor"), wanted),
        axis=axis,
        k=k,
        **(direction if "axis_direction" in cls.fields else {}),
    )


def _nonzero(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes = _sizes(draw, _rank(draw, cls))
    rank = _rank(draw, cls, "output_coordinates_tensor")
    effective = len(sizes) - next((i for i, size in enumerate(sizes) if size > 1), len(sizes) - 1)
    kept = draw(st.integers(effective, len(sizes)))
    coordinates = [1] * (rank - 2) + [math.prod(sizes), kept]
    return cls(
        input_tensor=_input(draw, _type(draw, cls), sizes),
        output_count_tensor=_output(draw, TensorDataType.UINT32, [1] * _rank(draw, cls, "output_count_tensor")),
        output_coordinates_tensor=_output(draw, TensorDataType.UINT32, coordinates),
    )


def _cumulative(draw: st.DrawFn, cls: type[Any]) -> Operator:
    pair = _pair(draw, cls)
    exclusive = next(name for name in cls.fields if name.startswith("has_exclusive"))
    axis = draw(st.integers(0, pair["output_tensor"].rank - 1))
    direction = draw(st.sampled_from(("INCREASING", "DECREASING")))
    return cls(**pair, axis=axis, axis_direction=direction, **{exclusive: draw(st.booleans())})


def _upsample(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, sizes = _type(draw, cls), _sizes(draw, _rank(draw, cls), 200)
    width, height = (_length(draw, (1, 2, 3, 4, 5)) for _ in range(2))
    target = [*sizes[:-2], sizes[-2] * height, sizes[-1] * width]
    mode = draw(st.sampled_from(("NEAREST_NEIGHBOR", "LINEAR")))
    source = _input(draw, data_type, sizes)
    output = _output(draw, data_type, target)
    return cls(input_tensor=source, output_tensor=output, scale_size=(width, height), interpolation_mode=mode)


def _resample(draw: st.DrawFn, cls: type[Any]) -> Operator:
    names = [name for name, field in cls.fields.items() if isinstance(field, TensorField)]
    data_type, rank = _type(draw, cls, names[0]), _rank(draw, cls, names[0])
    sizes, outputs = _sizes(draw, rank, 300), _sizes(draw, rank, 300)
    whole, made = (sizes, outputs) if names[0] == "input_tensor" else (outputs, sizes)
    usual = draw(st.booleans())
    odd = (1.0, 2.0, 0.5, 0.3, 1.7, -1.5, 1e-3, 3.4e38, 0.0, float("nan"), float("inf"), 1e-40)
    fields: dict[str, Any] = {
        "scales": [b / a if usual else draw(st.sampled_from(odd)) for a, b in zip(whole, made, strict=True)]
    }
    for name in ("input_pixel_offsets", "output_pixel_offsets"):
        if name in cls.fields:
            centre = 0.5 if name.startswith("input") else -0.5
            others = (centre, 0.0, 1.25, -3.0, 100.0, 1e30, float("inf"), float("nan"))
            fields[name] = [centre if usual else draw(st.sampled_from(others)) for _ in sizes]
    if "antialiased" in cls.fields:
        fields["antialiased"] = draw(st.booleans())
    if "rounding_direction" in cls.fields:
        fields["rounding_direction"] = draw(st.sampled_from(("INCREASING", "DECREASING")))
    mode = draw(st.sampled_from(("NEAREST_NEIGHBOR", "LINEAR")))
    tensors = {names[0]: _input(draw, data_type, sizes), names[1]: _output(draw, data_type, outputs)}
    return cls(**tensors, interpolation_mode=mode, **fields)


def _extreme_position(draw: st.DrawFn, cls: type[Any]) -> Operator:
    fields = {name: value for name, value in _reduction(draw, cls.type.name).items() if name != "function"}
    return cls(**fields, axis_direction=draw(st.sampled_from(("INCREASING", "DECREASING"))))


def _reduce(draw: st.DrawFn, cls: type[Any]) -> Operator:
    return cls(**_reduction(draw, draw(st.sampled_from(ReduceFunction)).name))


def _reduction(draw: st.DrawFn, function_name: str) -> dict[str, Any]:
    function = ReduceFunction[function_name]
    tables = op.Reduce.support_variants
    table = next(table for names, table in tables.items() if function.name in names.split())
    lowest, highest, data_types = support_at(table, "input_tensor", FeatureLevel.LEVEL_6_4) or (1, 1, ())
    rank = draw(st.integers(lowest, highest))
    large = draw(st.integers(0, 15)) == 0
    sizes = _sizes(draw, rank)
    if large:
        sizes = draw(st.permutations(_limited([*sizes[:-1], draw(st.integers(30000, 40000))], 40000)))
    axes = _axes(draw, rank, 0)
    data_type = draw(st.sampled_from(data_types))
    output_type = data_type
    if function.name in ("ARGMIN", "ARGMAX"):
        found = support_at(table, "output_tensor", FeatureLevel.LEVEL_6_4)
        assert found is not None
        output_type = draw(st.sampled_from(found.data_types))
    target = _output(draw, output_type, [1 if d in axes else n for d, n in enumerate(sizes)])
    source = _input(draw, data_type, sizes)
    return {"function": function, "input_tensor": source, "output_tensor": target, "axes": axes}


def _gemm(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, rank = _type(draw, cls, "a_tensor"), _rank(draw, cls, "a_tensor")
    batch = [_length(draw, (1, 2)) for _ in range(rank - 2)]
    rows, inner, columns = (_length(draw, (1, 2, 3, 4, 7, 13, 16, 17, 25, 33)) for _ in range(3))
    columns = _length(draw, LENGTHS) if draw(st.booleans()) else columns
    transposed = [draw(st.booleans()) for _ in range(2)]
    a = [*batch, inner, rows] if transposed[0] else [*batch, rows, inner]
    b = [*batch, columns, inner] if transposed[1] else [*batch, inner, columns]
    output = [*batch, rows, columns]
    a_tensor, b_tensor = _input(draw, data_type, a), _input(draw, data_type, b)
    return cls(
        a_tensor=a_tensor,
        b_tensor=b_tensor,
        c_tensor=_maybe(draw, lambda: _input(draw, data_type, output)),
        output_tensor=_output(draw, data_type, output),
        trans_a=int(transposed[0]),
        trans_b=int(transposed[1]),
        alpha=_number(draw) if draw(st.booleans()) else 1.0,
        beta=_number(draw),
        fused_activation=_maybe(draw, lambda: _fused(draw, _fusable_with_softmax(output), rank)),
    )


def _fusable_with_softmax(output: Sequence[int]) -> dict[OperatorType, FeatureLevel]:
    """ACTIVATION_SOFTMAX is for matrices."""
    if set(output[:-2]) <= {1}:
        return FUSABLE_WITH_SOFTMAX
    return FUSABLE_WITH_CLIP | {OperatorType.ACTIVATION_SOFTMAX1: FeatureLevel.LEVEL_6_1}


def _convolution(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type, spatial = _type(draw, cls), _rank(draw, cls) - 2
    groups, forward = draw(st.integers(1, 3)), draw(st.booleans())
    per_group_in, per_group_out = (_length(draw, (1, 2, 3, 5, 13)) for _ in range(2))
    batch = _length(draw, (1, 2))
    names = ("strides", "dilations", "start_padding", "end_padding", "output_padding")
    fields: dict[str, list[int]] = {name: [] for name in names}
    sizes, kernel, output = [], [], []
    for _ in range(spatial):
        size = _length(draw, (1, 2, 3, 5, 8, 17, 33) if spatial < 3 else (1, 2, 3, 5))
        stride, dilation = _length(draw, (1, 1, 2, 3, 9)), _length(draw, (1, 1, 2, 7))
        start, end = (_length(draw, (0, 1, 2, 3, 9)) for _ in range(2))
        if forward:
            longest = (size + start + end - 1) // dilation + 1
            taps = draw(st.integers(1, longest if isinstance(draw, _HugeDraw) else min(longest, 4)))
            extra = 0
            count = (size + start + end - 1 - (taps - 1) * dilation) // stride + 1
        else:
            taps = _length(draw, (1, 2, 3, 4))
            full = stride * (size - 1) + 1 + (taps - 1) * dilation
            start, end = min(start, full - 1), 0
            end = min(draw(st.integers(0, 3)), full - 1 - start)
            extra = draw(st.integers(0, max(stride, dilation) - 1))
            count = full - start - end + extra
        for name, value in zip(names, (stride, dilation, start, end, extra), strict=True):
            fields[name].append(value)
        sizes.append(size)
        kernel.append(taps)
        output.append(count)
    channels, filters = per_group_in * groups, per_group_out * groups
    filter_sizes = [filters, per_group_in, *kernel] if forward else [channels, per_group_out, *kernel]
    return cls(
        input_tensor=_input(draw, data_type, [batch, channels, *sizes]),
        filter_tensor=_input(draw, data_type, filter_sizes),
        bias_tensor=_maybe(draw, lambda: _input(draw, data_type, [1, filters, *[1] * spatial])),
        output_tensor=_output(draw, data_type, [batch, filters, *output]),
        mode=draw(st.sampled_from(("CONVOLUTION", "CROSS_CORRELATION"))),
        direction="FORWARD" if forward else "BACKWARD",
        group_count=groups,
        fused_activation=_maybe(draw, lambda: _fused(draw, FUSABLE_WITH_CLIP, spatial + 2)),
        **fields,
    )


def _parameter(draw: st.DrawFn, data_type: TensorDataType, count: int, rank: int, dimension: int) -> TensorDesc:
    """A scale or zero point, one or ``count`` of them along a dimension."""
    sizes = [1] * rank
    if draw(st.booleans()) and -rank <= dimension < rank:
        sizes[dimension] = count
    return _input(draw, data_type, sizes)


def _matrix_multiply_integer(draw: st.DrawFn, cls: type[Any]) -> Operator:
    rank = _rank(draw, cls, "a_tensor")
    batch = [_length(draw, (1, 2)) for _ in range(rank - 2)]
    rows, inner, columns = (_length(draw, (1, 2, 3, 4, 7, 13, 16, 17, 25, 33)) for _ in range(3))
    columns = _length(draw, LENGTHS) if draw(st.booleans()) else columns
    types = {name: _type(draw, cls, f"{name}_tensor") for name in ("a", "b", "output")}
    is_float = types["output"].is_float
    if is_float:
        types["b"] = types["a"]
    scale_type = types["output"] if is_float else TensorDataType.FLOAT32
    of = {"a": (rows, -2), "b": (columns, -1), "output": (rows, -2)}
    fields: dict[str, Any] = {
        "a_tensor": _input(draw, types["a"], [*batch, rows, inner]),
        "b_tensor": _input(draw, types["b"], [*batch, inner, columns]),
        "output_tensor": _output(draw, types["output"], [*batch, rows, columns]),
    }
    for name, (count, dimension) in of.items():
        if f"{name}_scale_tensor" in cls.fields:
            fields[f"{name}_scale_tensor"] = _parameter(draw, scale_type, count, rank, dimension)
        if f"{name}_zero_point_tensor" in cls.fields and draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = _parameter(draw, types[name], count, rank, dimension)
    if "bias_tensor" in cls.fields:
        fields["bias_tensor"] = _maybe(draw, lambda: _input(draw, scale_type, [*batch, rows, columns]))
    return cls(**fields)


def _convolution_integer(draw: st.DrawFn, cls: type[Any]) -> Operator:
    types = {name: _type(draw, cls, f"{name}_tensor") for name in ("input", "filter", "output")}
    rank = _rank(draw, cls)
    groups, per_group_in, per_group_out = (_length(draw, usual) for usual in ((1, 2, 3), (1, 2, 5, 13), (1, 2, 5, 13)))
    batch, filters = _length(draw, (1, 2)), groups * per_group_out
    names = ("strides", "dilations", "start_padding", "end_padding")
    fields: dict[str, Any] = {name: [] for name in names}
    sizes, kernel, output = [], [], []
    for _ in range(rank - 2):
        size = _length(draw, (1, 2, 3, 5, 8, 17, 33))
        stride, dilation = _length(draw, (1, 1, 2, 3, 9)), _length(draw, (1, 1, 2, 7))
        start, end = (_length(draw, (0, 1, 2, 3, 9)) for _ in range(2))
        longest = (size + start + end - 1) // dilation + 1
        taps = draw(st.integers(1, longest if isinstance(draw, _HugeDraw) else min(longest, 4)))
        output.append((size + start + end - 1 - (taps - 1) * dilation) // stride + 1)
        for name, value in zip(names, (stride, dilation, start, end), strict=True):
            fields[name].append(value)
        sizes.append(size)
        kernel.append(taps)
    for name, count in (("input", 1), ("filter", filters), ("output", 1)):
        if f"{name}_scale_tensor" in cls.fields:
            fields[f"{name}_scale_tensor"] = _parameter(draw, TensorDataType.FLOAT32, count, rank, 1)
        if f"{name}_zero_point_tensor" in cls.fields and draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = _parameter(draw, types[name], count, rank, 1)
    if "bias_tensor" in cls.fields:
        bias = [1, filters, *[1] * (rank - 2)]
        fields["bias_tensor"] = _maybe(draw, lambda: _input(draw, TensorDataType.INT32, bias))
    return cls(
        input_tensor=_input(draw, types["input"], [batch, groups * per_group_in, *sizes]),
        filter_tensor=_input(draw, types["filter"], [filters, per_group_in, *kernel]),
        output_tensor=_output(draw, types["output"], [batch, filters, *output]),
        group_count=groups,
        **fields,
    )


def _quantized_pooling(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *_sizes(draw, _rank(draw, cls) - 2, 300)]
    fields: dict[str, Any]
    fields, pooled = _windows(draw, cls, sizes[2:])
    for name in ("input", "output"):
        data_type = _type(draw, cls, f"{name}_tensor")
        make, own = (_input, sizes) if name == "input" else (_output, [*sizes[:2], *pooled])
        fields[f"{name}_tensor"] = make(draw, data_type, own)
        fields[f"{name}_scale_tensor"] = _parameter(draw, TensorDataType.FLOAT32, sizes[1], len(sizes), 1)
        if draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = _parameter(draw, data_type, sizes[1], len(sizes), 1)
    return cls(**fields, include_padding=draw(st.booleans()))


def _quantize(draw: st.DrawFn, cls: type[Any]) -> Operator:
    quantized, real = ("output", "input") if cls is op.Quantize else ("input", "output")
    counts = _sizes(draw, _rank(draw, cls), 60)
    sizes = [count * _length(draw, (1, 1, 2, 5, 16)) for count in counts]
    if math.prod(sizes) > 2**32 - 1:
        sizes = counts
    types = {name: _type(draw, cls, f"{name}_tensor") for name in (quantized, real)}
    tensors = [_input(draw, types[real], counts)]
    if draw(st.booleans()):
        tensors.append(_input(draw, types[quantized], counts))
    return cls(
        input_tensor=_input(draw, types["input"], sizes),
        quantization_type=len(tensors),
        quantization_tensors=tensors,
        output_tensor=_output(draw, types["output"], sizes),
    )


def _dynamic_quantize(draw: st.DrawFn, cls: type[Any]) -> Operator:
    sizes, data_type = _sizes(draw, _rank(draw, cls)), _type(draw, cls, "output_tensor")
    return cls(
        input_tensor=_input(draw, _type(draw, cls), sizes),
        output_tensor=_output(draw, data_type, sizes),
        output_scale_tensor=_output(draw, TensorDataType.FLOAT32, [1] * len(sizes)),
        output_zero_point_tensor=_output(draw, data_type, [1] * len(sizes)),
    )


def _recurrent(draw: st.DrawFn, cls: type[Any]) -> Operator:
    data_type = _type(draw, cls)
    length, batch, inputs = (_length(draw, usual) for usual in (range(1, 6), range(1, 6), range(1, 10)))
    hidden = _length(draw, (1, 2, 3, 5, 16, 17, 33, 70))
    direction = draw(st.sampled_from(("FORWARD", "BACKWARD", "BIDIRECTIONAL")))
    both = 2 if direction == "BIDIRECTIONAL" else 1
    state, rows = [1, both, batch, hidden], cls.gates * hidden
    optional = {
        "bias_tensor": [1, 1, both, 2 * rows],
        "hidden_init_tensor": state,
        "cell_mem_init_tensor": state,
        "sequence_lengths_tensor": [1, 1, 1, batch],
        "peephole_tensor": [1, 1, both, 3 * hidden],
        "output_sequence_tensor": [length, both, batch, hidden],
        "output_single_tensor": state,
        "output_cell_single_tensor": state,
    }
    made = [name for name in cls.fields if name.startswith("output")]
    left_out = draw(st.sets(st.sampled_from(made), max_size=len(made) - 1))
    fields: dict[str, Any] = {}
    for name, sizes in optional.items():
        if name in made and name not in left_out:
            fields[name] = _output(draw, data_type, sizes)
        elif name in cls.fields and name not in made:
            kind = TensorDataType.UINT32 if name == "sequence_lengths_tensor" else data_type
            fields[name] = _maybe(draw, functools.partial(_input, draw, kind, sizes))
    for name, field in cls.fields.items():
        if isinstance(field, BooleanField):
            fields[name] = draw(st.booleans())
    return cls(
        input_tensor=_input(draw, data_type, [1, length, batch, inputs]),
        weight_tensor=_input(draw, data_type, [1, both, rows, inputs]),
        recurrence_tensor=_input(draw, data_type, [1, both, rows, hidden]),
        activation_descs=[_fused(draw, FUSABLE_WITH_HARDMAX, 4) for _ in range(both * cls.activations_each)],
        direction=direction,
        **fields,
        **_floats(draw, cls),
    )


def _attention(draw: st.DrawFn, cls: type[Any]) -> Operator:
    """Any stacking, mask and past."""
    data_type = _type(draw, cls, "output_tensor")
    batch, queries, new, past = (_length(draw, usual) for usual in (range(1, 4), range(1, 6), range(1, 8), range(4)))
    heads, size, value_size = (_length(draw, usual) for usual in (range(1, 4), (1, 3, 4, 16, 17), (1, 2, 5, 16)))
    shared, has_past = 1, past > 0
    form = draw(st.sampled_from(("apart", "query_key", "key_value", "query_key_value", "cached")))
    if form in ("apart", "key_value") and "query_head_count" in cls.fields:
        shared = draw(st.sampled_from((1, 2)))
    value_size = size if form in ("key_value", "query_key_value") else value_size
    new = queries if form.startswith("query") else 0 if form == "cached" else new
    past = max(past, 1) if form == "cached" else past
    has_past = past > 0
    total, all_heads = past + new, heads * shared
    sizes: dict[str, list[int]] = {
        "query_tensor": [batch, queries, all_heads * size],
        "key_tensor": [batch, new, heads * size],
        "value_tensor": [batch, new, heads * value_size],
        "stacked_query_key_tensor": [batch, queries, heads, 2, size],
        "stacked_key_value_tensor": [batch, new, heads, 2, size],
        "stacked_query_key_value_tensor": [batch, queries, heads, 3, size],
        "bias_tensor": [all_heads * size + heads * (size + value_size)],
        "relative_position_bias_tensor": [batch, all_heads, queries, total],
        "past_key_tensor": [batch, heads, past, size],
        "past_value_tensor": [batch, heads, past, value_size],
    }
    held = {
        "apart": ["query_tensor", "key_tensor", "value_tensor"],
        "query_key": ["stacked_query_key_tensor", "value_tensor"],
        "key_value": ["query_tensor", "stacked_key_value_tensor"],
        "query_key_value": ["stacked_query_key_value_tensor"],
        "cached": ["query_tensor"],
    }[form]
    held += ["past_key_tensor", "past_value_tensor"] * has_past
    held += [name for name in ("bias_tensor", "relative_position_bias_tensor") if draw(st.booleans())]
    fields: dict[str, Any] = {name: _input(draw, data_type, sizes[name]) for name in held}
    if "past_sequence_lengths_tensor" in cls.fields and has_past and new and draw(st.booleans()):
        fields["past_sequence_lengths_tensor"] = _input(draw, TensorDataType.INT32, [batch])
        total = draw(st.integers(past, total)) if "relative_position_bias_tensor" not in held else total
    masks = {
        "NONE": None,
        "KEY_SEQUENCE_LENGTH": [1, batch],
        "KEY_SEQUENCE_END_START": [2, batch],
        "KEY_QUERY_SEQUENCE_LENGTH_START_END": [3 * batch + 2],
        "BOOLEAN": [batch, all_heads, queries, total],
    }
    present = draw(st.sampled_from((0, 3))) if total != past + new else draw(st.integers(0, 3))
    total = past + new if not present else total
    masks["BOOLEAN"] = [batch, all_heads, queries, total]
    kind = draw(st.sampled_from(tuple(masks)))
    mask = masks[kind]
    counts = {"head_count": heads, "query_head_count": all_heads, "key_value_head_count": heads}
    return cls(
        **fields,
        mask_tensor=None if mask is None else _input(draw, TensorDataType.INT32, mask),
        mask_type=kind,
        output_tensor=_output(draw, data_type, [batch, queries, all_heads * value_size]),
        output_present_key_tensor=_output(draw, data_type, [batch, heads, total, size]) if present & 1 else None,
        output_present_value_tensor=_output(draw, data_type, [batch, heads, total, value_size])
        if present & 2
        else None,
        scale=draw(st.sampled_from((1.0, 0.25, 0.0, -3.0))),
        mask_filter_value=draw(st.sampled_from((-10000.0, 0.0, float("-inf"), 1.0))),
        **{name: count for name, count in counts.items() if name in cls.fields},
    )


_BY_NAME: dict[str, Build] = {
    "MULTIHEAD_ATTENTION MULTIHEAD_ATTENTION1": _attention,
    "ACTIVATION_SOFTMAX ACTIVATION_SOFTMAX1 ACTIVATION_LOG_SOFTMAX ACTIVATION_LOG_SOFTMAX1": _softmax,
    "ACTIVATION_HARDMAX ACTIVATION_HARDMAX1": _softmax,
    "ACTIVATION_PARAMETERIZED_RELU ACTIVATION_RELU_GRAD": _alike,
    "BATCH_NORMALIZATION": _normalization,
    "MEAN_VARIANCE_NORMALIZATION MEAN_VARIANCE_NORMALIZATION1 MEAN_VARIANCE_NORMALIZATION2": _normalization,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response_normalization,
    "LP_NORMALIZATION": _lp_normalization,
    "VALUE_SCALE_2D": _value_scale,
    "ELEMENT_WISE_IDENTITY": _identity,
    "ELEMENT_WISE_ADD ELEMENT_WISE_ADD1": _add,
    "ELEMENT_WISE_CLIP ELEMENT_WISE_CLIP1": _clip,
    "ELEMENT_WISE_QUANTIZE_LINEAR ELEMENT_WISE_DEQUANTIZE_LINEAR ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _quantization,
    "CAST": _cast,
    "MAX_POOLING MAX_POOLING1 MAX_POOLING2 AVERAGE_POOLING AVERAGE_POOLING1 LP_POOLING LP_POOLING1": _pooling,
    "MAX_UNPOOLING": _max_unpooling,
    "AVERAGE_POOLING_GRAD MAX_POOLING_GRAD": _pooling_gradient,
    "UNFOLD FOLD": _sliding_blocks,
    "ROI_ALIGN ROI_ALIGN1 ROI_ALIGN_GRAD ROI_POOLING": _regions,
    "BATCH_NORMALIZATION_GRAD BATCH_NORMALIZATION_TRAINING_GRAD BATCH_NORMALIZATION_TRAINING": _statistics_gradient,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _local_response_normalization_grad,
    "ADAM_OPTIMIZER": _adam_optimizer,
    "SLICE": _slice,
    "SLICE1 SLICE_GRAD": _slice1,
    "SPLIT": _split,
    "JOIN": _join,
    "PADDING PADDING1": _padding,
    "TILE": _tile,
    "SPACE_TO_DEPTH SPACE_TO_DEPTH1 DEPTH_TO_SPACE DEPTH_TO_SPACE1": _blocks,
    "GATHER": _gather,
    "GATHER_ELEMENTS SCATTER_ELEMENTS": _gather_elements,
    "GATHER_ND GATHER_ND1 SCATTER_ND": _index_tuples,
    "ONE_HOT": _one_hot,
    "REVERSE_SUBSEQUENCES": _reverse,
    "DIAGONAL_MATRIX DIAGONAL_MATRIX1": _diagonal,
    "ARGMIN ARGMAX": _extreme_position,
    "FILL_VALUE_CONSTANT FILL_VALUE_SEQUENCE": _fill,
    "CUMULATIVE_SUMMATION CUMULATIVE_PRODUCT": _cumulative,
    "NONZERO_COORDINATES": _nonzero,
    "TOP_K TOP_K1": _top_k,
    "RANDOM_GENERATOR": _random_generator,
    "UPSAMPLE_2D": _upsample,
    "RESAMPLE RESAMPLE1 RESAMPLE2 RESAMPLE3 RESAMPLE_GRAD RESAMPLE_GRAD1": _resample,
    "REDUCE": _reduce,
    "GEMM": _gemm,
    "CONVOLUTION": _convolution,
    "RNN GRU LSTM": _recurrent,
    "MATRIX_MULTIPLY_INTEGER MATRIX_MULTIPLY_INTEGER_TO_FLOAT QUANTIZED_LINEAR_MATRIX_MULTIPLY": (
        _matrix_multiply_integer
    ),
    "CONVOLUTION_INTEGER QUANTIZED_LINEAR_CONVOLUTION": _convolution_integer,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantized_pooling,
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic_quantize,
    "QUANTIZE DEQUANTIZE": _quantize,
}

BUILDERS: dict[OperatorType, Build] = {
    **{operator_type: _element_wise for operator_type in op.implemented() if "ELEMENT_WISE_" in operator_type.name},
    **{operator_type: _activation for operator_type in op.implemented() if "ACTIVATION_" in operator_type.name},
    **{OperatorType[name]: build for names, build in _BY_NAME.items() for name in names.split()},
}
