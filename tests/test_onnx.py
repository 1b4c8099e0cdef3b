"""ONNX models: read, compiled for sizes and run; what is refused is said in one message."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from properties import some

import opendml as dml

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from onnx_building import REFERENCE, TYPES, expected_of, info, model_of, network, node, proto  # noqa: E402
from onnx_node_tests import FAILED, outcome_of  # noqa: E402


def test_a_network_is_compiled_and_run(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(network(), path)
    model = dml.load(path)
    assert isinstance(model, dml.OnnxModel)
    assert [repr(one) for one in model.inputs] == ["<'x': float32 [batch, 3, height, ?]>"]
    assert (
        repr(model)
        == "<OnnxModel 'network' of 7 nodes: <'x': float32 [batch, 3, height, ?]> -> <'y': float32 [batch, 4]>>"
    )
    program = model.compile(sizes={"x": [2, 3, 5, 6]})
    assert repr(program) == "<OnnxProgram <'x': float32 [2, 3, 5, 6]> -> <'y': float32 [2, 4]>>"
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype("f")
    np.testing.assert_allclose(program.run({"x": x})["y"], expected_of(x), rtol=1e-5, atol=1e-5)
    assert np.array_equal(program(x=x)["y"], model.run({"x": x}, device=REFERENCE)["y"])
    assert program.program is not None
    names = " ".join(str(one) for one in program.program.desc.nodes)
    assert "first" in names
    with pytest.raises(dml.BindingError, match=r"^'x': expected float32 \[2, 3, 5, 6\], got \[1, 3, 5, 6\]$"):
        program.run({"x": x[:1]})
    with pytest.raises(dml.BindingError, match=r"^'x': expected float32, got float64$"):
        program(x=x.astype("d"))
    with pytest.raises(dml.BindingError, match=r"^expected x, got nothing for x$"):
        program()


def test_arrays_are_bound() -> None:
    """Inputs are read and outputs written at every call, bools and tensors without dimensions too."""
    nodes = [
        node("Add", ["x", "one"], ["y"]),
        node("Not", ["b"], ["n"]),
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Shape", ["x"], ["shape"]),
    ]
    outputs = [info("y", None), info("n", None, TYPES.BOOL), info("s", []), info("shape", None, TYPES.INT64)]
    model = model_of(nodes, [info("x", [3]), info("b", [2], TYPES.BOOL)], outputs, one=np.ones((), "f"))
    for device in (REFERENCE, None):
        program = model.compile(device)
        x, b = np.zeros(3, "f"), np.array([True, False])
        out = {"y": np.zeros(3, "f"), "n": np.zeros(2, np.bool_), "shape": np.zeros(1, np.int64)}
        bound = program.bind({"x": x, "b": b}, out=out)
        for number in range(3):
            x[:], b[:] = number, number == 1
            bound()
            assert bound.results["y"] is out["y"]
            assert out["y"].tolist() == [number + 1.0] * 3
            assert out["n"].tolist() == [number != 1] * 2
            assert bound.results["s"].shape == ()
            assert bound.results["s"] == 3 * number
        assert out["shape"].tolist() == [3]
    with pytest.raises(dml.BindingError, match=r"^out, 'y': expected an array of float32 \[3\], got float64 \[3\]$"):
        program.bind({"x": x, "b": b}, out={"y": np.zeros(3)})
    with pytest.raises(dml.BindingError, match=r"^out: expected y, n, s, shape, got z$"):
        program.bind({"x": x, "b": b}, out={"z": x})
    with pytest.raises(dml.BindingError, match="not contiguous"):
        program.bind({"x": x, "b": b}, out={"y": np.zeros(6, "f")[::2]})


def test_programs_are_kept_for_sizes() -> None:
    model = dml.load(network().SerializeToString())
    assert isinstance(model, dml.OnnxModel)
    for batch in (1, 2, 1, 3, 4, 5, 6):
        assert model.run({"x": np.zeros((batch, 3, 4, 4), "f")}, device=REFERENCE)["y"].shape == (batch, 4)
    assert len(model._programs) == 4


def test_sizes_that_are_not_known_are_all_named() -> None:
    nodes = [node("Add", ["a", "b"], ["c"])]
    model = model_of(nodes, [info("a", ["n", None]), info("b", None)], [info("c", None)])
    with pytest.raises(dml.ModelFormatError) as caught:
        model.compile(sizes={"m": 1})
    assert [str(problem) for problem in caught.value.problems] == [
        "sizes: the model has no dimension and no input 'm', only a, b, n",
        "input 'a': not all of its sizes are known, <'a': float32 [n, ?]>: sizes={'a': [1, 1]}, for example",
        "input 'b': its sizes are not known: sizes={'b': [1, 3, 224, 224]}, for example",
    ]
    with pytest.raises(dml.ModelFormatError, match=r"the model says <'a': float32 \[n, \?\]>, not \[1\]"):
        model.compile(sizes={"a": [1], "b": [1]})
    assert (
        model.compile(REFERENCE, sizes={"a": [2, 3], "b": [3]})
        .run({"a": np.ones((2, 3), "f"), "b": np.ones(3, "f")})["c"]
        .tolist()
        == [[2.0] * 3] * 2
    )


def test_all_that_has_no_expression_is_named() -> None:
    nodes = [
        node("NonZero", ["x"], ["n"], name="places"),
        node("Gather", ["x", "n"], ["g"]),
        node("Det", ["x"], ["d"], name="determinant"),
        node("Special", ["x"], ["s"], domain="of.mine"),
        node("Unique", ["g"], ["u"], name="behind"),
        node("Exp", ["x"], ["y"]),
    ]
    model = model_of(nodes, [info("x", [2, 2])], [info("u", None), info("y", [2, 2])])
    with pytest.raises(dml.ModelFormatError) as caught:
        model.compile()
    assert [str(problem) for problem in caught.value.problems] == [
        "NonZero 'places': the sizes of its result depend on values",
        "Det 'determinant': DirectML has no determinants",
        "of.mine::Special 's': DirectML's operators cannot express it, or opendml does not do it yet",
        "Unique 'behind': the sizes of its result depend on values",
    ]


def test_rules_of_operators_are_reasons() -> None:
    model = model_of([node("Sqrt", ["x"], ["y"], name="root")], [info("x", [2], TYPES.BFLOAT16)], [info("y", None)])
    with pytest.raises(dml.ModelFormatError, match=r"^input 'x': DirectML has no tensors of bfloat16$"):
        model.compile()
    model = model_of([node("Det", ["x"], ["y"])], [info("x", [2, 2])], [info("y", None)])
    with pytest.raises(dml.ModelFormatError, match=r"^Det 'y': DirectML has no determinants$"):
        model.compile()


def test_float64_becomes_float32_where_that_is_asked_for() -> None:
    """Only in nodes whose operators have no FLOAT64, and they are named."""
    nodes = [node("Identity", ["x"], ["a"], name="same"), node("Sqrt", ["a"], ["y"], name="root")]
    model = model_of(nodes, [info("x", [2], TYPES.DOUBLE)], [info("y", [2], TYPES.DOUBLE)])
    with pytest.raises(dml.ModelFormatError, match=r"^Sqrt 'root': no FLOAT64 here \(narrow_float64=True .*FLOAT64"):
        model.compile()
    program = model.compile(REFERENCE, narrow_float64=True)
    assert program.narrowed == ("Sqrt 'root'",)
    x = np.array([2.0, 4.0])
    assert program.run({"x": x})["y"].tolist() == np.sqrt(x.astype("f")).astype("d").tolist()
    assert model.run({"x": x}, device=REFERENCE, narrow_float64=True)["y"].dtype == np.float64


def test_old_models_whose_operators_have_not_changed() -> None:
    given = {"x": np.array([True, False])}
    model = model_of([node("Not", ["x"], ["y"])], [info("x", [2], TYPES.BOOL)], [info("y", None, TYPES.BOOL)], opset=1)
    assert model.run(given, device=REFERENCE)["y"].tolist() == [False, True]
    old = proto([node("Add", ["x", "x"], ["y"])], [info("x", [1])], [info("y", [1])], opset=6)
    with pytest.raises(dml.ModelFormatError, match="version 6 is older than 7"):
        dml.load(old.SerializeToString())


def test_values_that_decide_sizes() -> None:
    nodes = [node("Reshape", ["x", "sizes"], ["y"])]
    model = model_of(nodes, [info("x", [6]), info("sizes", [2], TYPES.INT64)], [info("y", None)])
    with pytest.raises(
        dml.ModelFormatError,
        match=r"its input 1 decide what it computes \(inputs sizes: values={'sizes': \[1, 1\]}, for example\)",
    ):
        model.compile()
    program = model.compile(REFERENCE, values={"sizes": [2, 3]})
    x = np.arange(6, dtype="f")
    assert program.run({"x": x})["y"].tolist() == x.reshape(2, 3).tolist()
    assert program.run({"x": x, "sizes": np.array([2, 3])})["y"].shape == (2, 3)
    with pytest.raises(dml.BindingError, match=r"^'sizes': the program was compiled for \[2, 3\]$"):
        program.run({"x": x, "sizes": np.array([3, 2])})
    for sizes in ([3, 2], [6, 1], [3, 2]):
        assert list(model.run({"x": x, "sizes": np.array(sizes)}, device=REFERENCE)["y"].shape) == sizes
    assert len(model._programs) == 2
    with pytest.raises(dml.BindingError, match=r"^values: the model has no input z, only x, sizes$"):
        model.compile(values={"z": 1})


def test_branches_of_known_conditions_see_the_names_around_them() -> None:
    def branch(operator: str) -> Any:
        return helper.make_graph([node(operator, ["x", "one"], [operator])], operator, [], [info(operator, None)])

    nodes = [node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Sub"))]
    model = model_of(nodes, [info("x", [2]), info("c", [], TYPES.BOOL)], [info("y", None)], one=np.ones(1, "f"))
    for condition, value in ((True, 4), (False, 2)):
        results = model.run({"x": np.full(2, 3, "f"), "c": np.array(condition)}, device=REFERENCE)
        assert results["y"].tolist() == [value, value]


def test_branches_of_conditions_that_are_computed() -> None:
    """Both are computed and one selected, if they have the same sizes."""

    def branch(operator: str, *inputs: str) -> Any:
        return helper.make_graph([node(operator, [*inputs], [operator])], operator, [], [info(operator, None)])

    def model(other: Any, count: int) -> dml.OnnxModel:
        nodes = [
            node("ReduceMax", ["x"], ["largest"], keepdims=0),
            node("Less", ["largest", "one"], ["c"]),
            node("If", ["c"], ["y"], then_branch=branch("Neg", "x"), else_branch=other),
        ]
        return model_of(nodes, [info("x", [count])], [info("y", None)], one=np.ones((), "f"))

    count = 5000
    for value in (0.5, 2.0):
        x = np.full(count, value, "f")
        for found in (
            model(branch("Exp", "x"), count).run({"x": x}, device=REFERENCE),
            model(branch("Exp", "x"), count).compile(REFERENCE).run({"x": x}),
        ):
            np.testing.assert_allclose(found["y"], -x if value < 1 else np.exp(x), rtol=1e-6)
    small = model(branch("Exp", "x"), 2)
    for value in (0.5, 2.0, 3.0):
        small.run({"x": np.full(2, value, "f")}, device=REFERENCE)
    assert len(small._programs) == 1
    with pytest.raises(dml.ModelFormatError, match=r"its branches give float32 \[5000\] and float32 \[\]"):
        model(branch("Identity", "one"), count).describe()
    driven = model(branch("Identity", "one"), count).compile(REFERENCE)
    assert driven.run({"x": np.full(count, 2, "f")})["y"] == 1
    assert (driven.run({"x": np.full(count, 0.5, "f")})["y"] == -0.5).sum() == count


def test_what_directml_does_not_have_is_the_hosts() -> None:
    """Bools, tensors without dimensions or elements, and outputs that are inputs or constants."""
    nodes = [
        node("Less", ["a", "b"], ["less"]),
        node("Identity", ["a"], ["same"]),
        node("Shape", ["none"], ["shape"]),
        node("Concat", ["none", "b1"], ["joined"], axis=0),
        node("Unsqueeze", ["b", "zero"], ["b1"]),
    ]
    nodes = [nodes[4], *nodes[:4]]
    inputs = [info("a", []), info("b", []), info("none", ["n"])]
    outputs = [info("less", [], TYPES.BOOL), info("same", []), info("shape", [1], TYPES.INT64), info("joined", [1])]
    outputs.append(info("weight", [2]))
    model = model_of(nodes, inputs, outputs, zero=np.zeros(1, np.int64), weight=np.ones(2, "f"))
    given = {"a": np.float32(1), "b": np.array(2, "f"), "none": np.zeros(0, "f")}
    for device in (REFERENCE, None):
        results = model.run(given, device=device)
        found = {name: (array.dtype.name, array.tolist()) for name, array in results.items()}
        assert found == {
            "less": ("bool", True),
            "same": ("float32", 1.0),
            "shape": ("int64", [0]),
            "joined": ("float32", [2.0]),
            "weight": ("float32", [1.0, 1.0]),
        }


@pytest.mark.parametrize(
    ("operator", "attributes", "opset", "expected"),
    [
        ("Squeeze", {"axes": [0]}, 11, (2, 1)),
        ("ReduceSum", {"axes": [1], "keepdims": 0}, 11, (1, 1)),
        ("Clip", {"min": 2.0, "max": 4.0}, 10, (1, 2, 1)),
        ("Softmax", {}, 11, (1, 2, 1)),
    ],
)
def test_what_is_known_is_computed_by_the_version_of_the_model(
    operator: str, attributes: dict[str, Any], opset: int, expected: tuple[int, ...]
) -> None:
    """The same values as of an input that is not known."""
    nodes = [node(operator, ["known"], ["a"], **attributes), node(operator, ["x"], ["b"], **attributes)]
    array = np.array([1, 6], "f").reshape(1, 2, 1)
    model = model_of(nodes, [info("x", [1, 2, 1])], [info("a", None), info("b", None)], opset=opset, known=array)
    results = model.run({"x": array}, device=REFERENCE)
    assert results["a"].shape == results["b"].shape == expected
    np.testing.assert_allclose(results["a"], results["b"], rtol=1e-6)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("attributes", "axis"), [({}, 1), ({"axis": -7}, -7)])
def test_axes_that_do_not_exist_are_refused_in_old_versions_too(
    operator: str, attributes: dict[str, Any], axis: int
) -> None:
    """Below version 13 the usual axis is 1, which one dimension does not have."""
    model = model_of([node(operator, ["x"], ["y"], **attributes)], [info("x", [4])], [info("y", None)], opset=11)
    with pytest.raises(dml.ModelFormatError, match=f"axis {axis} is none of 1 dimensions"):
        model.compile()


def test_nodes_need_not_be_sorted() -> None:
    """Also where only a graph inside of a node reads what comes later; circles are nodes without an expression."""
    branch = helper.make_graph([node("Neg", ["later"], ["r"])], "g", [], [info("r", None)])
    nodes = [
        node("Add", ["a", "b"], ["y"]),
        node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
        node("Exp", ["x"], ["a"]),
        node("Sqrt", ["a"], ["later"]),
    ]
    model = model_of(nodes, [info("x", [1])], [info("y", None)], c=np.array(True))
    x = np.ones(1, "f")
    np.testing.assert_allclose(model.run({"x": x}, device=REFERENCE)["y"], np.exp(x) - np.sqrt(np.exp(x)), rtol=1e-6)
    circle = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"])]
    with pytest.raises(dml.ModelFormatError):
        model_of(circle, [info("x", [1])], [info("b", None)]).compile()


def test_functions_of_a_model() -> None:
    body = helper.make_function(
        "of.mine", "Twice", ["x"], ["y"], [node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 18)]
    )
    graph = helper.make_graph([node("Twice", ["x"], ["y"], domain="of.mine")], "g", [info("x", [1])], [info("y", [1])])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("of.mine", 1)]
    model = dml.load(helper.make_model(graph, opset_imports=imports, functions=[body]).SerializeToString())
    assert isinstance(model, dml.OnnxModel)
    assert model.run({"x": np.ones(1, "f")}, device=REFERENCE)["y"].tolist() == [2.0]


def test_functions_that_call_themselves_end() -> None:
    nodes = [node("Again", ["x"], ["y"], domain="of.mine")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("of.mine", 1)]
    body = helper.make_function("of.mine", "Again", ["x"], ["y"], nodes, imports)
    graph = helper.make_graph(nodes, "g", [info("x", [1])], [info("y", [1])])
    model = dml.load(helper.make_model(graph, opset_imports=imports, functions=[body]).SerializeToString())
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError, match="more than 64 functions inside of one another"):
        model.compile()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("equation", "sizes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("bqnc,bnchw->bqnhw", [(1, 2, 3, 4), (1, 3, 4, 2, 2)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij->j", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,i", [(3,), (3,)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("i,j->ji", [(2,), (3,)]),
        ("ab,bc,cd->da", [(2, 3), (3, 4), (4, 2)]),
        ("Ab,bA->bA", [(2, 3), (3, 2)]),
        ("ij,ij,ik->k", [(2, 3), (2, 3), (2, 4)]),
    ],
)
def test_sums_of_products(equation: str, sizes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(3)
    given = {f"x{i}": random.standard_normal(one).astype("f") for i, one in enumerate(sizes)}
    expected = np.einsum(equation, *given.values())
    nodes = [node("Einsum", list(given), ["y"], equation=equation)]
    model = model_of(nodes, [info(name, array.shape) for name, array in given.items()], [info("y", None)])
    found = model.run(given, device=REFERENCE)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("reduction", "function"), [("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)]
)
@pytest.mark.parametrize("data_type", ["float32", "int32"])
def test_scatters_that_join(reduction: str, function: Any, data_type: str) -> None:
    """Several updates of an element, indices from the end, and parts of the data that no index can reach."""
    random = np.random.default_rng(5)
    data, updates = (random.integers(-4, 5, sizes).astype(data_type) for sizes in ((4, 5), (7, 3)))
    indices = random.integers(-4, 4, (7, 3))
    expected = data.copy()
    for place in np.ndindex(7, 3):
        function.at(expected, (indices[place], place[1]), updates[place])
    given = {"x": data, "i": indices, "u": updates}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(data_type))
    inputs = [info("x", [4, 5], element), info("i", [7, 3], TYPES.INT64), info("u", [7, 3], element)]
    output = [info("y", None, element)]
    model = model_of([node("ScatterElements", list(given), ["y"], reduction=reduction)], inputs, output, opset=18)
    assert model.run(given, device=REFERENCE)["y"].tolist() == expected.tolist()
    places = random.integers(-4, 4, (6, 1))
    rows = random.integers(-4, 5, (6, 5)).astype(data_type)
    expected = data.copy()
    function.at(expected, places[:, 0], rows)
    given = {"x": data, "i": places, "u": rows}
    inputs = [info("x", [4, 5], element), info("i", [6, 1], TYPES.INT64), info("u", [6, 5], element)]
    model = model_of([node("ScatterND", list(given), ["y"], reduction=reduction)], inputs, output, opset=18)
    assert model.run(given, device=REFERENCE)["y"].tolist() == expected.tolist()


def test_scatters_leave_parts_as_they_are() -> None:
    data, indices = np.zeros((3, 4), "f"), np.array([[2, 0]])
    given = {"x": data, "i": indices, "u": np.array([[1, 2]], "f")}
    inputs = [info("x", [3, 4]), info("i", [1, 2], TYPES.INT64), info("u", [1, 2])]
    model = model_of([node("ScatterElements", list(given), ["y"])], inputs, [info("y", None)], opset=18)
    assert model.run(given, device=REFERENCE)["y"].tolist() == [[0, 2, 0, 0], [0] * 4, [1, 0, 0, 0]]


def test_powers_of_integers_are_exact() -> None:
    base = np.array([3, -3, 2, 7, 0, 5, -2])
    exponent = np.array([39, 39, 62, 0, 0, 1, 3])
    model = model_of(
        [node("Pow", ["x", "e"], ["y"])],
        [info("x", [7], TYPES.INT64), info("e", [7], TYPES.INT64)],
        [info("y", None, TYPES.INT64)],
        opset=15,
    )
    found = model.run({"x": base, "e": exponent}, device=REFERENCE)["y"]
    assert found.tolist() == [int(b) ** int(e) for b, e in zip(base, exponent, strict=True)]


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize(("length", "given"), [(6, 8), (8, 6), (5, 5)])
def test_transforms_are_those_of_numpy(inverse: int, length: int, given: int) -> None:
    """Of fewer and of more elements than there are."""
    random = np.random.default_rng(2)
    x = random.standard_normal((2, given, 3, 2)).astype("f")
    numbers = x[..., 0] + 1j * x[..., 1]
    expected = (np.fft.ifft if inverse else np.fft.fft)(numbers, length, axis=1)
    nodes = [node("DFT", ["x", "n", "axis"], ["y"], inverse=inverse)]
    constants = {"n": np.array(length), "axis": np.array(1)}
    model = model_of(nodes, [info("x", x.shape)], [info("y", None)], opset=20, **constants)
    found = model.run({"x": x}, device=REFERENCE)["y"]
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, atol=1e-5)
    nodes = [node("DFT", ["x", "n", "axis"], ["y"], inverse=1, onesided=1)]
    model = model_of(nodes, [info("x", x.shape)], [info("y", None)], opset=20, **constants)
    found = model.run({"x": x}, device=REFERENCE)["y"]
    np.testing.assert_allclose(found[..., 0], np.fft.irfft(numbers, length, axis=1), atol=1e-5)


def _affine_grid(sizes: list[int], theta: np.ndarray[Any, Any], corners: int) -> np.ndarray[Any, Any]:
    """Every point by itself, in float64."""
    count = len(sizes) - 2
    found = np.empty((sizes[0], *sizes[2:], count))
    for image, *pixel in np.ndindex(sizes[0], *sizes[2:]):
        point = [1.0]
        for at, length in zip(pixel, sizes[2:], strict=True):
            steps = length - 1 if corners and length > 1 else length
            point.insert(0, (2 * at - length + 1) / steps)
        found[(image, *pixel)] = theta[image].astype(np.float64) @ point
    return found


@pytest.mark.parametrize("sizes", [[1, 2, 4, 3], [2, 1, 3, 5], [1, 3, 1, 4], [1, 1, 3, 4, 5], [2, 1, 2, 1, 3]])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize(("data_type", "tolerance"), [("float32", 1e-6), ("float16", 2e-3)])
def test_grids_of_affine_maps(sizes: list[int], corners: int, data_type: str, tolerance: float) -> None:
    """Of one image, too, whose dimension of batches ONNX's definition by other operators loses."""
    count = len(sizes) - 2
    theta = np.random.default_rng(5).standard_normal((sizes[0], count, count + 1)).astype(data_type)
    element = helper.np_dtype_to_tensor_dtype(theta.dtype)
    nodes = [node("AffineGrid", ["t", "n"], ["y"], align_corners=corners)]
    model = model_of(nodes, [info("t", theta.shape, element)], [info("y", None, element)], opset=20, n=np.array(sizes))
    found = model.run({"t": theta}, device=REFERENCE)["y"]
    assert found.dtype == theta.dtype
    np.testing.assert_allclose(found, _affine_grid(sizes, theta, corners), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1, 2, 1 << 40, 1 << 40], "elements, at most 4294967295 fit"),
        ([1, 2, 0, 3], "size: expected 4 or 5 sizes, none below 1"),
        ([1, 2, 3], "size: expected 4 or 5 sizes, none below 1"),
        ([2, 2, 3, 3], r"theta: expected the sizes \[2, 2, 3\], got \[1, 2, 3\]"),
    ],
)
def test_grids_of_absurd_sizes_are_refused(sizes: list[int], message: str) -> None:
    nodes = [node("AffineGrid", ["t", "n"], ["y"])]
    model = model_of(nodes, [info("t", [1, 2, 3])], [info("y", None)], opset=20, n=np.array(sizes))
    with pytest.raises(dml.ModelFormatError, match=f"AffineGrid.*{message}"):
        model.run({"t": np.zeros((1, 2, 3), "f")}, device=REFERENCE)


# ---- onnx's own tests of operators

CASES = sorted(
    module.name for module in pkgutil.iter_modules(importlib.import_module("onnx.backend.test.case.node").__path__)
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_tests_of_onnx(name: str) -> None:
    """Each passes, or is refused before anything runs. ``tools/onnx_node_tests.py`` runs all of them."""
    from onnx.backend.test.case.node import _NodeTestCases as cases

    before = len(cases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    for case in some(cases[before:]) if len(cases) > before + 20 else cases[before:]:
        outcome = outcome_of(case, REFERENCE)
        assert outcome.state != FAILED, (case.name, outcome.reasons)


# ---- explained and profiled


def test_programs_are_profiled_and_explained_with_the_names_of_nodes() -> None:
    model = dml.load(network().SerializeToString())
    assert isinstance(model, dml.OnnxModel)
    program = model.compile(sizes={"x": [2, 3, 5, 5]})
    x = np.ones((2, 3, 5, 5), "f")
    for found in (dml.profile(program, {"x": x}, seconds=0), dml.profile(program, x, seconds=0)):
        assert "first" in {name for kernel in found.kernels for name in kernel.nodes}
    assert "x" in dml.profile(program, x=x, seconds=0).inputs
    assert "CONVOLUTION" in (explained := dml.explain(program))
    assert "'first'" in explained
    with pytest.raises(dml.BindingError, match="expected x, got nothing for x"):
        dml.profile(program)
    with pytest.raises(dml.BindingError, match="expected x, got 2 arrays"):
        dml.profile(program, x, x)


def test_programs_that_compute_nothing_have_nothing_to_show() -> None:
    program = model_of([node("Shape", ["x"], ["y"])], [info("x", [2, 3])], [info("y", [2], TYPES.INT64)]).compile()
    for show in (lambda: dml.profile(program, np.zeros((2, 3), "f")), lambda: dml.explain(program)):
        with pytest.raises(dml.ConfigurationError, match="known without computing"):
            show()


def test_values_have_the_sizes_of_their_inputs() -> None:
    nodes = [node("Tile", ["x", "times"], ["y"])]
    model = model_of(nodes, [info("x", [2]), info("times", [1], TYPES.INT64)], [info("y", None)])
    assert model.compile(REFERENCE, values={"times": 3}).run({"x": np.arange(2, dtype="f")})["y"].shape == (6,)
    with pytest.raises(dml.ModelFormatError, match=r"'times': the model says .* \[1\]>, not \[2\]"):
        model.compile(values={"times": [1, 2]})


def test_nodes_behind_one_without_an_expression_are_judged_too() -> None:
    """With the types and sizes that it would give; what depends on its values is not held against them."""
    nodes = [
        node("Gelu", ["x"], ["a"], name="first"),
        node("Relu", ["a"], ["b"], name="fine"),
        node("Gelu", ["b"], ["c"], name="second"),
        node("Det", ["c"], ["d"], name="det"),
        node("Cast", ["d"], ["e"], to=TYPES.INT64),
        node("Reshape", ["c", "e"], ["f"], name="by values"),
        node("Gelu", ["d"], ["y"], name="third"),
    ]
    model = model_of(nodes, [info("x", [2, 3, 3])], [info("y", None)], opset=20)
    with pytest.raises(dml.ModelFormatError) as error:
        model.compile(dml.Device("reference", feature_level="5_0"))
    assert [problem.path for problem in error.value.problems] == [
        "Gelu 'first'",
        "Gelu 'second'",
        "Det 'det'",
        "Gelu 'third'",
    ]
    assert "does not exist at feature level 5_0" in error.value.problems[1].message
