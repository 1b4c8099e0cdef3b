"""Compiles, initialises, runs and drops programs again and again, and watches what the process holds.

    python tools/soak.py [--cycles 5000] [--cold]

One cycle makes everything that a long-lived process makes and forgets: operators and graphs with and without
OWNED_BY_DML inputs, bound calls, programs of another number of threads, saved and loaded graphs, functions on
arrays, and descriptors and files that are refused. Shapes come back after some cycles, and their code then comes from
a disk cache; with ``--cold`` everything is compiled anew. Nothing may be left of it: resident memory, what malloc has
given out, mappings, threads, open files and Python's objects are taken in the second and in the last third of the
cycles, and the tool exits with status 1 where one of them has grown by more than its allowance.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

import opendml as dml
from opendml.functions.core import PROGRAMS

PERIOD = 25
"""Cycles after which all shapes come back."""


@dataclass(frozen=True)
class Holdings:
    """What the process holds: memory in KiB, the others counted. 0 where this system does not tell."""

    resident: int
    allocated: int
    mappings: int
    threads: int
    files: int
    objects: int


ALLOWED = Holdings(resident=4096, allocated=512, mappings=24, threads=0, files=0, objects=400)
"""Growth from one third of the cycles to the next that is no leak: fragments, and linkers not yet replaced."""

SAMPLES = 15
"""How often in a run it is looked what the process holds."""

COMPILED = 8
KEPT_BY_LLVMLITE = 2
"""Modules that a cycle compiles, at most, and KiB that llvmlite 0.50 does not free of each (callbacks of its
``PassBuilder``)."""


def holdings() -> Holdings:
    """What this process holds now."""
    PROGRAMS.clear()
    for _ in range(3):
        gc.collect()
    status = _lines("/proc/self/status")
    resident = next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), 0)
    threads = next((int(line.split()[1]) for line in status if line.startswith("Threads")), threading.active_count())
    files = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    return Holdings(resident, _allocated(), len(_lines("/proc/self/maps")), threads, files, len(gc.get_objects()))


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def _allocated() -> int:
    """KiB that malloc has given out and not got back (glibc)."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None) if os.name == "posix" else None
    if mallinfo is None:
        return 0
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd) // 1024


# What a cycle does ---------------------------------------------------------------------------------------------------


def compile_operators(number: int) -> None:
    """An operator: run, bound, and run by another number of threads."""
    rows, columns = 2 + number % 7, 3 + number
    tensor = dml.TensorDesc("float32", [rows, columns])
    device = dml.Device("cpu", thread_count=2)
    program = device.compile(dml.operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))
    x = np.full(tensor.sizes, number, np.float32)
    y = np.empty_like(x)
    call = program.bind([x, x], [y])
    call()
    program.with_thread_count(3)(x, x, out=[y])
    assert (y == 2 * x).all()


def compile_graphs(number: int) -> None:
    """A graph with a constant and an input OWNED_BY_DML, initialised twice."""
    features = 4 + number % 7
    graph = dml.Graph(dml.Device("cpu", thread_count=2))
    x = graph.input("float32", [3, features], name="x")
    w = graph.input("float32", [features, 5 + number % 11], name="w", owned_by_dml=True)
    y = dml.activation_relu(dml.gemm(x, w) + np.float32(number % 13))
    program = graph.compile({"y": dml.activation_softmax(y, axes=[1])})
    for value in (0.0, 1.0):
        program.initialize(w=np.full((features, 5 + number % 11), value, np.float32))
        result = program(x=np.ones((3, features), np.float32))["y"]
        assert np.allclose(result.sum(axis=1), 1)


def save_and_load(number: int, folder: Path) -> None:
    """A graph through a file."""
    graph = dml.Graph(dml.Device("cpu"))
    x = graph.input("float32", [2, 3 + number % 7], name="x")
    path = folder / "graph.bin"
    dml.save(graph.describe({"y": dml.activation_tanh(x * x)}), path)
    loaded = dml.load(path)
    assert isinstance(loaded, dml.GraphDesc)
    dml.Device("cpu").compile_graph(loaded)


def call_functions(number: int) -> None:
    """Functions on arrays of some shapes."""
    x = np.full((2, 3 + number % 7), number, np.int32)
    first, *_ = dml.split(dml.join([x, x], axis=0), axis=0, output_axis_sizes=[2, 2])
    assert (dml.reduce(first, "SUM", axes=[0, 1]) == x.sum()).all()


def refuse(number: int, folder: Path) -> None:
    """Descriptors and files that are wrong."""
    tensor = dml.TensorDesc("float32", [2, 3])
    wrong = dml.TensorDesc("float32", [2, 4 + number % 7])
    with contextlib.suppress(dml.InvalidDescriptorError):
        dml.Device("cpu").compile(dml.operators.ElementWiseAdd(a_tensor=tensor, b_tensor=wrong, output_tensor=tensor))
        raise AssertionError("a wrong descriptor was accepted")
    path = folder / "wrong.bin"
    path.write_bytes(bytes([number % 256] * 64))
    with contextlib.suppress(dml.OpendmlError):
        dml.load(path)
        raise AssertionError("a wrong file was accepted")


@contextlib.contextmanager
def _steps() -> Iterator[list[Callable[[int], None]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield [
            compile_operators,
            compile_graphs,
            call_functions,
            lambda number: save_and_load(number, folder),
            lambda number: refuse(number, folder),
        ]


def soak(cycles: int, report: Callable[[str], None]) -> Holdings:
    """What has grown from the second third of the cycles to the last one.

    The least of each third is compared: what is held goes up and down, since linkers are replaced every now and then.
    """
    taken: list[list[Holdings]] = [[], [], []]
    with _steps() as steps:
        for number in range(cycles):
            for step in steps:
                step(number % PERIOD)
            if (number + 1) % max(cycles // SAMPLES, 1) == 0:
                found = holdings()
                taken[3 * number // cycles].append(found)
                report(f"{number + 1} cycles: {found}")
    _, before, after = ({f.name: min(getattr(h, f.name) for h in third) for f in fields(Holdings)} for third in taken)
    return Holdings(**{name: after[name] - before[name] for name in before})


def main() -> int:
    """Status 0 if nothing has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=1000, help="how often (default: %(default)s)")
    parser.add_argument("--cold", action="store_true", help="compile everything anew instead of using a cache")
    options = parser.parse_args()
    if options.cycles < 3 * PERIOD:
        parser.error(f"--cycles must be {3 * PERIOD} or more")
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"OPENDML_CACHE": "0" if options.cold else "1", "OPENDML_CACHE_DIR": cache}
        growth = soak(options.cycles, lambda line: print(line, flush=True))
    kept = KEPT_BY_LLVMLITE * COMPILED * (options.cycles // 3) if options.cold else 0
    allowed = replace(ALLOWED, resident=ALLOWED.resident + kept, allocated=ALLOWED.allocated + kept)
    print(f"growth: {growth}\nallowed: {allowed}")
    return int(any(getattr(growth, f.name) > getattr(allowed, f.name) for f in fields(Holdings)))


if __name__ == "__main__":
    sys.exit(main())
