"""A program as a user of a type checker writes it; `.ci/run` checks it with mypy and pyright, both strict.

Everything right must pass, with the exact types that ``assert_type`` states. What is wrong is marked with
``type: ignore``, and both checkers report such a mark where there is nothing to ignore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import numpy.typing as npt

import opendml as dml


def descriptors() -> dml.operators.Slice1:
    tensor = dml.TensorDesc("FLOAT32", [1, 1, 4, 4])
    shape = np.array([1, 1, 4, 2])
    slice1 = dml.operators.Slice1(
        input_tensor=tensor,
        output_tensor=dml.TensorDesc(np.float32, shape, (8, 8, 2, 1), flags="NONE"),
        input_window_offsets=[0, 0, 0, 1],
        input_window_sizes=(1, 1, np.int64(4), 3),
        input_window_strides=np.array([1, 1, 1, 2]),
    )
    assert_type(slice1.input_window_strides, tuple[int, ...])
    assert_type(slice1.dimension_count, int)
    assert_type(slice1.output_tensor, dml.TensorDesc)
    assert_type(slice1.output_tensor.sizes, tuple[int, ...])
    assert_type(slice1.replace(dimension_count=4), dml.operators.Slice1)

    padding = dml.operators.Padding(
        input_tensor=tensor,
        output_tensor=dml.TensorDesc("float32", [1, 1, 6, 6]),
        padding_mode="REFLECTION",
        padding_value=np.float32(0.5),
        start_padding=[0, 0, 1, 1],
        end_padding=[0, 0, 1, 1],
    )
    assert_type(padding.padding_mode, dml.PaddingMode)
    assert_type(padding.padding_value, float)

    relu = dml.operators.ActivationRelu()
    convolution = dml.operators.Convolution(
        input_tensor=tensor,
        filter_tensor=dml.TensorDesc("float32", [1, 1, 3, 3], flags=["OWNED_BY_DML"]),
        output_tensor=dml.TensorDesc("float32", [1, 1, 2, 2]),
        mode="CROSS_CORRELATION",
        direction=dml.ConvolutionDirection.FORWARD,
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[0, 0],
        end_padding=[0, 0],
        output_padding=[0, 0],
        group_count=1,
        fused_activation=relu,
    )
    assert_type(convolution.bias_tensor, dml.TensorDesc | None)
    assert_type(convolution.group_count, int)

    average = dml.operators.AveragePooling1(
        input_tensor=tensor,
        output_tensor=dml.TensorDesc("float32", [1, 1, 2, 2]),
        strides=[2, 2],
        window_size=[2, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
        dilations=[1, 1],
        include_padding=False,
    )
    assert_type(average.window_size, tuple[int, ...])  # inherited
    assert_type(average.include_padding, bool)

    filled = dml.operators.FillValueConstant(output_tensor=tensor, value_data_type="FLOAT32", value=1)
    assert_type(filled.value, dml.ScalarUnion)
    joined = dml.operators.Join(input_tensors=[tensor, tensor], output_tensor=tensor, axis=0)
    assert_type(joined.input_tensors, tuple[dml.TensorDesc, ...])
    scaled = dml.operators.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=(2.0, 1))
    assert_type(scaled.scale_bias, dml.ScaleBias | None)

    assert_type(dml.validate(joined, "3_0"), list[dml.Violation])
    assert_type(dml.catalogue["SLICE1"].since, dml.FeatureLevel)
    assert_type(dml.OperatorDesc.from_json(slice1.to_json()), dml.OperatorDesc)
    return slice1


def programs(x: npt.NDArray[np.float32]) -> None:
    device = dml.Device("cpu", feature_level="6_4")
    slice1 = descriptors()
    program = device.compile(slice1)
    assert_type(program, dml.Program)
    result: npt.NDArray[np.float32] = program(x)
    call = program.bind([x], [result])
    assert_type(call, dml.BoundCall)
    call()
    assert_type(device.create_operator(slice1).compile(), dml.Program)


def graphs(x: npt.NDArray[np.float32]) -> None:
    graph = dml.Graph(dml.Device("cpu"))
    image = graph.input("float32", [1, 1, 4, 4], name="image")
    assert_type(image, dml.GraphTensor)
    assert_type(image + 1.0, dml.GraphTensor)
    y = dml.activation_relu(image * 2 + x)
    program = graph.compile({"y": y})
    assert_type(program, dml.GraphProgram)
    results: dict[str, npt.NDArray[np.float32]] = program(image=x)
    assert results["y"].shape == (1, 1, 4, 4)

    tensor = dml.TensorDesc("float32", [4])
    add = dml.operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    desc = dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[dml.ConstantNode(np.ones(4, np.float32)), dml.OperatorNode(add, name="add")],
        input_edges=[dml.InputEdge(0, to_node_index=1, to_node_input_index=0)],
        intermediate_edges=[dml.IntermediateEdge(0, 0, to_node_index=1, to_node_input_index=1)],
        output_edges=[dml.OutputEdge(1, 0, graph_output_index=0)],
        input_names=["x"],
        output_names=["y"],
    )
    assert_type(dml.validate_graph(desc, "6_2"), list[dml.Violation])
    assert_type(desc.nodes, tuple[dml.OperatorNode | dml.ConstantNode, ...])


def functions(x: npt.NDArray[np.float32]) -> None:
    pooled = dml.max_pooling(x, window_size=[2, 2], strides=[2, 2], output_indices=True)
    assert pooled.values.shape == (1, 1, 2, 2)
    total: npt.NDArray[np.float32] = dml.add(x, x)
    dml.activation_relu(total, out=total)
    dml.reduce(x, "SUM", axes=[2, 3], device=dml.Device("cpu", thread_count=1))
    assert_type(pooled.values, npt.NDArray[Any])
    assert_type(pooled.indices, npt.NDArray[Any] | None)
    assert_type(dml.add(x, 1.0), npt.NDArray[Any])
    assert_type(dml.if_(x > 0, x, [1.0]), npt.NDArray[Any])
    assert_type(dml.join([x, x], axis=0), npt.NDArray[Any])
    assert_type(dml.reshape(x, [4, -1]), npt.NDArray[Any])
    assert_type(dml.fill_value_constant([2], output_data_type="int32", value=1), npt.NDArray[Any])

    graph = dml.Graph()
    tensor = graph.input("float32", [1, 1, 4, 4])
    assert_type(dml.add(tensor, x), dml.GraphTensor)
    assert_type(dml.add(1, tensor), dml.GraphTensor)
    assert_type(dml.convolution(x, x, tensor[:, 0, 0, 0]), dml.GraphTensor)
    assert_type(dml.max_pooling(tensor, window_size=[2, 2]).values, dml.GraphTensor)
    assert_type(dml.split(tensor, axis=2, output_axis_sizes=[1, 3]), tuple[dml.GraphTensor, ...])
    assert_type(dml.join([tensor, tensor], axis=0), dml.GraphTensor)
    assert_type(dml.transpose(tensor), dml.GraphTensor)
    assert_type(dml.fill_value_constant([2], output_data_type="int32", value=1, device=graph), dml.GraphTensor)


if TYPE_CHECKING:

    def wrong(tensor: dml.TensorDesc, desc: dml.operators.Slice1) -> None:
        dml.TensorDesc("float32", [1.5])  # type: ignore
        dml.operators.ActivationElu(alpha="1")  # type: ignore
        dml.operators.ActivationElu(beta=1)  # type: ignore
        dml.operators.ElementWiseAdd(a_tensor=tensor, output_tensor=tensor)  # type: ignore
        dml.operators.Argmax(input_tensor=tensor, output_tensor=tensor, axes=3, axis_direction="INCREASING")  # type: ignore
        dml.operators.Argmax(input_tensor=tensor, output_tensor=tensor, axes=[3], axis_direction=1.5)  # type: ignore
        dml.operators.Tile(input_tensor=[1, 2], output_tensor=tensor, repeats=[1])  # type: ignore
        desc.input_window_sizes = (1, 2)  # type: ignore
        dml.max_pooling(np.zeros(4), [2, 2])  # type: ignore
        dml.max_pooling(np.zeros(4), window_sizes=[2, 2])  # type: ignore
        desc.input_tensor = tensor  # type: ignore
        assert desc.no_such_field  # type: ignore


def main() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    programs(x)
    graphs(x)
    functions(x)


if __name__ == "__main__":
    main()
