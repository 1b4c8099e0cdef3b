"""DxDispatch models: running, what is wrong with them, hostile input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dxdispatch_models import ADD, changed, mutated_models
from dxdispatch_running import NumpyDevice, executor, problem, read, results, run
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import ModelFormatError, OpendmlError
from opendml.formats.dxdispatch import RunOptions, check_model
from opendml.formats.dxdispatch import model as model_file
from opendml.formats.dxdispatch.printing import format_elements, format_elements_verbose
from opendml.formats.dxdispatch.reports import TextReport
from opendml.formats.models import read_model

# ---- running


def test_add() -> None:
    lines = run(ADD).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Dispatch 'add': 1 iterations, ")
    assert lines[0].endswith(" ms median (CPU)")
    assert lines[1] == "Resource 'Out': 6, 10, -2"


def test_desc_fields_inline_and_in_either_spelling() -> None:
    desc = ADD["dispatchables"]["add"]["desc"]
    for form in (
        {"type": "ELEMENT_WISE_ADD"} | desc,
        {"Type": "DML_OPERATOR_ELEMENT_WISE_ADD", "Desc": desc, "dmlCompileType": "DmlCompileGraph"},
        {"type": "ELEMENT_WISE_ADD", "executionFlags": ["NONE", "DISABLE_META_COMMANDS"]} | desc,
    ):
        assert results(changed("dispatchables/add", form)) == ["Resource 'Out': 6, 10, -2"]


def test_execution_flags_reach_the_device() -> None:
    device = NumpyDevice()
    desc = ADD["dispatchables"]["add"]["desc"]
    flags = ["ALLOW_HALF_PRECISION_COMPUTATION", "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE"]
    run(changed("dispatchables/add", {"type": "ELEMENT_WISE_ADD", "executionFlags": flags} | desc), device=device)
    assert device.execution_flags == [ExecutionFlags(5)]


def test_resources_keep_what_was_written() -> None:
    model = changed("commands/0/bindings/OutputTensor", "A")
    model["commands"] = [model["commands"][0]] * 3 + [{"type": "print", "resource": "A"}]
    assert results(model) == ["Resource 'A': 16, 26, -12"]


def test_element_offsets() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 10, "valueStart": 1, "valueDelta": 1})
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementCount": 3, "elementOffset": 4}
    assert results(model) == ["Resource 'Out': 10, 14, 2"]
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementSizeInBytes": 16, "elementOffset": 1}
    assert results(model) == ["Resource 'Out': 10, 14, 2"]
    model["commands"][0]["bindings"]["ATensor"] = [{"name": "A"}]
    assert results(model) == ["Resource 'Out': 6, 10, -2"]


def test_owned_tensors_are_copied_at_initialisation() -> None:
    model = changed("dispatchables/add/desc/ATensor/Flags", "OWNED_BY_DML")
    model["dispatchables"]["add"]["bindings"] = {"ATensor": "A"}
    del model["commands"][0]["bindings"]["ATensor"]
    model["commands"][0]["bindings"]["OutputTensor"] = "A"  # what A held at the beginning counts
    model["commands"] = [model["commands"][0]] * 3 + [{"type": "print", "resource": "A"}]
    assert results(model) == ["Resource 'A': 6, 10, -2"]


def test_reinterpreted_resources() -> None:
    model = changed("resources/A", {"initialValuesDataType": "UINT32", "initialValues": [0x3F800000, 0x40000000, 0]})
    assert results(model) == ["Resource 'Out': 6, 10, -5"]


def test_iterations_and_repeats() -> None:
    device = NumpyDevice()
    lines = run(ADD, device=device, dispatch_iterations=4, dispatch_repeat=3, timing_verbosity=2).splitlines()
    assert len(device.calls) == 12
    assert lines[0].startswith("Initialize 'add': ")
    assert lines[1] == "Dispatch 'add': 4 iterations"
    assert lines[2].startswith("CPU Timings (Cold) : 1 samples, ")
    assert lines[3].startswith("CPU Timings (Hot)  : 3 samples, ")
    assert lines[4] == "The timings of each iteration: "
    assert [line.split(":")[0] for line in lines[5:9]] == [f"iteration {index}" for index in range(4)]
    assert lines[9] == "Resource 'Out': 6, 10, -2"


@pytest.mark.parametrize(("samples", "warmup", "cold"), [(1, 2, 0), (2, 2, 1), (3, 2, 2), (5, 2, 2), (3, 0, 0)])
def test_one_sample_is_always_hot(samples: int, warmup: int, cold: int) -> None:
    lines = run(ADD, dispatch_iterations=samples, warmup_samples=warmup, timing_verbosity=1).splitlines()
    assert any(line.startswith(f"CPU Timings (Cold) : {cold} samples") for line in lines) == (cold > 0)
    assert any(line.startswith(f"CPU Timings (Hot)  : {samples - cold} samples") for line in lines)


def test_time_to_run_overrides_iterations() -> None:
    device = NumpyDevice()
    run(ADD, device=device, milliseconds_to_run=30, dispatch_interval=5)
    assert 2 <= len(device.calls) <= 7


def test_progress_is_reported() -> None:
    shares: list[float] = []
    options = RunOptions(milliseconds_to_run=350, dispatch_interval=2)
    report = TextReport(options, io.StringIO())
    executor(read(ADD), None, options, report, lambda name, share: shares.append(share)).run()
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 1.0


def test_commands_are_announced() -> None:
    lines = run(changed("commands", ADD["commands"][1:]), print_commands=True).splitlines()
    assert lines == [
        '[StartCmd][0000]\t: {"type":"print","resource":"Out"}',
        "Resource 'Out': 0, 0, 0",
        "[EndCmd][0000]\t: hr=0x00000000 ",
        "",
    ]


def test_number_formats() -> None:
    values = np.array([0, -0.0, 1, 0.1, 1e6, 1234567, 1e-5, 1 / 3, np.nan, np.inf, -np.inf], np.float32)
    expected = "0, -0, 1, 0.1, 1e+06, 1.23457e+06, 1e-05, 0.333333, nan, inf, -inf"
    assert "".join(format_elements(values)) == expected
    assert "".join(format_elements(np.array([-(1 << 63), 0]))) == "-9223372036854775808, 0"
    assert "".join(format_elements(np.array([(1 << 64) - 1], np.uint64))) == "18446744073709551615"
    assert "".join(format_elements(np.array([65, 255], np.uint8))) == "65, 255"
    many = np.arange(40_000, dtype=np.int32)
    assert "".join(format_elements(many)) == ", ".join(map(str, range(40_000)))


def test_verbose_printing() -> None:
    values = np.array([1.5, 0, -1] + [0] * 8, np.float32)
    lines = "".join(format_elements_verbose(values)).splitlines()
    assert lines[:3] == ["[ 0] 1.5 (0x3FC00000)", "[ 1] 0 (0x       0)", "[ 2] -1 (0xBF800000)"]
    model = changed("commands/1/verbose", True)
    assert "Resource 'Out':\n[0] 6 (0x40C00000)\n[1] 10 (0x41200000)\n[2] -2 (0xC0000000)\n\n" in run(model)


# ---- what is wrong with a model


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("commands", {}, "commands", "expected an array, got an object"),
        ("comands", [], "", "unknown member 'comands'; did you mean 'commands'?"),
        ("resources", [], "resources", "expected an object, got an array"),
        ("commands/0", 5, "commands[0]", "expected an object, got 5"),
        ("commands/0/type", "disptch", "commands[0].type", "unknown command 'disptch'; did you mean 'dispatch'?"),
        ("commands/0/dispatchable", "ad", "commands[0].dispatchable", "unknown dispatchable 'ad'; did you mean 'add'?"),
        ("commands/1/resource", "Oui", "commands[1].resource", "unknown resource 'Oui'; did you mean 'Out'?"),
        ("commands/1/verbose", 1, "commands[1].verbose", "expected true or false, got 1"),
        ("commands/0/threadGroupCount", [1, 1], "commands[0].threadGroupCount", "expected 3 elements, got 2"),
        ("commands/0/bindings/ATensor", "X", "commands[0].bindings.ATensor", "unknown resource 'X'"),
        ("commands/0/bindings/ATensor", 5, "commands[0].bindings.ATensor", "expected the name of a resource"),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOfset": 4},
            "commands[0].bindings.ATensor",
            "unknown member 'elementOfset'; did you mean 'elementOffset'?",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": -1},
            "commands[0].bindings.ATensor.elementOffset",
            "-1 is outside",
        ),
        ("commands/0/bindings/CTensor", "A", "commands[0].bindings", "unknown bind point 'CTensor'; did you mean"),
        ("commands/0/bindings/ATensor", ["A", "B"], "commands[0].bindings.ATensor", "must be bound here, got 2"),
        ("commands/0/bindings/ATensor", [], "commands[0].bindings.ATensor", "1 resources must be bound here, got 0"),
        ("commands/0/bindings", {}, "commands[0].bindings.ATensor", "a resource must be bound to this tensor"),
        (
            "resources/A/initialValues",
            [1],
            "commands[0].bindings.ATensor",
            "ATensor needs 12 bytes, but 'A' has 4",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": 1 << 60},
            "commands[0].bindings.ATensor",
            "ATensor needs 12 bytes, but 'A' has 0 from offset 4611686018427387904 on",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": 0, "elementCount": 4},
            "commands[0].bindings.ATensor",
            "elementOffset and elementCount reach beyond the 12 bytes of 'A'",
        ),
        (
            "resources/A/sizeInBytes",
            13,
            "commands[0].bindings.ATensor",
            "the bound range, 13 bytes, is not a multiple of 4",
        ),
        ("dispatchables/add/type", "hlsl", "dispatchables.add.type", "HLSL dispatchables are not supported yet"),
        (
            "dispatchables/add/type",
            "dmlSerializedGraph",
            "dispatchables.add",
            "unknown member 'desc'",
        ),
        ("dispatchables/add/dmlCompileType", "Op", "dispatchables.add.dmlCompileType", "unknown compile type 'Op'"),
        ("dispatchables/add/executionFlags", ["X"], "dispatchables.add.executionFlags[0]", "unknown execution flag"),
        ("dispatchables/add/executionFlags", 1, "dispatchables.add.executionFlags", "expected a string"),
        ("dispatchables/add/descr", {}, "dispatchables.add", "unknown member 'descr'; did you mean 'desc'?"),
        ("dispatchables/add/bindings", {"ATensor": "A"}, "dispatchables.add.bindings.ATensor", "is not OWNED_BY_DML"),
        ("dispatchables/add/bindings", {"BTensor": "Z"}, "dispatchables.add.bindings.BTensor", "unknown resource 'Z'"),
        ("dispatchables/add/type", "ELEMENT_WISE_AD", "dispatchables.add.type", "did you mean"),
        ("dispatchables/add/desc/ATensor/Sizes/0", "x", "dispatchables.add.desc.ATensor.Sizes[0]", "an integer"),
        ("dispatchables/add/desc/ATensor", 3, "dispatchables.add.desc.ATensor", "expected an object"),
        ("dispatchables/add/desc/ATensor/Szes", [], "dispatchables.add.desc.ATensor.Szes", "did you mean 'Sizes'?"),
        ("dispatchables/add/desc", [], "dispatchables.add.desc", "expected an object"),
        (
            "dispatchables/add/desc/ATensor/Flags",
            "OWNED_BY_DML",
            "dispatchables.add.bindings.ATensor",
            "a resource must be bound to it here",
        ),
        (
            "commands/0/bindings/OutputTensor",
            {"name": "A", "elementOffset": 1},
            "commands[0].bindings.OutputTensor",
            "OutputTensor needs 12 bytes, but 'A' has 8 from offset 4 on",
        ),
    ],
)
def test_errors_name_their_place(path: str, value: Any, where: str, message: str) -> None:
    found_path, found_message = problem(changed(path, value))
    assert found_path == where
    assert message in found_message


def test_required_members() -> None:
    for name in ("resources", "dispatchables", "commands"):
        model = {member: value for member, value in ADD.items() if member != name}
        assert problem(model) == ("", f"member '{name}' is required")


def test_overlapping_bindings() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 64, "value": 1})
    offset = {"name": "A", "elementOffset": 4}
    assert run(changed("commands/0/bindings/OutputTensor", offset, model)), "behind ATensor, not overlapping"
    model["commands"][0]["bindings"] |= {"ATensor": "A", "BTensor": {"name": "A", "elementOffset": 0}}
    assert run(model), "two inputs may share bytes"
    model["dispatchables"]["add"]["desc"] = {
        name: {"DataType": "FLOAT32", "Sizes": [8]} for name in ("ATensor", "BTensor", "OutputTensor")
    }
    model["commands"][0]["bindings"] |= {"BTensor": {"name": "A", "elementOffset": 32}, "OutputTensor": offset}
    assert problem(model) == (
        "commands[0].bindings.OutputTensor",
        "OutputTensor overlaps ATensor in resource 'A', and one of them is written",
    )
    model["commands"][0]["bindings"]["OutputTensor"] = "A"
    assert run(model), "in place"


def test_operators_that_cannot_run_in_place() -> None:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "DimensionCount": 1,
        "Offsets": [0],
        "Sizes": [3],
        "Strides": [1],
    }
    model = changed("dispatchables/add", {"type": "SLICE", "desc": desc})
    model["commands"][0]["bindings"] = {"InputTensor": "A", "OutputTensor": "A"}
    assert problem(model) == (
        "commands[0].bindings.OutputTensor",
        "OutputTensor and InputTensor are bound to the same bytes, with an operator that cannot run in place",
    )


def test_in_place_with_another_layout() -> None:
    desc = {
        "ATensor": {"DataType": "FLOAT32", "Sizes": [2, 2], "Strides": [1, 2]},
        "BTensor": {"DataType": "FLOAT32", "Sizes": [2, 2]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 2]},
    }
    model = changed("dispatchables/add/desc", desc)
    for name in ("A", "B"):
        model["resources"][name]["initialValues"] = [1, 2, 3, 4]
    model["commands"][0]["bindings"]["OutputTensor"] = "A"
    assert "with different layouts" in problem(model)[1]


def test_outputs_that_share_bytes() -> None:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
        "OutputCount": 2,
        "OutputTensors": [{"DataType": "FLOAT32", "Sizes": [1]}] * 2,
        "Axis": 0,
    }
    model = changed("dispatchables/add", {"type": "SPLIT", "desc": desc})
    model["commands"][0]["bindings"] = {"InputTensor": "A", "OutputTensors": ["Out", "Out"]}
    assert problem(model) == (
        "commands[0].bindings.OutputTensors[1]",
        "OutputTensors[0] and OutputTensors[1] are bound to the same bytes",
    )


def test_alignment() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 64, "value": 1})
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementOffset": 2}
    assert problem(model)[1] == "the offset, 8 bytes, is not a multiple of 16"
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementOffset": 4}
    model["dispatchables"]["add"]["desc"]["ATensor"]["GuaranteedBaseOffsetAlignment"] = 64
    assert problem(model)[1] == "the offset, 16 bytes, is not a multiple of 64"


def test_invalid_operators_are_reported_whole() -> None:
    model = changed("dispatchables/add/desc/BTensor/Sizes", [4])
    model["dispatchables"]["add"]["desc"]["OutputTensor"]["DataType"] = "INT64"
    path, message = problem(model)
    assert path == "dispatchables.add"
    assert message.startswith("DML_OPERATOR_ELEMENT_WISE_ADD is invalid at feature level 6_4:\n")
    assert "\n  dispatchables.add.desc.BTensor.Sizes" in message
    assert "\n  dispatchables.add.desc.OutputTensor" in message
    report = check_model(read(model), "6_4")
    assert list(report.violations) == ["add"]
    assert len(report.violations["add"]) >= 2
    assert not report.binding_problems


def test_nothing_runs_if_a_later_command_is_wrong() -> None:
    device = NumpyDevice()
    model = changed("commands", [ADD["commands"][0], changed("commands/0/bindings/ATensor", [])["commands"][0]])
    with pytest.raises(ModelFormatError, match=r"^commands\[1\]"):
        run(model, device=device)
    assert device.calls == []


def test_model_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, contents, message in (
        ("binary.json", b"\xff\xfe\x00", "not UTF-8 text: invalid start byte at byte 0"),
        ("model.onnx", b"\x08\x07\x12\x07pytorch", "it is no ONNX model: it has no graph or no set of operators"),
        ("empty.json", b"", "the file is empty; expected an ONNX model"),
    ):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(ModelFormatError, match=message):
            read_model(tmp_path / name)
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "a\0b.json"):
        with pytest.raises(ModelFormatError, match="cannot read the file"):
            read_model(path)
    (tmp_path / "mark.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(ADD).encode())
    assert results(read_model(tmp_path / "mark.json")) == ["Resource 'Out': 6, 10, -2"]


def test_files_that_there_is_no_memory_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError

    (tmp_path / "add.json").write_text(json.dumps(ADD))
    places = [
        (model_file, "parse_resource", "resources.A: there is no memory to read it"),
        (model_file, "parse", "there is no memory to read it"),
        (model_file, "read_file", "there is no memory to read it"),
    ]
    for module, function, message in places:
        with monkeypatch.context() as patch:
            patch.setattr(module, function, without_memory)
            with pytest.raises(ModelFormatError) as caught:
                read_model(tmp_path / "add.json")
        assert str(caught.value) == message


# ---- hostile input


@given(mutated_models())
@examples(400)
def test_mutated_models_fail_cleanly(tmp_path_factory: pytest.TempPathFactory, model: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        parsed = read(model, folder, memory_limit=1 << 20)
        check_model(parsed, "2_0")
        run(parsed)
    except ModelFormatError as error:
        assert str(error)
        assert "\n" not in error.path


@given(st.integers(0, 2000), st.text(max_size=3), st.integers(0, 4))
@examples(200)
def test_damaged_text_fails_cleanly(position: int, noise: str, removed: int) -> None:
    text = json.dumps(ADD)
    position %= len(text)
    try:
        run(read(text[:position] + noise + text[position + removed :], memory_limit=1 << 20))
    except OpendmlError as error:
        assert isinstance(error, ModelFormatError)
