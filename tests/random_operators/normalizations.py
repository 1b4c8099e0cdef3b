"""Random descriptors of normalizations and the optimizer."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.fields import TensorField
from opendml.operators.activation import FUSABLE
from random_operators.parts import (
    ELEMENTS,
    Build,
    draw_activation,
    draw_axes,
    draw_floats,
    draw_input,
    draw_number,
    draw_output,
    draw_pair,
    draw_rank,
    draw_sizes,
    draw_type,
    maybe,
)


def _normalization(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """By given or computed statistics, which broadcast."""
    tensors = draw_pair(draw, cls)
    sizes, data_type = tensors["output_tensor"].sizes, tensors["output_tensor"].data_type
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and name not in tensors and (not field.optional or draw(st.booleans())):
            part = [draw(st.sampled_from((1, size))) for size in sizes]
            tensors[name] = draw_input(draw, data_type, part)
    fields: dict[str, Any] = {name: draw(st.booleans()) for name, field in cls.fields.items() if field.kind == "BOOL"}
    if "axes" in cls.fields:
        fields["axes"] = draw_axes(draw, len(sizes), 0)
    activation = maybe(draw, lambda: draw_activation(draw, FUSABLE, len(sizes)))
    return cls(**tensors, **fields, epsilon=draw(st.sampled_from((1e-5, 0.0, 0.5))), fused_activation=activation)


def _statistics_gradient(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """Batch normalisation in training and its gradients: images alike, and statistics alike."""
    sizes, data_type = draw_sizes(draw, draw_rank(draw, cls)), draw_type(draw, cls)
    statistics = [draw(st.sampled_from((1, size))) for size in sizes]
    images = ("input_tensor", "input_gradient_tensor", "fused_add_tensor", "output_gradient_tensor", "output_tensor")
    fields: dict[str, Any] = {}
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and (not field.optional or draw(st.booleans())):
            make = draw_input if field.direction == "input" else draw_output
            fields[name] = make(draw, data_type, sizes if name in images else statistics)
    if "fused_activation" in cls.fields:
        fields["fused_activation"] = maybe(draw, lambda: draw_activation(draw, FUSABLE, len(sizes)))
    return cls(**fields, epsilon=draw(st.sampled_from((1e-5, 0.0, 0.5))))


def _local_response_normalization_grad(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes, data_type = draw_sizes(draw, 4), draw_type(draw, cls)
    return cls(
        input_tensor=draw_input(draw, data_type, sizes),
        input_gradient_tensor=draw_input(draw, data_type, sizes),
        output_gradient_tensor=draw_output(draw, data_type, sizes),
        **_local_response(draw, cls),
    )


def _local_response_normalization(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    return cls(**draw_pair(draw, cls), **_local_response(draw, cls))


def _local_response(draw: st.DrawFn, cls: type[Operator]) -> dict[str, Any]:
    beta = draw(st.sampled_from((0.75, 0.5, 2.25, 0.3, -1.0)))
    return {
        **draw_floats(draw, cls),
        "cross_channel": draw(st.booleans()),
        "local_size": draw(st.sampled_from((1, 2, 3, 4, 5, 6, 7, 2**32 - 1))),
        "beta": beta,
    }


def _adam_optimizer(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes, data_type = draw_sizes(draw, 4), draw_type(draw, cls, "gradient_tensor")
    output = draw_output(draw, data_type, sizes)
    fields: dict[str, Any] = {"training_step_tensor": draw_input(draw, TensorDataType.UINT32, [1] * 4)}
    for name, field in cls.fields.items():
        if isinstance(field, TensorField) and name not in fields:
            same = draw(st.booleans())
            fields[name] = (
                output if same else (draw_input if field.direction == "input" else draw_output)(draw, data_type, sizes)
            )
    return cls(**fields, **draw_floats(draw, cls))


def _lp_normalization(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    pair = draw_pair(draw, cls)
    axis = draw(st.integers(0, pair["output_tensor"].rank - 1))
    return cls(**pair, axis=axis, epsilon=draw_number(draw), p=draw(st.sampled_from((1, 2))))


def _value_scale(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, (batch, _, *image) = draw_type(draw, cls), draw_sizes(draw, 4, ELEMENTS // 3)
    sizes = [batch, draw(st.sampled_from((1, 3))), *image]
    tensors = {"input_tensor": draw_input(draw, data_type, sizes), "output_tensor": draw_output(draw, data_type, sizes)}
    return cls(**tensors, scale=draw_number(draw), bias=[draw_number(draw) for _ in range(sizes[1])])


BUILDERS: dict[str, Build] = {
    "BATCH_NORMALIZATION": _normalization,
    "MEAN_VARIANCE_NORMALIZATION MEAN_VARIANCE_NORMALIZATION1 MEAN_VARIANCE_NORMALIZATION2": _normalization,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response_normalization,
    "LP_NORMALIZATION": _lp_normalization,
    "VALUE_SCALE_2D": _value_scale,
    "BATCH_NORMALIZATION_GRAD BATCH_NORMALIZATION_TRAINING_GRAD BATCH_NORMALIZATION_TRAINING": _statistics_gradient,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _local_response_normalization_grad,
    "ADAM_OPTIMIZER": _adam_optimizer,
}
