"""onnxruntime's interface: the same names, types and answers, beside onnxruntime itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as ours
from opendml.compatibility.onnxruntime import errors
from opendml.compatibility.onnxruntime.absent import ABSENT, MODULE
from opendml.compatibility.onnxruntime.capi import onnxruntime_pybind11_state as state
from opendml.compatibility.onnxruntime.providers import OPTIONS

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TYPES = onnx.TensorProto
SIZES: Final[Sequence[int | str | None]] = ("batch", 3)


def info(name: str, sizes: Sequence[int | str | None] | None = SIZES, element: int = TYPES.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, sizes)


def model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any] = ()) -> Any:
    graph = helper.make_graph(nodes, "main", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def sums(sizes: Sequence[int | str | None] | None = SIZES) -> bytes:
    """Two outputs of two inputs, a rank of 0 and a bool among them."""
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Not", ["flag"], ["not"])]
    inputs = [info("x", sizes), info("y", []), info("flag", [2], TYPES.BOOL)]
    file = model(nodes, inputs, [info("sum", sizes), info("not", [2], TYPES.BOOL)])
    file.producer_name, file.doc_string, file.model_version = "a test", "what it is", 3
    file.graph.doc_string = "of the graph"
    file.metadata_props.add(key="labels", value="a\nb")
    data: bytes = file.SerializeToString()
    return data


def feed(rows: int = 2) -> dict[str, Any]:
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    return {"x": x, "y": np.array(1, np.float32), "flag": np.array([True, False])}


@pytest.fixture(params=["opendml", "onnxruntime"])
def runtime(request: pytest.FixtureRequest) -> ModuleType:
    """Both: what these tests ask for is what onnxruntime does."""
    if request.param == "opendml":
        return ours
    return pytest.importorskip("onnxruntime")  # type: ignore[no-any-return]


def session(runtime: ModuleType, file: bytes | None = None, options: Any = None) -> Any:
    return runtime.InferenceSession(file or sums(), options, providers=["CPUExecutionProvider"])


# ---- both give the same


def test_arguments_and_metadata(runtime: ModuleType) -> None:
    made = session(runtime, sums(["batch", None]))
    shown = [(one.name, one.type, one.shape) for one in (*made.get_inputs(), *made.get_outputs())]
    assert shown == [
        ("x", "tensor(float)", ["batch", None]),
        ("y", "tensor(float)", []),
        ("flag", "tensor(bool)", [2]),
        ("sum", "tensor(float)", ["batch", None]),
        ("not", "tensor(bool)", [2]),
    ]
    assert str(made.get_inputs()[0]) == "NodeArg(name='x', type='tensor(float)', shape=['batch', None])"
    meta = made.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.description) == ("a test", "main", "what it is")
    assert (meta.graph_description, meta.domain, meta.version) == ("of the graph", "", 3)
    assert dict(meta.custom_metadata_map) == {"labels": "a\nb"}
    assert made.get_providers() == ["CPUExecutionProvider"]
    assert made.get_provider_options() == {"CPUExecutionProvider": {}}


def test_unnamed_and_negative_dimensions(runtime: ModuleType) -> None:
    file = model([helper.make_node("Identity", ["x"], ["y"])], [info("x", [-1, "?"])], [info("y", None)])
    made = session(runtime, file.SerializeToString())
    assert (made.get_inputs()[0].shape, made.get_outputs()[0].type) == ([None, "?"], "tensor(float)")


@pytest.mark.parametrize("names", [None, [], ["not"], ["not", "sum", "not"]], ids=str)
def test_run(runtime: ModuleType, names: list[str] | None) -> None:
    results = session(runtime).run(names, feed())
    expected = {"sum": feed()["x"] + 1, "not": np.array([False, True])}
    for name, result in zip(names or ["sum", "not"], results, strict=True):
        assert result.dtype == expected[name].dtype
        np.testing.assert_array_equal(result, expected[name])


def test_sizes_change_from_run_to_run(runtime: ModuleType) -> None:
    made = session(runtime)
    assert [made.run(["sum"], feed(rows))[0].shape for rows in (1, 4, 1)] == [(1, 3), (4, 3), (1, 3)]


def test_lists_and_strided_arrays(runtime: ModuleType) -> None:
    given = {**feed(), "x": feed()["x"].tolist()}
    np.testing.assert_array_equal(session(runtime).run(["sum"], given)[0], feed()["x"] + 1)
    given = {**feed(), "x": feed(4)["x"][::2]}
    np.testing.assert_array_equal(session(runtime).run(["sum"], given)[0], feed(4)["x"][::2] + 1)


WRONG: dict[str, tuple[Callable[[], tuple[list[str] | None, dict[str, Any]]], str, str]] = {
    "output": (lambda: (["z"], feed()), "InvalidArgument", "Invalid output name:z"),
    "unknown": (lambda: (None, {**feed(), "z": feed()["x"]}), "InvalidArgument", "Invalid input name: z"),
    "missing": (lambda: (None, {"x": feed()["x"], "y": feed()["y"]}), "ValueError", r"Required inputs \(\['flag'\]\)"),
    "type": (
        lambda: (None, {**feed(), "x": feed()["x"].astype(np.float64)}),
        "InvalidArgument",
        r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)",
    ),
    "rank": (lambda: (None, {**feed(), "x": feed()["x"][0]}), "InvalidArgument", "Got: 1 Expected: 2"),
    "size": (lambda: (None, {**feed(), "x": feed()["x"][:, :2]}), "InvalidArgument", "index: 1 Got: 2 Expected: 3"),
    "scalar": (lambda: (None, {**feed(), "y": np.float32(1)}), "RuntimeError", "Unable to handle object of type"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit(runtime: ModuleType, case: str) -> None:
    make, name, message = WRONG[case]
    known = {"ValueError": ValueError, "RuntimeError": RuntimeError}
    kind = known.get(name) or getattr(
        importlib.import_module(f"{runtime.__name__}.capi.onnxruntime_pybind11_state"), name
    )
    with pytest.raises(kind, match=message):
        session(runtime).run(*make())


@pytest.mark.parametrize(
    ("source", "name"), [("nowhere.onnx", "NoSuchFile"), (b"no model", "InvalidProtobuf"), (12, "TypeError")]
)
def test_what_is_no_model(runtime: ModuleType, source: Any, name: str) -> None:
    capi = importlib.import_module(f"{runtime.__name__}.capi.onnxruntime_pybind11_state")
    with pytest.raises(TypeError if name == "TypeError" else getattr(capi, name)):
        runtime.InferenceSession(source, providers=["CPUExecutionProvider"])


def test_free_dimensions_are_overridden(runtime: ModuleType) -> None:
    options = runtime.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    made = session(runtime, options=options)
    assert made.get_inputs()[0].shape == made.get_outputs()[0].shape == [2, 3]
    np.testing.assert_array_equal(made.run(["sum"], feed())[0], feed()["x"] + 1)
    with pytest.raises(Exception, match="index: 0 Got: 1 Expected: 2"):
        made.run(None, feed(1))


def test_free_dimensions_are_overridden_by_denotation(runtime: ModuleType) -> None:
    file = onnx.ModelProto.FromString(sums())
    file.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = runtime.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    assert session(runtime, file.SerializeToString(), options).get_inputs()[0].shape == [2, 3]


def test_defaults_of_options(runtime: ModuleType) -> None:
    options, run = runtime.SessionOptions(), runtime.RunOptions()
    assert (options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level) == (0, 0, -1)
    assert options.graph_optimization_level == runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.execution_mode == runtime.ExecutionMode.ORT_SEQUENTIAL
    assert options.enable_mem_pattern is options.enable_cpu_mem_arena is True
    assert (run.log_severity_level, run.logid, run.terminate) == (-1, "", False)
    options.add_session_config_entry("session.load_model_format", "ONNX")
    assert options.get_session_config_entry("session.load_model_format") == "ONNX"
    with pytest.raises(RuntimeError, match="nothing"):
        options.get_session_config_entry("nothing")
    for name, wrong in (("intra_op_num_threads", "two"), ("graph_optimization_level", 1), ("logid", 3)):
        with pytest.raises(TypeError):
            setattr(options, name, wrong)
    with pytest.raises(AttributeError):
        options.no_such_option = 1


def test_a_run_is_stopped_before_it_begins(runtime: ModuleType) -> None:
    options = runtime.RunOptions()
    options.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session(runtime).run(None, feed(), options)


def test_values(runtime: ModuleType) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = runtime.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", 24)
    assert value.has_value() and value.is_tensor()
    assert not value.is_tensor_sequence() and not value.is_sparse_tensor()
    value.update_inplace(x + 1)
    np.testing.assert_array_equal(value.numpy(), np.arange(1, 7).reshape(2, 3))
    made = runtime.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    assert (made.numpy().dtype, made.shape()) == (np.int64, [2, 3])
    results = session(runtime).run_with_ort_values(
        ["sum"], {name: runtime.OrtValue.ortvalue_from_numpy(array) for name, array in feed().items()}
    )
    np.testing.assert_array_equal(results[0].numpy(), feed()["x"] + 1)
    with pytest.raises(RuntimeError):
        runtime.OrtValue.ortvalue_from_numpy(np.array(["text"], object))
    with pytest.raises(RuntimeError):
        runtime.OrtValue.ortvalue_from_numpy(x, "cuda")


def test_bound_inputs_and_outputs(runtime: ModuleType) -> None:
    made, given = session(runtime), feed()
    binding = made.io_binding()
    binding.bind_cpu_input("x", given["x"])
    binding.bind_ortvalue_input("y", runtime.OrtValue.ortvalue_from_numpy(given["y"]))
    flags = given["flag"]
    binding.bind_input("flag", "cpu", 0, np.bool_, flags.shape, flags.ctypes.data)
    binding.bind_output("not")
    memory = np.zeros((2, 3), np.float32)
    binding.bind_output("sum", "cpu", 0, np.float32, memory.shape, memory.ctypes.data)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(memory, given["x"] + 1)
    first, second = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(first, ~flags)
    np.testing.assert_array_equal(second, memory)
    binding.clear_binding_outputs()
    value = runtime.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_output("sum", value)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(value.numpy(), memory)
    assert [one.shape() for one in binding.get_outputs()] == [[2, 3]]


def test_bindings_that_do_not_fit(runtime: ModuleType) -> None:
    made = session(runtime)
    binding = made.io_binding()
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: z"):
        binding.bind_cpu_input("z", feed()["x"])
    for name, array in feed().items():
        binding.bind_cpu_input(name, array.astype(np.float64) if name == "x" else array)
    binding.bind_output("sum")
    with pytest.raises(RuntimeError, match=r"Error in execution: Unexpected input data type"):
        made.run_with_iobinding(binding)


def test_asynchronous_runs(runtime: ModuleType) -> None:
    done, seen = threading.Event(), []

    def callback(results: Any, data: Any, message: str) -> None:
        seen.append((results, data, message))
        done.set()

    session(runtime).run_async(["sum"], feed(), callback, "mine")
    assert done.wait(60)
    ((results, data, message),) = seen
    assert (data, message) == ("mine", "")
    np.testing.assert_array_equal(results[0], feed()["x"] + 1)


# ---- what is our own


def test_directml_is_there() -> None:
    assert ours.get_available_providers() == ["DmlExecutionProvider", "CPUExecutionProvider"]
    assert "DML" in ours.get_device()
    made = ours.InferenceSession(sums(), providers=[("DmlExecutionProvider", {"device_id": 0})])
    assert made.get_providers() == ["DmlExecutionProvider", "CPUExecutionProvider"]
    assert made.get_provider_options()["DmlExecutionProvider"] == {"device_id": "0"}
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        assert ours.InferenceSession(sums(), providers=["CUDAExecutionProvider"]).get_providers() == [
            "CPUExecutionProvider"
        ]
    with pytest.raises(errors.InvalidArgument, match="same length"):
        ours.InferenceSession(sums(), providers=["DmlExecutionProvider"], provider_options=[])


def test_every_option_of_a_provider_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "compatibility.md").read_text("utf-8")
    for name, option in OPTIONS.items():
        values = ", ".join(f"`{value}`" for value in option.values) or "text"
        assert f"| `{name}` | {values} | {option.effect} |" in page


def test_options_that_mean_nothing_are_said() -> None:
    def made(**options: Any) -> Any:
        return ours.InferenceSession(sums([2, 3]), providers=[("DmlExecutionProvider", options)])

    accepted = {"device_id": 1, "performance_preference": "high_performance", "device_filter": "GPU"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(**accepted, enable_graph_capture=True, enable_graph_serialization="0")
    with pytest.warns(UserWarning, match="DmlExecutionProvider has no option 'device_filtre'.*'device_filter'"):
        assert made(device_filtre="gpu").get_provider_options()["DmlExecutionProvider"] == {"device_filtre": "gpu"}
    for wrong in ({"disable_metacommands": "yes"}, {"performance_preference": "fast"}):
        with pytest.raises(errors.InvalidArgument, match=f"provider options: {next(iter(wrong))}: expected"):
            made(**wrong)


def test_a_provider_chooses_the_device_and_options_the_threads() -> None:
    options = ours.SessionOptions()
    options.intra_op_num_threads = 1
    made = ours.InferenceSession(sums([2, 3]), options)
    assert made._device == dml.Device(thread_count=1)
    made.set_providers([("DmlExecutionProvider", {"device": "reference"})])
    np.testing.assert_array_equal(made.run(["sum"], feed())[0], feed()["x"] + 1)
    assert made._device == dml.Device("reference")
    with pytest.raises(errors.InvalidArgument, match="unknown device 'abacus'"):
        made.set_providers([("DmlExecutionProvider", {"device": "abacus"})])


@pytest.mark.parametrize("sizes", [[2], ["n"]], ids=str)
def test_float64_is_narrowed_where_that_is_asked_for(sizes: list[int | str]) -> None:
    node = helper.make_node("Tanh", ["x"], ["y"])
    file = model([node], [info("x", sizes, TYPES.DOUBLE)], [info("y", sizes, TYPES.DOUBLE)]).SerializeToString()
    x = {"x": np.array([0.5, 1.0])}
    with pytest.raises(errors.NotImplemented, match="Tanh"):
        session(ours, file).run(None, x)
    narrowing = ours.InferenceSession(file, providers=[("DmlExecutionProvider", {"narrow_float64": True})])
    (y,) = narrowing.run(None, x)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.tanh(x["x"]), rtol=1e-6)


def test_known_sizes_are_compiled_for_at_once() -> None:
    made = session(ours, sums([2, 3]))
    assert made._program is not None
    made._model.program_for = None  # not asked
    np.testing.assert_array_equal(made.run(["sum"], feed())[0], feed()["x"] + 1)


def test_what_is_not_expressible_is_said_when_sizes_are_known() -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["d"], name="first"),
        helper.make_node("Inverse", ["x"], ["y"], domain="no"),
    ]
    file = model(nodes, [info("x", [2, 2])], [info("d", []), info("y", [2, 2])])
    file.opset_import.append(helper.make_opsetid("no", 1))
    with pytest.raises(state.NotImplemented, match=r"9 : NOT_IMPLEMENTED : Det 'first'") as raised:
        session(ours, file.SerializeToString())
    assert "no::Inverse" in str(raised.value)


def test_values_that_decide_are_taken_from_the_first_run() -> None:
    nodes = [helper.make_node("Tile", ["x", "times"], ["y"])]
    file = model(nodes, [info("x", [2]), info("times", [1], TYPES.INT64)], [info("y", ["n"])])
    made = session(ours, file.SerializeToString())
    assert made._program is None
    for times in (2, 3, 2):
        (y,) = made.run(None, {"x": np.array([1, 2], np.float32), "times": np.array([times])})
        np.testing.assert_array_equal(y, [1, 2] * times)


def test_weights_that_are_listed_as_inputs() -> None:
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    file = model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x"), info("w", [3])], [info("y")], [weight])
    made = session(ours, file.SerializeToString())
    assert [one.name for one in made.get_inputs()] == ["x"]
    assert [one.name for one in made.get_overridable_initializers()] == ["w"]
    with pytest.raises(errors.InvalidArgument, match="Invalid input name: w, an initialiser"):
        made.run(None, {"x": feed()["x"], "w": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    ("option", "value"), [("enable_profiling", True), ("optimized_model_filepath", "optimised.onnx")]
)
def test_options_that_are_refused(option: str, value: object) -> None:
    options = ours.SessionOptions()
    setattr(options, option, value)
    with pytest.raises(errors.NotImplemented, match=f"SessionOptions.{option}"):
        session(ours, options=options)


def test_foreign_code_is_refused() -> None:
    options = ours.SessionOptions()
    calls: list[Callable[[], object]] = [
        lambda: options.register_custom_ops_library("operators.so"),
        lambda: options.add_initializer("w", None),
        lambda: options.add_external_initializers([], []),
        lambda: session(ours).end_profiling(),
    ]
    for call in calls:
        with pytest.raises(errors.NotImplemented):
            call()


def test_memory_of_another_size_is_not_written() -> None:
    made, binding, memory = session(ours), session(ours).io_binding(), np.zeros((1, 3), np.float32)
    for name, array in feed().items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("not")
    binding.bind_ortvalue_output("sum", ours.OrtValue.ortvalue_from_numpy(memory))
    with pytest.raises(RuntimeError, match=r"output 'sum' is float32 \[2, 3\], memory of float32 \[1, 3\]"):
        made.run_with_iobinding(binding)
    assert not memory.any()


def test_errors_are_opendmls_with_onnxruntimes_codes() -> None:
    assert [kind.code for kind in errors.CODES] == list(range(1, 15))
    assert all(issubclass(kind, dml.OpendmlError) for kind in errors.CODES)
    assert str(errors.NoSuchFile("gone")) == "[ONNXRuntimeError] : 3 : NO_SUCHFILE : gone"


def test_a_path_and_its_weights_beside_it(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    file = model([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x")], [info("y")], [weight])
    path = tmp_path / "model.onnx"
    onnx.save(file, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    made = ours.InferenceSession(path)
    np.testing.assert_array_equal(made.run(None, {"x": feed()["x"]})[0], feed()["x"] * 2)


def test_sessions_run_in_several_threads() -> None:
    made, results = session(ours), {}

    def work(rows: int) -> None:
        results[rows] = made.run(["sum"], feed(rows))[0]

    threads = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows, result in results.items():
        np.testing.assert_array_equal(result, feed(rows)["x"] + 1)
    assert len(results) == 6


def test_scripts_find_everything_under_onnxruntimes_names() -> None:
    program = """
import sys, opendml.compatibility.onnxruntime as here
sys.modules["onnxruntime"] = here
import onnxruntime
from onnxruntime import InferenceSession, SessionOptions
no_such_file = onnxruntime.capi.onnxruntime_pybind11_state.NoSuchFile
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
import importlib.util
assert importlib.util.find_spec("onnxruntime") is not None and onnxruntime.__version__.count(".") == 2
assert OrtValue is onnxruntime.OrtValue and _pybind_state.InvalidArgument is InvalidArgument
try:
    InferenceSession("nowhere.onnx", SessionOptions())
except no_such_file as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from nowhere.onnx failed")


# ---- names


def names_of(thing: Any) -> set[str]:
    """Public names, without modules that a module happens to import."""
    found = {name for name in dir(thing) if not name.startswith("_") and hasattr(thing, name)}
    return found - ({"contextlib"} if isinstance(thing, ModuleType) else set())


PLACES = {MODULE: ours} | {
    name: getattr(ours, name)
    for name in ("IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtDevice", "OrtValue")
}
PLACES |= {"SessionOptions": ours.SessionOptions, "RunOptions": ours.RunOptions}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_missing_is_known(place: str) -> None:
    """What onnxruntime has is here, or in the table of what is not; and nothing is in both."""
    theirs = pytest.importorskip("onnxruntime")
    other = theirs if place == MODULE else getattr(theirs, place)
    absent = ABSENT.get(place, {})
    assert names_of(other) - names_of(PLACES[place]) <= absent.keys()
    assert absent.keys().isdisjoint(names_of(PLACES[place]))


def test_what_is_missing_says_why() -> None:
    with pytest.raises(dml.UnknownNameError, match=r"^onnxruntime\.SparseTensor is not here: DirectML has no sparse"):
        _ = ours.SparseTensor
    with pytest.raises(ImportError):
        from opendml.compatibility.onnxruntime import LoraAdapter  # noqa: F401
    with pytest.raises(AttributeError, match=r"^onnxruntime\.OrtMemoryInfo is not here: a program's memory is planned"):
        _ = state.OrtMemoryInfo
    with pytest.raises(dml.UnknownNameError, match=r"no attribute 'nonsense'$"):
        _ = ours.nonsense
    for thing in (ours.OrtValue, ours.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32))):
        with pytest.raises(
            dml.UnknownNameError, match=r"^OrtValue\.as_sparse_tensor is not here: DirectML has no sparse"
        ):
            _ = getattr(thing, "as_sparse_tensor")  # noqa: B009


def test_the_documentation_lists_what_is_missing() -> None:
    page = (Path(__file__).parent.parent / "docs" / "compatibility.md").read_text("utf-8")
    for place, names in ABSENT.items():
        for reason in dict.fromkeys(names.values()):
            listed = ", ".join(f"`{name}`" for name in names if names[name] == reason)
            assert f"| `{place}` | {listed} | {reason[0].upper()}{reason[1:]}. |\n" in page


def test_providers_and_threads_of_options(runtime: ModuleType) -> None:
    options = runtime.SessionOptions()
    assert not options.has_providers()
    options.add_provider("CPUExecutionProvider", {})
    assert options.has_providers()
    assert runtime.InferenceSession(sums(), options).get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Abacus"):
        options.add_provider("Abacus", {})
    options.set_load_cancellation_flag(True)
    capi = importlib.import_module(f"{runtime.__name__}.capi.onnxruntime_pybind11_state")
    with pytest.raises(capi.ModelLoadCanceled):
        session(runtime, options=options)


def test_threads_that_sessions_share() -> None:
    options = ours.SessionOptions()
    options.use_per_session_threads, options.intra_op_num_threads = False, 2
    ours.set_global_thread_pool_sizes(1)
    try:
        assert ours.InferenceSession(sums([2, 3]), options)._device == dml.Device(thread_count=1)
    finally:
        ours.set_global_thread_pool_sizes()


def test_metacommands_are_switched_off() -> None:
    asked = []

    class Model:
        """Notes how programs are asked for."""

        def compile(self, *_: Any, execution_flags: Any, **__: Any) -> None:
            asked.append(execution_flags)

    made = session(ours, sums([2, 3]))
    made._model = Model()
    for option in ("true", "0"):
        made.set_providers([("DmlExecutionProvider", {"disable_metacommands": option})])
    assert asked == [dml.ExecutionFlags.DISABLE_META_COMMANDS, dml.ExecutionFlags.NONE]


def test_values_are_copied() -> None:
    given = ours.OrtValue.ortvalue_from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    made = ours.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    ours.copy_tensors([given], [made])
    np.testing.assert_array_equal(made.numpy(), given.numpy())
    with pytest.raises(RuntimeError, match="1 values for 2"):
        ours.copy_tensors([given], [made, made])
    ours.print_debug_info()


def test_values_and_devices(runtime: ModuleType) -> None:
    made = session(runtime).create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
    assert (made.shape(), made.data_type()) == ([2, 3], "tensor(float)")
    device = runtime.OrtDevice.make("cpu", 0)
    assert (device.device_vendor_id(), device.device_mem_type()) == (0, 0)
    vendors = {one.name: one.value for one in runtime.OrtDeviceVendorId}
    assert vendors == {one.name: one.value for one in ours.OrtDeviceVendorId}
    assert runtime.OrtDeviceMemoryType.HOST_ACCESSIBLE.value == 5
    assert (runtime.has_collective_ops(), runtime.version) == (False, runtime.__version__)


# ---- packages of others, their own code calling this

SCRIPTS = {
    "magika": """
from magika import Magika
texts = [b"#!/usr/bin/env python\\nimport os\\nprint(1)\\n", b"<html><body><p>hi</p></body></html>"]
found = [Magika().identify_bytes(text) for text in texts]
answer = {"labels": [str(one.output.label) for one in found], "numbers": [one.score for one in found]}
""",
    "silero_vad": """
import numpy as np
import torch
from silero_vad import load_silero_vad
model, numbers = load_silero_vad(onnx=True), []
samples = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
for rate, count in ((16000, 512), (8000, 256)):
    model.reset_states()
    numbers += [float(model(torch.from_numpy(samples[i * count : (i + 1) * count]), rate)) for i in range(4)]
answer = {"labels": [], "numbers": numbers}
""",
    "rapidocr_onnxruntime": """
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR
image = Image.new("RGB", (200, 60), "white")
ImageDraw.Draw(image).text((10, 10), "Every Machine", fill="black", font=ImageFont.load_default(24))
found, _ = RapidOCR()(np.array(image))
answer = {"labels": [text for _, text, _ in found], "numbers": [float(score) for _, _, score in found]}
""",
}


@pytest.mark.parametrize("package", SCRIPTS)
def test_packages_that_call_onnxruntime(package: str) -> None:
    """One line before them puts this in onnxruntime's place."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    pytest.importorskip("onnxruntime")
    here = "import sys, opendml.compatibility.onnxruntime as runtime; sys.modules['onnxruntime'] = runtime"
    answers = []
    for line in ("", here):
        program = f"{line}\n{SCRIPTS[package]}\nimport json; print(json.dumps(answer))"
        paths = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    theirs, mine = answers
    assert mine["labels"] == theirs["labels"]
    np.testing.assert_allclose(mine["numbers"], theirs["numbers"], rtol=2e-3)
