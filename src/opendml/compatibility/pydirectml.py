"""PyDirectML's interface, the binding of DirectMLX for Microsoft's samples: a script runs with one line changed.

    import opendml.compatibility.pydirectml as dml  # was: import pydirectml as dml

    device = dml.Device()
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 2, 2]))
    y = dml.activation_relu(x)
    model = builder.build(dml.ExecutionFlags.NONE, [y])
    (result,) = device.compute(model, [dml.Binding(x, array)], [y])

A script that stays as it is finds this behind ``sys.modules["pydirectml"] = opendml.compatibility.pydirectml``.
What differs: data is converted to the type of its tensor, not to float32 whatever that is; data that is too small is
refused; ``number / expression`` divides; ``x += y`` makes a new expression and leaves other names of the old one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import opendml
from opendml.compatibility import expression_functions as functions
from opendml.compatibility.expression_functions import (
    activation_identity,
    activation_relu,
    activation_sigmoid,
    activation_tanh,
    divide,
    multiply,
    subtract,
)
from opendml.compatibility.expressions import (
    ENUMERATIONS,
    Described,
    FusedActivation,
    TensorPolicy,
    as_buffer,
)
from opendml.compatibility.expressions import Expression as _Expression
from opendml.compatibility.expressions import GRUOutputOptions as OutputOptions
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)
from opendml.description.errors import BindingError, DescriptorArgumentError
from opendml.description.quoting import quoted

__all__ = [
    "Binding",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "Dimensions",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputs",
    "GraphBuilder",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "Model",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "Size2D",
    "TensorData",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "input_tensor",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "up_sample_2d",
    "value_scale_2d",
]

Array = npt.NDArray[Any]
Dimensions = list


def __getattr__(name: str) -> Any:
    """Members of the enumerations are names of the module, too: ``dml.FLOAT32``."""
    for enumeration in ENUMERATIONS:
        if name in enumeration.__members__:
            return enumeration[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ---- tensors


class TensorDesc(Described):
    """A tensor, in one of four forms.

    ``(data_type, sizes, tensor_policy)``, ``(data_type, flags, sizes, tensor_policy)``,
    ``(data_type, sizes, strides)``, and ``(data_type, flags, sizes, strides, total_tensor_size_in_bytes,
    guaranteed_base_offset_alignment)``. Raises DescriptorArgumentError, a TypeError, for any other.
    """

    def __init__(self, data_type: TensorDataType, *given: Any, **named: Any) -> None:
        values = list(given)
        has_flags = "flags" in named or (bool(values) and isinstance(values[0], TensorFlags))
        flags = named.pop("flags", None) if "flags" in named else values.pop(0) if has_flags else TensorFlags.NONE
        names = ["sizes", "strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"]
        if len(values) > 1 and isinstance(values[1], TensorPolicy):
            names[1] = "tensor_policy"
        fields = {**dict(zip(names, values, strict=False)), **named}
        unknown = set(fields) - {*names, "tensor_policy"}
        if len(values) > len(names) or unknown or "sizes" not in fields:
            wrong = f"{quoted(sorted(unknown))} is no field of it" if unknown else "a type, flags, sizes, strides ..."
            raise DescriptorArgumentError(f"TensorDesc: {wrong}; see its documentation for its four forms")
        sizes, strides = list(fields["sizes"]), fields.get("strides")
        policy: TensorPolicy = fields.get("tensor_policy") or TensorPolicy.default
        self.inner = opendml.TensorDesc(
            data_type,
            sizes,
            policy.strides(sizes) if strides is None else list(strides),
            flags=flags,
            total_size_in_bytes=fields.get("total_tensor_size_in_bytes"),
            guaranteed_base_offset_alignment=fields.get("guaranteed_base_offset_alignment", 0),
        )

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {int(self.data_type)} and shape [{sizes}] with flags {int(self.flags)}"


class TensorData(np.ndarray[Any, np.dtype[Any]]):
    """What a computation gives, or data for it: an array."""

    def __new__(cls, data: Any) -> TensorData:
        """A copy of ``data`` as float32."""
        return np.array(data, np.float32).view(cls)


class Expression(_Expression):
    """A tensor of a graph. Arithmetic with expressions of the same sizes and type, and with numbers, gives others."""

    __slots__ = ()

    def get_output_desc(self) -> TensorDesc:
        """The tensor's description."""
        return TensorDesc.of(self.tensor.desc)

    def __mod__(self, other: object) -> Any:
        return self._with("%", other, _truncated_modulus)


def _truncated_modulus(a: Any, b: Any) -> Any:
    """The remainder with the sign of the dividend, as DirectMLX's operator has it."""
    return opendml.modulus_truncate(a, b)


class Binding:
    """Data for an input: a copy, of the type and in the layout of its tensor.

    Raises BindingError, a ValueError, for data that does not fill the tensor's buffer.
    """

    def __init__(self, expr: Expression, data: Any) -> None:
        self.desc = expr.get_output_desc()
        desc = self.desc.inner
        array = np.array(data, desc.data_type.dtype)
        if desc.is_packed and array.size > desc.element_count:
            array = array.reshape(-1)[: desc.element_count]
        self.data = as_buffer(array, desc)


@dataclass
class Size2D:
    """A width and a height."""

    width: int
    height: int


@dataclass
class MaxPoolingOutputs:
    """The maxima, and where they were, if that was asked for."""

    values: Any
    indices: Any = None


@dataclass
class GRUOutputs:
    """All hidden states, and the last one; None for what was not asked for."""

    sequence: Any
    single: Any


# ---- devices, graphs


class Device:
    """Where models are compiled and run. ``name`` is that of a ``dml.Device`` of opendml."""

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False, name: str = "cpu") -> None:
        self.use_gpu = bool(use_gpu)
        self.inner = opendml.Device(name)

    def __repr__(self) -> str:
        return f"dml.Device on {self.inner.name}"

    def compute(self, model: Model, inputs: Sequence[Binding], outputs: Sequence[Expression]) -> list[TensorData]:
        """The outputs that the model was built for, of inputs in the order of their indices.

        Inputs that are OWNED_BY_DML are laid out when they change. Raises BindingError, a ValueError.
        """
        return model.run(list(inputs), len(outputs))


class Model:
    """What ``GraphBuilder.build`` makes and ``Device.compute`` runs."""

    def __init__(self, program: opendml.GraphProgram, names: Sequence[str], output_count: int) -> None:
        self._program, self._names, self._output_count = program, names, output_count
        descs = {binding.name: binding.desc for binding in program.inputs}
        self._owned = [name for name in names if (desc := descs[name]) is not None and desc.is_owned_by_dml]
        self._initialized: list[Binding] = []
        self._lock = threading.Lock()

    def run(self, inputs: list[Binding], output_count: int) -> list[TensorData]:
        """See ``Device.compute``."""
        if len(inputs) != len(self._names) or output_count != self._output_count:
            expected = f"{len(self._names)} inputs and {self._output_count} outputs"
            raise BindingError(f"the model has {expected}, got {len(inputs)} and {output_count}")
        given = dict(zip(self._names, inputs, strict=True))
        weights = [given.pop(name) for name in self._owned]
        with self._lock:
            if weights != self._initialized:  # bindings are equal where they are the same ones
                data = {name: one.data for name, one in zip(self._owned, weights, strict=True)}
                if data:
                    self._program.initialize(**data)
                self._initialized = weights
            results = self._program(**{name: binding.data for name, binding in given.items()})
        return [np.asarray(one).view(TensorData) for one in results]


class GraphBuilder:
    """A graph under construction."""

    def __init__(self, device: Device) -> None:
        self._graph = opendml.Graph(device.inner)
        self._names: dict[int, str] = {}

    def input(self, input_index: int, desc: TensorDesc) -> Expression:
        """See ``input_tensor``."""
        if not isinstance(input_index, int) or input_index < 0 or input_index in self._names:
            raise BindingError(f"input_index={quoted(input_index)}: expected a number that no other input has")
        inner = desc.inner
        name = f"input{input_index}"
        tensor = self._graph.input(
            inner.data_type, inner.sizes, name, inner.strides, bool(inner.flags & TensorFlags.OWNED_BY_DML)
        )
        self._names[input_index] = name
        return Expression(tensor)

    def build(self, flags: ExecutionFlags, outputs: Sequence[Expression]) -> Model:
        """Compiles expressions. Raises InvalidDescriptorError, a ValueError."""
        missing = [index for index in range(len(self._names)) if index not in self._names]
        if missing:
            raise BindingError(f"there are inputs of higher indices than {missing[0]}, which no input has")
        tensors = [one.tensor if one.tensor.desc.is_packed else one.tensor.packed() for one in outputs]
        program = self._graph.compile(tensors, execution_flags=flags)
        return Model(program, [self._names[index] for index in sorted(self._names)], len(tensors))


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """An input of a graph; bindings are given in the order of the indices."""
    return scope.input(input_index, tensor_desc)


# ---- operators

Numbers = Sequence[int]
Fused = FusedActivation | None


def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """``alpha * x + beta``."""
    return functions.activation("linear", input, alpha=alpha, beta=beta)


def activation_soft_max(input: Expression) -> Expression:
    """Softmax along the last axis."""
    return functions.softmax(input)


def add(a: Expression, b: Expression, fused_activation: Fused = None) -> Expression:
    """``a + b``."""
    return functions.add(a, b, fused_activation)


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Numbers = (),
    dilations: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    output_padding: Numbers = (),
    group_count: int = 1,
    fused_activation: Fused = None,
    output_sizes: Numbers = (),
) -> Expression:
    """CONVOLUTION; empty lists stand for the defaults."""
    return functions.convolution(
        input,
        filter,
        bias,
        mode=mode,
        direction=direction,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        output_padding=output_padding,
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes,
    )


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D."""
    size = scale_size.width, scale_size.height
    return functions.upsample_2d(input, size, interpolation_mode)


def padding(
    input: Expression, padding_mode: PaddingMode, padding_value: float, start_padding: Numbers, end_padding: Numbers
) -> Expression:
    """PADDING."""
    return functions.padding(input, padding_mode, padding_value, start_padding, end_padding)


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Numbers = (),
    normalize_variance: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Fused = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1."""
    return functions.mean_variance_normalization(
        input,
        scale,
        bias,
        axes=axes,
        normalize_variance=normalize_variance,
        normalize_mean=True,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


def slice(
    input: Expression, input_window_offsets: Numbers, input_window_sizes: Numbers, input_window_strides: Numbers
) -> Expression:
    """SLICE1."""
    return functions.slice(input, input_window_offsets, input_window_sizes, input_window_strides)


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D."""
    return functions.value_scale_2d(input, scale, bias)


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool,
    epsilon: float,
    fused_activation: Fused = None,
) -> Expression:
    """BATCH_NORMALIZATION."""
    return functions.batch_normalization(
        input, mean, variance, scale, bias, spatial=spatial, epsilon=epsilon, fused_activation=fused_activation
    )


def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION."""
    return functions.local_response_normalization(
        input, cross_channel=cross_channel, local_size=local_size, alpha=alpha, beta=beta, bias=bias
    )


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: Fused = None,
) -> Expression:
    """GEMM."""
    return functions.gemm(
        a, b, c, trans_a=trans_a, trans_b=trans_b, alpha=alpha, beta=beta, fused_activation=fused_activation
    )


def average_pooling(
    input: Expression,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    include_padding: bool,
) -> Expression:
    """AVERAGE_POOLING."""
    return functions.average_pooling(
        input,
        strides=strides,
        window_sizes=window_sizes,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=(),
        include_padding=include_padding,
        output_sizes=(),
    )


def max_pooling(
    input: Expression,
    window_sizes: Numbers,
    strides: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """MAX_POOLING; ``indices`` are None where they are not asked for."""
    values, indices = functions.max_pooling(
        input,
        window_sizes=window_sizes,
        strides=strides,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        output_indices=output_indices,
    )
    return MaxPoolingOutputs(values, indices)


def reinterpret(
    input: Expression, new_type: TensorDataType, new_size: Numbers, new_strides: Numbers | None
) -> Expression:
    """The same bytes with other sizes, strides or another type."""
    return functions.reinterpret(input, new_type, new_size, new_strides)


def join(input: Sequence[Expression], axis: int) -> Expression:
    """JOIN."""
    return functions.join(input, axis)  # type: ignore[no-any-return]


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    *,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection,
    linear_before_reset: bool = True,
    output_options: OutputOptions,
) -> GRUOutputs:
    """GRU."""
    sequence, single = functions.gru(
        (input, weight, recurrence, bias, hidden_init, sequence_lengths),
        activation_descs=activation_descs,
        direction=direction,
        linear_before_reset=linear_before_reset,
        output_options=output_options,
    )
    return GRUOutputs(sequence, single)


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """GATHER."""
    return functions.gather(input, indices, axis, index_dimensions)
