"""Element-wise operators, activations, softmax, normalisations and chains as functions of PyTorch's tensors.

The same functions run eagerly and compiled by ``torch.compile``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.nn import functional

from benchmarks import chains
from benchmarks.cases import Work
from opendml import operators

Tensor = Any
Function = Callable[..., Tensor]


def function_of(work: Work) -> Function | None:
    """The function of the inputs of a case that gives its output; None if it is not of these kinds."""
    translate = _FUNCTIONS.get(type(work))
    return None if translate is None else translate(work)


def function_with_output(work: Work) -> Function | None:
    """The function that writes into a given tensor ``out``, where PyTorch has one."""
    if isinstance(work, operators.ElementWiseClip):
        low, high = _limits(work)
        return lambda x, out: torch.clamp(x, low, high, out=out)
    if isinstance(work, operators.ActivationLeakyRelu):
        return lambda x, out: torch.ops.aten.leaky_relu.out(x, work.alpha, out=out)
    if isinstance(work, operators.ActivationSoftplus):
        return lambda x, out: torch.ops.aten.softplus.out(x, work.steepness, out=out)
    if isinstance(work, operators.ActivationSoftmax1):
        return lambda x, out: torch.softmax(x, work.axes[0], out=out)
    if isinstance(work, operators.ActivationLogSoftmax1):
        return lambda x, out: torch.log_softmax(x, work.axes[0], out=out)
    if isinstance(work, operators.CumulativeSummation):
        return lambda x, out: torch.cumsum(x, work.axis, dtype=x.dtype, out=out)
    return _WITH_OUTPUT.get(type(work))


def _limits(desc: operators.ElementWiseClip) -> tuple[float, float]:
    """Of the tensor's type, or PyTorch would compute in float32."""
    is_float = desc.input_tensor.data_type.dtype.kind == "f"
    return (desc.min, desc.max) if is_float else (int(desc.min), int(desc.max))


def _clamp(low: float, high: float, x: Tensor) -> Tensor:
    return torch.clamp(x, low, high)


def _batch_normalization(epsilon: float, x: Tensor, *parameters: Tensor) -> Tensor:
    mean, variance, scale, bias = (parameter.reshape(-1) for parameter in parameters)
    return functional.batch_norm(x, mean, variance, scale, bias, training=False, eps=epsilon)


def _layer_normalization(epsilon: float, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], scale.reshape(-1), bias.reshape(-1), epsilon)


def _mean_variance_normalization(desc: Any) -> Function:
    sizes, epsilon = desc.input_tensor.sizes, desc.epsilon
    if len(desc.axes) == 1:
        return lambda *x: _layer_normalization(epsilon, *x)
    return lambda x, scale, bias: functional.group_norm(
        x.reshape(sizes[0], -1, *sizes[-2:]), sizes[1], scale.reshape(-1), bias.reshape(-1), epsilon
    )


def _local_response_normalization(desc: Any) -> Function:
    return lambda x: functional.local_response_norm(x, desc.local_size, desc.alpha, desc.beta, desc.bias)


def _average_pooling_grad(desc: Any) -> Function:
    pooled = torch.empty(desc.output_gradient_tensor.sizes)
    window = (list(desc.window_size), list(desc.strides), list(desc.start_padding))
    backward = torch.ops.aten.avg_pool2d_backward
    return lambda gradient: backward(gradient, pooled, *window, False, desc.include_padding, None)


def _max_pooling_grad(desc: Any) -> Function:
    """With the positions, which PyTorch keeps of the forward pass."""
    window = (list(desc.window_size), list(desc.strides), list(desc.start_padding), list(desc.dilations))
    forward, backward = torch.ops.aten.max_pool2d_with_indices, torch.ops.aten.max_pool2d_with_indices_backward
    return lambda x, gradient: backward(gradient, x, *window, False, forward(x, *window)[1])


def _resample(desc: Any) -> Function:
    mode = {"LINEAR": "bilinear", "NEAREST_NEIGHBOR": "nearest-exact"}[desc.interpolation_mode.name]
    return lambda x: functional.interpolate(x, desc.output_tensor.sizes[2:], mode=mode)


def _resample_grad(desc: Any) -> Function:
    before, after = list(desc.output_gradient_tensor.sizes), list(desc.input_gradient_tensor.sizes[2:])
    if desc.interpolation_mode.name == "LINEAR":
        return lambda gradient: torch.ops.aten.upsample_bilinear2d_backward(gradient, after, before, False)
    return lambda gradient: torch.ops.aten._upsample_nearest_exact2d_backward(gradient, after, before)


def _block_window(desc: Any) -> dict[str, Any]:
    names = {"kernel_size": "window_sizes", "stride": "strides", "dilation": "dilations", "padding": "start_padding"}
    return {name: list(getattr(desc, field)) for name, field in names.items()}


def _unfold(desc: Any) -> Function:
    window = _block_window(desc)
    return lambda x: functional.unfold(x, **window)


def _fold(desc: Any) -> Function:
    window, sizes = _block_window(desc), list(desc.output_tensor.sizes[2:])
    return lambda x: functional.fold(x, sizes, **window)


def _residual_relu(x: Tensor, y: Tensor, *parameters: Tensor) -> Tensor:
    return torch.relu(_batch_normalization(1e-5, x, *parameters) + y)


_FUNCTIONS: Final[Mapping[type, Callable[[Any], Function]]] = {
    operators.ElementWiseAdd: lambda desc: torch.add,
    operators.ElementWiseMultiply: lambda desc: torch.mul,
    operators.ElementWiseDivide: lambda desc: torch.div,
    operators.ElementWiseExp: lambda desc: torch.exp,
    operators.ElementWiseSqrt: lambda desc: torch.sqrt,
    operators.ElementWiseErf: lambda desc: torch.erf,
    operators.ElementWiseClip: lambda desc: functools.partial(_clamp, *_limits(desc)),
    operators.ElementWiseLogicalGreaterThan: lambda desc: torch.gt,
    operators.ElementWiseIf: lambda desc: torch.where,
    operators.ActivationRelu: lambda desc: torch.relu,
    operators.ActivationLeakyRelu: lambda desc: lambda x: functional.leaky_relu(x, desc.alpha),
    operators.ActivationSigmoid: lambda desc: torch.sigmoid,
    operators.ActivationTanh: lambda desc: torch.tanh,
    operators.ActivationGelu: lambda desc: functional.gelu,
    operators.ActivationSoftplus: lambda desc: lambda x: functional.softplus(x, desc.steepness),
    operators.ActivationSoftmax1: lambda desc: lambda x: torch.softmax(x, desc.axes[0]),
    operators.ActivationLogSoftmax1: lambda desc: lambda x: torch.log_softmax(x, desc.axes[0]),
    operators.MeanVarianceNormalization1: _mean_variance_normalization,
    operators.LocalResponseNormalization: _local_response_normalization,
    operators.CumulativeSummation: lambda desc: lambda x: torch.cumsum(x, desc.axis, dtype=x.dtype),
    operators.BatchNormalization: lambda desc: lambda *x: _batch_normalization(desc.epsilon, *x),
    operators.AveragePoolingGrad: _average_pooling_grad,
    operators.MaxPoolingGrad: _max_pooling_grad,
    operators.Resample1: _resample,
    operators.ResampleGrad: _resample_grad,
    operators.Unfold: _unfold,
    operators.Fold: _fold,
    chains.ScaleBiasRelu: lambda chain: lambda x, scale, bias: torch.relu(x * scale + bias),
    chains.AddLayerNormalization: lambda chain: lambda x, y, *row: _layer_normalization(1e-5, x + y, *row),
    chains.BiasGelu: lambda chain: lambda x, bias: functional.gelu(x + bias),
    chains.ResidualRelu: lambda chain: _residual_relu,
    chains.GatedSigmoid: lambda chain: lambda x, y: torch.sigmoid(x) * x * y,
}

_WITH_OUTPUT: Final[Mapping[type, Function]] = {
    operators.ElementWiseAdd: torch.add,
    operators.ElementWiseMultiply: torch.mul,
    operators.ElementWiseDivide: torch.div,
    operators.ElementWiseExp: torch.exp,
    operators.ElementWiseSqrt: torch.sqrt,
    operators.ElementWiseErf: torch.erf,
    operators.ElementWiseLogicalGreaterThan: torch.gt,
    operators.ElementWiseIf: torch.where,
    operators.ActivationSigmoid: torch.sigmoid,
    operators.ActivationTanh: torch.tanh,
    operators.ActivationGelu: torch.ops.aten.gelu.out,
}
