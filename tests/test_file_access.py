"""Files: regular ones only, no more of them than expected, written whole or not at all; by everybody who has files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import invoke
from dxdispatch_models import ADD, changed

import opendml as dml
from opendml.description import file_access
from opendml.description.file_access import open_regular, read_file, write_atomically, write_bytes
from opendml.llvm.object_cache import ObjectCache, _read_key

posix = pytest.mark.skipif(os.name != "posix", reason="needs devices and pipes")


def endless(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


SPECIAL = pytest.mark.parametrize("special", [endless, pipe])


@posix
@SPECIAL
def test_only_regular_files_are_read(special: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no regular file"):
        read_file(special(tmp_path / "x"), 10)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10)


@posix
@SPECIAL
@pytest.mark.parametrize("name", ["model.json", "graph.bin"])
def test_models_that_are_no_files(special: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    for command in ("run", "check", "explain", "profile"):
        path = tmp_path / f"{command}-{name}"
        result = invoke(command, special(path))
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "it is no regular file" in result.stderr
        assert result.stderr.count("\n") == 1


@posix
@SPECIAL
@pytest.mark.parametrize("name", ["x.npy", "x.dat", "x.png"])
def test_files_that_models_name(special: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    special(folder / name)
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": name}}
    (folder / "model.json").write_text(json.dumps(changed("resources/A", values)))
    result = invoke("check", folder / "model.json")
    assert result.exit_code == 2
    assert "resources.A.initialValues.sourcePath" in result.output


def test_a_file_that_is_exchanged_for_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at and what is opened may be two files."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs pipes")
    regular = tmp_path / "regular"
    regular.write_bytes(b"1")
    pipe(tmp_path / "pipe")
    status = os.stat(regular)  # noqa: PTH116
    monkeypatch.setattr(os, "stat", lambda path: status)
    with pytest.raises(OSError, match="no regular file"):
        open_regular(tmp_path / "pipe")


def test_no_more_is_read_than_expected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes, more than 4"):
        read_file(path, 4)
    if Path("/proc/self/status").exists():  # a file whose size is said to be 0
        with pytest.raises(OSError, match="more than 16"):
            read_file(Path("/proc/self/status"), 16)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, OSError])
def test_nothing_unfinished_is_left_behind(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def write(file: Any) -> None:
        file.write(b"new")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("x", b"old")]


@posix
def test_devices_are_written_to_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    write_bytes(tmp_path / "null", b"1234")
    assert (tmp_path / "null").is_symlink()
    assert not Path("/dev/null").is_file()


@posix
def test_termination_leaves_nothing_unfinished(tmp_path: Path) -> None:
    """In the program ``opendml``, which sees to it that a termination ends it like an exception."""
    code = """
import os, signal, sys
from pathlib import Path
from opendml import command_line
from opendml.description.file_access import write_atomically
def write(file):
    file.write(b"1")
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000): pass
command_line.main = lambda: write_atomically(Path(sys.argv[1]) / "x", write)
command_line.run_program()
"""
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False)
    assert result.returncode == 128 + signal.SIGTERM, result.stderr
    assert list(tmp_path.iterdir()) == []


@posix
@SPECIAL
def test_cache_entries_and_keys_that_are_no_files(special: Callable[[Path], Path], tmp_path: Path) -> None:
    assert _read_key(special(tmp_path / "key")) is None
    folder = tmp_path / "cache"
    folder.mkdir()
    cache = ObjectCache(folder, 1000, bytes(32))
    special(cache.path(bytes(32)))
    assert cache.read(bytes(32)) is None
    cache.write(bytes(32), b"code")
    assert cache.read(bytes(32)) == b"code"
    cache.path(bytes(32)).write_bytes(bytes(1 << 20))
    assert cache.read(bytes(32)) is None


def test_values_in_any_byte_order(tmp_path: Path) -> None:
    stored = {"f": np.arange(3, dtype=">f4"), "i": np.arange(3, dtype=">i8"), "b": np.array([True, False, True])}
    model: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}
    for name, values in stored.items():
        np.save(tmp_path / f"{name}.npy", values)
        model["resources"][name] = {"initialValues": {"sourcePath": f"{name}.npy"}}
        model["commands"].append({"type": "print", "resource": name})
    (tmp_path / "model.json").write_text(json.dumps(model))
    lines = invoke("run", tmp_path / "model.json").stdout.splitlines()[1:]
    assert lines == ["Resource 'f': 0, 1, 2", "Resource 'i': 0, 1, 2", "Resource 'b': 1, 0, 1"]


# ---- graphs and the files of their constants


def add_of(value: int, count: int = 6, source: str = "w") -> dml.GraphDesc:
    """x + a constant in a file of its own."""
    desc = dml.TensorDesc("float32", [count])
    node = dml.OperatorNode(dml.operators.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc), "add")
    data = np.full(count, value, np.float32).tobytes()
    return dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=(dml.ConstantNode(data, "w", source=source), node),
        input_edges=(dml.InputEdge(0, 1, 0, "x"),),
        intermediate_edges=(dml.IntermediateEdge(0, 0, 1, 1, "w"),),
        output_edges=(dml.OutputEdge(1, 0, 0, "y"),),
        input_names=("x",),
        output_names=("y",),
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_graph_is_replaced_together_with_its_constants(tmp_path: Path) -> None:
    path = tmp_path / "graph.bin"
    dml.save(add_of(1), path)
    assert names(tmp_path) == ["graph.bin", "w.bin"]
    for value in (2, 3, 3, 1, 1):
        dml.save(add_of(value), path)
        assert dml.load(path) == add_of(value)
        assert len(names(tmp_path)) == 2, "what the older graph needed is gone"


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_saving_that_fails_leaves_the_older_graph(
    failing: int, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.bin"
    two = {value: two_constants(value) for value in (1, 2)}
    dml.save(two[1], path)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    real, calls = os.replace, []

    def replace(source: Any, target: Any) -> Any:
        calls.append(target)
        if len(calls) > failing:
            raise error("no room")
        return real(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    defaults = file_access.write_atomically.__kwdefaults__
    assert defaults is not None and "put_in_place" in defaults
    monkeypatch.setattr(file_access.write_atomically, "__kwdefaults__", {**defaults, "put_in_place": replace})
    with pytest.raises((dml.ModelFormatError, KeyboardInterrupt)):
        dml.save(two[2], path)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before
    assert dml.load(path) == two[1]


def two_constants(value: int) -> dml.GraphDesc:
    graph = add_of(value)
    more = add_of(value + 10, source="v").nodes[0]
    second = graph.nodes[1]
    assert isinstance(second, dml.OperatorNode)
    last = dml.OperatorNode(second.operator, "more")
    edges = (
        *graph.intermediate_edges,
        dml.IntermediateEdge(1, 0, 3, 0, "between"),
        dml.IntermediateEdge(2, 0, 3, 1, "v"),
    )
    return dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=(*graph.nodes, more, last),
        input_edges=graph.input_edges,
        intermediate_edges=edges,
        output_edges=(dml.OutputEdge(3, 0, 0, "y"),),
        input_names=("x",),
        output_names=("y",),
    )


def test_graphs_in_one_folder_keep_their_constants(tmp_path: Path) -> None:
    one, other = tmp_path / "one.bin", tmp_path / "other.bin"
    dml.save(add_of(1), one)
    dml.save(add_of(2), other)
    assert (dml.load(one), dml.load(other)) == (add_of(1), add_of(2))
    dml.save(add_of(1), other)
    dml.save(add_of(3), one)
    assert (dml.load(one), dml.load(other)) == (add_of(3), add_of(1))


def test_who_reads_while_a_graph_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants that are read are those of the graph that was read, whatever happens in between."""
    from opendml.formats.serialized_graph import reading

    path = tmp_path / "graph.bin"
    dml.save(add_of(1), path)
    real, waiting = file_access.read_file, [2, 3]

    def read(file: Path, limit: int) -> bytes:
        content = real(file, limit)
        if file == path and waiting:
            dml.save(add_of(waiting.pop(0)), path)
        return content

    monkeypatch.setattr(reading, "read_file", read)
    assert dml.load(path) == add_of(3)


@pytest.mark.parametrize("source", ["graph", "GRAPH", "Graph"])
def test_a_constant_in_the_file_of_the_graph(source: str, tmp_path: Path) -> None:
    with pytest.raises(dml.ModelFormatError, match=f"the file of the constant '{source}' would be that of the graph"):
        dml.save(add_of(1, source=source), tmp_path / "graph.bin")
    assert names(tmp_path) == []


def test_a_trace_in_a_new_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(ADD))
    assert invoke("profile", path, "-t", 1, "--trace", tmp_path / "new" / "trace.json").exit_code == 0
    assert names(tmp_path / "new") == ["trace.json"]
