"""The program ``opendml``: what it prints, where, and with which exit status."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_lines import invoke
from dxdispatch_models import ADD, changed, mutated_models
from hypothesis import given
from properties import HANGS, examples

import opendml
from opendml.command_line.commands import COMMANDS, DXDISPATCH_OPTIONS
from opendml.command_line.parsing import option_of
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.operators import unavailable

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAM = [sys.executable, "-m", "opendml"]


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False, **options)


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(ADD))
    return path


def save(path: Path, model: Any) -> Path:
    path.write_text(json.dumps(model))
    return path


# ---- help


def test_help() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in ("run", "check", "ops", "explain", "profile"):
        assert f"\n  {command} " in result.stdout
        text = invoke(command, "--help").stdout
        assert "Example" in text
        assert f"opendml {command}" in text
    assert invoke("--version").stdout == f"opendml {opendml.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from opendml.command_line import main; main(['run', '--help']); print(*sys.modules)"
    command = [sys.executable, "-c", code]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "opendml.command_line.commands" in modules
    assert (
        not {"numpy", "llvmlite", "opendml.formats.dxdispatch", "opendml.programs.device", "opendml.description.enums"}
        & modules
    )


def test_usage_errors() -> None:
    for arguments in (["run", "--unknown"], ["check"], ["run", "-i", "0", "x"], ["run", "-v", "3", "x"], ["nonsense"]):
        assert invoke(*arguments).exit_code == 2
    result = invoke("run")
    assert result.exit_code == 2
    assert result.stderr == "error: a model is missing: opendml run MODEL.json\n"


# ---- run


def test_run() -> None:
    result = invoke("run", EXAMPLES / "slice1.json")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Running on '")
    assert lines[1].startswith("Dispatch 'slice_forwards': 1 iterations, ")
    assert lines[3:] == ["Resource 'forwards': 2, 4, 10, 12", "Resource 'backwards': 14, 16, 6, 8"]
    assert result.stderr == ""


def test_run_options(model_file: Path, tmp_path: Path) -> None:
    result = invoke("run", model_file, "-i", 3, "-r", 2, "-w", 2, "-v", 2, "-I", 1, "--threads", 1, "-a", "cpu")
    lines = result.stdout.splitlines()
    assert [line.split(":")[0].rstrip() for line in lines[1:]] == [
        "Initialize 'add'",
        "Dispatch 'add'",
        "CPU Timings (Cold)",
        "CPU Timings (Hot)",
        "The timings of each iteration",
        "iteration 0",
        "iteration 1",
        "iteration 2",
        "Resource 'Out'",
    ]
    assert "2 samples" in lines[3]
    result = invoke("run", model_file, "-t", 20, "--print_commands", "--dml_feature_level", "3.0")
    assert '[StartCmd][0001]\t: {"type":"print","resource":"Out"}' in result.stdout
    write = save(
        tmp_path / "write.json", changed("commands/1", {"type": "writeFile", "resource": "Out", "targetPath": "x"})
    )
    assert invoke("run", write, "--output_path", tmp_path / "new").exit_code == 0
    assert (tmp_path / "new" / "x").stat().st_size == 12


def test_files_are_written_to_the_current_folder_by_default(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write = changed("commands/1", {"type": "writeFile", "resource": "Out", "targetPath": "out.dat"})
    save(tmp_path / "models" / "write.json", write)
    assert program("run", "models/write.json", cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out.dat"]


def test_adapters(model_file: Path) -> None:
    result = invoke("run", "-s")
    assert result.exit_code == 0
    assert "\n-Device: cpu\n" in result.stdout
    result = invoke("run", model_file, "-a", "no such thing")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "no adapter matches 'no such thing'; there are: " in result.stderr


def test_devices(model_file: Path) -> None:
    compiled, interpreted = (invoke("run", model_file, "--device", name) for name in ("cpu", "reference"))
    assert (compiled.exit_code, interpreted.exit_code) == (0, 0)
    assert interpreted.stdout.splitlines()[0] == "Running on 'Interpreter of the operators' definitions'"
    assert compiled.stdout.splitlines()[-1] == interpreted.stdout.splitlines()[-1] == "Resource 'Out': 6, 10, -2"
    assert invoke("run", model_file, "-a", "interpreter").stdout.splitlines()[0] == interpreted.stdout.splitlines()[0]
    assert "\n-Device: reference\n" in invoke("run", "-s").stdout
    refused = invoke("run", model_file, "--device", "gpu")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {model_file}: no device 'gpu'; there are: cpu, reference")
    refused = invoke("run", model_file, "--device", "reference", "--threads", "2")
    assert refused.exit_code == 2
    assert "the reference device has one thread" in refused.stderr


@pytest.mark.parametrize("command", ["explain", "profile"])
def test_the_reference_device_has_no_kernels(command: str, model_file: Path) -> None:
    result = invoke(command, model_file, "--device", "reference")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: --device reference: it interprets the operators' definitions, so there are no kernels to {command}\n"
    )
    assert "unknown device 'gpu'" in invoke(command, model_file, "--device", "gpu").stderr


def test_every_device_judges_alike(model_file: Path) -> None:
    result = invoke("check", model_file, "--device", "reference")
    assert result.exit_code == 0
    assert result.stderr == "note: --device changes nothing here: Every device judges models alike.\n"


def test_time_overrides_iterations(model_file: Path) -> None:
    """As in DxDispatch: -t is how long a dispatch repeats, whatever -i says."""
    for options, count in ((["-i", "3"], 3), (["-i", "3", "-t", "0"], 1)):
        (dispatch,) = json.loads(invoke("run", model_file, "--json", *options).stdout)["dispatches"]
        assert dispatch["iterations"] == count


def test_bad_input_gives_one_message_and_status_2(tmp_path: Path) -> None:
    bad = changed("dispatchables/add/desc/ATensor/Sizes", [3, "x"])
    path = save(tmp_path / "bad.json", bad)
    message = "dispatchables.add.desc.ATensor.Sizes[1]: expected an integer, got x\n"
    result = invoke("run", path)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {path}: {message}")
    result = invoke("check", path)
    assert (result.exit_code, result.stdout, result.stderr) == (2, message, "1 problem at feature level 6_4\n")
    (tmp_path / "broken.json").write_text('{\n  "resources": oops')
    result = invoke("run", tmp_path / "broken.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "malformed JSON, line 2, column 16: expecting value at 'oops'" in result.stderr
    assert invoke("run", tmp_path / "missing.json").exit_code == 2
    assert invoke("run", tmp_path).exit_code == 2


def test_invalid_operators_do_not_run(tmp_path: Path) -> None:
    path = save(tmp_path / "bad.json", changed("dispatchables/add/desc/BTensor/Sizes", [4]))
    result = invoke("run", path)
    assert result.exit_code == 2
    assert "Resource" not in result.stdout
    assert "  dispatchables.add.desc.BTensor.Sizes" in result.stderr


def test_memory_limit(tmp_path: Path) -> None:
    big = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 1 << 20, "value": 0}}
    path = save(tmp_path / "big.json", changed("resources/A", big))
    result = invoke("run", path, "--memory_limit", 1)
    assert result.exit_code == 2
    assert "resources.A: the resources up to this one need 4194304 bytes; the limit is 1048576 bytes" in result.stderr
    assert invoke("run", path, "--memory_limit", 8).exit_code == 0


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    model = json.loads(json.dumps(ADD).replace('"Out"', '"Out\\u001b[2J"').replace('"add"', '"add\\u0007\\ud800"'))
    result = program("run", save(tmp_path / "model.json", model))
    assert result.returncode == 0
    assert "Resource 'Out\\x1b[2J': 6, 10, -2" in result.stdout
    assert "Dispatch 'add\\x07\\ud800'" in result.stdout
    model["resources"]["B"]["initialValuesDataType"] = "\u001b[31m"
    for command in ("run", "check"):
        result = program(command, save(tmp_path / "model.json", model))
        assert result.returncode == 2
        assert "\x1b" not in result.stdout + result.stderr.replace("error", "")


def test_reader_that_goes_away(tmp_path: Path) -> None:
    sequence = {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 500_000, "value": 123456}}
    model = {"resources": {"x": sequence}, "dispatchables": {}, "commands": [{"type": "print", "resource": "x"}]}
    arguments = [*PROGRAM, "run", str(save(tmp_path / "model.json", model))]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def large_graph(path: Path) -> Path:
    """A graph whose code takes a while to compile."""
    graph = opendml.Graph()
    x = graph.input("float32", [4, 1024], name="x")
    outputs = {}
    for number in range(5):
        part = opendml.slice(
            x, input_window_offsets=[0, 0], input_window_sizes=[4, 1000 - 8 * number], input_window_strides=[1, 1]
        )
        outputs[f"y{number}"] = opendml.activation_softmax(opendml.activation_gelu(part), axes=[1])
    opendml.save(graph.describe(outputs), path)
    return path


@pytest.mark.sampled
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal")
@pytest.mark.parametrize("command", ["profile", "run"])
def test_a_long_compilation_is_drawn_on_a_terminal(command: str, tmp_path: Path) -> None:
    import pty

    graph = large_graph(tmp_path / "large.bin")
    options = ["-t", "1"] if command == "profile" else []
    terminal, stderr = pty.openpty()
    environment = {**os.environ, "OPENDML_CACHE": "0", "TERM": "xterm"}
    arguments = [*PROGRAM, command, str(graph), *options]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=stderr, env=environment) as process:
        os.close(stderr)
        drawn = b""
        with contextlib.suppress(OSError):  # the end of the terminal
            while data := os.read(terminal, 1 << 16):
                drawn += data
        os.close(terminal)
    assert process.returncode == 0, drawn
    assert b"compiling large" in drawn
    assert b"%" in drawn


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["profile", "run"])
def test_nothing_is_drawn_where_there_is_no_terminal(command: str, tmp_path: Path) -> None:
    quiet = program(command, large_graph(tmp_path / "large.bin"), *(["-t", "1"] if command == "profile" else []))
    assert quiet.returncode == 0
    assert quiet.stderr == ""


# ---- check


def test_check(model_file: Path, tmp_path: Path) -> None:
    result = invoke("check", model_file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "valid at feature level 6_4: 1 operator\n", "")
    result = invoke("check", EXAMPLES / "slice1.json", "--feature-level", "2_0")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("dispatchables.slice_forwards.desc: ")
    assert "2_1" in lines[0]
    assert lines[1].startswith("dispatchables.slice_backwards.desc: ")
    assert result.stderr == "2 violations at feature level 2_0\n"


def test_check_lists_everything(tmp_path: Path) -> None:
    model = changed("dispatchables/add/desc/BTensor/Sizes", [4])
    model["dispatchables"]["add"]["desc"]["OutputTensor"]["DataType"] = "INT64"
    model["dispatchables"]["fine"] = ADD["dispatchables"]["add"]
    model["commands"].append({"type": "dispatch", "dispatchable": "fine", "bindings": {"ATensor": "A"}})
    result = invoke("check", save(tmp_path / "bad.json", model))
    assert result.exit_code == 2, "bindings are wrong too"
    lines = result.stdout.splitlines()
    assert any(line.startswith("dispatchables.add.desc.BTensor.Sizes") for line in lines)
    assert any(line.startswith("dispatchables.add.desc.OutputTensor") for line in lines)
    assert "commands[2].bindings.BTensor: a resource must be bound to this tensor" in lines


def test_feature_levels(model_file: Path) -> None:
    for level in ("3.1", "DML_FEATURE_LEVEL_3_0", "dml_feature_level_3_0"):
        assert invoke("check", model_file, "--feature-level", level).exit_code == 0
    result = invoke("check", model_file, "--feature-level", "7_0")
    assert result.exit_code == 2
    assert "error: --feature-level: '7_0' is not a DML_FEATURE_LEVEL: one of 1_0, 2_0" in result.stderr


# ---- ops and explain


def test_ops() -> None:
    result = invoke("ops")
    assert result.exit_code == 0
    for name in opendml.catalogue:
        assert f" {name} " in result.stdout or f"\n{name} " in result.stdout
    for name in opendml.catalogue:
        result = invoke("ops", name)
        assert result.exit_code == 0
        entry = opendml.catalogue[name]
        assert result.stdout.startswith(f"{entry.name} ({entry.struct}), since feature level {entry.since}")
        for field in entry.fields:
            assert field.name in result.stdout
        assert "What the documentation leaves open (docs/semantics.md" in result.stdout
    assert invoke("ops", "slice1").stdout == invoke("ops", "DML_OPERATOR_SLICE1").stdout


def test_ops_unknown() -> None:
    result = invoke("ops", "SLICE9")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr


def test_explain() -> None:
    result = invoke("explain", EXAMPLES / "slice1.json")
    assert result.exit_code == 0
    assert "# slice_forwards" in result.stdout
    assert "# slice_backwards" in result.stdout
    longer = invoke("explain", EXAMPLES / "slice1.json", "--llvm", "--asm").stdout
    assert "define" in longer
    assert len(longer) > len(result.stdout)


# ---- hostile input


@given(mutated_models())
@examples(150)
def test_hostile_models_are_checked_cleanly(tmp_path_factory: pytest.TempPathFactory, model: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    path.write_text(json.dumps(model))
    result = invoke("check", path)
    assert result.exit_code in (0, 1, 2)
    assert bool(result.stderr) == (result.exit_code > 0)


@given(mutated_models())
@examples(60)
def test_hostile_models_run_cleanly(tmp_path_factory: pytest.TempPathFactory, model: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "hostile.json"
    path.write_text(json.dumps(model))
    result = invoke("run", path, "--memory_limit", 1, "--output_path", folder / "written")
    assert result.exit_code in (0, 2)
    assert bool(result.stderr) == (result.exit_code > 0)


@pytest.mark.parametrize("name", ["DML_SLICE1_OPERATOR_DESC", "DML_OPERATOR_SLICE1", "slice1", "Slice1"])
def test_operators_are_shown_by_the_names_of_the_pages(name: str) -> None:
    result = invoke("ops", name)
    assert result.exit_code == 0
    assert result.stdout.startswith("SLICE1 (DML_SLICE1_OPERATOR_DESC), since feature level 2_1")


def test_no_operator() -> None:
    result = invoke("ops", "INVALID")
    assert result.exit_code == 2
    assert result.stderr == f"error: {unavailable(OperatorType.INVALID)}\n"


# ---- output for programs, completion, options of DxDispatch


def test_json(model_file: Path, tmp_path: Path) -> None:
    found = json.loads(invoke("run", model_file, "--json", "-v", 2, "-i", 2).stdout)
    assert found["resources"] == [{"resource": "Out", "data_type": "FLOAT32", "values": [6.0, 10.0, -2.0]}]
    (dispatch,) = found["dispatches"]
    assert (dispatch["dispatchable"], dispatch["iterations"], len(dispatch["milliseconds"])) == ("add", 2, 2)
    assert [entry["dispatchable"] for entry in found["initializations"]] == ["add"]
    odd = changed("resources/A/initialValues", ["nan", "inf", 1])
    odd["commands"].append({"type": "writeFile", "resource": "Out", "targetPath": "x.npy"})
    result = invoke("run", save(tmp_path / "odd.json", odd), "--json", "--output_path", tmp_path)
    found = json.loads(result.stdout)
    assert found["resources"][0]["values"] == ["nan", "inf", -4.0]
    assert found["files"] == [{"resource": "Out", "path": str(tmp_path / "x.npy")}]


def test_check_as_json(model_file: Path, tmp_path: Path) -> None:
    result = invoke("check", model_file, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["valid"] is True
    bad = save(tmp_path / "bad.json", changed("dispatchables/add/desc/BTensor/Sizes", [4]))
    result = invoke("check", bad, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["valid"]
    violation = found["violations"][0]
    assert (violation["dispatchable"], violation["path"]) == ("add", "dispatchables.add.desc")
    assert violation["field"].startswith("BTensor.Sizes")
    result = invoke("check", save(tmp_path / "worse.json", changed("commands/1/type", "prnt")), "--json")
    assert result.exit_code == 2
    assert [unread["path"] for unread in json.loads(result.stdout)["unreadable"]] == ["commands[1].type"]
    result = invoke("check", tmp_path / "missing.json", "--json")
    assert result.exit_code == 2
    assert "cannot read the file" in json.loads(result.stdout)["error"]["message"]
    assert result.stderr.startswith("error: ")


def test_profiles_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"resources": {}, "dispatchables": {}, "commands": []}')
    result = invoke("profile", tmp_path / "model.json")
    assert result.exit_code == 2
    assert "there is no dispatch command, so there is nothing to profile" in result.stderr


def test_catalogue_explanations_and_profiles_as_json() -> None:
    entries = json.loads(invoke("ops", "--json").stdout)
    assert [entry["name"] for entry in entries] == list(opendml.catalogue)
    (entry,) = json.loads(invoke("ops", "slice1", "--json").stdout)
    assert {
        "section": "Descriptors and rules",
        "text": "SLICE: Strides[i] = 0 and Sizes[i] = 0 are rejected.",
    } in entry["decisions"]
    assert entry["support"]["2_1"]["InputTensor"]["ranks"] == [4, 5]
    explained = json.loads(invoke("explain", EXAMPLES / "slice1.json", "--json").stdout)
    assert [one["dispatchable"] for one in explained] == ["slice_forwards", "slice_backwards"]
    profiles = json.loads(invoke("profile", EXAMPLES / "split.json", "-t", 1, "--json").stdout)
    assert [len(one["kernels"]) for one in profiles] == [3, 2]


def test_options_of_dxdispatch_that_mean_nothing(model_file: Path) -> None:
    arguments: list[str] = []
    for option in DXDISPATCH_OPTIONS:
        arguments += [option.names[-1], *(["1"] if option.metavar else [])]
    result = invoke("run", "-m", model_file, *arguments)
    assert result.exit_code == 0
    assert "Resource 'Out': 6, 10, -2" in result.stdout
    lines = result.stderr.splitlines()
    assert len(lines) == len(DXDISPATCH_OPTIONS)
    assert all(line.startswith("note: --") for line in lines)
    assert invoke("run", model_file, "-m", model_file).exit_code == 2
    assert "llvmlite" in invoke("run", "--show_dependencies").stdout


def test_arguments_in_any_order(model_file: Path) -> None:
    for arguments in (["-i", 1, model_file], [model_file, "-i", 1], ["--print_commands", model_file, "-i=1"][:2]):
        assert invoke("run", *arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chekc"], "unknown command 'chekc'; did you mean 'check'?"),
        (["nonsense"], "unknown command 'nonsense'; known: run, check,"),
        (["--versoin"], "unknown option '--versoin'; did you mean '--version'?"),
        (["check"], "MODEL is missing"),
        (["check", "x", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
        (["run", "x", "y"], "unknown argument 'y'"),
        (["run", "x", "-i", "1" * 9000], "expected a number from 1 to 4294967295, got '111"),
        (["run", "x", "-i"], "--dispatch_iterations/-i: expected one argument"),
        (["run", "--" + "x" * 9000], "unknown option '--xxx"),
        (["ops", "x" * 9000], "is not a DML_OPERATOR_TYPE"),
        (["check", "x" * 9000], "File name too long|cannot read|no file"),
        (["check", "a\0b"], "a path cannot have the character"),
        (["completion", "csh"], "unknown shell 'csh'"),
        (["run", "x", "-a", "y" * 9000], "no adapter matches 'yyy"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_one_line(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert re.search(message.replace("?", r"\?"), result.stderr)
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 600


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = invoke("completion", shell).stdout
    for command in COMMANDS.values():
        assert command.name in script
        for option in command.options:
            for name in option.names if not option.is_positional else ():
                assert (f"-l {name[2:]}" if shell == "fish" else name) in script or not name.startswith("--")
    assert "MAX_POOLING1" in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ch"], ["check"]),
        (["run", "--show_ad"], ["--show_adapters"]),
        (["ops", "max_pooling1"], ["MAX_POOLING1"]),
        (["check", "--feature-level", "6_"], ["6_0", "6_1", "6_2", "6_3", "6_4"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str]) -> None:
    script = invoke("completion", "bash").stdout
    line = " ".join(["opendml", *words])
    code = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _opendml; printf "%s\\n" "${{COMPREPLY[@]}}"'
    result = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == expected
    assert result.stderr == ""


# ---- memory and files


SLOW_SUM = {
    "type": "DML_OPERATOR_GEMM",
    "desc": {
        "ATensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 600, 600]},
        "BTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 600, 600]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 600, 600]},
        "TransA": "NONE",
        "TransB": "NONE",
        "Alpha": 1.0,
        "Beta": 0.0,
    },
}


def chain(path: Path) -> Path:
    """Two matrix products, one after the other: the first one's result is a temporary tensor of 160,000 bytes."""
    graph = opendml.Graph()
    x = graph.input("float32", [1, 1, 200, 200], name="x")
    opendml.save(graph.describe({"y": opendml.gemm(opendml.gemm(x, x), x)}), path)
    return path


def test_memory_limit_covers_the_interpreter(tmp_path: Path) -> None:
    """It copies its tensors, and keeps all of those in between."""
    path = chain(tmp_path / "chain.bin")
    result = invoke("run", path, "--device", "reference", "--memory_limit", "1")
    assert result.exit_code == 0
    device, graph = opendml.Device("reference"), opendml.load(path)
    assert isinstance(graph, opendml.GraphDesc)
    needed = device.compile_graph(graph).binding_properties.temporary_resource_size
    assert needed == 3 * 160_000
    with pytest.raises(opendml.OutOfMemoryError):
        device.compile_graph(graph, memory_limit=needed - 1)


def test_memory_limit_covers_temporaries(tmp_path: Path) -> None:
    """The model's tensors take 320,000 bytes of 1 MiB; with the temporary tensors it is more than can be left."""
    from opendml.description.errors import ModelFormatError
    from opendml.formats.dxdispatch import Executor
    from opendml.formats.models import read_model

    path = chain(tmp_path / "chain.bin")
    device, graph = opendml.Device(thread_count=2), opendml.load(path)
    assert isinstance(graph, opendml.GraphDesc)
    needed = device.compile_graph(graph).binding_properties.temporary_resource_size
    assert needed >= 160_000
    with pytest.raises(opendml.OutOfMemoryError, match="bytes for temporary tensors"):
        device.compile_graph(graph, memory_limit=needed - 1)
    Executor(read_model(path, memory_limit=320_000 + needed), device)
    with pytest.raises(ModelFormatError, match=r"temporary tensors.*--memory_limit"):
        Executor(read_model(path, memory_limit=320_000 + needed - 1), device)


def test_temporaries_of_operators_count_too(tmp_path: Path) -> None:
    """Softmax over a dimension that is not the last one needs memory of its own for each thread, or none."""
    from opendml.description.errors import ModelFormatError
    from opendml.formats.dxdispatch import Executor, Folders, parse_model

    size = 600 * 600 * 4
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 600 * 600, "value": 0}}
    bindings = {"ATensor": "x", "BTensor": "x", "OutputTensor": "y"}
    model = {
        "resources": {"x": resource, "y": resource},
        "dispatchables": {"gemm": SLOW_SUM},
        "commands": [{"type": "dispatch", "dispatchable": "gemm", "bindings": bindings}],
    }
    folders, device = Folders(tmp_path, tmp_path), opendml.Device(thread_count=2)
    parsed = parse_model(json.dumps(model), folders)
    gemm = parsed.dispatchables["gemm"].desc
    assert isinstance(gemm, Operator)
    needed = device.compile(gemm).temporary_size
    assert needed > 0
    Executor(parse_model(json.dumps(model), folders, memory_limit=2 * size + needed), device)
    with pytest.raises(ModelFormatError, match=r"dispatchables.gemm: it needs \d+ bytes for temporary tensors"):
        Executor(parse_model(json.dumps(model), folders, memory_limit=2 * size + needed - 1), device)


def test_comma_separated_values(tmp_path: Path) -> None:
    values = [0.1, -1, 1e-30, 3e38, "nan", "-inf"]
    model = changed("resources/A", {"initialValuesDataType": "FLOAT32", "initialValues": values})
    model["resources"]["I"] = {"initialValuesDataType": "INT64", "initialValues": [-(2**63), 2**63 - 1]}
    model["commands"] = [
        {"type": "writeFile", "resource": "A", "targetPath": "a.csv", "dimensions": [2, 3]},
        {"type": "writeFile", "resource": "I", "targetPath": "i.CSV"},
    ]
    result = invoke("run", save(tmp_path / "model.json", model), "--output_path", tmp_path)
    assert result.exit_code == 0
    assert (tmp_path / "a.csv").read_text() == "0.1,-1,1e-30\n3e+38,nan,-inf\n"
    assert (tmp_path / "i.CSV").read_text() == "-9223372036854775808,9223372036854775807\n"


def test_arguments_that_messages_name_are_options() -> None:
    """What is an argument of a function in Python is typed on the command line."""
    assert option_of("sizes", {"batch": 1, "x": [1, 3]}) == "--size batch=1,x=1x3"
    assert option_of("narrow_float64", True) == option_of("narrow_float64") == "--narrow-float64"
    assert option_of("batch_size", 8) == "--batch 8" and option_of("image_size", (2, 3)) == "--image-size 2x3"
    texts = [path.read_text("utf-8") for path in Path(opendml.__file__).parent.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"""\bargument\(["'](\w+)["']""", text)}
    options = {name for command in COMMANDS.values() for option in command.options for name in option.names}
    assert {"sizes", "values", "narrow_float64", "batch_size"} <= named
    assert {option_of(name) for name in named} <= options
