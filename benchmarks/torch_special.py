"""PyTorch's ways to do the cases of regions, coordinates, indices, random bits and training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.peers import Array, Call, Prepared, Unsupported
from opendml import operators

Tensor = Any
Tensors = Sequence[Tensor]


def region_gradient(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """The gradient of samples of a grid: PyTorch itself has no regions. One image, a fixed number of samples; where
    they lie is found beforehand."""
    incoming, corners, _ = inputs
    (target,), samples = outputs, desc.minimum_samples_per_output
    if target.shape[0] != 1 or desc.maximum_samples_per_output != samples:
        raise Unsupported("regions of several images, or as many samples as fit")
    (count, channels, *pooled), sizes = incoming.shape, target.shape[2:]

    def along(low: Tensor, high: Tensor, outputs: int, size: int) -> Tensor:
        numbers = torch.arange(outputs * samples) + 0.5
        places = low[:, None] + (high - low)[:, None] / (outputs * samples) * numbers - 0.5
        return (2 * places.clamp(0, size - 1) + 1) / size - 1

    y = along(corners[:, 1], corners[:, 3], pooled[0], sizes[0])[:, :, None]
    x = along(corners[:, 0], corners[:, 2], pooled[1], sizes[1])[:, None]
    grid = torch.stack(torch.broadcast_tensors(x, y), -1)
    grid = grid.reshape(1, -1, grid.shape[2], 2).contiguous()
    image, backward = torch.zeros(1, channels, *sizes), torch.ops.aten.grid_sampler_2d_backward
    spread = (channels, count, pooled[0], samples, pooled[1], samples)

    def run() -> Tensor:
        shared = incoming.permute(1, 0, 2, 3)[:, :, :, None, :, None].expand(spread) / samples**2
        return backward(shared.reshape(1, channels, *grid.shape[1:3]), image, grid, 0, 0, False, [True, False])[0]

    return [_fresh(run, lambda made: [made])]


def nonzero(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Only as many rows as there are."""
    (x,) = inputs

    def whole(made: Tensor) -> list[Tensor]:
        rows = torch.zeros(outputs[1].shape, dtype=torch.int64)
        rows[: len(made)] = made
        return [torch.tensor([len(made)]), rows]

    return [_fresh(lambda: torch.nonzero(x), whole)]


def gather(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Rows or columns of a matrix; of rows also as a layer does it."""
    (x, chosen), (y,) = inputs, outputs
    numbers, axis = chosen.reshape(-1), desc.axis
    ways = [_into(outputs, lambda: torch.index_select(x, axis, numbers, out=y))]
    if axis == 0:
        ways.append(_fresh(lambda: torch.nn.functional.embedding(numbers, x), lambda made: [made]))
    return ways


def gather_elements(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Into the output."""
    (x, chosen), (y,), axis = inputs, outputs, desc.axis
    return [_into(outputs, lambda: torch.gather(x, axis, chosen, out=y))]


def scatter_elements(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Into the output."""
    (x, chosen, updates), (y,), axis = inputs, outputs, desc.axis
    return [_into(outputs, lambda: torch.scatter(x, axis, chosen, updates, out=y))]


def scatter_rows(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """A copy, whose rows are then set."""
    (x, chosen, updates), (y,) = inputs, outputs
    rows = chosen.reshape(-1)
    return [_into(outputs, lambda: y.copy_(x).index_copy_(0, rows, updates))]


def random_bits(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Its own numbers."""
    words, state = outputs
    signed = words.view(torch.int32)
    return [Prepared(lambda: signed.random_(-(1 << 31), (1 << 31) - 1), lambda: [words.numpy(), state.numpy()])]


def batch_training(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """PyTorch keeps the inverse of the deviation in the place of the variance."""
    x, *parameters = inputs
    scale, bias = (parameter.reshape(-1) for parameter in parameters)

    def run() -> Tensor:
        return torch.native_batch_norm(x, scale, bias, None, None, True, 0.1, desc.epsilon)

    return [_fresh(run, lambda made: [made[0], made[1], made[2] ** -2 - desc.epsilon])]


def batch_gradient(is_training: bool) -> Callable[[Any, Tensors, Tensors], list[Prepared]]:
    """The same function for both kinds, with the statistics as it wants them."""

    def ways(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
        x, incoming, *parameters = inputs
        mean, variance, scale = (parameter.reshape(-1) for parameter in parameters)
        inverse = (variance + desc.epsilon) ** -0.5
        fixed = (None, None, mean, inverse) if is_training else (mean, variance, None, None)
        backward = torch.ops.aten.native_batch_norm_backward

        def run() -> Tensor:
            return backward(incoming, x, scale, *fixed, is_training, desc.epsilon, [True, True, True])

        return [_fresh(run, list)]

    return ways


def response_gradient(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """Backwards through the whole of it, which is computed each time, as by the operator."""
    x, incoming = inputs
    fields = (desc.local_size, desc.alpha, desc.beta, desc.bias)

    def run() -> Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            normalized = torch.nn.functional.local_response_norm(leaf, *fields)
            return torch.autograd.grad(normalized, leaf, incoming)[0]

    return [_fresh(run, lambda made: [made])]


def adam(desc: Any, inputs: Tensors, outputs: Tensors) -> list[Prepared]:
    """In place, in copies: the results are those of one step from the beginning."""
    *given, step = inputs
    copies = [tensor.clone() for tensor in given]
    betas = {"lr": desc.learning_rate, "beta1": desc.beta1, "beta2": desc.beta2, "eps": desc.epsilon}

    def run() -> None:
        parameters, first, second, gradient = copies
        # PyTorch counts the step before it takes it, and this function takes the one after.
        steps = [torch.tensor(float(step.reshape(-1)[0]))]
        torch._fused_adam_(
            *([parameters], [gradient], [first], [second], [], steps),
            **betas,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )

    def results() -> list[Array]:
        for copy, tensor in zip(copies, given, strict=True):
            copy.copy_(tensor)
        run()
        return [copy.numpy().copy() for copy in copies[:3]]

    return [Prepared(run, results)]


def _into(outputs: Tensors, call: Callable[[], Any]) -> Prepared:
    """A call that writes into the outputs."""
    return Prepared(call, lambda: [tensor.numpy() for tensor in outputs])


def _fresh(call: Callable[[], Any], results: Callable[[Any], Sequence[Tensor]]) -> Prepared:
    """A call whose results are new tensors."""
    made: list[Any] = [None]

    def run() -> None:
        made[0] = call()

    keep: Call = run
    return Prepared(keep, lambda: [tensor.numpy() for tensor in results(made[0])])


SPECIAL: dict[type[Any], Callable[[Any, Tensors, Tensors], list[Prepared]]] = {
    operators.RoiAlignGrad: region_gradient,
    operators.NonzeroCoordinates: nonzero,
    operators.Gather: gather,
    operators.GatherElements: gather_elements,
    operators.ScatterElements: scatter_elements,
    operators.ScatterNd: scatter_rows,
    operators.RandomGenerator: random_bits,
    operators.BatchNormalizationTraining: batch_training,
    operators.BatchNormalizationTrainingGrad: batch_gradient(is_training=True),
    operators.BatchNormalizationGrad: batch_gradient(is_training=False),
    operators.LocalResponseNormalizationGrad: response_gradient,
    operators.AdamOptimizer: adam,
}
"""What each operator becomes."""
