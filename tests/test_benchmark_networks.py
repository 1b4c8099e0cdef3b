"""The networks of the benchmarks, small ones of them: as ONNX they give what they give in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_modules import module

from opendml.targets.machine_limits import MachineLimits

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The benchmarks found; PyTorch's threads, gradients and random numbers as they were."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    threads, gradients, state = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)
    torch.set_rng_state(state)


def normal(*sizes: int) -> Any:
    return np.random.default_rng(1).normal(size=sizes).astype(np.float32)


def text(words: int, *sizes: int) -> Any:
    return np.random.default_rng(2).integers(0, words, sizes)


SMALL: dict[str, tuple[str, str, tuple[Any, ...], list[Any]]] = {
    "EfficientNet": ("images", "EfficientNet", (7, 3), [normal(2, 3, 32, 32)]),
    "ConvNeXt": ("images", "ConvNeXt", (7, (1, 2), (8, 16)), [normal(2, 3, 16, 16)]),
    "U-Net": ("images", "UNet", (4, 2), [normal(1, 3, 16, 16)]),
    "ViT": ("images", "VisionTransformer", (32, 16, 2, 1, 7), [normal(2, 3, 32, 32)]),
    "LSTM": ("sequences", "Recurrent", (5, 7, 3), [normal(2, 4, 5)]),
    "GPT-2": ("transformers", "Gpt2", (30, 16, 2, 1, 9), [text(30, 2, 1), text(9, 2, 1), *2 * [normal(2, 2, 6, 8)]]),
    "BERT": ("transformers", "Bert", (30, 16, 2, 1, 9), [text(30, 2, 8), np.tri(2, 8, 4, dtype=np.int64)]),
    "YOLO": ("detection", "Yolo", (64, 5, 4), [normal(1, 3, 64, 64)]),
}
"""Where the class of a small network is, what it is made with, and arrays for it."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_architectures_give_as_onnx_what_they_give_in_pytorch(name: str) -> None:
    networks = module("networks")
    place, kind, options, arrays = SMALL[name]
    make = getattr(module(f"architectures.{place}"), kind)
    model = networks.Model(networks.Network(name, 1, lambda: make(*options), lambda batch, random: arrays), 1)
    expected = model.torch(*map(torch.from_numpy, arrays))
    expected = [tensor.numpy() for tensor in (expected if isinstance(expected, tuple) else (expected,))]
    found = networks.CONTESTANTS["opendml"](model)
    found.run()
    assert networks.agree(found.results(), expected)
    assert not networks.agree([*found.results()[:-1], found.results()[-1] * np.float32(1.01)], expected)
    assert all(0.01 < np.abs(tensor).max() < 1000 for tensor in expected)  # nothing vanishes or explodes on its way


@pytest.mark.parametrize("peer", ["PyTorch", "ONNX Runtime", "OpenVINO"])
def test_networks_in_float16_are_that_for_all(peer: str) -> None:
    pytest.importorskip({"PyTorch": "torch", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}[peer])
    networks = module("networks")
    network = networks.Network("small", 1, _Small, lambda batch, random: [normal(batch, 3, 6, 6)], is_half=True)
    model = networks.Model(network, 1)
    found, expected = (networks.CONTESTANTS[name](model) for name in (peer, "opendml"))
    for one in (found, expected):
        one.run()
    assert {array.dtype for one in (found, expected) for array in one.results()} == {np.dtype(np.float16)}
    assert {array.dtype for array in model.arrays} == {np.dtype(np.float16)}
    assert networks.agree(found.results(), expected.results(), None, network.error)
    assert not networks.agree([-array for array in found.results()], expected.results(), None, network.error)


def test_every_network_has_a_title_and_a_batch_of_one() -> None:
    networks = module("networks").networks()
    titles = [network.title for network in networks]
    assert len(set(titles)) == len(titles)
    assert "networks: ResNet-50" in titles and "networks: ResNet-50, batch 8" in titles
    assert {network.name for network in networks if network.batch == 1} == {network.name for network in networks}
    for network in networks:
        arrays = network.inputs(network.batch, np.random.default_rng(0))
        assert {len(array) for array in arrays} == {network.batch}, network.title


def test_parameters_are_the_same_every_time() -> None:
    networks = module("networks")
    place, kind, options, arrays = SMALL["EfficientNet"]
    make = getattr(module(f"architectures.{place}"), kind)
    network = networks.Network("EfficientNet", 1, lambda: make(*options), lambda batch, random: arrays)
    first, second = (networks.make_module(network, arrays).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_kernels_that_compute_the_same_are_one_row() -> None:
    """And what they need is told beside limits that are given."""

    def kernel(title: str, sizes: list[int], seconds: float, work: tuple[int, int, int]) -> Any:
        traffic, operations, products = work
        return SimpleNamespace(
            title=title,
            writes=[SimpleNamespace(sizes=sizes)],
            seconds=seconds,
            bytes=traffic,
            operations=operations,
            integer_operations=products,
            repetitions=1,
        )

    def profile(slowness: float) -> Any:
        kernels = [
            kernel("GEMM", [8, 8], 1.0 * slowness, (0, 160, 0)),
            kernel("COPY", [8, 8], 4.0 * slowness, (100, 0, 0)),
            kernel("GEMM", [8, 8], 3.0 * slowness, (0, 160, 0)),
            kernel("GEMM", [8, 9], 2.0 * slowness, (0, 0, 2000)),
        ]
        return SimpleNamespace(kernels=kernels, share=lambda one: one.seconds / (10.0 * slowness))

    networks, timing = module("networks"), module("timing").Timing
    limits = MachineLimits(2, ((10, 100.0), (1000, 100.0)), 100.0, 1000.0)
    gemm, copy, other = networks.kernels_of([profile(2.0), profile(1.0), profile(4.0)])
    assert (gemm.title, gemm.count, gemm.timing) == ("GEMM, 8x8", 2, timing.of([8.0, 4.0, 16.0]))
    assert gemm.share == pytest.approx(0.4) and gemm.efficiency(limits) == pytest.approx(3.2 / 4)
    assert (copy.title, copy.count) == ("COPY, 8x8", 1) and (other.title, other.count) == ("GEMM, 8x9", 1)
    assert copy.efficiency(limits) == pytest.approx(1.0 / 4) and other.efficiency(limits) == pytest.approx(2.0 / 2)
    found = networks.NetworkResult("net", 1, [gemm, copy, other])
    assert found.efficiency(limits) == pytest.approx(0.32 + 0.1 + 0.2) and found.efficiency(None) is None


_Module: Any = torch.nn.Module


class _Small(_Module):  # type: ignore[misc]  # PyTorch's modules are Any to mypy, which skips them.
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 500)
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


@pytest.mark.parametrize("way", ["statically", "dynamically"])
def test_quantised_networks_run_near_the_ones_in_floating_point(way: str) -> None:
    pytest.importorskip("onnxruntime.quantization")
    networks, quantized = module("networks"), module("quantized_networks")
    plain = networks.Network("small", 1, _Small, lambda batch, random: [normal(batch, 3, 6, 6)])
    network = networks.Network("small", 1, _Small, plain.inputs, getattr(quantized, way))
    model = networks.Model(network, 1)
    ways = [networks.CONTESTANTS[name](one) for one in (model, networks.Model(plain, 1)) for name in ("opendml",)]
    ways.append(networks.CONTESTANTS["ONNX Runtime"](model))
    for one in ways:
        one.run()
    found, expected, peers = (one.results() for one in ways)
    assert not networks.agree(found, expected)
    assert model.exact is not None and networks.agree(model.exact, expected)
    assert networks.agree(peers, found, model.exact)
    assert not networks.agree(expected, found, model.exact)  # what is not quantised is too near
    assert not networks.agree([found[0] * np.float32(1.1)], found, model.exact)
    assert not networks.agree([np.roll(found[0], 1, 0)[:, ::-1]], found, model.exact)
    with pytest.raises(networks.Unsupported):
        networks.CONTESTANTS[networks.EAGER](model)
