"""Files of models, graphs and descriptors, mangled, and what must hold for each: only the package's own errors are
raised, and work and memory stay in proportion to the file.

A file is made from its number, ``mangled(number)``; ``read_all(path)`` puts it through every reader. Work is counted in
calls of functions, memory as what Python allocates, so that the bounds hold on any machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from dxdispatch_models import ADD, changed
from sample_descriptors import convolution, samples

import opendml as dml
from opendml.command_line import main
from opendml.description.graph_validation import validate_graph
from opendml.description.validation import validate

LARGEST = 200_000
"""Bytes of a mangled file, at most."""

CALLS, CALLS_A_BYTE = 150_000, 60
MEMORY, MEMORY_A_BYTE = 4_000_000, 500
"""What reading a file by one reader may take: some for any file, and more for each of its bytes. A file may state much
in a few bytes: a hundred operators of a model alone take as many descriptions of fields."""


class Spent(NamedTuple):
    """What a reader took for a file."""

    reader: str
    calls: int
    memory: int


# ---- files


@cache
def originals() -> tuple[bytes, ...]:
    """Valid files: models, descriptors of all operators, serialised graphs with constants and fused activations."""
    descs = [json.dumps({"Type": desc.type.name, "Desc": desc.to_json()}).encode() for desc in samples()]
    return (*_models(), *descs, *_graphs())


def _models() -> list[bytes]:
    sequence = {"valueCount": 5, "valueStart": 1, "valueDelta": 2}
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "x.npy"}}
    write = {"type": "writeFile", "resource": "Out", "targetPath": "out.csv", "dimensions": [3]}
    models = [
        ADD,
        changed("resources/A/initialValues", sequence),
        changed("resources/B", source),
        changed("commands", [*ADD["commands"], write]),
        changed("commands/0/bindings/BTensor", {"name": "B", "elementOffset": 0, "elementCount": 3}),
        changed("dispatchables/add", {"type": "dmlSerializedGraph", "sourcePath": "x.bin"}),
    ]
    many = {desc.type.name: {"type": desc.type.name, "desc": desc.to_json()} for desc in samples()[:40]}
    models.append({**ADD, "dispatchables": many})
    texts = [json.dumps(model, indent=indent) for model in models for indent in (None, 2)]
    return [text.encode() for text in texts] + [f"// a remark\n{texts[1].replace(',', ', /* here */')}".encode()]


def _graphs() -> list[bytes]:
    x = dml.Graph()
    y = dml.activation_relu(x.input("float32", [2, 3], name="x"))
    y = dml.add(dml.multiply(y, x.constant(np.ones((2, 3), np.float32))), y)
    chain = x.describe({"y": dml.reduce(y, "SUM", axes=[1])})
    single = dml.Graph()
    desc = convolution()
    inputs = {name: single.input(tensor.data_type, tensor.sizes, name=name) for name, tensor in desc.inputs() if tensor}
    graphs = [chain, single.describe({"y": dml.activation_tanh(next(iter(inputs.values())))})]
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            dml.save(graph, Path(folder) / "graph.bin")
            files.append((Path(folder) / "graph.bin").read_bytes())
    return files


def mangled(number: int) -> bytes:
    """A file with some damage."""
    random = Random(number)
    data = random.choice(originals())
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = random.choice(DAMAGES)(data, random)[:LARGEST]
    return data


def _place(data: bytes, random: Random) -> tuple[int, int]:
    """A piece of a file, mostly a short one."""
    begin = random.randrange(len(data) + 1)
    length = min(int(random.expovariate(1 / random.choice((2, 8, 60, 400)))), len(data) - begin)
    return begin, begin + length


def _flip(data: bytes, random: Random) -> bytes:
    changed_data = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if changed_data:
            changed_data[random.randrange(len(changed_data))] ^= 1 << random.randrange(8)
    return bytes(changed_data)


def _set(data: bytes, random: Random) -> bytes:
    begin, _ = _place(data, random)
    return data[:begin] + random.randbytes(random.choice((1, 2, 4))) + data[begin + random.choice((0, 1, 4)) :]


def _cut(data: bytes, random: Random) -> bytes:
    begin, end = _place(data, random)
    return random.choice((data[:begin], data[begin:], data[:begin] + data[end:]))


def _repeat(data: bytes, random: Random) -> bytes:
    begin, end = _place(data, random)
    return data[:end] + data[begin:end] * random.choice((1, 2, 30, 1000)) + data[end:]


def _move(data: bytes, random: Random) -> bytes:
    begin, end = _place(data, random)
    rest = data[:begin] + data[end:]
    to = random.randrange(len(rest) + 1)
    return rest[:to] + data[begin:end] + rest[to:]


def _splice(data: bytes, random: Random) -> bytes:
    other = random.choice(originals())
    begin, end = _place(other, random)
    to, behind = _place(data, random)
    return data[:to] + other[begin:end] + data[random.choice((to, behind)) :]


NUMBERS = (
    *(b"0", b"-1", b"1", b"8", b"255", b"4294967295", b"4294967296", b"18446744073709551616", b"1e999", b"-0.0"),
    *(b"1e-400", b"0.5", b"9" * 400, b"7" * 5000, b"1" + b"0" * 4299, b"1e308", b"2147483648", b"65536", b"100000"),
)
WORDS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b'"nan"', b'"A"', b'"\\ud800"', b"NaN", b'"' + b"x" * 3000 + b'"'),
    *(b'{"name": "A"}', b'"DML_OPERATOR_GEMM"', b'"FLOAT64"', b"[1, 2, 3]", b'{"a": 1, "a": 2}', b"/* */", b"// "),
    *(b"\xff\xfe", b"\xc3", b"\x00", "\u202e\u0000".encode(), b"\xed\xa0\x80"),
)


def _number(data: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+", data))
    if not found:
        return _set(data, random)
    begin, end = random.choice(found).span()
    return data[:begin] + random.choice(NUMBERS) + data[end:]


def _word(data: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb'"[^"]*"|\[[^\[\]]*\]|\w+', data))
    begin, end = random.choice(found).span() if found else _place(data, random)
    return data[:begin] + random.choice((*WORDS, *NUMBERS)) + data[end:]


def _nest(data: bytes, random: Random) -> bytes:
    begin, end = _place(data, random)
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"Desc":', b"}"), (b'[{"Type":', b"}]")))
    depth = random.choice((1, 3, 50, 900, 20_000))
    return data[:begin] + opening * depth + data[begin:end] + closing * random.choice((depth, 0)) + data[end:]


DAMAGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(_flip, _flip, _set, _cut, _repeat, _move, _splice),
    *(_number, _number, _number, _word, _word, _word, _nest),
)

# ---- readers


def read_all(data: bytes, folder: Path) -> list[Spent]:
    """What the readers take for a file. Raises what they let through, AssertionError for what they should not do."""
    (folder / "x.npy").touch()
    path = folder / "file.bin"
    path.write_bytes(data)
    (folder / "file.json").write_bytes(data)
    readers: dict[str, Callable[[], None]] = {
        "load": lambda: _load(path),
        "check": lambda: _check(folder / "file.json"),
        "from_json": lambda: _from_json(data),
    }
    return [_measured(name, reader) for name, reader in readers.items()]


def excess(spent: Spent, size: int) -> str:
    """What is beyond the bounds, if anything is."""
    allowed = {"calls": CALLS + CALLS_A_BYTE * size, "memory": MEMORY + MEMORY_A_BYTE * size}
    over = [f"{getattr(spent, what)} {what}, allowed {most}" for what, most in allowed.items()
            if getattr(spent, what) > most]  # fmt: skip
    return f"{spent.reader}: {', '.join(over)}, for {size} bytes" if over else ""


def _measured(name: str, reader: Callable[[], None]) -> Spent:
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    sys.setprofile(count)
    try:
        reader()
    finally:
        sys.setprofile(None)
    return Spent(name, calls, tracemalloc.get_traced_memory()[1] - before)


def _load(path: Path) -> None:
    with contextlib.suppress(dml.OpendmlError):
        graph = dml.load(path)
        assert isinstance(graph, dml.GraphDesc)
        validate_graph(graph)


def _check(path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["check", str(path)])
    text = out.getvalue() + err.getvalue()
    assert status in (0, 1, 2) and "Traceback" not in text, text
    assert max(map(len, text.splitlines())) < 20_000, "a line of a message is very long"
    assert text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _from_json(data: bytes) -> None:
    try:
        parsed: Any = json.loads(data)
    except (ValueError, RecursionError):
        return
    with contextlib.suppress(dml.OpendmlError):
        desc = dml.OperatorDesc.from_json(parsed)
        violations = validate(desc)
        assert all(str(violation) for violation in violations)
        again = dml.OperatorDesc.from_json(json.loads(json.dumps(desc.to_json())))
        assert violations or again == desc
