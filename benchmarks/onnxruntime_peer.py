"""ONNX Runtime on the CPU: each descriptor as a model of a node or a few, bound to the arrays of the case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from benchmarks import chains
from benchmarks.cases import Work
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.numpy_peer import block_shapes, strided_window
from benchmarks.peers import Array, Buffers, Prepared, Unsupported
from benchmarks.quantized_layers import QuantizedLayer
from opendml import operators
from opendml.description.enums import ConvolutionDirection, DepthSpaceOrder, PaddingMode, ReduceFunction

OPSET = 21
IR_VERSION = 10


@dataclass
class Graph:
    """Nodes from ``x0``, ``x1`` ... to ``y0``, ``y1`` ...; ``views`` are the inputs and outputs as ONNX sees them."""

    inputs: list[Array]
    outputs: list[Array]
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), **attributes))

    def integers(self, name: str, values: Sequence[int]) -> str:
        """The name of a constant vector of 64-bit integers."""
        return self.constant(name, np.array(values, np.int64))

    def constant(self, name: str, values: Array) -> str:
        """The name of a constant."""
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def names(self) -> list[str]:
        """The names of all inputs."""
        return [f"x{i}" for i in range(len(self.inputs))]

    def flatten(self, *numbers: int) -> None:
        """Make vectors of some inputs: ONNX wants parameters of channels and rows so."""
        for number in numbers:
            self.inputs[number] = self.inputs[number].reshape(-1)

    def model(self) -> bytes:
        """The model in ONNX's format."""
        inputs = [_described(f"x{i}", array) for i, array in enumerate(self.inputs)]
        outputs = [_described(f"y{i}", array) for i, array in enumerate(self.outputs)]
        graph = helper.make_graph(self.nodes, "case", inputs, outputs, self.constants)
        versions = {"": OPSET} | {node.domain: 1 for node in self.nodes if node.domain}
        imports = [helper.make_opsetid(*version) for version in versions.items()]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


class OnnxRuntime:
    """A session for each case, run with bound inputs and outputs."""

    name = "ONNX Runtime"
    version = str(onnxruntime.__version__)

    def __init__(self, threads: int) -> None:
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 4

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """One session."""
        graph = Graph([_without_repetition(array) for array in buffers.inputs], list(buffers.outputs))
        if isinstance(operator, QuantizedLayer | MatrixProduct):
            model = operator.onnx_model()
        else:
            model = _translated(operator, graph)
        session = onnxruntime.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])
        binding = _bind(session, graph)
        run = onnxruntime.RunOptions()
        run.log_severity_level = 4

        def results() -> list[Array]:
            return [_like(y, o) for y, o in zip(graph.outputs, buffers.outputs, strict=True)]

        return [Prepared(lambda: session.run_with_iobinding(binding, run), results)]


def peer(threads: int) -> OnnxRuntime:
    """The contestant."""
    return OnnxRuntime(threads)


def _translated(operator: Work, graph: Graph) -> bytes:
    build = _TRANSLATIONS.get(type(operator))
    if build is None:
        raise Unsupported(type(operator).__name__)
    build(operator, graph)
    return graph.model()


def _bind(session: Any, graph: Graph) -> Any:
    binding = session.io_binding()
    for i, array in enumerate(graph.inputs):
        binding.bind_input(f"x{i}", "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    for i, array in enumerate(graph.outputs):
        binding.bind_output(f"y{i}", "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return binding


def _described(name: str, array: Array) -> Any:
    if not array.flags.c_contiguous:
        raise Unsupported("a tensor that is not packed")
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _without_repetition(array: Array) -> Array:
    """ONNX broadcasts dimensions of size 1."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _like(result: Array, output: Array) -> Array:
    """What was written, as the descriptor sees it."""
    return output if np.may_share_memory(result, output) else result.reshape(output.shape)


def _max_pooling(desc: Any, graph: Graph) -> None:
    names = [f"y{i}" for i in range(len(graph.outputs))]
    graph.outputs[1:] = [np.empty(array.shape, np.int64) for array in graph.outputs[1:]]
    pads = [*desc.start_padding, *desc.end_padding]
    window, strides = list(desc.window_size), list(desc.strides)
    graph.node("MaxPool", ["x0"], names, kernel_shape=window, strides=strides, pads=pads)


def _slice(desc: Any, graph: Graph) -> None:
    slices = strided_window(desc)
    before_first = -(2**31)
    graph.node(
        "Slice",
        [
            "x0",
            graph.integers("starts", [part.start for part in slices]),
            graph.integers("ends", [before_first if part.stop is None else part.stop for part in slices]),
            graph.integers("axes", range(len(slices))),
            graph.integers("steps", [part.step for part in slices]),
        ],
        ["y0"],
    )


def _split(desc: Any, graph: Graph) -> None:
    sizes = graph.integers("sizes", [y.shape[desc.axis] for y in graph.outputs])
    graph.node("Split", ["x0", sizes], [f"y{i}" for i in range(len(graph.outputs))], axis=desc.axis)


def _join(desc: Any, graph: Graph) -> None:
    graph.node("Concat", [f"x{i}" for i in range(len(graph.inputs))], ["y0"], axis=desc.axis)


def _padding(desc: Any, graph: Graph) -> None:
    modes = {PaddingMode.CONSTANT: "constant", PaddingMode.EDGE: "edge", PaddingMode.REFLECTION: "reflect"}
    amounts = graph.integers("amounts", [*desc.start_padding, *desc.end_padding])
    graph.node("Pad", ["x0", amounts], ["y0"], mode=modes[desc.padding_mode])


def _tile(desc: Any, graph: Graph) -> None:
    graph.node("Tile", ["x0", graph.integers("repeats", desc.repeats)], ["y0"])


def _cast(desc: Any, graph: Graph) -> None:
    graph.node("Cast", ["x0"], ["y0"], to=helper.np_dtype_to_tensor_dtype(graph.outputs[0].dtype))


def _identity(desc: Any, graph: Graph) -> None:
    """A copy, or a transposition of the dimensions as they lie in memory."""
    orders = [_memory_order(array) for array in (graph.inputs[0], graph.outputs[0])]
    graph.inputs[0] = graph.inputs[0].transpose(orders[0])
    graph.outputs[0] = graph.outputs[0].transpose(orders[1])
    if orders[0] == orders[1]:
        graph.node("Identity", ["x0"], ["y0"])
    else:
        graph.node("Transpose", ["x0"], ["y0"], perm=[orders[0].index(axis) for axis in orders[1]])


def _memory_order(array: Array) -> list[int]:
    return sorted(range(array.ndim), key=lambda axis: -array.strides[axis])


def _space_to_depth(desc: Any, graph: Graph) -> None:
    if desc.order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        graph.node("SpaceToDepth", ["x0"], ["y0"], blocksize=desc.block_size)
        return
    deep, order = block_shapes(graph.outputs[0].shape, desc.block_size, desc.order)
    wide = graph.integers("wide", [deep[axis] for axis in order])
    graph.node("Reshape", ["x0", wide], ["blocks"])
    graph.node("Transpose", ["blocks"], ["moved"], perm=[order.index(axis) for axis in range(6)])
    graph.node("Reshape", ["moved", graph.integers("shape", graph.outputs[0].shape)], ["y0"])


def _depth_to_space(desc: Any, graph: Graph) -> None:
    mode = "DCR" if desc.order is DepthSpaceOrder.DEPTH_COLUMN_ROW else "CRD"
    graph.node("DepthToSpace", ["x0"], ["y0"], blocksize=desc.block_size, mode=mode)


def _plain(kind: str, **attributes: Any) -> Callable[[Any, Graph], None]:
    """One node of all inputs."""
    return lambda desc, graph: graph.node(kind, graph.names(), ["y0"], **attributes)


def _greater(desc: Any, graph: Graph) -> None:
    graph.outputs[0] = graph.outputs[0].view(np.bool_)
    graph.node("Greater", ["x0", "x1"], ["y0"])


def _if(desc: Any, graph: Graph) -> None:
    graph.inputs[0] = graph.inputs[0].view(np.bool_)
    graph.node("Where", ["x0", "x1", "x2"], ["y0"])


def _clip(desc: Any, graph: Graph) -> None:
    type = graph.inputs[0].dtype
    limits = [graph.constant(name, np.array(limit, type)) for name, limit in (("min", desc.min), ("max", desc.max))]
    graph.node("Clip", ["x0", *limits], ["y0"])


def _leaky_relu(desc: Any, graph: Graph) -> None:
    graph.node("LeakyRelu", ["x0"], ["y0"], alpha=desc.alpha)


def _softmax(desc: Any, graph: Graph) -> None:
    graph.node("Softmax", ["x0"], ["y0"], axis=desc.axes[0])


def _log_softmax(desc: Any, graph: Graph) -> None:
    graph.node("LogSoftmax", ["x0"], ["y0"], axis=desc.axes[0])


def _mean_variance_normalization(desc: Any, graph: Graph) -> None:
    graph.flatten(1, 2)
    if len(desc.axes) > 1:
        batch, groups, *_, height, width = desc.input_tensor.sizes
        for arrays in (graph.inputs, graph.outputs):
            arrays[0] = arrays[0].reshape(batch, -1, height, width)
        is_alone = groups == graph.inputs[0].shape[1]
        kind, parameters = ("InstanceNormalization", {}) if is_alone else ("GroupNormalization", {"num_groups": groups})
        graph.node(kind, graph.names(), ["y0"], epsilon=desc.epsilon, **parameters)
        return
    graph.node("LayerNormalization", ["x0", "x1", "x2"], ["y0"], axis=-1, epsilon=desc.epsilon)


def _local_response_normalization(desc: Any, graph: Graph) -> None:
    graph.node("LRN", ["x0"], ["y0"], size=desc.local_size, alpha=desc.alpha, beta=desc.beta, bias=desc.bias)


def _running_sum(desc: Any, graph: Graph) -> None:
    graph.node("CumSum", ["x0", graph.constant("axis", np.array(desc.axis, np.int64))], ["y0"])


def _batch_normalization(desc: Any, graph: Graph) -> None:
    graph.flatten(1, 2, 3, 4)
    graph.node("BatchNormalization", ["x0", "x3", "x4", "x1", "x2"], ["y0"], epsilon=desc.epsilon)


def _scale_bias_relu(chain: Any, graph: Graph) -> None:
    graph.node("Mul", ["x0", "x1"], ["scaled"])
    graph.node("Add", ["scaled", "x2"], ["sum"])
    graph.node("Relu", ["sum"], ["y0"])


def _add_layer_normalization(chain: Any, graph: Graph) -> None:
    graph.flatten(2, 3)
    graph.node("Add", ["x0", "x1"], ["sum"])
    graph.node("LayerNormalization", ["sum", "x2", "x3"], ["y0"], axis=-1, epsilon=1e-5)


def _bias_gelu(chain: Any, graph: Graph) -> None:
    graph.flatten(1)
    graph.node("Add", ["x0", "x1"], ["sum"])
    graph.node("Gelu", ["sum"], ["y0"])


def _residual_relu(chain: Any, graph: Graph) -> None:
    graph.flatten(2, 3, 4, 5)
    graph.node("BatchNormalization", ["x0", "x4", "x5", "x2", "x3"], ["normalized"], epsilon=1e-5)
    graph.node("Add", ["normalized", "x1"], ["sum"])
    graph.node("Relu", ["sum"], ["y0"])


def _gated_sigmoid(chain: Any, graph: Graph) -> None:
    graph.node("Sigmoid", ["x0"], ["gate"])
    graph.node("Mul", ["gate", "x0"], ["gated"])
    graph.node("Mul", ["gated", "x1"], ["y0"])


def _reduce(desc: Any, graph: Graph) -> None:
    if desc.function is not ReduceFunction.ARGMAX:
        graph.node(_REDUCTIONS[desc.function], ["x0", graph.integers("axes", desc.axes)], ["y0"], keepdims=1)
        return
    axis = desc.axes[0]
    if len(desc.axes) == graph.inputs[0].ndim:
        axis, graph.inputs[0] = 0, graph.inputs[0].reshape(-1)
        graph.outputs[0] = graph.outputs[0].reshape(-1)
    graph.outputs[0] = np.empty(graph.outputs[0].shape, np.int64)
    graph.node("ArgMax", ["x0"], ["y0"], axis=axis, keepdims=1)


_REDUCTIONS = {ReduceFunction.SUM: "ReduceSum", ReduceFunction.MAX: "ReduceMax", ReduceFunction.AVERAGE: "ReduceMean"}


def _gemm(desc: Any, graph: Graph) -> None:
    graph.node("MatMul", ["x0", "x1"], ["y0"])


def _convolution(desc: Any, graph: Graph) -> None:
    is_forward = desc.direction is ConvolutionDirection.FORWARD
    graph.node(
        "Conv" if is_forward else "ConvTranspose",
        ["x0", "x1"],
        ["y0"],
        strides=list(desc.strides),
        dilations=list(desc.dilations),
        pads=[*desc.start_padding, *desc.end_padding],
        group=desc.group_count,
        **({} if is_forward else {"output_padding": list(desc.output_padding)}),
    )


def _integer_product(desc: Any, graph: Graph) -> None:
    graph.node("MatMulInteger", ["x0", "x1"], ["y0"])


def _quantized_convolution(desc: Any, graph: Graph) -> None:
    """Zero points are obligatory there: constants of 0."""
    graph.flatten(1, 3, 4)
    zero = graph.constant("zero", np.zeros((), np.uint8))
    zeros = graph.constant("zeros", np.zeros(desc.filter_tensor.sizes[0], np.int8))
    names = ["x0", "x1", zero, "x2", "x3", zeros, "x4", zero]
    pads = [*desc.start_padding, *desc.end_padding]
    graph.node("QLinearConv", names, ["y0"], strides=list(desc.strides), pads=pads)


def _recurrent(desc: Any, graph: Graph) -> None:
    graph.inputs[:] = [array[0] for array in graph.inputs]
    graph.inputs[3] = graph.inputs[3][0]
    attributes = {"linear_before_reset": 1} if isinstance(desc, operators.Gru) else {}
    hidden = desc.recurrence_tensor.sizes[-1]
    graph.node(desc.type.name, graph.names(), ["y0"], hidden_size=hidden, **attributes)


def _attention(desc: Any, graph: Graph) -> None:
    names = iter(graph.names())
    has_bias, has_past = desc.relative_position_bias_tensor is not None, desc.past_key_tensor is not None
    given = [True] * 3 + [False] * 2 + [has_bias] + [has_past] * 2
    inputs = [next(names) if is_given else "" for is_given in given]
    while not inputs[-1]:
        inputs.pop()
    # Without the keys and values for the next call it leaves out those of the past.
    outputs = ["y0", *["present_key", "present_value"] * has_past]
    graph.node("MultiHeadAttention", inputs, outputs, domain="com.microsoft", num_heads=desc.head_count)


def _gather(desc: Any, graph: Graph) -> None:
    graph.flatten(1)
    graph.node("Gather", graph.names(), ["y0"], axis=desc.axis)


def _by_elements(kind: str) -> Callable[[Any, Graph], None]:
    return lambda desc, graph: graph.node(kind, graph.names(), ["y0"], axis=desc.axis)


def _region_align(desc: Any, graph: Graph) -> None:
    graph.inputs[2] = graph.inputs[2].astype(np.int64)
    height, width = desc.output_tensor.sizes[2:]
    is_fixed = desc.minimum_samples_per_output == desc.maximum_samples_per_output
    graph.node(
        "RoiAlign",
        graph.names(),
        ["y0"],
        output_height=height,
        output_width=width,
        sampling_ratio=desc.minimum_samples_per_output if is_fixed else 0,
        coordinate_transformation_mode="half_pixel",
    )


def _region_pooling(desc: Any, graph: Graph) -> None:
    graph.inputs[1] = graph.inputs[1][0, 0]
    graph.node("MaxRoiPool", graph.names(), ["y0"], pooled_shape=list(desc.output_tensor.sizes[2:]))


_TRANSLATIONS: dict[type[Work], Callable[[Any, Graph], None]] = {
    operators.MaxPooling: _max_pooling,
    operators.MaxPooling1: _max_pooling,
    operators.Slice1: _slice,
    operators.Split: _split,
    operators.Join: _join,
    operators.Padding: _padding,
    operators.Tile: _tile,
    operators.Cast: _cast,
    operators.ElementWiseIdentity: _identity,
    operators.SpaceToDepth1: _space_to_depth,
    operators.DepthToSpace1: _depth_to_space,
    operators.ElementWiseAdd: _plain("Add"),
    operators.ElementWiseMultiply: _plain("Mul"),
    operators.ElementWiseDivide: _plain("Div"),
    operators.ElementWiseExp: _plain("Exp"),
    operators.ElementWiseSqrt: _plain("Sqrt"),
    operators.ElementWiseErf: _plain("Erf"),
    operators.ElementWiseClip: _clip,
    operators.ElementWiseLogicalGreaterThan: _greater,
    operators.ElementWiseIf: _if,
    operators.ActivationRelu: _plain("Relu"),
    operators.ActivationLeakyRelu: _leaky_relu,
    operators.ActivationSigmoid: _plain("Sigmoid"),
    operators.ActivationTanh: _plain("Tanh"),
    operators.ActivationGelu: _plain("Gelu"),
    operators.ActivationSoftplus: _plain("Softplus"),
    operators.ActivationSoftmax1: _softmax,
    operators.ActivationLogSoftmax1: _log_softmax,
    operators.MeanVarianceNormalization1: _mean_variance_normalization,
    operators.LocalResponseNormalization: _local_response_normalization,
    operators.CumulativeSummation: _running_sum,
    operators.BatchNormalization: _batch_normalization,
    chains.ScaleBiasRelu: _scale_bias_relu,
    chains.AddLayerNormalization: _add_layer_normalization,
    chains.BiasGelu: _bias_gelu,
    chains.ResidualRelu: _residual_relu,
    chains.GatedSigmoid: _gated_sigmoid,
    operators.Reduce: _reduce,
    operators.Gemm: _gemm,
    operators.Convolution: _convolution,
    operators.MatrixMultiplyInteger: _integer_product,
    operators.QuantizedLinearConvolution: _quantized_convolution,
    operators.Rnn: _recurrent,
    operators.Gru: _recurrent,
    operators.Lstm: _recurrent,
    operators.MultiheadAttention: _attention,
    operators.Gather: _gather,
    operators.GatherElements: _by_elements("GatherElements"),
    operators.ScatterElements: _by_elements("ScatterElements"),
    operators.ScatterNd: _plain("ScatterND"),
    operators.RoiAlign: _region_align,
    operators.RoiPooling: _region_pooling,
}
