"""Objects of others at every entrance: whatever their protocols raise or give, the package's own errors come out."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.description.errors import OpendmlError
from opendml.description.quoting import quoted


class Tensor:
    """Something with DLPack that does what it likes."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self.give = give

    def __dlpack__(self, **_: Any) -> Any:
        return self.give()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Trap:
    @property
    def __dlpack__(self) -> Any:
        raise KeyError("x" * 10_000)


def raising(error: BaseException) -> Callable[[], Any]:
    def give() -> Any:
        raise error

    return give


def released() -> memoryview:
    view = memoryview(bytearray(12))
    view.release()
    return view


def closed() -> mmap.mmap:
    pages = mmap.mmap(-1, 16)
    pages.close()
    return pages


def recursive() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


VALUES: dict[str, Any] = {
    "released view": released(),
    "closed map": closed(),
    "view of characters": memoryview(b"abc").cast("c"),
    "view of pointers": (ctypes.c_void_p * 3)(),
    "DLPack that raises": Tensor(raising(ZeroDivisionError("x" * 10_000))),
    "DLPack that gives nothing": Tensor(lambda: None),
    "DLPack that gives a number": Tensor(lambda: 7),
    "trap": Trap(),
    "unshowable": Unshowable(),
    "surrogate": "\ud800",
    "long text": "x" * 10_000,
    "huge number": 10**5000,
    "objects": np.array([object()] * 3),
    "texts": np.array(["x"] * 3),
    "dates": np.array(["2020"] * 3, "M8[D]"),
    "records": np.zeros(3, [("a", "i4")]),
    "nothing in it": np.zeros(0, "float32"),
    "itself": recursive(),
    "long list": list(range(10_000)),
    "names": {"x" * 10_000: 1},
    "type": int,
    "object": object(),
}

DESC = dml.TensorDesc("float32", [3])
X = np.zeros(3, np.float32)
ABS = dml.operators.ElementWiseAbs(input_tensor=DESC, output_tensor=DESC)


def graph_program() -> Any:
    graph = dml.Graph()
    return graph.compile(dml.abs(graph.input("float32", [3], name="x")))


def node_graph(name: Any) -> dml.GraphDesc:
    return dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[dml.OperatorNode(ABS, name)],
        input_edges=[dml.InputEdge(0, 0, 0)],
        output_edges=[dml.OutputEdge(0, 0, 0)],
    )


def entrances() -> dict[str, Callable[[Any], Any]]:
    program, graph = dml.Device(thread_count=1).compile(ABS), graph_program()
    return {
        "program": program,
        "out": lambda value: program(X, out=value),
        "outs": lambda value: program(X, out=[value]),
        "bind": lambda value: program.bind(value, value),
        "graph program": graph,
        "out of a graph": lambda value: graph(X, out=value),
        "initialize": lambda value: graph.initialize(x=value),
        "function": dml.abs,
        "out of a function": lambda value: dml.abs(X, out=value),
        "operand": lambda value: dml.add(X, value),
        "operands": lambda value: dml.join(value, axis=0),
        "constant": lambda value: dml.Graph().constant(value),
        "beside a graph tensor": lambda value: dml.Graph().input("float32", [3]) + value,
        "name of an input": lambda value: dml.Graph().input("float32", [3], name=value),
        "type": lambda value: dml.Graph().input(value, [3]),
        "sizes": lambda value: dml.TensorDesc("float32", value),
        "strides": lambda value: dml.TensorDesc("float32", [3], value),
        "flags": lambda value: dml.TensorDesc("float32", [3], flags=value),
        "total size": lambda value: dml.TensorDesc("float32", [3], total_size_in_bytes=value),
        "field": lambda value: dml.Device().create_operator(ABS.replace(scale_bias=value)),
        "descriptor": dml.validate,
        "level": lambda value: dml.validate(ABS, value),
        "JSON": dml.OperatorDesc.from_json,
        "JSON of an operator": lambda value: dml.OperatorDesc.from_json({"Type": value, "Desc": value}),
        "JSON of a tensor": lambda value: dml.TensorDesc.from_json({"DataType": "FLOAT32", "Sizes": value}),
        "data": lambda value: dml.validate_graph(dml.GraphDesc(input_count=0, output_count=0, nodes=[value])),
        "name of a node": node_graph,
        "graph": dml.validate_graph,
        "graph to save": lambda value: dml.save(value, "never written"),
        "device": dml.Device,
        "threads": lambda value: dml.Device(thread_count=value),
        "outputs": lambda value: dml.Graph().compile(value),
        "axes": lambda value: dml.reduce(X, function="SUM", axes=value),
        "enumeration": lambda value: dml.reduce(X, function=value),
        "explain": dml.explain,
        "profile": dml.profile,
        "catalogue": lambda value: dml.catalogue[value],
    }


@pytest.mark.parametrize("name", entrances())
def test_only_our_own_errors_come_out(name: str) -> None:
    enter = entrances()[name]
    for kind, value in VALUES.items():
        try:
            enter(value)
        except OpendmlError as error:
            message = str(error)
            assert len(message) < 12_000, (kind, message[:300])
            message.encode()  # so it can be printed and logged
        except BaseException as error:
            raise AssertionError(f"{name}, {kind}: {quoted(str(error))}") from error


@pytest.mark.parametrize("value", ["released view", "closed map", "DLPack that raises", "trap", "view of pointers"])
def test_what_cannot_be_read_is_named(value: str) -> None:
    for enter in (dml.abs, dml.Graph().constant, graph_program()):
        with pytest.raises(dml.BindingError, match="the tensor is not accessible as a NumPy array"):
            enter(VALUES[value])
