"""Random descriptors of activations, element-wise operators and casts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.fields import EnumField, ScalarUnionField, TensorField
from opendml.description.tensor import TensorDesc
from opendml.operators.activation import FUSABLE
from opendml.operators.element_wise import ElementWise
from random_operators.parts import (
    Build,
    draw_activation,
    draw_axes,
    draw_floats,
    draw_input,
    draw_number,
    draw_output,
    draw_pair,
    draw_rank,
    draw_scalar,
    draw_sizes,
    draw_type,
    maybe,
)


def draw_activated(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    return cls(**draw_pair(draw, cls), **draw_floats(draw, cls))


def _softmax(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes = draw_sizes(draw, draw_rank(draw, cls))
    fields: dict[str, Any] = {"axes": draw_axes(draw, len(sizes))} if "axes" in cls.fields else {}
    if not fields:
        sizes[:-2] = [1] * len(sizes[:-2])
    data_type = draw_type(draw, cls)
    return cls(
        input_tensor=draw_input(draw, data_type, sizes), output_tensor=draw_output(draw, data_type, sizes), **fields
    )


def _alike(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """Inputs and an output of one type and sizes."""
    names = [name for name, field in cls.fields.items() if isinstance(field, TensorField)]
    sizes, data_type = draw_sizes(draw, draw_rank(draw, cls)), draw_type(draw, cls)
    tensors = {name: draw_input(draw, data_type, sizes) for name in names[:-1]}
    return cls(**tensors, **{names[-1]: draw_output(draw, data_type, sizes)})


def _identity(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    return cls(**draw_pair(draw, cls), scale_bias=maybe(draw, lambda: (draw_number(draw), draw_number(draw))))


def _add(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes, data_type = draw_sizes(draw, draw_rank(draw, cls, "a_tensor")), draw_type(draw, cls, "a_tensor")
    a, b = (draw_input(draw, data_type, sizes) for _ in range(2))
    output = a if a.strides is None and draw(st.booleans()) else draw_output(draw, data_type, sizes)
    fused = {}
    if "fused_activation" in cls.fields:
        fused = {"fused_activation": maybe(draw, lambda: draw_activation(draw, FUSABLE, len(sizes)))}
    return cls(a_tensor=a, b_tensor=b, output_tensor=output, **fused)


def _clip(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    pair = draw_pair(draw, cls)
    scale_bias = maybe(draw, lambda: (draw_number(draw), draw_number(draw)))
    if "min_max_data_type" not in cls.fields:
        return cls(**pair, scale_bias=scale_bias, min=draw_number(draw), max=draw_number(draw))
    data_type = pair["output_tensor"].data_type
    limits = {"min": draw_scalar(draw, data_type), "max": draw_scalar(draw, data_type)}
    return cls(**pair, scale_bias=scale_bias, min_max_data_type=data_type, **limits)


def draw_element_wise(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """Tensors of the same sizes, alike in type within the groups that the class names, and parameters of all kinds."""
    assert issubclass(cls, ElementWise)
    directions = {name: field.direction for name, field in cls.fields.items() if isinstance(field, TensorField)}
    sizes = draw_sizes(draw, draw_rank(draw, cls, next(iter(directions))))
    grouped = cls.alike or (tuple(directions),)
    single = [(name,) for name in directions if not any(name in group for group in grouped)]
    fields: dict[str, Any] = {}
    for group in (*grouped, *single):
        data_type = draw_type(draw, cls, group[0])
        for name in group:
            make = draw_input if directions[name] == "input" else draw_output
            fields[name] = make(draw, data_type, sizes)
    if not cls.alike and draw(st.booleans()):
        # The same layout as the output's.
        fields[next(iter(directions))] = fields[list(directions)[-1]]
    return cls(**fields, **draw_parameters(draw, cls, fields))


def draw_parameters(draw: st.DrawFn, cls: type[Operator], tensors: dict[str, TensorDesc]) -> dict[str, Any]:
    """Everything but tensors; the numbers of a scalar union have the type of the tensors."""
    parameters: dict[str, Any] = draw_floats(draw, cls)
    (data_type, *_) = (tensor.data_type for tensor in tensors.values())
    for name, field in cls.fields.items():
        if name == "scale_bias":
            parameters[name] = maybe(draw, lambda: (draw_number(draw), draw_number(draw)))
        elif isinstance(field, ScalarUnionField):
            parameters |= {field.data_type: data_type, name: draw_scalar(draw, data_type)}
        elif isinstance(field, EnumField) and field.enumeration is not TensorDataType:
            parameters[name] = draw(st.sampled_from(list(field.enumeration)))
    return parameters


def _quantization(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """As ``draw_element_wise``; zero points may be absent, and scales are what the rules want."""
    drawn = draw_element_wise(draw, cls)
    output = drawn.outputs()[0][1]
    assert output is not None
    sizes, changes = output.sizes, dict[str, TensorDesc | None]()
    for name in cls.fields:
        if "zero_point" in name and draw(st.booleans()):
            changes[name] = None
        elif cls is op.ElementWiseQuantizedLinearAdd and ("scale" in name or "zero_point" in name):
            changes[name] = TensorDesc(getattr(drawn, name).data_type, [1] * len(sizes))
    if isinstance(drawn, op.ElementWiseQuantizeLinear):
        input_type = drawn.input_tensor.data_type
        scale_type = TensorDataType.FLOAT32 if input_type is TensorDataType.INT32 else input_type
        changes["scale_tensor"] = draw_input(draw, scale_type, sizes)
    return drawn.replace(**changes)


def _cast(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes = draw_sizes(draw, draw_rank(draw, cls))
    source = draw_input(draw, draw_type(draw, cls), sizes)
    return cls(input_tensor=source, output_tensor=draw_output(draw, draw_type(draw, cls, "output_tensor"), sizes))


BUILDERS: dict[str, Build] = {
    "ACTIVATION_SOFTMAX ACTIVATION_SOFTMAX1 ACTIVATION_LOG_SOFTMAX ACTIVATION_LOG_SOFTMAX1": _softmax,
    "ACTIVATION_HARDMAX ACTIVATION_HARDMAX1": _softmax,
    "ACTIVATION_PARAMETERIZED_RELU ACTIVATION_RELU_GRAD": _alike,
    "ELEMENT_WISE_IDENTITY": _identity,
    "ELEMENT_WISE_ADD ELEMENT_WISE_ADD1": _add,
    "ELEMENT_WISE_CLIP ELEMENT_WISE_CLIP1": _clip,
    "ELEMENT_WISE_QUANTIZE_LINEAR ELEMENT_WISE_DEQUANTIZE_LINEAR ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _quantization,
    "CAST": _cast,
}
