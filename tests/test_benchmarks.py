"""The benchmarks' cases: all valid, all told apart, and each with a peer to race where the peers are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_modules import module

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.validation import validate
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))


def all_cases() -> list[Any]:
    names = {"cases": "all_cases"} | {
        name: name
        for name in (
            "matrix_cases",
            "convolution_cases",
            "quantized_cases",
            "indexed_cases",
            "special_cases",
            "function_cases",
        )
    }
    return [case for name, function in names.items() for case in getattr(module(name), function)()]


def test_cases_are_valid_and_have_names_of_their_own() -> None:
    cases = all_cases()
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles)
    for case in cases:
        if isinstance(case.operator, Operator):
            assert not validate(case.operator, dml.FeatureLevel.LEVEL_6_4), case.title
        assert module("cases").bytes_moved(case.operator) > 0, case.title


def test_chains_compile_to_one_kernel() -> None:
    for case in module("function_cases").function_cases():
        if case.group != "chain" or "256 KiB" not in case.name:
            continue
        graph = dml.Graph()
        inputs = [graph.input(desc.data_type, desc.sizes) for _, desc in case.operator.inputs()]
        output = case.operator.build(*inputs)
        assert output.sizes == case.operator.sizes
        execution = divide_and_fuse(
            join(graph.describe(output), refining(host_target())), costs=host_target().costs
        ).execution
        assert len(execution.statements) == 1, case.title


def test_small_graphs_are_valid_at_every_size() -> None:
    """Those whose first results are timed; no two sizes are the same."""
    for name, (build, sizes) in module("compilation")._GRAPHS.items():
        found = []
        for sample in range(3):
            graph = dml.Graph()
            output = build([graph.input("float32", one) for one in sizes(sample)])
            found.append(repr(graph.describe(output)))
        assert len(set(found)) == len(found), name


def test_a_new_process_takes_a_model_from_the_cache_that_it_is_told(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])]
    node = onnx.helper.make_node("Exp", ["x"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "small", inputs, outputs))
    (tmp_path / "small.onnx").write_bytes(model.SerializeToString())
    compilation = module("compilation")
    arguments = compilation._OPENDML, tmp_path / "small.onnx", tmp_path / "cache", 1
    assert compilation._seconds_of_start(*arguments) > 0
    made = {path.name: path.stat().st_ino for path in (tmp_path / "cache").glob("*.object")}
    assert made
    assert compilation._seconds_of_start(*arguments) > 0
    assert made.items() <= {path.name: path.stat().st_ino for path in (tmp_path / "cache").glob("*.object")}.items()


@pytest.fixture
def _same_settings_afterwards() -> Iterator[None]:
    """PyTorch's threads and gradients as they were."""
    torch = pytest.importorskip("torch")
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)


@pytest.mark.sampled
@pytest.mark.usefixtures("_same_settings_afterwards")
@pytest.mark.parametrize("peer", ["numpy_peer", "torch_peer", "onnxruntime_peer"])
def test_peers_agree(peer: str) -> None:
    """Every way in which a peer does one of the small cases gives opendml's result."""
    for library in {"onnxruntime_peer": ["onnxruntime", "onnx"]}.get(peer, []):
        pytest.importorskip(library)
    peers, measure = module("peers"), module("measure")
    racing = [peers.Opendml(1), module(peer).peer(1)]
    raced = 0
    for case in (case for case in all_cases() if "256 KiB" in case.name):
        result = measure.run_case(case, racing, measure.Effort(0.0, 1))
        assert not result.faults, (case.title, result.faults)
        raced += len(result.timings) == 2
    assert raced >= 20


def test_values_are_in_the_range_of_the_case() -> None:
    (case,) = (case for case in all_cases() if case.title == "element-wise: if f32, 256 KiB")
    condition, a, _ = module("peers").make_buffers(case.operator, case.values).inputs
    assert set(np.unique(condition)) == {0, 1}
    assert 0 <= a.min() < a.max() <= 1


def small_special_cases() -> Iterator[Any]:
    """One of each kind, small."""
    special, case = module("special_cases"), module("cases").Case
    image, values = (1, 8, 55, 52), (25, 75)
    for backward in (False, True):
        operator = special.region_align(image, 5, 3, 2, backward=backward)
        yield case("regions", f"align {backward}", operator, values=values, fill=special._corners)
    yield case("regions", "pooling", special.region_pooling(image, 5, 3), values=values, fill=special._pooled_corners)
    yield case("coordinates", "some", special.nonzero_coordinates((12, 20)), fill=special._mask)
    indexed = module("indexed_cases")
    for axis in (0, 1):
        operator = indexed.gather((40, 50), axis, 7)
        yield case("gather", f"axis {axis}", operator, fill=indexed._chosen(40))
        operator = indexed.gather_elements((30, 30), axis)
        yield case("gather", f"elements, axis {axis}", operator, fill=indexed._chosen(30))
        operator = indexed.scatter_elements((30, 30), (30, 30), axis)
        yield case("scatter", f"elements, axis {axis}", operator, fill=indexed._chosen(30))
    operator = indexed.scatter_elements((30,), (100,), 0)
    yield case("scatter", "a row", operator, fill=indexed._chosen(30))
    yield case("scatter", "rows", indexed.scatter_rows((30, 20), 9), fill=indexed._different)
    yield case("random bits", "some", special.random_bits(64), fill=special._state)
    yield case("training", "batch", special.batch_training((2, 3, 5, 5)))
    for kind in (operators.BatchNormalizationTrainingGrad, operators.BatchNormalizationGrad):
        operator = special.batch_gradient(kind, (2, 3, 5, 5))
        yield case("training", kind.__name__, operator, values=(-1, 1), fill=special._statistics)
    yield case("training", "Adam", special.adam(100), values=(-1, 1), fill=special._moments)


@pytest.mark.usefixtures("_same_settings_afterwards")
def test_peers_agree_on_inputs_of_a_certain_form() -> None:
    for library in ("torch", "onnxruntime", "onnx"):
        pytest.importorskip(library)
    peers, measure = module("peers"), module("measure")
    racing = [module(name).peer(1) for name in ("numpy_peer", "torch_peer", "onnxruntime_peer")]
    for case in small_special_cases():
        result = measure.run_case(case, [peers.Opendml(1), *racing], measure.Effort(0.0, 1))
        assert not result.faults, (case.title, result.faults)
        assert len(result.timings) >= 2, (case.title, result.absent)


@pytest.mark.usefixtures("_same_settings_afterwards")
@pytest.mark.parametrize("fields", [{}, {"past": 5}, {"is_masked": True}, {"past": 2, "is_masked": True}])
def test_peers_agree_on_attention(fields: dict[str, Any]) -> None:
    """A bias that hides keys, and keys of the past."""
    for library in ("torch", "onnxruntime", "onnx"):
        pytest.importorskip(library)
    cases, peers, measure = module("cases"), module("peers"), module("measure")
    fill = cases._hide_later_keys if "is_masked" in fields else None
    case = cases.Case("attention", "small", cases.attention(4, 2, 16, **fields), values=(-1, 1), fill=fill)
    racing = [peers.Opendml(1), module("torch_peer").peer(1), module("onnxruntime_peer").peer(1)]
    result = measure.run_case(case, racing, measure.Effort(0.0, 1))
    assert not result.faults
    assert len(result.timings) == 3, result.absent


@pytest.mark.usefixtures("_same_settings_afterwards")
def test_peers_agree_on_quantized_layers() -> None:
    for library in ("onnxruntime", "onnx", "openvino"):
        pytest.importorskip(library)
    layers, measure = module("quantized_layers"), module("measure")
    racing = [module("peers").Opendml(1), *(module(f"{name}_peer").peer(1) for name in ("onnxruntime", "openvino"))]
    for layer in (
        layers.QuantizedProduct((5, 40), 24),
        layers.QuantizedWindows((1, 8, 9, 9), 16, 3, 2),
        layers.QuantizedWindows((1, 16, 6, 6), 8, 1, 1),
    ):
        case = module("cases").Case("layer", str(layer), layer, values=(0, 255))
        result = measure.run_case(case, racing, measure.Effort(0.0, 1))
        assert not result.faults and len(result.timings) == 3, (case.title, result.faults, result.absent)
        (array,) = module("peers").make_buffers(layer, case.values).inputs
        graph = dml.Graph()
        output = graph.compile(layer.build(graph.input("uint8", layer.sizes)))(array)
        assert output.shape == layer.output_sizes and np.unique(output).size > 50  # neither zeros nor limits alone


@pytest.mark.usefixtures("_same_settings_afterwards")
@pytest.mark.parametrize(
    ("sizes", "order", "is_fixed"),
    [
        ((5, 7), "NN", False),
        ((5, 7), "TT", False),
        ((2, 5, 7), "NT", False),
        ((2, 5, 7), "TN", False),
        ((5, 7), "NN", True),
    ],
)
def test_peers_agree_on_matrix_products(sizes: tuple[int, ...], order: str, is_fixed: bool) -> None:
    for library in ("torch", "onnxruntime", "onnx", "openvino"):
        pytest.importorskip(library)
    measure, names = module("measure"), ("numpy", "torch", "onnxruntime", "openvino")
    product = module("matrix_layers").MatrixProduct(sizes, 3, order, is_fixed)
    case = module("cases").Case("matrix shapes", "small", product)
    racing = [module("peers").Opendml(1), *(module(f"{name}_peer").peer(1) for name in names)]
    result = measure.run_case(case, racing, measure.Effort(0.0, 1))
    assert not result.faults
    assert len(result.timings) == 5, result.absent
    assert module("cases").floating_point_operations(product) == 2 * np.prod(sizes) * 3


def test_operations_are_those_of_all_products() -> None:
    cases, layers = module("cases"), module("quantized_layers")
    assert cases.integer_operations(cases.integer_product(2, 3, 5)) == 2 * 2 * 3 * 5
    assert cases.integer_operations(cases.quantized_convolution(2, 3, 4, 6, 3, 1)) == 2 * (2 * 4 * 6 * 6) * 27
    assert cases.integer_operations(layers.QuantizedProduct((2, 5), 3)) == 2 * 2 * 3 * 5
    assert cases.integer_operations(layers.QuantizedWindows((2, 3, 6, 6), 4, 3, 2)) == 2 * (2 * 4 * 3 * 3) * 27
    assert not cases.integer_operations(cases.gemm("FLOAT32", 2, 3, 4))


def test_regions_have_their_corners_in_order() -> None:
    for case in module("special_cases").special_cases():
        if case.group == "regions":
            inputs = module("peers").make_buffers(case.operator, case.values).inputs
            case.fill(inputs)
            names = [name for name, desc in case.operator.inputs() if desc is not None]
            rois = inputs[names.index("ROITensor")]
            corners = rois.reshape(-1, rois.shape[-1])[:, -4:]
            assert (corners[:, :2] < corners[:, 2:]).all() and corners.min() >= 0, case.title
