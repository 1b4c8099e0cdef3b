"""Compares the example networks with PyTorch, layer by layer: ``python compare_with_torch.py resnet50``.

The relative error of a layer is the largest difference of any of its outputs, over the largest of them in magnitude.
Both networks have the same random parameters and input; errors of a layer include those of the layers before it.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any, NamedTuple

import numpy as np
import torch
from layers import Array, Network, random_input
from torch_models import MODELS

import opendml as dml


class LayerError(NamedTuple):
    """How far a layer is from PyTorch's."""

    layer: str
    sizes: tuple[int, ...]
    relative_error: float


def compare(name: str, model_options: dict[str, int] | None = None, **sizes: int) -> list[LayerError]:
    """The errors of all layers that both have, in the order of computation, and of the ``result``.

    ``sizes`` are parameters of the network, ``model_options`` those of PyTorch's.
    """
    graph = dml.Graph()
    network: Network = importlib.import_module(name).build(graph, **sizes)
    program = graph.compile({"": network.output, **network.layers})
    x = random_input(program)
    ours = program(x)
    theirs = torch_outputs(MODELS[name](**(model_options or {})), network, x)
    shared = [layer for layer in ours if layer in theirs]
    return [_layer_error(layer or "result", ours[layer], theirs[layer]) for layer in (*shared[1:], "")]


def torch_outputs(model: torch.nn.Module, network: Network, x: Array) -> dict[str, Array]:
    """What every module of a model gives out, by its name, with the parameters of a network."""
    state = {layer: torch.from_numpy(value.copy()) for layer, value in network.parameters.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert all(layer.endswith("num_batches_tracked") for layer in missing), missing
    outputs: dict[str, Array] = {}

    def keep(layer: str) -> Any:
        def hook(_: torch.nn.Module, __: Any, output: Any) -> None:
            outputs[layer] = (output[0] if isinstance(output, tuple) else output).numpy().copy()

        return hook

    for layer, module in model.named_modules():
        module.register_forward_hook(keep(layer))
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        model.eval()(torch.from_numpy(x))
    return outputs


def _layer_error(layer: str, ours: Array, theirs: Array) -> LayerError:
    theirs = theirs.reshape(ours.shape)
    scale = float(np.abs(theirs).max()) or 1.0
    return LayerError(layer, ours.shape, float(np.abs(ours - theirs).max()) / scale)


def main() -> None:
    """Print a table for each network named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=[*MODELS, "all"], default="all")
    chosen = parser.parse_args().network
    for name in MODELS if chosen == "all" else [chosen]:
        errors = compare(name)
        for error in errors:
            print(f"{name:20} {error.layer:28} {error.sizes!s:22} {error.relative_error:.1e}")
        print(f"{name:20} largest relative error of a layer: {max(error.relative_error for error in errors):.1e}\n")


if __name__ == "__main__":
    main()
